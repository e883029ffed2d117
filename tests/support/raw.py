"""Requests as raw bytes over a socket, for those that no client library sends.

Written without `protocol`, so that its mistakes do not hide here.
"""

from __future__ import annotations

import socket
import struct
from types import TracebackType

from crc32c import crc32c

PRODUCE = 0
FETCH = 1
LIST_OFFSETS = 2
METADATA = 3
API_VERSIONS = 18


class RawConnection:
    """A TCP connection that sends bytes as they are and reads size-prefixed frames."""

    def __init__(self, bootstrap: str, timeout_s: float = 30.0, *, receive_buffer_bytes: int = 0) -> None:
        host, _, port = bootstrap.rpartition(":")
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        if receive_buffer_bytes:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
        self.socket.settimeout(timeout_s)
        try:
            self.socket.connect((host, int(port)))
        except OSError:
            self.socket.close()
            raise

    def send(self, data: bytes) -> None:
        """Sends all bytes, or raises OSError."""
        self.socket.sendall(data)

    def send_frame(self, payload: bytes) -> None:
        """Sends a well-formed request: size, then payload."""
        self.send(frame(payload))

    def read_exactly(self, size: int) -> bytes:
        """Raises EOFError if the other side closes first, TimeoutError if it sends too little in time."""
        parts = bytearray()
        while len(parts) < size:
            data = self.socket.recv(min(size - len(parts), 1 << 16))
            if not data:
                raise EOFError(f"closed after {len(parts)} of {size} bytes")
            parts += data
        return bytes(parts)

    def read_frame(self) -> bytes:
        """The next response without its size."""
        (size,) = struct.unpack(">i", self.read_exactly(4))
        assert 0 <= size < 1 << 28, size
        return self.read_exactly(size)

    def is_closed(self) -> bool:
        """Waits (up to the timeout) for the other side to close; False if it sends bytes or stays open."""
        try:
            return self.socket.recv(1) == b""
        except ConnectionResetError:
            return True
        except TimeoutError:
            return False

    def close(self) -> None:
        """Closes this side."""
        self.socket.close()

    def __enter__(self) -> RawConnection:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def frame(payload: bytes) -> bytes:
    """The payload with its size in front."""
    return struct.pack(">i", len(payload)) + payload


def header_v1(api_key: int, api_version: int, correlation_id: int, client_id: str | None = "raw") -> bytes:
    """A request header of the non-flexible kind."""
    return struct.pack(">hhi", api_key, api_version, correlation_id) + string(client_id)


def string(text: str | None) -> bytes:
    """int16 length and UTF-8; -1 for null."""
    if text is None:
        return struct.pack(">h", -1)
    data = text.encode()
    return struct.pack(">h", len(data)) + data


def metadata_request(correlation_id: int = 1, topics: list[str] | None = None) -> bytes:
    """Metadata v1, the lowest version of Kafka 4 brokers; without topics if `topics` is None."""
    names = topics or []
    body = struct.pack(">i", len(names)) + b"".join(map(string, names))
    return frame(header_v1(METADATA, 1, correlation_id) + body)


def api_versions_request(correlation_id: int = 1, version: int = 0) -> bytes:
    """ApiVersions v0 (or another version with v0's empty body)."""
    return frame(header_v1(API_VERSIONS, version, correlation_id))


def brokers_in(response: bytes) -> int:
    """The number of brokers that a Metadata v1 response (with its correlation id) names."""
    (count,) = struct.unpack_from(">i", response, 4)
    assert isinstance(count, int)
    return count


def produce_request(topic: str, partition: int, payload: bytes, *, codec: int = 1, acks: int = 1) -> bytes:
    """Produce v3 of one batch with one record; `payload` is the compressed data after the batch header."""
    batch = record_batch(payload, codec=codec)
    head = header_v1(PRODUCE, 3, 1) + struct.pack(">hhii", -1, acks, 10_000, 1) + string(topic)
    return frame(head + struct.pack(">iii", 1, partition, len(batch)) + batch)


def record_batch(payload: bytes, *, codec: int = 0, count: int = 1) -> bytes:
    """A v2 batch with this payload and the right CRC-32C."""
    now_ms = 1_700_000_000_000
    tail = struct.pack(">hiqqqhii", codec, count - 1, now_ms, now_ms, -1, -1, -1, count) + payload
    length = 4 + 1 + 4 + len(tail)
    return struct.pack(">qiibI", 0, length, -1, 2, crc32c(tail)) + tail
