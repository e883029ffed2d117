from __future__ import annotations

import pytest

from barnabas.cli.admin.patterns import TopicPattern


@pytest.mark.parametrize(
    ("pattern", "topic", "allowed"),
    [
        ("t", "t", True),
        ("t", "tt", False),
        ("t.*", "tt", True),
        ("a,b", "b", True),
        ("a, b", "b", True),
        ("'a|b'", "a", True),
        ('"t"', "t", True),
        ("a\\.b", "aXb", False),
        ("[[]", "[", True),
    ],
)
def test_patterns_of_topics(pattern: str, topic: str, allowed: bool) -> None:
    assert TopicPattern(pattern).allows(topic) is allowed


def test_internal_topics_can_be_left_out() -> None:
    assert TopicPattern(".*").allows("__consumer_offsets")
    assert not TopicPattern(".*").allows("__consumer_offsets", exclude_internal=True)


def test_what_is_no_pattern() -> None:
    with pytest.raises(ValueError, match="is no regular expression"):
        TopicPattern("(")
