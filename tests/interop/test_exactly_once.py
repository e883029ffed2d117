"""Consume, process, produce: chains of members that copy in transactions, abort and are killed, without duplicates."""

from __future__ import annotations

import os
import uuid
from collections import Counter

import pytest
from confluent_kafka import Producer

from tests.interop.conftest import TopicFactory
from tests.interop.members.commands import AIO, CONFLUENT, KAFKA_PYTHON, Command, go, java
from tests.interop.members.host import Program, Programs
from tests.interop.reading import values

pytestmark = [pytest.mark.clients, pytest.mark.timeout(300)]

RECORDS = int(os.environ.get("BARNABAS_CHAIN_RECORDS", "6000"))
PARTITIONS = 6
EACH = 2
"""Members of each stage in each program."""

PROTOCOLS = ["consumer"] if RECORDS <= 6000 else ["consumer", "cooperative"]
"""A long run tests both kinds of groups with every client."""


class Chain:
    """Two stages, each with members in two programs; every record arrives at the end once."""

    def __init__(self, bootstrap: str, topic: TopicFactory, programs: Programs, protocol: str) -> None:
        self.bootstrap = bootstrap
        self.programs = programs
        self.protocol = protocol
        self.topics = [topic(PARTITIONS) for _ in range(3)]
        self.name = f"chain-{uuid.uuid4().hex[:8]}"
        self._sent = 0

    def feed(self, count: int) -> None:
        """Produces more records, with numbers as values."""
        producer = Producer({"bootstrap.servers": self.bootstrap, "log_level": 0, "batch.num.messages": 50})
        for number in range(self._sent, self._sent + count):
            producer.produce(self.topics[0], b"%d" % number, b"%d" % (number % 97), number % PARTITIONS)
        assert producer.flush(30) == 0
        self._sent += count

    def add_members(self, program: Program, label: str) -> None:
        """Adds members to both stages; every fifth transaction is aborted."""
        for stage, (source, target) in enumerate(zip(self.topics, self.topics[1:], strict=False)):
            for number in range(EACH):
                name = f"{self.name}-{label}-{stage}-{number}"
                program.chain(name, source, target, f"{self.name}-{stage}", self.protocol, abort_every=5)

    def check(self) -> None:
        """Waits for the last record; none may be missing or duplicated."""
        last = self.topics[-1]
        deadline_reads = 40
        for _ in range(deadline_reads):
            found = Counter(map(int, values(self.bootstrap, last, PARTITIONS)))
            if len(found) >= self._sent:
                break
        duplicated = [number for number, times in found.items() if times > 1]
        missing = sorted(set(range(self._sent)) - set(found))
        assert not duplicated, (
            f"{len(duplicated)} duplicated: {duplicated[:10]}; {self.programs.ledger.rejections[-5:]}"
        )
        assert not missing, f"{len(missing)} missing: {missing[:10]}; {self.programs.ledger.rejections[-5:]}"


def run_chain(bootstrap: str, topic: TopicFactory, command: Command, protocol: str) -> None:
    """Feeds three parts; one program is killed in between, and its members return with the same transactional ids."""
    with Programs(command(bootstrap)) as programs:
        chain = Chain(bootstrap, topic, programs, protocol)
        chain.feed(RECORDS // 3)
        doomed, other = programs.start(), programs.start()
        chain.add_members(doomed, "a")
        chain.add_members(other, "b")
        programs.wait(lambda ledger: ledger.events, "a member receives records")
        chain.feed(RECORDS // 3)
        programs.kill(doomed)
        chain.add_members(programs.start(), "a")
        chain.feed(RECORDS // 3)
        chain.check()
        assert not programs.ledger.failures, programs.ledger.failures


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_librdkafka(bootstrap: str, topic: TopicFactory, protocol: str) -> None:
    run_chain(bootstrap, topic, CONFLUENT, protocol)


@pytest.mark.slow
def test_aiokafka(bootstrap: str, topic: TopicFactory) -> None:
    run_chain(bootstrap, topic, AIO, "eager")


@pytest.mark.slow
def test_kafka_python(bootstrap: str, topic: TopicFactory) -> None:
    run_chain(bootstrap, topic, KAFKA_PYTHON, "cooperative")


@pytest.mark.slow
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_franz_go(bootstrap: str, topic: TopicFactory, protocol: str) -> None:
    run_chain(bootstrap, topic, go, protocol)


@pytest.mark.conformance
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_java(bootstrap: str, topic: TopicFactory, protocol: str) -> None:
    run_chain(bootstrap, topic, java, protocol)
