"""The states of fetch sessions and of their partitions: they change as the table in the module says."""

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
    """A session over partitions of a ReplicaManager, and the fetches of its reader."""

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
        """What a request does that changes nothing of what is asked for."""
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
        """The reader hears all there is, and then that there is nothing new."""
        for _ in range(2):
            self.fetch()
        assert [entry.state for entry in entries] == [RESTING] * len(entries)

    def is_watched(self, entry: FetchPartition) -> bool:
        return any(entry in watchers for watchers in self.purgatory._watchers.values())

    # ---- what always holds

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
def house(tmp_path: Path) -> SessionHarness:
    return SessionHarness(tmp_path)


# ---- each transition of a partition


def test_what_is_new_in_a_session_is_read(house: SessionHarness) -> None:
    entry = house.add()
    assert (entry.state, house.session.due()) == (ACTIVE, [entry])
    house.check()


def test_what_has_nothing_new_rests_and_is_in_no_read(house: SessionHarness) -> None:
    entry = house.add()
    house.fetch()
    assert entry.state is ACTIVE  # it was told of for the first time
    house.fetch()
    assert (entry.state, house.session.due(), house.session.resting) == (RESTING, [], {"t": 1})
    house.check()


def test_what_a_fetch_waits_for_watches_and_what_happens_ends_that(house: SessionHarness) -> None:
    entry, other = house.add(), house.add(index=1)
    house.fetch()
    house.node.append(("t", 1, batch("a")))
    house.fetch(max_wait_ms=500, min_bytes=1000)
    assert (entry.state, other.state) == (RESTING, WATCHING)
    house.check()
    house.node.append(("t", 1, batch("x" * 1000)))  # that is enough
    assert (entry.state, other.state) == (RESTING, ACTIVE)
    house.check()


def test_what_rests_wakes_when_something_happens(house: SessionHarness) -> None:
    entry = house.add()
    house.rest(entry)
    house.node.append(("t", 0, batch("a")))
    assert (entry.state, house.session.due()) == (ACTIVE, [entry])  # and hears no more until a fetch waits
    house.check()


def test_what_is_named_again_is_read_and_goes_on_watching(house: SessionHarness) -> None:
    entry = house.add()
    house.rest(entry)
    house.session.update(entry, FetchRequest.FetchPartition(partition_max_bytes=10))
    assert (entry.state, entry.max_bytes) == (WATCHING, 10)
    house.check()


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
def test_what_is_named_as_before_rests_on_and_what_is_named_otherwise_is_read(
    tmp_path: Path, field: str | None, value: int
) -> None:
    house = SessionHarness(tmp_path, UNNAMED)
    entry, other = house.add(), house.add(index=1)
    house.rest(entry, other)
    asked = [partition(index, max_bytes=entry.max_bytes) for index in (1, 0)]
    if field is not None:
        setattr(asked[1], field, value)
    (topic,) = house.session.name_all(FetchRequest(topics=[fetch_topic("t", asked)]), lambda _: None)
    assert topic.entries == [other, entry]
    assert (entry.state, other.state) == (WATCHING if field else RESTING, RESTING)
    assert house.session.name_all(FetchRequest(), lambda _: None) == []
    assert (entry.state, other.state) == (GONE, GONE)
    house.check()


def test_another_isolation_level_wakes_everything(house: SessionHarness) -> None:
    entries = [house.add(index=index) for index in range(PARTITIONS)]
    house.rest(*entries)
    house.session.follow_isolation(0)
    assert house.session.due() == []
    house.session.follow_isolation(1)
    assert house.session.due() == entries
    house.check()


def test_what_changed_without_a_call_is_found_by_the_check_of_the_next_second(house: SessionHarness) -> None:
    entry, other = house.add(), house.add(index=1)
    house.node.append(("t", 0, batch("a", "b")))
    entry.fetch_offset = 2
    house.rest(entry, other)
    log = house.node.manager.partition("t", 0).log
    log.maybe_increment_log_start_offset(1, LogStartOffsetIncrementReason.SEGMENT_DELETION)
    assert not house.session.maybe_check_resting(ISOLATIONS[0])
    house.session.last_used_ms += CHECK_RESTING_MS
    assert house.session.maybe_check_resting(ISOLATIONS[0])
    assert (entry.state, other.state) == (WATCHING, RESTING)
    house.check()


def test_what_is_forgotten_is_gone_for_good(house: SessionHarness) -> None:
    entry, other = house.add(), house.add(index=1)
    house.rest(entry, other)
    house.session.forget(entry.key)
    house.session.forget(entry.key)
    assert (entry.state, house.session.resting) == (GONE, {"t": 1})
    house.session.wake(entry)
    assert (entry.look(), entry.state, house.session.due()) == (0, GONE, [])
    house.check()


def test_what_rests_in_its_own_change_goes_on_watching(tmp_path: Path) -> None:
    """An append of two partitions wakes both; the one with nothing for this reader is read and rests in that call."""
    house = SessionHarness(tmp_path, UNNAMED)
    house.session.follow_isolation(1)
    entry, other = house.add(), house.add(index=1)
    house.rest(entry, other)
    house.fetch(max_wait_ms=500)
    entries = [("t", 0, ZERO_UUID, txn_batch("a"), None), ("t", 1, ZERO_UUID, batch("b"), None)]
    house.node.manager.append_records(entries, 1, 500)
    assert (entry.state, other.state) == (RESTING, ACTIVE)
    house.check()


def test_a_partition_that_another_fetch_put_to_rest_meanwhile_goes_on_resting(house: SessionHarness) -> None:
    entry = house.add()
    house.rest(entry)
    data = FetchResponse.PartitionData(high_watermark=0, log_start_offset=0, records=b"")
    house.session.maybe_rest(entry, data, ISOLATIONS[0], house.purgatory)
    house.session.forget(entry.key)
    house.session.maybe_rest(entry, data, ISOLATIONS[0], house.purgatory)
    assert entry.state is GONE
    house.check()


# ---- the session itself


def test_a_session_that_nothing_waits_in_closes_at_once(house: SessionHarness) -> None:
    entry, other = house.add(), house.add(index=1)
    house.rest(entry, other)
    house.node.append(("t", 1, batch("a")))
    house.session.close()
    assert (house.session.state, entry.state, other.state) == (CLOSED, GONE, GONE)
    house.check()


def test_a_session_that_a_fetch_waits_in_closes_when_it_is_answered(house: SessionHarness) -> None:
    entry = house.add()
    house.rest(entry)
    for _ in range(2):
        house.fetch(max_wait_ms=500)
    house.session.close()
    assert (house.session.state, entry.state) == (CLOSING, RESTING)
    house.check()
    told = len(house.answers)
    house.node.append(("t", 0, batch("a")))
    assert (house.session.state, entry.state) == (CLOSED, GONE)
    first, second = house.answers[told:]
    assert first.error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert size_of(second.responses[0].partitions[0]) > 0
    house.check()


def test_the_session_of_a_follower_lasts_until_its_fetch_is_answered(house: SessionHarness) -> None:
    house.add(index=1)
    params = FetchParams(
        replica_id=HERE + 1, max_wait_ms=500, min_bytes=1, max_bytes=1000, isolation=FetchIsolation.LOG_END
    )
    context = FetchContext(house.session.due(), session=house.session)
    house.node.create("v", b"v" * 16, partition_image(replicas=(HERE, HERE + 1)))
    house.session.forget(house.entries[0].key)
    house.add("v")
    context.refresh()
    answer = house.node.reader.read(params, context)
    assert isinstance(answer, Pending)
    answer.then(context.response).add_done_callback(house.answers.append)
    house.session.close()
    assert house.session.state is CLOSING
    house.node.append(("v", 0, batch("a")), acks=1)
    (response,) = house.answers
    assert size_of(response.responses[0].partitions[0]) > 0
    assert house.session.state is CLOSED
    house.check()


def test_epochs_go_round_without_touching_those_that_mean_something() -> None:
    assert [next_epoch(0), next_epoch(1), next_epoch(0x7FFFFFFE)] == [1, 2, 0x7FFFFFFF]
    assert next_epoch(0x7FFFFFFF) == 1
    reader = Reader()
    session_id = reader.begin(("a", 0))
    session = reader.cache.get(session_id)
    assert session is not None
    session.epoch = 0x7FFFFFFF
    assert reader.context(session_id, 0x7FFFFFFF).error is ErrorCode.NONE
    assert reader.context(session_id, 1).error is ErrorCode.NONE


# ---- anything in any order


class Events:
    """What may happen to a session, drawn from `source`."""

    def __init__(self, house: SessionHarness, source: random.Random) -> None:
        self.house, self.source = house, source
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
        self.house.fetch(max_bytes=self.source.choice([1, 10_000]))

    def fetch_that_waits(self) -> None:
        self.house.fetch(max_wait_ms=500, min_bytes=self.source.choice([1, 150]))

    def append(self) -> None:
        self.house.node.append(("t", self.index(), batch("x")))

    def append_to_many(self) -> None:
        entries = [("t", index, ZERO_UUID, batch("x"), None) for index in range(2)]
        self.house.node.manager.append_records([*entries, self._transactional(2)], 1, 500)

    def transaction(self) -> None:
        """Begins one, or ends the one that is open."""
        index = self.index()
        origin = AppendOrigin.COORDINATOR if index in self.house.open_transactions else AppendOrigin.CLIENT
        self.house.node.manager.append_records([self._transactional(index)], 1, 500, origin=origin)

    def _transactional(
        self, index: int
    ) -> tuple[str | None, int, bytes, bytes | memoryview, Exception | None]:
        open_transactions = self.house.open_transactions
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
        log = self.house.node.manager.partition("t", index).log
        offset = self.source.randint(log.log_start_offset, log.high_watermark)
        self.house.node.manager.delete_records({("t", index): offset}, 500)

    def elect(self) -> None:
        """Another node leads the only partition of u, or this one again."""
        self.house.node.elect(U, self.source.choice([HERE, HERE + 1]))

    def name(self) -> None:
        """The reader names a partition, perhaps for the first time, and perhaps goes on in it."""
        topic, index = self.source.choice([("t", self.index()), ("u", 0), ("nowhere", 0)])
        known = self.house.session.partitions.get((topic, index))
        if known is None:
            self.house.add(topic, index)
        else:
            self.house.session.update(known, self._wanted(topic, index))

    def _wanted(self, topic: str, index: int) -> FetchRequest.FetchPartition:
        if topic == "nowhere":
            return partition(index)
        log = self.house.node.manager.partition(topic, index).log
        return partition(index, self.source.choice([log.log_start_offset, log.last_stable_offset]))

    def name_exactly(self) -> None:
        """As a reader does that knows no sessions."""
        indexes = self.source.sample(range(PARTITIONS), self.source.randint(1, PARTITIONS))
        request = FetchRequest(topics=[fetch_topic("t", [self._wanted("t", index) for index in indexes])])
        for topic in self.house.session.name_all(request, lambda _: None):
            self.house.entries.extend(entry for entry in topic.entries if entry not in self.house.entries)

    def forget(self) -> None:
        self.house.session.forget(("t", self.index()))

    def isolation(self) -> None:
        if not self.house.session.waiting:  # it comes with a request, and those that wait have their own
            self.house.session.follow_isolation(self.source.randrange(2))

    def check_resting(self) -> None:
        self.house.session.last_used_ms += self.source.choice([10, CHECK_RESTING_MS])

    def time(self) -> None:
        self.house.node.timer.advance(self.source.choice([0.1, 0.5]))


@pytest.mark.parametrize("session_id", [NAMED, UNNAMED])
@pytest.mark.parametrize("seed", seeds(15))
def test_whatever_happens_the_states_are_those_of_the_table(
    tmp_path: Path, seed: int, session_id: int
) -> None:
    source = random.Random(seed)
    house = SessionHarness(tmp_path, session_id)
    events = Events(house, source)
    gone: set[FetchPartition] = set()
    for _ in range(150):
        events.happen()
        house.check()
        assert all(entry.state is GONE for entry in gone)
        gone = {entry for entry in house.entries if entry.state is GONE}
    house.session.close()
    house.check()
    while house.session.state is not CLOSED:
        assert house.session.state is CLOSING
        house.node.timer.advance(0.5)
        house.check()
    assert all(entry.state is GONE for entry in house.entries)
    assert not any(house.purgatory._watchers.values())
