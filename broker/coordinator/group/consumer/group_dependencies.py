"""GroupDependencies: the objects that the operations on the consumer groups of one shard share."""

from __future__ import annotations

from barnabas.broker.coordinator.group.classic.classic_groups import ClassicGroups
from barnabas.broker.coordinator.group.consumer.fencing import Fencing
from barnabas.broker.coordinator.group.consumer.member_timers import MemberTimers
from barnabas.broker.coordinator.group.consumer.metadata_hash import TopicHashes
from barnabas.broker.coordinator.group.consumer.migration import Migration
from barnabas.broker.coordinator.group.consumer.regexes import RegexSubscriptions, VisibleTopics
from barnabas.broker.coordinator.group.consumer.settings import GroupSettings
from barnabas.broker.coordinator.group.consumer.updates import GroupUpdates
from barnabas.broker.coordinator.group.group import Groups
from barnabas.broker.coordinator.shard import CoordinatorResult, ShardContext


class GroupDependencies:
    """What the operations on consumer groups share, created once per shard."""

    def __init__(
        self,
        context: ShardContext,
        groups: Groups,
        classic: ClassicGroups,
        visible_topics: VisibleTopics | None = None,
    ) -> None:
        self.context = context
        self.groups = groups
        self.settings = GroupSettings(context.config, context.image)
        self.hashes = TopicHashes()
        self.timers = MemberTimers(context.timer, self._expire)
        self.migration = Migration(
            context, groups, classic=classic, settings=self.settings, hashes=self.hashes, timers=self.timers
        )
        self.fencing = Fencing(context, groups, self.hashes, self.timers, self.migration)
        self.updates = GroupUpdates(context, self.settings, self.hashes, self.timers)
        self.regexes = RegexSubscriptions(context, groups, self.settings, self.hashes, visible_topics)

    def _expire(
        self, group_id: str, member_id: str, reason: str, only_in_epoch: int | None
    ) -> CoordinatorResult[None]:
        return self.fencing.expire(group_id, member_id, reason, only_in_epoch)
