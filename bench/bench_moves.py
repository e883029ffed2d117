"""A replica moves from one log directory to another while somebody writes to it: how fast, and what the writer feels.

The writer sends one small batch after the other with acks=all and waits for each answer, to the partition that moves.
Both directories are on one disk and what is copied is in the page cache: it is the brokers that are measured.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import threading
import time
from pathlib import Path
from typing import Final, NamedTuple

from bench.brokers import Broker, cpu_s
from protocol.messages.log_dirs import (
    AlterReplicaLogDirsRequest,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)
from protocol.messages.produce import ProduceRequest, ProduceResponse
from protocol.messages.topics import CreateTopicsRequest
from protocol.records.builder import build_batch
from tests.conformance.kafka_jars import KAFKA_VERSION, KafkaMissingError, classpath
from tests.conformance.peer import Peer
from tests.support.apache_kafka import ApacheKafka
from tests.support.broker_process import BrokerProcess

TOPIC: Final = "moving"
QUIET_S: Final = 2.0
POLL_S: Final = 0.02
LIMIT_S: Final = 300.0
VERSION: Final = 12


class Shape(NamedTuple):
    """What the log holds: so many MiB in batches of so many bytes."""

    mib: int
    batch_bytes: int


SHAPES: Final = (Shape(512, 64 << 10), Shape(256, 16 << 10), Shape(32, 1 << 10))


class Writer(threading.Thread):
    """Notes how long each acknowledgement took, in ms."""

    def __init__(self, port: int) -> None:
        super().__init__(daemon=True)
        self._port = port
        self._ended = threading.Event()
        self.latencies_ms: list[float] = []

    def run(self) -> None:
        payload = build_batch([(None, bytes(512), 1_700_000_000_000, ())])
        with Peer("127.0.0.1", self._port) as peer:
            while not self._ended.is_set():
                began = time.perf_counter()
                produce(peer, payload)
                self.latencies_ms.append((time.perf_counter() - began) * 1000)

    def finish(self) -> list[float]:
        self._ended.set()
        self.join()
        return sorted(self.latencies_ms)


def produce(peer: Peer, payload: bytes) -> None:
    data = ProduceRequest.PartitionProduceData(index=0, records=payload)
    topic = ProduceRequest.TopicProduceData(name=TOPIC, partition_data=[data])
    answer = peer.ask(ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=[topic]), VERSION)
    assert isinstance(answer, ProduceResponse)
    assert answer.responses[0].partition_responses[0].error_code == 0, answer


def fill(peer: Peer, shape: Shape) -> None:
    """The log as it is before the move."""
    payload = build_batch([(None, bytes(range(256)) * (shape.batch_bytes // 256), 1_700_000_000_000, ())])
    for _ in range(shape.mib * (1 << 20) // len(payload)):
        produce(peer, payload)


def places(peer: Peer) -> list[str]:
    """The directories that hold a log of the partition."""
    answer = peer.ask(DescribeLogDirsRequest(topics=None), 4)
    assert isinstance(answer, DescribeLogDirsResponse)
    return [one.log_dir for one in answer.results if any(topic.name == TOPIC for topic in one.topics)]


def move(peer: Peer, target: str) -> float:
    """Seconds from the request until the replica lies in `target` and nowhere else."""
    request = AlterReplicaLogDirsRequest
    topic = request.AlterReplicaLogDirTopic(name=TOPIC, partitions=[0])
    began = time.perf_counter()
    peer.ask(request(dirs=[request.AlterReplicaLogDir(path=target, topics=[topic])]), 2)
    while places(peer) != [target]:
        assert time.perf_counter() - began < LIMIT_S, "the move does not end"
        time.sleep(POLL_S)
    return time.perf_counter() - began


def measure(broker: Broker, directories: list[str], shape: Shape) -> str:
    """One line: the move by itself, then one with the writer, and what that felt before and meanwhile."""
    with Peer("127.0.0.1", broker.port) as peer:
        topic = CreateTopicsRequest.CreatableTopic(name=TOPIC, num_partitions=1, replication_factor=1)
        peer.ask(CreateTopicsRequest(topics=[topic], timeout_ms=30_000), 7)
        time.sleep(1.0)
        fill(peer, shape)
        (source,) = places(peer)
        (other,) = [path for path in directories if path != source]
        cpu = cpu_s(broker)
        alone_s = move(peer, other)
        cpu = cpu_s(broker) - cpu
        writer = Writer(broker.port)
        writer.start()
        time.sleep(QUIET_S)
        quiet = sorted(writer.latencies_ms[100:])
        writer.latencies_ms = []
        busy_s = move(peer, source)
        busy = writer.finish()
    figures = [shape.mib / alone_s, cpu, shape.mib / busy_s, *latencies(quiet), *latencies(busy)]
    return "".join(f"{figure:>10.2f}" for figure in figures)


def latencies(sorted_ms: list[float]) -> tuple[float, float, float]:
    """Median, 99th percentile and the longest."""
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


def main(arguments: list[str] | None = None) -> None:
    """Measures each shape on each broker."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--no-kafka", action="store_true", help="measure Barnabas only")
    options = parser.parse_args(arguments)
    heads = ["MiB/s", "CPU s", "written", "quiet p50", "p99", "max", "move p50", "p99", "max"]
    print(f"{'':<20}{'':>16}" + "".join(f"{head:>10}" for head in heads))
    for shape in SHAPES:
        for name in ("Barnabas", f"Apache Kafka {KAFKA_VERSION}"):
            with tempfile.TemporaryDirectory(prefix="bench-") as directory:
                directories = [f"{directory}/{one}" for one in ("data", "second")]
                found = brokers(Path(directory), directories, with_kafka=not options.no_kafka)
                if name in found:
                    with found[name] as broker:
                        line = measure(broker, directories, shape)
                    print(f"{name:<20}{f'{shape.mib} MiB / {shape.batch_bytes}':>16}{line}", flush=True)


if __name__ == "__main__":
    main()
