"""What hostile or broken clients send, and how Apache Kafka 4.3 reacts: the same table runs against both brokers.

Left out on purpose: lengths below -1, which Kafka takes for null or empty in places. No client sends them.
"""

from __future__ import annotations

import struct
from enum import Enum
from typing import NamedTuple

from tests.support.raw import (
    API_VERSIONS,
    FETCH,
    METADATA,
    PRODUCE,
    RawConnection,
    frame,
    header_v1,
    metadata_request,
    string,
)

MAX_REQUEST_BYTES = 104_857_600
"""The default of socket.request.max.bytes."""

FOLLOW_UP = 777
SILENCE_S = 0.3


class End(Enum):
    """How a dialogue ends."""

    CLOSED = "the broker closes the connection"
    OPEN = "the broker continues to serve the connection"
    WAITING = "the broker waits for the rest"


class Dialogue(NamedTuple):
    """Bytes sent on a new connection, the first bytes of each response, and how the connection ends."""

    name: str
    sent: bytes
    answers: tuple[bytes, ...]
    end: End

    def __repr__(self) -> str:
        return self.name.replace(" ", "-")


def header_v2(api_key: int, api_version: int, tags: bytes = b"\0") -> bytes:
    """A request header of the flexible kind."""
    return header_v1(api_key, api_version, 1) + tags


def no_topics(version: int = 1) -> bytes:
    """A Metadata request for no topic (non-flexible versions)."""
    return header_v1(METADATA, version, 1) + struct.pack(">i", 0)


def _closed(name: str, sent: bytes, *answers: bytes) -> Dialogue:
    return Dialogue(name, sent, answers, End.CLOSED)


def _open(name: str, sent: bytes, *answers: bytes) -> Dialogue:
    return Dialogue(name, sent, answers, End.OPEN)


def _answer(correlation_id: int, start: bytes = b"") -> bytes:
    return struct.pack(">i", correlation_id) + start


# Error 35 (UNSUPPORTED_VERSION); only ApiVersions itself also lists the supported versions (KIP-511).
_V0_ANSWER = _answer(1, struct.pack(">hihhh", 35, 1, API_VERSIONS, 0, 4))
_BAD_UTF8 = b"\xff\xfe\xfd"
_UNSERVED = {
    "a key that never was": (999, 0),
    "a negative key": (-1, 0),
    "the key after the last": (93, 0),
    "LeaderAndIsr, gone since 4.0": (4, 0),
    "ControlledShutdown, gone since 4.0": (7, 0),
    "Vote, for controllers": (52, 0),
    "BrokerRegistration, for controllers": (62, 0),
    "Metadata from the future": (METADATA, 99),
    "a negative version": (METADATA, -1),
    "Fetch v0, gone since 4.0": (FETCH, 0),
    # Advertised so that librdkafka compresses, but not served.
    "Produce v0": (PRODUCE, 0),
    "Produce v2": (PRODUCE, 2),
}

DIALOGUES: tuple[Dialogue, ...] = (
    _closed("HTTP", b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"),
    _closed("a TLS hello", bytes.fromhex("1603010200010001fc0303") + bytes(100)),
    _closed("size -1", struct.pack(">i", -1)),
    _closed("the smallest size", struct.pack(">i", -(2**31))),
    _closed("size 0", struct.pack(">i", 0)),
    _closed("2 GiB claimed", struct.pack(">i", 2**31 - 1)),
    _closed("one byte more than allowed", struct.pack(">i", MAX_REQUEST_BYTES + 1)),
    Dialogue("as much as allowed", struct.pack(">i", MAX_REQUEST_BYTES), (), End.WAITING),
    Dialogue("half a request", metadata_request()[:9], (), End.WAITING),
    Dialogue("half a size", b"\0\0", (), End.WAITING),
    _closed("three bytes", frame(b"abc")),
    _closed("a header cut short", frame(struct.pack(">hhi", METADATA, 1, 1))),
    _closed("a client id beyond the frame", frame(struct.pack(">hhih", METADATA, 1, 1, 30_000))),
    _closed("an array cut short", frame(header_v1(METADATA, 1, 1) + struct.pack(">i", 1000))),
    _closed("an array of two billion", frame(header_v1(METADATA, 1, 1) + struct.pack(">i", 2**31 - 1))),
    _closed("a compact array of four billion", frame(header_v2(METADATA, 12) + b"\xff\xff\xff\xff\x0f")),
    _closed("a varint without end", frame(header_v2(METADATA, 12) + b"\xff" * 7)),
    _closed("a flexible body cut short", frame(header_v2(API_VERSIONS, 3))),
    _closed("garbage after a request", metadata_request(5) + struct.pack(">i", -5), _answer(5)),
    *(_closed(name, frame(header_v2(*key) + bytes(40))) for name, key in _UNSERVED.items()),
    _open("no client id", frame(header_v1(METADATA, 1, 1, None) + struct.pack(">i", 0)), _answer(1)),
    _open(
        "a client id that is not UTF-8",
        frame(struct.pack(">hhih", METADATA, 1, 1, 3) + _BAD_UTF8 + struct.pack(">i", 0)),
        _answer(1),
    ),
    _open("bytes after the body", frame(no_topics() + b"and more"), _answer(1)),
    _open("an unknown tag", frame(header_v2(METADATA, 12, b"\x01\x63\x02hi") + b"\x01\0\0\0"), _answer(1)),
    _open("two requests at once", metadata_request(1) + metadata_request(2), _answer(1), _answer(2)),
    _open("ApiVersions from the future", frame(header_v2(API_VERSIONS, 99)), _V0_ANSWER),
    _open(
        "ApiVersions v3 with an impossible name",
        frame(header_v2(API_VERSIONS, 3) + b"\x02!\x02!\0"),
        _answer(1, b"\0\x2a"),
    ),
    _open(
        "Produce without records",
        frame(header_v1(PRODUCE, 3, 1) + struct.pack(">hhii", -1, 1, 1000, 0)),
        _answer(1),
    ),
    _open("Produce with acks=0", frame(header_v1(PRODUCE, 3, 1) + struct.pack(">hhii", -1, 0, 1000, 0))),
    _open(
        "Produce with acks=7 to a topic that is not there",
        frame(
            header_v1(PRODUCE, 3, 1)
            + struct.pack(">hhii", -1, 7, 1000, 1)
            + string("not-there")
            + struct.pack(">iii", 1, 0, -1)
        ),
        _answer(1, struct.pack(">i", 1) + string("not-there") + struct.pack(">iih", 1, 0, 3)),
    ),
    _open(
        "Fetch of nothing",
        frame(header_v1(FETCH, 4, 1) + struct.pack(">iiiibi", -1, 10, 1, 1000, 0, 0)),
        _answer(1),
    ),
)


def hold(dialogue: Dialogue, bootstrap: str) -> None:
    """Runs the dialogue against a broker. Raises AssertionError when it differs."""
    with RawConnection(bootstrap) as connection:
        connection.send(dialogue.sent)
        for expected in dialogue.answers:
            answer = connection.read_frame()
            assert answer[: len(expected)] == expected, answer[:40].hex()
        if dialogue.end is End.CLOSED:
            assert connection.is_closed()
        elif dialogue.end is End.OPEN:
            connection.send(metadata_request(FOLLOW_UP))
            assert connection.read_frame().startswith(_answer(FOLLOW_UP))
        else:
            connection.socket.settimeout(SILENCE_S)
            assert not connection.is_closed()
