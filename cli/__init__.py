"""Everything behind `barnabas ...`.

`main` has the commands, each imported when it is asked for. `admin/` is a client of any Kafka cluster, `tools/` reads
directories (dump-log, log verify), `wire/` explains messages and bytes, `storage` formats directories, `config`
explains configurations, `compact` asks a running broker over HTTP. Only `serve` starts a broker, and only `serve` and
`format` import broker.startup.
"""

if __name__ != "barnabas.cli":  # from the root of a checkout; each module is to exist once
    raise ImportError(f"import barnabas.cli instead of {__name__}")
