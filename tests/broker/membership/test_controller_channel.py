"""Requests to the active controller: order, loss, another controller, deadlines."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.broker.membership.controller_channel import (
    ChannelClosed,
    ChannelError,
    ControllerChannel,
    DeadlineExpired,
    is_not_controller,
)
from barnabas.broker.node_client.address import NodeAddress
from barnabas.broker.node_client.channel import NodeUnavailable, ResponseCorrupt, UnsupportedVersion
from barnabas.broker.pending import Pending
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.cluster import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from barnabas.protocol.messages.topics import CreateTopicsResponse
from barnabas.protocol.schema import Message, VersionRange
from tests.broker.fake_channels import LOST, FakeChannel
from tests.broker.fakes import ManualTimer

A, B = NodeAddress("a", 1), NodeAddress("b", 2)
NOT_CONTROLLER = AllocateProducerIdsResponse(error_code=ErrorCode.NOT_CONTROLLER)


class Connection(FakeChannel):
    """A connection whose close fails what is under way, as a NodeClient's does."""

    is_connected = True

    def __init__(self, address: NodeAddress) -> None:
        super().__init__()
        self.address = address

    def served(self, key: int) -> VersionRange | None:
        return VersionRange(0, key)

    def close(self) -> None:
        super().close()
        while self.under_way:
            self.respond(LOST)


class Controllers:
    """The channel under test, and the nodes that it is connected to."""

    def __init__(self, active: NodeAddress | None = A) -> None:
        self.active = active
        self.timer = ManualTimer()
        self.connections: list[Connection] = []
        self.channel = ControllerChannel(lambda: self.active, self._connect, self.timer)

    def _connect(self, address: NodeAddress) -> Connection:
        self.connections.append(Connection(address))
        return self.connections[-1]

    @property
    def now(self) -> Connection:
        return self.connections[-1]

    def submit(self, number: int, deadline_ms: int | None = None) -> Pending[Message | ChannelError]:
        return self.channel.submit(AllocateProducerIdsRequest(broker_id=number), deadline_ms=deadline_ms)

    def sent(self) -> list[tuple[NodeAddress, int]]:
        """All that was sent: to whom, and the number of the request."""
        return [(c.address, sent.request.broker_id) for c in self.connections for sent in c.sent]  # type: ignore[attr-defined]


def result(pending: Pending[Message | ChannelError]) -> Message | ChannelError:
    assert pending.done
    results: list[Message | ChannelError] = []
    pending.add_done_callback(results.append)
    return results[0]


def response(number: int) -> AllocateProducerIdsResponse:
    return AllocateProducerIdsResponse(producer_id_start=number)


def test_one_request_is_under_way_and_the_others_follow_in_order() -> None:
    controllers = Controllers()
    pending = [controllers.submit(number) for number in range(3)]
    for number in range(3):
        assert controllers.sent() == [(A, each) for each in range(number + 1)]
        assert controllers.channel.queue_length == 2 - number
        controllers.now.respond(response(number))
        assert result(pending[number]) == response(number)
    assert len(controllers.connections) == 1
    assert controllers.now.sent[0].timeout_ms == 30_000


def test_while_no_controller_is_known_it_is_looked_for_every_100_ms() -> None:
    controllers = Controllers(active=None)
    controllers.submit(1)
    controllers.timer.advance(0.25)
    controllers.active = A
    assert controllers.sent() == []
    controllers.timer.advance(0.06)
    assert controllers.sent() == [(A, 1)]


def test_a_new_controller_is_asked_at_once() -> None:
    controllers = Controllers(active=None)
    controllers.submit(1)
    controllers.active = A
    controllers.channel.controller_changed()
    assert controllers.sent() == [(A, 1)]
    controllers.active = B
    controllers.channel.controller_changed()  # and the answer of the old one is not waited for
    assert controllers.connections[0].is_closed
    assert controllers.sent() == [(A, 1), (B, 1)]
    assert controllers.timer.scheduled == 0


@pytest.mark.parametrize("trouble", [LOST, NOT_CONTROLLER])
def test_a_request_that_was_lost_is_the_first_to_be_sent_again(trouble: Message | NodeUnavailable) -> None:
    controllers = Controllers()
    first, second = controllers.submit(1), controllers.submit(2)
    controllers.now.respond(trouble)
    assert len(controllers.sent()) == 1  # not at once
    controllers.timer.advance(0.05)
    assert [number for _, number in controllers.sent()] == [1, 1]
    controllers.now.respond(response(1))
    assert result(first) == response(1)
    assert not second.done
    assert [number for _, number in controllers.sent()] == [1, 1, 2]
    assert len(controllers.connections) == (1 if trouble is LOST else 2)


def test_a_node_that_is_not_the_controller_any_more_is_left() -> None:
    controllers = Controllers()
    pending = controllers.submit(1)
    controllers.active = None
    controllers.now.respond(NOT_CONTROLLER)
    assert controllers.now.is_closed
    controllers.timer.advance(0.2)
    controllers.active = B
    controllers.timer.advance(0.1)
    controllers.now.respond(response(1))
    assert result(pending) == response(1)
    assert controllers.sent() == [(A, 1), (B, 1)]


@pytest.mark.parametrize("error", [UnsupportedVersion("no"), ResponseCorrupt("no")])
def test_what_a_repetition_would_not_mend_goes_to_the_caller(
    error: UnsupportedVersion | ResponseCorrupt,
) -> None:
    controllers = Controllers()
    first = controllers.submit(1)
    controllers.submit(2)
    controllers.now.respond(error)
    assert result(first) == error
    assert controllers.sent() == [(A, 1), (A, 2)]


def test_a_request_that_waits_ends_at_its_deadline() -> None:
    controllers = Controllers(active=None)
    early, late, patient = controllers.submit(1, 1_000), controllers.submit(2, 2_000), controllers.submit(3)
    controllers.timer.advance(1)
    assert isinstance(result(early), DeadlineExpired)
    assert not late.done
    controllers.timer.advance(3600)
    assert isinstance(result(late), DeadlineExpired)
    assert not patient.done
    assert controllers.channel.queue_length == 1


def test_a_request_under_way_may_be_answered_after_its_deadline() -> None:
    controllers = Controllers()
    pending = controllers.submit(1, 1_000)
    controllers.timer.advance(5)
    controllers.now.respond(response(1))
    assert result(pending) == response(1)


def test_a_request_whose_deadline_is_over_is_not_sent_again() -> None:
    controllers = Controllers()
    pending = controllers.submit(1, 1_000)
    controllers.timer.advance(5)
    controllers.now.respond(LOST)
    assert isinstance(result(pending), DeadlineExpired)
    controllers.timer.advance(5)
    assert controllers.sent() == [(A, 1)]


def test_closing_ends_everything() -> None:
    controllers = Controllers()
    pending = [controllers.submit(1, 1_000), controllers.submit(2), controllers.submit(3, 500)]
    controllers.channel.close()
    pending.append(controllers.submit(4))
    assert all(isinstance(result(each), ChannelClosed) for each in pending)
    assert controllers.now.is_closed
    assert controllers.timer.scheduled == 0
    controllers.timer.advance(60)
    assert controllers.sent() == [(A, 1)]


def test_versions_are_those_of_the_connection() -> None:
    controllers = Controllers()
    before = controllers.channel.is_connected, controllers.channel.served(5)
    controllers.submit(1)
    after = controllers.channel.is_connected, controllers.channel.served(5)
    assert (before, after) == ((False, None), (True, VersionRange(0, 5)))


def test_not_controller_is_found_in_topics() -> None:
    topic = CreateTopicsResponse.CreatableTopicResult
    codes = (ErrorCode.NONE, ErrorCode.NOT_CONTROLLER)
    assert is_not_controller(
        CreateTopicsResponse(topics=[topic(name="t", error_code=code) for code in codes])
    )
    assert not is_not_controller(CreateTopicsResponse(topics=[topic(name="t")]))
    assert not is_not_controller(response(1))


EVENTS = st.lists(st.sampled_from(["submit", "respond", "lose", "deny", "change", "wait"]), max_size=60)


def test_a_request_is_told_each_time_that_it_is_sent() -> None:
    nodes = Controllers()
    sent: list[float] = []
    nodes.submit(1)
    pending = nodes.channel.submit(
        AllocateProducerIdsRequest(broker_id=2), sent=lambda: sent.append(nodes.timer.now)
    )
    assert sent == []
    nodes.now.respond(response(1))
    assert sent == [1000.0]
    nodes.now.respond(LOST)
    nodes.timer.advance(1)
    assert len(sent) == 2
    nodes.now.respond(response(2))
    assert result(pending) == response(2)
    assert len(sent) == 2


@given(events=EVENTS)
def test_every_request_is_answered_once_and_in_order(events: list[str]) -> None:
    controllers = Controllers()
    answered: list[int] = []
    submitted = 0

    def under_way() -> Connection | None:
        return next((each for each in controllers.connections if each.under_way), None)

    def respond() -> None:
        if connection := under_way():
            assert sum(each.under_way for each in controllers.connections) == 1
            number = connection.sent[-1].request.broker_id  # type: ignore[attr-defined]
            connection.respond(response(number))

    for event in events:
        connection = under_way()
        if event == "submit":
            controllers.submit(submitted).add_done_callback(lambda r: answered.append(r.producer_id_start))  # type: ignore[union-attr]
            submitted += 1
        elif event == "respond":
            respond()
        elif event in ("lose", "deny") and connection:
            connection.respond(LOST if event == "lose" else NOT_CONTROLLER)
        elif event == "change":
            controllers.active = {None: A, A: B, B: None}[controllers.active]
            controllers.channel.controller_changed()
        elif event == "wait":
            controllers.timer.advance(0.06)
        assert controllers.channel.queue_length + (under_way() is not None) + len(answered) == submitted
    controllers.active = A
    for _ in range(submitted):
        controllers.timer.advance(0.2)
        respond()
    assert answered == list(range(submitted))
