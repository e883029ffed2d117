"""Clients that only consume resources: the broker's memory stays bounded, and other clients are served in time."""

from __future__ import annotations

import contextlib
import gzip
import socket
import statistics
import struct
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from barnabas.protocol.wire import unsigned_varint
from tests.interop.clients.confluent import ConfluentKafka, NewTopic
from tests.interop.workload import assert_same
from tests.support.broker_process import BrokerProcess
from tests.support.raw import (
    FETCH,
    METADATA,
    RawConnection,
    frame,
    header_v1,
    metadata_request,
    produce_request,
    string,
)

pytestmark = [pytest.mark.faults, pytest.mark.timeout(120)]

MIB = 1 << 20
GROWTH_LIMIT = 64 * MIB
"""The limit on memory that one attack may cost; each of them asks for gigabytes."""

SLOWEST_WAITS = 400
USUAL_WAITS = 25
"""Limits on another client's wait: the longest, and the median, in multiples of an ordinary wait on this machine."""

FLOOR_S = 0.01
"""The least time that counts as an ordinary wait: shorter ones vary by chance."""

LEAST_ANSWERS = 30
TOPIC = "loot"


@pytest.fixture(autouse=True, scope="module")
def loot(broker: BrokerProcess) -> None:
    """A topic with twenty partitions and some megabytes that can be fetched repeatedly."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic(TOPIC, 20, 1)])[TOPIC].result(30)
    client = ConfluentKafka()
    workload = client.workload(2000, 20)
    produced = client.produce(broker.bootstrap, TOPIC, workload, "none")
    assert_same(produced, client.consume(broker.bootstrap, TOPIC, 20, 2000))


class Bystander(threading.Thread):
    """A well-behaved client that sends requests continuously and records each response time."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__(name="bystander", daemon=True)
        self.waits: list[float] = []
        self.error: Exception | None = None
        self._servers = bootstrap
        self._stop_asked = threading.Event()

    def run(self) -> None:
        """Metadata for one topic, every ten milliseconds."""
        try:
            with RawConnection(self._servers) as connection:
                while not self._stop_asked.wait(0.01):
                    started = time.perf_counter()
                    connection.send(metadata_request(1, [TOPIC]))
                    connection.read_frame()
                    self.waits.append(time.perf_counter() - started)
        except (OSError, EOFError) as error:
            self.error = error

    def ordinary_wait_s(self) -> float:
        """Measures the response time without an attack, under the current load of the machine."""
        self._await_answers()
        ordinary = statistics.median(self.waits)
        self.waits.clear()
        return max(ordinary, FLOOR_S)

    def _await_answers(self) -> None:
        deadline = time.monotonic() + 20
        while len(self.waits) < LEAST_ANSWERS and self.is_alive() and time.monotonic() < deadline:
            time.sleep(0.01)

    def finish(self, ordinary_s: float) -> None:
        """Fails when a request was not answered, or took too many times an ordinary wait."""
        self._await_answers()
        self._stop_asked.set()
        self.join(20)
        assert self.error is None, f"after {len(self.waits)} answers: {self.error!r}"
        assert len(self.waits) >= LEAST_ANSWERS
        assert max(self.waits) < SLOWEST_WAITS * ordinary_s, (
            f"{max(self.waits):.3f} s, usually {ordinary_s:.3f}"
        )
        assert statistics.median(self.waits) < USUAL_WAITS * ordinary_s, f"usually {ordinary_s:.3f} s"


@contextlib.contextmanager
def unnoticed(broker: BrokerProcess, growth_limit: int = GROWTH_LIMIT) -> Iterator[None]:
    """Wraps an attack: checks the limits on memory and on the bystander's waits."""
    before = broker.rss_bytes()
    bystander = Bystander(broker.bootstrap)
    bystander.start()
    ordinary_s = bystander.ordinary_wait_s()
    peak = before
    watching = threading.Event()

    def watch() -> None:
        nonlocal peak
        while not watching.wait(0.02):
            peak = max(peak, broker.rss_bytes())

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        watching.set()
        watcher.join()
    bystander.finish(ordinary_s)
    growth = max(peak, broker.rss_bytes()) - before
    assert growth < growth_limit, f"memory grew by {growth / MIB:.0f} MiB from {before / MIB:.0f} MiB"


@contextlib.contextmanager
def connections(
    bootstrap: str, count: int, *, receive_buffer_bytes: int = 0
) -> Iterator[list[RawConnection]]:
    """Opens `count` connections, and closes them at the end."""
    with contextlib.ExitStack() as stack:
        yield [
            stack.enter_context(RawConnection(bootstrap, receive_buffer_bytes=receive_buffer_bytes))
            for _ in range(count)
        ]


def stuff(connection: RawConnection, request: bytes, count: int) -> bool:
    """Sends up to `count` requests without reading a response; True when the broker stopped reading."""
    connection.socket.settimeout(0.5)
    try:
        for _ in range(count):
            connection.send(request)
    except (TimeoutError, ConnectionError):
        return True
    return False


def fetch_everything() -> bytes:
    """Fetch v4 of all partitions from the beginning, 50 MiB at once."""
    partitions = b"".join(struct.pack(">iqi", number, 0, 10 * MIB) for number in range(20))
    body = struct.pack(">iiiib", -1, 100, 1, 50 * MIB, 0)
    return frame(
        header_v1(FETCH, 4, 1)
        + body
        + struct.pack(">i", 1)
        + string(TOPIC)
        + struct.pack(">i", 20)
        + partitions
    )


def test_announced_huge_requests_cost_no_memory(broker: BrokerProcess) -> None:
    with connections(broker.bootstrap, 200) as claimants, unnoticed(broker):
        for connection in claimants:
            connection.send(struct.pack(">i", 100 * MIB) + bytes(4096))


def test_half_sent_requests_are_bounded(broker: BrokerProcess) -> None:
    """Each connection sends 8 MiB of a request of 90; together they send far more than the broker may buffer."""
    with connections(broker.bootstrap, 4) as senders, unnoticed(broker):
        for connection in senders:
            connection.socket.settimeout(2)
            connection.send(struct.pack(">i", 90 * MIB))
            with contextlib.suppress(TimeoutError, ConnectionError):
                connection.send(bytes(8 * MIB))


def test_backpressure_on_a_client_that_reads_no_metadata_responses(broker: BrokerProcess) -> None:
    request = metadata_request(1, [TOPIC]) * 100
    with connections(broker.bootstrap, 20, receive_buffer_bytes=4096) as deaf, unnoticed(broker):
        for connection in deaf[:3]:
            assert stuff(connection, request, 5000), (
                "the broker took half a million requests of a deaf client"
            )
        for connection in deaf[3:]:
            stuff(connection, request, 20)


def test_backpressure_on_a_client_that_reads_no_fetch_responses(broker: BrokerProcess) -> None:
    with connections(broker.bootstrap, 20, receive_buffer_bytes=4096) as deaf, unnoticed(broker):
        for connection in deaf:
            stuff(connection, fetch_everything(), 200)


def test_a_request_sent_byte_by_byte_is_answered(broker: BrokerProcess) -> None:
    request = metadata_request(9, [TOPIC])
    with connections(broker.bootstrap, 50) as slow, unnoticed(broker):
        for byte in request:
            for connection in slow:
                connection.send(bytes([byte]))
        for connection in slow:
            assert connection.read_frame().startswith(b"\0\0\0\x09")


def test_idle_clients_cost_little(broker: BrokerProcess) -> None:
    with connections(broker.bootstrap, 400) as silent, unnoticed(broker):
        silent[-1].send(metadata_request())
        silent[-1].read_frame()


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_closed_connections_release_their_descriptors(broker: BrokerProcess) -> None:
    def descriptors() -> int:
        return len(list(Path(f"/proc/{broker.pid}/fd").iterdir()))

    before = descriptors()
    with unnoticed(broker):
        for number in range(1500):
            connection = RawConnection(broker.bootstrap)
            if number % 3 == 0:
                # Waiting for a response now and then keeps the accept queue from overflowing.
                connection.send(metadata_request())
                connection.read_frame()
            if number % 3 == 1:
                # An abrupt end, by RST.
                connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            connection.close()
        deadline = time.monotonic() + 20
        while descriptors() > before + 5:
            assert time.monotonic() < deadline, f"{descriptors()} descriptors, {before} before"
            time.sleep(0.02)


def test_a_decompression_bomb_is_rejected_or_appended_within_bounds(broker: BrokerProcess) -> None:
    """Half a gigabyte of zeros, gzipped, as one record of one batch."""
    with unnoticed(broker, 2 * GROWTH_LIMIT), RawConnection(broker.bootstrap, timeout_s=60) as connection:
        connection.send(produce_request(TOPIC, 0, gzip_bomb(512 * MIB)))
        connection.read_frame()


def test_a_request_of_tiny_elements_is_rejected_before_they_become_objects(
    broker: BrokerProcess,
) -> None:
    """Ten million topics without a name in a Metadata request of 20 MB; as objects they would take gigabytes."""
    count = 10_000_000
    body = unsigned_varint(count + 1) + b"\x01\0" * count + b"\x01\0\0\0"
    with unnoticed(broker), RawConnection(broker.bootstrap, timeout_s=60) as connection:
        connection.send(frame(header_v1(METADATA, 9, 1) + b"\0" + body))
        with pytest.raises((EOFError, ConnectionError)):
            connection.read_frame()
    assert "with topics there are more elements than a message may have" in broker.output


def gzip_bomb(size: int) -> bytes:
    """The payload of a batch with one record, whose value is `size` zeros."""
    prefix = b"\0\0\0\x01" + varint(size)
    record = varint(len(prefix) + size + 1) + prefix
    packer = gzip.compress(record)
    zeros = gzip.compress(bytes(8 * MIB))
    # The members of a gzip file follow each other; the last one is the number of headers.
    return packer + zeros * (size // (8 * MIB)) + gzip.compress(b"\0")


def varint(number: int) -> bytes:
    """Zigzag, as in a record."""
    rest, out = (number << 1) ^ (number >> 63), bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)
