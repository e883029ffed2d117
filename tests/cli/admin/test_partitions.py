from __future__ import annotations

import pytest

from barnabas.cli.admin.partitions import TopicPartition, TopicPattern, by_topic, parse_topic_partitions


def test_partitions_of_a_topic() -> None:
    assert parse_topic_partitions("t") == ("t", None)
    assert parse_topic_partitions("t:0,2") == ("t", [0, 2])
    assert str(TopicPartition("t", 1)) == "t-1"
    assert by_topic([TopicPartition("t", 1), TopicPartition("u", 0), TopicPartition("t", 2)]) == {
        "t": [1, 2],
        "u": [0],
    }


@pytest.mark.parametrize("text", ["t:", ":0", "t:a", "t:0,", "t:0:1", "t:-1"])
def test_invalid_partitions_are_rejected(text: str) -> None:
    with pytest.raises(ValueError, match=text.replace("-", ".")):
        parse_topic_partitions(text)


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
def test_topic_patterns(pattern: str, topic: str, allowed: bool) -> None:
    assert TopicPattern(pattern).allows(topic) is allowed


def test_an_invalid_pattern_is_rejected() -> None:
    with pytest.raises(ValueError, match="is not a regular expression"):
        TopicPattern("(")
