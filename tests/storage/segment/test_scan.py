"""The scan of batch headers: both formats, chunks of any size, incomplete batches."""

import struct
import zlib
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.protocol.records.batch import CorruptRecordError
from barnabas.storage.segment.scan import batch_headers, find_batch
from tests.storage.fault_env import FaultEnv, FaultFile
from tests.storage.helpers import make_batch


def old_message(offset: int, value: bytes, magic: int, timestamp: int = 7) -> bytes:
    """An entry of a message set."""
    body = struct.pack(">bb", magic, 0) + (struct.pack(">q", timestamp) if magic else b"")
    body += struct.pack(">i", -1) + struct.pack(">i", len(value)) + value
    message = struct.pack(">I", zlib.crc32(body)) + body
    return struct.pack(">qi", offset, len(message)) + message


def file_of(*batches: bytes) -> FaultFile:
    env = FaultEnv()
    env.write_file("/f", b"".join(batches))
    return env.open("/f")


MIXED = [
    old_message(0, b"v0", 0),
    old_message(1, b"v1" * 30, 1, timestamp=55),
    make_batch(b"a", b"b", base_offset=2, epoch=3, timestamp=66),
    make_batch(b"c" * 200, base_offset=7, epoch=4, timestamp=44),
    old_message(9, b"", 0),
]


def test_headers_of_all_formats() -> None:
    found = [
        (header.base_offset, header.last_offset, header.max_timestamp, header.leader_epoch, header.magic)
        for header in batch_headers(file_of(*MIXED), 0, sum(map(len, MIXED)))
    ]
    assert found == [
        (0, 0, -1, -1, 0),
        (1, 1, 55, -1, 1),
        (2, 3, 66, 3, 2),
        (7, 7, 44, 4, 2),
        (9, 9, -1, -1, 0),
    ]


@given(st.integers(43, 400), st.integers(0, 600))
def test_headers_are_the_same_with_any_chunks_and_ends(chunk_bytes: int, end: int) -> None:
    """The scan returns the batches that are complete before the end, in chunks of any size."""
    data = b"".join(MIXED)
    end = min(end, len(data))
    positions = [sum(map(len, MIXED[:index])) for index in range(len(MIXED) + 1)]
    found = [
        (header.position, header.next_position)
        for header in batch_headers(file_of(data), 0, end, chunk_bytes)
    ]
    assert found == [(at, to) for at, to in pairwise(positions) if to <= end]


@pytest.mark.parametrize(
    ("target", "found"),
    [
        (0, (0, 0)),
        (1, (1, 1)),
        (2, (2, 3)),
        (3, (2, 3)),
        (4, (3, 7)),
        (7, (3, 7)),
        (8, (4, 9)),
        (9, (4, 9)),
        (10, None),
    ],
)
def test_a_search_finds_the_batch_that_reaches_an_offset(target: int, found: tuple[int, int] | None) -> None:
    data = b"".join(MIXED)
    answer = find_batch(file_of(data), 0, len(data), target)
    if found is None:
        assert answer is None
    else:
        index, last_offset = found
        assert answer == (sum(map(len, MIXED[:index])), len(MIXED[index]), last_offset)


def test_the_search_crosses_chunks_and_stops_before_an_incomplete_batch() -> None:
    many = [make_batch(b"x" * 700, base_offset=number) for number in range(30)]
    data = b"".join(many)
    assert find_batch(file_of(data), 0, len(data), 29) == (sum(map(len, many[:29])), len(many[29]), 29)
    assert find_batch(file_of(data), 0, len(data) - 1, 29) is None
    assert find_batch(file_of(data[:-740]), 0, len(data), 29) is None
    assert [header.base_offset for header in batch_headers(file_of(data), 0, len(data) - 1)] == list(
        range(29)
    )


def test_a_file_shorter_than_its_stated_size_ends_the_scan() -> None:
    data = b"".join(MIXED)
    short = file_of(data[: sum(map(len, MIXED[:2])) + 20])
    assert [header.base_offset for header in batch_headers(short, 0, len(data))] == [0, 1]
    assert find_batch(short, 0, len(data), 5) is None


@pytest.mark.parametrize("damage", [bytes(50), b"\xff" * 50, struct.pack(">qiiB", 5, 3, 0, 2) + bytes(50)])
def test_bytes_that_are_not_a_header_are_rejected(damage: bytes) -> None:
    data = MIXED[0] + damage
    with pytest.raises(CorruptRecordError):
        list(batch_headers(file_of(data), 0, len(data)))
    with pytest.raises(CorruptRecordError):
        find_batch(file_of(data), 0, len(data), 10)
