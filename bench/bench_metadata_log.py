"""The metadata log alone: how long a change takes, how many fit into a second, and how long a start reads.

Without a network, so that what is seen is the log: framing, batches, fsync, snapshots, replay into an image. In few
topics and in many, for a topic costs a record and a map of its own.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from broker.metadata.image import MetadataImage
from broker.metadata.raft_log import EmbeddedRaftLog
from protocol.messages.topic_records import ConfigRecord, FeatureLevelRecord, PartitionRecord, TopicRecord
from protocol.schema import Message
from storage.env import RealEnv

PARTITIONS = 10_000
SHAPES = {"10 topics of 1,000 partitions": 1000, "10,000 topics of one": 1}
CHANGES = 500
BATCHES_A_COMMIT = 100
ROUNDS = 3
_NODE_ID = 1
_DIRECTORY_ID = b"the only directory"[:16]

T = TypeVar("T")


def timed(what: Callable[[], T]) -> tuple[float, T]:
    """How long it takes, ms, and what it returns."""
    start = time.perf_counter()
    result = what()
    return (time.perf_counter() - start) * 1000, result


def opened(directory: str) -> EmbeddedRaftLog:
    return EmbeddedRaftLog(RealEnv(), directory, _NODE_ID, _DIRECTORY_ID)


def load(log: EmbeddedRaftLog) -> MetadataImage:
    image = MetadataImage.empty()
    for batch in log.load():
        image, _ = image.apply(batch.records, offset=batch.last_offset, epoch=batch.epoch)
    return image


def new_log(directory: str) -> EmbeddedRaftLog:
    log = opened(directory)
    load(log)
    log.become_leader()
    log.append([[FeatureLevelRecord(name="metadata.version", feature_level=30)]])
    return log


def topics(partition_count: int) -> Iterator[list[Message]]:
    """The records of each topic."""
    for number in range(PARTITIONS // partition_count):
        topic_id = number.to_bytes(16, "big")
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
        yield [TopicRecord(name=f"topic-{number}", topic_id=topic_id), *partitions]


def latencies(directory: str) -> list[float]:
    """Of changes of one setting, each synced: us."""
    log = new_log(directory)
    found = []
    for number in range(CHANGES):
        record = ConfigRecord(
            resource_type=2, resource_name="topic-1", name="retention.ms", value=str(number)
        )
        ms, _ = timed(lambda record=record: log.append([[record]]))  # type: ignore[misc]
        found.append(ms * 1000)
    log.close()
    return sorted(found)


def write_all(log: EmbeddedRaftLog, batches: Sequence[list[Message]]) -> None:
    for at in range(0, len(batches), BATCHES_A_COMMIT):
        log.append(batches[at : at + BATCHES_A_COMMIT])


def report_shape(partition_count: int, directory: str) -> None:
    batches = list(topics(partition_count))
    records = sum(map(len, batches))
    log = new_log(directory)
    ms, _ = timed(lambda: write_all(log, batches))
    print(f"    written in {ms:7.0f} ms, {records / ms * 1000:9,.0f} records/s, {log.size / 1e6:.1f} MB")
    log.close()
    for what in ("the log", "a snapshot"):
        times = [timed(lambda: load(opened(directory)))[0] for _ in range(ROUNDS)]
        print(f"    read from {what:<10} in {statistics.median(times):7.0f} ms")
        log = opened(directory)
        image = load(log)
        ms, is_new = timed(lambda: log.write_snapshot(image))  # noqa: B023
        if is_new:
            print(f"    snapshot written in {ms:5.0f} ms")
        log.close()


def main(argv: list[str] | None = None) -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dir", help="where to write; by default in the directory for temporary files")
    options = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(dir=options.dir, prefix="bench-") as directory:
        found = latencies(directory)
        print(
            f"a change, synced: median {found[CHANGES // 2]:.0f} us, p99 {found[CHANGES * 99 // 100]:.0f} us"
        )
    for title, partition_count in SHAPES.items():
        print(f"{title}:")
        with tempfile.TemporaryDirectory(dir=options.dir, prefix="bench-") as directory:
            report_shape(partition_count, directory)


if __name__ == "__main__":
    main()
