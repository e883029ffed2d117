"""The rules of administering partitions: their number, their leaders, and the brokers of their replicas.

Pure functions from an image and a request to records, or to an ApiError. As in Kafka's controller a replica can be
moved to a broker that is registered and offline; the move stays open until that broker starts, or until it is
cancelled.
Source: org.apache.kafka.controller.ReplicationControlManager (createPartitions, electLeaders,
alterPartitionReassignments, listPartitionReassignments).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from barnabas.broker.controller.partition_change import CanLead, Election, Target, partition_change
from barnabas.broker.controller.topic_placement import (
    Brokers,
    Replicas,
    check_assignment,
    check_can_begin,
    new_partition,
    placed,
)
from barnabas.broker.metadata.image import MetadataImage
from barnabas.broker.metadata.topics import NO_LEADER, PartitionImage, TopicImage
from barnabas.broker.request import PartitionCharge
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages.topic_records import PartitionChangeRecord, PartitionRecord

IsUsable = Callable[[str, PartitionImage, int], bool]
"""Whether a node's replica of a partition (topic's name, partition, node id) could lead now."""


def topic_of(image: MetadataImage, name: str, missing: str) -> TopicImage:
    """Raises ApiError(UNKNOWN_TOPIC_OR_PARTITION) with the message `missing`."""
    topic = image.topics.get(name)
    if topic is None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, missing)
    return topic


def partition_to_move(image: MetadataImage, name: str, index: int) -> tuple[TopicImage, PartitionImage]:
    """Raises ApiError(UNKNOWN_TOPIC_OR_PARTITION), with Kafka's message for reassignments."""
    topic = topic_of(image, name, f"Unable to find a topic named {name}.")
    partition = topic.partitions.get(index)
    if partition is None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find partition {name}:{index}.")
    return topic, partition


def partition_to_lead(image: MetadataImage, name: str, index: int) -> tuple[TopicImage, PartitionImage]:
    """Raises ApiError(UNKNOWN_TOPIC_OR_PARTITION), with Kafka's message for elections."""
    topic = topic_of(image, name, f"No such topic as {name}")
    partition = topic.partitions.get(index)
    if partition is None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such partition as {name}-{index}")
    return topic, partition


# ---- more partitions


def new_partitions(
    image: MetadataImage,
    name: str,
    count: int,
    assignments: Sequence[Replicas] | None,
    brokers: Brokers,
    *,
    charge: PartitionCharge | None = None,
) -> list[PartitionRecord]:
    """The records that give a topic `count` partitions in all; `assignments` are the replicas of each that is new.

    `charge` is the client's quota, charged before replicas are placed, as in Kafka.

    Raises ApiError: UNKNOWN_TOPIC_OR_PARTITION, INVALID_PARTITIONS, INVALID_REPLICA_ASSIGNMENT,
    INVALID_REPLICATION_FACTOR, and what `charge` raises.
    """
    topic = topic_of(image, name, f"This server does not host this topic-partition: {name}")
    first = len(topic.partitions)
    if count == first:
        raise ApiError(ErrorCode.INVALID_PARTITIONS, f"Topic already has {first} partition(s).")
    if count < first:
        raise ApiError(
            ErrorCode.INVALID_PARTITIONS,
            f"The topic {name} currently has {first} partition(s); {count} would not be an increase.",
        )
    replication_factor = len(topic.partitions[0].replicas)
    if assignments is not None:
        _check_assignment_count(count - first, assignments)
    if charge is not None:
        charge(name, count - first)
    if assignments is None:
        assignments = placed(first, count - first, replication_factor, brokers)
    else:
        _check_assigned(first, assignments, replication_factor, brokers)
    return [
        new_partition(first + number, nodes, brokers).record(topic.topic_id)
        for number, nodes in enumerate(assignments)
    ]


def _check_assignment_count(count: int, assignments: Sequence[Replicas]) -> None:
    if len(assignments) != count:
        raise ApiError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Attempted to add {count} additional partition(s), but only {len(assignments)} assignment(s) were "
            "specified.",
        )


def _check_assigned(
    first: int, assignments: Sequence[Replicas], replication_factor: int, brokers: Brokers
) -> None:
    for number, replicas in enumerate(assignments):
        check_assignment(replicas, brokers, replication_factor)
        check_can_begin(first + number, replicas, brokers)


# ---- leaders


def elect_leader(
    image: MetadataImage, name: str, index: int, election: Election, is_usable: IsUsable
) -> PartitionChangeRecord:
    """The record that makes the preferred replica the leader, or (UNCLEAN) any replica where there is no leader.

    Raises ApiError: UNKNOWN_TOPIC_OR_PARTITION, ELECTION_NOT_NEEDED, PREFERRED_LEADER_NOT_AVAILABLE,
    ELIGIBLE_LEADERS_NOT_AVAILABLE.
    """
    topic, partition = partition_to_lead(image, name, index)
    if election is Election.PREFERRED:
        is_led, missing = partition.leader == partition.replicas[0], ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    else:
        is_led, missing = partition.leader != NO_LEADER, ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
    if is_led and is_usable(name, partition, partition.leader):
        raise ApiError(
            ErrorCode.ELECTION_NOT_NEEDED,
            f"Leader election not needed for topic partition. {name}-{index} is led by node {partition.leader}.",
        )
    if is_led:  # in the metadata only: its disk has failed
        raise _no_leader(missing, name, index)
    record = partition_change(
        topic.topic_id, partition, Target.of(partition), _can_lead(name, partition, is_usable), election
    )
    if record is None:
        raise _no_leader(missing, name, index)
    return record


def _no_leader(missing: ErrorCode, name: str, index: int) -> ApiError:
    preferred = missing is ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    what = "The preferred leader was" if preferred else "Eligible topic partition leaders are"
    return ApiError(missing, f"{what} not available. No such replica could lead {name}-{index}.")


def _can_lead(name: str, partition: PartitionImage, is_usable: IsUsable) -> CanLead:
    return lambda node: is_usable(name, partition, node)


# ---- moves of replicas


def is_reassigning(partition: PartitionImage) -> bool:
    """Whether replicas of the partition are on the move."""
    return bool(partition.adding_replicas or partition.removing_replicas)


def reassign(
    image: MetadataImage,
    name: str,
    index: int,
    replicas: Replicas,
    *,
    brokers: Brokers,
    is_usable: IsUsable,
    may_change_count: bool,
) -> PartitionChangeRecord | None:
    """The record that begins to move a partition to `replicas`, or completes the move; None where nothing changes.

    Raises ApiError: UNKNOWN_TOPIC_OR_PARTITION, INVALID_REPLICA_ASSIGNMENT, and INVALID_REPLICATION_FACTOR for another
    number of replicas unless that `may_change_count`.
    """
    topic, partition = partition_to_move(image, name, index)
    check_assignment(replicas, brokers)
    staying = (set(partition.replicas) | set(partition.adding_replicas)) - set(partition.removing_replicas)
    if not may_change_count and len(staying) != len(replicas):
        raise ApiError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"{name}-{index} has {len(staying)} replicas, and {len(replicas)} would be another number.",
        )
    removing = sorted(set(partition.replicas) - set(replicas))
    adding = sorted(set(replicas) - set(partition.replicas))
    # Replicas that an earlier move is adding and this one keeps.
    adding = sorted({*adding, *(set(partition.adding_replicas) & set(replicas))})
    target = Target((*replicas, *removing), partition.isr, adding, removing)
    return partition_change(topic.topic_id, partition, target, _can_lead(name, partition, is_usable))


def cancel_reassignment(
    image: MetadataImage, name: str, index: int, is_usable: IsUsable, *, may_lose: bool
) -> PartitionChangeRecord | None:
    """The record that cancels a move. `may_lose`: unclean.leader.election.enable of the topic.

    Raises ApiError: UNKNOWN_TOPIC_OR_PARTITION, NO_REASSIGNMENT_IN_PROGRESS, and INVALID_REPLICA_ASSIGNMENT where only
    replicas that would be removed are in sync.
    """
    topic, partition = partition_to_move(image, name, index)
    if not is_reassigning(partition):
        raise ApiError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, f"No replica of {name}-{index} is on the move.")
    replicas = [node for node in partition.replicas if node not in partition.adding_replicas]
    isr = [node for node in partition.isr if node not in partition.adding_replicas]
    if not isr and not (may_lose and replicas):
        raise ApiError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Only replicas that were to be added are in sync in {name}-{index}; without them records would be lost.",
        )
    target = Target(replicas, isr or replicas[:1])
    election = Election.UNCLEAN if may_lose else Election.ONLINE
    can_lead = _can_lead(name, partition, is_usable)
    return partition_change(topic.topic_id, partition, target, can_lead, election)


def reassignments(
    image: MetadataImage, asked: Iterable[tuple[str, Sequence[int]]] | None
) -> Iterator[tuple[str, list[PartitionImage]]]:
    """The partitions whose replicas are on the move, by topic: of the requested ones that exist, or (None) of all."""
    wanted = (
        asked
        if asked is not None
        else ((name, list(topic.partitions)) for name, topic in image.topics.items())
    )
    for name, indexes in wanted:
        topic = image.topics.get(name)
        if topic is None:
            continue
        moving = [
            partition
            for index in indexes
            if (partition := topic.partitions.get(index)) is not None and is_reassigning(partition)
        ]
        if moving:
            yield name, moving
