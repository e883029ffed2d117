"""Consumer groups beside Apache Kafka's classes: assignments, hashes of topics, regular expressions."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator, Mapping

import pytest

from barnabas.broker.coordinator.group.consumer.assignors import ASSIGNORS
from barnabas.broker.coordinator.group.consumer.assignors.spec import GroupSpec, MemberSpec
from barnabas.broker.coordinator.group.consumer.consumer_member import NOTHING, Partitions
from barnabas.broker.coordinator.group.consumer.metadata_hash import TopicHashes, topic_hash
from barnabas.broker.coordinator.group.consumer.regexes import check_regex, resolve
from barnabas.broker.coordinator.java_order import map_order, string_hash
from barnabas.broker.metadata.image import MetadataImage
from barnabas.broker.metadata.replay import replayed
from barnabas.protocol.errors import ApiError
from barnabas.protocol.messages.cluster_records import RegisterBrokerRecord
from barnabas.protocol.messages.topic_records import PartitionRecord, TopicRecord
from barnabas.protocol.wire import Uuid
from tests.conformance.java_groups import JavaGroups

pytestmark = pytest.mark.conformance

SEEDS = int(os.environ.get("BARNABAS_ASSIGNMENTS", "60"))
"""The number of groups to assign, each several times while members come and go."""


@pytest.fixture(scope="module")
def java() -> Iterator[JavaGroups]:
    java = JavaGroups()
    yield java
    java.close()


class RandomGroup:
    """A group whose members and topics change; members own the last assignment."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.partitions = {chance.randbytes(16): self._size() for _ in range(chance.randint(1, 6))}
        self.is_homogeneous = chance.random() < 0.5
        self.members: dict[str, tuple[str | None, frozenset[Uuid]]] = {}
        self.target: dict[str, Partitions] = {}

    def _size(self) -> int:
        return self.chance.choice([1, 2, 3, 7, 20, 50, 130])

    def change(self) -> None:
        """Adds and removes members, changes subscriptions, adds partitions."""
        for _ in range(self.chance.choice([1, 1, 2, 5, 20])):
            member_id = f"{self.chance.getrandbits(60):x}"
            instance = f"i{self.chance.getrandbits(20)}" if self.chance.random() < 0.3 else None
            self.members[member_id] = (instance, self._subscription())
        for member_id in list(self.members):
            if self.chance.random() < 0.2 and len(self.members) > 1:
                del self.members[member_id]
                self.target.pop(member_id, None)
            elif self.chance.random() < 0.2 and not self.is_homogeneous:
                self.members[member_id] = (self.members[member_id][0], self._subscription())
        for topic_id in self.partitions:
            if self.chance.random() < 0.1:
                self.partitions[topic_id] += self._size()

    def _subscription(self) -> frozenset[Uuid]:
        if self.is_homogeneous:
            return frozenset(self.partitions)
        return frozenset(
            self.chance.sample(list(self.partitions), self.chance.randint(0, len(self.partitions)))
        )

    def spec(self) -> GroupSpec:
        assigned: dict[Uuid, set[int]] = {}
        for partitions in self.target.values():
            for topic_id, indexes in partitions.items():
                assigned.setdefault(topic_id, set()).update(indexes)
        members = {
            member_id: MemberSpec(topics, self.target.get(member_id, NOTHING), instance)
            for member_id, (instance, topics) in self.members.items()
        }
        wanted = frozenset[Uuid]().union(*(topics for _, topics in self.members.values()))
        counts = {topic_id: size for topic_id, size in self.partitions.items() if topic_id in wanted}
        ordered = {member_id: members[member_id] for member_id in map_order(members, string_hash)}
        return GroupSpec(ordered, counts, self.is_homogeneous, assigned)


def without_empty_members(assigned: Mapping[str, Partitions]) -> dict[str, Partitions]:
    return {member_id: dict(partitions) for member_id, partitions in assigned.items() if partitions}


@pytest.mark.parametrize("name", ["uniform", "range"])
def test_assignors_assign_as_kafkas_do(name: str, java: JavaGroups) -> None:
    for seed in range(SEEDS):
        group = RandomGroup(random.Random(f"{name} {seed}"))
        for round_ in range(5):
            group.change()
            spec = group.spec()
            ours = without_empty_members(ASSIGNORS[name](spec))
            assert ours == java.assign(name, spec), f"seed {seed}, round {round_}"
            group.target = {member_id: ours.get(member_id, NOTHING) for member_id in group.members}


def test_hashes_of_topics_are_kafkas(java: JavaGroups) -> None:
    chance = random.Random(7)
    racks = ["a", None, "rack-\N{GREEK SMALL LETTER ALPHA}\N{GRINNING FACE}", "b" * 300, "a", ""]
    topics = {
        name: (chance.randbytes(16), partitions, chance.sample(range(len(racks)), replicas))
        for name, partitions, replicas in [
            ("t", 1, 1),
            ("T-2", 3, 0),
            ("a.b_c", 16, 3),
            ("long" * 60, 40, 6),
            ("many", 500, 2),
            ("z", 0, 0),
        ]
    }
    image, _ = replayed(
        MetadataImage.empty(),
        [
            *(RegisterBrokerRecord(broker_id=at, rack=rack) for at, rack in enumerate(racks)),
            *(TopicRecord(name=name, topic_id=topic_id) for name, (topic_id, _, _) in topics.items()),
            *(
                PartitionRecord(partition_id=index, topic_id=topic_id, replicas=replicas, isr=replicas)
                for topic_id, partitions, replicas in topics.values()
                for index in range(partitions)
            ),
        ],
    )
    each, together = java.hashes(racks, topics)
    assert [topic_hash(image.topics[name], image.brokers) for name in topics] == each
    assert TopicHashes().group_hash([*topics, "gone"], image) == together


NAMES = [
    "orders",
    "orders-eu",
    "Orders",
    "a.b",
    "a-b",
    "ab",
    "x1",
    "x12",
    "__consumer_offsets",
    "_",
    "n" * 249,
]
PATTERNS = [
    "orders.*", "orders", "(?i)orders(-\\w+)?", "a.b", "a\\.b", "[^_].*", "x\\d+", "x[[:digit:]]{2}", ".*", "", "a|b",
    "(?:a|x).*", "^orders$", "\\Aorders\\z", "\\Qa.b\\E", "n{249}", "n{1000}", "n{1001}", "(", "[a", "a**", "*",
    "\\pL+", "\\p{Greek}", "\\p{Nope}", "(?P<x>a).*", "(?<x>a).*", "(?=a)", "\\1", "x++", "[[:word:].-]+", "(?s).*",
    "\\x41", "a{2,1}", "(a*)*", "[z-a]", "(?i)[o-p].*", "\\bab\\b", "\\d+", "[\\d\\-]+", "(?U)a.*?",
]  # fmt: skip


def test_regular_expressions_match_as_in_kafka(java: JavaGroups) -> None:
    records = [TopicRecord(name=name, topic_id=bytes([at] * 16)) for at, name in enumerate(NAMES)]
    image, _ = replayed(MetadataImage.empty(), records)
    different = []
    for pattern in PATTERNS:
        expected = java.matches(pattern, NAMES)
        try:
            check_regex(pattern)
            topics = resolve([pattern], image, 0)[pattern].topics
            ours: list[bool] | None = [name in topics for name in NAMES]
        except ApiError:
            ours = None
        if ours != expected:
            different.append((pattern, ours, expected))
    assert different == []


def test_regular_expression_that_needs_too_much_memory_is_rejected(java: JavaGroups) -> None:
    """Kafka compiles it to a million instructions, within the limit of its heap; here RE2 itself has a limit."""
    greedy = "((a{100}){100}){100}"
    assert java.matches(greedy, ["a"]) == [False]
    with pytest.raises(ApiError, match="INVALID_REGULAR_EXPRESSION"):
        check_regex(greedy)


@pytest.mark.parametrize(
    ("pattern", "is_valid_in_kafka"),
    [("\\C+", False), ("(?P<n>a)(?P<n>b)", False), ("{+", False), ("\\é", True)],
)
def test_known_regular_expressions_are_valid_on_one_side_only(
    java: JavaGroups, pattern: str, is_valid_in_kafka: bool
) -> None:
    """RE2 and Kafka's Java version of it disagree on the patterns in docs/differences.md."""
    assert (java.matches(pattern, ["a"]) is not None) is is_valid_in_kafka
    try:
        check_regex(pattern)
        ours = True
    except ApiError:
        ours = False
    assert ours is not is_valid_in_kafka
