"""Followers whose partitions rest: the leader learns from a session what it learns from fetches that it reads.

The model is a leader whose followers fetch without a session: it reads every partition each time.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from barnabas.broker.fetch.cache import FetchSessionCache
from barnabas.broker.fetch.context import FetchParams
from barnabas.broker.fetch.manager import FetchManager
from barnabas.broker.fetch.partition import size_of
from barnabas.broker.fetch.session import FINAL_EPOCH, INITIAL_EPOCH, NO_SESSION, next_epoch
from barnabas.broker.replica.isr import RemoteReplica
from barnabas.broker.replica.partition import Partition
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.fetch import FetchRequest, FetchResponse
from barnabas.protocol.messages.topic_records import PartitionChangeRecord
from barnabas.protocol.schema import Message
from barnabas.storage.offsets import FetchIsolation, LogStartOffsetIncrementReason
from tests.broker.cluster_images import registration
from tests.broker.logs import batch, partition_image
from tests.broker.replica.isr_harness import LAG_MAX_MS, Cluster
from tests.broker.replica_node import HERE, Node, T, pending
from tests.support.chance import seeds

VERSION = 17
TOPIC, PARTITIONS = "t", 3
FOLLOWERS = (2, 3)
NODES = (HERE, *FOLLOWERS)
WAIT_MS = 500
NO_CHANGE = PartitionChangeRecord().leader

KNOWN_OF_A_REPLICA = (
    *(name for name in RemoteReplica.__slots__ if not name.startswith("_")),
    "last_caught_up_ms",
    "last_fetch_ms",
)

Data = FetchResponse.PartitionData


class Leader:
    """A broker that leads, the controller that it asks, and its fetch sessions."""

    def __init__(self, directory: Path) -> None:
        self.cluster = Cluster()
        self.node = Node(directory, context=self.cluster.context)
        self.sessions = FetchSessionCache(1000, iter(range(1, 1_000_000)).__next__)
        self.fetches = FetchManager(self.sessions, lambda: self.cluster.ms)
        self.node.commit(*(registration(node) for node in NODES))
        images = [partition_image(partition=index, replicas=NODES) for index in range(PARTITIONS)]
        self.node.create(TOPIC, T, *images)

    def partition(self, index: int) -> Partition:
        return self.node.manager.partition(TOPIC, index)

    def fetch(self, request: FetchRequest) -> list[FetchResponse]:
        """The response, in a list to which it may be added later."""
        context = self.fetches.context(request, VERSION, {T: TOPIC}.get, is_follower=True)
        if context.error is not ErrorCode.NONE:
            return [context.response(())]
        params = FetchParams(
            replica_id=request.replica_state.replica_id,
            replica_epoch=request.replica_state.replica_epoch,
            max_wait_ms=request.max_wait_ms,
            min_bytes=1,
            max_bytes=1_000_000,
            isolation=FetchIsolation.LOG_END,
        )
        heard: list[FetchResponse] = []
        answer = pending(self.node.reader.read(params, context))
        answer.add_done_callback(lambda data: heard.append(context.response(data)))
        return heard

    def advance(self, ms: int) -> None:
        self.cluster.ms += ms
        self.node.timer.advance(ms / 1000)

    def resting(self) -> int:
        return sum(sum(session.resting.values()) for session in self.sessions._sessions.values())

    def knowledge(self) -> Iterator[object]:
        """All that it knows of its partitions and their replicas."""
        yield sorted(
            self.cluster.changes.proposals
        )  # those of one request come in the order of its partitions
        for index in range(PARTITIONS):
            partition = self.partition(index)
            log = partition.log
            yield log.log_start_offset, log.high_watermark, log.log_end_offset
            yield partition.isr, partition.low_watermark, partition.is_leader
            if partition._others is not None:
                yield type(partition._others.state), partition._others.state.isr
            for remote in partition.remote_replicas:
                yield [getattr(remote, name) for name in KNOWN_OF_A_REPLICA]


class Follower:
    """What a follower has of each partition, and knows of its leader; asks with a session and without one."""

    def __init__(self, node_id: int) -> None:
        self.node_id = node_id
        self.broker_epoch = node_id
        self.leader_epoch = dict.fromkeys(range(PARTITIONS), 0)
        self.end = dict.fromkeys(range(PARTITIONS), 0)
        self.log_start = dict.fromkeys(range(PARTITIONS), 0)
        self.begin_session()
        self.waits: tuple[list[FetchResponse], list[FetchResponse]] | None = None

    def begin_session(self) -> None:
        self.session_id, self.epoch = NO_SESSION, INITIAL_EPOCH
        self.asked: dict[int, tuple[int, ...]] = {}
        self.known: dict[int, tuple[int, int, int]] = {}

    def wanted(self, index: int) -> tuple[int, ...]:
        return self.end[index], self.log_start[index], self.leader_epoch[index]

    def request(self, session_id: int, epoch: int, indexes: list[int], max_wait_ms: int) -> FetchRequest:
        partitions = [
            FetchRequest.FetchPartition(
                partition=index,
                fetch_offset=self.end[index],
                log_start_offset=self.log_start[index],
                current_leader_epoch=self.leader_epoch[index],
                last_fetched_epoch=0 if self.end[index] else -1,
                partition_max_bytes=1_000_000,
            )
            for index in indexes
        ]
        return FetchRequest(
            replica_state=FetchRequest.ReplicaState(replica_id=self.node_id, replica_epoch=self.broker_epoch),
            session_id=session_id,
            session_epoch=epoch,
            max_wait_ms=max_wait_ms,
            topics=[FetchRequest.FetchTopic(topic_id=T, partitions=partitions)] if partitions else [],
        )

    def fetch(self, resting: Leader, reading: Leader, max_wait_ms: int) -> None:
        named = [index for index in self.end if self.asked.get(index) != self.wanted(index)]
        self.asked |= {index: self.wanted(index) for index in named}
        incremental = self.request(self.session_id, self.epoch, named, max_wait_ms)
        full = self.request(NO_SESSION, FINAL_EPOCH, list(self.end), max_wait_ms)
        self.waits = resting.fetch(incremental), reading.fetch(full)

    def hear(self, leader: Leader, source: random.Random) -> None:
        """Compares what both have answered, and takes it, nearly always."""
        assert self.waits is not None
        with_session, without = self.waits
        assert len(with_session) == len(without), "one waits, and one does not"
        if not without:
            return
        self.waits = None
        (response,) = with_session
        assert response.error_code == ErrorCode.NONE
        self.session_id, self.epoch = response.session_id, next_epoch(self.epoch)
        told = by_index(response)
        self.known |= {index: numbers(data) for index, data in told.items()}
        for index, data in by_index(without[0]).items():
            assert self.known[index] == numbers(data)
            assert size_of(told.get(index, Data())) == size_of(data)
            if data.error_code in (ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.UNKNOWN_LEADER_EPOCH):
                self.leader_epoch[index] = leader.partition(index).leader_epoch
            elif data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                self.end[index] = self.log_start[index] = leader.partition(index).log.log_start_offset
            elif not data.error_code and source.random() < 0.9:
                if size_of(data):
                    self.end[index] = leader.partition(index).log.log_end_offset
                self.log_start[index] = min(data.log_start_offset, self.end[index])


def by_index(response: FetchResponse) -> dict[int, Data]:
    return {data.partition_index: data for topic in response.responses for data in topic.partitions}


def numbers(data: Data) -> tuple[int, int, int]:
    return data.error_code, data.high_watermark, data.log_start_offset


class World:
    """Two leaders to which the same happens."""

    def __init__(self, directory: Path, source: random.Random) -> None:
        self.source = source
        self.resting, self.reading = Leader(directory / "resting"), Leader(directory / "reading")
        self.both = (self.resting, self.reading)
        self.followers = [Follower(node) for node in FOLLOWERS]
        self.rested = 0

    @property
    def events(self) -> list[Callable[[], None]]:
        rare = [self.elect, self.remove_from_isr, self.reassign, self.restart, self.evict, self.retain]
        often = [self.append, self.fetch, self.fetch, self.fetch, self.sleep, self.answer, self.settle]
        return often * 4 + [self.delete, *rare]

    def happen(self) -> None:
        self.source.choice(self.events)()
        self.compare()

    def compare(self) -> None:
        for follower in self.followers:
            if follower.waits is not None:
                follower.hear(self.reading, self.source)
        self.rested += self.resting.resting()
        assert list(self.resting.knowledge()) == list(self.reading.knowledge())

    def commit(self, *records: Message) -> None:
        for leader in self.both:
            leader.node.commit(*records)

    def changed(self, **fields: object) -> None:
        change = PartitionChangeRecord(partition_id=self.source.randrange(PARTITIONS), topic_id=T)
        for name, value in fields.items():
            setattr(change, name, value)
        self.commit(change)

    def append(self) -> None:
        index = self.source.randrange(PARTITIONS)
        for leader in self.both:
            leader.node.append((TOPIC, index, batch("x")), acks=1)

    def fetch(self) -> None:
        follower = self.source.choice(self.followers)
        if follower.waits is not None:
            self.advance(WAIT_MS)
        else:
            follower.fetch(self.resting, self.reading, self.source.choice([0, 0, WAIT_MS]))

    def settle(self) -> None:
        """Everybody fetches for a while."""
        for follower in self.followers * 3:
            if follower.waits is None:
                follower.fetch(self.resting, self.reading, 0)
                self.compare()
        self.answer()

    def advance(self, ms: int) -> None:
        for leader in self.both:
            leader.advance(ms)

    def sleep(self) -> None:
        self.advance(self.source.choice([1, 100, LAG_MAX_MS // 2, LAG_MAX_MS + 1]))
        for leader in self.both:
            leader.node.manager.maybe_shrink_isrs()

    def answer(self) -> None:
        """The controller answers a proposal, and publishes what it decided, then or later."""
        changes = self.reading.cluster.changes
        at = changes.waiting
        if at == len(changes.proposals):
            return
        proposal = changes.proposals[at]
        decision = self.source.choice(["commit", "commit", "commit", "refuse"])
        for leader in self.both:
            held = leader.cluster.changes
            if decision == "commit":
                held.commit(held.place_of(proposal))
            else:
                held.fail(ErrorCode.INELIGIBLE_REPLICA, held.place_of(proposal))
        if decision == "commit":
            isr = [node for node, _ in proposal.isr]
            self.commit(PartitionChangeRecord(partition_id=proposal.partition, topic_id=T, isr=isr))

    def elect(self) -> None:
        """The leader begins a new epoch."""
        self.changed(leader=HERE)

    def remove_from_isr(self) -> None:
        """With a new epoch, or in the one that is."""
        isr = [HERE, self.source.choice(FOLLOWERS)]
        self.changed(isr=isr, leader=self.source.choice([HERE, NO_CHANGE]))

    def reassign(self) -> None:
        """A replica goes, or comes back."""
        replicas = list(self.source.choice([NODES, NODES[:2]]))
        self.changed(replicas=replicas, isr=replicas[:2])

    def restart(self) -> None:
        """Another process of a follower's broker, which registers before it fetches or while the old one still does."""
        follower = self.source.choice(self.followers)
        if follower.waits is not None:
            return
        record = registration(follower.node_id)
        record.broker_epoch = follower.broker_epoch + 10
        self.commit(record)
        if self.source.random() < 0.7:
            follower.broker_epoch += 10
            if self.source.random() < 0.7:
                follower.begin_session()

    def evict(self) -> None:
        """The session goes; the follower finds out, and begins another."""
        follower = self.source.choice(self.followers)
        if follower.waits is None:
            self.resting.sessions.remove(follower.session_id)
            follower.begin_session()

    def retain(self) -> None:
        """Retention moves the log start, which nobody is told: requests from a second later on find it."""
        self.advance(WAIT_MS)
        self.compare()
        index = self.source.randrange(PARTITIONS)
        for leader in self.both:
            log = leader.partition(index).log
            log.maybe_increment_log_start_offset(
                log.high_watermark, LogStartOffsetIncrementReason.SEGMENT_DELETION
            )
        self.advance(1000)

    def delete(self) -> None:
        key = TOPIC, self.source.randrange(PARTITIONS)
        for leader in self.both:
            offset = leader.partition(key[1]).log.high_watermark
            leader.node.manager.delete_records({key: offset}, 100)


@pytest.mark.parametrize("seed", seeds(10))
def test_a_leader_learns_from_a_session_what_it_learns_from_fetches_that_it_reads(
    tmp_path: Path, seed: int
) -> None:
    world = World(tmp_path, random.Random(seed))
    for _ in range(300):
        world.happen()
    assert world.rested > 0, "it has to be about partitions that rest"
    for leader in world.both:
        for follower in world.followers:
            leader.sessions.remove(follower.session_id)


# ---- what it is worth


class Quiet:
    """A leader, and a follower that has everything and says so again and again."""

    def __init__(self, directory: Path) -> None:
        self.leader, self.follower = Leader(directory), Follower(2)
        other = Follower(3)
        self.leader.fetch(other.request(NO_SESSION, FINAL_EPOCH, list(other.end), 0))
        self.ask(*self.follower.end)
        self.ask()

    def ask(self, *indexes: int, max_wait_ms: int = 0) -> list[FetchResponse]:
        follower = self.follower
        request = follower.request(follower.session_id, follower.epoch, list(indexes), max_wait_ms)
        heard = self.leader.fetch(request)
        follower.epoch = next_epoch(follower.epoch)
        if heard:
            follower.session_id = heard[0].session_id
        return heard

    @property
    def state(self) -> tuple[int, dict[str, int]]:
        """How many partitions the next request reads, and the others by topic."""
        (session,) = self.leader.sessions._sessions.values()
        return len(session.active), session.resting

    def append(self, index: int = 1) -> None:
        self.leader.node.append((TOPIC, index, batch("x")), acks=1)

    def shrink(self) -> list[tuple[int, ...]]:
        """The ISRs that the leader has proposed, after it looked."""
        self.leader.node.manager.maybe_shrink_isrs()
        return self.leader.cluster.changes.isrs


@pytest.fixture
def quiet(tmp_path: Path) -> Quiet:
    return Quiet(tmp_path)


def test_a_followers_fetch_reads_only_what_has_changed(quiet: Quiet) -> None:
    assert quiet.state == (0, {TOPIC: PARTITIONS})
    heard = quiet.ask(max_wait_ms=WAIT_MS)
    assert not heard
    quiet.append()
    assert [index for index, data in by_index(heard[0]).items() if size_of(data)] == [1]
    assert quiet.state == (1, {TOPIC: PARTITIONS - 1})


def test_a_replica_that_rests_is_caught_up_as_of_the_last_request(quiet: Quiet) -> None:
    for _ in range(5):
        quiet.leader.advance(LAG_MAX_MS)
        quiet.ask()
    quiet.append()
    quiet.leader.advance(LAG_MAX_MS)
    assert quiet.shrink() == [(HERE, 2)], "the other one has not fetched for long"
    quiet.leader.cluster.changes.commit()
    quiet.leader.advance(1)
    assert quiet.shrink() == [(HERE, 2), (HERE,)]


@pytest.mark.parametrize("ends", [True, False])
def test_a_replica_lags_from_the_end_of_its_session_on(quiet: Quiet, ends: bool) -> None:
    """One that is at the log's end does not, however long ago it fetched."""
    quiet.leader.advance(LAG_MAX_MS)
    quiet.ask()
    if ends:
        quiet.leader.sessions.remove(quiet.follower.session_id)
    quiet.leader.advance(10 * LAG_MAX_MS)
    assert quiet.shrink() == []
    quiet.append(0)
    assert quiet.shrink() == [(HERE,)]


def test_what_is_not_committed_does_not_rest(quiet: Quiet) -> None:
    quiet.append()
    quiet.follower.end[1] = 1
    quiet.ask(1)
    quiet.ask()
    assert quiet.state == (1, {TOPIC: PARTITIONS - 1})
    other = Follower(3)
    other.end[1] = 1
    quiet.leader.fetch(other.request(NO_SESSION, FINAL_EPOCH, [1], 0))
    for _ in range(2):
        quiet.ask()
    assert quiet.state == (0, {TOPIC: PARTITIONS})


def test_a_replica_outside_the_isr_does_not_rest(quiet: Quiet) -> None:
    """Each of its fetches may bring it back."""
    change = PartitionChangeRecord(partition_id=1, topic_id=T, isr=[HERE, 3])
    quiet.leader.node.commit(change)
    quiet.ask()
    assert quiet.leader.cluster.changes.isrs == [(HERE, 3, 2)]
    assert quiet.state == (1, {TOPIC: PARTITIONS - 1})


def test_another_process_that_goes_on_with_the_session_is_read(quiet: Quiet) -> None:
    """Though the leader has not heard of its registration."""
    quiet.follower.broker_epoch += 1
    quiet.ask()
    epochs = {
        remote.broker_epoch
        for index in range(PARTITIONS)
        for remote in quiet.leader.partition(index).remote_replicas
        if remote.node_id == 2
    }
    assert epochs == {quiet.follower.broker_epoch}


def test_an_earlier_process_is_refused(quiet: Quiet) -> None:
    record = registration(2)
    record.broker_epoch += 1
    quiet.leader.node.commit(record)
    (response,) = quiet.ask()
    codes = {data.error_code for data in by_index(response).values()}
    assert codes == {ErrorCode.NOT_LEADER_OR_FOLLOWER}
