"""Broker keys for metrics, client telemetry (KIP-714) and the windows over which quotas are measured.

Source: MetricConfigs, QuotaConfig.
"""

from barnabas.config.catalogue.use import ACTED, IN_CLUSTER, PROMETHEUS
from barnabas.config.keys import CLUSTER_WIDE, LOW, MEDIUM, KeySet
from barnabas.config.validators import ListOf, at_least
from barnabas.config.values import LONG_MAX

keys = KeySet()

METRIC_REPORTERS = keys.list_(
    "metric.reporters",
    ("org.apache.kafka.common.metrics.JmxReporter",),
    LOW,
    PROMETHEUS,
    ListOf(may_be_empty=True),
    CLUSTER_WIDE,
).doc("Classes that pass metrics on.")
METRICS_NUM_SAMPLES = keys.int_("metrics.num.samples", 2, LOW, PROMETHEUS, at_least(1)).doc(
    "Over how many samples rates are measured."
)
METRICS_SAMPLE_WINDOW_MS = keys.long("metrics.sample.window.ms", 30_000, LOW, PROMETHEUS, at_least(1)).doc(
    "How long each of these samples is."
)
METRICS_RECORDING_LEVEL = keys.string("metrics.recording.level", "INFO", LOW, PROMETHEUS).doc(
    "How much is measured: INFO, DEBUG or TRACE."
)
KAFKA_METRICS_REPORTERS = keys.list_(
    "kafka.metrics.reporters", (), LOW, PROMETHEUS, ListOf(may_be_empty=True)
).doc("Classes that pass the older kind of metrics on.")
KAFKA_METRICS_POLLING_INTERVAL_SECS = keys.int_(
    "kafka.metrics.polling.interval.secs", 10, LOW, PROMETHEUS, at_least(1)
).doc("How often these classes look.")
TELEMETRY_MAX_BYTES = keys.int_("telemetry.max.bytes", 1 << 20, LOW, ACTED, at_least(1)).doc(
    "The most bytes of metrics that a client may push at once, packed and unpacked."
)

# Quotas.

QUOTA_WINDOW_NUM = keys.int_("quota.window.num", 11, LOW, ACTED, at_least(1)).doc(
    "Over how many samples the quotas of clients are measured."
)
QUOTA_WINDOW_SIZE_SECONDS = keys.int_("quota.window.size.seconds", 1, LOW, ACTED, at_least(1)).doc(
    "How long each of these samples is."
)
CONTROLLER_QUOTA_WINDOW_NUM = keys.int_("controller.quota.window.num", 11, LOW, ACTED, at_least(1)).doc(
    "Over how many samples the quotas of changes to topics are measured."
)
CONTROLLER_QUOTA_WINDOW_SIZE_SECONDS = keys.int_(
    "controller.quota.window.size.seconds", 1, LOW, ACTED, at_least(1)
).doc("How long each of these samples is.")
REPLICATION_QUOTA_WINDOW_NUM = keys.int_(
    "replication.quota.window.num", 11, LOW, IN_CLUSTER, at_least(1)
).doc("Over how many samples the quotas of replication are measured.")
REPLICATION_QUOTA_WINDOW_SIZE_SECONDS = keys.int_(
    "replication.quota.window.size.seconds", 1, LOW, IN_CLUSTER, at_least(1)
).doc("How long each of these samples is.")
ALTER_LOG_DIRS_REPLICATION_QUOTA_WINDOW_NUM = keys.int_(
    "alter.log.dirs.replication.quota.window.num", 11, LOW, ACTED, at_least(1)
).doc("Over how many samples the quota of moves between log directories is measured.")
ALTER_LOG_DIRS_REPLICATION_QUOTA_WINDOW_SIZE_SECONDS = keys.int_(
    "alter.log.dirs.replication.quota.window.size.seconds", 1, LOW, ACTED, at_least(1)
).doc("How long each of these samples is.")
CLIENT_QUOTA_CALLBACK_CLASS = keys.class_name("client.quota.callback.class", None, LOW, ACTED).doc(
    "The class that decides which quota is in force for a client, as python:module:Class."
)

# Quotas of a broker's replication: not in the file, only set while the broker runs.

dynamic_keys = KeySet()

LEADER_REPLICATION_THROTTLED_RATE = dynamic_keys.long(
    "leader.replication.throttled.rate", LONG_MAX, MEDIUM, IN_CLUSTER, at_least(0), CLUSTER_WIDE
).doc("How many bytes a second this broker sends for the throttled replicas that it leads.")
FOLLOWER_REPLICATION_THROTTLED_RATE = dynamic_keys.long(
    "follower.replication.throttled.rate", LONG_MAX, MEDIUM, IN_CLUSTER, at_least(0), CLUSTER_WIDE
).doc("How many bytes a second this broker fetches for the throttled replicas that it follows.")
REPLICA_ALTER_LOG_DIRS_IO_MAX_BYTES_PER_SECOND = dynamic_keys.long(
    "replica.alter.log.dirs.io.max.bytes.per.second",
    LONG_MAX,
    MEDIUM,
    ACTED,
    at_least(0),
    CLUSTER_WIDE,
).doc("How many bytes a second are copied when replicas move between log directories.")
