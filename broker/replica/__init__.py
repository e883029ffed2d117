"""The partitions of this broker: appends as their leader, acknowledgements, high watermarks.

`replica_manager` holds every partition and appends to many at once (`append` has the entries and the results);
`partition` is one of them with its in-sync replicas, its epoch and its log; `delayed_produce` waits for
acknowledgements and `delayed_delete_records` for low watermarks; `log_flusher` shares fsyncs between the requests
that wait for one; `replication_traffic` counts what brokers copy from each other; `moves/` takes replicas from one log
directory to another.

Called by kafka_apis, fetch, coordinator and controller. It knows storage, metadata and waiting.
"""
