"""Exchange: the negotiation of versions, and requests and responses as bytes."""

from __future__ import annotations

import pytest

from barnabas.broker.node_client.channel import ResponseCorrupt, UnsupportedVersion
from barnabas.broker.node_client.exchange import Exchange, ResponseMemory
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.codec import encode
from barnabas.protocol.errors import ErrorCode, ProtocolError
from barnabas.protocol.framing import LARGE_FRAME_BYTES, Frame
from barnabas.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from barnabas.protocol.messages.fetch import FetchRequest
from barnabas.protocol.messages.groups import HeartbeatRequest, HeartbeatResponse
from tests.broker.node_client.scripted_node import all_versions, parse_requests, response_frame

LARGE = b"x" * LARGE_FRAME_BYTES


def frame_of(data: bytes) -> Frame:
    return data[4:]


def served(key: ApiKey, low: int, high: int) -> ApiVersionsResponse:
    return ApiVersionsResponse(
        api_keys=[ApiVersionsResponse.ApiVersion(api_key=key, min_version=low, max_version=high)]
    )


def negotiated(versions: ApiVersionsResponse | None = None) -> Exchange:
    exchange = Exchange("node-1")
    ((header, _),) = parse_requests(exchange.begin())
    response = response_frame(
        ApiKey.API_VERSIONS, header.request_api_version, header.correlation_id, versions or all_versions()
    )
    assert exchange.receive(frame_of(response)) is None
    assert exchange.is_ready
    return exchange


def test_it_begins_with_the_newest_api_versions_and_names_itself() -> None:
    ((header, request),) = parse_requests(Exchange("node-1").begin())
    assert isinstance(request, ApiVersionsRequest)
    assert (header.client_id, header.request_api_version) == ("node-1", 4)
    assert request.client_software_name == "barnabas"


@pytest.mark.parametrize(("offered", "asked"), [(3, 3), (0, 0), (4, 3)])
def test_a_node_without_that_version_is_asked_in_one_that_it_offers(offered: int, asked: int) -> None:
    exchange = Exchange("node-1")
    ((header, _),) = parse_requests(exchange.begin())
    rejection = served(ApiKey.API_VERSIONS, 0, offered)
    rejection.error_code = ErrorCode.UNSUPPORTED_VERSION
    again = exchange.receive(
        frame_of(response_frame(ApiKey.API_VERSIONS, 0, header.correlation_id, rejection))
    )
    assert isinstance(again, bytes)
    assert not exchange.is_ready
    ((header, _),) = parse_requests(again)
    assert header.request_api_version == asked
    response = response_frame(ApiKey.API_VERSIONS, asked, header.correlation_id, all_versions())
    assert exchange.receive(frame_of(response)) is None
    assert exchange.is_ready


def test_a_rejected_negotiation_ends_the_connection() -> None:
    exchange = Exchange("node-1")
    ((header, _),) = parse_requests(exchange.begin())
    rejection = ApiVersionsResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    with pytest.raises(ProtocolError, match="error 31"):
        exchange.receive(frame_of(response_frame(ApiKey.API_VERSIONS, 4, header.correlation_id, rejection)))


@pytest.mark.parametrize(("low", "high", "chosen"), [(0, 4, 4), (0, 2, 2), (1, 99, 4)])
def test_a_request_goes_in_the_newest_common_version(low: int, high: int, chosen: int) -> None:
    exchange = negotiated(served(ApiKey.HEARTBEAT, low, high))
    data = exchange.request(HeartbeatRequest(group_id="g"))
    assert isinstance(data, bytes)
    ((header, request),) = parse_requests(data)
    assert header.request_api_version == chosen
    assert request == HeartbeatRequest(group_id="g")


def test_a_version_can_be_asked_for() -> None:
    exchange = negotiated()
    data = exchange.request(HeartbeatRequest(group_id="g"), version=1)
    assert isinstance(data, bytes)
    assert parse_requests(data)[0][0].request_api_version == 1
    assert exchange.request(HeartbeatRequest(), version=9) == UnsupportedVersion(
        "the node serves Heartbeat in versions 0-4, and this needs version 9"
    )


def test_versions_of_one_api_go_by_turns_with_their_own_headers() -> None:
    exchange = negotiated()
    asked = (None, 1, 4, None, 3)
    sent = [exchange.request(HeartbeatRequest(group_id="g"), version=version) for version in asked]
    headers = [parse_requests(data)[0][0] for data in sent if isinstance(data, bytes)]
    assert [header.request_api_version for header in headers] == [4, 1, 4, 4, 3]
    assert [header.client_id for header in headers] == ["node-1"] * len(asked)
    first = headers[0].correlation_id
    assert [header.correlation_id - first for header in headers] == [0, 1, 2, 3, 4]


def test_what_the_node_does_not_serve_is_not_sent() -> None:
    exchange = negotiated(served(ApiKey.HEARTBEAT, 7, 9))
    assert exchange.request(HeartbeatRequest()) == UnsupportedVersion(
        "the node serves Heartbeat in versions 7-9, and this needs one of 0-4"
    )
    assert exchange.request(FetchRequest()) == UnsupportedVersion("the node does not serve Fetch")
    assert exchange.served(ApiKey.FETCH) is None


def test_a_message_that_the_version_cannot_carry_is_not_sent() -> None:
    exchange = negotiated(served(ApiKey.HEARTBEAT, 0, 0))
    result = exchange.request(HeartbeatRequest(group_instance_id="static"))
    assert isinstance(result, UnsupportedVersion)
    assert "group_instance_id" in result.reason
    data = exchange.request(HeartbeatRequest(group_id="g"))
    assert isinstance(data, bytes)
    assert parse_requests(data)[0][0].correlation_id == 2, (
        "the first after the negotiation's: none is left out"
    )


def test_responses_belong_to_requests_in_their_order() -> None:
    exchange = negotiated()
    first, second = (exchange.request(HeartbeatRequest(group_id=name)) for name in "ab")
    assert isinstance(first, bytes)
    assert isinstance(second, bytes)
    for number, data in enumerate((first, second)):
        header = parse_requests(data)[0][0]
        response = HeartbeatResponse(throttle_time_ms=number)
        assert (
            exchange.receive(frame_of(response_frame(ApiKey.HEARTBEAT, 4, header.correlation_id, response)))
            == response
        )


def test_a_response_of_another_request_ends_the_connection() -> None:
    exchange = negotiated()
    data = exchange.request(HeartbeatRequest())
    assert isinstance(data, bytes)
    other = parse_requests(data)[0][0].correlation_id + 1
    with pytest.raises(ProtocolError, match="belongs to"):
        exchange.receive(frame_of(response_frame(ApiKey.HEARTBEAT, 4, other, HeartbeatResponse())))


def test_a_response_without_a_request_ends_the_connection() -> None:
    with pytest.raises(ProtocolError, match="no request is in flight"):
        negotiated().receive(b"\0\0\0\1")


def test_a_response_that_cannot_be_decoded_is_an_error_of_its_request() -> None:
    exchange = negotiated()
    data = exchange.request(HeartbeatRequest())
    assert isinstance(data, bytes)
    header = parse_requests(data)[0][0]
    whole = frame_of(response_frame(ApiKey.HEARTBEAT, 4, header.correlation_id, HeartbeatResponse()))
    result = exchange.receive(whole[:-2])
    assert isinstance(result, ResponseCorrupt)
    assert result.reason.startswith("Heartbeat v4: ")


def test_records_are_views_of_the_frame() -> None:
    from barnabas.protocol.messages.fetch import FetchResponse

    exchange = negotiated()
    data = exchange.request(FetchRequest(), version=12)
    assert isinstance(data, bytes)
    header = parse_requests(data)[0][0]
    response = FetchResponse(
        responses=[
            FetchResponse.FetchableTopicResponse(
                topic="t", partitions=[FetchResponse.PartitionData(records=b"x" * 100_000)]
            )
        ]
    )
    frame = bytearray(frame_of(response_frame(ApiKey.FETCH, 12, header.correlation_id, response)))
    result = exchange.receive(memoryview(frame))
    assert isinstance(result, FetchResponse)
    records = result.responses[0].partitions[0].records
    assert isinstance(records, memoryview)
    assert records.obj is frame
    assert encode(result, 12) == encode(response, 12)


# -- the memory of large responses --


def test_the_memory_of_a_large_response_is_used_again() -> None:
    memory = ResponseMemory()
    memory.take(100)[:] = b"a" * 100
    assert bytes(memory.take(60)) == b"a" * 60


def test_what_somebody_still_refers_to_is_kept() -> None:
    memory = ResponseMemory()
    first = memory.take(100)
    first[:] = b"a" * 100
    records = first[10:20]
    del first
    memory.take(100)[:] = b"b" * 100
    assert records == b"a" * 10


def test_a_larger_response_gets_memory_of_its_size() -> None:
    memory = ResponseMemory()
    memory.take(10)
    assert bytes(memory.take(100)) == bytes(100)


def test_small_responses_release_the_memory() -> None:
    exchange = negotiated()
    exchange.framer.feed(memoryview(len(LARGE).to_bytes(4) + LARGE[:1]), [])
    assert exchange.framer.rest is not None
    exchange.framer.rest[:] = LARGE[1:]
    frames: list[Frame] = []
    exchange.framer.filled(len(LARGE) - 1, frames)
    assert frames == [LARGE]
    frames.clear()
    request = exchange.request(HeartbeatRequest(group_id="g"))
    assert isinstance(request, bytes)
    ((header, _),) = parse_requests(request)
    response = response_frame(
        ApiKey.HEARTBEAT, header.request_api_version, header.correlation_id, HeartbeatResponse()
    )
    exchange.receive(frame_of(response))
    exchange.framer.feed(memoryview(len(LARGE).to_bytes(4) + LARGE[:1]), [])
    assert exchange.framer.rest is not None
    assert bytes(exchange.framer.rest) == bytes(len(LARGE) - 1), "new memory"
