"""Pipelined requests are answered in order, however long each takes."""

from __future__ import annotations

import struct
import time

import pytest

from tests.interop.conftest import TopicFactory
from tests.support.raw import (
    FETCH,
    LIST_OFFSETS,
    PRODUCE,
    RawConnection,
    api_versions_request,
    frame,
    header_v1,
    metadata_request,
    record_batch,
    string,
)

pytestmark = [pytest.mark.clients, pytest.mark.timeout(60)]

ONE_RECORD = b"\x10\x00\x00\x00\x01\x04hi\x00"
"""A record of eight bytes: no attributes, first timestamp, first offset, no key, the value "hi", no headers."""


def fetch(correlation_id: int, topic: str, *, wait_ms: int, offset: int = 0) -> bytes:
    """Fetch v4 of partition 0."""
    body = struct.pack(">iiiibi", -1, wait_ms, 1, 1 << 20, 0, 1) + string(topic)
    return frame(header_v1(FETCH, 4, correlation_id) + body + struct.pack(">iiqi", 1, 0, offset, 1 << 20))


def produce(correlation_id: int, topic: str, acks: int) -> bytes:
    """Produce v3 of one record to partition 0."""
    batch = record_batch(ONE_RECORD)
    head = header_v1(PRODUCE, 3, correlation_id) + struct.pack(">hhii", -1, acks, 10_000, 1) + string(topic)
    return frame(head + struct.pack(">iii", 1, 0, len(batch)) + batch)


def list_offsets(correlation_id: int, topic: str) -> bytes:
    """ListOffsets v1 of the end of partition 0."""
    body = struct.pack(">ii", -1, 1) + string(topic) + struct.pack(">iiq", 1, 0, -1)
    return frame(header_v1(LIST_OFFSETS, 1, correlation_id) + body)


def correlation_ids(connection: RawConnection, count: int) -> list[int]:
    """The correlation ids of the next responses."""
    return [struct.unpack_from(">i", connection.read_frame())[0] for _ in range(count)]


def test_a_thousand_requests_in_one_write(bootstrap: str, topic: TopicFactory) -> None:
    name = topic()
    requests = bytearray()
    for number in range(0, 1000, 4):
        requests += metadata_request(number, [name]) + produce(number + 1, name, acks=-1)
        requests += api_versions_request(number + 2) + produce(number + 3, name, acks=1)
    with RawConnection(bootstrap, timeout_s=30) as connection:
        connection.send(bytes(requests))
        assert correlation_ids(connection, 1000) == list(range(1000))


def test_a_response_waits_for_the_fetch_before_it(bootstrap: str, topic: TopicFactory) -> None:
    name = topic()
    with RawConnection(bootstrap) as connection:
        started = time.monotonic()
        connection.send(fetch(1, name, wait_ms=700) + metadata_request(2, [name]))
        assert correlation_ids(connection, 2) == [1, 2]
        assert time.monotonic() - started > 0.6


def test_a_waiting_fetch_is_completed_by_another_connection(bootstrap: str, topic: TopicFactory) -> None:
    name = topic()
    with RawConnection(bootstrap) as waiting, RawConnection(bootstrap) as writing:
        waiting.send(fetch(1, name, wait_ms=20_000) + metadata_request(2, [name]))
        writing.send(produce(7, name, acks=-1))
        assert correlation_ids(writing, 1) == [7]
        assert correlation_ids(waiting, 2) == [1, 2]


def test_listed_end_offsets_are_not_older_than_the_fetch_before_them(
    bootstrap: str, topic: TopicFactory
) -> None:
    """A Java consumer computes its lag from the two."""
    name = topic()
    with RawConnection(bootstrap) as waiting, RawConnection(bootstrap) as writing:
        waiting.send(fetch(1, name, wait_ms=20_000) + list_offsets(2, name))
        writing.send(metadata_request(3, [name]))
        assert correlation_ids(writing, 1) == [3]
        writing.send(produce(4, name, acks=-1))
        assert correlation_ids(writing, 1) == [4]
        fetched, listed = waiting.read_frame(), waiting.read_frame()
        behind_name = 4 + 4 + 4 + len(string(name)) + 4
        (high_watermark,) = struct.unpack_from(">q", fetched, behind_name + 4 + 2)
        (end_offset,) = struct.unpack_from(">q", listed, behind_name - 4 + 4 + 2 + 8)
        assert (high_watermark, end_offset) == (1, 1)


def test_acks_0_has_no_response(bootstrap: str, topic: TopicFactory) -> None:
    name = topic()
    with RawConnection(bootstrap) as connection:
        connection.send(
            produce(1, name, acks=0) * 3 + metadata_request(2, [name]) + fetch(3, name, wait_ms=0)
        )
        assert correlation_ids(connection, 2) == [2, 3]


def test_an_error_with_acks_0_closes_the_connection(bootstrap: str) -> None:
    """The only way to report an error, so that the client refreshes its metadata."""
    with RawConnection(bootstrap) as connection:
        connection.send(produce(1, "no-such-topic", acks=0))
        assert connection.is_closed()
