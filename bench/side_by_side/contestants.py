"""The compared brokers: timed starts, stops and kills, their topics, and the contents of these."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec  # type: ignore[attr-defined]

from bench import accounting
from bench.brokers import STOCK_JVM, AnyBroker, AnyFactory, LaunchedBroker, barnabas
from bench.side_by_side import crew
from bench.side_by_side.job import Job
from bench.side_by_side.workloads import Fill
from tests.conformance.kafka_jars import KAFKA_VERSION, KafkaMissingError, classpath
from tests.support.apache_kafka import ApacheKafka, answers_metadata

OURS: Final = "Barnabas"
KAFKA: Final = f"Apache Kafka {KAFKA_VERSION}"
EITHER: Final = "either broker"
LIMIT_S: Final = 60.0
START_LIMIT_S: Final = 180.0
_POLL_S: Final = 0.002


class Started(NamedTuple):
    """The seconds from the spawn to the first response."""

    seconds: float
    cpu_s: float


class Contestant:
    """One broker, at most one process at a time, in a directory that is recreated for a fresh start."""

    def __init__(self, name: str, factory: AnyFactory, root: Path | None = None) -> None:
        self.name = name
        self._factory, self._root = factory, root
        self._directory: Path | None = None
        self._broker: AnyBroker | None = None
        self._filled: dict[Fill, str] = {}
        self._made: dict[str, str] = {}

    @property
    def broker(self) -> AnyBroker:
        """The current broker."""
        assert self._broker is not None, f"{self.name} was never started"
        return self._broker

    @property
    def pid(self) -> int:
        """The id of the running process."""
        return self.broker.pid

    # -- the process --

    def start(self, *, fresh: bool = True) -> Started:
        """Starts the broker; returns the time from the spawn to the first response, without formatting beforehand."""
        if fresh:
            self.remove()
            self._directory = Path(tempfile.mkdtemp(prefix="bench-", dir=self._root))
            self._broker = self._factory(self._directory)
        if isinstance(self.broker, ApacheKafka):
            self.broker.prepare()
        elif fresh and isinstance(
            self.broker, LaunchedBroker
        ):  # what formats when it starts has done so then
            self._spawned()
            self.broker.stop()
        return self._spawned()

    def _spawned(self) -> Started:
        began = time.perf_counter()
        self.broker.spawn()
        while not answers_metadata(self.broker.bootstrap):
            if time.perf_counter() - began > START_LIMIT_S or not self.pid:
                raise TimeoutError(f"{self.name} does not answer")
            time.sleep(_POLL_S)
        return Started(time.perf_counter() - began, accounting.cpu_s(self.pid))

    def stop(self) -> float:
        """Stops the broker cleanly; returns the seconds."""
        began = time.perf_counter()
        self.broker.stop()
        return time.perf_counter() - began

    def remove(self) -> None:
        """Ends the broker and removes its directory."""
        if self._broker is not None:
            self._broker.kill()
        if self._directory is not None:
            shutil.rmtree(self._directory, ignore_errors=True)
        self._filled.clear()
        self._made.clear()

    # -- topics --

    def create(self, topic: str, partitions: int, settings: Mapping[str, str] | None = None) -> None:
        """Creates a topic; returns when each partition has a leader."""
        admin = self._admin()
        wanted = NewTopic(topic, partitions, 1, config=dict(settings or {}))
        admin.create_topics([wanted], operation_timeout=LIMIT_S)[topic].result(LIMIT_S)
        deadline = time.monotonic() + LIMIT_S
        while time.monotonic() < deadline:
            found = admin.list_topics(topic, timeout=LIMIT_S).topics[topic]
            if len(found.partitions) == partitions and all(p.leader >= 0 for p in found.partitions.values()):
                return
            time.sleep(0.05)
        raise TimeoutError(f"{topic} has no leaders on {self.name}")

    def delete(self, topic: str) -> None:
        """Deletes a topic if it exists."""
        with contextlib.suppress(KafkaException):
            self._admin().delete_topics([topic])[topic].result(LIMIT_S)

    def offsets(self, topic: str, partitions: int) -> tuple[list[int], list[int]]:
        """The start and end offsets of each partition, once it reports them."""
        admin, deadline = self._admin(), time.monotonic() + LIMIT_S
        while True:
            try:
                return self._bounds(admin, topic, partitions)
            except KafkaException:  # a broker may name a leader that does not know its role yet
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)

    def _bounds(self, admin: AdminClient, topic: str, partitions: int) -> tuple[list[int], list[int]]:
        return (
            self._listed(admin, topic, partitions, OffsetSpec.earliest()),  # type: ignore[no-untyped-call]
            self._listed(admin, topic, partitions, OffsetSpec.latest()),  # type: ignore[no-untyped-call]
        )

    def _listed(self, admin: AdminClient, topic: str, partitions: int, spec: OffsetSpec) -> list[int]:
        asked = {TopicPartition(topic, number): spec for number in range(partitions)}
        found = admin.list_offsets(asked)
        by_number = sorted(found.items(), key=lambda item: item[0].partition)
        return [future.result(LIMIT_S).offset for _, future in by_number]

    def filled(self, fill: Fill) -> str:
        """A topic with this content; it is filled the first time."""
        if fill not in self._filled:
            topic = f"filled-{fill.count}-{fill.size}-{fill.partitions}"
            self.create(topic, fill.partitions)
            job = Job(
                "produce",
                self.broker.bootstrap,
                topic,
                fill.partitions,
                fill.size,
                fill.count,
                cap_s=LIMIT_S,
                spread=fill.partitions > 4,
            )
            crew.measure([job], self.pid, 2 * LIMIT_S)
            self._filled[fill] = topic
        return self._filled[fill]

    def lasting(self, name: str, partitions: int, settings: Mapping[str, str]) -> str:
        """A topic that a row keeps for all its rounds."""
        if name not in self._made:
            topic = f"lasting-{name}"
            self.create(topic, partitions, settings)
            self._made[name] = topic
        return self._made[name]

    def held(self) -> list[tuple[str, str, int]]:
        """This broker's name, topic and partitions of each filled topic."""
        return [(self.name, topic, fill.partitions) for fill, topic in self._filled.items()]

    def _admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.broker.bootstrap, "log_level": 2})


def ours(directory: Path) -> AnyBroker:
    """Barnabas with Apache Kafka's defaults (profile kafka), and one copy of internal topics, as any single node."""
    broker = barnabas(directory)
    broker.overrides["barnabas.profile"] = "kafka"
    for key in ("offsets.topic", "transaction.state.log", "share.coordinator.state.topic"):
        broker.overrides[f"{key}.replication.factor"] = "1"
    broker.overrides["transaction.state.log.min.isr"] = "1"
    broker.overrides["share.coordinator.state.topic.min.isr"] = "1"
    return broker


def contestants(*, with_kafka: bool, launcher: str | None, root: Path | None = None) -> list[Contestant]:
    """Ours first; Apache Kafka from a launcher or from its jars; says why where it is not there."""
    found = [Contestant(OURS, ours, root)]
    if launcher:
        found.append(Contestant(KAFKA, lambda directory: LaunchedBroker(directory, launcher), root))
    elif with_kafka:
        try:
            jars = classpath()
        except KafkaMissingError as error:
            print(f"Apache Kafka is not measured: {error}")
        else:
            found.append(
                Contestant(KAFKA, lambda directory: ApacheKafka(directory, jars, jvm=STOCK_JVM), root)
            )
    return found
