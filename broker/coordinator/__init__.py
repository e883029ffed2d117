"""Coordinators: state machines whose state is the replay of a partition's records.

`runtime` finds the shard of a key, `shard_runner` runs operations on it, `record_queue` writes their records in
batches, `loading` replays a partition, `timers` run operations later. `group/` and `transaction/` are the two kinds of
shards; `assembly` builds both.

Called by kafka_apis.handlers and startup. It knows replica (to append), controller, metadata and waiting.
"""
