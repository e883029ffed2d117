"""How the coordinators' topics are made, and which partition has which key."""

from __future__ import annotations

import pytest

from barnabas.broker.controller.internal_topics import (
    CONSUMER_OFFSETS,
    SHARE_GROUP_STATE,
    TRANSACTION_STATE,
    abs_of_java,
    creatable_topic,
    is_share_partition,
    java_hash,
    partition_for,
)
from barnabas.broker.controller.topic_admin import USE_DEFAULT
from barnabas.config.broker_config import BrokerConfig


def config(**settings: str) -> BrokerConfig:
    return BrokerConfig.of(
        None, overrides=[f"{key.replace('_', '.')}={value}" for key, value in settings.items()]
    )


@pytest.mark.parametrize("name", [CONSUMER_OFFSETS, TRANSACTION_STATE, SHARE_GROUP_STATE])
@pytest.mark.parametrize(("brokers", "replicas"), [(1, 1), (2, 2), (3, 3), (9, 3)])
def test_replication_is_clamped_to_the_brokers_that_are_there(name: str, brokers: int, replicas: int) -> None:
    topic = creatable_topic(name, config(barnabas_profile="kafka"), brokers)
    assert topic.replication_factor == replicas
    assert topic.partition_count == 50
    if name != CONSUMER_OFFSETS:
        assert topic.configs["min.insync.replicas"] == str(min(2, brokers))


def test_counts_and_segments_are_those_of_the_configuration() -> None:
    topic = creatable_topic(
        CONSUMER_OFFSETS, config(offsets_topic_num_partitions="7", offsets_topic_segment_bytes="2048"), 1
    )
    assert topic.partition_count == 7
    assert topic.configs == {
        "cleanup.policy": "compact",
        "compression.type": "producer",
        "segment.bytes": "2048",
    }


def test_the_state_of_transactions_is_never_lost_to_an_unclean_leader() -> None:
    configs = creatable_topic(TRANSACTION_STATE, config(), 1).configs
    assert configs["unclean.leader.election.enable"] == "false"
    assert configs["cleanup.policy"] == "compact"
    assert configs["compression.type"] == "uncompressed"


def test_any_other_topic_is_made_with_the_brokers_defaults() -> None:
    topic = creatable_topic("orders", config(), 1)
    assert (topic.partition_count, topic.replication_factor) == (USE_DEFAULT, USE_DEFAULT)
    assert not topic.configs


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
    assert partition_for("polygenelubricants", 50) == 0  # of which Integer.MIN_VALUE is the hash
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
