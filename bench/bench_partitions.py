"""Ten thousand partitions, in few topics and in many: creation, memory, metadata and restart, beside Apache Kafka.

For each shape every broker starts in a new directory, creates the topics, answers Metadata requests, idles, stops
cleanly and starts again; the brokers take turns, and the medians of some rounds are printed. A broker is ready when
Metadata names a leader for every partition: then a client can begin. Responses are read and not decoded, so that the
broker sets the pace.
"""

from __future__ import annotations

import statistics
import struct
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from barnabas.protocol.codec import decode
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataResponse
from barnabas.protocol.messages.offsets import ListOffsetsRequest, ListOffsetsResponse
from barnabas.protocol.messages.topics import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from bench import machine, results
from bench.brokers import Broker, Factory, cpu_s, factories, fresh, rss_mib
from bench.section import Section, Table, number
from tests.conformance.broker_connection import BrokerConnection, ClosedError
from tests.support.apache_kafka import ApacheKafka

ROUNDS: Final = 3
IN_MEMORY: Final = Path("/dev/shm")
IDLE_S: Final = 5.0
SETTLE_S: Final = 2.0
READY_LIMIT_S: Final = 180.0
LATENCY_SAMPLES: Final = 15
OFFSETS_PER_REQUEST: Final = 1_000
MOST_AT_ONCE: Final = 5_000
METADATA_VERSION: Final = 12


class Shape(NamedTuple):
    """So many topics with so many partitions each, described by requests for so many topics."""

    topics: int
    partitions: int
    per_request: int

    @property
    def total(self) -> int:
        """The number of all partitions."""
        return self.topics * self.partitions

    def __str__(self) -> str:
        each = "request" if self.per_request == 1 else f"{self.per_request} in a request"
        return f"{self.topics} x {self.partitions}, {'a topic a ' if self.per_request == 1 else ''}{each}"


SHAPES: Final = (Shape(10, 1_000, 1), Shape(1, 10_000, 1), Shape(10_000, 1, 100), Shape(10_000, 1, 1))


class Figures(NamedTuple):
    """The figures of one round of one shape; latencies in ms, memory in MiB. `answered` and `usable` are partitions a
    second: until the last response, and until the last partition reported its offsets, since Apache Kafka answers
    before its broker has created the logs.
    """

    answered: float
    usable: float
    rss_mib: float
    metadata_ms: float
    one_topic_ms: float
    idle_cpu_percent: float
    stop_s: float
    start_s: float
    restarted_mib: float


HEADINGS: Final = (
    "partitions a second until the last creation is answered",
    "partitions a second until the offsets of all are listed",
    "memory, MiB",
    "Metadata of all topics, ms",
    "Metadata of one topic, ms",
    "processor when idle, %",
    "the clean stop, s",
    "from the start of the process, after a clean stop, until Metadata names all leaders, s",
    "memory then, MiB",
)


def measure(factory: Factory, shape: Shape, root: Path) -> Figures:
    """Measures one round."""
    with fresh(factory, root) as broker:
        broker.start()
        with _connection(broker) as connection:
            connection.timeout_s = READY_LIMIT_S
            began = time.perf_counter()
            _create(connection, shape)
            answered = shape.total / (time.perf_counter() - began)
            _wait_until_usable(connection, shape)
            usable = shape.total / (time.perf_counter() - began)
            time.sleep(SETTLE_S)
            resident = rss_mib(broker)
            all_ms = _latency_ms(connection, MetadataRequest(topics=None))
            one_ms = _latency_ms(connection, _metadata_request("t0"))
            used, began = cpu_s(broker), time.perf_counter()
            time.sleep(IDLE_S)
            idle = (cpu_s(broker) - used) / (time.perf_counter() - began)
        began = time.perf_counter()
        broker.stop()
        stop_s = time.perf_counter() - began
        start_s = _start_again(broker, shape)
        time.sleep(SETTLE_S)
        return Figures(
            answered, usable, resident, all_ms, one_ms, idle * 100, stop_s, start_s, rss_mib(broker)
        )


def _connection(broker: Broker) -> BrokerConnection:
    host, _, port = broker.bootstrap.rpartition(":")
    return BrokerConnection(host, int(port))


def _names(shape: Shape) -> Iterator[list[str]]:
    for first in range(0, shape.topics, shape.per_request):
        yield [f"t{number}" for number in range(first, min(first + shape.per_request, shape.topics))]


def _create(connection: BrokerConnection, shape: Shape) -> None:
    """Returns after the last response. Topics too large for a single request are created smaller and extended."""
    at_first = min(shape.partitions, MOST_AT_ONCE)
    for names in _names(shape):
        wishes = [
            CreateTopicsRequest.CreatableTopic(name=name, num_partitions=at_first, replication_factor=1)
            for name in names
        ]
        answer = connection.request(CreateTopicsRequest(topics=wishes, timeout_ms=60_000), 7)
        assert isinstance(answer, CreateTopicsResponse)
        assert not any(topic.error_code for topic in answer.topics), answer.topics[:3]
        if at_first < shape.partitions:
            _grow(connection, names, shape.partitions)


def _grow(connection: BrokerConnection, names: Sequence[str], partitions: int) -> None:
    wishes = [
        CreatePartitionsRequest.CreatePartitionsTopic(name=name, count=partitions, assignments=None)
        for name in names
    ]
    answer = connection.request(CreatePartitionsRequest(topics=wishes, timeout_ms=60_000), 3)
    assert isinstance(answer, CreatePartitionsResponse)
    assert not any(topic.error_code for topic in answer.results), answer.results


def _metadata_request(*names: str) -> MetadataRequest:
    return MetadataRequest(
        topics=[MetadataRequest.MetadataRequestTopic(name=name) for name in names],
        allow_auto_topic_creation=False,
    )


def _raw(connection: BrokerConnection, request: MetadataRequest) -> bytes:
    connection.send(request, METADATA_VERSION)
    return connection.read_frame()


def _leaders(frame: bytes) -> int:
    """The number of partitions with a leader in a Metadata response."""
    correlation_id_and_tags = struct.calcsize(">iB")
    answer = decode(MetadataResponse, METADATA_VERSION, frame[correlation_id_and_tags:])
    return sum(part.leader_id >= 0 for topic in answer.topics for part in topic.partitions)


def _wait_until_usable(connection: BrokerConnection, shape: Shape) -> None:
    """Waits until each partition reports its end offset."""
    wanted = [(f"t{topic}", index) for topic in range(shape.topics) for index in range(shape.partitions)]
    deadline = time.monotonic() + READY_LIMIT_S
    while wanted:
        wanted = _without_offsets(connection, wanted)
        if time.monotonic() > deadline:
            raise TimeoutError(f"{len(wanted)} partitions are not to be used")


def _without_offsets(connection: BrokerConnection, wanted: list[tuple[str, int]]) -> list[tuple[str, int]]:
    """The partitions without an end offset, of the first thousand, and the rest."""
    by_topic: dict[str, list[ListOffsetsRequest.ListOffsetsPartition]] = {}
    for name, index in wanted[:OFFSETS_PER_REQUEST]:
        partition = ListOffsetsRequest.ListOffsetsPartition(partition_index=index, timestamp=-1)
        by_topic.setdefault(name, []).append(partition)
    topics = [
        ListOffsetsRequest.ListOffsetsTopic(name=name, partitions=each) for name, each in by_topic.items()
    ]
    answer = connection.request(ListOffsetsRequest(replica_id=-1, topics=topics), 7)
    assert isinstance(answer, ListOffsetsResponse)
    missing = [
        (topic.name, part.partition_index)
        for topic in answer.topics
        for part in topic.partitions
        if part.error_code
    ]
    return missing + wanted[OFFSETS_PER_REQUEST:]


def _wait_until_ready(connection: BrokerConnection, shape: Shape) -> None:
    """Waits until Metadata names a leader for each partition."""
    deadline = time.monotonic() + READY_LIMIT_S
    while _leaders(_raw(connection, MetadataRequest(topics=None))) < shape.total:
        if time.monotonic() > deadline:
            raise TimeoutError("not all partitions have a leader")


def _latency_ms(connection: BrokerConnection, request: MetadataRequest) -> float:
    """The median time from the request to the last byte of the response."""
    samples = []
    for _ in range(LATENCY_SAMPLES):
        began = time.perf_counter()
        _raw(connection, request)
        samples.append(time.perf_counter() - began)
    return statistics.median(samples) * 1000


def _start_again(broker: Broker, shape: Shape) -> float:
    """Seconds from the spawn until every partition has a leader in Metadata."""
    if isinstance(broker, ApacheKafka):
        broker.prepare()
    began = time.perf_counter()
    broker.spawn()
    while time.perf_counter() - began < READY_LIMIT_S:
        try:
            with _connection(broker) as connection:
                _wait_until_ready(connection, shape)
                return time.perf_counter() - began
        except (OSError, ClosedError):
            time.sleep(0.005)
    raise TimeoutError("it does not come back")


def usual_root() -> Path:
    """A directory in memory, where a file system for that exists."""
    return IN_MEMORY if IN_MEMORY.is_dir() else Path(tempfile.gettempdir())


def medians(
    found: dict[str, Factory], shapes: Sequence[Shape], rounds: int, root: Path
) -> dict[Shape, dict[str, Figures]]:
    """The medians for each shape and broker; the brokers take turns."""
    all_of = {}
    for shape in shapes:
        samples: dict[str, list[Figures]] = {name: [] for name in found}
        for _ in range(rounds):
            for name, factory in found.items():
                samples[name].append(measure(factory, shape, root))
        all_of[shape] = {
            name: Figures(*map(statistics.median, zip(*figures, strict=True)))
            for name, figures in samples.items()
        }
    return all_of


def report(found: dict[Shape, dict[str, Figures]], rounds: int, root: Path) -> Section:
    """The section of the document."""
    brokers = list(next(iter(found.values())))
    rows = [
        [heading, who, *(number(found[shape][who][position]) for shape in found)]
        for position, heading in enumerate(HEADINGS)
        for who in brokers
    ]
    most = max(shape.total for shape in found)
    return Section(
        name="partitions",
        title=f"{most:,} partitions, in few topics and in many",
        prose=[
            "Defaults of both (Kafka with a heap of 512 MiB), the brokers in turns, one at a time. Their directories "
            "are in memory where there is a file system for that: on a disk it is the file system that takes most of "
            "the time, and ext4 the more, the more files were deleted in the minutes before. Apache Kafka answers a "
            "creation when its controller has decided it, and makes the logs afterwards; Barnabas answers when they "
            "are there. So partitions a second until the last creation is answered is not the same work for both, and "
            "until the offsets of all partitions are listed is."
        ],
        tables=[Table(["", "broker", *map(str, found)], rows)],
        figures={
            f"{shape}, {who}, {heading}": figures[position]
            for shape, by_broker in found.items()
            for who, figures in by_broker.items()
            for position, heading in enumerate(HEADINGS)
        },
        options={"rounds": str(rounds), "file system": machine.file_system(root)},
    )


def main(argv: Sequence[str] | None = None) -> None:
    """Publishes the figures."""
    parser = results.arguments(__doc__)
    parser.add_argument("--rounds", type=int, help=f"{ROUNDS}, or 1 when --quick")
    parser.add_argument(
        "--shape", type=int, action="append", help=f"0 to {len(SHAPES) - 1}; all when not given"
    )
    parser.add_argument(
        "--directory", type=Path, default=usual_root(), help="where the brokers' directories are made"
    )
    options = parser.parse_args(argv)
    shapes = [SHAPES[index] for index in options.shape or range(len(SHAPES))]
    if options.quick:
        shapes = [Shape(2, 20, 1), Shape(40, 1, 10)]
    rounds = options.rounds or (1 if options.quick else ROUNDS)
    root = options.directory
    found = medians(factories(with_kafka=not options.no_kafka), shapes, rounds, root)
    results.publish(report(found, rounds, root), options)


if __name__ == "__main__":
    main()
