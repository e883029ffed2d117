"""Requests of clients in Envelopes, and what comes back."""

from __future__ import annotations

import pytest

from barnabas.broker.membership.controller_channel import ChannelClosed, ChannelError, DeadlineExpired
from barnabas.broker.membership.forwarding import (
    DEADLINE_MS,
    ForwardingManager,
    ForwardResult,
    packed_address,
)
from barnabas.broker.node_client.channel import UnsupportedVersion
from barnabas.broker.request import CLOSE_CONNECTION, ConnectionInfo, KafkaPrincipal, RequestContext
from barnabas.broker.security.principals import AuthenticationContext, Naming
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.cluster import EnvelopeRequest, EnvelopeResponse
from barnabas.protocol.messages.topics import CreateTopicsRequest, CreateTopicsResponse
from barnabas.protocol.schema import Message, VersionRange
from tests.broker.membership.fake_submit import FakeSubmit
from tests.broker.node_client.scripted_node import parse_requests

CONNECTION = ConnectionInfo(
    connection_id=1,
    listener_name="PLAINTEXT",
    client_host="192.0.2.7",
    client_port=50_000,
    local_host="192.0.2.1",
    local_port=9092,
)


class Channel:
    """A ControllerChannel whose controller is the test."""

    def __init__(self) -> None:
        self.submit = FakeSubmit()
        self.versions: dict[int, VersionRange] | None = None

    @property
    def is_connected(self) -> bool:
        return self.versions is not None

    def served(self, key: int) -> VersionRange | None:
        return (self.versions or {}).get(key)


def forwarded(result: Message | ChannelError) -> ForwardResult:
    channel, results = Channel(), list[ForwardResult]()
    ForwardingManager(channel).forward(b"frame", CONNECTION).add_done_callback(results.append)
    assert results == []
    channel.submit.respond(result)
    return results[0]


def test_an_envelope_has_the_frame_the_principal_and_the_address() -> None:
    channel = Channel()
    ForwardingManager(channel).forward(b"frame", CONNECTION)
    assert channel.submit.last(EnvelopeRequest) == EnvelopeRequest(
        request_data=b"frame",
        request_principal=b"\0\0\x05User\x0aANONYMOUS\0\0",
        client_host_address=bytes((192, 0, 2, 7)),
    )
    assert channel.submit.submitted[0].deadline_ms == 60_000


def test_the_response_is_passed_on_as_it_is() -> None:
    assert forwarded(EnvelopeResponse(response_data=b"header and body")) == b"header and body"


@pytest.mark.parametrize(
    ("answer", "result"),
    [
        (EnvelopeResponse(error_code=ErrorCode.UNSUPPORTED_VERSION), CLOSE_CONNECTION),
        (EnvelopeResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED), ErrorCode.UNKNOWN_SERVER_ERROR),
        (
            EnvelopeResponse(error_code=ErrorCode.INVALID_REQUEST, response_data=b"x"),
            ErrorCode.UNKNOWN_SERVER_ERROR,
        ),
        (EnvelopeResponse(), ErrorCode.UNKNOWN_SERVER_ERROR),
        (UnsupportedVersion("no envelopes"), ErrorCode.UNKNOWN_SERVER_ERROR),
        (DeadlineExpired("too late"), ErrorCode.REQUEST_TIMED_OUT),
    ],
)
def test_results_without_a_response(answer: Message | ChannelError, result: ForwardResult) -> None:
    assert forwarded(answer) is result


@pytest.mark.parametrize(
    ("host", "packed"),
    [
        ("127.0.0.1", b"\x7f\0\0\1"),
        ("::1", bytes(15) + b"\1"),
        ("fe80::1%eth0", b"\xfe\x80" + bytes(13) + b"\1"),
        ("::ffff:192.0.2.1", b"\xc0\0\2\1"),
    ],
)
def test_addresses(host: str, packed: bytes) -> None:
    assert packed_address(host) == packed


def test_a_builder_of_the_operators_own_writes_its_principals() -> None:
    class Builder:
        def build(self, context: AuthenticationContext) -> tuple[str, str]:
            return "Team", context.client_address

        def serialize(self, principal: KafkaPrincipal) -> bytes:
            return str(principal).encode()

    connection = ConnectionInfo(
        connection_id=2,
        listener_name="OWN",
        client_host="192.0.2.7",
        client_port=50_000,
        local_host="192.0.2.1",
        local_port=9092,
    )
    connection.naming = Naming(Builder(), connection)
    connection.principal = connection.naming.principal()
    channel = Channel()
    ForwardingManager(channel).forward(b"frame", connection)
    assert channel.submit.last(EnvelopeRequest).request_principal == b"Team:192.0.2.7"


def create() -> CreateTopicsRequest:
    return CreateTopicsRequest(
        topics=[CreateTopicsRequest.CreatableTopic(name="t", num_partitions=1, replication_factor=3)]
    )


@pytest.mark.parametrize(("served", "version"), [(None, 7), (VersionRange(2, 5), 5), (VersionRange(2, 9), 7)])
def test_topics_are_created_in_the_name_of_a_client(
    served: VersionRange | None, version: int, caplog: pytest.LogCaptureFixture
) -> None:
    channel = Channel()
    channel.versions = None if served is None else {ApiKey.CREATE_TOPICS: served}
    context = RequestContext(CONNECTION, ApiKey.METADATA, 9, "a client")
    results = list[CreateTopicsResponse | str | None]()
    ForwardingManager(channel).create_topics(create(), context).add_done_callback(results.append)
    frame = channel.submit.last(EnvelopeRequest).request_data
    ((header, request),) = parse_requests(len(frame).to_bytes(4, "big") + frame)
    assert (header.request_api_version, header.client_id) == (version, "a client")
    assert request == create()
    channel.submit.respond(EnvelopeResponse(response_data=b"header and body"))
    assert (results, caplog.messages) == ([None], [])


@pytest.mark.parametrize(
    ("response", "error"),
    [
        (DeadlineExpired("too late"), ErrorCode.REQUEST_TIMED_OUT),
        (EnvelopeResponse(error_code=ErrorCode.UNSUPPORTED_VERSION), ErrorCode.UNSUPPORTED_VERSION),
    ],
)
def test_a_client_whose_topics_cannot_be_asked_for_is_logged(
    response: Message | ChannelError, error: ErrorCode, caplog: pytest.LogCaptureFixture
) -> None:
    channel = Channel()
    context = RequestContext(CONNECTION, ApiKey.METADATA, 9, "a client")
    ForwardingManager(channel).create_topics(create(), context)
    channel.submit.respond(response)
    assert caplog.messages == [f"The controller could not be asked to create topics: {error.name}"]


@pytest.mark.parametrize(
    ("response", "result"),
    [
        (CreateTopicsResponse(topics=[]), CreateTopicsResponse(topics=[])),
        (DeadlineExpired("too late"), "too late"),
        (EnvelopeResponse(), "an unexpected response"),
    ],
)
def test_topics_of_the_broker_itself_are_asked_for_without_an_envelope(
    response: Message | ChannelError, result: CreateTopicsResponse | str, caplog: pytest.LogCaptureFixture
) -> None:
    channel, results = Channel(), list[CreateTopicsResponse | str | None]()
    ForwardingManager(channel).create_topics(create(), None).add_done_callback(results.append)
    assert channel.submit.last(CreateTopicsRequest) == create()
    channel.submit.respond(response)
    assert results == [result]
    assert caplog.messages == []  # the AutoTopicCreationManager logs each error once


class Timed:
    """A ForwardingManager, a clock that the test turns, and one request."""

    def __init__(self) -> None:
        self.now = 100.0
        self.channel = Channel()
        manager = ForwardingManager(self.channel, lambda: self.now)
        self.probe = manager.probe
        manager.forward(b"frame", CONNECTION)

    def send(self) -> None:
        sent = self.channel.submit.submitted[0].sent
        assert sent is not None
        sent()

    def respond(self, result: Message | ChannelError) -> None:
        self.channel.submit.respond(result)

    def times_ms(self) -> tuple[list[float], list[float]]:
        """In the queue, and at the controller."""
        return list(self.probe.queue.values()), list(self.probe.remote.values())


def test_a_request_has_times_in_the_queue_and_at_the_controller() -> None:
    timed = Timed()
    assert timed.probe.queue_length == 1
    for seconds in (0.5, 1.0):  # it is sent again, after the connection was lost
        timed.now += seconds
        timed.send()
    timed.now += 0.25
    assert timed.times_ms() == ([], [])
    timed.respond(EnvelopeResponse(response_data=b"header and body"))
    assert timed.times_ms() == ([1500], [250])
    assert timed.probe.queue_length == 0


def test_a_request_without_a_response_has_spent_its_time_in_the_queue() -> None:
    timed = Timed()
    timed.send()
    timed.respond(DeadlineExpired("too late"))
    assert timed.times_ms() == ([DEADLINE_MS], [])
    assert timed.probe.queue_length == 0


def test_a_request_that_is_given_up_has_no_times() -> None:
    timed = Timed()
    timed.respond(ChannelClosed("this broker stops"))
    assert timed.times_ms() == ([], [])
    assert timed.probe.queue_length == 0


def test_topics_that_the_broker_creates_are_no_forwarded_requests() -> None:
    """As in Kafka, whose AutoTopicCreationManager has the channel to itself."""
    channel = Channel()
    manager = ForwardingManager(channel)
    manager.create_topics(create(), RequestContext(CONNECTION, ApiKey.METADATA, 9, "a client"))
    assert manager.probe.queue_length == 0
    channel.submit.respond(EnvelopeResponse(response_data=b"header and body"))
    assert manager.probe.queue.count == 0


def test_versions_of_the_controller_are_all_that_exist_while_unknown() -> None:
    channel = Channel()
    manager = ForwardingManager(channel)
    assert manager.controller_versions(ApiKey.CREATE_TOPICS) == VersionRange(2, 7)
    channel.versions = {ApiKey.CREATE_TOPICS: VersionRange(2, 3)}
    assert manager.controller_versions(ApiKey.CREATE_TOPICS) == VersionRange(2, 3)
    assert manager.controller_versions(ApiKey.DELETE_TOPICS) is None
