"""Broker keys for the controller: its quorum, its listeners, and the metadata log.

Source: KRaftConfigs, QuorumConfig, MetadataLogConfig. The embedded controller of a single node needs few of them.
"""

from barnabas.config.catalogue.use import (
    ACTED,
    CLOSED_LISTENERS,
    EMBEDDED_CONTROLLER,
    IN_CLUSTER,
    NO_FOLLOWERS,
)
from barnabas.config.keys import HIGH, LOW, MEDIUM, KeySet
from barnabas.config.validators import ListOf, Satisfies, at_least, is_list_of_hosts, is_list_of_voters

keys = KeySet()

# The quorum.

CONTROLLER_QUORUM_VOTERS = keys.list_(
    "controller.quorum.voters",
    (),
    HIGH,
    ACTED,
    Satisfies(is_list_of_voters, "a comma-separated list of id@host:port"),
).doc(
    "The fixed members of the controller quorum, the older way; leave it unset where the metadata log names them."
)
CONTROLLER_QUORUM_BOOTSTRAP_SERVERS = keys.list_(
    "controller.quorum.bootstrap.servers",
    (),
    HIGH,
    ACTED,
    Satisfies(is_list_of_hosts, "a comma-separated list of host:port"),
).doc("Some controllers by which the quorum can be found.")
CONTROLLER_QUORUM_ELECTION_TIMEOUT_MS = keys.int_(
    "controller.quorum.election.timeout.ms", 1_000, HIGH, EMBEDDED_CONTROLLER, at_least(0)
).doc("How long a candidate waits for votes before it starts another election.")
CONTROLLER_QUORUM_FETCH_TIMEOUT_MS = keys.int_(
    "controller.quorum.fetch.timeout.ms", 2_000, HIGH, IN_CLUSTER, at_least(0)
).doc(
    "How long a follower goes without a fetch from the leader before it becomes a candidate, or the leader resigns."
)
CONTROLLER_QUORUM_ELECTION_BACKOFF_MAX_MS = keys.int_(
    "controller.quorum.election.backoff.max.ms", 1_000, HIGH, EMBEDDED_CONTROLLER, at_least(0)
).doc("How long a candidate that lost waits at most, so that elections do not tie for ever.")
CONTROLLER_QUORUM_APPEND_LINGER_MS = keys.int_(
    "controller.quorum.append.linger.ms", 25, MEDIUM, EMBEDDED_CONTROLLER, at_least(0)
).doc("How long the leader gathers metadata records before it forces them to disk.")
CONTROLLER_QUORUM_REQUEST_TIMEOUT_MS = keys.int_(
    "controller.quorum.request.timeout.ms", 2_000, MEDIUM, IN_CLUSTER, at_least(0)
).doc("How long a request between members of the quorum may take.")
CONTROLLER_QUORUM_RETRY_BACKOFF_MS = keys.int_(
    "controller.quorum.retry.backoff.ms", 20, LOW, IN_CLUSTER, at_least(0)
).doc("How long a member rests after a failed request to another.")
CONTROLLER_QUORUM_AUTO_JOIN_ENABLE = keys.boolean(
    "controller.quorum.auto.join.enable", False, LOW, EMBEDDED_CONTROLLER
).doc("Whether a new controller joins the quorum of its cluster by itself.")
CONTROLLER_QUORUM_FETCH_MAX_BYTES = keys.int_(
    "controller.quorum.fetch.max.bytes", 1 << 20, LOW, IN_CLUSTER, at_least(1)
).doc("How many bytes of the metadata log a member asks for at once.")
CONTROLLER_QUORUM_FETCH_SNAPSHOT_MAX_BYTES = keys.int_(
    "controller.quorum.fetch.snapshot.max.bytes", 1 << 20, LOW, IN_CLUSTER, at_least(1)
).doc("How many bytes of a metadata snapshot a member asks for at once.")

# How the controller is reached and watched.

CONTROLLER_LISTENER_NAMES = keys.optional_list(
    "controller.listener.names", None, HIGH, CLOSED_LISTENERS, ListOf()
).doc("Those of the listeners that belong to the controller.")
SASL_MECHANISM_CONTROLLER_PROTOCOL = keys.string(
    "sasl.mechanism.controller.protocol", "GSSAPI", HIGH, IN_CLUSTER
).doc("The SASL mechanism for connections to the controller.")
CONTROLLER_PERFORMANCE_SAMPLE_PERIOD_MS = keys.long(
    "controller.performance.sample.period.ms",
    60_000,
    MEDIUM,
    EMBEDDED_CONTROLLER,
    at_least(100),
    internal=True,
).doc("How often the controller reports its slowest events.")
CONTROLLER_PERFORMANCE_ALWAYS_LOG_THRESHOLD_MS = keys.long(
    "controller.performance.always.log.threshold.ms",
    2_000,
    MEDIUM,
    EMBEDDED_CONTROLLER,
    at_least(0),
    internal=True,
).doc("A controller event that takes at least this long is always reported.")

# The metadata log.

METADATA_LOG_DIR = keys.optional_string("metadata.log.dir", None, HIGH, ACTED).doc(
    "The directory of the metadata log; when unset, the first of log.dirs."
)
METADATA_LOG_SEGMENT_BYTES = keys.int_(
    "metadata.log.segment.bytes", 1 << 30, HIGH, ACTED, at_least(8 << 20)
).doc("A segment of the metadata log that an append would make larger than this many bytes is rolled.")
METADATA_LOG_SEGMENT_MS = keys.long("metadata.log.segment.ms", 604_800_000, HIGH, ACTED).doc(
    "A segment of the metadata log older than this is closed."
)
METADATA_LOG_MAX_RECORD_BYTES_BETWEEN_SNAPSHOTS = keys.long(
    "metadata.log.max.record.bytes.between.snapshots", 20 << 20, HIGH, ACTED, at_least(1)
).doc("A new snapshot of the metadata is written after this many bytes of records.")
METADATA_LOG_MAX_SNAPSHOT_INTERVAL_MS = keys.long(
    "metadata.log.max.snapshot.interval.ms", 3_600_000, HIGH, ACTED, at_least(0)
).doc(
    "A new snapshot of the metadata is written after this long, if anything changed; 0 leaves it to the bytes alone."
)
METADATA_MAX_RETENTION_BYTES = keys.long("metadata.max.retention.bytes", 100 << 20, HIGH, ACTED).doc(
    "How large metadata log and snapshots together may grow before the oldest are deleted."
)
METADATA_MAX_RETENTION_MS = keys.long("metadata.max.retention.ms", 604_800_000, HIGH, ACTED).doc(
    "How old metadata log segments and snapshots become before they are deleted."
)
METADATA_MAX_IDLE_INTERVAL_MS = keys.int_(
    "metadata.max.idle.interval.ms", 500, LOW, NO_FOLLOWERS, at_least(0)
).doc("How often the controller writes an empty record when nothing else happens; 0 writes none.")
INTERNAL_METADATA_LOG_SEGMENT_BYTES = keys.optional_int(
    "internal.metadata.log.segment.bytes", None, LOW, ACTED, internal=True
).doc("A segment size below what metadata.log.segment.bytes takes, for tests.")
INTERNAL_METADATA_MAX_BATCH_SIZE_IN_BYTES = keys.int_(
    "internal.metadata.max.batch.size.in.bytes", 8 << 20, LOW, ACTED, internal=True
).doc("The largest batch in the metadata log, for tests.")
INTERNAL_METADATA_DELETE_DELAY_MILLIS = keys.long(
    "internal.metadata.delete.delay.millis", 60_000, LOW, ACTED, internal=True
).doc("How long a deleted file of the metadata log stays, for tests.")
