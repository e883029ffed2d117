"""Fencing: removes members that leave or expire. Source: GroupMetadataManager (consumerGroupFenceMember...)."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TypeVar

from barnabas.broker.coordinator.group.consumer import consumer_records
from barnabas.broker.coordinator.group.consumer.consumer_group import ConsumerGroup
from barnabas.broker.coordinator.group.consumer.consumer_member import ConsumerGroupMember
from barnabas.broker.coordinator.group.consumer.member_timers import MemberTimers
from barnabas.broker.coordinator.group.consumer.metadata_hash import TopicHashes
from barnabas.broker.coordinator.group.consumer.migration import Migration
from barnabas.broker.coordinator.group.group import Groups
from barnabas.broker.coordinator.records import CoordinatorRecord
from barnabas.broker.coordinator.shard import CoordinatorResult, ShardContext

logger = logging.getLogger("barnabas.groups")
R = TypeVar("R")


class Fencing:
    """Removes members of groups: a new epoch begins, or the group becomes a classic one again."""

    def __init__(
        self,
        context: ShardContext,
        groups: Groups,
        hashes: TopicHashes,
        timers: MemberTimers,
        migration: Migration,
    ) -> None:
        self._context = context
        self._groups = groups
        self._hashes = hashes
        self._timers = timers
        self._migration = migration

    def fence(
        self, group: ConsumerGroup, members: Sequence[ConsumerGroupMember], response: R
    ) -> CoordinatorResult[R]:
        """Removes `members`, each of them named once, and answers with `response`."""
        if not members:
            return CoordinatorResult(response)
        out: list[CoordinatorRecord] = []
        if self._migration.may_downgrade(group, members):
            reason = f"Group {group.group_id} is a classic group again, since members left."
            return self._migration.downgrade(
                group, members, None, out, response=response, rebalance_reason=reason
            )
        self._remove(group, members, out)
        return CoordinatorResult(response, out)

    def _remove(
        self, group: ConsumerGroup, members: Sequence[ConsumerGroupMember], out: list[CoordinatorRecord]
    ) -> None:
        name = group.group_id
        for member in members:
            out += consumer_records.member_tombstones(name, member.member_id)
        after = group.subscriptions.after([(member, None) for member in members])
        left = {member.subscribed_topic_regex for member in members}
        for regex in group.subscriptions.regexes:
            if regex in left and regex not in after.regexes:
                out.append(consumer_records.regular_expression_tombstone(name, regex))
        metadata_hash = self._hashes.group_hash(after.topics, self._context.image())
        out.append(consumer_records.group_epoch(name, group.group_epoch + 1, metadata_hash))
        logger.info("group %s: epoch %d", name, group.group_epoch + 1)
        for member in members:
            self._timers.cancel(name, member.member_id)

    def expire(
        self, group_id: str, member_id: str, reason: str, only_in_epoch: int | None
    ) -> CoordinatorResult[None]:
        """Removes a member whose timer has expired (member_timers.Fence)."""
        group = self._groups.find(group_id)
        member = group.members.get(member_id) if isinstance(group, ConsumerGroup) else None
        if member is None or (only_in_epoch is not None and member.member_epoch != only_in_epoch):
            return CoordinatorResult(None)
        assert isinstance(group, ConsumerGroup)
        logger.info("group %s: member %s is removed: %s", group_id, member_id, reason)
        return self.fence(group, [member], None)
