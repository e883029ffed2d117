"""The record that changes a partition to a target: elections, and the completion of moves.

Pure functions. Source: org.apache.kafka.controller.PartitionChangeBuilder, PartitionReassignmentReplicas.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence

from barnabas.broker.metadata.topics import NO_LEADER, NO_LEADER_CHANGE, RECOVERING, PartitionImage
from barnabas.protocol.messages.topic_records import PartitionChangeRecord
from barnabas.protocol.wire import ZERO_UUID, Uuid

CanLead = Callable[[int], bool]
"""Whether a node is online and can use its replica of the partition."""


class Election(enum.Enum):
    """How the leader of a changed partition is chosen."""

    PREFERRED = "preferred"
    """The first of the replicas, if it is in sync."""
    ONLINE = "online"
    """The current leader if it can lead; else the first replica in sync."""
    UNCLEAN = "unclean"
    """As ONLINE, but any online replica where none in sync can lead: records of the others are lost."""


class Target:
    """The target of a change: replicas, ISR, and the replicas that are added and removed."""

    def __init__(
        self,
        replicas: Sequence[int],
        isr: Sequence[int],
        adding: Sequence[int] = (),
        removing: Sequence[int] = (),
    ) -> None:
        self.replicas = tuple(replicas)
        self.isr = tuple(isr)
        self.adding = tuple(adding)
        self.removing = tuple(removing)

    @classmethod
    def of(cls, partition: PartitionImage) -> Target:
        """The partition as it is."""
        return cls(partition.replicas, partition.isr, partition.adding_replicas, partition.removing_replicas)

    def completed(self) -> Target:
        """The end of the move, where all replicas that stay are in sync already; else this target as it is."""
        isr = tuple(node for node in self.isr if node not in self.removing)
        replicas = tuple(node for node in self.replicas if node not in self.removing)
        moves = bool(self.adding or self.removing)
        return Target(replicas, isr) if moves and replicas and set(replicas) <= set(isr) else self


def partition_change(
    topic_id: Uuid,
    partition: PartitionImage,
    target: Target,
    can_lead: CanLead,
    election: Election = Election.ONLINE,
) -> PartitionChangeRecord | None:
    """The record that brings `partition` to `target`, or to the end of the move where that is reached; None: no change.

    The ISR is that of `target`, or an unclean leader alone.
    """
    target = target.completed()
    record = PartitionChangeRecord(topic_id=topic_id, partition_id=partition.partition)
    leader, isr = _elect(partition, target, can_lead, election)
    if leader != partition.leader:
        record.leader = leader
    elif not set(partition.replicas) <= set(target.replicas):
        record.leader = partition.leader  # a new epoch, which fences removed replicas
    if isr != partition.isr and isr:
        record.isr = list(isr)
    if leader != NO_LEADER and leader not in target.isr and leader not in partition.elr:
        record.leader_recovery_state = RECOVERING
    _set_assignment(record, partition, target)
    elr = tuple(node for node in partition.elr if node in target.replicas and node not in isr)
    if elr != partition.elr:
        record.eligible_leader_replicas = list(elr)
    if partition.last_known_elr and leader != NO_LEADER:
        record.last_known_elr = []
    return None if _is_no_change(record) else record


def _elect(
    partition: PartitionImage, target: Target, can_lead: CanLead, election: Election
) -> tuple[int, tuple[int, ...]]:
    """The leader, or NO_LEADER, and the ISR that goes with it."""
    eligible = target.isr or partition.elr
    candidates = [partition.leader, *target.replicas]
    if election is Election.PREFERRED:
        candidates.insert(0, target.replicas[0])
    for node in candidates:
        if node in eligible and can_lead(node):
            return node, target.isr or (node,)
    if election is Election.UNCLEAN:
        for node in target.replicas:
            if can_lead(node):
                return node, (node,)
    return NO_LEADER, target.isr


def _set_assignment(record: PartitionChangeRecord, partition: PartitionImage, target: Target) -> None:
    if target.replicas != partition.replicas:
        record.replicas = list(target.replicas)
        record.directories = [
            partition.directory_of(node) if node in partition.replicas else ZERO_UUID
            for node in target.replicas
        ]
    if target.removing != partition.removing_replicas:
        record.removing_replicas = list(target.removing)
    if target.adding != partition.adding_replicas:
        record.adding_replicas = list(target.adding)


def _is_no_change(record: PartitionChangeRecord) -> bool:
    return record.leader == NO_LEADER_CHANGE and all(
        changed is None
        for changed in (
            record.isr,
            record.replicas,
            record.removing_replicas,
            record.adding_replicas,
            record.directories,
            record.eligible_leader_replicas,
            record.last_known_elr,
        )
    )
