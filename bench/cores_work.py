"""Checking batches beside the event loop: in its thread, in others, in another process over shared memory; recovery.

Every figure says what it costs the loop's own thread, what it costs in all, and how long it takes. The loop's thread is
the one that nothing else can stand in for, so its time is what limits a broker.

    python -m bench.cores_work MEMORY_FD SOCKET_FD        the worker process, started by `in_a_process`
"""

from __future__ import annotations

import asyncio
import mmap
import os
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Final, NamedTuple

import uvloop

from bench import accounting
from bench.side_by_side.job import values
from protocol.records.batch import RecordBatch, build_batch
from protocol.records.compression import CompressionType
from protocol.records.scanning import SegmentScanner

MESSAGE_BYTES: Final = 1024
RECORDS: Final = (1, 15, 120, 960)
"""In a batch: of one message, and of 16 KiB, 128 KiB and a megabyte before packing."""
CODECS: Final = (CompressionType.NONE, CompressionType.LZ4, CompressionType.ZSTD, CompressionType.GZIP)
SLOT_BYTES: Final = 2 << 20
_SPAN: Final = struct.Struct("<qq")


class Cost(NamedTuple):
    """Microseconds a batch: of the loop's thread, of all threads and processes, and from begin to end."""

    loop_us: float
    all_us: float
    wall_us: float


def batch_of(records: int, codec: CompressionType) -> bytes:
    """Values as the side-by-side measurement has them."""
    rows = [(None, value, 1_700_000_000_000, ()) for value in (values(MESSAGE_BYTES) * 2)[:records]]
    return build_batch(rows, compression=codec)


def check(data: bytes | memoryview) -> int:
    """What a produced batch goes through before it is appended: header, CRC, unpacking, every record."""
    batch = RecordBatch(data)
    batch.ensure_valid()
    return int(batch.validate_records().record_count)


# -- on the loop, in a thread, in a process --


async def _cost(one: Callable[[], Awaitable[object]], seconds: float, worker_pid: int | None = None) -> Cost:
    """The best of rounds of ten batches, one after the other."""
    loop_s = all_s = wall_s = float("inf")
    end = time.monotonic() + seconds
    while time.monotonic() < end or wall_s == float("inf"):
        theirs = accounting.clock_s(worker_pid) if worker_pid else 0.0
        thread, process, began = time.thread_time(), time.process_time(), time.perf_counter()
        for _ in range(10):
            await one()
        wall_s = min(wall_s, time.perf_counter() - began)
        loop_s = min(loop_s, time.thread_time() - thread)
        theirs = accounting.clock_s(worker_pid) - theirs if worker_pid else 0.0
        all_s = min(all_s, time.process_time() - process + theirs)
    return Cost(loop_s * 1e5, all_s * 1e5, wall_s * 1e5)


def on_the_loop(data: bytes, seconds: float) -> Cost:
    """As it is now."""

    async def one() -> None:
        check(data)

    return uvloop.run(_cost(one, seconds))


def in_a_thread(data: bytes, seconds: float) -> Cost:
    """Handed to a thread, the answer handed back."""

    async def measure() -> Cost:
        loop = asyncio.get_running_loop()
        with ThreadPoolExecutor(1) as pool:

            async def one() -> None:
                await loop.run_in_executor(pool, check, data)

            return await _cost(one, seconds)

    return uvloop.run(measure())


def in_a_process(data: bytes, seconds: float) -> Cost:
    """Copied into shared memory; a worker process checks it there and answers over a socket."""

    async def measure() -> Cost:
        loop = asyncio.get_running_loop()
        with _worker() as (memory, ours, pid):
            ours.setblocking(False)

            async def one() -> None:
                memory[: len(data)] = data
                await loop.sock_sendall(ours, _SPAN.pack(0, len(data)))
                await loop.sock_recv(ours, 8)

            return await _cost(one, seconds, pid)

    return uvloop.run(measure())


@contextmanager
def _worker() -> Iterator[tuple[mmap.mmap, socket.socket, int]]:
    descriptor = os.memfd_create("bench-cores")
    os.ftruncate(descriptor, SLOT_BYTES)
    ours, theirs = socket.socketpair()
    command = [sys.executable, "-m", "bench.cores_work", str(descriptor), str(theirs.fileno())]
    with (
        mmap.mmap(descriptor, SLOT_BYTES) as memory,
        ours,
        subprocess.Popen(command, pass_fds=(descriptor, theirs.fileno())) as process,
    ):
        theirs.close()
        ours.recv(1)  # it is ready
        try:
            yield memory, ours, process.pid
        finally:
            ours.close()
            os.close(descriptor)


def work(memory_fd: int, socket_fd: int) -> None:
    """The worker: checks what it is told of until the other end closes."""
    with mmap.mmap(memory_fd, SLOT_BYTES) as memory, socket.socket(fileno=socket_fd) as requests:
        requests.sendall(b"!")
        with memoryview(memory) as view:
            while told := requests.recv(_SPAN.size):
                start, size = _SPAN.unpack(told)
                requests.sendall(check(view[start : start + size]).to_bytes(8, "little"))


# -- do threads overlap? --


def together(call: Callable[[], object], threads: int) -> float:
    """Seconds in which `threads` threads have made `call` once each."""
    at_once = threading.Barrier(threads + 1)

    def run() -> None:
        at_once.wait()
        call()

    running = [threading.Thread(target=run) for _ in range(threads)]
    for thread in running:
        thread.start()
    at_once.wait()
    began = time.perf_counter()
    for thread in running:
        thread.join()
    return time.perf_counter() - began


def speed_up(call: Callable[[], object], rounds: int) -> float:
    """How many times as much two threads do as one does: 2 where they overlap entirely, 1 where they wait in turns.

    The median of rounds with one and two in turns, so that others on the machine disturb both.
    """
    return statistics.median(2 * together(call, 1) / together(call, 2) for _ in range(rounds))


def check_speed_up(data: bytes, rounds: int) -> float:
    """Of checking batches, for 20 ms or so at a time."""
    began = time.perf_counter()
    check(data)
    times = max(int(0.02 / max(time.perf_counter() - began, 1e-6)), 1)
    return speed_up(lambda: [check(data) for _ in range(times)], rounds)


def recovery_speed_up(batch_records: int, rounds: int) -> float:
    """Of the scan that a recovery makes, over 32 MiB of batches."""
    one = batch_of(batch_records, CompressionType.NONE)
    count = (32 << 20) // len(one)
    chunk = bytearray()
    for number in range(count):
        chunk += (number * batch_records).to_bytes(8, "big") + one[8:]
    piece = bytes(chunk)

    def scan() -> None:
        scanner = SegmentScanner(0, size=len(piece), index_interval_bytes=4096, index_bytes=10 << 20)
        assert scanner.scan(piece, 0, len(piece), len(piece)) == len(piece), scanner.damage

    return speed_up(scan, rounds)


def fsync_cost(seconds: float) -> tuple[Cost, Cost]:
    """An fsync after a megabyte: on the loop, and in a thread."""
    data = bytes(1 << 20)

    async def measure() -> tuple[Cost, Cost]:
        loop = asyncio.get_running_loop()
        with tempfile.TemporaryFile() as file, ThreadPoolExecutor(1) as pool:

            async def here() -> None:
                os.pwrite(file.fileno(), data, 0)
                os.fsync(file.fileno())

            async def there() -> None:
                os.pwrite(file.fileno(), data, 0)
                await loop.run_in_executor(pool, os.fsync, file.fileno())

            return await _cost(here, seconds), await _cost(there, seconds)

    return uvloop.run(measure())


def passing_a_descriptor_us(rounds: int = 2000) -> float:
    """The processor's time of sending an open socket to another process and taking it there."""
    ours, theirs = socket.socketpair()
    with ours, theirs, socket.socket() as passed:
        began = time.process_time()
        for _ in range(rounds):
            socket.send_fds(ours, [b"x"], [passed.fileno()])
            _, descriptors, _, _ = socket.recv_fds(theirs, 1, 1)
            os.close(descriptors[0])
        return (time.process_time() - began) / rounds * 1e6


def main(argv: Sequence[str]) -> None:
    """Is the worker."""
    work(int(argv[0]), int(argv[1]))


if __name__ == "__main__":
    main(sys.argv[1:])
