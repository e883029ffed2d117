"""Fetch sessions (KIP-227): a consumer names its partitions once, then only what changes; answers hold only news.

A session is created by a full fetch (epoch 0) and identified by an id; each incremental fetch carries the next epoch.
The cache is bounded by slots (max.incremental.fetch.session.cache.slots). When it is full a new session takes the
place of one that was not used for two minutes, or of a smaller one that has existed for as long; else the client just
goes on with full fetches. Source: kafka.server.FetchSession.

What Kafka has not: the partitions of all sessions are bounded too, for anybody may name partitions that there are not.
And a consumer's partition that has nothing new to say **rests**. It stands under its key in the fetch
purgatory, and is read again when something has happened there, when the reader asks for another offset, or when a look
around (`FetchSession.look_around`) finds it changed. So a fetch costs what has changed, not what is in its session.

Readers that know no sessions (librdkafka) name everything each time and are told of everything. What they asked for
last on their connection is kept all the same, as a session without an id (`answers_all`), so that here, too, only what
has changed is read.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Final

from broker.fetch.context import FetchContext, NamedTopic
from broker.fetch.partition import FetchPartition, PartitionKey
from broker.waiting.purgatory import Watchers
from protocol.errors import ErrorCode
from protocol.messages.fetch import FetchRequest
from protocol.wire import Uuid

NO_SESSION: Final = 0
INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
EVICTION_MS: Final = 120_000
LOOK_AROUND_MS: Final = 1000
FOLLOWER: Final = -1
"""In place of an isolation level: of a follower that reads in a session no partition ever rests."""

MAX_UNNAMED_SESSIONS: Final = 1000
MAX_UNNAMED_PARTITIONS: Final = 100_000
"""Of readers that know no sessions, over all connections; some 300 bytes each."""

MAX_NAMED_PARTITIONS: Final = 1_000_000
"""Of all sessions; beyond that there are none for those who want one."""

_NONE: Final = ErrorCode.NONE


class FetchSession:
    """The partitions of one reader, and which of them may have something to say: all but those that rest.

    `resting` counts those that do, by topic. `waiting` has the session's fetches that wait, hardly ever more than one.
    """

    __slots__ = (
        "_last_turn",
        "active",
        "answers_all",
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
        self.answers_all = session_id == NO_SESSION
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

    def name_all(self, request: FetchRequest, name_of: Callable[[Uuid], str | None]) -> list[NamedTopic]:
        """Has the session be of exactly what `request` names; returns that in its order.

        What is asked for as it was before rests on if it rests. This goes over everything that is named each time, so
        what is the same is told by a few comparisons.
        """
        known = self.partitions
        topics: list[NamedTopic] = []
        before = self._last_turn
        count = 0
        for topic in request.topics:
            topic_id = topic.topic_id
            name_or_id: str | Uuid = topic_id if self.uses_topic_ids else topic.topic
            name = name_of(topic_id) if self.uses_topic_ids else topic.topic
            named: list[FetchPartition] = []
            for wanted in topic.partitions:
                partition = known.get((name_or_id, wanted.partition))
                if partition is None:
                    partition = FetchPartition((name_or_id, wanted.partition), name, topic_id, wanted)
                    self.add(partition)
                    named.append(partition)
                    continue
                if not (
                    partition.fetch_offset == wanted.fetch_offset
                    and partition.max_bytes == wanted.partition_max_bytes
                    and partition.current_leader_epoch == wanted.current_leader_epoch
                    and partition.last_fetched_epoch == wanted.last_fetched_epoch
                    and partition.topic == name
                ):
                    self.wake(partition)
                    partition.topic = name
                    partition.update(wanted)
                if partition.turn <= before:  # and is not named for the second time
                    self._last_turn += 1
                    partition.turn = self._last_turn
                    named.append(partition)
            count += len(named)
            if topics and topics[-1].topic_id == topic_id and topics[-1].name == (name or ""):
                topics[-1].partitions.extend(named)
            elif named:
                topics.append(NamedTopic(name or "", topic_id, named))
        if count != len(known):
            for partition in [one for one in known.values() if one.turn <= before]:
                self.forget(partition.key)
        return topics

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

    def follow_isolation(self, level: int) -> None:
        """What the reader may see has perhaps changed: then nothing is known of anything."""
        if level != self.isolation_level:
            self.look_around(lambda _: False)
            self.isolation_level = level

    def close(self) -> None:
        """Nobody will ask for it again; a fetch that waits is still answered, and the last to go takes this with it."""
        self.is_closed = True
        if not self.waiting:
            for partition in self.partitions.values():
                partition.leave()
                partition.session = None  # they refer to each other, and need not wait for the collector

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
    """Sessions by id, bounded in their number and in that of their partitions; `new_id` draws the random 31-bit ids."""

    def __init__(
        self, slots: int, new_id: Callable[[], int], max_partitions: int = MAX_NAMED_PARTITIONS
    ) -> None:
        self._slots = slots
        self._new_id = new_id
        self._max_partitions = max_partitions
        self._sessions: OrderedDict[int, FetchSession] = OrderedDict()
        self.eviction_count = 0

    def __len__(self) -> int:
        return len(self._sessions)

    def partition_count(self) -> int:
        return sum(len(session.partitions) for session in self._sessions.values())

    def has_room_for(self, count: int) -> bool:
        """Whether there may be so many partitions more."""
        return self.partition_count() + count <= self._max_partitions

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
        """A new session over `partitions`, or None when there is no slot, or no room, to be had."""
        size = len(partitions)
        while len(self._sessions) >= self._slots or not self.has_room_for(size):
            if size > self._max_partitions or not self._evict(privileged, size, now_ms):
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


class FetchManager:
    """Turns a fetch request into the context that it is read in."""

    def __init__(
        self,
        cache: FetchSessionCache,
        now_ms: Callable[[], int],
        *,
        max_unnamed_sessions: int = MAX_UNNAMED_SESSIONS,
        max_unnamed_partitions: int = MAX_UNNAMED_PARTITIONS,
    ) -> None:
        self.cache = cache
        self._now_ms = now_ms
        self._max_unnamed_sessions = max_unnamed_sessions
        self._max_unnamed_partitions = max_unnamed_partitions
        self._unnamed: OrderedDict[int, FetchSession] = (
            OrderedDict()
        )  # by connection, the longest unused first
        self._unnamed_partitions = 0

    def context(
        self,
        request: FetchRequest,
        api_version: int,
        name_of: Callable[[Uuid], str | None],
        *,
        is_follower: bool,
        connection_id: int | None = None,
    ) -> FetchContext:
        """The context of `request`: `name_of` resolves topic ids (None for an unknown one), used from version 13.

        With a `connection_id` what is asked for without a session is kept for the next request of the connection.
        """
        uses_topic_ids = api_version >= 13
        epoch = request.session_epoch
        if epoch == FINAL_EPOCH and connection_id is not None and not is_follower:
            return self._without_session(request, uses_topic_ids, name_of, connection_id)
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

    def _without_session(
        self,
        request: FetchRequest,
        uses_topic_ids: bool,
        name_of: Callable[[Uuid], str | None],
        connection_id: int,
    ) -> FetchContext:
        """As `_full` in the final epoch, with what rests since the connection's last such request left at rest."""
        if request.session_id != NO_SESSION:
            self.cache.remove(request.session_id)
        session = self._unnamed.get(connection_id)
        if session is not None and session.waiting:  # a second fetch beside the one that waits
            return FetchContext(dict(_requested(request, uses_topic_ids, name_of)).values())
        now_ms = self._now_ms()
        if session is None or session.uses_topic_ids != uses_topic_ids:
            self._forget_unnamed(connection_id)
            session = self._unnamed[connection_id] = FetchSession(
                NO_SESSION, {}, privileged=False, uses_topic_ids=uses_topic_ids, now_ms=now_ms
            )
        else:
            self._unnamed.move_to_end(connection_id)
        session.last_used_ms = now_ms
        session.follow_isolation(request.isolation_level)
        self._unnamed_partitions -= len(session.partitions)
        named = session.name_all(request, name_of)
        self._unnamed_partitions += len(session.partitions)
        while (
            len(self._unnamed) > self._max_unnamed_sessions
            or self._unnamed_partitions > self._max_unnamed_partitions
        ) and len(self._unnamed) > 1:
            self._forget_unnamed(next(iter(self._unnamed)))
        return FetchContext(session.due(), session=session, named=named)

    def _forget_unnamed(self, connection_id: int) -> None:
        session = self._unnamed.pop(connection_id, None)
        if session is not None:
            self._unnamed_partitions -= len(session.partitions)
            session.close()

    def _incremental(
        self,
        request: FetchRequest,
        session: FetchSession,
        name_of: Callable[[Uuid], str | None],
        *,
        is_follower: bool,
    ) -> FetchContext:
        uses_topic_ids = session.uses_topic_ids
        before = len(session.partitions)
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
        if len(session.partitions) > before and not self.cache.has_room_for(0):
            self.cache.remove(session.session_id)
            return FetchContext(error=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if not session.partitions:
            self.cache.remove(session.session_id)
            return FetchContext(dict(_requested(request, uses_topic_ids, name_of)).values())
        session.follow_isolation(FOLLOWER if is_follower else request.isolation_level)
        session.epoch = next_epoch(session.epoch)
        self.cache.touch(session, self._now_ms())
        due = session.due()
        for partition in due:
            if partition.topic is None:  # an id that was unknown before may have got its name since
                partition.topic = name_of(partition.topic_id)
        return FetchContext(due, session=session)


def _requested(
    request: FetchRequest, uses_topic_ids: bool, name_of: Callable[[Uuid], str | None]
) -> Iterable[tuple[PartitionKey, FetchPartition]]:
    for topic in request.topics:
        name = name_of(topic.topic_id) if uses_topic_ids else topic.topic
        for partition in topic.partitions:
            key = (topic.topic_id if uses_topic_ids else topic.topic, partition.partition)
            yield key, FetchPartition(key, name, topic.topic_id, partition)
