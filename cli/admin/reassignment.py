"""The computations of reassign-partitions: plans in files, proposals, and throttles while replicas move."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from barnabas.cli.admin.calls.reassignments import Reassignment
from barnabas.cli.admin.errors import BadFileError
from barnabas.cli.admin.files import FileEntry, read_partitions
from barnabas.cli.admin.names import ResourceType
from barnabas.cli.admin.partitions import TopicPartition

ANY_DIR: Final = "any"
LEADER_RATE: Final = "leader.replication.throttled.rate"
FOLLOWER_RATE: Final = "follower.replication.throttled.rate"
LOG_DIRS_RATE: Final = "replica.alter.log.dirs.io.max.bytes.per.second"
LEADER_REPLICAS: Final = "leader.replication.throttled.replicas"
FOLLOWER_REPLICAS: Final = "follower.replication.throttled.replicas"

Assignment = Mapping[TopicPartition, Sequence[int]]
Changes = dict[tuple[ResourceType, str], dict[str, str | None]]


class Replica(NamedTuple):
    """A partition on a broker."""

    broker: int
    partition: TopicPartition

    def __str__(self) -> str:
        return f"{self.partition}-{self.broker}"


class Plan(NamedTuple):
    """A file of --reassignment-json-file: the brokers and the log directories of each partition."""

    replicas: dict[TopicPartition, list[int]]
    log_dirs: dict[Replica, str]


def read_plan(path: Path, *, is_complete: bool) -> Plan:
    """The plan in a file; `is_complete`: it will be executed, and must be valid. Raises BadFileError."""
    plan = Plan({}, {})
    for entry in read_partitions(path):
        replicas = entry.list_of("replicas", int, path)
        dirs = (
            entry.list_of("log_dirs", str, path) if "log_dirs" in entry.fields else [ANY_DIR] * len(replicas)
        )
        if len(dirs) != len(replicas):
            raise BadFileError(
                f"{path}: Size of replicas list {replicas} is different from size of log dirs list {dirs} "
                f"for partition {entry.partition}"
            )
        if is_complete:
            _check_replicas(entry, replicas, path)
        plan.replicas[entry.partition] = replicas
        for broker, log_dir in zip(replicas, dirs, strict=True):
            if log_dir != ANY_DIR:
                plan.log_dirs[Replica(broker, entry.partition)] = log_dir
    if is_complete and not plan.replicas:
        raise BadFileError(f"{path}: Partition reassignment list cannot be empty")
    return plan


def _check_replicas(entry: FileEntry, replicas: Sequence[int], path: Path) -> None:
    if not replicas:
        raise BadFileError(
            f"{path}: Partition replica list cannot be empty, and that of {entry.partition} is"
        )
    if len(set(replicas)) != len(replicas):
        raise BadFileError(
            f"{path}: Partition replica lists may not contain duplicate entries: {entry.partition}"
        )


def plan_text(assignment: Assignment, log_dirs: Mapping[Replica, str]) -> str:
    """A plan as JSON, as Kafka's tool writes it."""
    partitions = [
        {
            "topic": each.topic,
            "partition": each.partition,
            "replicas": list(assignment[each]),
            "log_dirs": [log_dirs.get(Replica(broker, each), ANY_DIR) for broker in assignment[each]],
        }
        for each in sorted(assignment)
    ]
    return json.dumps({"version": 1, "partitions": partitions}, separators=(",", ":"))


def spread(
    current: Assignment, brokers: Sequence[int], *, draw: Callable[[int], int] = random.randrange
) -> dict[TopicPartition, list[int]]:
    """A proposal: each topic's partitions in turn over the brokers, second replicas shifted further each round.

    `AdminUtils.assignReplicasToBrokers` without racks. Raises ValueError for too few brokers.
    """
    proposed: dict[TopicPartition, list[int]] = {}
    for topic in sorted({each.topic for each in current}):
        partitions = sorted(each for each in current if each.topic == topic)
        count = len(current[partitions[0]])
        if count > len(brokers):
            raise ValueError(
                f"topic {topic!r} has {count} replicas, and there are only {len(brokers)} brokers"
            )
        start, shift = draw(len(brokers)), draw(len(brokers))
        for number, partition in enumerate(partitions):
            shift += number > 0 and number % len(brokers) == 0
            first = (number + start) % len(brokers)
            others = (1 + (shift + at) % max(len(brokers) - 1, 1) for at in range(count - 1))
            proposed[partition] = [
                brokers[first],
                *(brokers[(first + each) % len(brokers)] for each in others),
            ]
    return proposed


def throttles(
    current: Assignment, proposed: Assignment, moving: Mapping[TopicPartition, Reassignment], rate: int
) -> Changes:
    """The throttles of the moves: source and target replicas by topic, and the rate by broker."""
    changes: Changes = {}
    brokers: set[int] = set()
    for topic in sorted({each.topic for each in proposed}):
        leaders, followers = [], []
        for each in sorted(each for each in proposed if each.topic == topic):
            sources = _sources(current[each], moving.get(each))
            targets = [broker for broker in proposed[each] if broker not in sources]
            leaders += [f"{each.partition}:{broker}" for broker in sorted(sources)]
            followers += [f"{each.partition}:{broker}" for broker in sorted(targets)]
            brokers |= {*sources, *targets}
        changes[ResourceType.TOPIC, topic] = {
            name: ",".join(replicas)
            for name, replicas in ((LEADER_REPLICAS, leaders), (FOLLOWER_REPLICAS, followers))
            if replicas
        }
    for broker in sorted(brokers):
        changes[ResourceType.BROKER, str(broker)] = {LEADER_RATE: str(rate), FOLLOWER_RATE: str(rate)}
    return changes


def _sources(current: Sequence[int], move: Reassignment | None) -> set[int]:
    return set(current) if move is None else set(move.replicas) - set(move.adding)


def no_throttles(brokers: Iterable[int], topics: Iterable[str]) -> Changes:
    """Removes all throttles."""
    changes: Changes = {
        (ResourceType.BROKER, str(broker)): {LEADER_RATE: None, FOLLOWER_RATE: None, LOG_DIRS_RATE: None}
        for broker in sorted(brokers)
    }
    return changes | {
        (ResourceType.TOPIC, topic): {LEADER_REPLICAS: None, FOLLOWER_REPLICAS: None}
        for topic in sorted(topics)
    }
