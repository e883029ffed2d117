"""Generated expressions against java.util.regex: tests/conformance/test_security_java.py."""

from __future__ import annotations

import contextlib
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.security.java_regex import JavaRegexError, translate


def matches(pattern: str, text: str) -> bool:
    return re.fullmatch(translate(pattern), text, re.ASCII) is not None


@pytest.mark.parametrize(
    ("pattern", "texts", "others"),
    [
        ("a.c", ["abc", "a\x0bc"], ["a\nc", "a\rc", "a\u2028c"]),
        ("^a$", ["a"], ["a\nb"]),
        ("(a|b)*+c", ["abac"], ["d"]),
        ("(?:a)(?=b)b(?!c)(?<=b)(?<!a)(?>x)", ["abx"], ["abc"]),
        ("(?<n>a)\\k<n>", ["aa"], ["ab"]),
        ("(a)(b)\\2\\1", ["abba"], ["abab"]),
        ("(?i)A", ["a", "A"], ["b"]),
        ("(?i:a)B", ["aB", "AB"], ["Ab"]),
        ("\\p{Alpha}\\P{Digit}[\\p{XDigit}_]", ["ax_", "axF"], ["1xF", "a1F", "axG"]),
        ("\\p{Punct}+", ["!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"], ["a"]),
        ("\\p{Space}\\p{Blank}\\p{Cntrl}\\p{Print}\\p{Graph}", ["\x0b\t\x7f a"], ["a\t\x7f a"]),
        ("\\d\\w\\s\\D\\W\\S", ["1_ a-a"], ["a_ a-a"]),
        ("\\Qa.b\\E.", ["a.bc"], ["axbc"]),
        ("\\Qa*", ["a*"], ["aa"]),
        ("\\x41\\u0042\\t\\n\\r\\f\\a\\e\\.\\-", ["AB\t\n\r\f\a\x1b.-"], ["ab"]),
        ("[a-c\\d,=.-]+", ["a1,=.-"], ["d"]),
        ("[^a]", ["b", "\n"], ["a"]),
        ("[a-z-9]+", ["z-9"], ["0"]),
        ("[\\]\\[\\\\&|~]+", ["][\\&|~"], ["a"]),
        ("a{2}b{1,}c{0,2}?", ["aab", "aabbcc"], ["ab"]),
        ("\\Aab\\z", ["ab"], ["abc"]),
        ("}]", ["}]"], ["}"]),
        ("", [""], ["a"]),
    ],
)
def test_what_matches(pattern: str, texts: list[str], others: list[str]) -> None:
    assert [text for text in texts if not matches(pattern, text)] == []
    assert [text for text in others if matches(pattern, text)] == []


@pytest.mark.parametrize("end", ["", "\n", "\r\n", "\r", "\u0085"])
def test_the_dollar_stands_before_a_last_end_of_line(end: str) -> None:
    found = re.search(translate("a$"), f"a{end}", re.ASCII)
    assert found is not None
    assert re.search(translate("a$"), f"a{end}b", re.ASCII) is None or not end


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        ("\\b", "b is not supported"),
        ("\\p{L}", "of \\\\p"),
        ("\\pL", "of \\\\p"),
        ("\\G", "G is not supported"),
        ("\\h", "h is not supported"),
        ("\\Z", "Z is not supported"),
        ("\\0", "0 is not supported"),
        ("\\1(a)", "no group that comes before"),
        ("(a\\1)", "no group that comes before"),
        ("(a)\\10", "followed by a digit"),
        ("\\k<n>", "names no group that comes before"),
        ("(?<n>a)(?<n>b)", "named twice"),
        ("(?m)a", "is not supported"),
        ("a(?i)b", "is not supported"),
        ("[a[b]]", "class within a class"),
        ("[a&&b]", "&& in a class"),
        ("[]a]", "a class is empty"),
        ("[a^]", "must be escaped"),
        ("[z-a]", "range z-a is empty"),
        ("[a-\\d]", "range of a class has no end"),
        ("[\\d-z]", "range of a class has no beginning"),
        ("[\\Qa\\E]", "in a class"),
        ("[a", "ends too early"),
        ("(a", "not closed"),
        ("a)", "closed that is not open"),
        ("a**", "nothing that"),
        ("*a", "nothing that"),
        ("a{,3}", "begins no quantifier"),
        ("a{3,2}", "more often at least"),
        ("\\", "ends too early"),
        ("\\xZZ", "no code in hex"),
        ("\\uD800", "surrogate"),
        ("(?<=a*)b", "cannot be used"),
    ],
)
def test_what_would_differ_is_refused(pattern: str, said: str) -> None:
    with pytest.raises(JavaRegexError, match=said):
        translate(pattern)


@given(st.text(alphabet="ab(){}[]^$.*+?|\\-,:<>=!Q12&dpk"))
def test_any_text_is_an_expression_or_raises_java_regex_error(pattern: str) -> None:
    with contextlib.suppress(JavaRegexError):
        re.compile(translate(pattern), re.ASCII)
