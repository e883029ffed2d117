"""FetchPartition: one partition that a reader fetches, and its state between the reader's requests.

Source: kafka.server.CachedPartition.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Final, Protocol

from barnabas.broker.replica.partition import NO_EPOCH, Partition
from barnabas.broker.waiting.purgatory import Watchers
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.fetch import FetchRequest, FetchResponse
from barnabas.protocol.wire import Uuid
from barnabas.storage.log.unified_log import UnifiedLog
from barnabas.storage.offsets import FetchIsolation, LogOffsetMetadata

if TYPE_CHECKING:
    from barnabas.broker.replica.isr import RemoteReplica, RestingIn

_NONE: Final = ErrorCode.NONE
_HIGH_WATERMARK: Final = FetchIsolation.HIGH_WATERMARK
_TXN_COMMITTED: Final = FetchIsolation.TXN_COMMITTED
_IN_MEMORY: Final = (bytes, memoryview)

Follower = tuple[int, int]
"""A follower that fetches: its node id, and the broker epoch that it names (-1: none)."""

PartitionKey = tuple[str | Uuid, int]
"""Identifies a partition in a session: the topic's id (its name before version 13) and the index."""


class EntryState(Enum):
    """The state of a partition in a session; the table of states is in broker.fetch.session."""

    ACTIVE = "Active"
    WATCHING = "Watching"
    RESTING = "Resting"
    GONE = "Gone"


_ACTIVE: Final = EntryState.ACTIVE


class ChangeListener(Protocol):
    """The session of a watching partition; called when the partition changes."""

    @property
    def is_waiting(self) -> bool:
        """Whether a fetch waits for a change."""

    def wake(self, entry: FetchPartition) -> None:
        """The partition has changed; the waiting fetches are checked later."""

    def changed(self, entry: FetchPartition) -> int:
        """The partition has changed; returns how many waiting fetches completed."""


class FetchPartition:
    """One partition that a reader fetches, its last response, and what its last read found.

    `topic` is None while no topic of this id is known. One that the client may not read `is_denied`. Offsets are
    inclusive starts; `high_watermark` and `log_start_offset` are those of the last response (sessions answer only
    changes), -1 before the first one.
    `partition` is what was read (None where that failed), and `start` where in it the read began: both are the
    ReplicaReader's.

    In a session it is a Watcher that notifies `listener`. Only the session uses these:
    `state`, `watchers` (its place in the purgatory, if any), `turn` (grows in the order in which partitions
    are read), `data` (its response while it rests, in a session that answers everything), and `remote` (what the
    leader knows of the follower, while it rests).
    """

    __slots__ = (
        "current_leader_epoch",
        "data",
        "fetch_offset",
        "fetcher_log_start_offset",
        "high_watermark",
        "index",
        "is_denied",
        "key",
        "last_fetched_epoch",
        "listener",
        "log_start_offset",
        "max_bytes",
        "partition",
        "remote",
        "start",
        "state",
        "topic",
        "topic_id",
        "turn",
        "watchers",
    )

    def __init__(
        self, key: PartitionKey, topic: str | None, topic_id: Uuid, wanted: FetchRequest.FetchPartition
    ) -> None:
        self.key = key
        self.topic = topic
        self.topic_id = topic_id
        self.index = wanted.partition
        self.is_denied = False
        self.high_watermark = -1
        self.log_start_offset = -1
        self.partition: Partition | None = None
        self.start: LogOffsetMetadata | None = None
        self.listener: ChangeListener | None = None
        self.state = _ACTIVE
        self.watchers: Watchers | None = None
        self.turn = 0
        self.data: FetchResponse.PartitionData | None = None
        self.remote: RemoteReplica | None = None
        self.update(wanted)

    def update(self, wanted: FetchRequest.FetchPartition) -> None:
        self.fetch_offset = wanted.fetch_offset
        self.max_bytes = wanted.partition_max_bytes
        self.current_leader_epoch = max(NO_EPOCH, wanted.current_leader_epoch)
        self.last_fetched_epoch = wanted.last_fetched_epoch
        self.fetcher_log_start_offset = wanted.log_start_offset

    def answered(self, data: FetchResponse.PartitionData) -> None:
        """Notes the response; after an error any next response is news."""
        self.high_watermark = -1 if data.error_code else data.high_watermark
        self.log_start_offset = data.log_start_offset

    def is_news(self, data: FetchResponse.PartitionData) -> bool:
        """Whether `data` has anything that the reader's last response did not have."""
        return (
            self.high_watermark != data.high_watermark
            or self.log_start_offset != data.log_start_offset
            or data.error_code != _NONE
            or size_of(data) > 0
            or data.preferred_read_replica != -1
            or data.diverging_epoch.epoch != -1
        )

    def has_nothing_new(self, isolation: FetchIsolation, follower: Follower | None = None) -> bool:
        """Whether a read would find no records, no error and the numbers of the last response.

        That of a follower would teach the leader nothing either.
        """
        partition = self.partition
        if partition is None or partition.log.is_failed:
            return False
        log = partition.log
        if (
            self.fetch_offset < readable_end(log, isolation)
            or self.high_watermark != log.high_watermark
            or self.log_start_offset != log.log_start_offset
        ):
            return False
        if follower is None:
            return self.last_fetched_epoch < 0
        return self._settled_replica(partition, follower) is not None

    def _settled_replica(self, partition: Partition, follower: Follower) -> RemoteReplica | None:
        if self.fetch_offset != partition.log.log_end_offset or self.current_leader_epoch not in (
            NO_EPOCH,
            partition.leader_epoch,
        ):
            return None
        return partition.settled_replica(*follower)

    def rest(self, session: RestingIn, follower: Follower) -> None:
        """The session's requests stand for the follower's fetches from here on; `has_nothing_new` has held."""
        assert self.partition is not None, "what rests was read"
        self.remote = self._settled_replica(self.partition, follower)
        if self.remote is not None:
            self.remote.rest(session)

    def end_rest(self, session: RestingIn) -> None:
        """Ends what `rest` began, if it did."""
        if self.remote is not None:
            self.remote.wake(session)
            self.remote = None

    # ---- as a Watcher

    @property
    def is_waiting(self) -> bool:
        return self.listener is not None and self.listener.is_waiting

    def wake(self) -> None:
        if self.listener is not None:
            self.listener.wake(self)

    def look(self) -> int:
        return self.listener.changed(self) if self.listener is not None else 0


def size_of(data: FetchResponse.PartitionData) -> int:
    """Bytes of records."""
    records = data.records
    if records is None:
        return 0
    return len(records) if isinstance(records, _IN_MEMORY) else records.size


def readable_end(log: UnifiedLog, isolation: FetchIsolation) -> int:
    """Where a reader has to stop (exclusive)."""
    if isolation is _HIGH_WATERMARK:
        return log.high_watermark
    return log.last_stable_offset if isolation is _TXN_COMMITTED else log.log_end_offset
