"""Share groups (KIP-932) and streams groups (KIP-1071): kept as Apache Kafka left them, and listed.

Their own APIs come in a later release; until then no member joins such a group, and its members stay as they are for
Apache Kafka to continue with. What they have in common with other groups works: state, offsets, deletion.
Source: ShareGroup and StreamsGroup in org.apache.kafka.coordinator.group.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, ClassVar, Final

from barnabas.broker.coordinator.group.group import Groups, GroupType
from barnabas.broker.coordinator.group.offsets.commit import OffsetCommit
from barnabas.broker.coordinator.records import CoordinatorRecord, tombstone
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages import share_group_state as share
from barnabas.protocol.messages import streams_group_state as streams
from barnabas.protocol.schema import Message

KeyType = type[Message]

_STABLE_MEMBER: Final = 0
_EPOCHS_SINCE: Final = 9
"""The version of OffsetCommit in which a generation may be a member's epoch."""


class _ForeignGroup:
    """A group that is known by its records: `records` by key type and member ("" for records of the group itself)."""

    type: GroupType
    member_key: ClassVar[KeyType]
    """The record that each member has."""

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.records: dict[tuple[int, str], tuple[Message, Any]] = {}

    def apply(self, key: Any, value: Any) -> None:
        """Applies a record of the group."""
        where = (key.api_key, getattr(key, "member_id", ""))
        if value is None:
            self.records.pop(where, None)
        else:
            self.records[where] = (key, value)

    def find(self, key_type: KeyType, member_id: str = "") -> Any:
        """The value of the record with this key; None where there is none."""
        assert key_type.api_key is not None
        return self.records.get((key_type.api_key, member_id), (None, None))[1]

    @property
    def members(self) -> list[str]:
        return [member_id for kind, member_id in self.records if kind == self.member_key.api_key]

    @property
    def member_count(self) -> int:
        return len(self.members)

    @property
    def is_empty(self) -> bool:
        return not self.members

    @property
    def protocol_type(self) -> str:
        return self.type.value

    def offset_committed_by(self, member_id: str) -> None:
        """Members of such groups have no sessions here."""

    def tombstones(self) -> list[CoordinatorRecord]:
        return [tombstone(key) for key, _ in self.records.values()]


class ShareGroup(_ForeignGroup):
    """A share group: its offsets are not in __consumer_offsets, and commits to it are rejected."""

    type = GroupType.SHARE
    member_key = share.ShareGroupMemberMetadataKey

    @property
    def state_name(self) -> str:
        return "Empty" if self.is_empty else "Stable"

    def check_offset_commit(self, commit: OffsetCommit, *, is_transactional: bool) -> None:
        self._reject()

    def check_offset_fetch(self, member_id: str | None, member_epoch: int) -> None:
        self._reject()

    def check_offset_delete(self) -> None:
        self._reject()

    def _reject(self) -> None:
        raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {self.group_id} is not a consumer group.")

    def check_delete(self) -> None:
        """Rejected where the group has state in __share_group_state, which would outlive the group."""
        if not self.is_empty:
            raise ApiError(ErrorCode.NON_EMPTY_GROUP)
        state = self.find(share.ShareGroupStatePartitionMetadataKey)
        if state is not None and (
            state.initialized_topics or state.initializing_topics or state.deleting_topics
        ):
            raise ApiError(
                ErrorCode.UNSUPPORTED_VERSION,
                f"Share group {self.group_id} has state in other topics, which only Apache Kafka deletes with it.",
            )

    def is_subscribed_to(self, topic: str) -> bool:
        values = (self.find(self.member_key, member_id) for member_id in self.members)
        return any(topic in value.subscribed_topic_names for value in values)

    def offset_expires_from(self, commit_timestamp_ms: int, now_ms: int) -> int | None:
        return None


class StreamsGroup(_ForeignGroup):
    """A streams group; its members commit offsets as those of consumer groups do."""

    type = GroupType.STREAMS
    member_key = streams.StreamsGroupMemberMetadataKey

    @property
    def state_name(self) -> str:
        if self.is_empty:
            return "Empty"
        topology = self.find(streams.StreamsGroupTopologyKey)
        group = self.find(streams.StreamsGroupMetadataKey)
        target = self.find(streams.StreamsGroupTargetAssignmentMetadataKey)
        assigned = -1 if target is None else target.assignment_epoch
        if topology is None or group is None or topology.epoch != group.validated_topology_epoch:
            return "NotReady"
        if group.epoch > assigned:
            return "Assigning"
        return (
            "Stable" if all(self._is_reconciled(each, assigned) for each in self.members) else "Reconciling"
        )

    def _is_reconciled(self, member_id: str, assignment_epoch: int) -> bool:
        current = self.find(streams.StreamsGroupCurrentMemberAssignmentKey, member_id)
        return (
            current is not None
            and current.state == _STABLE_MEMBER
            and current.member_epoch == assignment_epoch
        )

    def _member_epoch(self, member_id: str) -> int:
        """Raises ApiError(UNKNOWN_MEMBER_ID)."""
        if self.find(streams.StreamsGroupMemberMetadataKey, member_id) is None:
            raise ApiError(
                ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {self.group_id}."
            )
        current = self.find(streams.StreamsGroupCurrentMemberAssignmentKey, member_id)
        return -1 if current is None else int(current.member_epoch)

    def check_offset_commit(self, commit: OffsetCommit, *, is_transactional: bool) -> None:
        if commit.epoch < 0 and self.is_empty:
            return
        if is_transactional and commit.names_no_member:
            return
        current = self._member_epoch(commit.member_id)
        if not is_transactional and commit.api_version < _EPOCHS_SINCE:
            raise ApiError(ErrorCode.UNSUPPORTED_VERSION)
        if commit.epoch != current:
            raise ApiError(ErrorCode.STALE_MEMBER_EPOCH)

    def check_offset_fetch(self, member_id: str | None, member_epoch: int) -> None:
        if member_id is None and member_epoch < 0:
            return
        if member_epoch != self._member_epoch(member_id or ""):
            raise ApiError(ErrorCode.STALE_MEMBER_EPOCH)

    def check_offset_delete(self) -> None:
        """Always allowed; offsets of subscribed topics stay (`is_subscribed_to`)."""

    def check_delete(self) -> None:
        if not self.is_empty:
            raise ApiError(ErrorCode.NON_EMPTY_GROUP)

    def is_subscribed_to(self, topic: str) -> bool:
        topology = self.find(streams.StreamsGroupTopologyKey)
        if self.is_empty or topology is None:
            return False
        return any(
            topic in part.source_topics or any(topic == each.name for each in part.repartition_source_topics)
            for part in topology.subtopologies
        )

    def offset_expires_from(self, commit_timestamp_ms: int, now_ms: int) -> int | None:
        return commit_timestamp_ms


_KINDS: Final = (
    (ShareGroup, share.ShareGroupMetadataKey, share),
    (StreamsGroup, streams.StreamsGroupMetadataKey, streams),
)


class ForeignGroups:
    """The share groups and streams groups of one shard."""

    def __init__(self, groups: Groups) -> None:
        self._groups = groups

    def replayers(self) -> Mapping[int, Callable[[Any, Any], None]]:
        """The function that replays each key type: f(key, value or None)."""
        return {
            key.api_key: partial(self._replay, kind, key is whole)
            for kind, whole, module in _KINDS
            for name, key in vars(module).items()
            if name.endswith("Key") and key.api_key is not None
        }

    def _replay(
        self, kind: type[ShareGroup] | type[StreamsGroup], is_whole: bool, key: Any, value: Any
    ) -> None:
        """The tombstone of the group's own record removes the group; records after it are ignored."""
        group = self._groups.of_record(kind, key.group_id, value)
        if group is None:
            return
        group.apply(key, value)
        if is_whole and value is None:
            self._groups.remove(key.group_id)
