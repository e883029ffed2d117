"""Requests leave no reference cycles for the garbage collector.

The more garbage, the more often the collector runs, and each run delays all requests.
"""

from __future__ import annotations

import asyncio
import gc
import socket
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from barnabas.protocol.codec import encode
from barnabas.protocol.messages.fetch import FetchRequest
from barnabas.protocol.messages.groups import HeartbeatRequest
from barnabas.protocol.messages.metadata import MetadataRequest
from barnabas.protocol.messages.produce import ProduceRequest
from barnabas.protocol.schema import Message
from tests.broker.logs import batch
from tests.broker.running_server import LOCALHOST, config_of, running
from tests.support import raw
from tests.support.raw import RawConnection

TOPIC = "orders"
TIMES = 20
HEADERS = {ProduceRequest: 7, FetchRequest: 11, MetadataRequest: 4, HeartbeatRequest: 3}
"""The newest versions with the simplest header."""

Talk = Callable[[RawConnection], None]


@contextmanager
def no_garbage() -> Iterator[None]:
    """Raises AssertionError with the objects when a reference cycle is left."""
    gc.collect()
    gc.freeze()  # garbage of earlier tests, which their threads may release now
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        yield
        gc.collect()
        left = Counter(f"{type(it).__module__}.{type(it).__qualname__}" for it in gc.garbage)
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.unfreeze()
        gc.enable()
    assert not left, left.most_common()


def send(connection: RawConnection, request: Message) -> None:
    """Sends a request without waiting for the response."""
    assert request.api_key is not None
    version = HEADERS[type(request)]
    connection.send(raw.frame(raw.header_v1(request.api_key, version, 1) + encode(request, version)))


def ask(connection: RawConnection, request: Message) -> bytes:
    """The bytes of the response: decoding them here would leave garbage of the test."""
    send(connection, request)
    return connection.read_frame()


def produce(acks: int, records: bytes | None = None) -> ProduceRequest:
    partition = ProduceRequest.PartitionProduceData(index=0, records=records or batch("value"))
    topic = ProduceRequest.TopicProduceData(name=TOPIC, partition_data=[partition])
    return ProduceRequest(acks=acks, timeout_ms=1000, topic_data=[topic])


def fetch(offset: int, max_wait_ms: int = 0) -> FetchRequest:
    partition = FetchRequest.FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    topic = FetchRequest.FetchTopic(topic=TOPIC, partitions=[partition])
    return FetchRequest(max_wait_ms=max_wait_ms, min_bytes=1, max_bytes=1 << 20, topics=[topic])


def produces(connection: RawConnection) -> None:
    for acks in (1, -1):
        ask(connection, produce(acks))
    send(connection, produce(0))
    ask(connection, produce(1, bytes(batch("broken"))[:-1] + b"?"))


def fetches(connection: RawConnection) -> None:
    ask(connection, produce(1))
    assert b"value" in ask(connection, fetch(0))
    ask(connection, fetch(1 << 40))


def waits_in_vain(connection: RawConnection) -> None:
    ask(connection, fetch(0, max_wait_ms=1))


def asks_around(connection: RawConnection) -> None:
    ask(connection, MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name=TOPIC)]))
    ask(connection, HeartbeatRequest(group_id="nobody", generation_id=1, member_id="m"))


@pytest.mark.parametrize("talk", [produces, fetches, waits_in_vain, asks_around])
async def test_requests_leave_no_cycles_behind(talk: Talk, tmp_path: Path) -> None:
    def client(port: int) -> None:
        with RawConnection(f"{LOCALHOST}:{port}") as connection:
            ask(connection, MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name=TOPIC)]))
            talk(connection)  # compiles and imports what it needs
            with no_garbage():
                for _ in range(TIMES):
                    talk(connection)

    async with running(config_of(tmp_path)) as server:
        await asyncio.to_thread(client, server.ports["PLAINTEXT"])


async def test_a_long_poll_that_is_answered_leaves_no_cycles_behind(tmp_path: Path) -> None:
    def client(port: int) -> None:
        with RawConnection(f"{LOCALHOST}:{port}") as reader, RawConnection(f"{LOCALHOST}:{port}") as writer:
            ask(reader, MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name=TOPIC)]))

            def wait_for(offset: int) -> None:
                send(reader, fetch(offset, max_wait_ms=5000))
                ask(writer, produce(-1))
                assert b"value" in reader.read_frame()

            wait_for(0)
            with no_garbage():
                for offset in range(1, TIMES):
                    wait_for(offset)

    async with running(config_of(tmp_path)) as server:
        await asyncio.to_thread(client, server.ports["PLAINTEXT"])


async def test_connections_that_come_and_go_leave_no_cycles_behind(tmp_path: Path) -> None:
    def client(port: int) -> None:
        with RawConnection(f"{LOCALHOST}:{port}") as witness:

            def visit() -> None:
                with RawConnection(f"{LOCALHOST}:{port}") as visitor:
                    asks_around(visitor)
                    send(visitor, fetch(0, max_wait_ms=1))
                asks_around(witness)  # by the second response the broker has closed the visitor's connection

            visit()
            with no_garbage():
                for _ in range(TIMES):
                    visit()

    async with running(config_of(tmp_path)) as server:
        await asyncio.to_thread(client, server.ports["PLAINTEXT"])


@pytest.mark.parametrize("path", ["/metrics", "/health/ready"])
async def test_scrapes_leave_no_cycles(path: str, tmp_path: Path) -> None:
    def client(port: int) -> None:
        def get() -> None:
            with socket.create_connection((LOCALHOST, port)) as http:
                http.sendall(f"GET {path} HTTP/1.0\r\n\r\n".encode())
                while http.recv(1 << 16):
                    pass

        get()
        with no_garbage():
            for _ in range(TIMES):
                get()

    async with running(config_of(tmp_path, barnabas_http_port="0")) as server:
        http = server.observers.serve_http(server)
        assert http is not None
        try:
            await asyncio.to_thread(client, http.port)
        finally:
            http.close()


def test_a_cycle_is_detected() -> None:
    def leave_one() -> None:
        cycle: list[object] = []
        cycle.append(cycle)

    with pytest.raises(AssertionError, match=r"builtins\.list"), no_garbage():
        leave_one()
