"""The chosen protocol of a group, and the topics of a consumer's subscription."""

from __future__ import annotations

import pytest

from barnabas.broker.coordinator.group.classic.classic_member import ClassicGroupMember
from barnabas.broker.coordinator.group.classic.protocols import (
    ProtocolCounts,
    select_protocol,
    subscribed_topics,
)
from barnabas.broker.coordinator.java_order import map_order, string_hash
from barnabas.protocol.codec import encode
from barnabas.protocol.messages.consumer_protocol import ConsumerProtocolSubscription


def member(*names: str, metadata: bytes = b"") -> ClassicGroupMember:
    return ClassicGroupMember(
        "m",
        group_instance_id=None,
        client_id="",
        client_host="",
        rebalance_timeout_ms=1,
        session_timeout_ms=1,
        protocol_type="consumer",
        supported_protocols=tuple((name, metadata) for name in names),
    )


@pytest.mark.parametrize(
    ("likes", "chosen"),
    [
        (["a"], "a"),
        (["ab", "ab", "ba"], "a"),
        (["ab", "ba", "ba"], "b"),
        (["abc", "cb", "bc"], "b"),
        (["ca", "ab", "ab"], "a"),
        (["aab", "b"], "b"),
    ],
)
def test_the_common_protocol_with_most_votes_is_chosen(likes: list[str], chosen: str) -> None:
    members = [member(*names) for names in likes]
    counts = ProtocolCounts()
    for each in members:
        counts.add(each)
    assert select_protocol(members, counts) == chosen


def test_a_tie_is_decided_by_the_order_of_javas_hash_map() -> None:
    # As Kafka decides between members that vote for these two in turn.
    members = [member("roundrobin", "range"), member("range", "roundrobin")]
    counts = ProtocolCounts()
    for each in members:
        counts.add(each)
    in_turn = map_order(["range", "roundrobin"], string_hash)
    assert select_protocol(members, counts) == in_turn[0] == "range"


def test_protocol_counts_drop_entries_at_zero() -> None:
    counts = ProtocolCounts()
    one, two = member("a", "b"), member("b")
    counts.add(one)
    counts.add(two)
    assert counts.common(2) == {"b"}
    assert counts.has_all("b", 2)
    counts.remove(one)
    assert counts.common(1) == {"b"}
    assert not counts.has_all("a", 1)


@pytest.mark.parametrize("version", range(4))
def test_topics_are_decoded_from_any_subscription_version(version: int) -> None:
    owned = [ConsumerProtocolSubscription.TopicPartition(topic="o", partitions=[1])] if version else []
    said = ConsumerProtocolSubscription(topics=["t", "u"], user_data=b"x", owned_partitions=owned)
    metadata = version.to_bytes(2, "big") + encode(said, version)
    other = member("range", metadata=b"\0\0\0\0\0\1\0\1v\xff\xff\xff\xff")
    assert subscribed_topics([member("range", metadata=metadata), other], "range") == frozenset("tuv")


@pytest.mark.parametrize("metadata", [b"", b"\0", b"\0\0", b"\0\0\0\0\0\5", b"\0\0\0\0\0\1\0\1t"])
def test_undecodable_metadata_has_no_topics(metadata: bytes) -> None:
    assert subscribed_topics([member("range", metadata=metadata)], "range") is None
