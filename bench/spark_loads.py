"""Topics that Spark reads in `bench_ingest` and `bench_scan`: their sizes, codecs and records."""

from __future__ import annotations

import argparse
from typing import Final, NamedTuple

from bench.brokers import Broker

CORES: Final = 2
"""Of Spark's local session."""
PARTITIONS: Final = 4
CODECS: Final = ("none", "lz4", "zstd")
SIZES: Final = (100, 1024)
"""Of values, in bytes."""


class Load(NamedTuple):
    """A topic's content."""

    size: int
    codec: str
    records: int

    @property
    def topic(self) -> str:
        """Its name."""
        return f"load-{self.size}-{self.codec}-{self.records}"

    def __str__(self) -> str:
        return f"{self.records:,} of {self.size} B, {'uncompressed' if self.codec == 'none' else self.codec}"


def add_arguments(parser: argparse.ArgumentParser, *, mib: int, records: int) -> None:
    """Adds the options for sizes, directories and rounds."""
    parser.add_argument("--mib", type=int, default=mib, help="of values in a topic")
    parser.add_argument("--records", type=int, default=records, help="in a topic, at most")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--directory", help="where to work, by default the place for temporary files")


def hasten(options: argparse.Namespace) -> None:
    """Sets small topics and a single round when the options ask for a quick run."""
    if options.quick:
        options.mib, options.rounds = 4, 1


def loads_of(options: argparse.Namespace) -> list[Load]:
    """One of each size and codec."""
    return [
        Load(size, codec, min(options.mib * 2**20 // size, options.records))
        for size in SIZES
        for codec in CODECS
    ]


def fill(broker: Broker, load: Load) -> None:
    """Values that compress about as well as JSON does, each with a key."""
    from tests.pipeline.plain import TopicMaker, produce

    TopicMaker(broker.bootstrap).create(PARTITIONS, name=load.topic)
    for partition in range(PARTITIONS):
        numbers = range(partition, load.records, PARTITIONS)
        produce(
            broker.bootstrap,
            load.topic,
            (_value(one, load.size) for one in numbers),
            keys=[b"user-%d" % (one * 7919 % 10007) for one in numbers],
            partition=partition,
            compression_type=load.codec,
            linger_ms=50,
        )


def _value(one: int, size: int) -> bytes:
    text = f'{{"id": {one}, "user": "user-{one * 7919 % 10007}", "amount": {one % 997}.25, "note": "'
    return (text.encode() * 16)[:size]
