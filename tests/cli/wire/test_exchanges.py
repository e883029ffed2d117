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
from tests.cli.wire.captured import Wire, pcap, wire
from tests.cli.wire.frames_made import request, response, sized

ASKED = sized(request(HeartbeatRequest(group_id="g", member_id="m" * 40), 4, 1))
ASKED_MORE = sized(request(MetadataRequest(topics=None), 12, 2))
ANSWERED = sized(response(HeartbeatResponse(throttle_time_ms=5), 4, 1))
ANSWERED_MORE = sized(response(MetadataResponse(cluster_id="c"), 12, 2))

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
    each = wire()
    found = frames([
        *each.open(), each.ask(ASKED), each.answer(ANSWERED), each.ask(ASKED_MORE), each.answer(ANSWERED_MORE)
    ])  # fmt: skip
    assert seen(found) == BOTH
    assert [frame.wrongs for frame in found] == [[], [], [], []]
    assert [frame.time for frame in found] == [1002.0, 1003.0, 1004.0, 1005.0]
    assert found[0].connection == "10.0.0.1:50000 > 10.0.0.2:9092"
    assert found[1].connection == "10.0.0.2:9092 > 10.0.0.1:50000"
    assert [frame.base for frame in found] == [4, 4, len(ASKED) + 4, len(ANSWERED) + 4]


def test_frames_in_many_late_and_repeated_segments() -> None:
    each = wire()
    opening = each.open()
    stream = ASKED + ASKED_MORE
    parts = [each.ask(stream[at : at + 7]) for at in range(0, len(stream), 7)]
    answers = [each.answer(part) for part in (ANSWERED[:3], ANSWERED[3:] + ANSWERED_MORE)]
    late = [*parts[1::2], *parts[::2], parts[3], *answers, answers[0]]
    assert sorted(seen(frames([*opening, *late])), key=str) == sorted(BOTH, key=str)


def test_several_requests_in_flight() -> None:
    each = wire()
    found = frames([*each.open(), each.ask(ASKED + ASKED_MORE), each.answer(ANSWERED + ANSWERED_MORE)])
    assert sorted(seen(found), key=str) == sorted(BOTH, key=str)
    assert not any(frame.wrongs for frame in found)


def test_connections_with_the_same_correlation_ids() -> None:
    first, second = wire(50000), wire(50001)
    found = frames([
        *first.open(), *second.open(),
        first.ask(ASKED), second.ask(sized(request(MetadataRequest(), 12, 1))),
        second.answer(sized(response(MetadataResponse(), 12, 1))), first.answer(ANSWERED),
    ])  # fmt: skip
    assert [frame.api for frame in found] == [ApiKey.HEARTBEAT] * 2 + [ApiKey.METADATA] * 2
    assert not any(frame.wrongs for frame in found)


def test_a_reused_correlation_id() -> None:
    each = wire()
    old = sized(request(ApiVersionsRequest(), 0, 1)), sized(response(ApiVersionsResponse(), 0, 1))
    found = frames(
        [*each.open(), each.ask(old[0]), each.answer(old[1]), each.ask(ASKED), each.answer(ANSWERED)]
    )
    assert [frame.api for frame in found] == [ApiKey.API_VERSIONS] * 2 + [ApiKey.HEARTBEAT] * 2
    assert not any(frame.wrongs for frame in found)


def begun_within(each: Wire) -> list[bytes]:
    """A capture that starts within a frame, in either direction."""
    each.ask(ASKED[:9])
    each.answer(ANSWERED[:5])
    return [
        each.ask(ASKED[9:]), each.answer(ANSWERED[5:]), each.ask(ASKED_MORE), each.answer(ANSWERED_MORE)
    ]  # fmt: skip


def test_a_capture_that_begins_within_a_connection() -> None:
    found = frames(begun_within(wire()))
    assert seen(found) == BOTH[2:]
    assert not any(frame.wrongs for frame in found)
    assert (
        found[0].note == f"the capture begins within a frame: {len(ASKED) - 9} bytes before it were left out"
    )


def test_a_response_to_a_request_that_was_not_captured() -> None:
    each = wire()
    (frame,) = frames([*each.open(), each.answer(ANSWERED)])
    (wrong,) = frame.wrongs
    assert (wrong.path, wrong.found) == ("header.correlation_id", "1")


def test_a_gap_is_reported_and_the_next_frame_found() -> None:
    each = wire()
    opening = each.open()
    captured = [each.ask(ASKED[:20]), each.ask(ASKED[20:30]), each.ask(ASKED[30:]), each.ask(ASKED_MORE)]
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
        (ASKED[:-1], f"{len(ASKED) - 5} bytes of it"),
    ],
)
def test_bytes_that_are_not_a_frame(data: bytes, said: str) -> None:
    each = wire()
    found = frames([*each.open(), each.ask(data)])
    assert said in found[-1].wrongs[0].found


def test_the_client_is_detected() -> None:
    def client(captured: list[bytes], port: int | None = None) -> int:
        (connection,) = Traffic().add(packets(pcap(captured))).connections
        return client_of(connection, port).port

    each = wire()
    assert client([each.answer(b"?"), each.ask(ASKED)]) == 50000
    assert client([each.answer(b"?")]) == 50000
    assert client([each.answer(b"?")], 50000) == 9092
    each = wire()
    assert client([*each.open(), each.answer(b"?")], 9092) == 50000
    assert client([each.answer(b"?")], 1) == 50000
