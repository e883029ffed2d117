"""FetchPartition: one partition that a reader asks for, and what is known between its requests.

Source: kafka.server.CachedPartition.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from broker.waiting.purgatory import Watchers
from protocol.errors import ErrorCode
from protocol.messages.fetch import FetchRequest, FetchResponse
from protocol.wire import Uuid

if TYPE_CHECKING:
    from broker.fetch.session import FetchSession
    from broker.replica.partition import Partition
    from storage.offsets import LogOffsetMetadata

NO_EPOCH: Final = -1

_NONE: Final = ErrorCode.NONE
_IN_MEMORY: Final = (bytes, memoryview)

PartitionKey = tuple[str | Uuid, int]
"""What tells one partition of a session from another: the topic's id (its name before version 13) and the index."""


class FetchPartition:
    """One partition that a reader asks for, what it was told last, and what its last read found.

    `topic` is None while nobody knows a topic of this id. Offsets are inclusive starts; `high_watermark` and
    `log_start_offset` are what the reader was told (sessions only answer what differs), -1 before the first answer.
    `source` is the partition that was read (None where that failed), and `start` where in it the read began.

    In a session it is a Watcher: `place` is where it stands in the purgatory, if it does, and `turn` grows in the order
    in which partitions are read. `data` is what a session that answers everything says of it while it rests.
    """

    __slots__ = (
        "current_leader_epoch",
        "data",
        "fetch_offset",
        "fetcher_log_start_offset",
        "high_watermark",
        "key",
        "last_fetched_epoch",
        "log_start_offset",
        "max_bytes",
        "partition",
        "place",
        "session",
        "source",
        "start",
        "topic",
        "topic_id",
        "turn",
    )

    def __init__(
        self, key: PartitionKey, topic: str | None, topic_id: Uuid, request: FetchRequest.FetchPartition
    ) -> None:
        self.key = key
        self.topic = topic
        self.topic_id = topic_id
        self.partition = request.partition
        self.high_watermark = -1
        self.log_start_offset = -1
        self.source: Partition | None = None
        self.start: LogOffsetMetadata | None = None
        self.session: FetchSession | None = None
        self.place: Watchers | None = None
        self.data: FetchResponse.PartitionData | None = None
        self.turn = 0
        self.update(request)

    def update(self, request: FetchRequest.FetchPartition) -> None:
        """Takes over what the reader asks for now."""
        self.fetch_offset = request.fetch_offset
        self.max_bytes = request.partition_max_bytes
        self.current_leader_epoch = max(NO_EPOCH, request.current_leader_epoch)
        self.last_fetched_epoch = request.last_fetched_epoch
        self.fetcher_log_start_offset = request.log_start_offset

    def answered(self, data: FetchResponse.PartitionData) -> None:
        """Remembers what the reader now knows; an error makes the next answer news whatever it says."""
        self.high_watermark = -1 if data.error_code else data.high_watermark
        self.log_start_offset = data.log_start_offset

    def is_news(self, data: FetchResponse.PartitionData) -> bool:
        """Whether `data` tells the reader anything that it was not told before."""
        return (
            self.high_watermark != data.high_watermark
            or self.log_start_offset != data.log_start_offset
            or data.error_code != _NONE
            or size_of(data) > 0
            or data.preferred_read_replica != -1
            or data.diverging_epoch.epoch != -1
        )

    # ---- as a Watcher

    @property
    def is_waiting(self) -> bool:
        return self.session is not None and bool(self.session.waiting)

    def wake(self) -> None:
        """Something has happened to the partition: it rests no longer."""
        assert self.session is not None, "only what is in a session watches"
        self.session.wake(self)

    def look(self) -> int:
        """Something has happened to the partition: it rests no longer, and a fetch that waits tries again."""
        session = self.session
        assert session is not None, "only what is in a session watches"
        session.wake(self)
        completed = 0
        for operation in list(session.waiting):
            completed += operation.look()
        if (
            not session.waiting
        ):  # one call is enough: it stands up again when it rests again, or is waited for
            self.leave()
        return completed

    def leave(self) -> None:
        """Watches no longer."""
        if self.place is not None:
            self.place.pop(self, None)
            self.place = None


def size_of(data: FetchResponse.PartitionData) -> int:
    """Bytes of records."""
    records = data.records
    if records is None:
        return 0
    return len(records) if isinstance(records, _IN_MEMORY) else records.size
