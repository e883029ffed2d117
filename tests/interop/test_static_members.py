"""Static members (KIP-345): one that returns in time continues without a rebalance; one of two with the same id is
fenced."""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Consumer, KafkaError, TopicPartition

from tests.interop.conftest import TopicFactory
from tests.interop.members.commands import java
from tests.interop.members.host import Programs

pytestmark = [pytest.mark.clients, pytest.mark.timeout(120)]

LIMIT_S = 40.0
PARTITIONS = 4
TIMING = {
    "classic": {"session.timeout.ms": 6000, "heartbeat.interval.ms": 200},
    "consumer": {},  # the broker says
}
FENCED = {"classic": "fenced by other consumer", "consumer": "instance ID is still used"}


class Static:
    """A consumer that keeps its instance id, and counts how often it is told what it owns."""

    def __init__(self, bootstrap: str, protocol: str, group: str, topic: str, instance: str) -> None:
        self.owned: set[int] = set()
        self.told = 0
        self.fenced = False
        self._protocol = protocol
        settings = {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "group.instance.id": instance,
            "group.protocol": protocol,
            "log_level": 0,
            **TIMING[protocol],
        }
        self._consumer = Consumer(settings)
        self._consumer.subscribe(
            [topic], on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._revoked
        )

    def poll(self) -> None:
        """A short turn; fatal is for this client what it cannot go on after."""
        message = self._consumer.poll(0.02)
        error = None if message is None else message.error()
        if error is not None and error.code() == KafkaError._FATAL:
            assert re.search(FENCED[self._protocol], error.str()), error
            self.fenced = True

    def close(self) -> None:
        """By which a static member does not leave for good."""
        self._consumer.close()

    def _assigned(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        self.told += 1
        self.owned |= {one.partition for one in partitions}

    def _revoked(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        self.told += 1
        self.owned -= {one.partition for one in partitions}


class Members:
    """Of one group."""

    def __init__(self, bootstrap: str, protocol: str, topic: str) -> None:
        self.there: list[Static] = []
        self._bootstrap = bootstrap
        self._protocol = protocol
        self._topic = topic
        self._group = f"static-{uuid.uuid4().hex[:8]}"

    def join(self, instance: str) -> Static:
        """Whether or not there is another of that name."""
        member = Static(self._bootstrap, self._protocol, self._group, self._topic, instance)
        self.there.append(member)
        return member

    def close(self, member: Static) -> None:
        """It may come back."""
        self.there.remove(member)
        member.close()

    def wait(self, is_so: Callable[[], object]) -> None:
        """Has everybody poll until it is so."""
        deadline = time.monotonic() + LIMIT_S
        while not is_so():
            assert time.monotonic() < deadline, [(member.owned, member.fenced) for member in self.there]
            for member in self.there:
                if not member.fenced:
                    member.poll()


@pytest.fixture(params=["classic", "consumer"])
def members(request: pytest.FixtureRequest, bootstrap: str, topic: TopicFactory) -> Iterator[Members]:
    members = Members(bootstrap, request.param, topic(PARTITIONS))
    yield members
    for member in members.there:
        member.close()


def test_who_comes_back_goes_on_and_a_twin_is_fenced(members: Members) -> None:
    stays, goes = members.join("stays"), members.join("goes")
    members.wait(lambda: len(stays.owned) == len(goes.owned) == PARTITIONS // 2)
    told, owned = stays.told, set(goes.owned)

    members.close(goes)
    back = members.join("goes")
    members.wait(lambda: back.owned == owned)

    twin = members.join("goes")
    members.wait(lambda: back.fenced or twin.fenced)
    # In the classic protocol the later member wins; in the other, the one that has the id.
    winner = back if twin.fenced else twin
    members.wait(lambda: winner.owned == owned)
    assert not winner.fenced
    assert stays.told == told


@pytest.mark.conformance
@pytest.mark.parametrize("protocol", ["eager", "consumer"])
def test_java(bootstrap: str, topic: TopicFactory, protocol: str) -> None:
    name, group = topic(PARTITIONS), f"static-{uuid.uuid4().hex[:8]}"
    with Programs(java(bootstrap)) as programs:
        host, ledger = programs.start(), programs.ledger
        for instance in ("stays", "goes"):
            host.join(instance, name, group, protocol, instance=instance)
        programs.wait(lambda it: [*map(len, it.owned.values())] == [2, 2], "both settle")
        tellings, owned = ledger.tellings["stays"], set(ledger.owned["goes"])

        host.leave("goes")
        programs.wait(lambda it: "goes" in it.left, "one goes")
        host.join("back", name, group, protocol, instance="goes")
        programs.wait(lambda it: it.owned.get("back") == owned, "it comes back")

        host.join("twin", name, group, protocol, instance="goes")
        programs.wait(lambda it: it.failures, "of the twins one is fenced")
        loser, error = (
            ("twin", "UnreleasedInstanceId") if protocol == "consumer" else ("back", "FencedInstanceId")
        )
        assert ledger.failures[0].startswith(loser), ledger.failures
        assert error in ledger.failures[0], ledger.failures
        assert ledger.tellings["stays"] == tellings
