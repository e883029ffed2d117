"""kcat, the command-line client on librdkafka."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from typing import IO, NamedTuple

from tests.interop.clients.base import StockClient
from tests.interop.workload import Digests, Headers, Record, Workload

_KEY_ENDS, _RECORD_ENDS = b"\x1f", b"\x1e"
_PLAIN = bytes.maketrans(_KEY_ENDS + _RECORD_ENDS, b"..")
_HEADERS: Headers = (("trace", b"4bf92f3577b34da6a3ce929d0e0e4736"), ("empty", b""))
_FORMAT = "%p %o %K %S\n%k%s%h\n"
_LIMIT_S = 600


class Kcat(StockClient):
    """Its input is text with delimiters: no empty values beside null ones, one set of headers a run, no timestamps."""

    name = "kcat"
    # It counts bytes read beyond a record towards the size of the record.
    big_value_bytes = 990_000

    def missing(self) -> str | None:
        """kcat is a system package, not a Python one."""
        return None if shutil.which("kcat") else "kcat is not installed"

    def produce(self, bootstrap: str, topic: str, workload: Workload, codec: str) -> Digests:
        """Runs kcat once for each partition."""
        digests = Digests(workload.partitions)
        lines: list[list[bytes]] = [[] for _ in range(workload.partitions)]
        for record in workload.records():
            plain = _expressible(record)
            digests.add(plain)
            lines[record.partition].append(_line(plain))
        for partition, texts in enumerate(lines):
            _send(bootstrap, topic, partition, codec, b"".join(texts))
        return digests

    def consume(self, bootstrap: str, topic: str, partitions: int, count: int) -> Digests:
        """Runs kcat once for all partitions, up to the end of each."""
        words = ["kcat", "-C", "-b", bootstrap, "-t", topic, "-o", "beginning", "-e", "-q", "-f", _FORMAT]
        digests = Digests(partitions)
        with subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            for record in _parse(process.stdout):
                digest = digests.of[record.partition]
                assert record.offset == digest.count
                digest.add(record.key, record.value, record.headers, 0)
            assert process.wait(_LIMIT_S) == 0
        assert digests.count == count
        return digests


class _Read(NamedTuple):
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: Headers


def _expressible(record: Record) -> Record:
    """The record in the form that kcat can express."""
    key, value = (data.translate(_PLAIN) if data else None for data in (record.key, record.value))
    return Record(record.partition, key, value, _HEADERS, 0)


def _line(record: Record) -> bytes:
    return (record.key or b"") + _KEY_ENDS + (record.value or b"") + _RECORD_ENDS


def _send(bootstrap: str, topic: str, partition: int, codec: str, text: bytes) -> None:
    words = ["kcat", "-P", "-b", bootstrap, "-t", topic, "-p", str(partition), "-z", codec, "-Z"]
    words += ["-D", _RECORD_ENDS.decode(), "-K", _KEY_ENDS.decode()]
    for name, content in _HEADERS:
        words += ["-H", f"{name}={(content or b'').decode()}"]
    subprocess.run(words, input=text, check=True, timeout=_LIMIT_S)


def _parse(stream: IO[bytes]) -> Iterator[_Read]:
    """The output in _FORMAT; lengths of -1 are nulls."""
    while head := stream.readline():
        partition, offset, key_size, value_size = map(int, head.split())
        key, value = _read_sized(stream, key_size), _read_sized(stream, value_size)
        headers = stream.readline().rstrip(b"\n")
        pairs = (pair.partition(b"=") for pair in headers.split(b",") if pair)
        yield _Read(partition, offset, key, value, [(name.decode(), content) for name, _, content in pairs])


def _read_sized(stream: IO[bytes], size: int) -> bytes | None:
    return None if size < 0 else stream.read(size)
