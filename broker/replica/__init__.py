"""The partitions that this broker has: appending as their leader, acknowledgements, high watermarks.

`replica_manager` holds every partition and appends to many at once (`append` has what goes in and what comes of it);
`partition` is one of them with its in-sync replicas, its epoch and its log; `delayed_operations` wait for
acknowledgements; `log_flusher` shares fsyncs between those who wait for one; `moves/` takes replicas from one log
directory to another.

Called by kafka_apis, fetch, coordinator and controller. It knows storage, metadata and waiting.
"""
