"""The send queue keeps the order, sends in pieces, and reads records only when needed."""

from __future__ import annotations

import errno
import os
import random
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from barnabas.broker.network.send_queue import (
    PIECE_BYTES,
    SENDFILE_BYTES,
    TURN_BYTES,
    RecordsGoneError,
    SendQueue,
)
from barnabas.protocol.wire import Chunk
from barnabas.storage.env import RealFile
from barnabas.storage.offsets import FileRecords
from tests.broker.fakes import FakeTransport
from tests.broker.scripted import FakeRecords, SliceableRecords


def drained(queue: SendQueue) -> list[bytes]:
    pieces: list[bytes] = []
    while queue:
        pieces.append(b"".join(queue.take()))
    return pieces


def test_small_chunks_are_joined() -> None:
    queue = SendQueue()
    queue.put([b"a", memoryview(b"b"), FakeRecords(3, b"c")])
    assert drained(queue) == [b"abccc"]


def test_an_empty_queue_has_nothing_to_send() -> None:
    queue = SendQueue()
    assert not queue
    assert queue.take() == []


def test_indivisible_records_are_sent_whole() -> None:
    queue = SendQueue()
    queue.put([FakeRecords(3 * PIECE_BYTES, b"c"), b"d"])
    assert [len(piece) for piece in drained(queue)] == [3 * PIECE_BYTES, 1]


def test_a_cleared_queue_sends_nothing() -> None:
    queue = SendQueue()
    queue.put([b"a"])
    queue.clear()
    assert not queue


def test_records_shorter_than_their_size_are_an_error() -> None:
    records = FakeRecords(10)
    records.truncated_by = 1
    queue = SendQueue()
    queue.put([records])
    with pytest.raises(RecordsGoneError, match="gave 9 bytes"):
        queue.take()


chunks = st.one_of(
    st.integers(0, PIECE_BYTES * 3).map(SliceableRecords),
    st.integers(0, PIECE_BYTES).map(bytes),
)


@given(st.lists(chunks, max_size=8))
def test_every_byte_is_sent_once_in_pieces_of_bounded_size(items: list[Chunk]) -> None:
    expected = b"".join(item if isinstance(item, bytes) else item.read() for item in items)  # type: ignore[union-attr]
    queue = SendQueue()
    queue.put(items)
    pieces = drained(queue)
    assert b"".join(pieces) == expected
    assert all(len(piece) <= 2 * PIECE_BYTES for piece in pieces)


# ---- on a transport


class CountedFile(RealFile):
    """A file that counts its reads."""

    def __init__(self, fd: int) -> None:
        super().__init__(fd)
        self.reads = 0

    def pread(self, length: int, position: int) -> bytes:
        self.reads += 1
        return super().pread(length, position)


class OnDisk:
    """A file in a temporary directory, whose slices are records, as in the storage."""

    def __init__(self, path: Path, size: int) -> None:
        self.data = random.Random(size).randbytes(size)
        path.write_bytes(self.data)
        self.file = CountedFile(os.open(path, os.O_RDWR))

    def records(self, position: int, size: int) -> FileRecords:
        return FileRecords(self.file, position, size)


@pytest.fixture
def disk(tmp_path: Path) -> OnDisk:
    return OnDisk(tmp_path / "0.log", 5 * TURN_BYTES)


def test_records_in_a_file_are_sent_by_sendfile(disk: OnDisk) -> None:
    queue, transport = SendQueue(), FakeTransport()
    queue.put([b"before", disk.records(10, SENDFILE_BYTES), b"after"])
    queue.send(transport)
    assert transport.sent == b"before" + disk.data[10 : 10 + SENDFILE_BYTES] + b"after"
    assert disk.file.reads == 0


def test_small_records_are_joined_with_their_neighbours(disk: OnDisk) -> None:
    queue, transport = SendQueue(), FakeTransport()
    queue.put([b"before", disk.records(10, SENDFILE_BYTES - 1), b"after"])
    queue.send(transport)
    assert transport.sent == b"before" + disk.data[10 : 9 + SENDFILE_BYTES] + b"after"
    assert (transport.writes, disk.file.reads) == (1, 1)


def test_a_large_response_yields_to_others(disk: OnDisk) -> None:
    queue, transport = SendQueue(), FakeTransport()
    queue.put([disk.records(0, len(disk.data))])
    turns = []
    while queue:
        turns.append(queue.send(transport))
    assert turns == [TURN_BYTES] * 5
    assert transport.sent == disk.data


@pytest.mark.parametrize("end", [0, SENDFILE_BYTES + 5])
def test_a_file_truncated_under_a_response_closes_the_connection(disk: OnDisk, end: int) -> None:
    queue, transport = SendQueue(), FakeTransport()
    queue.put([disk.records(0, 2 * SENDFILE_BYTES)])
    disk.file.truncate(end)

    def send_all() -> None:
        while queue:
            queue.send(transport)

    with pytest.raises(RecordsGoneError, match="truncated"):
        send_all()


def test_a_closed_file_is_not_confused_with_another(disk: OnDisk) -> None:
    queue = SendQueue()
    queue.put([disk.records(0, 2 * SENDFILE_BYTES)])
    disk.file.close()
    with pytest.raises(RecordsGoneError, match="closed"):
        queue.send(FakeTransport())


def test_a_disk_failure_is_not_taken_for_a_disconnect(disk: OnDisk) -> None:
    class Broken(FakeTransport):
        def send_file(self, file: int, position: int, size: int) -> int:
            raise OSError(errno.EIO, "the disk")

    queue = SendQueue()
    queue.put([disk.records(0, 2 * SENDFILE_BYTES)])
    with pytest.raises(RecordsGoneError, match="the disk"):
        queue.send(Broken())


def test_a_disconnect_is_not_taken_for_a_disk_failure(disk: OnDisk) -> None:
    for chunks in ([b"data"], [disk.records(0, 2 * SENDFILE_BYTES)]):
        queue, transport = SendQueue(), FakeTransport()
        queue.put(chunks)
        transport.lost = ConnectionResetError()
        with pytest.raises(ConnectionResetError):
            queue.send(transport)


SLICES = st.tuples(st.integers(0, 300_000), st.one_of(st.integers(0, 100), st.integers(0, 700_000)))


@given(
    st.lists(st.one_of(SLICES, st.binary(max_size=50), st.integers(0, 400_000).map(bytes)), max_size=6),
    st.lists(st.integers(1, 600_000), max_size=8),
)
@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
def test_every_byte_arrives_once_for_any_reads_of_the_client(
    disk: OnDisk, items: list[tuple[int, int] | bytes], reads: list[int]
) -> None:
    expected = b"".join(
        item if isinstance(item, bytes) else disk.data[item[0] : item[0] + item[1]] for item in items
    )
    queue, transport = SendQueue(), FakeTransport()
    queue.put([item if isinstance(item, bytes) else disk.records(*item) for item in items])
    transport.peer_window = 0
    sent = queue.send(transport)
    for count in reads:
        transport.peer_window = count
        sent += queue.send(transport)
    transport.peer_window = None
    while queue:
        sent += queue.send(transport)
    assert sent == len(expected)
    assert transport.sent == expected
