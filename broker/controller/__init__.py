"""The embedded controller: turns requests into metadata records. Each module has the rules of one subject.

The rules (`topic_admin`, `partition_admin`, `config_admin`, `quota_admin`, ...) are pure functions from an image and a
request to records, or to the error that Kafka's controller gives; `embedded` makes records durable and publishes them.
`registration` records the start and stop of the node, `producer_ids` reserves blocks of ids, `directory_assignment` and
`log_dir_admin` follow where replicas lie.

Called by kafka_apis and startup. It knows metadata, replica and waiting. Source: org.apache.kafka.controller.
"""
