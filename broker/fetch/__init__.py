"""Reading: fetch sessions, reads from many partitions at once, and fetches that wait for enough bytes.

`manager` turns a request into a `context`: what it reads, and how it is answered. `session` owns what a consumer has
named and the states of that (KIP-227), with the table of them; `partition` is one partition of a fetch, `cache` has the
sessions by id. `reader` reads, at once or later; `delayed_fetch` waits in purgatory; `out_of_range` reports consumers
whose offset is not in the log.

Called by kafka_apis.handlers.fetch. It knows replica and what is below; replica does not know it.
"""
