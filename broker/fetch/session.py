"""FetchSession: the partitions of one reader, from request to request, and which of them a request reads (KIP-227).

A reader names its partitions once, then only changes, and gets only what is new. A session is created by a
full fetch (epoch 0) and identified by an id; each incremental fetch carries the next epoch. Source:
kafka.server.FetchSession.

Unlike in Kafka, a partition that has nothing new *rests*. It watches its key in the fetch purgatory, and is read again
when the partition changes, when the reader asks for another offset, or when a check of all that rest
(`maybe_check_resting`) finds it changed. So a fetch costs what has changed, not what is in its session.

A follower's partition rests while it is in the ISR and all is replicated and committed. Each request of the session
says once more that the follower has everything: the leader takes the last one for its last fetch (RemoteReplica.rest).

Readers without sessions (librdkafka) name everything each time and get everything. The partitions of the last request
on their connection are kept all the same, as a session without an id (`answers_all`), so that here, too, only
changed partitions are read.

The states of a partition. Only FetchSession changes them.

    state    | is read | watches its key | entered
    ---------+---------+-----------------+--------------------------------------------------------------------
    ACTIVE   | yes     | no              | at first; from WATCHING, when something happens and no fetch waits
    WATCHING | yes     | yes             | from ACTIVE, when a fetch begins to wait; from RESTING, when something
             |         |                 | happens, the reader asks for something else, or a check finds it changed
    RESTING  | no      | yes             | from ACTIVE and WATCHING, when a read finds nothing new
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

from barnabas.broker.fetch.partition import EntryState, FetchPartition, Follower, PartitionKey, size_of
from barnabas.broker.waiting.purgatory import DelayedOperationPurgatory, Watchers
from barnabas.protocol.messages.fetch import FetchRequest, FetchResponse
from barnabas.protocol.wire import Uuid
from barnabas.storage.offsets import FetchIsolation

NO_SESSION: Final = 0
INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
CHECK_RESTING_MS: Final = 1000
FOLLOWER: Final = -1
"""Stands for the isolation level of a follower."""

_ACTIVE: Final = EntryState.ACTIVE
_WATCHING: Final = EntryState.WATCHING
_RESTING: Final = EntryState.RESTING
_GONE: Final = EntryState.GONE

FetchedPartition = tuple[FetchPartition, FetchResponse.PartitionData]
"""A partition and its data in the response."""


class SessionState(Enum):
    """The state of a session; the table is in the module's docstring."""

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
    """The partitions of one reader by their keys, with those to read (`active`): all but those that rest.

    `resting` counts the others by topic. `waiting` has the session's waiting fetches, rarely more than one.
    `authorized_as` stands for the decisions by which the client may read those that rest; None without an authorizer.
    """

    __slots__ = (
        "_checked",
        "_follower",
        "_last_turn",
        "active",
        "answers_all",
        "authorized_as",
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
        self.authorized_as: object = None
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
        self._follower: Follower | None = None
        self._checked = now_ms // CHECK_RESTING_MS
        self._last_turn = 0
        for entry in partitions.values():
            self.add(entry)

    # ---- what the reader asks for

    def add(self, entry: FetchPartition) -> None:
        """Adds a partition that no session had before: it is ACTIVE."""
        entry.listener = self
        self.partitions[entry.key] = entry
        self.active[entry] = None
        self._give_last_turn(entry)

    def update(self, entry: FetchPartition, wanted: FetchRequest.FetchPartition) -> None:
        """Applies a request that names the partition again: it is read, changed or not."""
        self.wake(entry)
        entry.update(wanted)

    def forget(self, key: PartitionKey) -> None:
        entry = self.partitions.pop(key, None)
        if entry is not None:
            self._end(entry)

    def name_all(self, request: FetchRequest, name_of: Callable[[Uuid], str | None]) -> list[NamedTopic]:
        """Makes the session consist of exactly what `request` names; returns that in its order.

        A partition that is named without a change stays at rest if it rests. The loop visits every named partition of
        each request, so the comparisons are inline.
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
        """Reads every partition after a change of the isolation level, which may show other records."""
        if level != self.isolation_level:
            self.wake_all()
            self.isolation_level = level

    def wake_all(self) -> None:
        """Has every partition read, changed or not."""
        for entry in self.partitions.values():
            self.wake(entry)

    def name_unknown(self, due: list[FetchPartition], name_of: Callable[[Uuid], str | None]) -> None:
        """Resolves ids of topics that were unknown before."""
        for entry in due:
            if entry.topic is None:
                entry.topic = name_of(entry.topic_id)

    def next_request(self) -> None:
        """Advances the epoch, which the next request has to carry."""
        self.epoch = next_epoch(self.epoch)

    # ---- what is to be read

    def due(self) -> list[FetchPartition]:
        """The partitions to read now, in order."""
        due = list(self.active)
        if len(due) > 1:
            due.sort(key=_turn)
        return due

    def maybe_check_resting(self, isolation: FetchIsolation, follower: Follower | None = None) -> bool:
        """Periodically wakes partitions that changed without a notification (by retention, say), and at once where
        another process of a follower goes on with the session.

        Returns whether the check was due.
        """
        period = self.last_used_ms // CHECK_RESTING_MS
        if period == self._checked and follower == self._follower:
            return False
        self._checked = period
        self._follower = follower
        if self.resting:
            for entry in self.partitions.values():
                if entry.state is _RESTING and not entry.has_nothing_new(isolation, follower):
                    self.wake(entry)
        return True

    def maybe_rest(
        self,
        entry: FetchPartition,
        data: FetchResponse.PartitionData,
        isolation: FetchIsolation,
        purgatory: DelayedOperationPurgatory,
        follower: Follower | None = None,
    ) -> None:
        """A read found no records and no error: the partition rests if it has nothing new."""
        state = entry.state
        if state is not _ACTIVE and state is not _WATCHING:
            return  # another fetch of the session has changed it during this read
        if self.answers_all:
            entry.answered(data)
            entry.data = data
        if not entry.has_nothing_new(isolation, follower):
            return
        if follower is not None:
            entry.rest(self, follower)
        topic = entry.topic
        assert topic is not None, "what was read has a name"
        if state is _ACTIVE:
            self._watch(entry, purgatory)
        entry.state = _RESTING
        del self.active[entry]
        self.resting[topic] = self.resting.get(topic, 0) + 1

    def watch(self, purgatory: DelayedOperationPurgatory) -> None:
        """Has the active partitions watch their keys for a fetch that is about to wait."""
        for entry in self.active:
            if entry.state is _ACTIVE and entry.partition is not None:
                self._watch(entry, purgatory)
                entry.state = _WATCHING

    # ---- what happens to partitions: as their ChangeListener

    @property
    def is_waiting(self) -> bool:
        return bool(self.waiting)

    def wake(self, entry: FetchPartition) -> None:
        """Ends the rest of a partition, if it rests."""
        if entry.state is _RESTING:
            entry.state = _WATCHING
            self.active[entry] = None
            self._rest_ended(entry)

    def changed(self, entry: FetchPartition) -> int:
        self.wake(entry)
        completed = 0
        for fetch in list(self.waiting):
            completed += fetch.look()
        if not self.waiting and entry.state is _WATCHING:
            entry.state = _ACTIVE  # the next fetch reads it in any case, so that it need not watch until then
            self._unwatch(entry)
        return completed

    # ---- responses

    def answered(self, fetched: Iterable[FetchedPartition]) -> None:
        """Records the data of a full response, with which later data is compared."""
        for entry, data in fetched:
            entry.answered(data)

    def news(self, fetched: Iterable[FetchedPartition]) -> list[FetchedPartition]:
        """The changes; partitions with records go to the end, so that each gets its turn at the front."""
        news = []
        for one in fetched:
            entry, data = one
            if entry.is_news(data):
                entry.answered(data)
                news.append(one)
                if size_of(data):
                    self._give_last_turn(entry)
        return news

    def everything(
        self,
        named: Sequence[NamedTopic],
        entries: Sequence[FetchPartition],
        results: Sequence[FetchResponse.PartitionData],
    ) -> list[FetchResponse.FetchableTopicResponse]:
        """The response with the data of `entries`, and with the last data of the partitions that rest.

        A partition that this very read has woken (its disk failed) was not read, and keeps its last data.
        """
        for entry, data in zip(entries, results, strict=True):
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
        """Closes it to requests. A waiting fetch still completes, and `fetch_ended` finishes the closing."""
        if self.waiting:
            self.state = _CLOSING
            return
        self.state = _CLOSED
        for entry in self.partitions.values():
            self._end(entry)
        self.partitions.clear()

    def fetch_ended(self) -> None:
        """A waiting fetch has completed."""
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

    def _rest_ended(self, entry: FetchPartition) -> None:
        entry.end_rest(self)
        topic = entry.topic
        assert topic is not None, "what rests was read, and has a name"
        left = self.resting[topic] - 1
        if left:
            self.resting[topic] = left
        else:
            del self.resting[topic]

    def _end(self, entry: FetchPartition) -> None:
        if entry.state is _RESTING:
            self._rest_ended(entry)
        else:
            self.active.pop(entry, None)
        entry.state = _GONE
        self._unwatch(entry)
        entry.listener = None  # breaks the reference cycle


def _turn(entry: FetchPartition) -> int:
    return entry.turn


def next_epoch(epoch: int) -> int:
    """Epochs count up and, after 2^31-1, start at 1 again; 0 and -1 have meanings of their own."""
    return 1 if epoch == 0x7FFFFFFF or epoch < 0 else epoch + 1
