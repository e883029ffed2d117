"""Broker keys for consumer groups, classic and new (KIP-848), streams groups (KIP-1071) and committed offsets.

Source: GroupCoordinatorConfig, without share groups.
"""

from barnabas.config.catalogue.use import ACTED, NO_BUFFER_CACHE, ONE_LOOP, STREAMS_LATER
from barnabas.config.keys import CLUSTER_WIDE, HIGH, MEDIUM, KeySet
from barnabas.config.validators import ListOf, OneOf, at_least
from barnabas.config.values import INT_MAX

keys = KeySet()

# The coordinator.

GROUP_COORDINATOR_REBALANCE_PROTOCOLS = keys.list_(
    "group.coordinator.rebalance.protocols",
    ("classic", "consumer", "streams"),
    MEDIUM,
    ACTED,
    ListOf("consumer", "classic", "share", "streams"),
).doc("Which kinds of group are served. Deprecated in Kafka 4.3: feature levels decide.")
GROUP_COORDINATOR_THREADS = keys.int_("group.coordinator.threads", 4, HIGH, ONE_LOOP, at_least(1)).doc(
    "How many threads the group coordinator runs."
)
GROUP_COORDINATOR_BACKGROUND_THREADS = keys.int_(
    "group.coordinator.background.threads", 2, HIGH, ONE_LOOP, at_least(1)
).doc("How many threads compute assignments and resolve patterns beside the coordinator.")
GROUP_COORDINATOR_APPEND_LINGER_MS = keys.int_(
    "group.coordinator.append.linger.ms", -1, MEDIUM, ACTED, at_least(-1)
).doc("How long the coordinator gathers records before it writes them; -1 lets the load decide.")
GROUP_COORDINATOR_CACHED_BUFFER_MAX_BYTES = keys.int_(
    "group.coordinator.cached.buffer.max.bytes",
    1_048_588,
    MEDIUM,
    NO_BUFFER_CACHE,
    at_least(524_288),
    CLUSTER_WIDE,
).doc("The largest write buffer that the coordinator keeps for reuse.")

# The topic __consumer_offsets and what is committed to it.

OFFSETS_TOPIC_REPLICATION_FACTOR = keys.short(
    "offsets.topic.replication.factor", 3, HIGH, ACTED, at_least(1)
).doc("How many replicas __consumer_offsets gets; never more than there are brokers.")
OFFSETS_TOPIC_NUM_PARTITIONS = keys.int_("offsets.topic.num.partitions", 50, HIGH, ACTED, at_least(1)).doc(
    "How many partitions __consumer_offsets gets; do not change it once the topic exists."
)
OFFSETS_TOPIC_SEGMENT_BYTES = keys.int_(
    "offsets.topic.segment.bytes", 100 << 20, HIGH, ACTED, at_least(1)
).doc("How large a segment of __consumer_offsets becomes; small ones are compacted sooner and load faster.")
OFFSETS_TOPIC_COMPRESSION_CODEC = keys.int_("offsets.topic.compression.codec", 0, HIGH, ACTED).doc(
    "The codec of __consumer_offsets by number: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd."
)
OFFSETS_LOAD_BUFFER_SIZE = keys.int_("offsets.load.buffer.size", 5 << 20, HIGH, ACTED, at_least(1)).doc(
    "How many bytes are read at a time when groups are loaded; a larger batch still comes whole."
)
OFFSETS_COMMIT_TIMEOUT_MS = keys.int_("offsets.commit.timeout.ms", 5_000, HIGH, ACTED, at_least(1)).doc(
    "How long a commit may wait for the replicas of __consumer_offsets."
)
OFFSETS_RETENTION_MINUTES = keys.int_("offsets.retention.minutes", 10_080, HIGH, ACTED, at_least(1)).doc(
    "How long the offsets of a group without members are kept."
)
OFFSETS_RETENTION_CHECK_INTERVAL_MS = keys.long(
    "offsets.retention.check.interval.ms", 600_000, HIGH, ACTED, at_least(1)
).doc("How often the coordinator looks for offsets that have expired.")
OFFSET_METADATA_MAX_BYTES = keys.int_("offset.metadata.max.bytes", 4_096, HIGH, ACTED).doc(
    "How much text of its own a client may attach to a committed offset."
)

# Classic groups.

GROUP_MIN_SESSION_TIMEOUT_MS = keys.int_("group.min.session.timeout.ms", 6_000, MEDIUM, ACTED).doc(
    "The shortest session timeout that a member of a classic group may ask for."
)
GROUP_MAX_SESSION_TIMEOUT_MS = keys.int_("group.max.session.timeout.ms", 1_800_000, MEDIUM, ACTED).doc(
    "The longest session timeout that a member of a classic group may ask for."
)
GROUP_INITIAL_REBALANCE_DELAY_MS = keys.int_("group.initial.rebalance.delay.ms", 3_000, MEDIUM, ACTED).doc(
    "How long a new classic group waits for further members before its first assignment; 0 lets tests start "
    "at once."
)
GROUP_MAX_SIZE = keys.int_("group.max.size", INT_MAX, MEDIUM, ACTED, at_least(1)).doc(
    "How many members a classic group may have."
)

# Consumer groups of the new protocol.

GROUP_CONSUMER_SESSION_TIMEOUT_MS = keys.int_(
    "group.consumer.session.timeout.ms", 45_000, MEDIUM, ACTED, at_least(1)
).doc("How long a member of a consumer group may be silent before it is removed from the group.")
GROUP_CONSUMER_MIN_SESSION_TIMEOUT_MS = keys.int_(
    "group.consumer.min.session.timeout.ms", 45_000, MEDIUM, ACTED, at_least(1)
).doc("The shortest session timeout that a single consumer group may be given.")
GROUP_CONSUMER_MAX_SESSION_TIMEOUT_MS = keys.int_(
    "group.consumer.max.session.timeout.ms", 60_000, MEDIUM, ACTED, at_least(1)
).doc("The longest session timeout that a single consumer group may be given.")
GROUP_CONSUMER_HEARTBEAT_INTERVAL_MS = keys.int_(
    "group.consumer.heartbeat.interval.ms", 5_000, MEDIUM, ACTED, at_least(1)
).doc("How often members of a consumer group are asked to send heartbeats.")
GROUP_CONSUMER_MIN_HEARTBEAT_INTERVAL_MS = keys.int_(
    "group.consumer.min.heartbeat.interval.ms", 5_000, MEDIUM, ACTED, at_least(1)
).doc("The shortest heartbeat interval that a single consumer group may be given.")
GROUP_CONSUMER_MAX_HEARTBEAT_INTERVAL_MS = keys.int_(
    "group.consumer.max.heartbeat.interval.ms", 15_000, MEDIUM, ACTED, at_least(1)
).doc("The longest heartbeat interval that a single consumer group may be given.")
GROUP_CONSUMER_MAX_SIZE = keys.int_("group.consumer.max.size", INT_MAX, MEDIUM, ACTED, at_least(1)).doc(
    "How many members a consumer group may have."
)
CONSUMER_ASSIGNORS = {
    "uniform": "uniform",
    "range": "range",
    "org.apache.kafka.coordinator.group.assignor.UniformAssignor": "uniform",
    "org.apache.kafka.coordinator.group.assignor.RangeAssignor": "range",
}
"""What group.consumer.assignors may have, by the name under which members ask for it."""

GROUP_CONSUMER_ASSIGNORS = keys.list_(
    "group.consumer.assignors", ("uniform", "range"), MEDIUM, ACTED, ListOf()
).doc(
    "The ways to spread partitions over a consumer group that members may choose from; the first is the default."
)
GROUP_CONSUMER_MIGRATION_POLICY = keys.string(
    "group.consumer.migration.policy",
    "bidirectional",
    MEDIUM,
    ACTED,
    OneOf("DISABLED", "DOWNGRADE", "UPGRADE", "BIDIRECTIONAL", ignore_case=True),
).doc("Whether a group with members may move from the classic protocol to the new one, and back.")
GROUP_CONSUMER_ASSIGNMENT_INTERVAL_MS = keys.int_(
    "group.consumer.assignment.interval.ms", 1_000, MEDIUM, ACTED, at_least(0), CLUSTER_WIDE
).doc("The shortest time between two assignments of a consumer group, so that many joins make one.")
GROUP_CONSUMER_MIN_ASSIGNMENT_INTERVAL_MS = keys.int_(
    "group.consumer.min.assignment.interval.ms", 0, MEDIUM, ACTED, at_least(0)
).doc("The shortest such time that a single consumer group may be given.")
GROUP_CONSUMER_MAX_ASSIGNMENT_INTERVAL_MS = keys.int_(
    "group.consumer.max.assignment.interval.ms", 15_000, MEDIUM, ACTED, at_least(0)
).doc("The longest such time that a single consumer group may be given.")
GROUP_CONSUMER_REGEX_REFRESH_INTERVAL_MS = keys.int_(
    "group.consumer.regex.refresh.interval.ms", 600_000, MEDIUM, ACTED, at_least(10_000), internal=True
).doc("How often subscription patterns are matched against the topics again.")

# Streams groups.

GROUP_STREAMS_SESSION_TIMEOUT_MS = keys.int_(
    "group.streams.session.timeout.ms", 45_000, MEDIUM, STREAMS_LATER, at_least(1)
).doc("How long a member of a streams group may be silent before it is removed from the group.")
GROUP_STREAMS_MIN_SESSION_TIMEOUT_MS = keys.int_(
    "group.streams.min.session.timeout.ms", 45_000, MEDIUM, STREAMS_LATER, at_least(1)
).doc("The shortest session timeout that a single streams group may be given.")
GROUP_STREAMS_MAX_SESSION_TIMEOUT_MS = keys.int_(
    "group.streams.max.session.timeout.ms", 60_000, MEDIUM, STREAMS_LATER, at_least(1)
).doc("The longest session timeout that a single streams group may be given.")
GROUP_STREAMS_HEARTBEAT_INTERVAL_MS = keys.int_(
    "group.streams.heartbeat.interval.ms", 5_000, MEDIUM, STREAMS_LATER, at_least(1)
).doc("How often members of a streams group are asked to send heartbeats.")
GROUP_STREAMS_MIN_HEARTBEAT_INTERVAL_MS = keys.int_(
    "group.streams.min.heartbeat.interval.ms", 5_000, MEDIUM, STREAMS_LATER, at_least(1)
).doc("The shortest heartbeat interval that a single streams group may be given.")
GROUP_STREAMS_MAX_HEARTBEAT_INTERVAL_MS = keys.int_(
    "group.streams.max.heartbeat.interval.ms", 15_000, MEDIUM, STREAMS_LATER, at_least(1)
).doc("The longest heartbeat interval that a single streams group may be given.")
GROUP_STREAMS_MAX_SIZE = keys.int_("group.streams.max.size", INT_MAX, MEDIUM, STREAMS_LATER, at_least(1)).doc(
    "How many members a streams group may have."
)
GROUP_STREAMS_NUM_STANDBY_REPLICAS = keys.int_(
    "group.streams.num.standby.replicas", 0, MEDIUM, STREAMS_LATER, at_least(0)
).doc("How many standby copies of each stateful task a streams group keeps.")
GROUP_STREAMS_MAX_STANDBY_REPLICAS = keys.int_(
    "group.streams.max.standby.replicas", 2, MEDIUM, STREAMS_LATER, at_least(0)
).doc("The most standby copies that a single streams group may be given.")
GROUP_STREAMS_INITIAL_REBALANCE_DELAY_MS = keys.int_(
    "group.streams.initial.rebalance.delay.ms", 3_000, MEDIUM, STREAMS_LATER, at_least(0)
).doc("How long a new streams group waits for further members before its first assignment.")
GROUP_STREAMS_ASSIGNMENT_INTERVAL_MS = keys.int_(
    "group.streams.assignment.interval.ms", 1_000, MEDIUM, STREAMS_LATER, at_least(0), CLUSTER_WIDE
).doc("The shortest time between two assignments of a streams group, so that many joins make one.")
GROUP_STREAMS_MIN_ASSIGNMENT_INTERVAL_MS = keys.int_(
    "group.streams.min.assignment.interval.ms", 0, MEDIUM, STREAMS_LATER, at_least(0)
).doc("The shortest such time that a single streams group may be given.")
GROUP_STREAMS_MAX_ASSIGNMENT_INTERVAL_MS = keys.int_(
    "group.streams.max.assignment.interval.ms", 15_000, MEDIUM, STREAMS_LATER, at_least(0)
).doc("The longest such time that a single streams group may be given.")
