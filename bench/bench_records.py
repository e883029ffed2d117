"""How long records take: the loop that checks, decodes and encodes them, plain and compiled, and what is around it.

Batches of 100 records with values of 1 KiB, and of 1,000 records with values of 100 bytes.
"""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from protocol.records import record
from protocol.records.batch import RecordBatch, build_batch, stamp
from protocol.records.compression import CompressionType

if TYPE_CHECKING:
    from collections.abc import Sequence

SHAPES = ((100, 1024), (1000, 100))
BASE_TIMESTAMP = 1_700_000_000_000
SECONDS_PER_FIGURE = 0.2


def plain_module() -> Any:
    """record.py run as Python, whatever is built beside it."""
    spec = importlib.util.spec_from_file_location("plain_record", Path(record.__file__).parent / "record.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def microseconds(call: Callable[[], object]) -> float:
    """The best of some rounds, each long enough for the clock."""
    rounds, best = 1, float("inf")
    end = time.perf_counter() + SECONDS_PER_FIGURE
    while time.perf_counter() < end:
        start = time.perf_counter()
        for _ in range(rounds):
            call()
        taken = time.perf_counter() - start
        best = min(best, taken / rounds)
        if taken < 0.005:
            rounds *= 2
    return best * 1e6


def measure_loop(module: Any, count: int, size: int) -> dict[str, float]:
    """us for a whole batch, by what is done with it."""
    records = [
        module.Record(b"key-%05d" % index, bytes(size), BASE_TIMESTAMP + index, [], index)
        for index in range(count)
    ]
    payload = module.encode_records(records, 0, BASE_TIMESTAMP)
    view = memoryview(payload)
    return {
        "validate": microseconds(lambda: module.validate_records(view, count, BASE_TIMESTAMP)),
        "decode": microseconds(lambda: module.decode_records(view, count, 0, BASE_TIMESTAMP)),
        "encode": microseconds(lambda: module.encode_records(records, 0, BASE_TIMESTAMP)),
    }


def measure_batch(count: int, size: int) -> dict[str, float]:
    """us for what the broker does with a produced batch besides its records."""
    batch = bytearray(build_batch([(b"key-%05d" % i, bytes(size), BASE_TIMESTAMP, ()) for i in range(count)]))
    view = RecordBatch(batch)
    return {
        "header": microseconds(lambda: RecordBatch(batch)),
        "crc": microseconds(view.is_valid_crc),
        "stamp": microseconds(lambda: stamp(batch, 0, 1000, 7)),
    }


def measure_codecs(count: int, size: int) -> dict[str, float]:
    """us for checking a batch that is compressed, unpacking included."""
    value = (b'{"id": 4711, "name": "Barnabas", "carries": "messages"} ' * (size // 50 + 1))[:size]
    figures = {}
    for codec in list(CompressionType)[1:]:
        records = [(b"key-%05d" % i, value, BASE_TIMESTAMP, ()) for i in range(count)]
        batch = RecordBatch(build_batch(records, compression=codec))
        figures[codec.label] = microseconds(batch.validate_records)
    return figures


def main(argv: Sequence[str] | None = None) -> None:
    """Prints the figures."""
    modules = {"plain": plain_module()} | ({"compiled": record} if record.COMPILED else {})
    for count, size in SHAPES:
        print(f"{count} records with values of {size} bytes, {count * size / 1e6:.2f} MB:")
        for name, module in modules.items():
            for what, us in measure_loop(module, count, size).items():
                rate = count * size / us
                print(f"  {name:9}{what:9}{us:9.1f} us {us * 1e3 / count:8.0f} ns/record {rate:9.0f} MB/s")
        for title, figures in (
            ("around it", measure_batch(count, size)),
            ("validate when compressed", measure_codecs(count, size)),
        ):
            print(f"  {title}: " + ", ".join(f"{name} {us:.1f} us" for name, us in figures.items()))
    if not record.COMPILED:
        print("record.py is not compiled here: there is no C compiler, or it was not installed by make")


if __name__ == "__main__":
    main()
