"""One broker's logs on disk, in Apache Kafka's own format. Synchronous; usable without a broker.

The rooms from the bottom: `env` (files, clock, randomness) < `segment` (a .log file with its indexes) < `log` (one
partition's log) < `manager` (log directories and the logs in them) < `cleaner` (compaction); `verify` checks
directories and changes nothing. `worker` is the process that compacts.
"""

if __name__ != "barnabas.storage":  # from the root of a checkout; each module is to exist once
    raise ImportError(f"import barnabas.storage instead of {__name__}")
