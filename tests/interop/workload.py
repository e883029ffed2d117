"""Records to send through a broker, and the proof that the same ones came back.

A record is a function of (seed, index), so that none is kept: the producer and the consumer each add the records to a
`Digests`, and equal digests mean the same bytes in the same order in every partition. A digest keeps a mark every
thousand records, so that a difference is found to within a thousand.
"""

from __future__ import annotations

import random
import time
import zlib
from collections.abc import Iterator, Sequence
from struct import Struct
from typing import NamedTuple

Headers = Sequence[tuple[str, bytes | None]]

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
BIG_VALUE_BYTES = 1_000_000
"""A value of 1 MB: below the 1,048,588 bytes that a broker accepts by default, overhead included."""

_MARK_EVERY = 1000
_POOL_BYTES = 1 << 16
_RUN = 20
_LENGTHS = Struct(">qiii")
_HEADER = Struct(">ii")

_HEADER_SETS: tuple[Headers, ...] = (
    (),
    (("trace", b"4bf92f3577b34da6a3ce929d0e0e4736"),),
    (),
    (("a", b"1"), ("b", b""), ("a", b"the name comes twice")),
    (),
    (("größe-✓", bytes(range(256))), ("", b"a header without a name")),
)
_NULL_HEADER: Headers = (("nothing", None), ("something", b"x"))


class Record(NamedTuple):
    """One record as a producer has to send it."""

    partition: int
    key: bytes | None
    value: bytes | None
    headers: Headers
    timestamp_ms: int


class Workload:
    """`count` records, in short runs over `partitions`: keys, headers, nulls, empty values, and `big` values of 1 MB.

    `null_headers` is off for clients whose producer rejects a header without a value, `bare` for those that reject
    a record with neither key nor value.
    """

    def __init__(
        self,
        count: int,
        partitions: int = 1,
        *,
        seed: int = 1,
        big: int = 2,
        big_value_bytes: int = BIG_VALUE_BYTES,
        null_headers: bool = True,
        bare: bool = True,
    ) -> None:
        self.count = count
        self.partitions = partitions
        self.null_headers = null_headers
        self.bare = bare
        self.started_ms = int(time.time() * 1000) - 3_600_000
        self._big_every = max(1, count // big) if big else count + 1
        dice = random.Random(seed)
        noise = dice.randbytes(_POOL_BYTES // 2)
        text = " ".join(f"{word:x}" for word in (dice.getrandbits(12) for _ in range(_POOL_BYTES // 4)))
        self._pool = noise + text.encode()[: _POOL_BYTES - len(noise)]
        self._big_value = (self._pool * (big_value_bytes // _POOL_BYTES + 1))[:big_value_bytes]
        self._sizes = [dice.randrange(1, 200) for _ in range(997)]

    def records(self) -> Iterator[Record]:
        """The records in sending order."""
        partitions, started_ms = self.partitions, self.started_ms
        for index in range(self.count):
            partition = index // _RUN % partitions
            if index % self._big_every == self._big_every // 2:
                yield Record(partition, None, self._big_value, (), started_ms + index)
            else:
                headers = self._headers(index)
                key, value = _key(index), self._value(index)
                if key is None and value is None and not self.bare:
                    key = b""
                yield Record(partition, key, value, headers, started_ms + index)

    def _value(self, index: int) -> bytes | None:
        if index % 11 == 3:
            return None
        if index % 13 == 5:
            return b""
        size = self._sizes[index % 997]
        start = (index * 7919) % (_POOL_BYTES - size)
        return self._pool[start : start + size]

    def _headers(self, index: int) -> Headers:
        if self.null_headers and index % 17 == 4:
            return _NULL_HEADER
        return _HEADER_SETS[index % 6]


def _key(index: int) -> bytes | None:
    if index % 7 == 2:
        return None
    if index % 19 == 6:
        return b""
    return b"key-%d" % (index % 5003)


class Digest:
    """The count of one partition's records, and a running checksum over all their bytes."""

    __slots__ = ("checksum", "count", "marks")

    def __init__(self) -> None:
        self.count = 0
        self.checksum = 0
        self.marks: list[int] = []

    def add(self, key: bytes | None, value: bytes | None, headers: Headers, timestamp_ms: int) -> None:
        """Adds the next record of the partition."""
        lengths = _LENGTHS.pack(timestamp_ms, _length(key), _length(value), len(headers))
        parts = [lengths, key or b"", value or b""]
        for name, content in headers:
            encoded = name.encode()
            parts += (_HEADER.pack(len(encoded), _length(content)), encoded, content or b"")
        self.checksum = zlib.crc32(b"".join(parts), self.checksum)
        self.count += 1
        if self.count % _MARK_EVERY == 0:
            self.marks.append(self.checksum)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Digest) and (self.count, self.checksum) == (other.count, other.checksum)

    __hash__ = None  # type: ignore[assignment]  # it is mutable

    def __repr__(self) -> str:
        return f"{self.count}:{self.checksum:08x}"

    def difference(self, other: Digest) -> str:
        """Describes where two digests begin to differ."""
        pairs = zip(self.marks, other.marks, strict=False)
        same = next(
            (number for number, (a, b) in enumerate(pairs) if a != b), min(len(self.marks), len(other.marks))
        )
        return f"{self!r} and {other!r}: the first {same * _MARK_EVERY} records are equal"


def _length(data: bytes | None) -> int:
    return -1 if data is None else len(data)


class Digests:
    """One `Digest` a partition."""

    def __init__(self, partitions: int) -> None:
        self.of = [Digest() for _ in range(partitions)]

    @property
    def count(self) -> int:
        """The records of all partitions."""
        return sum(digest.count for digest in self.of)

    def add(self, record: Record) -> None:
        """Adds a produced record."""
        self.of[record.partition].add(record.key, record.value, record.headers, record.timestamp_ms)


def expected(workload: Workload) -> Digests:
    """The digests of a reader of the whole workload."""
    digests = Digests(workload.partitions)
    for record in workload.records():
        digests.add(record)
    return digests


def assert_same(produced: Digests, consumed: Digests) -> None:
    """Fails with the first partitions that differ and where."""
    differences = [
        f"partition {partition}: {sent.difference(read)}"
        for partition, (sent, read) in enumerate(zip(produced.of, consumed.of, strict=True))
        if sent != read
    ]
    assert not differences, "\n".join(["produced and consumed records differ", *differences[:5]])
