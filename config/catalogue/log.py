"""Broker keys for the logs: directories, segments, retention, flushing, compaction.

Those that have a topic key of their own (catalogue/topic.py) are the default for topics which do not set it.
"""

from barnabas.config.catalogue.use import ACTED, IN_CLUSTER
from barnabas.config.keys import CLUSTER_WIDE, HIGH, LOW, MEDIUM, PER_BROKER, KeySet
from barnabas.config.validators import ListOf, OneOf, Satisfies, at_least, between
from barnabas.config.values import LONG_MAX

keys = KeySet()

# Directories.

LOG_DIR = keys.list_("log.dir", ("/tmp/kafka-logs",), HIGH, ACTED, ListOf()).doc(
    "The directories for the logs, used when log.dirs is not set."
)
LOG_DIRS = keys.optional_list("log.dirs", None, HIGH, ACTED, ListOf()).doc(
    "The directories for the logs, comma-separated. A new partition goes to the one with the fewest "
    "partitions."
)
CORDONED_LOG_DIRS = keys.list_(
    "cordoned.log.dirs", (), MEDIUM, ACTED, ListOf(may_be_empty=True), PER_BROKER
).doc("Log directories that get no new partitions; `*` stands for all of them.")
NUM_RECOVERY_THREADS_PER_DATA_DIR = keys.int_(
    "num.recovery.threads.per.data.dir", 2, HIGH, ACTED, at_least(1), CLUSTER_WIDE
).doc(
    "How many threads load the logs of one directory after an unclean stop. No more are started than there "
    "are processors, but one for each directory in any case."
)
NUM_REPLICA_ALTER_LOG_DIRS_THREADS = keys.optional_int(
    "num.replica.alter.log.dirs.threads", None, HIGH, ACTED
).doc(
    "How many threads copy replicas that move from one log directory to another; when unset, as many as there are log "
    "directories."
)
LOG_DIR_FAILURE_TIMEOUT_MS = keys.long(
    "log.dir.failure.timeout.ms", 30_000, LOW, IN_CLUSTER, at_least(1)
).doc(
    "How long a broker with a failed log directory may fail to report it to the controller before it shuts down."
)
LOG_INITIAL_TASK_DELAY_MS = keys.long(
    "log.initial.task.delay.ms", 30_000, LOW, ACTED, at_least(0), internal=True
).doc("How long after the start the first round of retention, flushing and checkpoints waits.")

# Defaults of topics.

NUM_PARTITIONS = keys.int_("num.partitions", 1, MEDIUM, ACTED, at_least(1)).doc(
    "How many partitions a topic gets when its creator names no number, by auto-creation for example."
)
AUTO_CREATE_TOPICS_ENABLE = keys.boolean("auto.create.topics.enable", True, HIGH, ACTED).doc(
    "Whether a topic is created when a client that allows it asks for its metadata."
)
MIN_INSYNC_REPLICAS = keys.int_("min.insync.replicas", 1, HIGH, ACTED, at_least(1), CLUSTER_WIDE).doc(
    "How many replicas must be in sync for a produce request with acks=all to be accepted."
)

# Segments and their indexes.

LOG_SEGMENT_BYTES = keys.int_("log.segment.bytes", 1 << 30, HIGH, ACTED, at_least(1 << 20), CLUSTER_WIDE).doc(
    "A segment that an append would make larger than this many bytes is rolled."
)
LOG_ROLL_MS = keys.optional_long("log.roll.ms", None, HIGH, ACTED, None, CLUSTER_WIDE).doc(
    "A segment older than this is rolled even if it is not full. When unset, log.roll.hours applies."
)
LOG_ROLL_HOURS = keys.int_("log.roll.hours", 168, HIGH, ACTED, at_least(1)).doc(
    "A segment older than this many hours is rolled; log.roll.ms takes precedence."
)
LOG_ROLL_JITTER_MS = keys.optional_long("log.roll.jitter.ms", None, HIGH, ACTED, None, CLUSTER_WIDE).doc(
    "Up to this much, at random, is subtracted from the rolling time, so that segments do not all roll at once. "
    "When unset, log.roll.jitter.hours applies."
)
LOG_ROLL_JITTER_HOURS = keys.int_("log.roll.jitter.hours", 0, HIGH, ACTED, at_least(0)).doc(
    "The rolling jitter in hours; log.roll.jitter.ms takes precedence."
)
LOG_INDEX_SIZE_MAX_BYTES = keys.int_(
    "log.index.size.max.bytes", 10 << 20, MEDIUM, ACTED, at_least(4), CLUSTER_WIDE
).doc("How large an offset index may grow; a segment whose index is full is rolled.")
LOG_INDEX_INTERVAL_BYTES = keys.int_(
    "log.index.interval.bytes", 4096, MEDIUM, ACTED, at_least(0), CLUSTER_WIDE
).doc(
    "About one index entry is written for this many bytes of log: fewer bytes, faster seeks, larger indexes."
)
LOG_PREALLOCATE = keys.boolean("log.preallocate", False, MEDIUM, ACTED, None, CLUSTER_WIDE).doc(
    "Whether a new segment file takes its full size on disk at once."
)
LOG_SEGMENT_DELETE_DELAY_MS = keys.long(
    "log.segment.delete.delay.ms", 60_000, HIGH, ACTED, at_least(0), CLUSTER_WIDE
).doc(
    "How long a segment that was deleted keeps its file, renamed to .deleted, for readers that still use it."
)

# Retention.

LOG_RETENTION_MS = keys.optional_long("log.retention.ms", None, HIGH, ACTED, None, CLUSTER_WIDE).doc(
    "How long records are kept before their segment may be deleted; -1 keeps them for ever. "
    "When unset, log.retention.minutes applies."
)
LOG_RETENTION_MINUTES = keys.optional_int("log.retention.minutes", None, HIGH, ACTED).doc(
    "How many minutes records are kept; log.retention.ms takes precedence. When unset, log.retention.hours applies."
)
LOG_RETENTION_HOURS = keys.int_("log.retention.hours", 168, HIGH, ACTED).doc(
    "How many hours records are kept; log.retention.ms and log.retention.minutes take precedence."
)
LOG_RETENTION_BYTES = keys.long("log.retention.bytes", -1, HIGH, ACTED, None, CLUSTER_WIDE).doc(
    "How many bytes one partition may hold before its oldest segments are deleted; -1 sets no limit."
)
LOG_RETENTION_CHECK_INTERVAL_MS = keys.long(
    "log.retention.check.interval.ms", 300_000, MEDIUM, ACTED, at_least(1)
).doc("How often the broker looks for segments that retention lets it delete.")
LOG_CLEANUP_POLICY = keys.list_(
    "log.cleanup.policy",
    ("delete",),
    MEDIUM,
    ACTED,
    ListOf("compact", "delete", may_be_empty=True),
    CLUSTER_WIDE,
).doc(
    "What becomes of old segments: `delete` drops them by age and size, `compact` keeps the last record of "
    "each key, both do both; empty keeps everything for ever."
)

# Flushing.

LOG_FLUSH_INTERVAL_MESSAGES = keys.long(
    "log.flush.interval.messages", LONG_MAX, HIGH, ACTED, at_least(1), CLUSTER_WIDE
).doc(
    "A log is flushed when this many records have gathered since the last flush. With 1, an "
    "acknowledgement waits "
    "until its records are on disk; requests that wait at the same moment share one fsync."
)
LOG_FLUSH_INTERVAL_MS = keys.optional_long(
    "log.flush.interval.ms", None, HIGH, ACTED, None, CLUSTER_WIDE
).doc(
    "The longest time that a record may stay unflushed. It has an effect only when "
    "log.flush.scheduler.interval.ms, which is its default, has the broker check often enough."
)
LOG_FLUSH_SCHEDULER_INTERVAL_MS = keys.long("log.flush.scheduler.interval.ms", LONG_MAX, HIGH, ACTED).doc(
    "How often the broker checks for logs whose flush interval has passed."
)
LOG_FLUSH_OFFSET_CHECKPOINT_INTERVAL_MS = keys.int_(
    "log.flush.offset.checkpoint.interval.ms", 60_000, HIGH, ACTED, at_least(0)
).doc("How often the recovery points, up to which logs are known to be on disk, are written.")
LOG_FLUSH_START_OFFSET_CHECKPOINT_INTERVAL_MS = keys.int_(
    "log.flush.start.offset.checkpoint.interval.ms", 60_000, HIGH, ACTED, at_least(0)
).doc("How often the first offsets of the logs are written to disk, so that deleted records stay deleted.")

# Limits of records.

MESSAGE_MAX_BYTES = keys.int_("message.max.bytes", 1_048_588, HIGH, ACTED, at_least(0), CLUSTER_WIDE).doc(
    "The largest record batch, as compressed by the producer, that a topic accepts."
)
LOG_MESSAGE_TIMESTAMP_TYPE = keys.string(
    "log.message.timestamp.type",
    "CreateTime",
    MEDIUM,
    ACTED,
    OneOf("CreateTime", "LogAppendTime"),
    CLUSTER_WIDE,
).doc(
    "Whether records carry the time that the producer gave them or the time at which the broker appended "
    "them."
)
LOG_MESSAGE_TIMESTAMP_BEFORE_MAX_MS = keys.long(
    "log.message.timestamp.before.max.ms", LONG_MAX, MEDIUM, ACTED, at_least(0), CLUSTER_WIDE
).doc("How far a record's own time may lie in the past; older ones are rejected.")
LOG_MESSAGE_TIMESTAMP_AFTER_MAX_MS = keys.long(
    "log.message.timestamp.after.max.ms", 3_600_000, MEDIUM, ACTED, at_least(0), CLUSTER_WIDE
).doc(
    "How far a record's own time may lie in the future; later ones are rejected, for they would pin retention."
)

COMPRESSION_TYPES = OneOf("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")
GZIP_LEVELS = Satisfies(
    lambda level: level == -1 or level in range(1, 10), "from 1 to 9, or -1 for gzip's own default"
)

COMPRESSION_TYPE = keys.string(
    "compression.type", "producer", HIGH, ACTED, COMPRESSION_TYPES, CLUSTER_WIDE
).doc("The codec in which batches are stored; `producer` keeps each batch as it came.")
COMPRESSION_GZIP_LEVEL = keys.int_(
    "compression.gzip.level", -1, MEDIUM, ACTED, GZIP_LEVELS, CLUSTER_WIDE
).doc("How hard gzip tries when the broker compresses with it.")
COMPRESSION_LZ4_LEVEL = keys.int_(
    "compression.lz4.level", 9, MEDIUM, ACTED, between(1, 17), CLUSTER_WIDE
).doc("How hard lz4 tries when the broker compresses with it.")
COMPRESSION_ZSTD_LEVEL = keys.int_(
    "compression.zstd.level", 3, MEDIUM, ACTED, between(-131_072, 22), CLUSTER_WIDE
).doc("How hard zstd tries when the broker compresses with it.")

# Compaction.

LOG_CLEANER_ENABLE = keys.boolean("log.cleaner.enable", True, MEDIUM, ACTED).doc(
    "Whether topics with the `compact` policy are compacted at all."
)
LOG_CLEANER_THREADS = keys.int_("log.cleaner.threads", 1, MEDIUM, ACTED, at_least(0), CLUSTER_WIDE).doc(
    "How many logs are compacted at the same time, each by a process that runs while there is work."
)
LOG_CLEANER_BACKOFF_MS = keys.long(
    "log.cleaner.backoff.ms", 15_000, MEDIUM, ACTED, at_least(0), CLUSTER_WIDE
).doc("How long the cleaner rests when it finds nothing to compact.")
LOG_CLEANER_DEDUPE_BUFFER_SIZE = keys.long(
    "log.cleaner.dedupe.buffer.size", 128 << 20, MEDIUM, ACTED, None, CLUSTER_WIDE
).doc("How many bytes all cleaners together may use to remember keys.")
LOG_CLEANER_IO_BUFFER_SIZE = keys.int_(
    "log.cleaner.io.buffer.size", 512 << 10, MEDIUM, ACTED, at_least(0), CLUSTER_WIDE
).doc("How many bytes all cleaners together may use to read and write segments.")
LOG_CLEANER_IO_BUFFER_LOAD_FACTOR = keys.double(
    "log.cleaner.io.buffer.load.factor", 0.9, MEDIUM, ACTED, None, CLUSTER_WIDE
).doc("How full the table of keys may become: fuller means more keys in one pass and more collisions.")
LOG_CLEANER_IO_MAX_BYTES_PER_SECOND = keys.double(
    "log.cleaner.io.max.bytes.per.second",
    1.7976931348623157e308,
    MEDIUM,
    ACTED,
    None,
    CLUSTER_WIDE,
).doc(
    "How many bytes the cleaners may read and write in a second, so that clients keep their share of the "
    "disk. Each of log.cleaner.threads has an equal part of it."
)
LOG_CLEANER_MIN_CLEANABLE_RATIO = keys.double(
    "log.cleaner.min.cleanable.ratio", 0.5, MEDIUM, ACTED, between(0, 1), CLUSTER_WIDE
).doc("A log is compacted once this share of it has been written since the last compaction.")
LOG_CLEANER_DELETE_RETENTION_MS = keys.long(
    "log.cleaner.delete.retention.ms", 86_400_000, MEDIUM, ACTED, at_least(0), CLUSTER_WIDE
).doc("How long a compacted log keeps the marker that a key was deleted, for readers that started before.")
LOG_CLEANER_MIN_COMPACTION_LAG_MS = keys.long(
    "log.cleaner.min.compaction.lag.ms", 0, MEDIUM, ACTED, at_least(0), CLUSTER_WIDE
).doc("How old a record must be before compaction may remove it.")
LOG_CLEANER_MAX_COMPACTION_LAG_MS = keys.long(
    "log.cleaner.max.compaction.lag.ms", LONG_MAX, MEDIUM, ACTED, at_least(1), CLUSTER_WIDE
).doc("How old a superseded record may become before its log is compacted whatever its ratio.")
