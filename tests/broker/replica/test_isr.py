"""The leader's view of other replicas: catching up, the ISR's state machine, and a small model of its rules."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.broker.metadata.topics import PartitionImage
from barnabas.broker.replica.isr import (
    AWAIT_IMAGE,
    NOT_APPLIED,
    UNKNOWN_EPOCH,
    Committed,
    IsrChangeResult,
    PartitionLeader,
    PendingExpand,
    PendingShrink,
    RemoteReplica,
)
from barnabas.protocol.errors import ErrorCode
from tests.broker.logs import partition_image
from tests.broker.replica.isr_harness import LAG_MAX_MS, OWN_EPOCH, Cluster

HERE, ELSEWHERE, THIRD = 1, 2, 3
TOPIC_ID = b"t" * 16
ALL = (HERE, ELSEWHERE, THIRD)


def fetched(
    leader: PartitionLeader,
    node: int,
    offset: int,
    end: int,
    *,
    high_watermark: int = 0,
    broker_epoch: int | None = None,
    log_start: int = 0,
) -> None:
    """A fetch of the process of the node that has registered, unless another epoch is named."""
    leader.fetched(
        node,
        offset,
        log_start,
        leader_end=end,
        broker_epoch=node * 10 if broker_epoch is None else broker_epoch,
        high_watermark=high_watermark,
    )


class Led:
    """A partition of three replicas that this broker leads, with its log end and high watermark."""

    def __init__(self, *isr: int, epoch_start: int = 0) -> None:
        self.cluster = Cluster()
        self.heard = 0
        self.end = self.high_watermark = epoch_start
        self.leader = PartitionLeader(HERE, TOPIC_ID, 0, self.cluster.context, self._changed)
        self.image = partition_image(replicas=ALL, isr=isr, leader_epoch=5, partition_epoch=7)
        self.leader.lead(self.image, epoch_start)

    def _changed(self) -> None:
        self.heard += 1

    def fetch(self, node: int, offset: int, broker_epoch: int | None = None, log_start: int = 0) -> None:
        fetched(
            self.leader,
            node,
            offset,
            self.end,
            high_watermark=self.high_watermark,
            broker_epoch=broker_epoch,
            log_start=log_start,
        )

    def committed_end(self, min_isr: int = 1) -> int:
        return self.leader.committed_end(self.end, self.high_watermark, min_isr)

    def lead(self, isr: tuple[int, ...], partition_epoch: int, leader_epoch: int = 5) -> None:
        image = partition_image(
            replicas=ALL, isr=isr, leader_epoch=leader_epoch, partition_epoch=partition_epoch
        )
        self.leader.lead(image, self.end)


# ---- one replica


def replica(**numbers: int) -> RemoteReplica:
    made = RemoteReplica(ELSEWHERE)
    for name, value in numbers.items():
        setattr(made, name, value)
    return made


def test_a_fetch_up_to_the_leaders_end_is_caught_up_now() -> None:
    one = replica()
    one.fetched(10, 3, 10, 500, 20)
    assert (one.log_end_offset, one.log_start_offset, one.leader_end_at_fetch) == (10, 3, 10)
    assert (one.last_fetch_ms, one.last_caught_up_ms, one.broker_epoch) == (500, 500, 20)


def test_a_fetch_up_to_the_end_of_the_fetch_before_was_caught_up_then() -> None:
    one = replica()
    one.fetched(10, 0, 20, 500, 20)
    assert not one.is_caught_up(20, 500, LAG_MAX_MS)
    one.fetched(20, 0, 30, 800, 20)
    assert one.last_caught_up_ms == 500
    one.fetched(25, 0, 40, 900, 20)
    assert one.last_caught_up_ms == 500


def test_a_replica_is_caught_up_at_the_same_end_or_for_the_longest_lag() -> None:
    one = replica()
    one.fetched(10, 0, 10, 0, 20)
    assert one.is_caught_up(10, 10**9, LAG_MAX_MS)
    assert one.is_caught_up(11, LAG_MAX_MS, LAG_MAX_MS)
    assert not one.is_caught_up(11, LAG_MAX_MS + 1, LAG_MAX_MS)


class Session:
    """A fetch session by its last request."""

    def __init__(self, last_used_ms: int) -> None:
        self.last_used_ms = last_used_ms


def test_the_requests_of_the_session_in_which_a_replica_rests_are_its_fetches() -> None:
    one = replica(log_end_offset=10)
    one.rest(session := Session(500))
    session.last_used_ms = 700
    assert one.is_caught_up(11, 700 + LAG_MAX_MS, LAG_MAX_MS)
    assert not one.is_caught_up(11, 701 + LAG_MAX_MS, LAG_MAX_MS)
    session.last_used_ms = 800
    one.wake(session)
    session.last_used_ms = 900
    assert one.is_caught_up(11, 800 + LAG_MAX_MS, LAG_MAX_MS)
    assert not one.is_caught_up(11, 801 + LAG_MAX_MS, LAG_MAX_MS)
    assert (one.last_fetch_ms, one.last_caught_up_ms) == (800, 800)


def test_a_replica_rests_in_the_session_that_came_last() -> None:
    """A process that was restarted leaves its session behind."""
    one = replica(log_end_offset=10)
    one.rest(earlier := Session(500))
    one.rest(later := Session(600))
    one.wake(earlier)
    later.last_used_ms = 700
    one.wake(later)
    assert one.last_caught_up_ms == 700


@pytest.mark.parametrize("in_sync", [True, False])
def test_a_new_epoch_ends_the_rest(in_sync: bool) -> None:
    one = replica(log_end_offset=10)
    one.rest(session := Session(500))
    one.reset(600, 10, is_new_leader=False, is_in_sync=in_sync)
    session.last_used_ms = 700
    assert one.is_caught_up(11, 600, LAG_MAX_MS) is in_sync
    assert one.last_caught_up_ms < 700


def settled(led: Led, node: int = ELSEWHERE) -> RemoteReplica | None:
    return led.leader.settled(node, led.end, node * 10)


def test_a_replica_that_has_everything_and_is_in_the_committed_isr_is_settled() -> None:
    led = Led(HERE, ELSEWHERE)
    assert settled(led) is None, "it has not fetched yet"
    led.end = 10
    led.fetch(ELSEWHERE, 9)
    assert settled(led) is None
    led.fetch(ELSEWHERE, 10)
    assert settled(led) is led.leader.remotes[ELSEWHERE]
    assert settled(led, 9) is None, "that node has no replica"


def test_a_replica_is_not_settled_while_its_fetches_may_change_the_isr() -> None:
    led = Led(HERE, ELSEWHERE)
    led.fetch(ELSEWHERE, 0)
    led.cluster.change(THIRD, fenced=True)
    led.fetch(THIRD, 0)
    assert settled(led, THIRD) is None, "it is outside the ISR"
    led.cluster.change(THIRD, fenced=False)
    led.fetch(THIRD, 0)
    assert led.cluster.changes.isrs == [ALL]
    assert settled(led) is settled(led, THIRD) is None, "a change is pending"
    led.cluster.changes.commit()
    assert settled(led) is not None
    assert settled(led, THIRD) is not None


def test_another_process_of_the_broker_is_not_settled() -> None:
    led = Led(HERE, ELSEWHERE)
    led.fetch(ELSEWHERE, 0)
    assert led.leader.settled(ELSEWHERE, 0, 21) is None
    led.cluster.change(ELSEWHERE, epoch=21)
    assert settled(led) is None, "it has been restarted since"


def test_one_outside_the_isr_is_never_caught_up_before_its_first_fetch() -> None:
    led = Led(HERE, ELSEWHERE)
    assert led.leader.remotes[ELSEWHERE].is_caught_up(1, 0, LAG_MAX_MS)
    assert not led.leader.remotes[THIRD].is_caught_up(1, 0, LAG_MAX_MS)


def test_the_same_leader_in_a_new_epoch_keeps_what_the_others_have() -> None:
    led = Led(HERE, ELSEWHERE)
    led.end = 10
    led.fetch(ELSEWHERE, 8)
    led.cluster.ms = 700
    led.lead((HERE, ELSEWHERE), 8, leader_epoch=6)
    remote = led.leader.remotes[ELSEWHERE]
    assert (remote.log_end_offset, remote.broker_epoch) == (8, 20)
    assert (remote.last_fetch_ms, remote.leader_end_at_fetch, remote.last_caught_up_ms) == (700, 10, 700)
    assert led.leader.epoch_start == 10


# ---- the high watermark


def test_the_high_watermark_waits_for_the_isr_alone() -> None:
    led = Led(HERE, ELSEWHERE)
    led.end = 10
    assert led.committed_end() == -1
    led.fetch(ELSEWHERE, 6)
    assert led.committed_end() == 6


def test_the_high_watermark_stands_still_below_min_isr() -> None:
    led = Led(HERE)
    led.end, led.high_watermark = 10, 4
    assert led.committed_end(min_isr=2) == 4
    assert led.committed_end(min_isr=1) == 10


def test_the_high_watermark_waits_for_a_replica_about_to_join() -> None:
    led = Led(HERE)
    led.end = 10
    led.fetch(ELSEWHERE, 10, broker_epoch=5)  # an older process: not eligible
    led.end = 12
    assert led.committed_end() == 12
    led.fetch(ELSEWHERE, 12, broker_epoch=UNKNOWN_EPOCH)
    led.cluster.changes.fail(ErrorCode.INELIGIBLE_REPLICA)
    led.end = 15
    assert led.leader.state.isr == (HERE,)
    assert led.committed_end() == 12
    led.cluster.ms += LAG_MAX_MS + 1
    assert led.committed_end() == 15


@pytest.mark.parametrize("changed", [{"fenced": True}, {"in_controlled_shutdown": True}])
def test_a_replica_that_may_not_join_is_not_waited_for(changed: dict[str, bool]) -> None:
    led = Led(HERE)
    led.cluster.change(ELSEWHERE, **changed)
    led.end = 10
    led.fetch(ELSEWHERE, 10)
    led.end = 12
    assert led.committed_end() == 12
    assert led.cluster.changes.proposals == []


def test_a_proposed_member_holds_the_high_watermark_back_and_a_shrink_frees_it_only_when_committed() -> None:
    led = Led(HERE, ELSEWHERE)
    led.fetch(ELSEWHERE, 0)
    led.fetch(THIRD, 0)
    led.end = 5
    led.fetch(ELSEWHERE, 5)
    led.cluster.ms = LAG_MAX_MS + 1
    assert led.committed_end() == 0
    led.cluster.changes.commit()
    assert led.committed_end() == 0
    assert led.leader.maybe_shrink(led.end) == (THIRD,)
    assert led.committed_end() == 0
    led.cluster.changes.commit()
    assert led.committed_end() == 5


def test_the_low_watermark_is_that_of_replicas_on_brokers_that_are_alive() -> None:
    led = Led(*ALL)
    led.fetch(ELSEWHERE, 0, log_start=4)
    assert led.leader.low_watermark(9) == -1
    led.cluster.change(THIRD, fenced=True)
    assert led.leader.low_watermark(9) == 4
    assert led.leader.low_watermark(3) == 3


# ---- proposals


def test_a_caught_up_replica_is_proposed_with_the_epochs_of_the_fetches() -> None:
    led = Led(HERE, ELSEWHERE)
    led.fetch(THIRD, 0)
    (proposal,) = led.cluster.changes.proposals
    assert (proposal.topic_id, proposal.partition) == (TOPIC_ID, 0)
    assert (proposal.leader_epoch, proposal.partition_epoch, proposal.leader_recovery_state) == (5, 7, 0)
    assert proposal.isr == ((HERE, OWN_EPOCH), (ELSEWHERE, UNKNOWN_EPOCH), (THIRD, 30))
    assert led.leader.state.isr == (HERE, ELSEWHERE)
    assert led.leader.state.maximal_isr == ALL


@pytest.mark.parametrize(("offset", "high_watermark"), [(9, 0), (11, 12)])
def test_a_replica_below_the_epochs_start_or_the_high_watermark_may_not_join(
    offset: int, high_watermark: int
) -> None:
    led = Led(HERE, epoch_start=10)
    led.end, led.high_watermark = 12, high_watermark
    led.fetch(ELSEWHERE, offset)
    assert led.cluster.changes.proposals == []
    led.fetch(ELSEWHERE, 12)
    assert led.cluster.changes.isrs == [(HERE, ELSEWHERE)]


def test_nothing_is_proposed_while_a_change_is_pending() -> None:
    led = Led(HERE)
    led.fetch(ELSEWHERE, 0)
    led.fetch(THIRD, 0)
    led.end = 5
    led.cluster.ms = LAG_MAX_MS + 1
    assert led.leader.maybe_shrink(led.end) == ()
    assert led.cluster.changes.isrs == [(HERE, ELSEWHERE)]


def test_a_committed_expansion_is_taken_with_its_epoch() -> None:
    led = Led(HERE)
    led.fetch(ELSEWHERE, 0)
    led.cluster.changes.commit()
    assert isinstance(led.leader.state, Committed)
    assert (led.leader.state.isr, led.leader.epochs, led.heard) == ((HERE, ELSEWHERE), (5, 8), 1)
    assert led.cluster.context.expands == 1


def test_replicas_that_lag_are_proposed_out() -> None:
    led = Led(*ALL)
    led.end = 5
    led.fetch(ELSEWHERE, 5)
    led.cluster.ms = LAG_MAX_MS
    assert led.leader.maybe_shrink(led.end) == ()
    led.cluster.ms += 1
    assert led.leader.maybe_shrink(led.end) == (THIRD,)
    assert isinstance(led.leader.state, PendingShrink)
    assert led.leader.state.maximal_isr == ALL
    led.cluster.changes.commit()
    assert (led.leader.state.isr, led.cluster.context.shrinks) == ((HERE, ELSEWHERE), 1)


@pytest.mark.parametrize("error", NOT_APPLIED)
def test_what_was_surely_not_applied_goes_back(error: ErrorCode) -> None:
    led = Led(HERE)
    led.fetch(ELSEWHERE, 0)
    led.cluster.changes.fail(error)
    assert isinstance(led.leader.state, Committed)
    assert (led.leader.state.isr, led.leader.epochs, led.cluster.context.failed) == ((HERE,), (5, 7), 1)
    led.fetch(ELSEWHERE, 0)
    assert len(led.cluster.changes.proposals) == 2


@pytest.mark.parametrize("error", AWAIT_IMAGE)
def test_what_the_metadata_decide_stays_pending_until_they_do(error: ErrorCode) -> None:
    led = Led(HERE)
    led.fetch(ELSEWHERE, 0)
    led.cluster.changes.fail(error)
    before = led.leader.state
    assert isinstance(before, PendingExpand)
    assert len(led.cluster.changes.proposals) == 1
    led.lead((HERE,), 8)
    assert led.leader.state.maximal_isr == (HERE,)


@pytest.mark.parametrize("error", [ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.REQUEST_TIMED_OUT])
def test_any_other_error_is_proposed_again(error: ErrorCode) -> None:
    led = Led(HERE)
    led.fetch(ELSEWHERE, 0)
    led.cluster.changes.fail(error)
    first, again = led.cluster.changes.proposals
    assert again is first
    led.cluster.changes.commit()
    assert led.leader.state.isr == (HERE, ELSEWHERE)


@pytest.mark.parametrize(("leader_epoch", "partition_epoch"), [(4, 8), (6, 8), (5, 6)])
def test_an_answer_of_other_epochs_leaves_the_change_pending(leader_epoch: int, partition_epoch: int) -> None:
    led = Led(HERE)
    led.fetch(ELSEWHERE, 0)
    answer = IsrChangeResult(ErrorCode.NONE, leader_epoch, partition_epoch, (HERE, ELSEWHERE))
    led.cluster.changes.answer(answer)
    assert isinstance(led.leader.state, PendingExpand)


# ---- images


def test_an_image_that_is_older_is_ignored() -> None:
    led = Led(HERE)
    led.fetch(ELSEWHERE, 0)
    led.cluster.changes.commit()
    led.lead((HERE,), 7)
    assert led.leader.state.isr == (HERE, ELSEWHERE)


def test_an_image_of_what_is_known_does_not_end_a_later_proposal() -> None:
    led = Led(HERE)
    led.fetch(ELSEWHERE, 0)
    led.cluster.changes.commit()
    led.fetch(THIRD, 0)
    pending = led.leader.state
    led.lead((HERE, ELSEWHERE), 8)
    assert led.leader.state is pending


def test_a_later_image_ends_a_proposal_whose_answer_is_then_ignored() -> None:
    led = Led(HERE)
    led.fetch(ELSEWHERE, 0)
    led.lead((HERE, THIRD), 8)
    led.cluster.changes.commit()
    assert (led.leader.state.isr, led.leader.epochs, led.heard) == ((HERE, THIRD), (5, 8), 0)


# ---- alone with the metadata of others


def test_without_a_context_nothing_is_proposed() -> None:
    leader = PartitionLeader(HERE, TOPIC_ID, 0, None, lambda: None)
    leader.lead(partition_image(replicas=ALL, isr=(HERE, ELSEWHERE)), 0)
    fetched(leader, THIRD, 0, 0, broker_epoch=UNKNOWN_EPOCH)
    fetched(leader, ELSEWHERE, 3, 5, broker_epoch=UNKNOWN_EPOCH)
    assert leader.maybe_shrink(5) == ()
    assert leader.committed_end(5, 0, 1) == 3
    assert not leader.is_of_older_process(ELSEWHERE, 0)


# ---- a model


@dataclass
class Controller:
    """What the controller has committed: the truth that the leader must never overrun."""

    isr: tuple[int, ...]
    partition_epoch: int = 0
    images: list[PartitionImage] = field(default_factory=list)

    def commit(self, isr: tuple[int, ...]) -> None:
        self.isr = isr
        self.partition_epoch += 1
        self.images.append(self.image())

    def image(self) -> PartitionImage:
        return partition_image(
            replicas=ALL, isr=self.isr, leader_epoch=5, partition_epoch=self.partition_epoch
        )


class IsrModel:
    """A controller that takes proposals, answers late or never, and publishes images late.

    Always: every record below the high watermark is on every replica in the ISR that the controller has committed, so
    that whichever of them it elects has all of them; and the high watermark never goes back.
    """

    def __init__(self, dice: random.Random) -> None:
        self.dice = dice
        self.cluster = Cluster()
        self.controller = Controller(dice.choice([(1,), (1, 2), (1, 2, 3), (1, 3)]))
        self.decided = 0
        self.answers: list[tuple[int, IsrChangeResult]] = []
        self.end = self.high_watermark = 0
        self.has = dict.fromkeys(ALL, 0)
        self.leader = PartitionLeader(HERE, TOPIC_ID, 0, self.cluster.context, self.advance)
        self.leader.lead(self.controller.image(), 0)

    def advance(self) -> None:
        moved = self.leader.committed_end(self.end, self.high_watermark, 1)
        self.high_watermark = max(self.high_watermark, moved)

    def append(self) -> None:
        self.end += self.dice.randint(1, 3)
        self.has[HERE] = self.end
        self.advance()

    def fetch(self) -> None:
        """A follower asks for what follows all that it has; then it gets some of that, or all."""
        node = self.dice.choice((2, 3))
        self.ask(node)
        self.has[node] = min(self.end, self.has[node] + self.dice.choice((0, 2, 100)))

    def ask(self, node: int) -> None:
        fetched(self.leader, node, self.has[node], self.end, high_watermark=self.high_watermark)
        self.advance()

    def passes(self) -> None:
        """Time passes, and the lags are checked."""
        self.cluster.ms += self.dice.choice((100, 600, 1100))
        self.leader.maybe_shrink(self.end)
        self.advance()

    def decide(self) -> None:
        """The controller looks at the next proposal; the answer is on its way."""
        if self.decided == len(self.cluster.changes.proposals):
            return
        at, self.decided = self.decided, self.decided + 1
        proposal = self.cluster.changes.proposals[at]
        isr = tuple(node for node, _ in proposal.isr)
        if proposal.partition_epoch != self.controller.partition_epoch:
            result = IsrChangeResult(ErrorCode.INVALID_UPDATE_VERSION)
        elif self.dice.random() < 0.1:
            result = IsrChangeResult(ErrorCode.INELIGIBLE_REPLICA)
        else:
            self.controller.commit(isr)
            result = IsrChangeResult(ErrorCode.NONE, 5, self.controller.partition_epoch, isr)
        self.answers.append((at, result))

    def answer(self) -> None:
        """It arrives, or the connection broke: then the proposal is repeated, whatever became of it."""
        if self.answers:
            at, result = self.answers.pop(0)
            is_lost = self.dice.random() < 0.3
            lost = IsrChangeResult(ErrorCode.REQUEST_TIMED_OUT)
            self.cluster.changes.answer(lost if is_lost else result, at)

    def fence(self) -> None:
        """Rarely: the controller takes a broker out of the ISR by itself."""
        node = self.dice.choice((2, 3))
        if node in self.controller.isr and self.dice.random() < 0.2:
            self.controller.commit(tuple(one for one in self.controller.isr if one != node))

    def publish(self) -> None:
        if self.controller.images:
            self.leader.lead(self.controller.images.pop(0), 0)
            self.advance()

    def check(self) -> None:
        for node in self.controller.isr:
            assert self.has[node] >= self.high_watermark, (node, self.controller.isr)
        assert self.leader.epochs[1] <= self.controller.partition_epoch
        if self.leader.epochs[1] == self.controller.partition_epoch:
            assert self.leader.state.isr == self.controller.isr

    def run(self, steps: int) -> None:
        events = (
            *(self.append, self.fetch, self.fetch, self.passes),
            *(self.decide, self.answer, self.publish, self.fence),
        )
        for _ in range(steps):
            before = self.high_watermark
            self.dice.choice(events)()
            self.check()
            assert self.high_watermark >= before

    def settle(self) -> None:
        """Nothing is lost any more: then all are in the ISR, and have everything."""
        for _ in range(20):
            while self.controller.images:
                self.publish()
            while self.decided < len(self.cluster.changes.proposals):
                self.decide()
            for at, result in self.answers:
                self.cluster.changes.answer(result, at)
            self.answers.clear()
            for node in (2, 3):
                self.has[node] = self.end
                self.ask(node)
            self.check()
        assert set(self.controller.isr) == set(ALL)
        assert self.high_watermark == self.end


@settings(max_examples=400, deadline=None)
@given(seed=st.integers(0, 1 << 48))
def test_no_committed_record_is_missing_on_a_member_of_the_committed_isr(seed: int) -> None:
    model = IsrModel(random.Random(seed))
    model.run(steps=150)
    model.settle()
