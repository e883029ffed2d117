"""Group: what all kinds of groups have in common; and Groups, the registry of one shard.

Source: org.apache.kafka.coordinator.group.Group, GroupMetadataManager (group, maybeDeleteGroup, getOrMaybeCreate...).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import Protocol, TypeVar

from barnabas.broker.coordinator.group.offsets.commit import OffsetCommit
from barnabas.broker.coordinator.records import CoordinatorRecord
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.wire import Uuid

PartitionCheck = Callable[[str, Uuid, int], None]
"""Raises ApiError unless a member may commit for this topic (name and id) and partition."""


class GroupType(StrEnum):
    """Kinds of groups, as ListGroups names them (KIP-848)."""

    CLASSIC = "classic"
    CONSUMER = "consumer"
    SHARE = "share"
    STREAMS = "streams"


class Group(Protocol):
    """A group of any kind.

    The `check_` methods raise ApiError with the code that Kafka's group of that kind answers with.
    """

    group_id: str

    def __init__(self, group_id: str) -> None: ...

    @property
    def type(self) -> GroupType: ...

    @property
    def state_name(self) -> str:
        """As in ListGroups: "Stable", "Empty", "PreparingRebalance", ..."""

    @property
    def protocol_type(self) -> str:
        """As in ListGroups: "consumer", "connect", ..., or ""."""

    @property
    def is_empty(self) -> bool:
        """Whether it has no members."""

    @property
    def member_count(self) -> int: ...

    def check_offset_commit(self, commit: OffsetCommit, *, is_transactional: bool) -> PartitionCheck | None:
        """A member of a consumer group with an older epoch may commit for partitions that it had in that epoch.

        The check that is returned decides for each partition. (Kafka's CommitPartitionValidator; None is its NO_OP.)
        """

    def offset_committed_by(self, member_id: str) -> None:
        """Called for commits outside of transactions: in a classic group that is stable or prepares a rebalance they
        count as heartbeats."""

    def check_offset_fetch(self, member_id: str | None, member_epoch: int) -> None: ...

    def check_offset_delete(self) -> None: ...

    def check_delete(self) -> None: ...

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether a member may be reading the topic, so that its offsets must stay."""

    def offset_expires_from(self, commit_timestamp_ms: int, now_ms: int) -> int | None:
        """The time (ms) from which offsets.retention.minutes count for an offset that was committed at
        `commit_timestamp_ms`; None while the group is in use. (Kafka's OffsetExpirationCondition.)
        """

    def tombstones(self) -> list[CoordinatorRecord]:
        """The records that delete the group, without its offsets."""


G = TypeVar("G", bound=Group)


class Groups:
    """The groups of one partition of __consumer_offsets, by id.

    `make_classic` creates a classic group without members; the shard sets it.
    """

    def __init__(self) -> None:
        self._groups: dict[str, Group] = {}
        self.make_classic: Callable[[str], Group]

    def __len__(self) -> int:
        return len(self._groups)

    def __iter__(self) -> Iterator[Group]:
        return iter(self._groups.values())

    def find(self, group_id: str) -> Group | None:
        return self._groups.get(group_id)

    def get(self, group_id: str) -> Group:
        """Raises ApiError(GROUP_ID_NOT_FOUND)."""
        group = self._groups.get(group_id)
        if group is None:
            raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
        return group

    def get_or_make(self, group_id: str) -> Group:
        """The group; a missing one is created as a classic group, which holds offsets."""
        group = self._groups.get(group_id)
        if group is None:
            group = self._groups[group_id] = self.make_classic(group_id)
        return group

    def of_record(self, kind: type[G], group_id: str, value: object) -> G | None:
        """The group of a record of groups of this kind; None where it is missing and the record has no value.

        A record with a value creates a missing group, in place of one of another kind.
        """
        group = self._groups.get(group_id)
        if isinstance(group, kind):
            return group
        if value is None:
            return None
        made = self._groups[group_id] = kind(group_id)
        return made

    def put(self, group: Group) -> None:
        """Adds a group, in place of one with the same id (of another kind, where it has migrated)."""
        self._groups[group.group_id] = group

    def remove(self, group_id: str) -> None:
        self._groups.pop(group_id, None)
