"""Requests and responses of captured connections."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from barnabas.cli.wire.captures import packets
from barnabas.cli.wire.exchanges import client_of, frames_of
from barnabas.cli.wire.frames import Frame
from barnabas.cli.wire.tcp import Traffic
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from barnabas.protocol.messages.groups import HeartbeatRequest, HeartbeatResponse
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataResponse
from tests.cli.wire.captured import TcpConnection, pcap, tcp_connection
from tests.cli.wire.frames_made import request, response, sized

REQUEST = sized(request(HeartbeatRequest(group_id="g", member_id="m" * 40), 4, 1))
SECOND_REQUEST = sized(request(MetadataRequest(topics=None), 12, 2))
RESPONSE = sized(response(HeartbeatResponse(throttle_time_ms=5), 4, 1))
SECOND_RESPONSE = sized(response(MetadataResponse(cluster_id="c"), 12, 2))

Seen = tuple[str, ApiKey | None, int | None, int | None]


def frames(captured: Iterable[bytes], port: int | None = None) -> list[Frame]:
    traffic = Traffic().add(packets(pcap(list(captured))))
    return [frame for connection in traffic.connections for frame in frames_of(connection, port=port)]


def seen(found: list[Frame]) -> list[Seen]:
    return [(frame.direction, frame.api, frame.version, frame.correlation_id) for frame in found]


BOTH: list[Seen] = [
    ("request", ApiKey.HEARTBEAT, 4, 1),
    ("response", ApiKey.HEARTBEAT, 4, 1),
    ("request", ApiKey.METADATA, 12, 2),
    ("response", ApiKey.METADATA, 12, 2),
]


def test_requests_and_responses_of_both_directions() -> None:
    tcp = tcp_connection()
    found = frames([
        *tcp.open(), tcp.request(REQUEST), tcp.response(RESPONSE),
        tcp.request(SECOND_REQUEST), tcp.response(SECOND_RESPONSE),
    ])  # fmt: skip
    assert seen(found) == BOTH
    assert [frame.wrongs for frame in found] == [[], [], [], []]
    assert [frame.time for frame in found] == [1002.0, 1003.0, 1004.0, 1005.0]
    assert found[0].connection == "10.0.0.1:50000 > 10.0.0.2:9092"
    assert found[1].connection == "10.0.0.2:9092 > 10.0.0.1:50000"
    assert [frame.base for frame in found] == [4, 4, len(REQUEST) + 4, len(RESPONSE) + 4]


def test_frames_in_many_late_and_repeated_segments() -> None:
    tcp = tcp_connection()
    opening = tcp.open()
    stream = REQUEST + SECOND_REQUEST
    parts = [tcp.request(stream[at : at + 7]) for at in range(0, len(stream), 7)]
    answers = [tcp.response(part) for part in (RESPONSE[:3], RESPONSE[3:] + SECOND_RESPONSE)]
    late = [*parts[1::2], *parts[::2], parts[3], *answers, answers[0]]
    assert sorted(seen(frames([*opening, *late])), key=str) == sorted(BOTH, key=str)


def test_several_requests_in_flight() -> None:
    tcp = tcp_connection()
    found = frames(
        [*tcp.open(), tcp.request(REQUEST + SECOND_REQUEST), tcp.response(RESPONSE + SECOND_RESPONSE)]
    )
    assert sorted(seen(found), key=str) == sorted(BOTH, key=str)
    assert not any(frame.wrongs for frame in found)


def test_connections_with_the_same_correlation_ids() -> None:
    first, second = tcp_connection(50000), tcp_connection(50001)
    found = frames([
        *first.open(), *second.open(),
        first.request(REQUEST), second.request(sized(request(MetadataRequest(), 12, 1))),
        second.response(sized(response(MetadataResponse(), 12, 1))), first.response(RESPONSE),
    ])  # fmt: skip
    assert [frame.api for frame in found] == [ApiKey.HEARTBEAT] * 2 + [ApiKey.METADATA] * 2
    assert not any(frame.wrongs for frame in found)


def test_a_reused_correlation_id() -> None:
    tcp = tcp_connection()
    old = sized(request(ApiVersionsRequest(), 0, 1)), sized(response(ApiVersionsResponse(), 0, 1))
    found = frames(
        [*tcp.open(), tcp.request(old[0]), tcp.response(old[1]), tcp.request(REQUEST), tcp.response(RESPONSE)]
    )
    assert [frame.api for frame in found] == [ApiKey.API_VERSIONS] * 2 + [ApiKey.HEARTBEAT] * 2
    assert not any(frame.wrongs for frame in found)


def begun_within(tcp: TcpConnection) -> list[bytes]:
    """A capture that starts within a frame, in either direction."""
    tcp.request(REQUEST[:9])
    tcp.response(RESPONSE[:5])
    return [
        tcp.request(REQUEST[9:]), tcp.response(RESPONSE[5:]), tcp.request(SECOND_REQUEST), tcp.response(SECOND_RESPONSE)
    ]  # fmt: skip


def test_a_capture_that_begins_within_a_connection() -> None:
    found = frames(begun_within(tcp_connection()))
    assert seen(found) == BOTH[2:]
    assert not any(frame.wrongs for frame in found)
    assert (
        found[0].note
        == f"the capture begins within a frame: {len(REQUEST) - 9} bytes before it were left out"
    )


def test_a_response_to_a_request_that_was_not_captured() -> None:
    tcp = tcp_connection()
    (frame,) = frames([*tcp.open(), tcp.response(RESPONSE)])
    (wrong,) = frame.wrongs
    assert (wrong.path, wrong.found) == ("header.correlation_id", "1")


def test_a_gap_is_reported_and_the_next_frame_found() -> None:
    tcp = tcp_connection()
    opening = tcp.open()
    captured = [
        tcp.request(REQUEST[:20]),
        tcp.request(REQUEST[20:30]),
        tcp.request(REQUEST[30:]),
        tcp.request(SECOND_REQUEST),
    ]
    found = frames([*opening, captured[0], captured[2], captured[3]])
    assert [wrong.path for frame in found for wrong in frame.wrongs] == ["(frame)", "(stream)"]
    assert found[-1].api is ApiKey.METADATA
    assert found[-1].wrongs == []


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"\x16\x03\x01\x02\x00hello", "TLS"),
        (b"\xff\xff\xff\xff....", "-1"),
        (b"\x00\x00", "2 bytes and then the end"),
        (REQUEST[:-1], f"{len(REQUEST) - 5} bytes of it"),
    ],
)
def test_bytes_that_are_not_a_frame(data: bytes, said: str) -> None:
    tcp = tcp_connection()
    found = frames([*tcp.open(), tcp.request(data)])
    assert said in found[-1].wrongs[0].found


def test_the_client_is_detected() -> None:
    def client(captured: list[bytes], port: int | None = None) -> int:
        (connection,) = Traffic().add(packets(pcap(captured))).connections
        return client_of(connection, port).port

    tcp = tcp_connection()
    assert client([tcp.response(b"?"), tcp.request(REQUEST)]) == 50000
    assert client([tcp.response(b"?")]) == 50000
    assert client([tcp.response(b"?")], 50000) == 9092
    tcp = tcp_connection()
    assert client([*tcp.open(), tcp.response(b"?")], 9092) == 50000
    assert client([tcp.response(b"?")], 1) == 50000
