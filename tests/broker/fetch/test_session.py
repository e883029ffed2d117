"""The states of fetch sessions and of their partitions change as in the module's table."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from barnabas.broker.fetch.context import FetchContext, FetchParams
from barnabas.broker.fetch.partition import EntryState, FetchPartition, size_of
from barnabas.broker.fetch.session import (
    CHECK_RESTING_MS,
    NO_SESSION,
    FetchSession,
    SessionState,
    next_epoch,
)
from barnabas.broker.pending import Pending
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.fetch import FetchRequest, FetchResponse
from barnabas.protocol.records.control import end_transaction_marker
from barnabas.protocol.wire import ZERO_UUID
from barnabas.storage.offsets import AppendOrigin, FetchIsolation, LogStartOffsetIncrementReason
from tests.broker.coordinator.transaction.txn_fakes import txn_batch
from tests.broker.fetch.readers import Reader
from tests.broker.logs import START_MS, batch, partition_image
from tests.broker.replica_node import HERE, Node, T, U, wanted
from tests.conformance.dialogues.words import fetch_topic, partition
from tests.support.chance import seeds

PARTITIONS = 3
NAMED, UNNAMED = 1, NO_SESSION
ACTIVE, WATCHING, RESTING, GONE = EntryState
OPEN, CLOSING, CLOSED = SessionState
ISOLATIONS = (FetchIsolation.HIGH_WATERMARK, FetchIsolation.TXN_COMMITTED)


class SessionHarness:
    """A session over partitions of a ReplicaManager, and its reader's fetches."""

    def __init__(self, directory: Path, session_id: int = NAMED) -> None:
        self.node = Node(directory)
        self.node.create("t", T, *(partition_image(partition=index) for index in range(PARTITIONS)))
        self.node.create("u", U)
        self.purgatory = self.node.manager.fetch_purgatory
        self.session = FetchSession(session_id, {}, privileged=False, uses_topic_ids=False, now_ms=0)
        self.entries: list[FetchPartition] = []
        self.answers: list[FetchResponse] = []
        self.open_transactions: dict[int, int] = {}

    def add(self, topic: str = "t", index: int = 0, offset: int = 0) -> FetchPartition:
        entry = wanted(topic, index, offset)
        self.session.add(entry)
        self.entries.append(entry)
        return entry

    def fetch(self, *, max_wait_ms: int = 0, min_bytes: int = 1, max_bytes: int = 10_000) -> None:
        """A request that leaves the session's partitions unchanged."""
        params = FetchParams(
            replica_id=-1,
            max_wait_ms=max_wait_ms,
            min_bytes=min_bytes,
            max_bytes=max_bytes,
            isolation=ISOLATIONS[self.session.isolation_level],
        )
        self.session.next_request()
        context = FetchContext(self.session.due(), session=self.session)
        answer = self.node.reader.read(params, context)
        if isinstance(answer, Pending):
            answer.then(context.response).add_done_callback(self.answers.append)
        else:
            self.answers.append(context.response(answer))

    def rest(self, *entries: FetchPartition) -> None:
        """The reader fetches all records, and then an empty response."""
        for _ in range(2):
            self.fetch()
        assert [entry.state for entry in entries] == [RESTING] * len(entries)

    def is_watched(self, entry: FetchPartition) -> bool:
        return any(entry in watchers for watchers in self.purgatory._watchers.values())

    # ---- invariants

    def check(self) -> None:
        session = self.session
        for entry in self.entries:
            state = entry.state
            assert (session.partitions.get(entry.key) is entry) == (state is not GONE)
            assert (entry in session.active) == (state in (ACTIVE, WATCHING))
            assert self.is_watched(entry) == (state in (WATCHING, RESTING))
            assert (entry.watchers is not None) == (state in (WATCHING, RESTING))
            assert (entry.listener is None) == (state is GONE)
        resting = [entry for entry in self.entries if entry.state is RESTING]
        assert session.resting == Counter(entry.topic for entry in resting)
        assert session.due() == sorted(session.active, key=lambda entry: entry.turn)
        assert all(entry.has_nothing_new(ISOLATIONS[session.isolation_level]) for entry in resting)
        if session.state is CLOSING:
            assert session.waiting
        if session.state is CLOSED:
            assert not session.waiting
            assert not session.partitions


@pytest.fixture
def harness(tmp_path: Path) -> SessionHarness:
    return SessionHarness(tmp_path)


# ---- each transition of a partition


def test_a_partition_new_in_a_session_is_read(harness: SessionHarness) -> None:
    entry = harness.add()
    assert (entry.state, harness.session.due()) == (ACTIVE, [entry])
    harness.check()


def test_an_unchanged_partition_rests_and_is_not_read(harness: SessionHarness) -> None:
    entry = harness.add()
    harness.fetch()
    assert entry.state is ACTIVE  # its first result was returned
    harness.fetch()
    assert (entry.state, harness.session.due(), harness.session.resting) == (RESTING, [], {"t": 1})
    harness.check()


def test_partitions_of_a_waiting_fetch_watch_until_a_change(harness: SessionHarness) -> None:
    entry, other = harness.add(), harness.add(index=1)
    harness.fetch()
    harness.node.append(("t", 1, batch("a")))
    harness.fetch(max_wait_ms=500, min_bytes=1000)
    assert (entry.state, other.state) == (RESTING, WATCHING)
    harness.check()
    harness.node.append(("t", 1, batch("x" * 1000)))  # which reaches min_bytes
    assert (entry.state, other.state) == (RESTING, ACTIVE)
    harness.check()


def test_a_change_wakes_a_resting_partition(harness: SessionHarness) -> None:
    entry = harness.add()
    harness.rest(entry)
    harness.node.append(("t", 0, batch("a")))
    assert (entry.state, harness.session.due()) == (ACTIVE, [entry])  # not notified until a fetch waits
    harness.check()


def test_a_requested_partition_is_read_and_keeps_watching(harness: SessionHarness) -> None:
    entry = harness.add()
    harness.rest(entry)
    harness.session.update(entry, FetchRequest.FetchPartition(partition_max_bytes=10))
    assert (entry.state, entry.max_bytes) == (WATCHING, 10)
    harness.check()


@pytest.mark.parametrize(
    ("field", "value"),
    [
        (None, 0),
        ("fetch_offset", 8),
        ("partition_max_bytes", 11),
        ("current_leader_epoch", 6),
        ("last_fetched_epoch", 1),
    ],
)
def test_a_resting_partition_is_read_only_if_the_request_changes_it(
    tmp_path: Path, field: str | None, value: int
) -> None:
    harness = SessionHarness(tmp_path, UNNAMED)
    entry, other = harness.add(), harness.add(index=1)
    harness.rest(entry, other)
    asked = [partition(index, max_bytes=entry.max_bytes) for index in (1, 0)]
    if field is not None:
        setattr(asked[1], field, value)
    (topic,) = harness.session.name_all(FetchRequest(topics=[fetch_topic("t", asked)]), lambda _: None)
    assert topic.entries == [other, entry]
    assert (entry.state, other.state) == (WATCHING if field else RESTING, RESTING)
    assert harness.session.name_all(FetchRequest(), lambda _: None) == []
    assert (entry.state, other.state) == (GONE, GONE)
    harness.check()


def test_another_isolation_level_wakes_all_partitions(harness: SessionHarness) -> None:
    entries = [harness.add(index=index) for index in range(PARTITIONS)]
    harness.rest(*entries)
    harness.session.follow_isolation(0)
    assert harness.session.due() == []
    harness.session.follow_isolation(1)
    assert harness.session.due() == entries
    harness.check()


def test_a_change_without_notification_is_found_by_the_next_periodic_check(harness: SessionHarness) -> None:
    entry, other = harness.add(), harness.add(index=1)
    harness.node.append(("t", 0, batch("a", "b")))
    entry.fetch_offset = 2
    harness.rest(entry, other)
    log = harness.node.manager.partition("t", 0).log
    log.maybe_increment_log_start_offset(1, LogStartOffsetIncrementReason.SEGMENT_DELETION)
    assert not harness.session.maybe_check_resting(ISOLATIONS[0])
    harness.session.last_used_ms += CHECK_RESTING_MS
    assert harness.session.maybe_check_resting(ISOLATIONS[0])
    assert (entry.state, other.state) == (WATCHING, RESTING)
    harness.check()


def test_a_forgotten_partition_is_removed(harness: SessionHarness) -> None:
    entry, other = harness.add(), harness.add(index=1)
    harness.rest(entry, other)
    harness.session.forget(entry.key)
    harness.session.forget(entry.key)
    assert (entry.state, harness.session.resting) == (GONE, {"t": 1})
    harness.session.wake(entry)
    assert (entry.look(), entry.state, harness.session.due()) == (0, GONE, [])
    harness.check()


def test_a_partition_that_rests_during_its_own_change_keeps_watching(tmp_path: Path) -> None:
    """An append of two partitions wakes both; the one with nothing for this reader is read and rests in that call."""
    harness = SessionHarness(tmp_path, UNNAMED)
    harness.session.follow_isolation(1)
    entry, other = harness.add(), harness.add(index=1)
    harness.rest(entry, other)
    harness.fetch(max_wait_ms=500)
    entries = [("t", 0, ZERO_UUID, txn_batch("a"), None), ("t", 1, ZERO_UUID, batch("b"), None)]
    harness.node.manager.append_records(entries, 1, 500)
    assert (entry.state, other.state) == (RESTING, ACTIVE)
    harness.check()


def test_a_partition_that_another_fetch_put_to_rest_stays_at_rest(harness: SessionHarness) -> None:
    entry = harness.add()
    harness.rest(entry)
    data = FetchResponse.PartitionData(high_watermark=0, log_start_offset=0, records=b"")
    harness.session.maybe_rest(entry, data, ISOLATIONS[0], harness.purgatory)
    harness.session.forget(entry.key)
    harness.session.maybe_rest(entry, data, ISOLATIONS[0], harness.purgatory)
    assert entry.state is GONE
    harness.check()


# ---- the session itself


def test_a_session_without_a_waiting_fetch_closes_at_once(harness: SessionHarness) -> None:
    entry, other = harness.add(), harness.add(index=1)
    harness.rest(entry, other)
    harness.node.append(("t", 1, batch("a")))
    harness.session.close()
    assert (harness.session.state, entry.state, other.state) == (CLOSED, GONE, GONE)
    harness.check()


def test_a_session_with_a_waiting_fetch_closes_with_its_response(harness: SessionHarness) -> None:
    entry = harness.add()
    harness.rest(entry)
    for _ in range(2):
        harness.fetch(max_wait_ms=500)
    harness.session.close()
    assert (harness.session.state, entry.state) == (CLOSING, RESTING)
    harness.check()
    told = len(harness.answers)
    harness.node.append(("t", 0, batch("a")))
    assert (harness.session.state, entry.state) == (CLOSED, GONE)
    first, second = harness.answers[told:]
    assert first.error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert size_of(second.responses[0].partitions[0]) > 0
    harness.check()


def test_the_session_of_a_follower_lasts_until_its_response(harness: SessionHarness) -> None:
    harness.add(index=1)
    params = FetchParams(
        replica_id=HERE + 1, max_wait_ms=500, min_bytes=1, max_bytes=1000, isolation=FetchIsolation.LOG_END
    )
    context = FetchContext(harness.session.due(), session=harness.session)
    harness.node.create("v", b"v" * 16, partition_image(replicas=(HERE, HERE + 1)))
    harness.session.forget(harness.entries[0].key)
    harness.add("v")
    context.refresh()
    answer = harness.node.reader.read(params, context)
    assert isinstance(answer, Pending)
    answer.then(context.response).add_done_callback(harness.answers.append)
    harness.session.close()
    assert harness.session.state is CLOSING
    harness.node.append(("v", 0, batch("a")), acks=1)
    (response,) = harness.answers
    assert size_of(response.responses[0].partitions[0]) > 0
    assert harness.session.state is CLOSED
    harness.check()


def test_epochs_wrap_around_past_reserved_values() -> None:
    assert [next_epoch(0), next_epoch(1), next_epoch(0x7FFFFFFE)] == [1, 2, 0x7FFFFFFF]
    assert next_epoch(0x7FFFFFFF) == 1
    reader = Reader()
    session_id = reader.begin(("a", 0))
    session = reader.cache.get(session_id)
    assert session is not None
    session.epoch = 0x7FFFFFFF
    assert reader.context(session_id, 0x7FFFFFFF).error is ErrorCode.NONE
    assert reader.context(session_id, 1).error is ErrorCode.NONE


# ---- events in any order


class Events:
    """The possible events of a session, drawn from `source`."""

    def __init__(self, harness: SessionHarness, source: random.Random) -> None:
        self.harness, self.source = harness, source
        self.all: list[Callable[[], object]] = [
            self.fetch,
            self.fetch,
            self.fetch_that_waits,
            self.append,
            self.append,
            self.append_to_many,
            self.transaction,
            self.cut,
            self.elect,
            self.name,
            self.name_exactly,
            self.forget,
            self.isolation,
            self.check_resting,
            self.time,
        ]

    def happen(self) -> None:
        self.source.choice(self.all)()

    def index(self) -> int:
        return self.source.randrange(PARTITIONS)

    def fetch(self) -> None:
        self.harness.fetch(max_bytes=self.source.choice([1, 10_000]))

    def fetch_that_waits(self) -> None:
        self.harness.fetch(max_wait_ms=500, min_bytes=self.source.choice([1, 150]))

    def append(self) -> None:
        self.harness.node.append(("t", self.index(), batch("x")))

    def append_to_many(self) -> None:
        entries = [("t", index, ZERO_UUID, batch("x"), None) for index in range(2)]
        self.harness.node.manager.append_records([*entries, self._transactional(2)], 1, 500)

    def transaction(self) -> None:
        """Begins a transaction, or ends the open one."""
        index = self.index()
        origin = AppendOrigin.COORDINATOR if index in self.harness.open_transactions else AppendOrigin.CLIENT
        self.harness.node.manager.append_records([self._transactional(index)], 1, 500, origin=origin)

    def _transactional(
        self, index: int
    ) -> tuple[str | None, int, bytes, bytes | memoryview, Exception | None]:
        open_transactions = self.harness.open_transactions
        if index not in open_transactions:
            open_transactions[index] = self.source.randrange(1 << 40)
            return ("t", index, ZERO_UUID, txn_batch("t", producer_id=open_transactions[index]), None)
        marker = end_transaction_marker(
            commit=self.source.random() < 0.5,
            coordinator_epoch=0,
            producer_id=open_transactions.pop(index),
            producer_epoch=0,
            timestamp=START_MS,
        )
        return ("t", index, ZERO_UUID, marker, None)

    def cut(self) -> None:
        """Records are deleted from the beginning."""
        index = self.index()
        log = self.harness.node.manager.partition("t", index).log
        offset = self.source.randint(log.log_start_offset, log.high_watermark)
        self.harness.node.manager.delete_records({("t", index): offset}, 500)

    def elect(self) -> None:
        """Another node leads the only partition of u, or this one again."""
        self.harness.node.elect(U, self.source.choice([HERE, HERE + 1]))

    def name(self) -> None:
        """The reader requests a partition, perhaps for the first time, and perhaps at another offset."""
        topic, index = self.source.choice([("t", self.index()), ("u", 0), ("nowhere", 0)])
        known = self.harness.session.partitions.get((topic, index))
        if known is None:
            self.harness.add(topic, index)
        else:
            self.harness.session.update(known, self._wanted(topic, index))

    def _wanted(self, topic: str, index: int) -> FetchRequest.FetchPartition:
        if topic == "nowhere":
            return partition(index)
        log = self.harness.node.manager.partition(topic, index).log
        return partition(index, self.source.choice([log.log_start_offset, log.last_stable_offset]))

    def name_exactly(self) -> None:
        """Names all of its partitions, as a reader without sessions does."""
        indexes = self.source.sample(range(PARTITIONS), self.source.randint(1, PARTITIONS))
        request = FetchRequest(topics=[fetch_topic("t", [self._wanted("t", index) for index in indexes])])
        for topic in self.harness.session.name_all(request, lambda _: None):
            self.harness.entries.extend(entry for entry in topic.entries if entry not in self.harness.entries)

    def forget(self) -> None:
        self.harness.session.forget(("t", self.index()))

    def isolation(self) -> None:
        if not self.harness.session.waiting:  # it comes with a request, and waiting ones have their own
            self.harness.session.follow_isolation(self.source.randrange(2))

    def check_resting(self) -> None:
        self.harness.session.last_used_ms += self.source.choice([10, CHECK_RESTING_MS])

    def time(self) -> None:
        self.harness.node.timer.advance(self.source.choice([0.1, 0.5]))


@pytest.mark.parametrize("session_id", [NAMED, UNNAMED])
@pytest.mark.parametrize("seed", seeds(15))
def test_any_events_give_the_states_of_the_table(tmp_path: Path, seed: int, session_id: int) -> None:
    source = random.Random(seed)
    harness = SessionHarness(tmp_path, session_id)
    events = Events(harness, source)
    gone: set[FetchPartition] = set()
    for _ in range(150):
        events.happen()
        harness.check()
        assert all(entry.state is GONE for entry in gone)
        gone = {entry for entry in harness.entries if entry.state is GONE}
    harness.session.close()
    harness.check()
    while harness.session.state is not CLOSED:
        assert harness.session.state is CLOSING
        harness.node.timer.advance(0.5)
        harness.check()
    assert all(entry.state is GONE for entry in harness.entries)
    assert not any(harness.purgatory._watchers.values())
