"""Members of stock clients come, go and are killed while records arrive: nothing is lost, nothing is processed twice.

Each step waits for the group to have settled on all who are there, so that what a step does is done to a whole group.
"""

from __future__ import annotations

import os
import time
import uuid

import pytest

from tests.interop.arriving import Arriving
from tests.interop.conftest import TopicFactory
from tests.interop.members.commands import AIO, CONFLUENT, KAFKA_PYTHON, go, java
from tests.interop.members.host import Program, Programs

pytestmark = [pytest.mark.clients, pytest.mark.timeout(300)]

ROUNDS = int(os.environ.get("BARNABAS_CHURN_ROUNDS", "1"))
"""How often the whole to and fro is gone through; from two on every client goes through it with every protocol."""


class Churn:
    """A group of `size` members in three programs, gone through what groups go through."""

    def __init__(self, programs: Programs, topic: str, protocol: str, *, partitions: int, size: int) -> None:
        self.programs = programs
        self.topic = topic
        self.group = f"churn-{uuid.uuid4().hex[:8]}"
        self.protocol = protocol
        self.partitions = partitions
        self.each = size // 3
        self._names = iter(range(1_000_000))
        self._there: dict[str, Program] = {}

    def go(self) -> None:
        """Two programs' members come, a third's come, some leave, a program is killed, another's come."""
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
        """All at once."""
        for _ in range(count):
            name = f"{self.group}-{next(self._names)}"
            self._there[name] = host
            host.join(name, self.topic, self.group, self.protocol)

    def leave(self, count: int) -> None:
        """The oldest of the second program."""
        second = sorted(set(map(id, self._there.values())))[0]
        names = [name for name, host in self._there.items() if id(host) == second][:count]
        for name in names:
            self._there.pop(name).leave(name)

    def kill(self, host: Program) -> None:
        """With all its members."""
        self._there = {name: other for name, other in self._there.items() if other is not host}
        self.programs.kill(host)

    def settle(self, what: str) -> None:
        """Every partition has one owner, and every member that is there has been told what it owns."""
        count = len(self._there)
        self.programs.wait(
            lambda ledger: ledger.is_balanced(count, self.partitions), f"{count} {what} settle"
        )


def churn(bootstrap: str, topic: TopicFactory, command: list[str], protocol: str, size: int) -> None:
    """Goes through it, and checks the books."""
    name, partitions = topic(size), size
    with Programs(command) as programs, Arriving(bootstrap, name, partitions) as arriving:
        Churn(programs, name, protocol, partitions=partitions, size=size).go()
        time.sleep(0.2)
        ends = arriving.stop()
        programs.wait(lambda ledger: ledger.has_committed(ends), "all that was produced is committed")
    problems = list(programs.ledger.problems(ends))
    assert not problems, "\n".join(problems[:10])


def protocols(*often: str, seldom: tuple[str, ...] = ()) -> pytest.MarkDecorator:
    """Those that are always gone through, and those that only a long run has."""
    return pytest.mark.parametrize("protocol", [*often, *(seldom if ROUNDS > 1 else ())])


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
@protocols("cooperative", seldom=("eager",))
def test_kafka_python(bootstrap: str, topic: TopicFactory, protocol: str) -> None:
    churn(bootstrap, topic, KAFKA_PYTHON(bootstrap), protocol, size=9)


@pytest.mark.slow
@protocols("consumer", seldom=("eager", "cooperative"))
def test_franz_go(bootstrap: str, topic: TopicFactory, protocol: str) -> None:
    churn(bootstrap, topic, go(bootstrap), protocol, size=30)


@pytest.mark.conformance
@protocols("consumer", seldom=("eager", "cooperative"))
def test_java(bootstrap: str, topic: TopicFactory, protocol: str) -> None:
    churn(bootstrap, topic, java(bootstrap), protocol, size=18)
