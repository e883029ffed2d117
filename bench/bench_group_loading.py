"""Loading of a partition of __consumer_offsets while the event loop runs.

The log is written once for each shape; it is in the page cache when it is loaded. While a thread loads it, a timer of
the loop fires every millisecond, and its lateness is recorded.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from barnabas.broker.coordinator.group.shard import GroupCoordinatorShard
from barnabas.broker.coordinator.loading import ShardLoader
from barnabas.broker.coordinator.records import GROUP_RECORDS, CoordinatorRecord, RecordSerde
from barnabas.broker.coordinator.shard import ShardContext
from barnabas.broker.coordinator.timers import ShardTimers
from barnabas.broker.metadata.image import MetadataImage
from barnabas.broker.waiting.blocking import ThreadRunner
from barnabas.config.broker_config import BrokerConfig
from barnabas.config.catalogue.groups import OFFSETS_LOAD_BUFFER_SIZE
from barnabas.protocol.messages.group_state import OffsetCommitKey, OffsetCommitValue
from barnabas.protocol.records.builder import build_batch
from barnabas.storage.env import RealEnv
from barnabas.storage.offsets import FileRecords
from bench import results
from bench.section import Section, Table, number

PARTITIONS_OF_A_GROUP: Final = 100
TICK_S: Final = 0.001
_SERDE: Final = RecordSerde(GROUP_RECORDS)


class Shape(NamedTuple):
    """How many records of how many keys, and how many in a batch."""

    records: int
    keys: int
    per_batch: int


SHAPES: Final = {
    "1,000,000 records of 10,000 offsets, 10 to a batch": Shape(1_000_000, 10_000, 10),
    "1,000,000 records of 10,000 offsets, 1 to a batch": Shape(1_000_000, 10_000, 1),
    "1,000,000 records of as many offsets, 10 to a batch": Shape(1_000_000, 1_000_000, 10),
}


def write_log(path: Path, shape: Shape) -> None:
    """Writes one segment of records, as commits write them."""
    with path.open("wb") as file:
        for first in range(0, shape.records, shape.per_batch):
            records = [
                _record(number % shape.keys, number) for number in range(first, first + shape.per_batch)
            ]
            file.write(build_batch(records, base_offset=first))


def _record(key: int, offset: int) -> tuple[bytes, bytes | None, int, tuple[()]]:
    group, partition = divmod(key, PARTITIONS_OF_A_GROUP)
    record = CoordinatorRecord(
        OffsetCommitKey(group=f"group-{group}", topic="orders", partition=partition),
        OffsetCommitValue(offset=offset, metadata="", commit_timestamp=1_700_000_000_000),
        3,
    )
    return (*_SERDE.encode(record), 1_700_000_000_000, ())


class Lateness:
    """The lateness of each timer of the loop, in ms."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.late_ms: list[float] = []
        self._loop = loop
        self._tick(time.perf_counter())

    def _tick(self, due: float) -> None:
        now = time.perf_counter()
        self.late_ms.append((now - due) * 1000)
        self._loop.call_later(TICK_S, self._tick, now + TICK_S)


async def load(path: str) -> tuple[float, int, list[float]]:
    """Loads a log: seconds, offsets loaded, and the lateness of the loop meanwhile."""
    loop = asyncio.get_running_loop()
    config = BrokerConfig.of(None, overrides=[])
    shard = GroupCoordinatorShard(
        ShardContext(
            partition=0,
            epoch=0,
            config=config,
            timer=ShardTimers(loop, lambda *_: None),
            now_ms=RealEnv().now_ms,
            image=MetadataImage.empty,
        )
    )
    loader = ShardLoader("bench", _SERDE, config[OFFSETS_LOAD_BUFFER_SIZE], lambda: True)
    file = RealEnv().open(path)
    done: asyncio.Future[None] = loop.create_future()
    lateness = Lateness(loop)
    runner = ThreadRunner(loop, 1)
    began = time.perf_counter()
    runner.submit(
        lambda: loader.load([FileRecords(file, 0, file.size())], shard), lambda _: done.set_result(None)
    )
    await done
    seconds = time.perf_counter() - began
    runner.close()
    return seconds, shard.offsets.committed.count, lateness.late_ms


def report(found: dict[str, tuple[float, int, list[float]]]) -> Section:
    """The section of the document."""
    rows = []
    for name, (seconds, count, late_ms) in found.items():
        late_ms.sort()
        late = (late_ms[len(late_ms) // 2], late_ms[len(late_ms) * 99 // 100], late_ms[-1])
        rows.append([name, number(seconds, 2), number(count, 0), ", ".join(number(ms, 1) for ms in late)])
    return Section(
        name="group-loading",
        title="Loading a partition of __consumer_offsets",
        prose=[
            "On a thread, from the page cache, while the event loop is asked every millisecond to call "
            "something at a "
            "certain time: how late was it? The best of some rounds."
        ],
        tables=[Table(["", "seconds", "offsets", "loop late, p50, p99, most, ms"], rows)],
        figures={f"{name}, s": seconds for name, (seconds, _, _) in found.items()},
    )


def main(argv: Sequence[str] | None = None) -> None:
    """Publishes the figures."""
    parser = results.arguments(__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args(argv)
    found = {}
    with tempfile.TemporaryDirectory() as directory:
        for name, whole in SHAPES.items():
            shape = whole._replace(records=whole.records // 100) if options.quick else whole
            path = Path(directory) / "log"
            write_log(path, shape)
            found[name] = min(asyncio.run(load(str(path))) for _ in range(options.rounds))
    results.publish(report(found), options)


if __name__ == "__main__":
    main()
