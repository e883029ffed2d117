"""ClassicGroups: the classic groups of one shard. Source: GroupMetadataManager (classicGroup... methods)."""

from __future__ import annotations

from typing import Any

from barnabas.broker.coordinator.group.classic.classic_group import ClassicGroup
from barnabas.broker.coordinator.group.classic.group_record import members_of, state_timestamp_of
from barnabas.broker.coordinator.group.classic.rebalancing import Rebalancing
from barnabas.broker.coordinator.group.classic.state import ClassicGroupState as State
from barnabas.broker.coordinator.group.group import Groups
from barnabas.broker.coordinator.shard import ShardContext
from barnabas.config.catalogue import groups as keys
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.group_state import GroupMetadataKey, GroupMetadataValue


class ClassicGroups:
    """Makes, replays, loads and unloads the classic groups of one shard."""

    def __init__(self, context: ShardContext, groups: Groups, rebalancing: Rebalancing) -> None:
        self.rebalancing = rebalancing
        self._context = context
        self._groups = groups
        self._unfinished: set[str] = set()

    # ---- creation

    def new_group(self, group_id: str, **state: Any) -> ClassicGroup:
        """A classic group that is not in the registry yet; `state` are fields of ClassicGroup."""
        return ClassicGroup(
            group_id, now_ms=self._context.now_ms, sessions=self.rebalancing.sessions, **state
        )

    def adopt(self, group: ClassicGroup) -> None:
        """Registers a group that was of another kind, and starts the sessions of its members."""
        self._groups.put(group)
        for member in group:
            self.rebalancing.extend_session(group, member)

    def make(self, group_id: str) -> ClassicGroup:
        return self.new_group(group_id, state_timestamp_ms=self._context.now_ms())

    # ---- loading and unloading

    def replay(self, key: GroupMetadataKey, value: GroupMetadataValue | None) -> None:
        """Applies a GroupMetadata record (key type 2).

        One with members and without a leader was a consumer group that has to rebalance (consumer/migration.py).
        """
        self._unfinished.discard(key.group)
        if value is None:
            if self.rebalancing.find(key.group) is not None:  # else it is of another kind by now
                self._groups.remove(key.group)
            return
        members = members_of(value)
        if members and value.leader is None:
            self._unfinished.add(key.group)
        group = self.new_group(
            key.group,
            state=State.STABLE if members else State.EMPTY,
            generation_id=value.generation,
            protocol_type=value.protocol_type or "",
            protocol_name=value.protocol,
            leader_id=value.leader,
            state_timestamp_ms=state_timestamp_of(value),
        )
        for member in members:
            group.add(member)
        group.update_subscribed_topics()
        self._groups.put(group)

    def on_loaded(self) -> None:
        """Schedules the sessions of the members that were loaded."""
        for group in list(self._groups):
            if isinstance(group, ClassicGroup):
                self._on_loaded(group)

    def _on_loaded(self, group: ClassicGroup) -> None:
        for member in group:
            self.rebalancing.extend_session(group, member)
        limit = self._context.config[keys.GROUP_MAX_SIZE]
        if len(group.members) > limit:
            reason = f"{len(group.members)} members were loaded, and {limit} may be in a group"
            self.rebalancing.prepare(group, reason)
        elif group.group_id in self._unfinished:
            self.rebalancing.prepare(group, "it was a consumer group and has not rebalanced since")

    def on_unloaded(self) -> None:
        """Fails pending JoinGroups and SyncGroups with NOT_COORDINATOR."""
        for group in list(self._groups):
            if isinstance(group, ClassicGroup):
                group.transition_to(State.DEAD)
                group.fail_waiting(ErrorCode.NOT_COORDINATOR)
