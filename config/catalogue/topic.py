"""Topic keys: what CreateTopics and IncrementalAlterConfigs may set, and the broker keys behind them.

Source: TopicConfig and org.apache.kafka.storage.internals.log.LogConfig; synonyms: ServerTopicConfigSynonyms.
"""

from barnabas.config.catalogue import log, replication, tiering
from barnabas.config.catalogue.use import ACTED, IN_CLUSTER, TIERING_LATER
from barnabas.config.keys import MEDIUM, KeySet
from barnabas.config.validators import ListOf, OneOf, Satisfies, at_least, between, is_throttled_replica_list
from barnabas.config.values import LONG_MAX

HOUR_MS = 3_600_000
MINUTE_MS = 60_000
THROTTLED_REPLICAS = Satisfies(is_throttled_replica_list, "a list of partition:broker pairs, or *")

keys = KeySet()

# Segments and their indexes.

SEGMENT_BYTES = (
    keys.int_("segment.bytes", 1 << 30, MEDIUM, ACTED, at_least(1 << 20))
    .follows(log.LOG_SEGMENT_BYTES)
    .doc("A segment that an append would make larger than this many bytes is rolled.")
)
SEGMENT_MS = (
    keys.long("segment.ms", 604_800_000, MEDIUM, ACTED, at_least(1))
    .follows(log.LOG_ROLL_MS, (log.LOG_ROLL_HOURS, HOUR_MS))
    .doc(
        "A segment older than this is closed even if it is not full, so that retention and compaction can "
        "reach it."
    )
)
SEGMENT_JITTER_MS = (
    keys.long("segment.jitter.ms", 0, MEDIUM, ACTED, at_least(0))
    .follows(log.LOG_ROLL_JITTER_MS, (log.LOG_ROLL_JITTER_HOURS, HOUR_MS))
    .doc(
        "Up to this much, at random, is subtracted from segment.ms, so that segments do not all roll at once."
    )
)
SEGMENT_INDEX_BYTES = (
    keys.int_("segment.index.bytes", 10 << 20, MEDIUM, ACTED, at_least(4))
    .follows(log.LOG_INDEX_SIZE_MAX_BYTES)
    .doc("How large an offset index may grow; a segment whose index is full is rolled.")
)
INDEX_INTERVAL_BYTES = (
    keys.int_("index.interval.bytes", 4096, MEDIUM, ACTED, at_least(0))
    .follows(log.LOG_INDEX_INTERVAL_BYTES)
    .doc(
        "About one index entry is written for this many bytes of log: fewer bytes, faster seeks, larger "
        "indexes."
    )
)
PREALLOCATE = (
    keys.boolean("preallocate", False, MEDIUM, ACTED)
    .follows(log.LOG_PREALLOCATE)
    .doc("Whether a new segment file takes its full size on disk at once.")
)
FILE_DELETE_DELAY_MS = (
    keys.long("file.delete.delay.ms", 60_000, MEDIUM, ACTED, at_least(0))
    .follows(log.LOG_SEGMENT_DELETE_DELAY_MS)
    .doc(
        "How long a segment that was deleted keeps its file, renamed to .deleted, for readers that still use it."
    )
)
INTERNAL_SEGMENT_BYTES = keys.optional_int("internal.segment.bytes", None, MEDIUM, ACTED, internal=True).doc(
    "A segment size below the smallest that segment.bytes takes, for tests that need many small segments."
)

# Flushing.

FLUSH_MESSAGES = (
    keys.long("flush.messages", LONG_MAX, MEDIUM, ACTED, at_least(1))
    .follows(log.LOG_FLUSH_INTERVAL_MESSAGES)
    .doc(
        "The log is flushed when this many records have gathered since the last flush; with 1, before "
        "each acknowledgement."
    )
)
FLUSH_MS = (
    keys.long("flush.ms", LONG_MAX, MEDIUM, ACTED, at_least(0))
    .follows(log.LOG_FLUSH_INTERVAL_MS, log.LOG_FLUSH_SCHEDULER_INTERVAL_MS)
    .doc(
        "The longest time that a record may stay unflushed. It has an effect only when the broker's "
        "log.flush.scheduler.interval.ms has it check often enough."
    )
)

# Retention.

RETENTION_MS = (
    keys.long("retention.ms", 604_800_000, MEDIUM, ACTED, at_least(-1))
    .follows(log.LOG_RETENTION_MS, (log.LOG_RETENTION_MINUTES, MINUTE_MS), (log.LOG_RETENTION_HOURS, HOUR_MS))
    .doc("How long records are kept before their segment may be deleted; -1 keeps them for ever.")
)
RETENTION_BYTES = (
    keys.long("retention.bytes", -1, MEDIUM, ACTED)
    .follows(log.LOG_RETENTION_BYTES)
    .doc("How many bytes one partition may hold before its oldest segments are deleted; -1 sets no limit.")
)
CLEANUP_POLICY = (
    keys.list_("cleanup.policy", ("delete",), MEDIUM, ACTED, ListOf("compact", "delete", may_be_empty=True))
    .follows(log.LOG_CLEANUP_POLICY)
    .doc(
        "What becomes of old segments: `delete` drops them by age and size, `compact` keeps the last record "
        "of each key, both do both; empty keeps everything for ever."
    )
)

# Compaction.

DELETE_RETENTION_MS = (
    keys.long("delete.retention.ms", 86_400_000, MEDIUM, ACTED, at_least(0))
    .follows(log.LOG_CLEANER_DELETE_RETENTION_MS)
    .doc("How long a compacted log keeps the marker that a key was deleted, for readers that started before.")
)
MIN_COMPACTION_LAG_MS = (
    keys.long("min.compaction.lag.ms", 0, MEDIUM, ACTED, at_least(0))
    .follows(log.LOG_CLEANER_MIN_COMPACTION_LAG_MS)
    .doc("How old a record must be before compaction may remove it.")
)
MAX_COMPACTION_LAG_MS = (
    keys.long("max.compaction.lag.ms", LONG_MAX, MEDIUM, ACTED, at_least(1))
    .follows(log.LOG_CLEANER_MAX_COMPACTION_LAG_MS)
    .doc("How old a superseded record may become before the log is compacted whatever its ratio.")
)
MIN_CLEANABLE_DIRTY_RATIO = (
    keys.double("min.cleanable.dirty.ratio", 0.5, MEDIUM, ACTED, between(0, 1))
    .follows(log.LOG_CLEANER_MIN_CLEANABLE_RATIO)
    .doc("The log is compacted once this share of it has been written since the last compaction.")
)

# Limits of records.

MAX_MESSAGE_BYTES = (
    keys.int_("max.message.bytes", 1_048_588, MEDIUM, ACTED, at_least(0))
    .follows(log.MESSAGE_MAX_BYTES)
    .doc("The largest record batch, as compressed by the producer, that the topic accepts.")
)
MESSAGE_TIMESTAMP_TYPE = (
    keys.string("message.timestamp.type", "CreateTime", MEDIUM, ACTED, OneOf("CreateTime", "LogAppendTime"))
    .follows(log.LOG_MESSAGE_TIMESTAMP_TYPE)
    .doc(
        "Whether records carry the time that the producer gave them or the time at which the broker appended "
        "them."
    )
)
MESSAGE_TIMESTAMP_BEFORE_MAX_MS = (
    keys.long("message.timestamp.before.max.ms", LONG_MAX, MEDIUM, ACTED, at_least(0))
    .follows(log.LOG_MESSAGE_TIMESTAMP_BEFORE_MAX_MS)
    .doc("How far a record's own time may lie in the past; older ones are rejected.")
)
MESSAGE_TIMESTAMP_AFTER_MAX_MS = (
    keys.long("message.timestamp.after.max.ms", HOUR_MS, MEDIUM, ACTED, at_least(0))
    .follows(log.LOG_MESSAGE_TIMESTAMP_AFTER_MAX_MS)
    .doc(
        "How far a record's own time may lie in the future; later ones are rejected, for they would pin "
        "retention."
    )
)
COMPRESSION_TYPE = (
    keys.string("compression.type", "producer", MEDIUM, ACTED, log.COMPRESSION_TYPES)
    .follows(log.COMPRESSION_TYPE)
    .doc("The codec in which batches are stored; `producer` keeps each batch as it came.")
)
COMPRESSION_GZIP_LEVEL = (
    keys.int_("compression.gzip.level", -1, MEDIUM, ACTED, log.GZIP_LEVELS)
    .follows(log.COMPRESSION_GZIP_LEVEL)
    .doc("How hard gzip tries when the broker compresses with it.")
)
COMPRESSION_LZ4_LEVEL = (
    keys.int_("compression.lz4.level", 9, MEDIUM, ACTED, between(1, 17))
    .follows(log.COMPRESSION_LZ4_LEVEL)
    .doc("How hard lz4 tries when the broker compresses with it.")
)
COMPRESSION_ZSTD_LEVEL = (
    keys.int_("compression.zstd.level", 3, MEDIUM, ACTED, between(-131_072, 22))
    .follows(log.COMPRESSION_ZSTD_LEVEL)
    .doc("How hard zstd tries when the broker compresses with it.")
)

# Replicas.

MIN_INSYNC_REPLICAS = (
    keys.int_("min.insync.replicas", 1, MEDIUM, ACTED, at_least(1))
    .follows(log.MIN_INSYNC_REPLICAS)
    .doc("How many replicas must be in sync for a produce request with acks=all to be accepted.")
)
UNCLEAN_LEADER_ELECTION_ENABLE = (
    keys.boolean("unclean.leader.election.enable", False, MEDIUM, IN_CLUSTER)
    .follows(replication.UNCLEAN_LEADER_ELECTION_ENABLE)
    .doc(
        "Whether a replica that was not in sync may become leader when no other is left, at the price of "
        "lost records."
    )
)
LEADER_REPLICATION_THROTTLED_REPLICAS = keys.list_(
    "leader.replication.throttled.replicas", (), MEDIUM, IN_CLUSTER, THROTTLED_REPLICAS
).doc(
    "Which replicas are throttled on the leader's side, as partition:broker pairs; `*` throttles all of them."
)
FOLLOWER_REPLICATION_THROTTLED_REPLICAS = keys.list_(
    "follower.replication.throttled.replicas", (), MEDIUM, IN_CLUSTER, THROTTLED_REPLICAS
).doc(
    "Which replicas are throttled on the follower's side, as partition:broker pairs; `*` throttles all of "
    "them."
)

# Tiered storage.

REMOTE_STORAGE_ENABLE = keys.boolean("remote.storage.enable", False, MEDIUM, TIERING_LATER).doc(
    "Whether closed segments are copied to the remote store; the broker must have tiering enabled."
)
LOCAL_RETENTION_MS = (
    keys.long("local.retention.ms", -2, MEDIUM, TIERING_LATER, at_least(-2))
    .follows(tiering.LOG_LOCAL_RETENTION_MS)
    .doc("How long a tiered segment also stays on the local disk; -2 means as long as retention.ms.")
)
LOCAL_RETENTION_BYTES = (
    keys.long("local.retention.bytes", -2, MEDIUM, TIERING_LATER, at_least(-2))
    .follows(tiering.LOG_LOCAL_RETENTION_BYTES)
    .doc(
        "How many bytes of tiered segments also stay on the local disk; -2 means as many as retention.bytes."
    )
)
REMOTE_LOG_COPY_DISABLE = keys.boolean("remote.log.copy.disable", False, MEDIUM, TIERING_LATER).doc(
    "Stops further copying to the remote store; what is there can still be read."
)
REMOTE_LOG_DELETE_ON_DISABLE = keys.boolean("remote.log.delete.on.disable", False, MEDIUM, TIERING_LATER).doc(
    "Whether switching remote.storage.enable off also deletes what was tiered."
)
