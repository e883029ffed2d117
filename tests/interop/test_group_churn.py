"""Members of stock clients join, leave and are killed while records arrive: none is lost or processed twice.

Each step waits until the group is stable with all its members.
"""

from __future__ import annotations

import os
import time
import uuid

import pytest

from tests.interop.background_producer import BackgroundProducer
from tests.interop.conftest import TopicFactory
from tests.interop.members.commands import AIO, CONFLUENT, KAFKA_PYTHON, go, java
from tests.interop.members.host import Program, Programs

pytestmark = [pytest.mark.clients, pytest.mark.timeout(300)]

ROUNDS = int(os.environ.get("BARNABAS_CHURN_ROUNDS", "1"))
"""How always the steps are repeated; from two on, every client is tested with every protocol."""


class Churn:
    """A group of `size` members in three programs, which join, leave and are killed."""

    def __init__(self, programs: Programs, topic: str, protocol: str, *, partitions: int, size: int) -> None:
        self.programs = programs
        self.topic = topic
        self.group = f"churn-{uuid.uuid4().hex[:8]}"
        self.protocol = protocol
        self.partitions = partitions
        self.each = size // 3
        self._names = iter(range(1_000_000))
        self._members: dict[str, Program] = {}

    def run(self) -> None:
        """Members of two programs join, then of a third; some leave, a program is killed, another's members join."""
        hosts = [self.programs.start() for _ in range(3)]
        self.join(hosts[0], self.each)
        self.join(hosts[1], self.each)
        self.settle("members that came at the start")
        for _ in range(ROUNDS):
            self.join(hosts[2], self.each)
            self.settle("more members")
            self.leave(self.each // 2)
            self.settle("members that left")
            self.kill(hosts.pop(0))
            self.settle("members that were killed")
            hosts.append(self.programs.start())
            self.join(hosts[-1], self.each // 2 + 1)
            self.settle("members in the place of the killed")

    def join(self, host: Program, count: int) -> None:
        """Adds `count` members at once."""
        for _ in range(count):
            name = f"{self.group}-{next(self._names)}"
            self._members[name] = host
            host.join(name, self.topic, self.group, self.protocol)

    def leave(self, count: int) -> None:
        """Closes the oldest members of the second program."""
        second = sorted(set(map(id, self._members.values())))[0]
        names = [name for name, host in self._members.items() if id(host) == second][:count]
        for name in names:
            self._members.pop(name).leave(name)

    def kill(self, host: Program) -> None:
        """Kills a program with all its members."""
        self._members = {name: other for name, other in self._members.items() if other is not host}
        self.programs.kill(host)

    def settle(self, what: str) -> None:
        """Waits until every partition has one owner and every member has reported its assignment."""
        count = len(self._members)
        self.programs.wait(
            lambda ledger: ledger.is_balanced(count, self.partitions), f"{count} {what} settle"
        )


def churn(bootstrap: str, topic: TopicFactory, command: list[str], protocol: str, size: int) -> None:
    """Runs all steps, then checks the ledger."""
    name, partitions = topic(size), size
    with Programs(command) as programs, BackgroundProducer(bootstrap, name, partitions) as producer:
        Churn(programs, name, protocol, partitions=partitions, size=size).run()
        time.sleep(0.2)
        ends = producer.stop()
        programs.wait(lambda ledger: ledger.has_committed(ends), "all records are committed")
    problems = list(programs.ledger.problems(ends))
    assert not problems, "\n".join(problems[:10])


def protocols(*always: str, long_run: tuple[str, ...] = ()) -> pytest.MarkDecorator:
    """The protocols of every run, and those of a long run only."""
    return pytest.mark.parametrize("protocol", [*always, *(long_run if ROUNDS > 1 else ())])


@protocols("eager", "consumer")
def test_librdkafka(bootstrap: str, topic: TopicFactory, protocol: str) -> None:
    churn(bootstrap, topic, CONFLUENT(bootstrap), protocol, size=24)


@pytest.mark.slow
def test_librdkafka_cooperative(bootstrap: str, topic: TopicFactory) -> None:
    churn(bootstrap, topic, CONFLUENT(bootstrap), "cooperative", size=24)


@pytest.mark.slow
def test_aiokafka(bootstrap: str, topic: TopicFactory) -> None:
    churn(bootstrap, topic, AIO(bootstrap), "eager", size=9)


@pytest.mark.slow
@protocols("cooperative", long_run=("eager",))
def test_kafka_python(bootstrap: str, topic: TopicFactory, protocol: str) -> None:
    churn(bootstrap, topic, KAFKA_PYTHON(bootstrap), protocol, size=9)


@pytest.mark.slow
@protocols("consumer", long_run=("eager", "cooperative"))
def test_franz_go(bootstrap: str, topic: TopicFactory, protocol: str) -> None:
    churn(bootstrap, topic, go(bootstrap), protocol, size=30)


@pytest.mark.conformance
@protocols("consumer", long_run=("eager", "cooperative"))
def test_java(bootstrap: str, topic: TopicFactory, protocol: str) -> None:
    churn(bootstrap, topic, java(bootstrap), protocol, size=18)
