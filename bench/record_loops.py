"""Times the loops over records in this process, compiled or not, and prints JSON.

    python -m bench.record_loops [SECONDS_PER_FIGURE]             compiled, where it is
    BARNABAS_INTERPRETED=1 python -m bench.record_loops           the same source as plain Python

Each figure is the best of some rounds over a batch or a chunk of batches, in nanoseconds a record.
"""

from __future__ import annotations

import json
import random
import sys
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from barnabas.protocol.records import record
from barnabas.protocol.records.batch import RecordBatch, build_batch
from barnabas.protocol.records.cleaning import KeyMapper, RecordFilter
from barnabas.protocol.records.columns import RecordColumns, find_record
from barnabas.protocol.records.compression import CompressionType, unpacked
from barnabas.protocol.records.entries import batches
from barnabas.protocol.records.key_table import KeyTable
from barnabas.protocol.records.record import Record, decode_records, encode_records, validate_records
from barnabas.protocol.records.scanning import SegmentScanner

BASE_TIMESTAMP = 1_700_000_000_000
BATCH_BYTES = 1_000_000
CHUNK_BATCHES = 4
BOUND = 64 << 20
SECRET = bytes(range(16))
KEYS = 400
"""So many different keys: what compaction keeps is one record of each, and a record of the last of these."""


class Shape(NamedTuple):
    """Records with values of so many bytes, as many as a batch of a megabyte holds."""

    value_bytes: int

    @property
    def record_count(self) -> int:
        return BATCH_BYTES // (self.value_bytes + 20)

    def values(self) -> list[bytes]:
        """Values like log lines: compression removes about half."""
        chance = random.Random(self.value_bytes)
        values = []
        for _ in range(500):
            text = ""
            while len(text) < self.value_bytes:
                text += f'{{"id":{chance.getrandbits(60)},"user":"{chance.getrandbits(40):x}",'
                text += f'"state":"delivered","amount":{chance.random():.6f}}}'
            values.append(text[: self.value_bytes].encode())
        return values

    def batch(self, base_offset: int = 0, codec: CompressionType = CompressionType.NONE) -> bytes:
        values = self.values()
        rows = [
            (b"key-%05d" % (index % KEYS), values[index % len(values)], BASE_TIMESTAMP + index, ())
            for index in range(self.record_count)
        ]
        return build_batch(rows, base_offset=base_offset, compression=codec, partition_leader_epoch=0)


SHAPES = (Shape(1024), Shape(100))


def nanoseconds(call: Callable[[], object], count: int, seconds: float) -> float:
    """The processor time of the best round, divided by `count`."""
    best = float("inf")
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or best == float("inf"):
        start = time.process_time()
        call()
        best = min(best, time.process_time() - start)
    return best * 1e9 / count


def measure(shape: Shape, seconds: float) -> dict[str, float]:
    """ns a record, by operation."""
    chunk = b"".join(shape.batch(number * shape.record_count) for number in range(CHUNK_BATCHES))
    batch = RecordBatch(shape.batch())
    payload = bytes(batch.payload())
    records = [Record(None, value, BASE_TIMESTAMP, (), index) for index, value in enumerate(shape.values())]
    one, many = shape.record_count, shape.record_count * CHUNK_BATCHES
    table = KeyTable(1 << 20, SECRET)
    map_keys(table, chunk)
    calls: dict[str, tuple[Callable[[], object], int]] = {
        "validate": (lambda: validate_records(payload, one, BASE_TIMESTAMP), one),
        "validate, with header and CRC": (lambda: check(chunk), many),
        "recover: lengths, CRC, indexes": (lambda: scan(chunk), many),
        "find by timestamp": (
            lambda: find_record(payload, one, 0, BASE_TIMESTAMP, 0, BASE_TIMESTAMP + one - 1),
            one,
        ),
        "compact: note the keys, with CRC": (lambda: map_keys(KeyTable(1 << 20, SECRET), chunk), many),
        "compact: copy what stays, with CRC": (lambda: keep(table, chunk), many),
        "columns for Spark": (lambda: columns(payload, one), one),
        "decode to objects": (lambda: decode_records(payload, one, 0, BASE_TIMESTAMP), one),
        "encode from objects": (lambda: encode_records(records, 0, BASE_TIMESTAMP), len(records)),
    }
    figures = {name: nanoseconds(call, count, seconds) for name, (call, count) in calls.items()}
    for codec in list(CompressionType)[1:]:
        packed = RecordBatch(shape.batch(codec=codec))
        figures[f"unpack {codec.label}"] = nanoseconds(lambda batch=packed: unpack(batch), one, seconds)  # type: ignore[misc]
        figures[f"validate {codec.label}"] = nanoseconds(packed.validate_records, one, seconds)
    return figures


def check(chunk: bytes) -> None:
    for batch in batches(chunk):
        assert isinstance(batch, RecordBatch)
        batch.ensure_valid()
        batch.validate_records()


def scan(chunk: bytes) -> None:
    scanner = SegmentScanner(0, size=len(chunk), index_interval_bytes=4096, index_bytes=1 << 20)
    assert scanner.scan(chunk, 0, len(chunk), len(chunk)) == len(chunk)


def map_keys(table: KeyTable, chunk: bytes) -> None:
    mapper = KeyMapper(table, first_offset=0, end_offset=1 << 62, max_entries=1 << 14)
    assert mapper.map_plain_batches(chunk, 0) == len(chunk)


def keep(table: KeyTable, chunk: bytes) -> None:
    chosen = RecordFilter(
        table, now_ms=0, horizon_ms=0, upper_bound_offset=1 << 62, last_data_offsets={}, output_bytes=1 << 23
    )
    assert chosen.filter_plain_batches(chunk, 0) == len(chunk)


def columns(payload: bytes, count: int) -> None:
    RecordColumns(count, len(payload)).add(payload, count, 0, BASE_TIMESTAMP)


def unpack(batch: RecordBatch) -> None:
    with unpacked(batch.compression_type, batch.payload(), BOUND) as payload:
        assert payload


def main(argv: Sequence[str]) -> None:
    """Prints whether this is compiled, and the figures of each shape."""
    seconds = float(argv[0]) if argv else 0.15
    figures = {str(shape.value_bytes): measure(shape, seconds) for shape in SHAPES}
    print(json.dumps({"compiled": record.COMPILED, "figures": figures}))


if __name__ == "__main__":
    main(sys.argv[1:])
