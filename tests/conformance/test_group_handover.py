"""Groups and transactional producers survive changes of brokers: Apache Kafka, Barnabas, Apache Kafka.

The clients never restart: they meet another broker at their address, and resume with their committed offsets and
epochs, while records keep arriving.
"""

from __future__ import annotations

import os
import uuid
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition

from tests.conformance.handover.sides import KAFKA, OLD_KAFKA, OURS, Directory
from tests.interop.background_producer import BackgroundProducer
from tests.interop.clients.confluent import AdminClient, NewTopic, OffsetSpec
from tests.interop.conftest import OVERRIDES, wait_for_leaders
from tests.interop.members.commands import CONFLUENT, Command, java
from tests.interop.members.host import Program, Programs
from tests.interop.reading import values

pytestmark = [pytest.mark.conformance, pytest.mark.slow, pytest.mark.timeout(600)]

LONG = bool(os.environ.get("BARNABAS_HANDOVER_LONG"))
PARTITIONS = 6
SETTLE_LIMIT_S = 150.0
ORDERS = [pytest.param((KAFKA, OURS, KAFKA), java, id="java")]
if LONG:
    ORDERS += [
        pytest.param((OLD_KAFKA, OURS, OLD_KAFKA), java, id="java-and-kafka-4.1"),
        pytest.param((OURS, KAFKA, OURS, OLD_KAFKA), CONFLUENT, id="librdkafka-ours-first"),
        pytest.param((KAFKA, OURS, KAFKA), CONFLUENT, id="librdkafka"),
        pytest.param((OLD_KAFKA, OURS, KAFKA, OURS), CONFLUENT, id="librdkafka-and-an-upgrade"),
    ]


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Directory]:
    """The directory that the brokers share."""
    place = Directory(tmp_path, OVERRIDES)
    yield place
    place.end()


class LiveGroups:
    """Two groups that read, one of each protocol, and one that copies with transactions."""

    def __init__(self, bootstrap: str, command: Command) -> None:
        readers = command(bootstrap)
        self._bootstrap = bootstrap
        self.name = uuid.uuid4().hex[:8]
        self.source, self.target = f"source-{self.name}", f"target-{self.name}"
        admin = AdminClient({"bootstrap.servers": bootstrap})
        for topic in (self.source, self.target):
            new = NewTopic(topic, num_partitions=PARTITIONS, replication_factor=1)
            admin.create_topics([new])[topic].result(30)
            wait_for_leaders(admin, topic, PARTITIONS)
        self.readers = {protocol: Programs(readers) for protocol in ("cooperative", "consumer")}
        # librdkafka's transactional producer does not survive the restart of an Apache Kafka of one node.
        self.chain = Programs(java(bootstrap))
        self._programs: dict[Programs, Program] = {}

    def start(self) -> None:
        """Starts three members in each group."""
        for protocol, programs in self.readers.items():
            self._programs[programs] = programs.start()
            for number in range(3):
                name = f"{protocol}-{self.name}-{number}"
                self._programs[programs].join(name, self.source, f"{protocol}-{self.name}", protocol)
        program = self._programs[self.chain] = self.chain.start()
        for number in range(3):
            name = f"chain-{self.name}-{number}"
            program.chain(name, self.source, self.target, f"chain-{self.name}", "consumer", abort_every=7)

    def await_progress(self, ends: dict[int, int], side: str) -> None:
        """Waits until all groups have committed up to `ends`."""
        for programs in (*self.readers.values(), self.chain):
            programs.wait(
                lambda ledger: ledger.has_committed(ends), f"all of it is committed at {side}", SETTLE_LIMIT_S
            )

    def check(self, ends: dict[int, int]) -> None:
        """No member failed, no record was lost or copied twice."""
        failures = [one for programs in self._programs for one in programs.ledger.failures]
        assert not failures, failures
        for protocol, programs in self.readers.items():
            problems = list(programs.ledger.problems(ends))
            assert not problems, f"{protocol}: {problems[:10]}"
        copied = Counter(map(int, values(self._bootstrap, self.target, PARTITIONS)))
        doubled = [number for number, times in copied.items() if times > 1]
        missing = sorted(set(range(sum(ends.values()))) - set(copied))
        assert (doubled, missing) == ([], []), self.chain.ledger.rejections[-5:]

    def kill(self) -> None:
        """Kills all members."""
        for program in self._programs.values():
            program.kill()


@pytest.mark.parametrize(("sides", "command"), ORDERS)
def test_groups_resume_at_the_next_broker(
    sides: tuple[str, ...], command: Command, directory: Directory
) -> None:
    broker = directory.broker(sides[0])
    broker.start()
    live = LiveGroups(broker.bootstrap, command)
    live.start()
    try:
        with BackgroundProducer(broker.bootstrap, live.source, PARTITIONS, per_second=200) as arriving:
            arriving.wait_for(100)
            for side in sides[1:]:
                live.await_progress(arriving.acknowledged(), side)
                assert broker.stop() == broker.clean_status
                broker = directory.broker(side)
                broker.start()
                arriving.wait_for(arriving.count() + 100)
            ends = arriving.stop()
        live.await_progress(ends, sides[-1])
        live.check(ends)
        assert log_ends(broker.bootstrap, live.source) == ends
    finally:
        live.kill()
    assert broker.stop() == broker.clean_status


def log_ends(bootstrap: str, topic: str) -> dict[int, int]:
    """The log end offset of each partition, which shows that no record was produced twice."""
    wanted = {TopicPartition(topic, number): OffsetSpec.latest() for number in range(PARTITIONS)}
    admin = AdminClient({"bootstrap.servers": bootstrap})
    return {part.partition: future.result(30).offset for part, future in admin.list_offsets(wanted).items()}
