"""Keys of the other resources that can be configured: single groups, client telemetry, and the entities of quotas.

Source: GroupConfig, ClientMetricsConfigs, QuotaConfig.
"""

from barnabas.config.catalogue import groups, share
from barnabas.config.catalogue.use import ACTED, SHARE_LATER, STREAMS_LATER
from barnabas.config.keys import MEDIUM, KeySet
from barnabas.config.validators import ListOf, OneOf, Satisfies, at_least, is_share_offset_reset
from barnabas.config.values import INT_MAX, LONG_MAX

# A group (ConfigResource GROUP): its keys override the broker's, within the broker's bounds.

group_keys = KeySet()

CONSUMER_SESSION_TIMEOUT_MS = (
    group_keys.int_("consumer.session.timeout.ms", 45_000, MEDIUM, ACTED, at_least(1))
    .follows(groups.GROUP_CONSUMER_SESSION_TIMEOUT_MS)
    .doc("How long a member may be silent before it is removed from the group.")
)
CONSUMER_HEARTBEAT_INTERVAL_MS = (
    group_keys.int_("consumer.heartbeat.interval.ms", 5_000, MEDIUM, ACTED, at_least(1))
    .follows(groups.GROUP_CONSUMER_HEARTBEAT_INTERVAL_MS)
    .doc("How often members are asked to send heartbeats.")
)
CONSUMER_ASSIGNMENT_INTERVAL_MS = (
    group_keys.int_("consumer.assignment.interval.ms", 1_000, MEDIUM, ACTED, at_least(0))
    .follows(groups.GROUP_CONSUMER_ASSIGNMENT_INTERVAL_MS)
    .doc("The shortest time between two assignments of the group.")
)
SHARE_SESSION_TIMEOUT_MS = (
    group_keys.int_("share.session.timeout.ms", 45_000, MEDIUM, SHARE_LATER, at_least(1))
    .follows(share.GROUP_SHARE_SESSION_TIMEOUT_MS)
    .doc("How long a member may be silent before it is removed from the share group.")
)
SHARE_HEARTBEAT_INTERVAL_MS = (
    group_keys.int_("share.heartbeat.interval.ms", 5_000, MEDIUM, SHARE_LATER, at_least(1))
    .follows(share.GROUP_SHARE_HEARTBEAT_INTERVAL_MS)
    .doc("How often members of the share group are asked to send heartbeats.")
)
SHARE_RECORD_LOCK_DURATION_MS = (
    group_keys.int_("share.record.lock.duration.ms", 30_000, MEDIUM, SHARE_LATER, at_least(1_000))
    .follows(share.GROUP_SHARE_RECORD_LOCK_DURATION_MS)
    .doc("How long a delivered record belongs to its consumer before others may get it.")
)
SHARE_DELIVERY_COUNT_LIMIT = (
    group_keys.int_("share.delivery.count.limit", 5, MEDIUM, SHARE_LATER, at_least(2))
    .follows(share.GROUP_SHARE_DELIVERY_COUNT_LIMIT)
    .doc("How often a record is delivered before the group abandons it.")
)
SHARE_PARTITION_MAX_RECORD_LOCKS = (
    group_keys.int_("share.partition.max.record.locks", 2_000, MEDIUM, SHARE_LATER, at_least(100))
    .follows(share.GROUP_SHARE_PARTITION_MAX_RECORD_LOCKS)
    .doc("How many records of one partition may be delivered and not yet acknowledged.")
)
SHARE_AUTO_OFFSET_RESET = group_keys.string(
    "share.auto.offset.reset",
    "latest",
    MEDIUM,
    SHARE_LATER,
    Satisfies(
        is_share_offset_reset, "latest, earliest, or by_duration: with an ISO 8601 duration such as PT1H"
    ),
).doc("Where a share group begins on a partition that is new to it.")
SHARE_ISOLATION_LEVEL = group_keys.string(
    "share.isolation.level",
    "read_uncommitted",
    MEDIUM,
    SHARE_LATER,
    OneOf("read_committed", "read_uncommitted"),
).doc("Whether the share group sees the records of transactions that have not ended, or that were aborted.")
SHARE_RENEW_ACKNOWLEDGE_ENABLE = group_keys.boolean(
    "share.renew.acknowledge.enable", True, MEDIUM, SHARE_LATER
).doc("Whether a consumer may ask for more time with a record.")
SHARE_ASSIGNMENT_INTERVAL_MS = (
    group_keys.int_("share.assignment.interval.ms", 1_000, MEDIUM, SHARE_LATER, at_least(0))
    .follows(share.GROUP_SHARE_ASSIGNMENT_INTERVAL_MS)
    .doc("The shortest time between two assignments of the share group.")
)
STREAMS_SESSION_TIMEOUT_MS = (
    group_keys.int_("streams.session.timeout.ms", 45_000, MEDIUM, STREAMS_LATER, at_least(1))
    .follows(groups.GROUP_STREAMS_SESSION_TIMEOUT_MS)
    .doc("How long a member may be silent before it is removed from the streams group.")
)
STREAMS_HEARTBEAT_INTERVAL_MS = (
    group_keys.int_("streams.heartbeat.interval.ms", 5_000, MEDIUM, STREAMS_LATER, at_least(1))
    .follows(groups.GROUP_STREAMS_HEARTBEAT_INTERVAL_MS)
    .doc("How often members of the streams group are asked to send heartbeats.")
)
STREAMS_NUM_STANDBY_REPLICAS = (
    group_keys.int_("streams.num.standby.replicas", 0, MEDIUM, STREAMS_LATER, at_least(0))
    .follows(groups.GROUP_STREAMS_NUM_STANDBY_REPLICAS)
    .doc("How many standby copies of each stateful task the group keeps.")
)
STREAMS_INITIAL_REBALANCE_DELAY_MS = (
    group_keys.int_("streams.initial.rebalance.delay.ms", 3_000, MEDIUM, STREAMS_LATER, at_least(0))
    .follows(groups.GROUP_STREAMS_INITIAL_REBALANCE_DELAY_MS)
    .doc("How long a new streams group waits for further members before its first assignment.")
)
STREAMS_ASSIGNMENT_INTERVAL_MS = (
    group_keys.int_("streams.assignment.interval.ms", 1_000, MEDIUM, STREAMS_LATER, at_least(0))
    .follows(groups.GROUP_STREAMS_ASSIGNMENT_INTERVAL_MS)
    .doc("The shortest time between two assignments of the streams group.")
)

# A subscription to client metrics (ConfigResource CLIENT_METRICS, KIP-714).

client_metrics_keys = KeySet()

CLIENT_METRICS = client_metrics_keys.list_("metrics", (), MEDIUM, ACTED, ListOf(may_be_empty=True)).doc(
    "Prefixes of the metrics to push; `*` means all, empty none."
)
CLIENT_METRICS_INTERVAL_MS = client_metrics_keys.int_("interval.ms", 300_000, MEDIUM, ACTED).doc(
    "How often clients push them, from 100 to 3600000."
)
CLIENT_METRICS_MATCH = client_metrics_keys.list_("match", (), MEDIUM, ACTED, ListOf(may_be_empty=True)).doc(
    "Which clients push, as name=pattern of client_id, client_software_name and the like; empty asks all."
)

# Quotas of users, client ids and addresses (AlterClientQuotas, KIP-546).

client_quota_keys = KeySet()

PRODUCER_BYTE_RATE = client_quota_keys.long("producer_byte_rate", LONG_MAX, MEDIUM, ACTED).doc(
    "How many bytes a second may be produced."
)
CONSUMER_BYTE_RATE = client_quota_keys.long("consumer_byte_rate", LONG_MAX, MEDIUM, ACTED).doc(
    "How many bytes a second may be fetched."
)
REQUEST_PERCENTAGE = client_quota_keys.double("request_percentage", 2147483647.0, MEDIUM, ACTED).doc(
    "How much of the broker's time requests may take, in percent: 100 is one core, as much as a broker here has for "
    "requests."
)
CONTROLLER_MUTATION_RATE = client_quota_keys.double(
    "controller_mutation_rate", 2147483647.0, MEDIUM, ACTED
).doc("How many partitions a second may be created or deleted.")

ip_quota_keys = KeySet()

CONNECTION_CREATION_RATE = ip_quota_keys.int_(
    "connection_creation_rate", INT_MAX, MEDIUM, ACTED, at_least(0)
).doc("How many connections a second an address may make.")

# Credentials of a user (AlterUserScramCredentials, KIP-554); the values never leave the broker.

user_credential_keys = KeySet()

SCRAM_SHA_256 = user_credential_keys.optional_string("SCRAM-SHA-256", None, MEDIUM, ACTED).doc(
    "The user's salted password for SCRAM-SHA-256."
)
SCRAM_SHA_512 = user_credential_keys.optional_string("SCRAM-SHA-512", None, MEDIUM, ACTED).doc(
    "The user's salted password for SCRAM-SHA-512."
)
