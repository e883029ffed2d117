"""The commands of `barnabas`.

`main` has the commands, each imported when it is used. `admin/` is a client of any Kafka cluster, `tools/` reads
directories (dump-log, log verify), `wire/` explains messages and bytes, `storage` formats directories, `config`
checks configurations, `compact` sends requests to a running broker over HTTP. Only `serve` starts a broker, and only
`serve` and `format` import broker.startup.
"""

if __name__ != "barnabas.cli":  # imported from the root of a checkout: modules must not exist twice
    raise ImportError(f"import barnabas.cli instead of {__name__}")
