"""Broker keys for share groups (KIP-932): queues on top of partitions, and the topic that keeps their state.

Source: GroupCoordinatorConfig (share part), ShareGroupConfig, ShareCoordinatorConfig.
"""

from barnabas.config.catalogue.use import ACTED, NO_JAVA, NO_PURGATORY_PURGE, ONE_LOOP, SHARE_LATER
from barnabas.config.keys import CLUSTER_WIDE, HIGH, LOW, MEDIUM, KeySet
from barnabas.config.validators import ListOf, at_least, between

keys = KeySet()

# Members.

GROUP_SHARE_SESSION_TIMEOUT_MS = keys.int_(
    "group.share.session.timeout.ms", 45_000, MEDIUM, SHARE_LATER, at_least(1)
).doc("How long a member of a share group may be silent before it is removed from the group.")
GROUP_SHARE_MIN_SESSION_TIMEOUT_MS = keys.int_(
    "group.share.min.session.timeout.ms", 45_000, MEDIUM, SHARE_LATER, at_least(1)
).doc("The shortest session timeout that a single share group may be given.")
GROUP_SHARE_MAX_SESSION_TIMEOUT_MS = keys.int_(
    "group.share.max.session.timeout.ms", 60_000, MEDIUM, SHARE_LATER, at_least(1)
).doc("The longest session timeout that a single share group may be given.")
GROUP_SHARE_HEARTBEAT_INTERVAL_MS = keys.int_(
    "group.share.heartbeat.interval.ms", 5_000, MEDIUM, SHARE_LATER, at_least(1)
).doc("How often members of a share group are asked to send heartbeats.")
GROUP_SHARE_MIN_HEARTBEAT_INTERVAL_MS = keys.int_(
    "group.share.min.heartbeat.interval.ms", 5_000, MEDIUM, SHARE_LATER, at_least(1)
).doc("The shortest heartbeat interval that a single share group may be given.")
GROUP_SHARE_MAX_HEARTBEAT_INTERVAL_MS = keys.int_(
    "group.share.max.heartbeat.interval.ms", 15_000, MEDIUM, SHARE_LATER, at_least(1)
).doc("The longest heartbeat interval that a single share group may be given.")
GROUP_SHARE_MAX_SIZE = keys.int_("group.share.max.size", 200, MEDIUM, SHARE_LATER, between(1, 1_000)).doc(
    "How many members a share group may have."
)
GROUP_SHARE_MAX_SHARE_SESSIONS = keys.int_(
    "group.share.max.share.sessions", 2_000, MEDIUM, SHARE_LATER, at_least(1)
).doc("How many members of share groups may fetch from this broker at the same time.")

# Assignments.

GROUP_SHARE_ASSIGNORS = keys.list_("group.share.assignors", ("simple",), MEDIUM, SHARE_LATER, ListOf()).doc(
    "The way to spread partitions over a share group; exactly one."
)
GROUP_SHARE_ASSIGNMENT_INTERVAL_MS = keys.int_(
    "group.share.assignment.interval.ms", 1_000, MEDIUM, SHARE_LATER, at_least(0), CLUSTER_WIDE
).doc("The shortest time between two assignments of a share group, so that many joins make one.")
GROUP_SHARE_MIN_ASSIGNMENT_INTERVAL_MS = keys.int_(
    "group.share.min.assignment.interval.ms", 0, MEDIUM, SHARE_LATER, at_least(0)
).doc("The shortest such time that a single share group may be given.")
GROUP_SHARE_MAX_ASSIGNMENT_INTERVAL_MS = keys.int_(
    "group.share.max.assignment.interval.ms", 15_000, MEDIUM, SHARE_LATER, at_least(0)
).doc("The longest such time that a single share group may be given.")
GROUP_SHARE_INITIALIZE_RETRY_INTERVAL_MS = keys.int_(
    "group.share.initialize.retry.interval.ms", 30_000, LOW, SHARE_LATER, at_least(1), internal=True
).doc("How long the coordinator waits before it tries again to set up a share group's partitions.")

# Delivery.

GROUP_SHARE_DELIVERY_COUNT_LIMIT = keys.int_(
    "group.share.delivery.count.limit", 5, MEDIUM, SHARE_LATER, between(2, 10)
).doc("How often a record is delivered before the group abandons it.")
GROUP_SHARE_MIN_DELIVERY_COUNT_LIMIT = keys.int_(
    "group.share.min.delivery.count.limit", 2, MEDIUM, SHARE_LATER, between(2, 5)
).doc("The lowest such limit that a single share group may be given.")
GROUP_SHARE_MAX_DELIVERY_COUNT_LIMIT = keys.int_(
    "group.share.max.delivery.count.limit", 10, MEDIUM, SHARE_LATER, between(5, 25)
).doc("The highest such limit that a single share group may be given.")
GROUP_SHARE_RECORD_LOCK_DURATION_MS = keys.int_(
    "group.share.record.lock.duration.ms", 30_000, MEDIUM, SHARE_LATER, between(1_000, 3_600_000)
).doc("How long a delivered record belongs to its consumer before others may get it.")
GROUP_SHARE_MIN_RECORD_LOCK_DURATION_MS = keys.int_(
    "group.share.min.record.lock.duration.ms", 15_000, MEDIUM, SHARE_LATER, between(1_000, 30_000)
).doc("The shortest such time that a single share group may be given.")
GROUP_SHARE_MAX_RECORD_LOCK_DURATION_MS = keys.int_(
    "group.share.max.record.lock.duration.ms", 60_000, MEDIUM, SHARE_LATER, between(30_000, 3_600_000)
).doc("The longest such time that a single share group may be given.")
GROUP_SHARE_PARTITION_MAX_RECORD_LOCKS = keys.int_(
    "group.share.partition.max.record.locks", 2_000, MEDIUM, SHARE_LATER, between(100, 10_000)
).doc("How many records of one partition may be delivered and not yet acknowledged.")
GROUP_SHARE_MIN_PARTITION_MAX_RECORD_LOCKS = keys.int_(
    "group.share.min.partition.max.record.locks", 100, MEDIUM, SHARE_LATER, between(100, 2_000)
).doc("The lowest such number that a single share group may be given.")
GROUP_SHARE_MAX_PARTITION_MAX_RECORD_LOCKS = keys.int_(
    "group.share.max.partition.max.record.locks", 4_000, MEDIUM, SHARE_LATER, between(2_000, 10_000)
).doc("The highest such number that a single share group may be given.")
SHARE_FETCH_PURGATORY_PURGE_INTERVAL_REQUESTS = keys.int_(
    "share.fetch.purgatory.purge.interval.requests", 1_000, MEDIUM, NO_PURGATORY_PURGE
).doc("After how many waiting share fetches the finished ones are cleared away.")
GROUP_SHARE_PERSISTER_CLASS_NAME = keys.string(
    "group.share.persister.class.name",
    "org.apache.kafka.server.share.persister.DefaultStatePersister",
    MEDIUM,
    NO_JAVA,
    internal=True,
).doc("The class that keeps the state of share groups.")

# The topic __share_group_state.

SHARE_COORDINATOR_STATE_TOPIC_REPLICATION_FACTOR = keys.short(
    "share.coordinator.state.topic.replication.factor", 3, HIGH, ACTED, at_least(1)
).doc("How many replicas __share_group_state gets; never more than there are brokers.")
SHARE_COORDINATOR_STATE_TOPIC_MIN_ISR = keys.short(
    "share.coordinator.state.topic.min.isr", 2, HIGH, ACTED, at_least(1)
).doc("How many replicas of __share_group_state must be in sync; never more than it has replicas.")
SHARE_COORDINATOR_STATE_TOPIC_NUM_PARTITIONS = keys.int_(
    "share.coordinator.state.topic.num.partitions", 50, HIGH, ACTED, at_least(1)
).doc("How many partitions __share_group_state gets; do not change it once the topic exists.")
SHARE_COORDINATOR_STATE_TOPIC_SEGMENT_BYTES = keys.int_(
    "share.coordinator.state.topic.segment.bytes", 100 << 20, HIGH, ACTED, at_least(1)
).doc("How large a segment of __share_group_state becomes.")
SHARE_COORDINATOR_STATE_TOPIC_COMPRESSION_CODEC = keys.int_(
    "share.coordinator.state.topic.compression.codec", 0, HIGH, SHARE_LATER
).doc("The codec of __share_group_state by number: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd.")
SHARE_COORDINATOR_STATE_TOPIC_PRUNE_INTERVAL_MS = keys.int_(
    "share.coordinator.state.topic.prune.interval.ms", 300_000, LOW, SHARE_LATER, at_least(1), internal=True
).doc("How often records of __share_group_state that no longer count are deleted.")

# The share coordinator.

SHARE_COORDINATOR_THREADS = keys.int_("share.coordinator.threads", 1, MEDIUM, ONE_LOOP, at_least(1)).doc(
    "How many threads the share coordinator runs."
)
SHARE_COORDINATOR_SNAPSHOT_UPDATE_RECORDS_PER_SNAPSHOT = keys.int_(
    "share.coordinator.snapshot.update.records.per.snapshot", 500, MEDIUM, SHARE_LATER, between(0, 500)
).doc("After how many updates the whole state of a share partition is written again.")
SHARE_COORDINATOR_COLD_PARTITION_SNAPSHOT_INTERVAL_MS = keys.int_(
    "share.coordinator.cold.partition.snapshot.interval.ms",
    300_000,
    LOW,
    SHARE_LATER,
    at_least(1),
    internal=True,
).doc("How often the state of quiet share partitions is written again, so that older records can go.")
SHARE_COORDINATOR_LOAD_BUFFER_SIZE = keys.int_(
    "share.coordinator.load.buffer.size", 5 << 20, HIGH, SHARE_LATER, at_least(1)
).doc("How many bytes are read at a time when share groups are loaded; a larger batch still comes whole.")
SHARE_COORDINATOR_WRITE_TIMEOUT_MS = keys.int_(
    "share.coordinator.write.timeout.ms", 5_000, HIGH, SHARE_LATER, at_least(1)
).doc("How long a write may wait for the replicas of __share_group_state.")
SHARE_COORDINATOR_APPEND_LINGER_MS = keys.int_(
    "share.coordinator.append.linger.ms", -1, MEDIUM, SHARE_LATER, at_least(-1)
).doc("How long the share coordinator gathers records before it writes them; -1 lets the load decide.")
SHARE_COORDINATOR_CACHED_BUFFER_MAX_BYTES = keys.int_(
    "share.coordinator.cached.buffer.max.bytes",
    1_048_588,
    MEDIUM,
    SHARE_LATER,
    at_least(524_288),
    CLUSTER_WIDE,
).doc("The largest write buffer that the share coordinator keeps for reuse.")
