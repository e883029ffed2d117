"""Quotas of clients: how much a user or a client id may produce, fetch, have handled and change, and what follows.

`rate` and `token_bucket` measure, to the millisecond as Kafka does. `limits` knows which quota is in force for whom,
`client_quotas` counts for one type of quota, `mutation_quotas` is the one for changes to topics; `quota_managers` are
all of them, kept in line with the metadata; `request_meter` is what one request is charged with. `quota_callback` is
the hook for quotas that do not come from the metadata, `sanitizer` writes names for it and for metrics.

kafka_apis has a meter for each request while there are quotas, handlers ask it, and network (which also measures new
connections with a Rate) does not read a connection whose answer was throttled. Nothing here knows sockets or the event
loop: times come in as numbers. Sources: org.apache.kafka.server.quota, org.apache.kafka.common.metrics.stats.
"""
