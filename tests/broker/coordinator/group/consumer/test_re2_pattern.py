"""Patterns of RE2 match whole texts, and what re2j does not take is told."""

from __future__ import annotations

import pytest

from broker.coordinator.group.consumer.re2_pattern import full_matcher
from broker.coordinator.group.consumer.re2_syntax import Re2SyntaxError


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
def test_the_whole_text_has_to_match(pattern: str, text: str, matches: bool) -> None:
    assert full_matcher(pattern)(text) is matches


@pytest.mark.parametrize("pattern", ["(", "a{2,1}", "(?=x)", r"\1", "[z-a]", "a**"])
def test_what_is_no_pattern(pattern: str) -> None:
    with pytest.raises(Re2SyntaxError):
        full_matcher(pattern)


def test_time_is_linear_in_the_text() -> None:
    assert not full_matcher("(a*)*b")("a" * 100_000)
