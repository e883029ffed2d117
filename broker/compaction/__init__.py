"""Compaction in the life of a broker: which log is compacted when, in which worker process, and what is reported of it.

`scheduler` (Kafka's LogCleaner) decides, `worker_pool` has the processes, `reports` writes the log lines and figures,
`status` answers what users ask. The work itself is storage.cleaner. Called by startup and http.
"""
