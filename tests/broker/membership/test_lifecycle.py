"""A broker's place in the cluster: registration, heartbeats, states, shutdown, failed directories."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from barnabas.broker.membership.controller_channel import ChannelClosed, ChannelError, DeadlineExpired
from barnabas.broker.membership.lifecycle import (
    BrokerLifecycleManager,
    BrokerState,
    LifecycleEvents,
    LifecycleSettings,
    MemberIdentity,
)
from barnabas.broker.metadata.cluster import ListenerEndpoint
from barnabas.broker.metadata.versions import LevelRange
from barnabas.config.broker_config import BrokerConfig
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.cluster import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
)
from barnabas.protocol.schema import Message
from barnabas.protocol.wire import Uuid
from tests.broker.fakes import ManualTimer
from tests.broker.membership.fake_submit import FakeSubmit

DIR_A, DIR_B = bytes([1] * 16), bytes([2] * 16)
IDENTITY = MemberIdentity(
    broker_id=7,
    cluster_id="cluster",
    incarnation_id=bytes([9] * 16),
    listeners={"PLAINTEXT": ListenerEndpoint("host", 9092, 0)},
    features={"metadata.version": LevelRange(7, 30), "kraft.version": LevelRange(0, 1)},
    rack="r1",
    log_dirs=(DIR_B, DIR_A),
)
LATE = DeadlineExpired("no controller")


class Member:
    """A lifecycle manager, its controller played by the test, and what it reported."""

    def __init__(self, of: LifecycleSettings = LifecycleSettings()) -> None:  # noqa: B008  # immutable
        self.timer = ManualTimer()
        self.controller = FakeSubmit()
        self.events: list[str] = []
        self.failures: list[str] = []
        self.offset = 10
        self.cordoned: Sequence[Uuid] | None = None
        self.manager = BrokerLifecycleManager(
            IDENTITY,
            self.controller,
            self.timer,
            of,
            LifecycleEvents(
                lambda: self.events.append("caught up"),
                lambda: self.events.append("unfenced"),
                lambda: self.events.append("may stop"),
                self.failures.append,
            ),
            metadata_offset=lambda: self.offset,
            cordoned_log_dirs=lambda: self.cordoned,
        )

    @property
    def sent(self) -> int:
        return len(self.controller.submitted)

    @property
    def heartbeat(self) -> BrokerHeartbeatRequest:
        return self.controller.last(BrokerHeartbeatRequest)

    def registered(self, epoch: int = 5) -> Member:
        """Up to the first heartbeat."""
        self.manager.start()
        self.controller.respond(BrokerRegistrationResponse(broker_epoch=epoch))
        self.timer.advance(0)
        return self

    def recovering(self) -> Member:
        self.registered()
        self.beat(is_caught_up=True)
        return self

    def running(self) -> Member:
        self.recovering()
        self.manager.ready_to_unfence()
        self.beat(is_fenced=False)
        return self

    def beat(
        self, *, is_caught_up: bool = False, is_fenced: bool = True, should_shut_down: bool = False
    ) -> None:
        """Sends the next heartbeat, if none is under way, and answers it."""
        if not self.controller.under_way:
            self.timer.advance(2)
        self.controller.respond(
            BrokerHeartbeatResponse(
                is_caught_up=is_caught_up, is_fenced=is_fenced, should_shut_down=should_shut_down
            )
        )


def state_of(member: Member) -> BrokerState:
    return member.manager.state


def serves(member: Member) -> bool:
    return member.manager.is_serving


def delay_of_next(member: Member) -> float:
    """Seconds until the next request."""
    before, began = member.sent, member.timer.now
    for hundredths in range(1001):
        if member.sent > before:
            return hundredths / 100
        member.timer.advance(began + (hundredths + 1) / 100 - member.timer.now + 1e-9)
    raise AssertionError("nothing was sent within 10 s")


# -- registration --


def test_a_broker_registers_with_all_that_the_controller_needs() -> None:
    member = Member()
    member.manager.start(previous_broker_epoch=3)
    assert member.controller.last(BrokerRegistrationRequest) == BrokerRegistrationRequest(
        broker_id=7,
        cluster_id="cluster",
        incarnation_id=bytes([9] * 16),
        listeners=[
            BrokerRegistrationRequest.Listener(name="PLAINTEXT", host="host", port=9092, security_protocol=0)
        ],
        features=[
            BrokerRegistrationRequest.Feature(
                name="metadata.version", min_supported_version=7, max_supported_version=30
            ),
            BrokerRegistrationRequest.Feature(
                name="kraft.version", min_supported_version=0, max_supported_version=1
            ),
        ],
        rack="r1",
        log_dirs=[DIR_A, DIR_B],
        previous_broker_epoch=3,
    )
    assert member.controller.submitted[-1].deadline_ms == 4500
    assert state_of(member) is BrokerState.STARTING
    assert not member.manager.is_registered


def test_the_first_heartbeat_follows_the_registration_at_once() -> None:
    member = Member().registered(epoch=5)
    assert member.heartbeat == BrokerHeartbeatRequest(
        broker_id=7, broker_epoch=5, current_metadata_offset=10, want_fence=True
    )
    assert member.controller.submitted[-1].deadline_ms == 4500
    assert member.manager.is_registered


@pytest.mark.parametrize(
    "result",
    [
        BrokerRegistrationResponse(error_code=ErrorCode.DUPLICATE_BROKER_REGISTRATION),
        BrokerRegistrationResponse(error_code=ErrorCode.INVALID_REGISTRATION),
        BrokerRegistrationResponse(error_code=999),
        LATE,
    ],
)
def test_a_failed_registration_is_repeated_after_an_interval(result: Message | ChannelError) -> None:
    member = Member()
    member.manager.start()
    member.controller.respond(result)
    assert delay_of_next(member) == 2.0
    assert member.controller.last(BrokerRegistrationRequest).broker_id == 7
    assert not member.failures


def test_readiness_does_not_hurry_a_registration_that_failed() -> None:
    member = Member()
    member.manager.start()
    member.manager.ready_to_unfence()
    member.controller.respond(LATE)
    assert delay_of_next(member) == 2.0


def test_an_unsupported_feature_is_named_by_the_ranges(caplog: pytest.LogCaptureFixture) -> None:
    member = Member()
    member.manager.start()
    with caplog.at_level(logging.WARNING):
        member.controller.respond(BrokerRegistrationResponse(error_code=ErrorCode.UNSUPPORTED_VERSION))
    assert "metadata.version 7-30, kraft.version 0-1" in caplog.text


def test_another_cluster_is_fatal() -> None:
    member = Member()
    member.manager.start()
    member.controller.respond(BrokerRegistrationResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID))
    assert "cluster is their cluster.id" in member.failures[0]


@pytest.mark.parametrize("succeeds", [True, False])
def test_without_a_registration_in_time_the_broker_stops(succeeds: bool) -> None:
    member = Member()
    member.manager.start()
    for _ in range(29):
        member.controller.respond(LATE)
        member.timer.advance(2)
    if succeeds:
        member.controller.respond(BrokerRegistrationResponse(broker_epoch=1))
    assert not member.failures
    member.timer.advance(5)
    assert bool(member.failures) is not succeeds
    assert all("within 60 s (initial.broker.registration.timeout.ms)" in text for text in member.failures)


def test_a_registration_is_sent_again_with_the_epoch_kept() -> None:
    member = Member().running()
    member.manager.register_again()
    assert member.controller.last(BrokerRegistrationRequest).incarnation_id == IDENTITY.incarnation_id
    assert member.manager.broker_epoch == 5
    member.controller.respond(BrokerRegistrationResponse(broker_epoch=5))
    member.timer.advance(0)
    assert member.heartbeat.broker_epoch == 5
    member.timer.advance(100)
    assert not member.failures


# -- the states --


def test_starting_until_the_controller_says_caught_up() -> None:
    member = Member().registered()
    member.beat()
    assert state_of(member) is BrokerState.STARTING
    assert delay_of_next(member) == 0.01
    member.offset = 12
    member.beat(is_caught_up=True)
    assert (state_of(member), member.events) == (BrokerState.RECOVERY, ["caught up"])
    assert delay_of_next(member) == 0.01
    assert member.heartbeat.current_metadata_offset == 12


def test_recovery_until_it_is_unfenced() -> None:
    member = Member().recovering()
    member.timer.advance(0.01)
    member.controller.respond(BrokerHeartbeatResponse(is_fenced=True))
    assert state_of(member) is BrokerState.RECOVERY
    assert delay_of_next(member) == 2.0
    member.controller.respond(BrokerHeartbeatResponse(is_fenced=True))
    member.manager.ready_to_unfence()
    assert not member.heartbeat.want_fence
    assert not serves(member)
    member.controller.respond(BrokerHeartbeatResponse(is_fenced=False))
    assert (state_of(member), member.events) == (BrokerState.RUNNING, ["caught up", "unfenced"])
    assert serves(member)
    assert delay_of_next(member) == 2.0


def test_what_is_urgent_follows_the_request_under_way_but_never_a_failure() -> None:
    member = Member().recovering()
    member.timer.advance(0.01)
    member.manager.ready_to_unfence()
    assert member.controller.under_way == 1
    assert member.heartbeat.want_fence
    member.controller.respond(BrokerHeartbeatResponse())
    member.timer.advance(0)
    assert member.controller.last(BrokerHeartbeatRequest).want_fence is False
    member.manager.directory_failed(DIR_A)
    member.controller.respond(LATE)
    assert delay_of_next(member) == 2.0
    member.controller.respond(BrokerHeartbeatResponse())
    assert delay_of_next(member) == 2.0


def test_a_broker_that_is_fenced_while_it_runs_goes_on() -> None:
    member = Member().running()
    member.beat(is_fenced=True)
    assert state_of(member) is BrokerState.RUNNING
    assert not serves(member)
    assert delay_of_next(member) == 2.0
    assert not member.heartbeat.want_fence
    member.beat(is_fenced=False)
    assert serves(member)
    assert member.events == ["caught up", "unfenced"]


@pytest.mark.parametrize(
    "result",
    [
        BrokerHeartbeatResponse(error_code=ErrorCode.STALE_BROKER_EPOCH),
        BrokerHeartbeatResponse(error_code=ErrorCode.BROKER_ID_NOT_REGISTERED),
        LATE,
    ],
)
def test_failed_heartbeats_go_on(result: Message | ChannelError) -> None:
    member = Member().running()
    member.timer.advance(2)
    member.controller.respond(result)
    assert delay_of_next(member) == 2.0
    assert state_of(member) is BrokerState.RUNNING
    assert not member.failures


def test_a_broker_that_the_controller_has_not_heard_for_a_session_does_not_count_as_serving() -> None:
    assert Member().manager.heartbeat_age_s is None
    member = Member().running()
    heard = member.timer.now
    assert member.manager.last_good_heartbeat_s == heard
    assert member.manager.heartbeat_age_s == 0
    while member.timer.now < heard + 8:
        member.timer.advance(2)
        member.controller.respond(LATE)
    assert serves(member)
    member.timer.advance(1)
    assert not serves(member)
    assert member.manager.last_good_heartbeat_s == heard
    assert member.manager.heartbeat_age_s == 9


# -- the end --


def test_a_controlled_shutdown_waits_until_it_is_granted() -> None:
    member = Member().running()
    member.manager.begin_controlled_shutdown()
    assert state_of(member) is BrokerState.PENDING_CONTROLLED_SHUTDOWN
    assert member.heartbeat.want_shut_down
    assert not member.heartbeat.want_fence
    member.beat(is_fenced=False)
    assert delay_of_next(member) == 0.05
    member.beat(is_fenced=False)
    assert delay_of_next(member) == 2.0
    assert "may stop" not in member.events
    member.beat(should_shut_down=True)
    assert member.events[-1] == "may stop"
    assert state_of(member) is BrokerState.SHUTTING_DOWN
    sent = member.sent
    member.timer.advance(100)
    assert (member.sent, member.failures) == (sent, [])


@pytest.mark.parametrize("result", [LATE, BrokerHeartbeatResponse(error_code=ErrorCode.STALE_BROKER_EPOCH)])
def test_a_controlled_shutdown_ends_with_the_session_where_no_controller_answers(
    result: Message | ChannelError, caplog: pytest.LogCaptureFixture
) -> None:
    member = Member().running()
    heard = member.timer.now
    member.manager.begin_controlled_shutdown()
    member.controller.respond(result)
    while member.timer.now < heard + 8:
        member.timer.advance(2)
        member.controller.respond(result)
    assert "may stop" not in member.events
    member.timer.advance(2)
    member.controller.respond(result)
    assert member.events[-1] == "may stop"
    assert caplog.messages[-1].startswith(
        "no controller has answered a heartbeat within broker.session.timeout"
    )
    sent = member.sent
    member.timer.advance(100)
    assert (member.sent, member.failures) == (sent, [])


@pytest.mark.parametrize("stage", ["started", "registered", "recovering"])
def test_a_broker_that_was_never_unfenced_may_stop_at_once(stage: str) -> None:
    member = Member()
    if stage == "started":
        member.manager.start()
    else:
        getattr(member, stage)()
    member.manager.begin_controlled_shutdown()
    member.manager.begin_controlled_shutdown()
    assert member.events.count("may stop") == 1
    sent = member.sent
    member.timer.advance(100)
    assert (member.sent, member.failures) == (sent, [])


def test_responses_after_the_end_change_nothing() -> None:
    member = Member().recovering()
    member.timer.advance(0.01)
    member.manager.close()
    member.controller.respond(BrokerHeartbeatResponse(is_fenced=False))
    member.timer.advance(10)
    assert state_of(member) is BrokerState.SHUTTING_DOWN
    assert member.events == ["caught up"]


def test_a_closed_channel_ends_the_heartbeats() -> None:
    member = Member().running()
    member.timer.advance(2)
    member.controller.respond(ChannelClosed("the broker stops"))
    sent = member.sent
    member.timer.advance(100)
    assert member.sent == sent


# -- log directories --


def test_a_failed_directory_is_told_at_once_and_with_every_heartbeat() -> None:
    member = Member().running()
    member.manager.directory_failed(DIR_A)
    assert member.heartbeat.offline_log_dirs == [DIR_A]
    member.beat(is_fenced=False)
    member.manager.directory_failed(DIR_A)
    assert not member.controller.under_way
    member.timer.advance(2)
    assert member.heartbeat.offline_log_dirs == [DIR_A]
    member.timer.advance(100)
    assert not member.failures


def test_a_directory_that_fails_during_a_heartbeat_is_not_acknowledged_by_its_response() -> None:
    member = Member().running()
    member.timer.advance(2)
    member.manager.directory_failed(DIR_A)
    assert member.heartbeat.offline_log_dirs == []
    member.controller.respond(BrokerHeartbeatResponse(is_fenced=False))
    member.timer.advance(30)
    assert "within 30 s (log.dir.failure.timeout.ms)" in member.failures[0]


def test_a_directory_that_fails_before_the_registration_is_told_with_the_first_heartbeat() -> None:
    member = Member()
    member.manager.start()
    member.manager.directory_failed(DIR_B)
    assert member.sent == 1
    member.controller.respond(BrokerRegistrationResponse(broker_epoch=1))
    member.timer.advance(0)
    assert member.heartbeat.offline_log_dirs == [DIR_B]


def test_cordoned_directories_are_told_once_the_broker_has_caught_up() -> None:
    member = Member()
    member.cordoned = [DIR_A]
    member.registered()
    assert member.heartbeat.cordoned_log_dirs is None
    member.beat(is_caught_up=True)
    member.timer.advance(0.01)
    assert member.controller.last(BrokerHeartbeatRequest).cordoned_log_dirs == [DIR_A]
    member.controller.respond(BrokerHeartbeatResponse())
    member.cordoned = []
    member.manager.cordons_changed()
    assert member.heartbeat.cordoned_log_dirs == []


def test_the_settings_are_those_of_the_configuration() -> None:
    config = BrokerConfig.of(
        b"broker.heartbeat.interval.ms=1\nbroker.session.timeout.ms=20\n"
        b"initial.broker.registration.timeout.ms=3\nlog.dir.failure.timeout.ms=4\n"
    )
    assert LifecycleSettings.of(config) == LifecycleSettings(1, 20, 3, 4)
    assert LifecycleSettings.of(config).request_deadline_ms == 10
    assert LifecycleSettings.of(BrokerConfig()) == LifecycleSettings()


class LifecycleMachine(RuleBasedStateMachine):
    """Any order of responses, failures, wishes and passing time."""

    @initialize()
    def start(self) -> None:
        self.member = Member()
        self.member.manager.start()
        self.order = [BrokerState.STARTING]
        self.failed_at: float | None = None

    def note(self) -> None:
        state = self.member.manager.state
        if state is not self.order[-1]:
            self.order.append(state)

    @precondition(lambda self: self.member.controller.under_way)
    @rule(
        caught_up=st.booleans(),
        fenced=st.booleans(),
        shut_down=st.booleans(),
        error=st.sampled_from([0, 0, 0, ErrorCode.STALE_BROKER_EPOCH]),
    )
    def respond(self, caught_up: bool, fenced: bool, shut_down: bool, error: int) -> None:
        request = self.member.controller.submitted[-1].request
        if error:
            self.failed_at = self.member.timer.now
        if isinstance(request, BrokerRegistrationRequest):
            self.member.controller.respond(BrokerRegistrationResponse(broker_epoch=3, error_code=error))
        else:
            self.member.controller.respond(
                BrokerHeartbeatResponse(
                    is_caught_up=caught_up, is_fenced=fenced, should_shut_down=shut_down, error_code=error
                )
            )
        sent = self.member.sent
        self.member.timer.advance(0)
        if error:
            assert self.member.sent == sent, "a request right after a failure"
        self.note()

    @rule(seconds=st.sampled_from([0.01, 0.05, 1.0, 2.0]))
    def wait(self, seconds: float) -> None:
        self.member.timer.advance(seconds)

    @rule()
    def become_ready(self) -> None:
        self.member.manager.ready_to_unfence()

    @rule(directory=st.sampled_from([DIR_A, DIR_B]))
    def lose_directory(self, directory: Uuid) -> None:
        self.member.manager.directory_failed(directory)

    @rule()
    def register_again(self) -> None:
        if self.member.manager.is_registered:
            self.member.manager.register_again()

    @rule()
    def shut_down(self) -> None:
        self.member.manager.begin_controlled_shutdown()
        self.note()

    @invariant()
    def states_only_advance(self) -> None:
        assert self.order == sorted(self.order)

    @invariant()
    def one_request_is_under_way(self) -> None:
        assert self.member.controller.under_way <= 1

    @invariant()
    def each_event_comes_once(self) -> None:
        assert len(set(self.member.events)) == len(self.member.events)

    @invariant()
    def it_never_falls_silent(self) -> None:
        """Something is under way or planned until the end."""
        manager = self.member.manager
        if manager.state is not BrokerState.SHUTTING_DOWN and not self.member.controller.under_way:
            sent = self.member.sent
            self.member.timer.advance(2.0)
            assert self.member.sent > sent


TestLifecycleMachine = LifecycleMachine.TestCase
TestLifecycleMachine.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
