"""What a member of a cluster does with requests that the controller answers, from bytes to bytes."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from barnabas.broker.controller.embedded import Decision
from barnabas.broker.kafka_apis.forwarding import RequestForwarder
from barnabas.broker.membership.controller_channel import ChannelError, DeadlineExpired
from barnabas.broker.membership.forwarding import ForwardingManager
from barnabas.broker.metadata.image import BROKER_LOGGER_RESOURCE, BROKER_RESOURCE, TOPIC_RESOURCE
from barnabas.broker.request import REGISTRY, KafkaPrincipal
from barnabas.protocol.api_keys import ApiKey, response_header_version
from barnabas.protocol.codec import encode
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from barnabas.protocol.messages.cluster import EnvelopeRequest, EnvelopeResponse
from barnabas.protocol.messages.cluster_records import DelegationTokenRecord
from barnabas.protocol.messages.configs import (
    AlterConfigsRequest,
    AlterConfigsResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from barnabas.protocol.messages.headers import RequestHeader, ResponseHeader
from barnabas.protocol.messages.metadata import MetadataRequest
from barnabas.protocol.messages.tokens import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
    DescribeDelegationTokenRequest,
    ExpireDelegationTokenRequest,
    RenewDelegationTokenRequest,
)
from barnabas.protocol.messages.topics import DeleteTopicsRequest, DeleteTopicsResponse
from barnabas.protocol.messages.voters import AddRaftVoterRequest, AddRaftVoterResponse
from barnabas.protocol.schema import Message, VersionRange
from tests.broker.broker_fixture import CLOSED, NODE_ID, WAITS, Client, InProcessBroker
from tests.broker.guarded_broker import GuardedBroker
from tests.broker.kafka_apis.handlers.test_alter_configs import Waiting
from tests.broker.membership.test_forwarding import Channel
from tests.broker.node_client.scripted_node import parse_requests
from tests.support.difference import Like

LOGGER = "barnabas.a_test_of_forwarding"
SET = 0


class Member:
    """A broker without sockets whose controller is the test."""

    def __init__(self, broker: InProcessBroker) -> None:
        self.broker = broker
        self.channel = Channel()
        broker.broker.forwarder = RequestForwarder(ForwardingManager(self.channel))

    def client(self, version: int) -> Client:
        return self.broker.client(version)

    @property
    def forwarded(self) -> tuple[RequestHeader, Any]:
        """The last forwarded request."""
        frame = self.channel.submit.last(EnvelopeRequest).request_data
        ((header, request),) = parse_requests(len(frame).to_bytes(4, "big") + frame)
        return header, request

    def answer(self, response: Message, *, number: int | None = None, extra: bytes = b"") -> None:
        """The controller answers the request that is under way; `number` is another correlation id."""
        header, _ = self.forwarded
        key, version = header.request_api_key, header.request_api_version
        head = ResponseHeader(correlation_id=header.correlation_id if number is None else number)
        data = encode(head, response_header_version(key, version)) + encode(response, version) + extra
        self.fail(EnvelopeResponse(response_data=data))

    def fail(self, result: Message | ChannelError) -> None:
        self.channel.submit.respond(result)


@pytest.fixture
def member(broker: InProcessBroker) -> Member:
    return Member(broker)


def deleted(code: ErrorCode = ErrorCode.NONE) -> DeleteTopicsResponse:
    return DeleteTopicsResponse(
        responses=[DeleteTopicsResponse.DeletableTopicResult(name="t", error_code=code, error_message="said")]
    )


DELETE = DeleteTopicsRequest(topics=[DeleteTopicsRequest.DeleteTopicState(name="t")], timeout_ms=5)


def test_a_request_travels_as_it_came_and_its_response_too(member: Member) -> None:
    client = member.client(6)
    assert client >> DELETE << WAITS
    header, request = member.forwarded
    assert (header.client_id, header.request_api_version, request) == ("test", 6, DELETE)
    member.answer(deleted(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
    assert client << deleted(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    times = member.broker.requests.apis["DELETE_TOPICS"]
    assert dict(times.errors) == {"UNKNOWN_TOPIC_OR_PARTITION": 1}


def test_nothing_else_is_forwarded(member: Member) -> None:
    assert member.client(9) >> MetadataRequest(topics=[]) << Like(brokers=[Like(node_id=NODE_ID)])
    assert member.channel.submit.submitted == []


def test_without_a_response_everything_in_the_request_has_failed(member: Member) -> None:
    for result, error in (
        (DeadlineExpired("too late"), ErrorCode.REQUEST_TIMED_OUT),
        (EnvelopeResponse(error_code=ErrorCode.INVALID_REQUEST), ErrorCode.UNKNOWN_SERVER_ERROR),
        (EnvelopeResponse(response_data=b"\0\0"), ErrorCode.UNKNOWN_SERVER_ERROR),
    ):
        client = member.client(6)
        assert client >> DELETE << WAITS
        member.fail(result)
        assert client << Like(responses=[Like(name="t", error_code=error)])


def test_a_login_that_may_not_have_tokens_is_answered_here(member: Member) -> None:
    client = member.client(2)
    refused = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    for request in (
        CreateDelegationTokenRequest(renewers=[]),
        RenewDelegationTokenRequest(hmac=b"secret"),
        ExpireDelegationTokenRequest(hmac=b"secret"),
    ):
        assert client >> request << Like(error_code=refused, expiry_timestamp_ms=-1)
    assert member.channel.submit.submitted == []


def test_changes_of_tokens_are_decided_by_the_controller(member: Member) -> None:
    client = member.client(2)
    client.info.security_protocol = "SASL_SSL"
    client.info.principal = KafkaPrincipal("alice")
    assert client >> CreateDelegationTokenRequest(renewers=[]) << WAITS
    member.answer(CreateDelegationTokenResponse(principal_name="alice", hmac=b"secret"))
    assert client << Like(error_code=0, principal_name="alice", hmac=b"secret")
    assert client >> RenewDelegationTokenRequest(hmac=b"secret") << WAITS
    header, request = member.forwarded
    assert (header.request_api_key, request.hmac) == (ApiKey.RENEW_DELEGATION_TOKEN, b"secret")
    member.fail(DeadlineExpired("too late"))
    assert client << Like(error_code=ErrorCode.REQUEST_TIMED_OUT, expiry_timestamp_ms=0)
    assert client >> CreateDelegationTokenRequest(renewers=[]) << WAITS
    member.fail(DeadlineExpired("too late"))
    assert client << Like(
        error_code=ErrorCode.REQUEST_TIMED_OUT, principal_name="ANONYMOUS", issue_timestamp_ms=-1
    )


def test_tokens_are_described_from_the_metadata_here(tmp_path: Path) -> None:
    broker = InProcessBroker(tmp_path, {"delegation.token.secret.key": "the key of the cluster"})
    member = Member(broker)
    record = DelegationTokenRecord(
        owner="User:alice", requester="User:bob", renewers=[], token_id="from the controller"
    )
    broker.controller.submit(lambda _: Decision(None, [record]), lambda error: None)
    client = member.client(3)
    client.info.security_protocol = "SASL_SSL"
    client.info.principal = KafkaPrincipal("alice")
    assert (
        client
        >> DescribeDelegationTokenRequest(owners=None)
        << Like(
            error_code=0, tokens=[Like(token_id="from the controller", token_requester_principal_name="bob")]
        )
    )
    broker.kill()


def test_a_response_to_another_request_is_none(member: Member) -> None:
    client = member.client(6)
    assert client >> DELETE << WAITS
    member.answer(deleted(), number=4711)
    assert client << Like(responses=[Like(name="t", error_code=ErrorCode.UNKNOWN_SERVER_ERROR)])


def test_a_version_that_the_controller_does_not_know_closes_the_connection(member: Member) -> None:
    client = member.client(6)
    assert client >> DELETE << WAITS
    member.fail(EnvelopeResponse(error_code=ErrorCode.UNSUPPORTED_VERSION))
    assert client << CLOSED


@pytest.mark.parametrize("version", [0, 1])
def test_voters_are_the_controllers_business(broker: InProcessBroker, version: int) -> None:
    request = AddRaftVoterRequest(cluster_id="c", timeout_ms=5, voter_id=7, voter_directory_id=bytes(16))
    assert broker.client(version) >> request << CLOSED
    member = Member(broker)
    client = member.client(version)
    assert client >> request << WAITS
    assert member.forwarded[1] == request
    member.answer(AddRaftVoterResponse(error_code=ErrorCode.DUPLICATE_VOTER, error_message="said"))
    assert client << AddRaftVoterResponse(error_code=ErrorCode.DUPLICATE_VOTER, error_message="said")
    client = member.client(version)
    assert client >> request << WAITS
    member.fail(DeadlineExpired("too late"))
    assert client << Like(error_code=ErrorCode.REQUEST_TIMED_OUT)


def test_api_versions_are_those_that_the_controller_serves_too(member: Member) -> None:
    def offered() -> dict[int, tuple[int, int]]:
        response = member.client(3).ask(
            ApiVersionsRequest(client_software_name="a", client_software_version="1")
        )
        assert isinstance(response, ApiVersionsResponse)
        return {each.api_key: (each.min_version, each.max_version) for each in response.api_keys}

    here = {key: handler.advertised for key, handler in REGISTRY.items()}
    everything = here | {ApiKey.ADD_RAFT_VOTER: (0, 1), ApiKey.REMOVE_RAFT_VOTER: (0, 0)}
    assert offered() == everything  # while it is not known
    member.channel.versions = {
        ApiKey.CREATE_TOPICS: VersionRange(4, 9),
        ApiKey.DELETE_TOPICS: VersionRange(0, 3),
        ApiKey.ELECT_LEADERS: VersionRange(7, 8),
        ApiKey.FETCH: VersionRange(17, 18),
    }
    assert offered() == {key: served for key, served in here.items() if not REGISTRY[key].forwardable} | {
        ApiKey.CREATE_TOPICS: (4, 7),
        ApiKey.DELETE_TOPICS: (1, 3),
    }


# ---- settings


@pytest.fixture
def loggers() -> Iterator[None]:
    """Has the logger exist, and restores its level."""
    logging.getLogger(LOGGER).setLevel(logging.NOTSET)
    yield
    logging.getLogger(LOGGER).setLevel(logging.NOTSET)


Resource = tuple[int, str, str, str]
"""Type, name, key and value."""


def alter(*resources: Resource) -> IncrementalAlterConfigsRequest:
    kind = IncrementalAlterConfigsRequest
    return kind(
        resources=[
            kind.AlterConfigsResource(
                resource_type=number,
                resource_name=name,
                configs=[kind.AlterableConfig(name=key, config_operation=SET, value=value)],
            )
            for number, name, key, value in resources
        ]
    )


def altered(
    *results: tuple[int, str, int], kind: Any = IncrementalAlterConfigsResponse
) -> IncrementalAlterConfigsResponse:
    result = kind.AlterConfigsResourceResponse
    return kind(  # type: ignore[no-any-return]
        responses=[
            result(
                resource_type=number,
                resource_name=name,
                error_code=code,
                error_message="said" if code else None,
            )
            for number, name, code in results
        ]
    )


TOPIC: Resource = (TOPIC_RESOURCE, "t", "retention.ms", "5")
OWN_LOGGER: Resource = (BROKER_LOGGER_RESOURCE, str(NODE_ID), LOGGER, "ERROR")
READ_ONLY: Resource = (BROKER_RESOURCE, str(NODE_ID), "log.dirs", "/tmp")
DYNAMIC: Resource = (BROKER_RESOURCE, "", "log.cleaner.threads", "1")


def test_settings_of_topics_are_forwarded_as_they_came(member: Member) -> None:
    client = member.client(1)
    assert client >> alter(TOPIC) << WAITS
    assert member.forwarded[1] == alter(TOPIC)
    member.answer(altered((TOPIC_RESOURCE, "t", ErrorCode.INVALID_CONFIG)))
    assert client << altered((TOPIC_RESOURCE, "t", ErrorCode.INVALID_CONFIG))


@pytest.mark.usefixtures("loggers")
def test_loggers_are_this_brokers_own(member: Member) -> None:
    assert member.client(1) >> alter(OWN_LOGGER) << altered((BROKER_LOGGER_RESOURCE, str(NODE_ID), 0))
    assert member.channel.submit.submitted == []
    assert logging.getLogger(LOGGER).level == logging.ERROR


@pytest.mark.usefixtures("loggers")
def test_the_rest_is_forwarded_and_the_results_are_in_the_order_of_the_request(member: Member) -> None:
    client = member.client(1)
    assert client >> alter(TOPIC, OWN_LOGGER, READ_ONLY, DYNAMIC) << WAITS
    header, request = member.forwarded
    assert header.client_id == "test"
    assert request == alter(TOPIC, DYNAMIC)
    member.answer(altered((BROKER_RESOURCE, "", 0), (TOPIC_RESOURCE, "t", ErrorCode.INVALID_CONFIG)))
    assert client << Like(
        responses=[
            Like(resource_type=TOPIC_RESOURCE, error_code=ErrorCode.INVALID_CONFIG, error_message="said"),
            Like(resource_type=BROKER_LOGGER_RESOURCE, error_code=0),
            Like(resource_type=BROKER_RESOURCE, error_code=ErrorCode.INVALID_REQUEST),
            Like(resource_type=BROKER_RESOURCE, error_code=0),
        ]
    )


@pytest.mark.usefixtures("loggers")
def test_what_was_done_here_stays_done_where_the_controller_fails(member: Member) -> None:
    client = member.client(1)
    assert client >> alter(TOPIC, OWN_LOGGER) << WAITS
    member.fail(DeadlineExpired("too late"))
    assert client << Like(
        responses=[Like(error_code=ErrorCode.REQUEST_TIMED_OUT), Like(error_code=ErrorCode.NONE)]
    )
    client = member.client(1)
    assert client >> alter(TOPIC, OWN_LOGGER) << WAITS
    member.answer(altered())
    assert client << Like(
        responses=[Like(error_code=ErrorCode.UNKNOWN_SERVER_ERROR), Like(error_code=ErrorCode.NONE)]
    )


def test_resources_that_are_named_twice_are_not_forwarded(member: Member) -> None:
    client = member.client(1)
    assert client >> alter(TOPIC, DYNAMIC, TOPIC) << WAITS
    assert member.forwarded[1] == alter(DYNAMIC)
    member.answer(altered((BROKER_RESOURCE, "", 0)))
    codes = (ErrorCode.INVALID_REQUEST, ErrorCode.NONE, ErrorCode.INVALID_REQUEST)
    assert client << Like(responses=[Like(error_code=code) for code in codes])


def test_settings_that_need_another_host_are_forwarded_when_it_has_answered(member: Member) -> None:
    waiting, client = Waiting(member.broker), member.client(1)
    checked: Resource = (BROKER_RESOURCE, "", "message.max.bytes", "600")
    rejected: Resource = (BROKER_RESOURCE, str(NODE_ID), "message.max.bytes", "700")
    assert client >> alter(checked, rejected) << WAITS
    assert member.channel.submit.submitted == []
    waiting.fetched("600")
    waiting.fetched("700")
    assert member.forwarded[1] == alter(checked)
    member.answer(altered((BROKER_RESOURCE, "", 0)))
    codes = (ErrorCode.NONE, ErrorCode.INVALID_REQUEST)
    assert client << Like(responses=[Like(error_code=code) for code in codes])


def test_nobody_has_a_member_look_at_what_they_may_not_alter(tmp_path: Path) -> None:
    guarded = GuardedBroker(tmp_path)
    member = Member(guarded)
    waiting, client = Waiting(guarded), member.client(1)
    asked = alter((BROKER_RESOURCE, "", "message.max.bytes", "600"))
    assert client >> asked << WAITS
    assert (waiting.checked, waiting.then) == (0, [])
    assert member.forwarded[1] == asked
    guarded.kill()


def test_alter_configs_of_brokers_are_checked_here(member: Member) -> None:
    kind = AlterConfigsRequest

    def resource(number: int, name: str, key: str, value: str) -> AlterConfigsRequest.AlterConfigsResource:
        return kind.AlterConfigsResource(
            resource_type=number,
            resource_name=name,
            configs=[kind.AlterableConfig(name=key, value=value)],
        )

    other = (BROKER_RESOURCE, "99", "log.cleaner.threads", "1")
    client = member.client(2)
    assert client >> kind(resources=[resource(*other), resource(*TOPIC)]) << WAITS
    assert member.forwarded[1] == kind(resources=[resource(*TOPIC)])
    member.answer(altered((TOPIC_RESOURCE, "t", 0), kind=AlterConfigsResponse))
    assert client << Like(
        responses=[Like(resource_name="99", error_code=ErrorCode.INVALID_REQUEST), Like(error_code=0)]
    )
