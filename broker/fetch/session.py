"""FetchSession: the partitions of one reader, from request to request, and which of them are to be read (KIP-227).

A reader names its partitions once, then only what changes, and is answered only what is new. A session is created by a
full fetch (epoch 0) and identified by an id; each incremental fetch carries the next epoch. Source:
kafka.server.FetchSession.

What Kafka has not: a consumer's partition that has nothing new to say *rests*. It stands under its key in the fetch
purgatory, and is read again when something has happened there, when the reader asks for another offset, or when a
check of all that rest (`maybe_check_resting`) finds it changed. So a fetch costs what has changed, not what is in its
session.

Readers that know no sessions (librdkafka) name everything each time and are answered everything. What they asked for
last on their connection is kept all the same, as a session without an id (`answers_all`), so that here, too, only what
has changed is read.

The states of a partition. Only FetchSession changes them.

    state    | is read | watches its key | entered
    ---------+---------+-----------------+--------------------------------------------------------------------
    ACTIVE   | yes     | no              | at first; from WATCHING, when something happens and no fetch waits
    WATCHING | yes     | yes             | from ACTIVE, when a fetch begins to wait; from RESTING, when something
             |         |                 | happens, the reader asks for something else, or a check finds it changed
    RESTING  | no      | yes             | from ACTIVE and WATCHING, when a consumer's read finds nothing new
    GONE     | no      | no              | from all: forgotten by the reader, or the session is CLOSED; for good

The states of the session:

    state    | a request finds it | may have fetches that wait | entered
    ---------+--------------------+----------------------------+------------------------------------------------
    OPEN     | yes                | yes                        | at first
    CLOSING  | no                 | yes, and they are answered | ended, replaced or evicted while a fetch waits
    CLOSED   | no                 | no                         | the same where none waits; the last that waited ends
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from typing import Final

from barnabas.broker.fetch.partition import EntryState, FetchPartition, PartitionKey, size_of
from barnabas.broker.waiting.purgatory import DelayedOperationPurgatory, Watchers
from barnabas.protocol.messages.fetch import FetchRequest, FetchResponse
from barnabas.protocol.wire import Uuid
from barnabas.storage.offsets import FetchIsolation

NO_SESSION: Final = 0
INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
CHECK_RESTING_MS: Final = 1000
FOLLOWER: Final = -1
"""In place of an isolation level: of a follower that reads in a session no partition ever rests."""

_ACTIVE: Final = EntryState.ACTIVE
_WATCHING: Final = EntryState.WATCHING
_RESTING: Final = EntryState.RESTING
_GONE: Final = EntryState.GONE

Answer = tuple[FetchPartition, FetchResponse.PartitionData]
"""A partition, and what is answered of it."""


class SessionState(Enum):
    """The table is above."""

    OPEN = "Open"
    CLOSING = "Closing"
    CLOSED = "Closed"


_OPEN: Final = SessionState.OPEN
_CLOSING: Final = SessionState.CLOSING
_CLOSED: Final = SessionState.CLOSED


class NamedTopic:
    """A topic and the partitions of it that a request names, in its order; the name is empty while it is unknown."""

    __slots__ = ("entries", "name", "topic_id")

    def __init__(self, name: str, topic_id: Uuid, entries: list[FetchPartition]) -> None:
        self.name = name
        self.topic_id = topic_id
        self.entries = entries


class FetchSession:
    """The partitions of one reader by their keys, with those that are to be read (`active`): all but those that rest.

    `resting` counts the others by topic. `waiting` has the session's fetches that wait, hardly ever more than one.
    """

    __slots__ = (
        "_checked",
        "_last_turn",
        "active",
        "answers_all",
        "created_ms",
        "epoch",
        "isolation_level",
        "last_used_ms",
        "partitions",
        "privileged",
        "resting",
        "session_id",
        "state",
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
        self.state = _OPEN
        self.active: dict[FetchPartition, None] = {}
        self.resting: dict[str, int] = {}
        self.waiting: Watchers = {}
        self.isolation_level = 0
        self._checked = now_ms // CHECK_RESTING_MS
        self._last_turn = 0
        for entry in partitions.values():
            self.add(entry)

    # ---- what the reader asks for

    def add(self, entry: FetchPartition) -> None:
        """A partition that the session has not, and that no session had before: it is ACTIVE."""
        entry.listener = self
        self.partitions[entry.key] = entry
        self.active[entry] = None
        self._give_last_turn(entry)

    def update(self, entry: FetchPartition, wanted: FetchRequest.FetchPartition) -> None:
        """The reader names a partition again: it is read, whether that asks for something else or not."""
        self.wake(entry)
        entry.update(wanted)

    def forget(self, key: PartitionKey) -> None:
        entry = self.partitions.pop(key, None)
        if entry is not None:
            self._end(entry)

    def name_all(self, request: FetchRequest, name_of: Callable[[Uuid], str | None]) -> list[NamedTopic]:
        """Has the session be of exactly what `request` names; returns that in its order.

        What is asked for as it was before rests on if it rests. This goes over everything that is named each time, so
        the comparisons stand here and not in a function.
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
                entry = known.get((name_or_id, wanted.partition))
                if entry is None:
                    entry = FetchPartition((name_or_id, wanted.partition), name, topic_id, wanted)
                    self.add(entry)
                    named.append(entry)
                    continue
                if not (
                    entry.fetch_offset == wanted.fetch_offset
                    and entry.max_bytes == wanted.partition_max_bytes
                    and entry.current_leader_epoch == wanted.current_leader_epoch
                    and entry.last_fetched_epoch == wanted.last_fetched_epoch
                    and entry.topic == name
                ):
                    self.wake(entry)
                    entry.topic = name
                    entry.update(wanted)
                if entry.turn <= before:  # and is not named for the second time
                    self._last_turn += 1
                    entry.turn = self._last_turn
                    named.append(entry)
            count += len(named)
            if topics and topics[-1].topic_id == topic_id and topics[-1].name == (name or ""):
                topics[-1].entries.extend(named)
            elif named:
                topics.append(NamedTopic(name or "", topic_id, named))
        if count != len(known):
            for entry in [one for one in known.values() if one.turn <= before]:
                self.forget(entry.key)
        return topics

    def follow_isolation(self, level: int) -> None:
        """Another isolation level may show the reader other records: then every partition is read."""
        if level != self.isolation_level:
            for entry in self.partitions.values():
                self.wake(entry)
            self.isolation_level = level

    def name_unknown(self, due: list[FetchPartition], name_of: Callable[[Uuid], str | None]) -> None:
        """Ids of topics that were unknown before may have got their names since."""
        for entry in due:
            if entry.topic is None:
                entry.topic = name_of(entry.topic_id)

    def next_request(self) -> None:
        """A request of this epoch is read; the next one has to carry the next."""
        self.epoch = next_epoch(self.epoch)

    # ---- what is to be read

    def due(self) -> list[FetchPartition]:
        """What is to be read now, in the order in which it is to be read."""
        due = list(self.active)
        if len(due) > 1:
            due.sort(key=_turn)
        return due

    def maybe_check_resting(self, isolation: FetchIsolation) -> bool:
        """Now and then wakes what has changed without a call: old segments that were deleted, say.

        Returns whether it was time for that.
        """
        period = self.last_used_ms // CHECK_RESTING_MS
        if period == self._checked:
            return False
        self._checked = period
        if self.resting:
            for entry in self.partitions.values():
                if entry.state is _RESTING and not entry.has_nothing_new(isolation):
                    self.wake(entry)
        return True

    def maybe_rest(
        self,
        entry: FetchPartition,
        data: FetchResponse.PartitionData,
        isolation: FetchIsolation,
        purgatory: DelayedOperationPurgatory,
    ) -> None:
        """A consumer's read found no records and no error: the partition rests if that is all that there is."""
        state = entry.state
        if state is not _ACTIVE and state is not _WATCHING:
            return  # what another fetch of the session found, or asked for, while this one was read
        if self.answers_all:
            entry.answered(data)
            entry.data = data
        if not entry.has_nothing_new(isolation):
            return
        topic = entry.topic
        assert topic is not None, "what was read has a name"
        if state is _ACTIVE:
            self._watch(entry, purgatory)
        entry.state = _RESTING
        del self.active[entry]
        self.resting[topic] = self.resting.get(topic, 0) + 1

    def watch(self, purgatory: DelayedOperationPurgatory) -> None:
        """A consumer's fetch is about to wait: has it hear of all partitions that are here, in place of keys."""
        for entry in self.active:
            if entry.state is _ACTIVE and entry.partition is not None:
                self._watch(entry, purgatory)
                entry.state = _WATCHING

    # ---- what happens to partitions: as their ChangeListener

    @property
    def is_waiting(self) -> bool:
        return bool(self.waiting)

    def wake(self, entry: FetchPartition) -> None:
        """It rests no longer, if it did."""
        if entry.state is _RESTING:
            entry.state = _WATCHING
            self.active[entry] = None
            self._count_awake(entry)

    def changed(self, entry: FetchPartition) -> int:
        self.wake(entry)
        completed = 0
        for fetch in list(self.waiting):
            completed += fetch.look()
        if not self.waiting and entry.state is _WATCHING:
            entry.state = (
                _ACTIVE  # it is read by the next fetch in any case, and need not hear more until then
            )
            self._unwatch(entry)
        return completed

    # ---- what is answered

    def answered(self, answers: Iterable[Answer]) -> None:
        """The reader is told all of this."""
        for entry, data in answers:
            entry.answered(data)

    def news(self, answers: Iterable[Answer]) -> list[Answer]:
        """Only what is new; partitions that gave records go to the end, so that each has its turn at the front."""
        news = []
        for answer in answers:
            entry, data = answer
            if entry.is_news(data):
                entry.answered(data)
                news.append(answer)
                if size_of(data):
                    self._give_last_turn(entry)
        return news

    def everything(
        self,
        named: Sequence[NamedTopic],
        entries: Sequence[FetchPartition],
        answers: Sequence[FetchResponse.PartitionData],
    ) -> list[FetchResponse.FetchableTopicResponse]:
        """What was read of `entries` now, and what is known of the partitions that rest.

        One that was woken by the very reading (of a disk that fails) was not read, and is told of as it was.
        """
        for entry, data in zip(entries, answers, strict=True):
            entry.data = data
        topics = [
            FetchResponse.FetchableTopicResponse.make(
                topic=topic.name,
                topic_id=topic.topic_id,
                partitions=[entry.data for entry in topic.entries],  # type: ignore[misc]
            )
            for topic in named
        ]
        for entry in entries:
            if entry.state is not _RESTING:
                entry.data = None  # records and their files are not held
        return topics

    # ---- the end

    def close(self) -> None:
        """No request will find it again. A fetch that waits is still answered, and `fetch_ended` does the rest."""
        if self.waiting:
            self.state = _CLOSING
            return
        self.state = _CLOSED
        for entry in self.partitions.values():
            self._end(entry)
        self.partitions.clear()

    def fetch_ended(self) -> None:
        """A fetch that waited is answered."""
        if self.state is _CLOSING:
            self.close()

    # ---- parts of transitions

    def _give_last_turn(self, entry: FetchPartition) -> None:
        self._last_turn += 1
        entry.turn = self._last_turn

    def _watch(self, entry: FetchPartition, purgatory: DelayedOperationPurgatory) -> None:
        assert entry.partition is not None, "what was not found has no key"
        entry.watchers = purgatory.watch(entry.partition.key, entry)

    def _unwatch(self, entry: FetchPartition) -> None:
        if entry.watchers is not None:
            entry.watchers.pop(entry, None)
            entry.watchers = None

    def _count_awake(self, entry: FetchPartition) -> None:
        topic = entry.topic
        assert topic is not None, "what rests was read, and has a name"
        left = self.resting[topic] - 1
        if left:
            self.resting[topic] = left
        else:
            del self.resting[topic]

    def _end(self, entry: FetchPartition) -> None:
        if entry.state is _RESTING:
            self._count_awake(entry)
        else:
            self.active.pop(entry, None)
        entry.state = _GONE
        self._unwatch(entry)
        entry.listener = None  # they refer to each other, and need not wait for the collector


def _turn(entry: FetchPartition) -> int:
    return entry.turn


def next_epoch(epoch: int) -> int:
    """Epochs count up and, after 2^31-1, start at 1 again; 0 and -1 have meanings of their own."""
    return 1 if epoch == 0x7FFFFFFF or epoch < 0 else epoch + 1
