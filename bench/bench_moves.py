"""A replica moves between log directories while a producer writes to it: its speed, and the producer's latencies.

The writer sends one small batch after the other with acks=all and waits for each answer, to the partition that moves.
Both directories are on one disk and the log is in the page cache, so that the brokers set the pace.
"""

from __future__ import annotations

import statistics
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from barnabas.protocol.messages.log_dirs import (
    AlterReplicaLogDirsRequest,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)
from barnabas.protocol.messages.produce import ProduceRequest, ProduceResponse
from barnabas.protocol.messages.topics import CreateTopicsRequest
from barnabas.protocol.records.builder import build_batch
from bench import results
from bench.brokers import Broker, cpu_s
from bench.section import Section, Table, number
from tests.conformance.broker_connection import BrokerConnection
from tests.conformance.kafka_jars import KAFKA_VERSION, KafkaMissingError, classpath
from tests.support.apache_kafka import ApacheKafka
from tests.support.broker_process import BrokerProcess

TOPIC: Final = "moving"
QUIET_S: Final = 2.0
POLL_S: Final = 0.02
LIMIT_S: Final = 300.0
VERSION: Final = 12


class Shape(NamedTuple):
    """The contents of the log: so many MiB in batches of so many bytes."""

    mib: int
    batch_bytes: int


SHAPES: Final = (Shape(512, 64 << 10), Shape(256, 16 << 10), Shape(32, 1 << 10))


class Writer(threading.Thread):
    """A producer that records the latency of each acknowledgement, in ms."""

    def __init__(self, port: int) -> None:
        super().__init__(daemon=True)
        self._port = port
        self._ended = threading.Event()
        self.latencies_ms: list[float] = []

    def run(self) -> None:
        payload = build_batch([(None, bytes(512), 1_700_000_000_000, ())])
        with BrokerConnection("127.0.0.1", self._port) as connection:
            while not self._ended.is_set():
                began = time.perf_counter()
                produce(connection, payload)
                self.latencies_ms.append((time.perf_counter() - began) * 1000)

    def finish(self) -> list[float]:
        self._ended.set()
        self.join()
        return sorted(self.latencies_ms)


def produce(connection: BrokerConnection, payload: bytes) -> None:
    data = ProduceRequest.PartitionProduceData(index=0, records=payload)
    topic = ProduceRequest.TopicProduceData(name=TOPIC, partition_data=[data])
    answer = connection.request(ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=[topic]), VERSION)
    assert isinstance(answer, ProduceResponse)
    assert answer.responses[0].partition_responses[0].error_code == 0, answer


def fill(connection: BrokerConnection, shape: Shape) -> None:
    """Writes the log before the move."""
    payload = build_batch([(None, bytes(range(256)) * (shape.batch_bytes // 256), 1_700_000_000_000, ())])
    for _ in range(shape.mib * (1 << 20) // len(payload)):
        produce(connection, payload)


def places(connection: BrokerConnection) -> list[str]:
    """The directories that hold a log of the partition."""
    answer = connection.request(DescribeLogDirsRequest(topics=None), 4)
    assert isinstance(answer, DescribeLogDirsResponse)
    return [one.log_dir for one in answer.results if any(topic.name == TOPIC for topic in one.topics)]


def move(connection: BrokerConnection, target: str) -> float:
    """Moves the replica; returns seconds from the request until it is in `target` alone."""
    request = AlterReplicaLogDirsRequest
    topic = request.AlterReplicaLogDirTopic(name=TOPIC, partitions=[0])
    began = time.perf_counter()
    connection.request(request(dirs=[request.AlterReplicaLogDir(path=target, topics=[topic])]), 2)
    while places(connection) != [target]:
        assert time.perf_counter() - began < LIMIT_S, "the move does not end"
        time.sleep(POLL_S)
    return time.perf_counter() - began


class Moved(NamedTuple):
    """Median, 99th percentile and maximum of the writer's latencies, in ms, before and meanwhile."""

    mib_s: float
    cpu_s: float
    written_mib_s: float
    quiet: tuple[float, float, float]
    busy: tuple[float, float, float]


def measure(broker: Broker, directories: list[str], shape: Shape) -> Moved:
    """Measures a move by itself, then one with the writer, with its latencies before and meanwhile."""
    with BrokerConnection("127.0.0.1", broker.port) as connection:
        topic = CreateTopicsRequest.CreatableTopic(name=TOPIC, num_partitions=1, replication_factor=1)
        connection.request(CreateTopicsRequest(topics=[topic], timeout_ms=30_000), 7)
        time.sleep(1.0)
        fill(connection, shape)
        (source,) = places(connection)
        (other,) = [path for path in directories if path != source]
        cpu = cpu_s(broker)
        alone_s = move(connection, other)
        cpu = cpu_s(broker) - cpu
        writer = Writer(broker.port)
        writer.start()
        time.sleep(QUIET_S)
        quiet = sorted(writer.latencies_ms[100:])
        writer.latencies_ms = []
        busy_s = move(connection, source)
        busy = writer.finish()
    return Moved(shape.mib / alone_s, cpu, shape.mib / busy_s, latencies(quiet), latencies(busy))


def latencies(sorted_ms: list[float]) -> tuple[float, float, float]:
    """Median, 99th percentile and maximum."""
    return statistics.median(sorted_ms), sorted_ms[int(len(sorted_ms) * 0.99)], sorted_ms[-1]


def brokers(parent: Path, directories: list[str], *, with_kafka: bool) -> dict[str, Broker]:
    settings = {"log.dirs": ",".join(directories)}
    found: dict[str, Broker] = {"Barnabas": BrokerProcess(parent / "data", settings)}
    if with_kafka:
        try:
            found[f"Apache Kafka {KAFKA_VERSION}"] = ApacheKafka(parent, classpath(), settings)
        except KafkaMissingError as error:
            print(f"Apache Kafka is not measured: {error}")
    return found


def report(found: dict[tuple[Shape, str], Moved]) -> Section:
    """The section of the document."""
    heads = ["log", "broker", "MiB/s", "CPU s", "MiB/s while written to"]
    heads += ["writer before, p50, p99, max ms", "writer meanwhile"]
    rows = [
        [
            f"{shape.mib} MiB in batches of {shape.batch_bytes >> 10} KiB",
            who,
            number(moved.mib_s, 0),
            number(moved.cpu_s, 2),
            number(moved.written_mib_s, 0),
            *(", ".join(number(ms, 2) for ms in latencies) for latencies in (moved.quiet, moved.busy)),
        ]
        for (shape, who), moved in found.items()
    ]
    return Section(
        name="moves",
        title="A replica moves between log directories",
        prose=[
            "From the request until the replica lies in the other directory and nowhere else, both on one "
            "disk, what is "
            "copied in the page cache; first alone, then while a writer sends one small batch after the other with "
            "acks=all to the partition that moves."
        ],
        tables=[Table(heads, rows)],
        figures={f"{shape.mib} MiB, {who}, MiB/s": moved.mib_s for (shape, who), moved in found.items()},
    )


def main(argv: Sequence[str] | None = None) -> None:
    """Measures each shape on each broker."""
    options = results.arguments(__doc__).parse_args(argv)
    moved = {}
    for shape in [Shape(8, 16 << 10)] if options.quick else SHAPES:
        for name in ("Barnabas", f"Apache Kafka {KAFKA_VERSION}"):
            with tempfile.TemporaryDirectory(prefix="bench-") as directory:
                directories = [f"{directory}/{one}" for one in ("data", "second")]
                found = brokers(Path(directory), directories, with_kafka=not options.no_kafka)
                if name in found:
                    with found[name] as broker:
                        moved[shape, name] = measure(broker, directories, shape)
    results.publish(report(moved), options)


if __name__ == "__main__":
    main()
