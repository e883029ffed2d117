"""Whole requests and responses."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.protocol.api_keys import ApiKey, request_type, response_type
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.api_versions import ApiVersionsResponse
from barnabas.protocol.messages.fetch import FetchResponse
from barnabas.protocol.messages.groups import HeartbeatRequest, HeartbeatResponse
from barnabas.protocol.messages.produce import ProduceRequest
from barnabas.protocol.records.batch import build_batch
from tests.cli.wire.frames_made import decode_request, decode_response, request, response

SERVED = [key for key in ApiKey if request_type(key).versions.high >= 0]


@pytest.mark.parametrize("key", SERVED)
def test_every_request_and_response_in_its_newest_version(key: ApiKey) -> None:
    version = request_type(key).versions.high
    frame = decode_request(request(request_type(key)(), version), 4)
    assert (frame.api, frame.version, frame.correlation_id, frame.base, frame.wrongs) == (
        key,
        version,
        7,
        4,
        [],
    )
    answered = decode_response(response(response_type(key)(), version), key, version)
    assert (answered.correlation_id, answered.wrongs) == (7, [])


@pytest.mark.parametrize(
    ("data", "offset", "path"),
    [
        (b"", 0, "header"),
        (b"\x00\x0c\x00", 0, "header"),
        (struct.pack(">hhi", 999, 0, 1), 0, "header.request_api_key"),
        (struct.pack(">hhih", 12, 99, 1, -1) + b"\x00", 2, "header.request_api_version"),
        (struct.pack(">hhi", 12, 4, 1), 8, "header.client_id"),
        (struct.pack(">hhih", 12, 4, 1, 5) + b"cl", 8, "header.client_id"),
    ],
)
def test_wrong_headers(data: bytes, offset: int, path: str) -> None:
    frame = decode_request(data)
    (wrong,) = frame.wrongs
    assert (wrong.offset, wrong.path) == (offset, path)
    assert frame.body is None


def test_bytes_after_the_message_are_an_error() -> None:
    data = request(HeartbeatRequest(group_id="g"), 4)
    frame = decode_request(data + b"xyz")
    (wrong,) = frame.wrongs
    assert (wrong.offset, wrong.found) == (len(data), "3 bytes more")


def test_a_response_of_too_few_bytes() -> None:
    frame = decode_response(b"\x00\x00", ApiKey.HEARTBEAT, 4)
    assert [wrong.path for wrong in frame.wrongs] == ["header.correlation_id"]


def test_a_broker_that_does_not_know_the_version_of_api_versions() -> None:
    data = response(ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION), 0)
    frame = decode_response(data, ApiKey.API_VERSIONS, 4)
    assert (frame.version, frame.wrongs) == (0, [])
    assert "KIP-511" in frame.note
    frame = decode_response(response(ApiVersionsResponse(), 4), ApiKey.API_VERSIONS, 4)
    assert (frame.version, frame.wrongs, frame.note) == (4, [], "")


def fetched(records: bytes) -> bytes:
    partition = FetchResponse.PartitionData(records=records)
    topic = FetchResponse.FetchableTopicResponse(topic="t", partitions=[partition])
    return response(FetchResponse(responses=[topic]), 11)


def test_only_a_fetch_response_may_end_within_a_batch() -> None:
    batch = build_batch([(b"k", b"v", 1000, [])])
    assert decode_response(fetched(batch + batch[:30]), ApiKey.FETCH, 11).wrongs == []
    partition = ProduceRequest.PartitionProduceData(records=batch[:-1])
    topic = ProduceRequest.TopicProduceData(name="t", partition_data=[partition])
    (wrong,) = decode_request(request(ProduceRequest(topic_data=[topic]), 9)).wrongs
    assert wrong.path == "topic_data[0].partition_data[0].records.batch[0]"


@settings(max_examples=200)
@given(st.binary(max_size=100), st.sampled_from(SERVED))
def test_any_bytes_become_a_frame(data: bytes, key: ApiKey) -> None:
    assert decode_request(data).data == data
    version = request_type(key).versions.high
    whole = struct.pack(">hhih", key, version, 1, -1) + data
    for frame in (
        decode_request(whole, with_records=True),
        decode_response(data, key, version, with_records=True),
    ):
        assert all(0 <= wrong.offset <= len(frame.data) for wrong in frame.wrongs)


def test_titles() -> None:
    assert decode_request(request(HeartbeatRequest(), 4)).title == "Heartbeat v4"
    assert decode_request(struct.pack(">hhi", 999, 3, 1)).title == "unknown API v3"
    assert decode_request(b"").title == "unknown API"
    assert decode_response(response(HeartbeatResponse(), 4), ApiKey.HEARTBEAT, 4).title == "Heartbeat v4"
