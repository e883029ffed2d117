"""Fetch sessions (KIP-227): a consumer names its partitions once, then only what changes; answers hold only news.

A session is created by a full fetch (epoch 0) and identified by an id; each incremental fetch carries the next epoch.
The cache is bounded by slots (max.incremental.fetch.session.cache.slots). When it is full a new session takes the
place of one that was not used for two minutes, or of a smaller one that has existed for as long; else the client just
goes on with full fetches. Source: kafka.server.FetchSession.

What Kafka has not: a consumer's partition that has nothing new to say **rests**. It stands under its key in the fetch
purgatory, and is read again when something has happened there, when the reader asks for another offset, or when a look
around (`FetchSession.look_around`) finds it changed. So a fetch costs what has changed, not what is in its session.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from broker.fetch_partition import FetchPartition, PartitionKey, size_of
from broker.purgatory import Watchers
from protocol.errors import ErrorCode
from protocol.messages.fetch import FetchRequest, FetchResponse
from protocol.wire import Uuid

NO_SESSION: Final = 0
INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
EVICTION_MS: Final = 120_000
LOOK_AROUND_MS: Final = 1000

_NONE: Final = ErrorCode.NONE


class FetchSession:
    """The partitions of one reader, and which of them may have something to say: all but those that rest.

    `resting` counts those that do, by topic. `waiting` has the session's fetches that wait, hardly ever more than one.
    """

    __slots__ = (
        "_last_turn",
        "active",
        "created_ms",
        "epoch",
        "is_closed",
        "isolation_level",
        "last_used_ms",
        "looked_around",
        "partitions",
        "privileged",
        "resting",
        "session_id",
        "uses_topic_ids",
        "waiting",
    )

    def __init__(
        self,
        session_id: int,
        partitions: dict[PartitionKey, FetchPartition],
        *,
        privileged: bool,
        uses_topic_ids: bool,
        now_ms: int,
    ) -> None:
        self.session_id = session_id
        self.partitions: dict[PartitionKey, FetchPartition] = {}
        self.privileged = privileged
        self.uses_topic_ids = uses_topic_ids
        self.created_ms = now_ms
        self.last_used_ms = now_ms
        self.epoch = 1
        self.active: dict[FetchPartition, None] = {}
        self.resting: dict[str, int] = {}
        self.waiting: Watchers = {}
        self.isolation_level = 0
        self.looked_around = now_ms // LOOK_AROUND_MS
        self.is_closed = False
        self._last_turn = 0
        for partition in partitions.values():
            self.add(partition)

    def add(self, partition: FetchPartition) -> None:
        partition.session = self
        self.partitions[partition.key] = partition
        self.active[partition] = None
        self.give_last_turn(partition)

    def forget(self, key: PartitionKey) -> None:
        partition = self.partitions.pop(key, None)
        if partition is not None:
            self.wake(partition)
            del self.active[partition]
            partition.leave()

    def due(self) -> list[FetchPartition]:
        """What is to be read now, in the order in which it is to be read."""
        due = list(self.active)
        if len(due) > 1:
            due.sort(key=_turn)
        return due

    def give_last_turn(self, partition: FetchPartition) -> None:
        self._last_turn += 1
        partition.turn = self._last_turn

    def rest(self, partition: FetchPartition) -> None:
        """It has nothing new to say, and stands where it hears of it when it has."""
        assert partition.place is not None
        assert partition.topic is not None
        del self.active[partition]
        self.resting[partition.topic] = self.resting.get(partition.topic, 0) + 1

    def wake(self, partition: FetchPartition) -> None:
        if partition not in self.active:
            assert partition.topic is not None
            self.active[partition] = None
            left = self.resting[partition.topic] - 1
            if left:
                self.resting[partition.topic] = left
            else:
                del self.resting[partition.topic]

    def look_around(self, rests_on: Callable[[FetchPartition], bool]) -> None:
        """Wakes what does not rest on, for reasons that nobody called for: old segments that were deleted, say."""
        self.looked_around = self.last_used_ms // LOOK_AROUND_MS
        if self.resting:
            for partition in self.partitions.values():
                if not rests_on(partition):
                    self.wake(partition)

    def close(self) -> None:
        """Nobody will ask for it again; a fetch that waits is still answered, and the last to go takes this with it."""
        self.is_closed = True
        if not self.waiting:
            for partition in self.partitions.values():
                partition.leave()

    @property
    def has_had_its_time(self) -> bool:
        """Whether it was still in use long after it began, so that one that ranks above it may take its place."""
        return self.last_used_ms - self.created_ms > EVICTION_MS


def _turn(partition: FetchPartition) -> int:
    return partition.turn


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
        session = self._sessions.pop(session_id, None)
        if session is not None:
            session.close()

    def maybe_create(
        self,
        partitions: dict[PartitionKey, FetchPartition],
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
        self.remove(victim.session_id)
        self.eviction_count += 1
        return True


class FetchContext:
    """What one fetch request reads, and how its answer is put together.

    `partitions` is what there is to read, in its order: of an incremental fetch, what does not rest.
    """

    __slots__ = ("_create", "_epoch", "error", "incremental", "partitions", "session")

    def __init__(
        self,
        partitions: Iterable[FetchPartition] = (),
        *,
        error: ErrorCode = _NONE,
        session: FetchSession | None = None,
        create: Callable[[], FetchSession | None] | None = None,
    ) -> None:
        self.partitions: Sequence[FetchPartition] = list(partitions)
        self.error = error
        self.session = session
        self.incremental = session is not None
        self._create = create
        self._epoch = session.epoch if session is not None else INITIAL_EPOCH

    def look_again(self) -> None:
        """Brings `partitions` up to date: what has been woken since is there as well."""
        if self.incremental and self.session is not None:
            self.partitions = self.session.due()

    def response(self, data: Sequence[FetchResponse.PartitionData]) -> FetchResponse:
        """The answer from one PartitionData for each of `partitions`, in their order."""
        if self.error is not _NONE:
            return FetchResponse.make(error_code=self.error)
        if self._create is not None:
            self.session = self._create()
        session = self.session
        answers = zip(self.partitions, data, strict=True)
        if session is None:
            return FetchResponse.make(responses=_by_topic(answers))
        if not self.incremental:
            shown = list(answers)
            for partition, told in shown:
                partition.answered(told)
        elif session.epoch == self._epoch:
            shown = self._news(session, answers)
        else:
            # The session has gone on while this request waited: its reader knows more than this answer would say.
            return FetchResponse.make(
                session_id=session.session_id, error_code=ErrorCode.INVALID_FETCH_SESSION_EPOCH
            )
        return FetchResponse.make(session_id=session.session_id, responses=_by_topic(shown))

    @staticmethod
    def _news(
        session: FetchSession, answers: Iterable[tuple[FetchPartition, FetchResponse.PartitionData]]
    ) -> list[tuple[FetchPartition, FetchResponse.PartitionData]]:
        """Only what is new; partitions that gave records go to the end, so that each has its turn at the front."""
        news = []
        for answer in answers:
            partition, data = answer
            if partition.is_news(data):
                partition.answered(data)
                news.append(answer)
                if size_of(data):
                    session.give_last_turn(partition)
        return news


def _by_topic(
    answers: Iterable[tuple[FetchPartition, FetchResponse.PartitionData]],
) -> list[FetchResponse.FetchableTopicResponse]:
    """Groups neighbours of one topic, keeping the order: consumers read from the front."""
    topics: list[FetchResponse.FetchableTopicResponse] = []
    last_name: str | None = None
    last_id: Uuid | None = None
    partitions: list[FetchResponse.PartitionData] = []
    for partition, data in answers:
        name, topic_id = partition.topic or "", partition.topic_id
        if topic_id != last_id or name != last_name:
            last_name, last_id, partitions = name, topic_id, []
            topics.append(
                FetchResponse.FetchableTopicResponse.make(
                    topic=name, topic_id=topic_id, partitions=partitions
                )
            )
        partitions.append(data)
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
        if session is None:
            return FetchContext(error=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if session.epoch != epoch:
            return FetchContext(error=ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        if session.uses_topic_ids != uses_topic_ids:
            return FetchContext(error=ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        return self._incremental(request, session, name_of, is_follower=is_follower)

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
        partitions = dict(_requested(request, uses_topic_ids, name_of))
        if request.session_epoch == FINAL_EPOCH:
            return FetchContext(partitions.values())

        def create() -> FetchSession | None:
            return self.cache.maybe_create(
                partitions, privileged=is_follower, uses_topic_ids=uses_topic_ids, now_ms=self._now_ms()
            )

        return FetchContext(partitions.values(), create=create)

    def _incremental(
        self,
        request: FetchRequest,
        session: FetchSession,
        name_of: Callable[[Uuid], str | None],
        *,
        is_follower: bool,
    ) -> FetchContext:
        uses_topic_ids = session.uses_topic_ids
        for topic in request.topics:
            name_or_id = topic.topic_id if uses_topic_ids else topic.topic
            for wanted in topic.partitions:
                key = (name_or_id, wanted.partition)
                known = session.partitions.get(key)
                if known is None:
                    name = name_of(topic.topic_id) if uses_topic_ids else topic.topic
                    session.add(FetchPartition(key, name, topic.topic_id, wanted))
                else:
                    known.update(wanted)
                    session.wake(known)
        for forgotten in request.forgotten_topics_data:
            for index in forgotten.partitions:
                session.forget((forgotten.topic_id if uses_topic_ids else forgotten.topic, index))
        if not session.partitions:
            self.cache.remove(session.session_id)
            return FetchContext(dict(_requested(request, uses_topic_ids, name_of)).values())
        if is_follower or request.isolation_level != session.isolation_level:
            session.look_around(lambda _: False)  # what a reader may see has changed: nothing is known of it
            session.isolation_level = request.isolation_level
        session.epoch = next_epoch(session.epoch)
        self.cache.touch(session, self._now_ms())
        due = session.due()
        if uses_topic_ids:
            _resolve_late_names(due, name_of)
        return FetchContext(due, session=session)


def _resolve_late_names(partitions: Iterable[FetchPartition], name_of: Callable[[Uuid], str | None]) -> None:
    """A topic id that was unknown when the session began may have got its name since."""
    for partition in partitions:
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
