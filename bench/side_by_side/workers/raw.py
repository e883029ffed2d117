"""Many connections, or requests that clients rarely send: frames built once, sent over plain sockets.

A thousand producers of librdkafka are three thousand threads, which would measure those. Each connection has one
request in flight; only the error code of a response is checked.
"""

from __future__ import annotations

import select
import socket
import struct
import time
from collections.abc import Callable, Generator
from typing import Final

from barnabas.protocol.api_keys import request_header_version
from barnabas.protocol.codec import encode
from barnabas.protocol.messages.headers import RequestHeader
from barnabas.protocol.messages.metadata import MetadataRequest
from barnabas.protocol.messages.produce import ProduceRequest
from barnabas.protocol.records.builder import build_batch
from barnabas.protocol.schema import Message
from bench.side_by_side.job import Job, Outcome, values

_LIMIT_S: Final = 30.0
_SIZE: Final = struct.Struct(">i")
_PRODUCE_VERSION: Final = 8
_METADATA_VERSION: Final = 12
_CLIENT_ID: Final = "bench"
_Check = Callable[[bytes], None]


def framed(request: Message, version: int) -> bytes:
    """A request with header and size."""
    assert request.api_key is not None
    header = RequestHeader(
        request_api_key=request.api_key, request_api_version=version, correlation_id=1, client_id=_CLIENT_ID
    )
    payload = encode(header, request_header_version(request.api_key, version)) + encode(request, version)
    return _SIZE.pack(len(payload)) + payload


def produce(job: Job) -> Generator[None, None, Outcome]:
    """One message a request over `clients` connections, for `seconds`."""
    frames = [_produce_frame(job, number) for number in range(job.partitions)]
    # correlation id, topics, name, partitions, index: then the error code
    at = 4 + 4 + 2 + len(job.topic) + 4 + 4

    def check(answer: bytes) -> None:
        (error,) = struct.unpack_from(">h", answer, at)
        if error:
            raise RuntimeError(f"error {error} instead of an acknowledgement")

    team = _Team(job, [frames[number % len(frames)] for number in range(job.clients)], check)
    yield
    seconds = team.run(job.seconds)
    return Outcome(done=team.answered, seconds=seconds, bytes=team.answered * job.size, beside=job.clients)


def _produce_frame(job: Job, partition: int) -> bytes:
    (value,) = values(job.size, 1)
    batch = build_batch([(None, value, int(time.time() * 1000), ())])
    data = ProduceRequest.PartitionProduceData(index=partition, records=batch)
    topic = ProduceRequest.TopicProduceData(name=job.topic, partition_data=[data])
    acks = -1 if job.acks == "all" else int(job.acks)
    return framed(ProduceRequest(acks=acks, timeout_ms=30_000, topic_data=[topic]), _PRODUCE_VERSION)


def metadata(job: Job) -> Generator[None, None, Outcome]:
    """Requests the topic's Metadata repeatedly over `clients` connections."""
    asked = MetadataRequest(
        topics=[MetadataRequest.MetadataRequestTopic(name=job.topic)], allow_auto_topic_creation=False
    )
    team = _Team(job, [framed(asked, _METADATA_VERSION)] * job.clients, lambda _: None)
    yield
    seconds = team.run(job.seconds)
    return Outcome(done=team.answered, seconds=seconds, bytes=team.received)


class _Team:
    """Connections, each with its one frame."""

    def __init__(self, job: Job, frames: list[bytes], check: _Check) -> None:
        host, _, port = job.bootstrap.rpartition(":")
        self._check = check
        self._connections: dict[int, tuple[socket.socket, bytes, bytearray]] = {}
        self._poll = select.epoll()
        self.answered = self.received = 0
        for frame in frames:
            connection = socket.create_connection((host, int(port)), _LIMIT_S)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._connections[connection.fileno()] = (connection, frame, bytearray())
            self._poll.register(connection.fileno(), select.EPOLLIN)
        for connection, frame, _ in self._connections.values():  # served once before measuring
            connection.sendall(frame)
        self._drain(len(frames))
        self.answered = self.received = 0

    def run(self, seconds: float) -> float:
        """Sends for so long, and waits for the last response; returns the elapsed time."""
        began = time.monotonic()
        for connection, frame, _ in self._connections.values():
            connection.sendall(frame)
        while time.monotonic() - began < seconds:
            self._answers(again=True)
        self._drain(len(self._connections))
        elapsed = time.monotonic() - began
        for connection, _, _ in self._connections.values():
            connection.close()
        self._poll.close()
        return elapsed

    def _drain(self, outstanding: int) -> None:
        while outstanding:
            outstanding -= self._answers(again=False)

    def _answers(self, *, again: bool) -> int:
        """Reads responses, and sends the next requests; returns the number of responses."""
        ready = self._poll.poll(_LIMIT_S)
        if not ready:
            raise TimeoutError(f"no answer within {_LIMIT_S:g} s")
        whole = 0
        for number, _ in ready:
            connection, frame, buffer = self._connections[number]
            data = connection.recv(1 << 18)
            if not data:
                raise ConnectionError("the broker closed a connection")
            self.received += len(data)
            buffer += data
            if len(buffer) >= _SIZE.size and len(buffer) >= _SIZE.size + _SIZE.unpack_from(buffer)[0]:
                self._check(bytes(buffer[_SIZE.size :]))
                buffer.clear()
                whole += 1
                if again:
                    connection.sendall(frame)
        self.answered += whole
        return whole
