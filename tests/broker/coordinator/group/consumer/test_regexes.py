"""Members that subscribe with a regular expression, which is resolved separately from their heartbeats."""

from __future__ import annotations

import logging
from collections.abc import Iterable

import pytest

from barnabas.broker.coordinator.group.consumer.regexes import (
    InvalidRegexError,
    check_regex,
    full_matcher,
    resolve,
)
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages.group_state import (
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
)
from tests.broker.coordinator.group.consumer.consumer_harness import Consumer, ConsumerHarness

ALL = {"t1": [0, 1], "t2": [0]}


@pytest.fixture
def harness() -> ConsumerHarness:
    return ConsumerHarness({"group.consumer.regex.refresh.interval.ms": "60000"}, t1=2, t2=1, other=1)


def join(harness: ConsumerHarness, member_id: str, regex: str, *topics: str) -> Consumer:
    """Joins, and gets the topics of its pattern."""
    member = harness.join("g", member_id, *topics, subscribed_topic_regex=regex)
    harness.advance(0)
    return member


def resolutions(harness: ConsumerHarness) -> int:
    """The number of times that patterns were resolved and written."""
    return sum(
        isinstance(record.value, ConsumerGroupRegularExpressionValue)
        for record in harness.shard_harness.records
    )


def test_a_pattern_is_resolved_after_the_heartbeat(harness: ConsumerHarness) -> None:
    member = harness.join("g", "a", subscribed_topic_regex="t.*")
    assert (member.epoch, member.owned) == (1, {})
    harness.advance(0)
    member.beat()
    assert member.owned == ALL
    written = harness.last(ConsumerGroupRegularExpressionValue)
    assert (written.topics, written.version) == (["t1", "t2"], harness.shard_harness.image.offset)
    assert harness.shard_harness.shard.consumers.rebalances == 1


def test_topic_names_and_patterns_are_combined(harness: ConsumerHarness) -> None:
    member = join(harness, "a", "t1", "other", "t1")
    member.beat()
    assert member.owned == {"t1": [0, 1], "other": [0]}


def test_a_clock_that_was_set_back_does_not_block_resolution(harness: ConsumerHarness) -> None:
    join(harness, "a", "t1")
    harness.shard_harness.clock.now -= 3_600
    member = join(harness, "b", "t2")
    member.beat()
    assert member.owned == {"t2": [0]}


def test_members_share_a_pattern(harness: ConsumerHarness) -> None:
    first = join(harness, "a", "t.*")
    first.beat()
    second = join(harness, "b", "t.*")
    assert resolutions(harness) == 1
    for member in (first, first, second):
        member.beat()
    assert sum(len(partitions) for partitions in (*first.owned.values(), *second.owned.values())) == 3
    first.leave()
    assert harness.group().subscriptions.regexes == {"t.*": 1}
    second.leave()
    assert harness.group().subscriptions.resolved == {}
    assert isinstance(harness.shard_harness.records[-2].key, ConsumerGroupRegularExpressionKey)


@pytest.mark.parametrize("regex", ["", "other"])
def test_a_new_pattern_replaces_the_old_one(harness: ConsumerHarness, regex: str) -> None:
    member = join(harness, "a", "t.*", "t1")
    member.beat()
    harness.advance(10_001)
    member.beat(subscribed_topic_regex=regex)
    harness.advance(0)
    member.beat()
    assert member.owned == ({"t1": [0, 1], "other": [0]} if regex else {"t1": [0, 1]})
    assert list(harness.group().subscriptions.resolved) == ([regex] if regex else [])


def test_new_topics_are_noticed_at_most_every_ten_seconds(harness: ConsumerHarness) -> None:
    member = join(harness, "a", "t.*")
    member.beat()
    harness.create("t3", 1)
    member.beat()
    harness.advance(10_000)
    member.beat()
    harness.advance(1)
    assert member.owned == ALL
    member.beat()
    harness.advance(0)
    member.beat()
    assert member.owned == {**ALL, "t3": [0]}


def test_deleted_topics_are_removed_at_once(harness: ConsumerHarness) -> None:
    member = join(harness, "a", "t.*")
    member.beat()
    harness.delete("t1")
    member.beat()
    assert member.owned == {"t2": [0]}


def test_patterns_are_resolved_again_periodically(harness: ConsumerHarness) -> None:
    member = join(harness, "a", "t.*")
    for _ in range(2):
        harness.advance(29_999)
        member.beat()
        harness.advance(1)
    assert resolutions(harness) == 1
    harness.advance(1)
    member.beat()
    harness.advance(0)
    assert resolutions(harness) == 2
    assert harness.group().group_epoch == 2, "it stands for the same topics"


def test_a_resolution_for_a_removed_group_is_dropped(harness: ConsumerHarness) -> None:
    member = harness.join("g", "a", subscribed_topic_regex="t.*")
    member.leave()
    harness.advance(0)
    assert resolutions(harness) == 0


def test_a_pattern_that_re2_rejects_is_rejected(harness: ConsumerHarness) -> None:
    with pytest.raises(ApiError, match=r"SubscribedTopicRegex `\(` is not a valid regular expression"):
        harness.join("g", "a", subscribed_topic_regex="(")


def test_a_stored_pattern_that_only_kafka_supports_matches_nothing(
    harness: ConsumerHarness, caplog: pytest.LogCaptureFixture
) -> None:
    """A group from Kafka's log may have one."""
    with caplog.at_level(logging.ERROR):
        resolved = resolve(["((a{100}){100}){100}"], harness.shard_harness.image, 1)
    assert next(iter(resolved.values())).topics == frozenset()
    assert "matches no topics, since it is invalid" in caplog.text


def test_a_pattern_matches_the_whole_name() -> None:
    harness = ConsumerHarness(ab=1, abc=1)
    assert resolve(["ab"], harness.shard_harness.image, 1)["ab"].topics == {"ab"}


def test_a_pattern_of_many_repetitions_matches_quickly() -> None:
    """RE2 does not backtrack: it is linear where Python's own takes for ever."""
    harness = ConsumerHarness()
    harness.create("a" * 40, 1)
    assert resolve(["(a*)*b"], harness.shard_harness.image, 1)["(a*)*b"].topics == frozenset()


def test_an_invalid_pattern_has_its_own_error() -> None:
    with pytest.raises(ApiError) as refused:
        check_regex("a**")
    assert refused.value.code is ErrorCode.INVALID_REGULAR_EXPRESSION


@pytest.mark.parametrize(
    ("pattern", "text", "matches"),
    [
        ("a.*", "abc", True),
        ("b", "abc", False),
        ("a|abc", "abc", True),
        ("(?i)ABC", "abc", True),
        (r"\d+", "12", True),
        ("a.c", "a\nc", False),
        ("", "", True),
    ],
)
def test_a_pattern_matches_the_whole_text(pattern: str, text: str, matches: bool) -> None:
    assert full_matcher(pattern)(text) is matches


def test_time_is_linear_in_the_text() -> None:
    assert not full_matcher("(a*)*b")("a" * 100_000)


TAKEN = [
    "[]a]", "[^]a]", "a{,3}", "a{1", r"\z", r"\A", r"\b", r"\Q*\E*", r"\Q**", r"\pL", r"\p{^Greek}", r"[\pL]",
    "[[:^alpha:]]", "(?P<n>a)", "(?<n>a)", "(?i)a", "(?i-s:a)", r"\x{41}", "a{0}", "^*", "[a-b-c]", r"\07", "(?:)",
    "()", "a]", "[a-]",
]  # fmt: skip


@pytest.mark.parametrize("pattern", TAKEN)
def test_patterns_that_re2_accepts(pattern: str) -> None:
    check_regex(pattern)


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        ("a(", "missing ): a("),
        ("a)", "unexpected ): a)"),
        ("[a", "missing ]: [a"),
        ("[z-a]", "invalid character class range: z-a"),
        ("a**", "bad repetition operator: **"),
        ("a{2,1}", "invalid repetition size: {2,1}"),
        ("a{1001}", "invalid repetition size: {1001}"),
        ("*a", "no argument for repetition operator: *"),
        (r"\1", r"invalid escape sequence: \1"),
        (r"\Z", r"invalid escape sequence: \Z"),
        (r"\p{Foo}", r"invalid character class range: \p{Foo}"),
        ("[[:foo:]]", "invalid character class range: [:foo:]"),
        ("(?P<n-x>a)", "invalid named capture group: (?P<n-x>"),
        ("(?=a)", "invalid perl operator: (?="),
        (r"\x{110000}", r"invalid escape sequence: \x{110000"),
        ("\\", "trailing \\"),
        (r"[\b]", r"invalid escape sequence: \b"),
    ],
)
def test_patterns_that_re2_rejects(pattern: str, said: str) -> None:
    with pytest.raises(InvalidRegexError) as refused:
        full_matcher(pattern)
    assert str(refused.value) == said


def test_topics_that_the_client_may_not_see_do_not_match(harness: ConsumerHarness) -> None:
    image = harness.shard_harness.image
    asked = []

    def visible(names: Iterable[str]) -> set[str]:
        asked.append(sorted(names))
        return {"t1"}

    found = resolve(["t.*", "o.*", "none"], image, 1, visible)
    assert {regex: resolved.topics for regex, resolved in found.items()} == {
        "t.*": {"t1"},
        "o.*": frozenset(),
        "none": frozenset(),
    }
    assert asked == [["other", "t1", "t2"]]
