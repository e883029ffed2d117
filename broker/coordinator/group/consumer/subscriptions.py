"""Subscriptions: the topics that a group reads, with the number of members, by name and by regular expression.

Source: org.apache.kafka.coordinator.group.modern.ModernGroup and .consumer.ConsumerGroup (computeSubscribed...).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from barnabas.broker.coordinator.group.consumer.consumer_member import ConsumerGroupMember


class ResolvedRegularExpression(NamedTuple):
    """The topics that a pattern matched, in the metadata of offset `version`, at `timestamp_ms`."""

    topics: frozenset[str]
    version: int
    timestamp_ms: int


UNRESOLVED: Final = ResolvedRegularExpression(frozenset(), -1, -1)
NEVER: Final = -(1 << 63)


class SubscriptionCount(NamedTuple):
    """How many members name a topic, and how many patterns match it."""

    by_name: int
    by_regex: int


def count(counts: dict[str, int], key: str, by: int) -> None:
    """Adds `by` to the count of `key`; removes it at zero."""
    left = counts.get(key, 0) + by
    if left > 0:
        counts[key] = left
    else:
        counts.pop(key, None)


class Subscriptions:
    """Topics by name, patterns with their number of members, and the topics that patterns match."""

    __slots__ = ("regexes", "resolved", "topics")

    def __init__(self) -> None:
        self.topics: dict[str, SubscriptionCount] = {}
        self.regexes: dict[str, int] = {}
        self.resolved: dict[str, ResolvedRegularExpression] = {}

    def copy(self) -> Subscriptions:
        other = Subscriptions()
        other.topics = self.topics.copy()
        other.regexes = self.regexes.copy()
        other.resolved = self.resolved.copy()
        return other

    # ---- members come, change and go

    def update(self, old: ConsumerGroupMember | None, new: ConsumerGroupMember | None) -> None:
        """Counts `new` in place of `old`."""
        before = frozenset[str]() if old is None else old.subscribed_topic_names
        after = frozenset[str]() if new is None else new.subscribed_topic_names
        if before is not after:
            self._count_topics(before - after, name=-1)
            self._count_topics(after - before, name=1)
        if old is not None and old.subscribed_topic_regex:
            count(self.regexes, old.subscribed_topic_regex, -1)
        if new is not None and new.subscribed_topic_regex:
            count(self.regexes, new.subscribed_topic_regex, 1)

    def after(
        self, changes: Sequence[tuple[ConsumerGroupMember, ConsumerGroupMember | None]]
    ) -> Subscriptions:
        """The subscriptions with a new member, or none, in place of each old one; without patterns of no member."""
        other = self.copy()
        for old, new in changes:
            other.update(old, new)
        for old, _ in changes:
            regex = old.subscribed_topic_regex
            if regex and regex not in other.regexes:
                other.resolve(regex, None)
        return other

    def _count_topics(self, topics: Iterable[str], *, name: int = 0, regex: int = 0) -> None:
        for topic in topics:
            by_name, by_regex = self.topics.get(topic, (0, 0))
            left = SubscriptionCount(max(by_name + name, 0), max(by_regex + regex, 0))
            if left == (0, 0):
                self.topics.pop(topic, None)
            else:
                self.topics[topic] = left

    # ---- patterns

    def resolve(self, regex: str, resolved: ResolvedRegularExpression | None) -> None:
        """Sets the topics that a pattern matches; None removes it."""
        old = self.resolved.pop(regex, None)
        if old is not None:
            self._count_topics(old.topics, regex=-1)
        if resolved is not None:
            self.resolved[regex] = resolved
            self._count_topics(resolved.topics, regex=1)

    @property
    def last_refresh_ms(self) -> int:
        """When patterns were resolved last: all at the same time."""
        return next((resolved.timestamp_ms for resolved in self.resolved.values()), NEVER)

    @property
    def last_version(self) -> int:
        """The metadata offset at which they were."""
        return next((resolved.version for resolved in self.resolved.values()), 0)

    def topics_of(self, member: ConsumerGroupMember) -> frozenset[str]:
        """The topics that a member is subscribed to, by name and by its pattern."""
        regex = member.subscribed_topic_regex
        resolved = self.resolved.get(regex) if regex else None
        if resolved is None or not resolved.topics:
            return member.subscribed_topic_names
        if not member.subscribed_topic_names:
            return resolved.topics
        return member.subscribed_topic_names | resolved.topics

    # ---- for assignors

    def is_homogeneous(self, member_count: int) -> bool:
        """Whether all of `member_count` members are subscribed to the same topics."""
        if not self.regexes:
            return all(counted.by_name == member_count for counted in self.topics.values())
        if next(iter(self.regexes.values())) != member_count:
            return False
        return all(counted == (0, 1) for counted in self.topics.values())
