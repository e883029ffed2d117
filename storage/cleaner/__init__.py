"""Compaction, from files to files (Kafka's Cleaner and LogCleanerManager).

`log_to_clean` computes how dirty a log is, `manager` chooses the next one, `cleaner` compacts it: it fills an
`offset_map`, passes every batch through `batch_filter`, and writes `cleaned_segment`s.
"""
