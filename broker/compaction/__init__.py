"""Compaction in a running broker: when each log is compacted, in which worker process, and what is reported of it.

`scheduler` (Kafka's LogCleaner) decides, `worker_pool` has the processes, `reports` writes the log lines and figures,
`status` answers requests of users. The work itself is storage.cleaner. Called by startup and http.
"""
