"""What a client that has not logged in is answered."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from barnabas.broker.kafka_apis.dispatch import KafkaApis
from barnabas.broker.kafka_apis.unauthenticated import MAX_ANSWERED_BYTES, UnauthenticatedApis
from barnabas.protocol.api_keys import ApiKey, response_header_version, response_type
from barnabas.protocol.codec import decode
from barnabas.protocol.errors import ErrorCode, ProtocolError
from barnabas.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from barnabas.protocol.messages.groups import HeartbeatRequest
from barnabas.protocol.messages.metadata import MetadataRequest
from barnabas.protocol.messages.security import SaslHandshakeRequest
from barnabas.protocol.messages.topics import CreateTopicsRequest
from barnabas.protocol.schema import Message
from tests.broker.broker_fixture import InProcessBroker
from tests.broker.security.sasl.logins import connection_info
from tests.support.sasl import request

VERSIONS = ApiVersionsRequest(client_software_name="test", client_software_version="1")


@pytest.fixture
def apis(broker: InProcessBroker) -> KafkaApis:
    return broker.apis


def test_requests_of_nobody_are_a_bug(apis: KafkaApis) -> None:
    with pytest.raises(RuntimeError, match="has not logged in"):
        apis.handle(connection_info(), request(VERSIONS, 3))


@pytest.mark.parametrize("version", [0, 3, 4])
def test_all_apis_are_shown_before_a_login(apis: KafkaApis, version: int) -> None:
    info = connection_info()
    (head, body) = UnauthenticatedApis(apis).api_versions_before_login(info, request(VERSIONS, version))
    assert head == b"\0\0\0\7"
    response = decode(ApiVersionsResponse, version, body)  # type: ignore[arg-type]  # bytes
    shown = {each.api_key for each in response.api_keys}
    assert {ApiKey.PRODUCE, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE} <= shown
    assert info.client_software_name == ("test" if version >= 3 else "unknown")


def test_an_unknown_version_of_api_versions_is_answered(apis: KafkaApis) -> None:
    frame = struct.pack(">hhihbb", ApiKey.API_VERSIONS, 99, 7, -1, 0, 0)
    _, body = UnauthenticatedApis(apis).api_versions_before_login(connection_info(), frame)
    assert isinstance(body, bytes)
    assert body[:2] == ErrorCode.UNSUPPORTED_VERSION.to_bytes(2, "big")


def rejected(apis: KafkaApis, message: Message, version: int) -> Any:
    answer = UnauthenticatedApis(apis).reject_before_login(
        request(message, version), ErrorCode.ILLEGAL_SASL_STATE, "not now"
    )
    if answer is None:
        return None
    data = b"".join(bytes(chunk) for chunk in answer)  # type: ignore[arg-type]  # no records among them
    assert data[:4] == b"\0\0\0\7"
    assert message.api_key is not None
    head = 4 + response_header_version(message.api_key, version)
    return decode(response_type(message.api_key), version, data[head:])


@pytest.mark.parametrize(
    ("message", "version"),
    [(VERSIONS, 0), (VERSIONS, 3), (SaslHandshakeRequest(), 1), (HeartbeatRequest(), 4)],
)
def test_requests_within_a_login_are_rejected(apis: KafkaApis, message: Message, version: int) -> None:
    assert rejected(apis, message, version).error_code == ErrorCode.ILLEGAL_SASL_STATE


def test_requests_whose_parts_have_errors_are_rejected_in_each(apis: KafkaApis) -> None:
    topic = CreateTopicsRequest.CreatableTopic(name="t")
    response = rejected(apis, CreateTopicsRequest(topics=[topic]), 7)
    assert [each.error_code for each in response.topics] == [ErrorCode.ILLEGAL_SASL_STATE]


def test_requests_without_a_place_for_an_error_have_no_answer(apis: KafkaApis) -> None:
    assert rejected(apis, MetadataRequest(topics=[]), 9) is None


@pytest.mark.parametrize(
    "frame",
    [
        struct.pack(">hhih", ApiKey.HEARTBEAT, 99, 7, -1),
        struct.pack(">hhih", ApiKey.HEARTBEAT, 0, 7, -1),
        struct.pack(">hhih", ApiKey.HEARTBEAT, 0, 7, 100),
    ],
)
def test_what_cannot_be_decoded_is_not_answered(apis: KafkaApis, frame: bytes) -> None:
    with pytest.raises(ProtocolError):
        UnauthenticatedApis(apis).reject_before_login(frame, ErrorCode.ILLEGAL_SASL_STATE, "not now")


def test_a_large_request_is_not_decoded(apis: KafkaApis) -> None:
    """Its decoding would stop the loop, for a client that nobody knows."""
    for count, is_answered in ((200, True), (400, False)):
        message = CreateTopicsRequest(topics=[CreateTopicsRequest.CreatableTopic(name="t")] * count)
        assert (len(request(message, 7)) <= MAX_ANSWERED_BYTES) is is_answered
        answer = rejected(apis, message, 7)
        assert (answer is not None and len(answer.topics) == count) is is_answered
