"""The data pipeline: Spark over the broker and over its log directories. Called by `barnabas pipeline`.

`log_reading` reads directories as Arrow record batches and `spark` is the source over it; `ingest` and `export` move
records between topics and tables; `audit` verifies directories; `decoding` turns values into columns; `report` draws
HTML; `demo` runs all of it. `commands` and `jobs` are the entry points.
"""

if __name__ != "barnabas.pipeline":  # from the root of a checkout; each module must be loaded only once
    raise ImportError(f"import barnabas.pipeline instead of {__name__}")
