from __future__ import annotations

import pytest

from broker.coordinator.group.consumer.re2_syntax import Re2SyntaxError, check_syntax


@pytest.mark.parametrize(
    "pattern",
    [
        *(
            "",
            "a.*",
            "[]a]",
            "[^]a]",
            "a{,3}",
            "a{1",
            r"\z",
            r"\A",
            r"\b",
            r"\Q*\E*",
            r"\Q**",
            r"\pL",
            r"\p{^Greek}",
        ),
        *(
            r"[\pL]",
            "[[:^alpha:]]",
            "(?P<n>a)",
            "(?<n>a)",
            "(?i)a",
            "(?i-s:a)",
            r"\x{41}",
            "a{0}",
            "^*",
            "[a-b-c]",
        ),
        *(r"\07", "(?:)", "()", "a]", "\\é", "[a-]"),
    ],
)
def test_what_re2_takes(pattern: str) -> None:
    check_syntax(pattern)


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        ("a(", "missing closing )"),
        ("a)", "unexpected )"),
        ("[a", "missing closing ]"),
        ("[z-a]", "invalid character class range"),
        ("a**", "invalid nested repetition operator"),
        ("a{2,1}", "invalid repeat count"),
        ("a{1001}", "invalid repeat count"),
        ("*a", "missing argument to repetition operator"),
        (r"\1", "invalid escape sequence"),
        (r"\Z", "invalid escape sequence"),
        (r"\p{Foo}", "invalid character class range"),
        ("[[:foo:]]", "invalid character class range"),
        ("(?P<n>a)(?P<n>b)", "duplicate capture group name"),
        ("(?P<n-x>a)", "invalid named capture"),
        ("(?=a)", "invalid or unsupported Perl syntax"),
        (r"\x{110000}", "invalid escape sequence"),
        ("\\", "trailing backslash at end of expression"),
        (r"[\b]", "invalid escape sequence"),
    ],
)
def test_what_re2_does_not_take(pattern: str, said: str) -> None:
    with pytest.raises(Re2SyntaxError) as refused:
        check_syntax(pattern)
    assert str(refused.value) == said
