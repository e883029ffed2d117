"""What a sequence has shown so far, by the names that both sides share; and the dice, which look at it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final, TypeVar

from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.schema import Message
from tests.conformance.differential.names import topic_token
from tests.conformance.differential.steps import PREFIX, Step, fit

T = TypeVar("T")
Versions = Mapping[int, tuple[int, int]]

LINES: Final = 4
UNKNOWN_ID: Final = b"?" * 16


@dataclass
class Topic:
    """A topic that exists, or did."""

    name: str
    token: bytes
    partitions: int
    ends: dict[int, int] = field(default_factory=dict)
    """The log end offsets that answers to Produce have shown."""


@dataclass
class Producer:
    """A producer id with an epoch, current or not."""

    transactional_id: str | None
    producer_id: int
    epoch: int
    next_sequences: dict[tuple[str, int], int] = field(default_factory=dict)
    partitions: set[tuple[str, int]] = field(default_factory=set)
    """What has been added to its transaction."""


@dataclass
class Member:
    """A member of a group, of either protocol; `generation` is its epoch in the newer one."""

    group: str
    member_id: str
    generation: int = -1
    instance_id: str | None = None
    leader: str = ""
    members: list[str] = field(default_factory=list)
    protocol: str = ""
    assigned: list[tuple[bytes, list[int]]] | None = None
    """What a heartbeat of the newer protocol has assigned last."""


@dataclass
class Session:
    """A fetch session and the epoch that its next request has."""

    session_id: int
    epoch: int


class World:
    """The state of one sequence, and its dice."""

    def __init__(self, dice: Random, versions: Versions) -> None:
        self.dice = dice
        self.versions = versions
        self.topics: dict[str, Topic] = {}
        self.gone: list[Topic] = []
        self.incarnations: dict[str, int] = {}
        self.producers: list[Producer] = []
        self.members: list[Member] = []
        self.groups: set[str] = set()
        """Those that have committed something."""
        self.consumer_groups: set[str] = set()
        """Those of the newer protocol, now or before."""
        self.sessions: list[Session] = []

    # ---- dice

    def chance(self, share: float) -> bool:
        """True in that share of all cases."""
        return self.dice.random() < share

    def one(self, choices: Sequence[T]) -> T:
        """One of them."""
        return self.dice.choice(choices)

    def mostly(self, usual: T, others: Sequence[T], share: float = 0.15) -> T:
        """The usual one, or sometimes another."""
        return self.dice.choice(others) if self.chance(share) else usual

    def version(self, key: int) -> int:
        """A version that both brokers serve: the latest a third of the time."""
        low, high = self.versions[key]
        return high if self.chance(0.33) else self.dice.randint(low, high)

    # ---- names

    def group(self) -> str:
        """One of few groups; rarely a name that is none."""
        return self.mostly(f"{PREFIX}-g{self.dice.randrange(3)}", ["", f"{PREFIX}-no-group"], 0.03)

    def transactional_id(self) -> str:
        """One of few transactional ids."""
        return f"{PREFIX}-x{self.dice.randrange(3)}"

    def topic(self, *, may_miss: float = 0.05) -> Topic:
        """A topic, as a rule one that exists."""
        if self.chance(may_miss) or not self.topics:
            if self.gone and self.chance(0.6):
                return self.one(self.gone)
            return Topic(f"{PREFIX}-none", UNKNOWN_ID, 1)
        return self.one(list(self.topics.values()))

    def some_topics(self, count: int) -> list[Topic]:
        """Topics, no name twice."""
        return list({topic.name: topic for topic in (self.topic() for _ in range(count))}.values())

    def partition(self, topic: Topic, *, may_miss: float = 0.04) -> int:
        """A partition of the topic, or one that it does not have."""
        if self.chance(may_miss):
            return self.one([topic.partitions, -1, 99, 2**31 - 1])
        return self.dice.randrange(topic.partitions)

    def offset(self, topic: Topic, partition: int) -> int:
        """An offset in or about the log of a partition."""
        end = topic.ends.get(partition, 0)
        if self.chance(0.5):
            return self.dice.randint(0, end)
        return self.one([0, end, max(0, end - 1), end + 1, -1, -2, 2**62, end])

    def leader_epoch(self) -> int:
        """A leader epoch; nobody ever moves a leader, so 0 is the right one."""
        return self.mostly(self.one([-1, 0]), [1, -2, 7, 2**31 - 1])

    def producer(self) -> Producer:
        """A producer, as a rule one that exists, and the latest ones more often."""
        if not self.producers or self.chance(0.04):
            return Producer(self.one([None, self.transactional_id()]), self.one([-1, 424_242, -2]), 0)
        if self.chance(0.6):
            return self.producers[-1]
        return self.one(self.producers)

    def member(self) -> Member:
        """A member of some group, the latest more often; or one that is none."""
        if not self.members or self.chance(0.03):
            return Member(self.group(), "stranger", 1)
        return self.members[-1] if self.chance(0.3) else self.one(self.members)

    def epoch_of(self, producer: Producer) -> int:
        """Its epoch, or one beside it."""
        return producer.epoch + self.mostly(0, [-1, 1, 2, -2, -3], 0.1)

    # ---- what answers show

    def created(self, name: str, partitions: int) -> None:
        """A topic is there now."""
        incarnation = self.incarnations.get(name, -1) + 1
        self.incarnations[name] = incarnation
        self.topics[name] = Topic(name, topic_token(name, incarnation), partitions)

    def deleted(self, name: str) -> None:
        """A topic is gone."""
        if name in self.topics:
            self.gone.append(self.topics.pop(name))

    def known_member(self, group: str, member_id: str) -> Member:
        """The member with that id, noted when it is new."""
        for member in self.members:
            if (member.group, member.member_id) == (group, member_id):
                return member
        self.members.append(Member(group, member_id))
        del self.members[:-8]
        return self.members[-1]

    def forget(self, group: str, member_ids: set[str]) -> None:
        """Members have left."""
        self.members = [
            member for member in self.members if member.group != group or member.member_id not in member_ids
        ]

    def name_of(self, topic_id: bytes) -> str:
        """The name of the topic with that id, or nothing."""
        known = [*self.topics.values(), *self.gone]
        return next((topic.name for topic in known if topic.token == topic_id), "")


def drawn(world: World, uid: int, request: Message, version: int | None = None) -> Step:
    """The request as a step, in a version that both brokers serve and cut down to it, on one of the connections."""
    assert request.api_key is not None
    chosen = world.version(ApiKey(request.api_key)) if version is None else version
    return Step(uid, world.dice.randrange(LINES), fit(request, chosen), chosen)


Answer = dict[str, Any]
