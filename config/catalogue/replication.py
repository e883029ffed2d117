"""Broker keys for replicas: how followers fetch, when they count as in sync, who may become leader.

Source: ReplicationConfigs.
"""

from barnabas.config.catalogue.use import (
    ACTED,
    CONTROLLERS_ELECT,
    IN_CLUSTER,
    NO_PURGATORY_PURGE,
    TIERING_LATER,
)
from barnabas.config.keys import CLUSTER_WIDE, HIGH, MEDIUM, KeySet
from barnabas.config.validators import OneOf, at_least

SECURITY_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")

keys = KeySet()

DEFAULT_REPLICATION_FACTOR = keys.int_("default.replication.factor", 1, MEDIUM, ACTED).doc(
    "How many replicas a topic gets when its creator names no number; never more than there are brokers."
)
UNCLEAN_LEADER_ELECTION_ENABLE = keys.boolean(
    "unclean.leader.election.enable", False, HIGH, CONTROLLERS_ELECT, None, CLUSTER_WIDE
).doc(
    "Whether a replica that was not in sync may become leader when no other is left, at the price of lost "
    "records."
)
UNCLEAN_LEADER_ELECTION_INTERVAL_MS = keys.long(
    "unclean.leader.election.interval.ms", 300_000, MEDIUM, CONTROLLERS_ELECT, at_least(1), internal=True
).doc("How often the controller looks for partitions that only an unclean election can help.")

# When a follower is in sync.

REPLICA_LAG_TIME_MAX_MS = keys.long("replica.lag.time.max.ms", 30_000, HIGH, IN_CLUSTER).doc(
    "A follower that has not caught up with its leader for this long is removed from the in-sync replicas."
)
REPLICA_HIGH_WATERMARK_CHECKPOINT_INTERVAL_MS = keys.long(
    "replica.high.watermark.checkpoint.interval.ms", 5_000, HIGH, ACTED
).doc("How often the high watermarks are written down.")
REPLICA_SELECTOR_CLASS = keys.optional_string("replica.selector.class", None, MEDIUM, IN_CLUSTER).doc(
    "The class that chooses which replica a consumer reads from. Built in is the one that goes by racks, "
    "org.apache.kafka.common.replica.RackAwareReplicaSelector."
)

# How a follower fetches.

NUM_REPLICA_FETCHERS = keys.int_("num.replica.fetchers", 1, HIGH, IN_CLUSTER, at_least(1), CLUSTER_WIDE).doc(
    "How many fetchers copy from each leader's broker."
)
REPLICA_SOCKET_TIMEOUT_MS = keys.int_("replica.socket.timeout.ms", 30_000, HIGH, IN_CLUSTER).doc(
    "How long a follower waits for an answer; it must be at least replica.fetch.wait.max.ms."
)
REPLICA_SOCKET_RECEIVE_BUFFER_BYTES = keys.int_(
    "replica.socket.receive.buffer.bytes", 64 << 10, HIGH, IN_CLUSTER
).doc("The receive buffer (SO_RCVBUF) of a follower's connection to its leader.")
REPLICA_FETCH_MAX_BYTES = keys.int_("replica.fetch.max.bytes", 1 << 20, MEDIUM, IN_CLUSTER, at_least(0)).doc(
    "How many bytes a follower asks for per partition; a first batch that is larger still comes whole."
)
REPLICA_FETCH_RESPONSE_MAX_BYTES = keys.int_(
    "replica.fetch.response.max.bytes", 10 << 20, MEDIUM, IN_CLUSTER, at_least(0)
).doc("How many bytes a follower asks for in all; a first batch that is larger still comes whole.")
REPLICA_FETCH_WAIT_MAX_MS = keys.int_("replica.fetch.wait.max.ms", 500, HIGH, IN_CLUSTER).doc(
    "How long a leader may hold a follower's fetch until enough bytes are there; well under "
    "replica.lag.time.max.ms."
)
REPLICA_FETCH_MIN_BYTES = keys.int_("replica.fetch.min.bytes", 1, HIGH, IN_CLUSTER).doc(
    "How many bytes a follower waits for."
)
REPLICA_FETCH_BACKOFF_MS = keys.int_("replica.fetch.backoff.ms", 1_000, MEDIUM, ACTED, at_least(0)).doc(
    "How long a follower rests after a fetch that failed."
)
FOLLOWER_FETCH_LAST_TIERED_OFFSET_ENABLE = keys.boolean(
    "follower.fetch.last.tiered.offset.enable", False, MEDIUM, TIERING_LATER, None, CLUSTER_WIDE
).doc(
    "Whether an empty follower of a tiered topic starts at the last tiered offset and skips what is stored "
    "remotely."
)

# Preferred leaders.

AUTO_LEADER_REBALANCE_ENABLE = keys.boolean(
    "auto.leader.rebalance.enable", True, HIGH, CONTROLLERS_ELECT
).doc("Whether leadership goes back to preferred replicas by itself once too many partitions have strayed.")
LEADER_IMBALANCE_CHECK_INTERVAL_SECONDS = keys.long(
    "leader.imbalance.check.interval.seconds", 300, HIGH, CONTROLLERS_ELECT, at_least(1)
).doc("How often the controller looks whether leadership has strayed from the preferred replicas.")

# Brokers among themselves.

CONTROLLER_SOCKET_TIMEOUT_MS = keys.int_("controller.socket.timeout.ms", 30_000, MEDIUM, IN_CLUSTER).doc(
    "How long a request between the controller and a broker may take."
)
INTER_BROKER_LISTENER_NAME = keys.optional_string("inter.broker.listener.name", None, MEDIUM, IN_CLUSTER).doc(
    "The listener by which brokers reach each other; not to be set together with "
    "security.inter.broker.protocol."
)
SECURITY_INTER_BROKER_PROTOCOL = keys.string(
    "security.inter.broker.protocol", "PLAINTEXT", MEDIUM, IN_CLUSTER, OneOf(*SECURITY_PROTOCOLS)
).doc("The security protocol by which brokers reach each other when no listener is named for it.")

# Waiting requests.

FETCH_PURGATORY_PURGE_INTERVAL_REQUESTS = keys.int_(
    "fetch.purgatory.purge.interval.requests", 1_000, MEDIUM, NO_PURGATORY_PURGE
).doc("After how many waiting fetches the finished ones are cleared away.")
PRODUCER_PURGATORY_PURGE_INTERVAL_REQUESTS = keys.int_(
    "producer.purgatory.purge.interval.requests", 1_000, MEDIUM, NO_PURGATORY_PURGE
).doc("After how many waiting produce requests the finished ones are cleared away.")
DELETE_RECORDS_PURGATORY_PURGE_INTERVAL_REQUESTS = keys.int_(
    "delete.records.purgatory.purge.interval.requests", 1, MEDIUM, NO_PURGATORY_PURGE
).doc("After how many waiting DeleteRecords requests the finished ones are cleared away.")
