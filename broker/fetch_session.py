"""Fetch sessions (KIP-227): a consumer names its partitions once, then only what changes; answers hold only news.

A session is created by a full fetch (epoch 0) and identified by an id; each incremental fetch carries the next epoch.
The cache is bounded by slots (max.incremental.fetch.session.cache.slots). When it is full a new session takes the
place of one that was not used for two minutes, or of a smaller one that has existed for as long; else the client just
goes on with full fetches. Source: kafka.server.FetchSession.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from protocol.errors import ErrorCode
from protocol.messages.fetch import FetchRequest, FetchResponse
from protocol.wire import Uuid

NO_SESSION: Final = 0
INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
NO_EPOCH: Final = -1
EVICTION_MS: Final = 120_000

PartitionKey = tuple[str | Uuid, int]
"""What tells one partition of a session from another: the topic's id (its name before version 13) and the index."""


class FetchPartition:
    """One partition that a reader asks for, and what it was told last (sessions only answer what differs).

    `topic` is None while nobody knows a topic of this id.

    Offsets are inclusive starts; `high_watermark` and `log_start_offset` are -1 before the first answer.
    """

    __slots__ = (
        "current_leader_epoch",
        "fetch_offset",
        "fetcher_log_start_offset",
        "high_watermark",
        "key",
        "last_fetched_epoch",
        "log_start_offset",
        "max_bytes",
        "partition",
        "topic",
        "topic_id",
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
        records = data.records
        return (
            (records is not None and _size(records) > 0)
            or data.error_code != 0
            or self.high_watermark != data.high_watermark
            or self.log_start_offset != data.log_start_offset
            or data.preferred_read_replica != -1
            or data.diverging_epoch.epoch != -1
        )


def _size(records: object) -> int:
    size = getattr(records, "size", None)
    return len(records) if size is None else int(size)  # type: ignore[arg-type]  # bytes have a length, chunks a size


class FetchSession:
    """The partitions of one reader, in the order in which they are to be read next."""

    __slots__ = (
        "created_ms",
        "epoch",
        "last_used_ms",
        "partitions",
        "privileged",
        "session_id",
        "uses_topic_ids",
    )

    def __init__(
        self,
        session_id: int,
        partitions: OrderedDict[PartitionKey, FetchPartition],
        *,
        privileged: bool,
        uses_topic_ids: bool,
        now_ms: int,
    ) -> None:
        self.session_id = session_id
        self.partitions = partitions
        self.privileged = privileged
        self.uses_topic_ids = uses_topic_ids
        self.created_ms = now_ms
        self.last_used_ms = now_ms
        self.epoch = 1

    @property
    def has_had_its_time(self) -> bool:
        """Whether it was still in use long after it began, so that one that ranks above it may take its place."""
        return self.last_used_ms - self.created_ms > EVICTION_MS


def next_epoch(epoch: int) -> int:
    """Epochs count up and, after 2^31-1, start at 1 again; 0 and -1 have meanings of their own."""
    return 1 if epoch == 0x7FFFFFFF or epoch < 0 else epoch + 1


class FetchSessionCache:
    """Sessions by id, bounded; `new_id` draws the random 31-bit ids."""

    def __init__(self, slots: int, new_id: Callable[[], int]) -> None:
        self._slots = slots
        self._new_id = new_id
        self._sessions: OrderedDict[int, FetchSession] = OrderedDict()
        self.eviction_count = 0

    def __len__(self) -> int:
        return len(self._sessions)

    def partition_count(self) -> int:
        return sum(len(session.partitions) for session in self._sessions.values())

    def get(self, session_id: int) -> FetchSession | None:
        return self._sessions.get(session_id)

    def touch(self, session: FetchSession, now_ms: int) -> None:
        session.last_used_ms = now_ms
        self._sessions.move_to_end(session.session_id)

    def remove(self, session_id: int) -> None:
        self._sessions.pop(session_id, None)

    def maybe_create(
        self,
        partitions: OrderedDict[PartitionKey, FetchPartition],
        *,
        privileged: bool,
        uses_topic_ids: bool,
        now_ms: int,
    ) -> FetchSession | None:
        """A new session over `partitions`, or None when there is no slot to be had."""
        if len(self._sessions) >= self._slots and not self._evict(privileged, len(partitions), now_ms):
            return None
        session_id = self._new_id()
        while session_id == NO_SESSION or session_id in self._sessions:
            session_id = self._new_id()
        session = FetchSession(
            session_id, partitions, privileged=privileged, uses_topic_ids=uses_topic_ids, now_ms=now_ms
        )
        self._sessions[session_id] = session
        return session

    def _evict(self, privileged: bool, size: int, now_ms: int) -> bool:
        """Makes one slot free: of the longest unused session if it is stale, else of the least one of those that
        have had their time, provided that the newcomer ranks above it (followers above consumers, more above fewer)."""
        if not self._sessions:
            return False
        oldest = next(iter(self._sessions.values()))
        if now_ms - oldest.last_used_ms > EVICTION_MS:
            victim = oldest
        else:
            candidates = [
                session
                for session in self._sessions.values()
                if session.has_had_its_time or (privileged and not session.privileged)
            ]
            if not candidates:
                return False
            victim = min(candidates, key=lambda s: (s.privileged, len(s.partitions), s.session_id))
            if (victim.privileged, len(victim.partitions)) >= (privileged, size):
                return False
        del self._sessions[victim.session_id]
        self.eviction_count += 1
        return True


class FetchContext:
    """What one fetch request reads, and how its answer is put together."""

    __slots__ = ("_create", "_epoch", "error", "incremental", "partitions", "session", "uses_topic_ids")

    def __init__(
        self,
        partitions: Iterable[FetchPartition] = (),
        *,
        uses_topic_ids: bool = False,
        error: ErrorCode = ErrorCode.NONE,
        session: FetchSession | None = None,
        incremental: bool = False,
        create: Callable[[], FetchSession | None] | None = None,
    ) -> None:
        self.partitions: Sequence[FetchPartition] = list(partitions)
        self.uses_topic_ids = uses_topic_ids
        self.error = error
        self.session = session
        self.incremental = incremental
        self._create = create
        self._epoch = session.epoch if session is not None else INITIAL_EPOCH

    def response(self, data: Sequence[FetchResponse.PartitionData]) -> FetchResponse:
        """The answer from one PartitionData for each of `partitions`, in their order."""
        if self.error is not ErrorCode.NONE:
            return FetchResponse(error_code=self.error)
        if self._create is not None:
            self.session = self._create()
        session = self.session
        shown = list(zip(self.partitions, data, strict=True))
        if session is None:
            return FetchResponse(responses=_by_topic(shown))
        if self.incremental:
            if session.epoch != self._epoch:
                # The session has gone on while this request waited: its reader knows more than this answer would say.
                return FetchResponse(
                    session_id=session.session_id, error_code=ErrorCode.INVALID_FETCH_SESSION_EPOCH
                )
            shown = self._news(session, shown)
        else:
            for partition, partition_data in shown:
                partition.answered(partition_data)
        return FetchResponse(session_id=session.session_id, responses=_by_topic(shown))

    @staticmethod
    def _news(
        session: FetchSession, answers: Iterable[tuple[FetchPartition, FetchResponse.PartitionData]]
    ) -> list[tuple[FetchPartition, FetchResponse.PartitionData]]:
        """Only what is new; partitions that gave records go to the end, so that each has its turn at the front."""
        news = []
        for partition, data in answers:
            if not partition.is_news(data):
                continue
            partition.answered(data)
            news.append((partition, data))
            if data.records is not None and _size(data.records) > 0:
                session.partitions.move_to_end(partition.key)
        return news


def _by_topic(
    answers: Iterable[tuple[FetchPartition, FetchResponse.PartitionData]],
) -> list[FetchResponse.FetchableTopicResponse]:
    """Groups neighbours of one topic, keeping the order: consumers read from the front."""
    topics: list[FetchResponse.FetchableTopicResponse] = []
    for partition, data in answers:
        name = partition.topic or ""
        if not topics or topics[-1].topic_id != partition.topic_id or topics[-1].topic != name:
            topics.append(
                FetchResponse.FetchableTopicResponse(topic=name, topic_id=partition.topic_id, partitions=[])
            )
        topics[-1].partitions.append(data)
    return topics


class FetchManager:
    """Turns a fetch request into the context that it is read in."""

    def __init__(self, cache: FetchSessionCache, now_ms: Callable[[], int]) -> None:
        self.cache = cache
        self._now_ms = now_ms

    def context(
        self,
        request: FetchRequest,
        api_version: int,
        name_of: Callable[[Uuid], str | None],
        *,
        is_follower: bool,
    ) -> FetchContext:
        """The context of `request`: `name_of` resolves topic ids (None for an unknown one), used from version 13."""
        uses_topic_ids = api_version >= 13
        epoch = request.session_epoch
        if epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            return self._full(request, uses_topic_ids, name_of, is_follower=is_follower)
        session = self.cache.get(request.session_id)
        error = ErrorCode.NONE
        if session is None:
            error = ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        elif session.epoch != epoch:
            error = ErrorCode.INVALID_FETCH_SESSION_EPOCH
        elif session.uses_topic_ids != uses_topic_ids:
            error = ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
        if session is None or error is not ErrorCode.NONE:
            return FetchContext(error=error)
        return self._incremental(request, session, name_of)

    def _full(
        self,
        request: FetchRequest,
        uses_topic_ids: bool,
        name_of: Callable[[Uuid], str | None],
        *,
        is_follower: bool,
    ) -> FetchContext:
        if request.session_id != NO_SESSION:
            self.cache.remove(request.session_id)
        partitions = OrderedDict(_requested(request, uses_topic_ids, name_of))
        if request.session_epoch == FINAL_EPOCH:
            return FetchContext(partitions.values(), uses_topic_ids=uses_topic_ids)

        def create() -> FetchSession | None:
            return self.cache.maybe_create(
                partitions, privileged=is_follower, uses_topic_ids=uses_topic_ids, now_ms=self._now_ms()
            )

        return FetchContext(partitions.values(), uses_topic_ids=uses_topic_ids, create=create)

    def _incremental(
        self, request: FetchRequest, session: FetchSession, name_of: Callable[[Uuid], str | None]
    ) -> FetchContext:
        uses_topic_ids = session.uses_topic_ids
        for topic in request.topics:
            for wanted in topic.partitions:
                key = (topic.topic_id if uses_topic_ids else topic.topic, wanted.partition)
                known = session.partitions.get(key)
                if known is None:
                    name = name_of(topic.topic_id) if uses_topic_ids else topic.topic
                    session.partitions[key] = FetchPartition(key, name, topic.topic_id, wanted)
                else:
                    known.update(wanted)
        for forgotten in request.forgotten_topics_data:
            for index in forgotten.partitions:
                session.partitions.pop(
                    (forgotten.topic_id if uses_topic_ids else forgotten.topic, index), None
                )
        if session.uses_topic_ids:
            _resolve_late_names(session, name_of)
        if not session.partitions:
            self.cache.remove(session.session_id)
            rest = OrderedDict(_requested(request, uses_topic_ids, name_of))
            return FetchContext(rest.values(), uses_topic_ids=uses_topic_ids)
        session.epoch = next_epoch(session.epoch)
        self.cache.touch(session, self._now_ms())
        return FetchContext(
            session.partitions.values(),
            uses_topic_ids=session.uses_topic_ids,
            session=session,
            incremental=True,
        )


def _resolve_late_names(session: FetchSession, name_of: Callable[[Uuid], str | None]) -> None:
    """A topic id that was unknown when the session began may have got its name since."""
    for partition in session.partitions.values():
        if partition.topic is None:
            partition.topic = name_of(partition.topic_id)


def _requested(
    request: FetchRequest, uses_topic_ids: bool, name_of: Callable[[Uuid], str | None]
) -> Iterable[tuple[PartitionKey, FetchPartition]]:
    for topic in request.topics:
        name = name_of(topic.topic_id) if uses_topic_ids else topic.topic
        for partition in topic.partitions:
            key = (topic.topic_id if uses_topic_ids else topic.topic, partition.partition)
            yield key, FetchPartition(key, name, topic.topic_id, partition)
