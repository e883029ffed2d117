"""Compaction, from files to files (Kafka's Cleaner and LogCleanerManager).

`log_to_clean` says how dirty a log is, `manager` which one is next, `cleaner` compacts it: it fills an `offset_map`,
asks `batch_filter` of every batch, and writes `cleaned_segment`s.
"""
