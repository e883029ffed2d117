"""The partition of a key in the coordinators' topics."""

from __future__ import annotations

import pytest

from barnabas.broker.metadata.internal_topics import (
    abs_of_java,
    is_share_partition,
    java_hash,
    partition_for,
)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", 0),
        ("a", 97),
        ("group", 98629247),
        ("console-consumer-12345", 158455506),
        ("polygenelubricants", -(1 << 31)),
        ("ä", 228),
        ("\U0001f600", 1772899),
    ],
)
def test_strings_hash_as_in_java(text: str, code: int) -> None:
    assert java_hash(text) == code


def test_every_key_has_a_partition() -> None:
    assert partition_for("polygenelubricants", 50) == 0  # whose hash is Integer.MIN_VALUE
    assert partition_for("group", 50) == 98629247 % 50
    assert abs_of_java(-5) == 5


@pytest.mark.parametrize(
    ("key", "names_one"),
    [
        ("group:AAAAAAAAAAAAAAAAAAAAAA:0", True),
        ("group", False),
        ("group:AAAAAAAAAAAAAAAAAAAAAA", False),
        ("group:AAAAAAAAAAAAAAAAAAAAAA:x", False),
        ("group:short:0", False),
        (":AAAAAAAAAAAAAAAAAAAAAA:0", False),
        ("a:b:AAAAAAAAAAAAAAAAAAAAAA:0", True),
    ],
)
def test_keys_of_share_groups_partitions(key: str, names_one: bool) -> None:
    assert is_share_partition(key) is names_one
