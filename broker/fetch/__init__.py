"""Reading: fetch sessions, reads from many partitions at once, and fetches that wait for enough bytes.

`session` keeps what a consumer has named (KIP-227), `partition` is one partition of a fetch, `context` is one request
with the answer it gets, `reader` reads, `delayed` waits in purgatory, `out_of_range` reports consumers whose offset is
not in the log.

Called by kafka_apis.handlers.fetch, and by coordinators that load their logs.
"""
