"""GroupDependencies: the objects that the operations on the consumer groups of one shard share."""

from __future__ import annotations

from barnabas.broker.coordinator.group.classic.classic_groups import ClassicGroups
from barnabas.broker.coordinator.group.consumer.fencing import Fencing
from barnabas.broker.coordinator.group.consumer.member_timers import MemberTimers
from barnabas.broker.coordinator.group.consumer.metadata_hash import TopicHashes
from barnabas.broker.coordinator.group.consumer.migration import Migration
from barnabas.broker.coordinator.group.consumer.regexes import RegexSubscriptions
from barnabas.broker.coordinator.group.consumer.settings import GroupSettings
from barnabas.broker.coordinator.group.consumer.updates import GroupUpdates
from barnabas.broker.coordinator.group.group import Groups
from barnabas.broker.coordinator.shard import ShardContext


class GroupDependencies:
    """What the operations on consumer groups share, created once per shard."""

    def __init__(self, context: ShardContext, groups: Groups, classic: ClassicGroups) -> None:
        self.context = context
        self.groups = groups
        self.settings = GroupSettings(context.config, context.image)
        self.hashes = TopicHashes()
        self.timers = MemberTimers(
            context.timer,
            lambda *expired: self.fencing.expire(*expired),  # noqa: PLW0108 (`fencing` is made below)
        )
        self.migration = Migration(
            context, groups, classic=classic, settings=self.settings, hashes=self.hashes, timers=self.timers
        )
        self.fencing = Fencing(context, groups, self.hashes, self.timers, self.migration)
        self.updates = GroupUpdates(context, self.settings, self.hashes, self.timers)
        self.regexes = RegexSubscriptions(context, groups, self.settings, self.hashes)
