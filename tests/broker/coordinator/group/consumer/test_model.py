"""Members join, leave, crash and lose responses: a partition never has two owners, and all get one in the end.

BARNABAS_CONSUMER_SEEDS sets the number of seeds.
"""

from __future__ import annotations

import os
from random import Random

import pytest

from barnabas.protocol.errors import ApiError
from barnabas.protocol.messages.consumer_groups import ConsumerGroupHeartbeatRequest as Request
from tests.broker.coordinator.group.consumer.consumer_harness import ConsumerHarness, id_of
from tests.support.chance import seeds

SEEDS = int(os.environ.get("BARNABAS_CONSUMER_SEEDS", "8"))
REBALANCE_MS = 20_000
SIZES = {"t": 5, "u": 3, "v": 1}

Partition = tuple[str, int]


class ModelConsumer:
    """A consumer that behaves as clients do: it revokes partitions at its leisure, and starts only on assigned ones.

    `owned` is what it works on, `told` its last assignment. A consumer that has missed a response sends a full
    heartbeat next, and starts on nothing new before that is answered. One that has not reached the coordinator
    for the session timeout, or has not revoked within the rebalance timeout, has lost its partitions.
    """

    def __init__(self, harness: ConsumerHarness, chance: Random, name: str) -> None:
        self.harness = harness
        self.chance = chance
        self.name = name
        self.instance = f"i-{name}" if chance.random() < 0.3 else None
        self.lives = 0
        self.epoch = 0
        self.owned: set[Partition] = set()
        self.told: set[Partition] | None = None
        self.is_in = False
        self.missed = False
        self.wants: dict[str, object] = {}
        self.heard_ms = 0
        self.revoking_since_ms: int | None = None

    @property
    def member_id(self) -> str:
        return f"{self.name}-{self.lives}"

    def act(self) -> None:
        """One action of a consumer."""
        if self.is_in and not self.is_live():
            self.abandon()
        luck = self.chance.random()
        if not self.is_in:
            self.join()
        elif luck < 0.04:
            self.abandon()  # killed
        elif luck < 0.08:
            self.leave()
        elif luck < 0.12:
            self.subscribe_anew()
        else:
            self.beat()

    def is_live(self) -> bool:
        """Whether it can be sure that it is still in the group."""
        since_ms = (
            self.heard_ms if self.revoking_since_ms is None else min(self.heard_ms, self.revoking_since_ms)
        )
        return self.harness.shard_harness.now_ms - since_ms < REBALANCE_MS

    def abandon(self) -> None:
        self.owned, self.told, self.is_in = set(), None, False
        self.missed, self.revoking_since_ms = False, None
        self.lives += 1
        self.epoch = 0

    def leave(self) -> None:
        epoch = -1
        if self.instance is not None and self.chance.random() < 0.7:
            epoch = -2
        self.say(member_epoch=epoch)
        self.abandon()

    def join(self) -> None:
        self.epoch = 0
        self.owned = set()
        self.wants = self.subscription()
        self.say(**self.wants, rebalance_timeout_ms=REBALANCE_MS, member_epoch=0)

    def subscribe_anew(self) -> None:
        self.wants = self.subscription()
        self.say(**self.wants)

    def subscription(self) -> dict[str, object]:
        if self.chance.random() < 0.2:
            return {
                "subscribed_topic_names": [],
                "subscribed_topic_regex": self.chance.choice(["[tu]", ".*"]),
            }
        names = self.chance.sample(list(SIZES), self.chance.randint(1, 3))
        return {"subscribed_topic_names": names, "subscribed_topic_regex": ""}

    def beat(self) -> None:
        self.reconcile()
        self.say()

    def reconcile(self) -> None:
        """Revokes at once, or later; starts on new partitions only after it has revoked the others."""
        if self.told is None or self.chance.random() < 0.3:
            return
        gone = self.owned - self.told
        if gone:
            self.owned -= gone
            self.revoking_since_ms = None
        else:
            self.owned = set(self.told)

    def say(self, **fields: object) -> None:
        by_topic: dict[str, list[int]] = {}
        for topic, partition in self.owned:
            by_topic.setdefault(topic, []).append(partition)
        base: dict[str, object] = {
            "member_epoch": self.epoch,
            "topic_partitions": [
                Request.TopicPartitions(topic_id=id_of(topic), partitions=partitions)
                for topic, partitions in by_topic.items()
            ],
        }
        if self.missed:
            base.update(self.wants, rebalance_timeout_ms=REBALANCE_MS)
        if self.chance.random() < 0.1:
            self.miss()
            return  # the request is lost
        request = Request(
            group_id="g",
            member_id=self.member_id,
            instance_id=self.instance,
            **{**base, **fields},  # type: ignore[arg-type]
        )
        try:
            response = self.harness.heartbeat(request)
        except ApiError:
            self.abandon()
            return
        if request.member_epoch < 0:
            return
        if self.chance.random() < 0.1:
            self.miss()
            return  # the answer is lost
        self.is_in, self.missed, self.epoch = True, False, response.member_epoch
        heard_before_ms, self.heard_ms = self.heard_ms, self.harness.shard_harness.now_ms
        if response.assignment is not None:
            told = self.harness.named(response.assignment.topic_partitions)
            self.told = {(topic, partition) for topic, partitions in told.items() for partition in partitions}
            if not self.owned - self.told:
                self.revoking_since_ms = None
            elif self.revoking_since_ms is None:
                self.revoking_since_ms = heard_before_ms  # the coordinator may have decided right after that

    def miss(self) -> None:
        """The result of its heartbeat is unknown."""
        self.missed, self.told = True, None


def check_owners(consumers: list[ModelConsumer]) -> None:
    """No partition has two owners."""
    seen: dict[Partition, str] = {}
    for consumer in consumers:
        if not consumer.is_live():
            continue
        for partition in consumer.owned:
            other = seen.setdefault(partition, consumer.name)
            assert other == consumer.name, f"{partition} is owned by {other} and by {consumer.name}"


@pytest.mark.parametrize("seed", seeds(SEEDS))
def test_a_partition_has_at_most_one_owner_and_finally_exactly_one(seed: int) -> None:
    chance = Random(seed)
    interval = chance.choice(["0", "1000"])
    harness = ConsumerHarness({"group.consumer.assignment.interval.ms": interval}, **SIZES)
    consumers = [ModelConsumer(harness, chance, f"c{at}") for at in range(chance.randint(2, 7))]
    for _ in range(250):
        chance.choice(consumers).act()
        check_owners(consumers)
        harness.advance(chance.choice([0, 0, 100, 1_000, 3_000]))
        if chance.random() < 0.02:
            harness.restart(compacted=chance.random() < 0.5)
        check_owners(consumers)
    settle(harness, consumers)


def settle(harness: ConsumerHarness, consumers: list[ModelConsumer]) -> None:
    """Without crashes and losses, every partition is owned within a minute or two."""
    for consumer in consumers:
        consumer.chance = _Calm()
    wanted: set[Partition] = set()
    for _ in range(40):
        for consumer in consumers:
            if not consumer.is_in:
                consumer.join()
            consumer.beat()
            check_owners(consumers)
        harness.advance(4_000)
    group = harness.group()
    for member in group.members.values():
        for topic in group.subscriptions.topics_of(member):
            wanted |= {(topic, partition) for partition in range(SIZES.get(topic, 0))}
    owned = [partition for consumer in consumers for partition in consumer.owned]
    assert sorted(owned) == sorted(wanted)
    assert group.state_name == "Stable"


class _Calm(Random):
    """Nothing unlikely happens."""

    def random(self) -> float:
        return 0.99
