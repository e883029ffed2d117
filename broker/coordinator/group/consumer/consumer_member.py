"""ConsumerGroupMember: one member of a consumer group, replayed from its records. Immutable.

Source: org.apache.kafka.coordinator.group.modern.consumer.ConsumerGroupMember.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from types import MappingProxyType
from typing import Final, NamedTuple

from barnabas.protocol.messages.group_state import ConsumerGroupMemberMetadataValue
from barnabas.protocol.wire import Uuid

ClassicMemberMetadata = ConsumerGroupMemberMetadataValue.ClassicMemberMetadata

Partitions = Mapping[Uuid, frozenset[int]]
"""An assignment: partitions by topic; no topic without any."""

PartitionEpochs = Mapping[Uuid, Mapping[int, int]]
"""The partitions of a member: by topic and partition the group's epoch in which it was assigned."""

JOIN_EPOCH: Final = 0
LEAVE_EPOCH: Final = -1
STATIC_LEAVE_EPOCH: Final = -2
"""Special epochs of a heartbeat: a member joins, leaves, or leaves temporarily (KIP-848)."""

NOTHING: Final[Partitions] = MappingProxyType({})
OWNS_NOTHING: Final[PartitionEpochs] = MappingProxyType({})


class MemberState(IntEnum):
    """How far the reconciliation of a member is; the numbers are those of the records."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    """It has to revoke partitions first."""
    UNRELEASED_PARTITIONS = 2
    """It waits for partitions that other members still own."""
    UNKNOWN = 127
    """A state of a newer Kafka that is not known here."""

    @classmethod
    def _missing_(cls, value: object) -> MemberState:
        return cls.UNKNOWN


class ConsumerGroupMember(NamedTuple):
    """A member's identity, subscription, partitions and epoch.

    `member_epoch` is STATIC_LEAVE_EPOCH for a static member that is away. `subscribed_topic_regex` is empty (None in
    records of Kafka 4.0) where there is none. `classic` is set for a member that uses the classic protocol.
    """

    member_id: str
    member_epoch: int = 0
    previous_member_epoch: int = -1
    state: MemberState = MemberState.STABLE
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: frozenset[str] = frozenset()
    subscribed_topic_regex: str | None = ""
    server_assignor: str | None = None
    assigned: PartitionEpochs = OWNS_NOTHING
    pending_revocation: PartitionEpochs = OWNS_NOTHING
    classic: ClassicMemberMetadata | None = None

    @property
    def uses_classic_protocol(self) -> bool:
        return self.classic is not None

    @property
    def classic_protocols(self) -> list[ConsumerGroupMemberMetadataValue.ClassicProtocol]:
        """The protocols of the member's JoinGroup, by preference."""
        return [] if self.classic is None else self.classic.supported_protocols

    def is_reconciled_to(self, epoch: int) -> bool:
        """Whether it owns exactly its target assignment of `epoch`."""
        return self.state is MemberState.STABLE and self.member_epoch == epoch

    def moved_to(self, epoch: int) -> ConsumerGroupMember:
        """The member in another epoch; one that missed a response may still send the previous epoch."""
        return self._replace(member_epoch=epoch, previous_member_epoch=self.member_epoch)

    def assignment_epoch(self, topic_id: Uuid, partition: int) -> int | None:
        """The epoch in which it was assigned a partition that it owns, or has to revoke; None for other partitions."""
        epoch = self.assigned.get(topic_id, {}).get(partition)
        return epoch if epoch is not None else self.pending_revocation.get(topic_id, {}).get(partition)


def owned_in(epoch: int, partitions: Partitions) -> PartitionEpochs:
    """`partitions`, all of them assigned in `epoch`."""
    return {topic_id: dict.fromkeys(indexes, epoch) for topic_id, indexes in partitions.items()}
