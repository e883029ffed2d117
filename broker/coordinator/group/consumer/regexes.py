"""Regular expressions that members subscribe with, resolved into topics apart from heartbeats.

A heartbeat schedules it; the result is an operation of its own, after which members get their partitions with their
next heartbeats. Patterns are resolved again when topics are created, when there is a new pattern, and every
group.consumer.regex.refresh.interval.ms, but not more often than every ten seconds.
Source: GroupMetadataManager (maybeUpdateRegularExpressions, handleRegularExpressionsResult), TopicRegexResolver.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Container, Iterable
from enum import Enum
from functools import partial
from typing import Final

from barnabas.broker.coordinator.group.consumer import consumer_records
from barnabas.broker.coordinator.group.consumer.consumer_group import ConsumerGroup
from barnabas.broker.coordinator.group.consumer.consumer_member import ConsumerGroupMember
from barnabas.broker.coordinator.group.consumer.metadata_hash import TopicHashes
from barnabas.broker.coordinator.group.consumer.settings import (
    MIN_REGEX_REFRESH_MS,
    REFRESH_INTERVAL_MS,
    GroupSettings,
)
from barnabas.broker.coordinator.group.consumer.subscriptions import (
    UNRESOLVED,
    ResolvedRegularExpression,
    count,
)
from barnabas.broker.coordinator.group.group import Groups
from barnabas.broker.coordinator.records import CoordinatorRecord
from barnabas.broker.coordinator.shard import CoordinatorResult, ShardContext
from barnabas.broker.metadata.image import MetadataImage
from barnabas.broker.request import RequestContext
from barnabas.protocol.errors import ApiError, ErrorCode

logger = logging.getLogger("barnabas.groups")

_KEY: Final = "consumer-regexes"

VisibleTopics = Callable[[RequestContext, Iterable[str]], Container[str]]
"""Those of some topics that the client of a request may describe."""


class RegexChange(Enum):
    """What a heartbeat did to its member's pattern."""

    NONE = "none"
    UPDATED = "updated"
    """It has another one, which is not resolved yet."""
    RESOLVED = "resolved"
    """It has another one that is resolved, or none."""


class RegexSubscriptions:
    """Patterns of all groups of a shard.

    `newest_topics` is the metadata offset at which topics were created last, `rebalances` counts the epochs that have
    begun because a pattern matches other topics.
    """

    def __init__(
        self,
        context: ShardContext,
        groups: Groups,
        settings: GroupSettings,
        hashes: TopicHashes,
        visible_topics: VisibleTopics | None = None,
    ) -> None:
        self._context = context
        self._groups = groups
        self._settings = settings
        self._hashes = hashes
        self._visible_topics = visible_topics
        self.newest_topics = -1
        self.rebalances = 0

    def update(
        self,
        group: ConsumerGroup,
        old: ConsumerGroupMember,
        new: ConsumerGroupMember,
        out: list[CoordinatorRecord],
        context: RequestContext,
    ) -> RegexChange:
        """Applies a member's pattern. Raises ApiError(INVALID_REGULAR_EXPRESSION).

        Where the patterns have to be resolved now, they match what the client of this request may see, as in Kafka.
        """
        change, is_new = self._change(group, old.subscribed_topic_regex, new.subscribed_topic_regex, out)
        if is_new or group.subscriptions.regexes:
            self._maybe_resolve(group, old, new, context, is_new=is_new)
        return change

    def _change(
        self, group: ConsumerGroup, old: str | None, new: str | None, out: list[CoordinatorRecord]
    ) -> tuple[RegexChange, bool]:
        """The change of the member's pattern, and whether it is new to the group."""
        if old == new:
            return RegexChange.NONE, False
        regexes = group.subscriptions.regexes
        if old and regexes.get(old) == 1:
            out.append(consumer_records.regular_expression_tombstone(group.group_id, old))
        if not new:
            return (RegexChange.RESOLVED if old else RegexChange.UPDATED), False
        if new not in regexes:
            check_regex(new)
            return RegexChange.UPDATED, True
        is_resolved = new in group.subscriptions.resolved
        return (RegexChange.RESOLVED if is_resolved else RegexChange.UPDATED), False

    def _maybe_resolve(
        self,
        group: ConsumerGroup,
        old: ConsumerGroupMember,
        new: ConsumerGroupMember,
        context: RequestContext,
        *,
        is_new: bool,
    ) -> None:
        timer, now_ms = self._context.timer, self._context.now_ms()
        last_ms = group.subscriptions.last_refresh_ms
        # A last time in the future is one of a clock that was set back since.
        is_recent = last_ms <= now_ms <= last_ms + MIN_REGEX_REFRESH_MS
        if timer.is_scheduled((_KEY, group.group_id)) or is_recent:
            return
        regexes = group.subscriptions.regexes.copy()
        for member, by in ((old, -1), (new, 1)):
            if member.subscribed_topic_regex:
                count(regexes, member.subscribed_topic_regex, by)
        is_due = (
            is_new
            or len(regexes) != len(group.subscriptions.resolved)
            or group.subscriptions.last_version < self.newest_topics
            or not last_ms <= now_ms <= last_ms + self._settings.regex_refresh_interval_ms
        )
        if is_due and regexes:
            wanted = frozenset(regexes)
            timer.schedule((_KEY, group.group_id), 0, lambda: self._resolve(group.group_id, wanted, context))

    def _resolve(
        self, group_id: str, regexes: frozenset[str], context: RequestContext
    ) -> CoordinatorResult[None]:
        group = self._groups.find(group_id)
        if not isinstance(group, ConsumerGroup):
            return CoordinatorResult(None)
        image = self._context.image()
        visible = None if self._visible_topics is None else partial(self._visible_topics, context)
        resolved = resolve(regexes, image, self._context.now_ms(), visible)
        out: list[CoordinatorRecord] = []
        after = group.subscriptions.copy()
        has_changed = False
        for regex in sorted(regexes & group.subscriptions.regexes.keys()):
            before = group.subscriptions.resolved.get(regex, UNRESOLVED)
            has_changed = has_changed or before.topics != resolved[regex].topics
            after.resolve(regex, resolved[regex])
            out.append(consumer_records.regular_expression(group_id, regex, resolved[regex]))
        metadata_hash = self._hashes.group_hash(after.topics, image)
        if has_changed or metadata_hash != group.metadata_hash:
            self.rebalances += 1
            epoch = group.group_epoch + 1
            out.append(consumer_records.group_epoch(group_id, epoch, metadata_hash))
            logger.info("group %s: epoch %d, since its patterns match other topics", group_id, epoch)
            group.refreshed(self._context.now_ms() + REFRESH_INTERVAL_MS, epoch)
        return CoordinatorResult(None, out)


def resolve(
    regexes: Iterable[str],
    image: MetadataImage,
    now_ms: int,
    visible: Callable[[Iterable[str]], Container[str]] | None = None,
) -> dict[str, ResolvedRegularExpression]:
    """The topics whose whole name each pattern matches; none for one that RE2 rejects.

    Where `visible` is given, which returns the topics among those that match, the others are left out.
    """
    found = {regex: _matching(regex, image.topics) for regex in regexes}
    if visible is not None:
        allowed = visible(frozenset[str]().union(*found.values()))
        found = {
            regex: frozenset(name for name in names if name in allowed) for regex, names in found.items()
        }
    return {regex: ResolvedRegularExpression(names, image.offset, now_ms) for regex, names in found.items()}


def _matching(regex: str, names: Iterable[str]) -> frozenset[str]:
    try:
        matches = full_matcher(regex)
    except InvalidRegexError as error:
        logger.error("the regular expression `%s` matches no topics, since it is invalid: %s", regex, error)
        return frozenset()
    return frozenset(name for name in names if matches(name))


def check_regex(regex: str) -> None:
    """Raises ApiError(INVALID_REGULAR_EXPRESSION) for what RE2 does not compile."""
    try:
        full_matcher(regex)
    except InvalidRegexError as error:
        message = f"SubscribedTopicRegex `{regex}` is not a valid regular expression: {error}."
        raise ApiError(ErrorCode.INVALID_REGULAR_EXPRESSION, message) from None


class InvalidRegexError(ValueError):
    """RE2 does not compile the regular expression; the text is RE2's."""


def full_matcher(regex: str) -> Callable[[str], bool]:
    """Whether `regex` matches a whole text, in time linear in the text; raises InvalidRegexError.

    RE2 also bounds the memory of a compiled expression, and re2 caches the latest.
    """
    import re2  # not at every start: few brokers are ever sent an expression

    options = re2.Options()
    options.log_errors = False
    try:
        fullmatch = re2.compile(regex, options).fullmatch
    except re2.error as error:
        raise InvalidRegexError(error.args[0].decode()) from None
    return lambda text: fullmatch(text) is not None
