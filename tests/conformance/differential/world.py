"""The state that the responses of a sequence have shown, by shared names, and random choices that fit it."""

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

CONNECTIONS: Final = 4
UNKNOWN_ID: Final = b"?" * 16


@dataclass
class Topic:
    """A topic that exists or has existed."""

    name: str
    token: bytes
    partitions: int
    ends: dict[int, int] = field(default_factory=dict)
    """The log end offsets by the responses to Produce."""


@dataclass
class Producer:
    """A producer id with an epoch, current or not."""

    transactional_id: str | None
    producer_id: int
    epoch: int
    next_sequences: dict[tuple[str, int], int] = field(default_factory=dict)
    partitions: set[tuple[str, int]] = field(default_factory=set)
    """The partitions that have been added to its transaction."""


@dataclass
class Member:
    """A member of a group; `generation` is the member epoch in the consumer protocol."""

    group: str
    member_id: str
    generation: int = -1
    instance_id: str | None = None
    leader: str = ""
    members: list[str] = field(default_factory=list)
    protocol: str = ""
    assigned: list[tuple[bytes, list[int]]] | None = None
    """The assignment in the last heartbeat of the consumer protocol."""


@dataclass
class Session:
    """A fetch session and the epoch of its next request."""

    session_id: int
    epoch: int


class World:
    """The state of one sequence, and its random generator."""

    def __init__(self, dice: Random, versions: Versions) -> None:
        self.dice = dice
        self.versions = versions
        self.topics: dict[str, Topic] = {}
        self.gone: list[Topic] = []
        self.incarnations: dict[str, int] = {}
        self.producers: list[Producer] = []
        self.members: list[Member] = []
        self.groups: set[str] = set()
        """Groups that have committed offsets."""
        self.consumer_groups: set[str] = set()
        """Groups that are or were of the consumer protocol."""
        self.sessions: list[Session] = []

    # ---- dice

    def chance(self, share: float) -> bool:
        """True with that probability."""
        return self.dice.random() < share

    def one(self, choices: Sequence[T]) -> T:
        """A random element."""
        return self.dice.choice(choices)

    def mostly(self, usual: T, others: Sequence[T], share: float = 0.15) -> T:
        """The usual value, or with probability `share` one of the others."""
        return self.dice.choice(others) if self.chance(share) else usual

    def version(self, key: int) -> int:
        """A version that both brokers serve: the latest in a third of all cases."""
        low, high = self.versions[key]
        return high if self.chance(0.33) else self.dice.randint(low, high)

    # ---- names

    def group(self) -> str:
        """One of few groups; rarely an invalid or unknown name."""
        return self.mostly(f"{PREFIX}-g{self.dice.randrange(3)}", ["", f"{PREFIX}-no-group"], 0.03)

    def transactional_id(self) -> str:
        """One of few transactional ids."""
        return f"{PREFIX}-x{self.dice.randrange(3)}"

    def topic(self, *, may_miss: float = 0.05) -> Topic:
        """A topic, mostly one that exists."""
        if self.chance(may_miss) or not self.topics:
            if self.gone and self.chance(0.6):
                return self.one(self.gone)
            return Topic(f"{PREFIX}-none", UNKNOWN_ID, 1)
        return self.one(list(self.topics.values()))

    def some_topics(self, count: int) -> list[Topic]:
        """Topics with different names."""
        return list({topic.name: topic for topic in (self.topic() for _ in range(count))}.values())

    def partition(self, topic: Topic, *, may_miss: float = 0.04) -> int:
        """A partition of the topic, or rarely one that it does not have."""
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
        """A leader epoch; no leader ever moves, so that 0 is the right one."""
        return self.mostly(self.one([-1, 0]), [1, -2, 7, 2**31 - 1])

    def producer(self) -> Producer:
        """A producer, mostly one that exists, and the latest more often."""
        if not self.producers or self.chance(0.04):
            return Producer(self.one([None, self.transactional_id()]), self.one([-1, 424_242, -2]), 0)
        if self.chance(0.6):
            return self.producers[-1]
        return self.one(self.producers)

    def member(self) -> Member:
        """A member of some group, the latest more often; rarely one that does not exist."""
        if not self.members or self.chance(0.03):
            return Member(self.group(), "stranger", 1)
        return self.members[-1] if self.chance(0.3) else self.one(self.members)

    def epoch_of(self, producer: Producer) -> int:
        """The producer's epoch, or rarely another."""
        return producer.epoch + self.mostly(0, [-1, 1, 2, -2, -3], 0.1)

    # ---- what responses show

    def add_topic(self, name: str, partitions: int) -> None:
        """Adds a topic that was created."""
        incarnation = self.incarnations.get(name, -1) + 1
        self.incarnations[name] = incarnation
        self.topics[name] = Topic(name, topic_token(name, incarnation), partitions)

    def remove_topic(self, name: str) -> None:
        """Removes a topic that was deleted."""
        if name in self.topics:
            self.gone.append(self.topics.pop(name))

    def known_member(self, group: str, member_id: str) -> Member:
        """The member with that id, added when it is new."""
        for member in self.members:
            if (member.group, member.member_id) == (group, member_id):
                return member
        self.members.append(Member(group, member_id))
        del self.members[:-8]
        return self.members[-1]

    def remove_members(self, group: str, member_ids: set[str]) -> None:
        """Removes members that have left."""
        self.members = [
            member for member in self.members if member.group != group or member.member_id not in member_ids
        ]

    def name_of(self, topic_id: bytes) -> str:
        """The name of the topic with that id, or ""."""
        known = [*self.topics.values(), *self.gone]
        return next((topic.name for topic in known if topic.token == topic_id), "")


def make_step(world: World, uid: int, request: Message, version: int | None = None) -> Step:
    """A step on one of the connections, with the fields of a version that both brokers serve."""
    assert request.api_key is not None
    chosen = world.version(ApiKey(request.api_key)) if version is None else version
    return Step(uid, world.dice.randrange(CONNECTIONS), fit(request, chosen), chosen)


Answer = dict[str, Any]
