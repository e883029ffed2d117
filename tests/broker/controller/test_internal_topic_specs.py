"""The specs of the coordinators' topics."""

from __future__ import annotations

import pytest

from barnabas.broker.controller.internal_topic_specs import configured_topic, creatable_topic
from barnabas.broker.controller.topic_admin import USE_DEFAULT
from barnabas.broker.metadata.internal_topics import CONSUMER_OFFSETS, SHARE_GROUP_STATE, TRANSACTION_STATE
from barnabas.config.broker_config import BrokerConfig


def config(**settings: str) -> BrokerConfig:
    return BrokerConfig.of(
        None, overrides=[f"{key.replace('_', '.')}={value}" for key, value in settings.items()]
    )


@pytest.mark.parametrize("name", [CONSUMER_OFFSETS, TRANSACTION_STATE, SHARE_GROUP_STATE])
@pytest.mark.parametrize(("brokers", "replicas"), [(1, 1), (2, 2), (3, 3), (9, 3)])
def test_replication_is_limited_to_the_registered_brokers(name: str, brokers: int, replicas: int) -> None:
    topic = creatable_topic(name, config(barnabas_profile="kafka"), brokers)
    assert topic.replication_factor == replicas
    assert topic.partition_count == 50
    if name != CONSUMER_OFFSETS:
        assert topic.configs["min.insync.replicas"] == str(min(2, brokers))


def test_partition_counts_and_segment_sizes_come_from_the_configuration() -> None:
    topic = creatable_topic(
        CONSUMER_OFFSETS, config(offsets_topic_num_partitions="7", offsets_topic_segment_bytes="2048"), 1
    )
    assert topic.partition_count == 7
    assert topic.configs == {
        "cleanup.policy": "compact",
        "compression.type": "producer",
        "segment.bytes": "2048",
    }


def test_transaction_state_has_no_unclean_leader_election() -> None:
    configs = creatable_topic(TRANSACTION_STATE, config(), 1).configs
    assert configs["unclean.leader.election.enable"] == "false"
    assert configs["cleanup.policy"] == "compact"
    assert configs["compression.type"] == "uncompressed"


def test_other_topics_have_the_defaults_of_the_broker() -> None:
    topic = creatable_topic("orders", config(), 1)
    assert (topic.partition_count, topic.replication_factor) == (USE_DEFAULT, USE_DEFAULT)
    assert not topic.configs


@pytest.mark.parametrize("name", [CONSUMER_OFFSETS, TRANSACTION_STATE, SHARE_GROUP_STATE])
def test_in_a_cluster_the_configured_replication_is_asked_for(name: str) -> None:
    topic = configured_topic(name, config(barnabas_profile="kafka"))
    assert (topic.replication_factor, topic.partition_count) == (3, 50)
    if name != CONSUMER_OFFSETS:
        assert topic.configs["min.insync.replicas"] == "2"


def test_in_a_cluster_other_topics_are_asked_for_with_the_defaults_of_this_broker() -> None:
    topic = configured_topic("orders", config(num_partitions="7", default_replication_factor="3"))
    assert (topic.partition_count, topic.replication_factor, dict(topic.configs)) == (7, 3, {})
