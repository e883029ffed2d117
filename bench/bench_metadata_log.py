"""The metadata log alone: latency of a change, changes a second, and duration of loading.

Without a network, only the log counts: framing, batches, fsync, snapshots, replay into an image. In few topics and in
many, since each topic has a record and a map of its own.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, TypeVar

from barnabas.broker.metadata.embedded_raft_log import EmbeddedRaftLog
from barnabas.broker.metadata.image import MetadataImage
from barnabas.broker.metadata.replay import replayed
from barnabas.protocol.messages.topic_records import (
    ConfigRecord,
    FeatureLevelRecord,
    PartitionRecord,
    TopicRecord,
)
from barnabas.protocol.schema import Message
from barnabas.storage.env import RealEnv
from bench import results
from bench.section import Section, Table, number

PARTITIONS = 10_000
SHAPES = {"10 topics of 1,000 partitions": 1000, "10,000 topics of one": 1}
CHANGES = 500
BATCHES_A_COMMIT = 100
ROUNDS = 3
_NODE_ID = 1
_DIRECTORY_ID = b"the only directory"[:16]

T = TypeVar("T")


def timed(what: Callable[[], T]) -> tuple[float, T]:
    """The duration of a call in ms, and its result."""
    start = time.perf_counter()
    result = what()
    return (time.perf_counter() - start) * 1000, result


def opened(directory: str) -> EmbeddedRaftLog:
    return EmbeddedRaftLog.open(RealEnv(), directory, _NODE_ID, _DIRECTORY_ID)


def load(log: EmbeddedRaftLog) -> MetadataImage:
    image = MetadataImage.empty()
    for batch in log.load():
        image, _ = replayed(image, batch.records, offset=batch.last_offset, epoch=batch.epoch)
    return image


def new_log(directory: str) -> EmbeddedRaftLog:
    log = opened(directory)
    load(log)
    log.become_leader()
    log.append([[FeatureLevelRecord(name="metadata.version", feature_level=30)]])
    return log


def topics(partition_count: int) -> Iterator[list[Message]]:
    """The records of each topic."""
    for index_of_topic in range(PARTITIONS // partition_count):
        topic_id = index_of_topic.to_bytes(16, "big")
        partitions = [
            PartitionRecord(
                partition_id=index,
                topic_id=topic_id,
                replicas=[_NODE_ID],
                isr=[_NODE_ID],
                leader=_NODE_ID,
                leader_epoch=0,
                partition_epoch=0,
                directories=[_DIRECTORY_ID],
            )
            for index in range(partition_count)
        ]
        yield [TopicRecord(name=f"topic-{index_of_topic}", topic_id=topic_id), *partitions]


def latencies(directory: str) -> list[float]:
    """Latencies of changes of one setting, each synced: us."""
    log = new_log(directory)
    found = []
    for change in range(CHANGES):
        record = ConfigRecord(
            resource_type=2, resource_name="topic-1", name="retention.ms", value=str(change)
        )
        ms, _ = timed(lambda record=record: log.append([[record]]))  # type: ignore[misc]
        found.append(ms * 1000)
    log.raft.close()
    return sorted(found)


def write_all(log: EmbeddedRaftLog, batches: Sequence[list[Message]]) -> None:
    for at in range(0, len(batches), BATCHES_A_COMMIT):
        log.append(batches[at : at + BATCHES_A_COMMIT])


class Figures(NamedTuple):
    """The figures of one shape, in ms, records a second, and megabytes."""

    written_ms: float
    records_s: float
    megabytes: float
    log_read_ms: float
    snapshot_written_ms: float
    snapshot_read_ms: float


def measure(partition_count: int, directory: str) -> Figures:
    """Writes and reads the log, then writes and reads a snapshot."""
    batches = list(topics(partition_count))
    log = new_log(directory)
    written_ms, _ = timed(lambda: write_all(log, batches))
    megabytes = log.raft.log.size / 1e6
    log.raft.close()
    log_read_ms = _reading_ms(directory)
    log = opened(directory)
    image = load(log)
    snapshot_ms, is_new = timed(lambda: log.raft.write_snapshot(image))
    assert is_new
    log.raft.close()
    records_s = sum(map(len, batches)) / written_ms * 1000
    return Figures(written_ms, records_s, megabytes, log_read_ms, snapshot_ms, _reading_ms(directory))


def _reading_ms(directory: str) -> float:
    return statistics.median(timed(lambda: load(opened(directory)))[0] for _ in range(ROUNDS))


def report(changes_us: list[float], found: dict[str, Figures]) -> Section:
    """The section of the document."""
    names = {
        "written, ms": "written_ms",
        "records a second": "records_s",
        "size, MB": "megabytes",
        "read from the log, ms": "log_read_ms",
        "a snapshot written, ms": "snapshot_written_ms",
        "read from the snapshot, ms": "snapshot_read_ms",
    }
    rows = [[line, *(number(getattr(one, field)) for one in found.values())] for line, field in names.items()]
    median, p99 = changes_us[len(changes_us) // 2], changes_us[len(changes_us) * 99 // 100]
    return Section(
        name="metadata",
        title=f"The metadata log with {PARTITIONS:,} partitions",
        prose=[
            "Framing, batches, fsync, snapshots, replay into an image, without a network. A change of one "
            "setting, synced, "
            f"takes {number(median, 0)} us (median; 99th percentile {number(p99, 0)} us)."
        ],
        tables=[Table(["", *found], rows)],
        figures={"a change us": median, "a change p99 us": p99},
    )


def main(argv: Sequence[str] | None = None) -> None:
    """Measures and publishes; it takes seconds in any case."""
    parser = results.arguments(__doc__)
    parser.add_argument("--dir", help="where to write; by default in the directory for temporary files")
    options = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(dir=options.dir, prefix="bench-") as directory:
        changes_us = latencies(directory)
    found = {}
    for title, partition_count in SHAPES.items():
        with tempfile.TemporaryDirectory(dir=options.dir, prefix="bench-") as directory:
            found[title] = measure(partition_count, directory)
    results.publish(report(changes_us, found), options)


if __name__ == "__main__":
    main()
