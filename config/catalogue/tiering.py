"""Broker keys for tiered storage (KIP-405): closed segments also go to a remote store.

Source: RemoteLogManagerConfig. None of these keys has an effect yet.
"""

from barnabas.config.catalogue.use import TIERING_LATER
from barnabas.config.keys import CLUSTER_WIDE, LOW, MEDIUM, KeySet
from barnabas.config.validators import NonEmpty, at_least, between
from barnabas.config.values import LONG_MAX

keys = KeySet()

REMOTE_LOG_STORAGE_SYSTEM_ENABLE = keys.boolean(
    "remote.log.storage.system.enable", False, MEDIUM, TIERING_LATER
).doc("Whether this broker can tier at all; topics then choose with remote.storage.enable.")

# The plug-ins.

REMOTE_LOG_STORAGE_MANAGER_IMPL_PREFIX = keys.string(
    "remote.log.storage.manager.impl.prefix", "rsm.config.", MEDIUM, TIERING_LATER, NonEmpty()
).doc("Keys with this prefix are handed, without it, to the remote store's own implementation.")
REMOTE_LOG_METADATA_MANAGER_IMPL_PREFIX = keys.string(
    "remote.log.metadata.manager.impl.prefix", "rlmm.config.", MEDIUM, TIERING_LATER, NonEmpty()
).doc("Keys with this prefix are handed, without it, to the keeper of the remote segments' metadata.")
REMOTE_LOG_STORAGE_MANAGER_CLASS_NAME = keys.optional_string(
    "remote.log.storage.manager.class.name", None, MEDIUM, TIERING_LATER, NonEmpty()
).doc("The class that copies segments to the remote store and reads them back.")
REMOTE_LOG_STORAGE_MANAGER_CLASS_PATH = keys.optional_string(
    "remote.log.storage.manager.class.path", None, MEDIUM, TIERING_LATER
).doc("Where that class and what it needs are loaded from, apart from the broker's own classes.")
REMOTE_LOG_METADATA_MANAGER_CLASS_NAME = keys.string(
    "remote.log.metadata.manager.class.name",
    "org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager",
    MEDIUM,
    TIERING_LATER,
    NonEmpty(),
).doc("The class that remembers which remote segments there are.")
REMOTE_LOG_METADATA_MANAGER_CLASS_PATH = keys.optional_string(
    "remote.log.metadata.manager.class.path", None, MEDIUM, TIERING_LATER
).doc("Where that class and what it needs are loaded from, apart from the broker's own classes.")
REMOTE_LOG_METADATA_MANAGER_LISTENER_NAME = keys.optional_string(
    "remote.log.metadata.manager.listener.name", None, MEDIUM, TIERING_LATER, NonEmpty()
).doc("The listener by which the keeper of the metadata reaches the brokers.")
REMOTE_LOG_METADATA_CUSTOM_METADATA_MAX_BYTES = keys.int_(
    "remote.log.metadata.custom.metadata.max.bytes", 128, LOW, TIERING_LATER, at_least(0)
).doc(
    "How many bytes of its own a remote store may attach to a segment's metadata; with more the copy fails."
)

# Indexes kept locally.

REMOTE_LOG_INDEX_FILE_CACHE_TOTAL_SIZE_BYTES = keys.long(
    "remote.log.index.file.cache.total.size.bytes", 1 << 30, LOW, TIERING_LATER, at_least(1), CLUSTER_WIDE
).doc("How much local disk the indexes fetched from the remote store may take.")
REMOTE_LOG_INDEX_FILE_CACHE_TTL_MS = keys.long(
    "remote.log.index.file.cache.ttl.ms", 900_000, LOW, TIERING_LATER, at_least(-1), internal=True
).doc("How long an unused index stays in the local cache; -1 sets no limit.")

# Workers.

REMOTE_LOG_MANAGER_THREAD_POOL_SIZE = keys.int_(
    "remote.log.manager.thread.pool.size", 2, MEDIUM, TIERING_LATER, at_least(1)
).doc(
    "How many workers the followers' share of tiering used to get; see the follower pool for its successor."
)
REMOTE_LOG_MANAGER_COPIER_THREAD_POOL_SIZE = keys.int_(
    "remote.log.manager.copier.thread.pool.size", 10, MEDIUM, TIERING_LATER, at_least(1), CLUSTER_WIDE
).doc("How many segments may be on their way to the remote store at the same time.")
REMOTE_LOG_MANAGER_EXPIRATION_THREAD_POOL_SIZE = keys.int_(
    "remote.log.manager.expiration.thread.pool.size", 10, MEDIUM, TIERING_LATER, at_least(1), CLUSTER_WIDE
).doc("How many partitions may have expired remote segments removed at the same time.")
REMOTE_LOG_MANAGER_FOLLOWER_THREAD_POOL_SIZE = keys.int_(
    "remote.log.manager.follower.thread.pool.size", 2, MEDIUM, TIERING_LATER, at_least(1), CLUSTER_WIDE
).doc("How many followers may look up what has been tiered at the same time.")
REMOTE_LOG_MANAGER_TASK_INTERVAL_MS = keys.long(
    "remote.log.manager.task.interval.ms", 30_000, LOW, TIERING_LATER, at_least(1)
).doc("How often each partition looks for segments to copy or to remove.")
REMOTE_LOG_MANAGER_TASK_RETRY_BACKOFF_MS = keys.long(
    "remote.log.manager.task.retry.backoff.ms", 500, LOW, TIERING_LATER, at_least(1), internal=True
).doc("How long a tiering task first waits after a failure.")
REMOTE_LOG_MANAGER_TASK_RETRY_BACKOFF_MAX_MS = keys.long(
    "remote.log.manager.task.retry.backoff.max.ms", 30_000, LOW, TIERING_LATER, at_least(1), internal=True
).doc("How long a tiering task waits at most after repeated failures.")
REMOTE_LOG_MANAGER_TASK_RETRY_JITTER = keys.double(
    "remote.log.manager.task.retry.jitter", 0.2, LOW, TIERING_LATER, between(0, 0.5), internal=True
).doc("By which share these waits vary at random.")
REMOTE_LOG_READER_THREADS = keys.int_(
    "remote.log.reader.threads", 10, MEDIUM, TIERING_LATER, at_least(1), CLUSTER_WIDE
).doc("How many fetches may read from the remote store at the same time.")
REMOTE_LOG_READER_MAX_PENDING_TASKS = keys.int_(
    "remote.log.reader.max.pending.tasks", 100, MEDIUM, TIERING_LATER, at_least(1)
).doc("How many fetches may wait for the remote store before further ones fail.")

# Retention on the local disk.

LOG_LOCAL_RETENTION_MS = keys.long(
    "log.local.retention.ms", -2, MEDIUM, TIERING_LATER, at_least(-2), CLUSTER_WIDE
).doc("How long a tiered segment also stays on the local disk; -2 means as long as it is kept at all.")
LOG_LOCAL_RETENTION_BYTES = keys.long(
    "log.local.retention.bytes", -2, MEDIUM, TIERING_LATER, at_least(-2), CLUSTER_WIDE
).doc("How many bytes of tiered segments also stay on the local disk; -2 means as many as are kept at all.")

# Quotas of the copying itself.

REMOTE_LOG_MANAGER_COPY_MAX_BYTES_PER_SECOND = keys.long(
    "remote.log.manager.copy.max.bytes.per.second", LONG_MAX, MEDIUM, TIERING_LATER, at_least(1), CLUSTER_WIDE
).doc("How fast segments may be copied to the remote store.")
REMOTE_LOG_MANAGER_COPY_QUOTA_WINDOW_NUM = keys.int_(
    "remote.log.manager.copy.quota.window.num", 11, MEDIUM, TIERING_LATER, at_least(1)
).doc("Over how many samples the speed of copying is averaged.")
REMOTE_LOG_MANAGER_COPY_QUOTA_WINDOW_SIZE_SECONDS = keys.int_(
    "remote.log.manager.copy.quota.window.size.seconds", 1, MEDIUM, TIERING_LATER, at_least(1)
).doc("How long each of these samples is.")
REMOTE_LOG_MANAGER_FETCH_MAX_BYTES_PER_SECOND = keys.long(
    "remote.log.manager.fetch.max.bytes.per.second",
    LONG_MAX,
    MEDIUM,
    TIERING_LATER,
    at_least(1),
    CLUSTER_WIDE,
).doc("How fast segments may be read from the remote store.")
REMOTE_LOG_MANAGER_FETCH_QUOTA_WINDOW_NUM = keys.int_(
    "remote.log.manager.fetch.quota.window.num", 11, MEDIUM, TIERING_LATER, at_least(1)
).doc("Over how many samples the speed of reading is averaged.")
REMOTE_LOG_MANAGER_FETCH_QUOTA_WINDOW_SIZE_SECONDS = keys.int_(
    "remote.log.manager.fetch.quota.window.size.seconds", 1, MEDIUM, TIERING_LATER, at_least(1)
).doc("How long each of these samples is.")
REMOTE_FETCH_MAX_WAIT_MS = keys.int_(
    "remote.fetch.max.wait.ms", 500, MEDIUM, TIERING_LATER, at_least(1), CLUSTER_WIDE
).doc("How long a fetch waits for the remote store before it is answered without.")
REMOTE_LIST_OFFSETS_REQUEST_TIMEOUT_MS = keys.long(
    "remote.list.offsets.request.timeout.ms", 30_000, MEDIUM, TIERING_LATER, at_least(1), CLUSTER_WIDE
).doc("How long a ListOffsets request waits for the remote store.")
