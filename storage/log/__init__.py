"""One partition's log: segments in order, what is appended to them, and what is known of producers and leader epochs.

`unified_log` is what the broker knows; `local_log` is the segments under it, without Kafka's semantics; `validator`
checks and stamps what a leader appends; `producer_state`, `leader_epochs` and `checkpoints` each keep a file on disk;
`retention`, `deletion` and `flush` are what happens to segments later. Knows storage.segment.segment only.
"""
