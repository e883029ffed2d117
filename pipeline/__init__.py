"""The data pipeline: Spark over the broker and over its log directories."""

if __name__ != "barnabas.pipeline":  # from the root of a checkout; each module is to exist once
    raise ImportError(f"import barnabas.pipeline instead of {__name__}")
