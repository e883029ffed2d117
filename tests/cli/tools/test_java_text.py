"""Text as in Java; the expected values are from a Java virtual machine."""

from __future__ import annotations

import pytest

from barnabas.cli.tools.java_text import decode_utf8, file_text, format_double, hash_map_order


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"plain", "plain"),
        ("\u00e9\u20ac\U0001f30d".encode(), "\u00e9\u20ac\U0001f30d"),
        (b"a\xffb", "a\ufffdb"),
        (b"\xed\xa0\x80", "\ufffd"),  # a surrogate; Python's decoder alone gives three characters
        (b"\xed\xa0", "\ufffd"),
        (b"\xed\xa0x", "\ufffdx"),
        (b"\xe2\x82", "\ufffd"),
        (b"\xe2\x82x", "\ufffdx"),
        (b"\xf0\x9f\x98", "\ufffd"),
        (b"\xc0\xaf", "\ufffd\ufffd"),
        (b"\xf5\x80\x80\x80", "\ufffd" * 4),
    ],
)
def test_bytes_that_are_not_utf8(data: bytes, text: str) -> None:
    assert decode_utf8(data) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.0"),
        (-0.0, "-0.0"),
        (1.0, "1.0"),
        (-2.5, "-2.5"),
        (100.0, "100.0"),
        (1234567.0, "1234567.0"),
        (9999999.0, "9999999.0"),
        (1e7, "1.0E7"),
        (12345678.9, "1.23456789E7"),
        (1e300, "1.0E300"),
        (0.001, "0.001"),
        (0.0123, "0.0123"),
        (0.00012, "1.2E-4"),
        (5e-324, "4.9E-324"),
        (float("inf"), "Infinity"),
        (float("-inf"), "-Infinity"),
        (float("nan"), "NaN"),
    ],
)
def test_the_text_of_doubles(value: float, text: str) -> None:
    assert format_double(value) == text


def test_the_order_of_a_hash_map() -> None:
    """Keys are in the order of their text's hash; within a bucket the last inserted is first."""
    assert hash_map_order(["b", "a", "c"], is_asked_again=False) == ["a", "b", "c"]
    assert hash_map_order(["a", "q"], is_asked_again=False) == [
        "q",
        "a",
    ]  # 97 and 113: one bucket of 16
    filled = [chr(97 + number) for number in range(13)]
    assert hash_map_order([*filled, "q"], is_asked_again=False).index("q") > 0  # but two of 32


@pytest.mark.parametrize(("path", "text"), [("/a//b/", "/a/b"), ("a", "a"), ("/", "/"), ("./x", "./x")])
def test_the_text_of_paths(path: str, text: str) -> None:
    assert file_text(path) == text
