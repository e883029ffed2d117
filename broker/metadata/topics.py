"""TopicImage and PartitionImage: a topic's registration and that of its partitions, replayed from metadata records.

Source: org.apache.kafka.image.TopicImage, org.apache.kafka.metadata.PartitionRegistration.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from barnabas.protocol.messages.topic_records import PartitionChangeRecord, PartitionRecord, TopicRecord
from barnabas.protocol.schema import Message
from barnabas.protocol.wire import ZERO_UUID, Uuid

NO_LEADER: Final = -1
NO_LEADER_CHANGE: Final = -2
"""What PartitionChangeRecord.leader holds when the record does not change the leader or the epoch."""

RECOVERED: Final = 0
RECOVERING: Final = 1
"""LeaderRecoveryState: RECOVERING from an unclean election until the new leader has recovered."""

_NO_RECOVERY_CHANGE: Final = -1

_known_tuples: dict[tuple[int, ...], tuple[int, ...]] = {}
_known_ids: dict[tuple[Uuid, ...], tuple[Uuid, ...]] = {}
_KNOWN_AT_MOST: Final = 10_000


def _nodes(nodes: Iterable[int]) -> tuple[int, ...]:
    """The tuple of these node ids; shared by all partitions with the same replicas."""
    found = tuple(nodes)
    if len(_known_tuples) >= _KNOWN_AT_MOST:
        _known_tuples.clear()
    return _known_tuples.setdefault(found, found)


def _ids(ids: Iterable[Uuid]) -> tuple[Uuid, ...]:
    found = tuple(ids)
    if len(_known_ids) >= _KNOWN_AT_MOST:
        _known_ids.clear()
    return _known_ids.setdefault(found, found)


class PartitionImage:
    """One partition's registration: replicas, ISR, leader and epochs.

    `elr` are the eligible leader replicas and `last_known_elr` those before the last of them left (KIP-966);
    `directories` is parallel to `replicas`, or empty where they are not known (KIP-858).
    """

    __slots__ = (
        "adding_replicas",
        "directories",
        "elr",
        "isr",
        "last_known_elr",
        "leader",
        "leader_epoch",
        "leader_recovery_state",
        "partition",
        "partition_epoch",
        "removing_replicas",
        "replicas",
    )

    def __init__(
        self,
        partition: int,
        *,
        replicas: Iterable[int],
        isr: Iterable[int],
        leader: int,
        leader_epoch: int,
        partition_epoch: int,
        directories: Iterable[Uuid] = (),
        removing_replicas: Iterable[int] = (),
        adding_replicas: Iterable[int] = (),
        leader_recovery_state: int = RECOVERED,
        elr: Iterable[int] = (),
        last_known_elr: Iterable[int] = (),
    ) -> None:
        self.partition = partition
        self.replicas = _nodes(replicas)
        self.isr = _nodes(isr)
        self.leader = leader
        self.leader_epoch = leader_epoch
        self.partition_epoch = partition_epoch
        self.directories = _ids(directories)
        self.removing_replicas = _nodes(removing_replicas)
        self.adding_replicas = _nodes(adding_replicas)
        self.leader_recovery_state = leader_recovery_state
        self.elr = _nodes(elr)
        self.last_known_elr = _nodes(last_known_elr)

    @classmethod
    def of(cls, record: PartitionRecord) -> PartitionImage:
        return cls(
            record.partition_id,
            replicas=record.replicas,
            isr=record.isr,
            leader=record.leader,
            leader_epoch=record.leader_epoch,
            partition_epoch=record.partition_epoch,
            directories=record.directories or (),
            removing_replicas=record.removing_replicas or (),
            adding_replicas=record.adding_replicas or (),
            leader_recovery_state=record.leader_recovery_state,
            elr=record.eligible_leader_replicas or (),
            last_known_elr=record.last_known_elr or (),
        )

    def changed(self, record: PartitionChangeRecord) -> PartitionImage:
        """The partition after `record`: a leader in it, even the same one, opens a new leader epoch."""
        elects = record.leader != NO_LEADER_CHANGE
        recovery = record.leader_recovery_state
        return PartitionImage(
            self.partition,
            replicas=_either(record.replicas, self.replicas),
            isr=_either(record.isr, self.isr),
            leader=record.leader if elects else self.leader,
            leader_epoch=self.leader_epoch + 1 if elects else self.leader_epoch,
            partition_epoch=self.partition_epoch + 1,
            directories=self.directories if record.directories is None else record.directories,
            removing_replicas=_either(record.removing_replicas, self.removing_replicas),
            adding_replicas=_either(record.adding_replicas, self.adding_replicas),
            leader_recovery_state=(
                self.leader_recovery_state if recovery == _NO_RECOVERY_CHANGE else recovery
            ),
            elr=_either(record.eligible_leader_replicas, self.elr),
            last_known_elr=_either(record.last_known_elr, self.last_known_elr),
        )

    def without_elr(self) -> PartitionImage:
        """The partition without eligible leader replicas: a change like any other, with a new partition epoch, without
        which the controller would reject all proposals of its leader. Source: TopicDelta.maybeClearElr."""
        return self.changed(PartitionChangeRecord(eligible_leader_replicas=[], last_known_elr=[]))

    def directory_of(self, node_id: int) -> Uuid:
        """The id of the log directory in which a node has its replica; ZERO_UUID where that is not known."""
        if node_id not in self.replicas or len(self.directories) != len(self.replicas):
            return ZERO_UUID
        return self.directories[self.replicas.index(node_id)]

    def with_directory(self, node_id: int, directory_id: Uuid) -> list[Uuid]:
        """The directories of all replicas after a change of that of a node."""
        known = self.directories if len(self.directories) == len(self.replicas) else ()
        directories = list(known or (ZERO_UUID,) * len(self.replicas))
        directories[self.replicas.index(node_id)] = directory_id
        return directories

    def record(self, topic_id: Uuid) -> PartitionRecord:
        return PartitionRecord(
            partition_id=self.partition,
            topic_id=topic_id,
            replicas=list(self.replicas),
            isr=list(self.isr),
            removing_replicas=list(self.removing_replicas),
            adding_replicas=list(self.adding_replicas),
            leader=self.leader,
            leader_recovery_state=self.leader_recovery_state,
            leader_epoch=self.leader_epoch,
            partition_epoch=self.partition_epoch,
            directories=list(self.directories),
            eligible_leader_replicas=list(self.elr) or None,
            last_known_elr=list(self.last_known_elr) or None,
        )


def _either(changed: list[int] | None, before: tuple[int, ...]) -> Iterable[int]:
    return before if changed is None else changed


@dataclass(slots=True, eq=False, repr=False)
class TopicImage:
    """A topic and its partitions, by index from 0 without gaps."""

    name: str
    topic_id: Uuid
    partitions: Mapping[int, PartitionImage]

    def records(self) -> Iterator[Message]:
        """The topic's record and those of its partitions."""
        yield TopicRecord(name=self.name, topic_id=self.topic_id)
        for partition in self.partitions.values():
            yield partition.record(self.topic_id)
