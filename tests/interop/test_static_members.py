"""Static members (KIP-345): one that returns in time continues without a rebalance, and of two with the same
group.instance.id one is fenced."""

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
    "consumer": {},  # the broker decides
}
FENCED = {"classic": "fenced by other consumer", "consumer": "instance ID is still used"}


class Static:
    """A static member; counts the changes of its assignment."""

    def __init__(self, bootstrap: str, protocol: str, group: str, topic: str, instance: str) -> None:
        self.owned: set[int] = set()
        self.assignment_changes = 0
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
        """Polls once. librdkafka reports fencing as a fatal error."""
        message = self._consumer.poll(0.02)
        error = None if message is None else message.error()
        if error is not None and error.code() == KafkaError._FATAL:
            assert re.search(FENCED[self._protocol], error.str()), error
            self.fenced = True

    def close(self) -> None:
        """Closes the consumer; a static member stays in the group."""
        self._consumer.close()

    def _assigned(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        self.assignment_changes += 1
        self.owned |= {one.partition for one in partitions}

    def _revoked(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        self.assignment_changes += 1
        self.owned -= {one.partition for one in partitions}


class Members:
    """The members of one group."""

    def __init__(self, bootstrap: str, protocol: str, topic: str) -> None:
        self.active: list[Static] = []
        self._bootstrap = bootstrap
        self._protocol = protocol
        self._topic = topic
        self._group = f"static-{uuid.uuid4().hex[:8]}"

    def join(self, instance: str) -> Static:
        """Adds a member, even if another has the same instance id."""
        member = Static(self._bootstrap, self._protocol, self._group, self._topic, instance)
        self.active.append(member)
        return member

    def close(self, member: Static) -> None:
        """Closes a member, which may return."""
        self.active.remove(member)
        member.close()

    def wait(self, condition: Callable[[], object]) -> None:
        """Polls all members until the condition holds."""
        deadline = time.monotonic() + LIMIT_S
        while not condition():
            assert time.monotonic() < deadline, [(member.owned, member.fenced) for member in self.active]
            for member in self.active:
                if not member.fenced:
                    member.poll()


@pytest.fixture(params=["classic", "consumer"])
def members(request: pytest.FixtureRequest, bootstrap: str, topic: TopicFactory) -> Iterator[Members]:
    members = Members(bootstrap, request.param, topic(PARTITIONS))
    yield members
    for member in members.active:
        member.close()


def test_a_returning_member_keeps_its_partitions_and_a_duplicate_is_fenced(members: Members) -> None:
    stays, goes = members.join("stays"), members.join("goes")
    members.wait(lambda: len(stays.owned) == len(goes.owned) == PARTITIONS // 2)
    changes, owned = stays.assignment_changes, set(goes.owned)

    members.close(goes)
    back = members.join("goes")
    members.wait(lambda: back.owned == owned)

    duplicate = members.join("goes")
    members.wait(lambda: back.fenced or duplicate.fenced)
    # In the classic protocol the later member wins; in the other, the earlier one.
    winner = back if duplicate.fenced else duplicate
    members.wait(lambda: winner.owned == owned)
    assert not winner.fenced
    assert stays.assignment_changes == changes


@pytest.mark.conformance
@pytest.mark.parametrize("protocol", ["eager", "consumer"])
def test_java(bootstrap: str, topic: TopicFactory, protocol: str) -> None:
    name, group = topic(PARTITIONS), f"static-{uuid.uuid4().hex[:8]}"
    with Programs(java(bootstrap)) as programs:
        host, ledger = programs.start(), programs.ledger
        for instance in ("stays", "goes"):
            host.join(instance, name, group, protocol, instance=instance)
        programs.wait(lambda it: [*map(len, it.owned.values())] == [2, 2], "both have partitions")
        count, owned = ledger.assignment_counts["stays"], set(ledger.owned["goes"])

        host.leave("goes")
        programs.wait(lambda it: "goes" in it.left, "one goes")
        host.join("back", name, group, protocol, instance="goes")
        programs.wait(lambda it: it.owned.get("back") == owned, "it comes back")

        host.join("duplicate", name, group, protocol, instance="goes")
        programs.wait(lambda it: it.failures, "one of the two is fenced")
        loser, error = (
            ("duplicate", "UnreleasedInstanceId") if protocol == "consumer" else ("back", "FencedInstanceId")
        )
        assert ledger.failures[0].startswith(loser), ledger.failures
        assert error in ledger.failures[0], ledger.failures
        assert ledger.assignment_counts["stays"] == count
