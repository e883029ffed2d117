"""Reading: fetch sessions, reads from many partitions at once, and fetches that wait for enough bytes.

`manager` turns a request into a `context`: the partitions to read, and the response. `session` owns the partitions
that a reader has named and their states (KIP-227); `partition` is one partition of a fetch, `cache` has the
sessions by id. `reader` reads, at once or later; `delayed_fetch` waits in purgatory; `leader_throttle` has
the replication quota of followers, `preferred_replica` the replica that a consumer should read from; `out_of_range`
reports consumers whose offset is not in the log.

Called by kafka_apis.handlers.fetch. It knows replica and what is below; replica does not know it.
"""
