"""One partition's log: segments in order, appends, producers and leader epochs.

`unified_log` is the log as the broker sees it, with its `log_offsets`; `local_log` is the segments under it, without
Kafka's semantics; `validator` checks and stamps the batches that a leader appends; `producer_state`, `leader_epochs`
and `checkpoints` each keep a file on disk; `retention`, `deletion` and `flush` act on segments later, `disk_space`
rejects appends when the disk is full. Knows storage.segment and what is below.
"""
