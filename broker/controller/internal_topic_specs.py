"""The partition counts, replication factors and configurations of the coordinators' topics.

A node that is alone bounds replication factors by the number of brokers; a member of a cluster asks for the configured
ones.

Pure functions. Source: kafka.server.DefaultAutoTopicCreationManager (creatableTopic), GroupCoordinatorService,
TransactionStateManager and ShareCoordinatorService (their topics' configs).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from barnabas.broker.controller.topic_admin import TopicSpec
from barnabas.broker.metadata.internal_topics import CONSUMER_OFFSETS, SHARE_GROUP_STATE, TRANSACTION_STATE
from barnabas.config.broker_config import BrokerConfig
from barnabas.config.catalogue import groups, share, transactions
from barnabas.config.catalogue.log import NUM_PARTITIONS
from barnabas.config.catalogue.replication import DEFAULT_REPLICATION_FACTOR
from barnabas.config.keys import ConfigKey
from barnabas.config.replicas import replicas_of


class _InternalTopic(NamedTuple):
    """The broker's configuration keys for an internal topic, and the topic's own settings."""

    partition_count: ConfigKey[int]
    replication_factor: ConfigKey[int]
    configs: Callable[[BrokerConfig, int], dict[str, str]]


def _offsets_configs(config: BrokerConfig, _: int) -> dict[str, str]:
    return {
        "cleanup.policy": "compact",
        "compression.type": "producer",
        "segment.bytes": str(config[groups.OFFSETS_TOPIC_SEGMENT_BYTES]),
    }


def _transaction_configs(config: BrokerConfig, brokers: int) -> dict[str, str]:
    return {
        "cleanup.policy": "compact",
        "compression.type": "uncompressed",
        "min.insync.replicas": str(replicas_of(config, transactions.TRANSACTION_STATE_LOG_MIN_ISR, brokers)),
        "segment.bytes": str(config[transactions.TRANSACTION_STATE_LOG_SEGMENT_BYTES]),
        "unclean.leader.election.enable": "false",
    }


def _share_configs(config: BrokerConfig, brokers: int) -> dict[str, str]:
    min_isr = replicas_of(config, share.SHARE_COORDINATOR_STATE_TOPIC_MIN_ISR, brokers)
    return {
        "cleanup.policy": "delete",
        "compression.type": "producer",
        "min.insync.replicas": str(min_isr),
        "retention.ms": "-1",
        "segment.bytes": str(config[share.SHARE_COORDINATOR_STATE_TOPIC_SEGMENT_BYTES]),
    }


_INTERNAL_TOPICS: Final = {
    CONSUMER_OFFSETS: _InternalTopic(
        groups.OFFSETS_TOPIC_NUM_PARTITIONS, groups.OFFSETS_TOPIC_REPLICATION_FACTOR, _offsets_configs
    ),
    TRANSACTION_STATE: _InternalTopic(
        transactions.TRANSACTION_STATE_LOG_NUM_PARTITIONS,
        transactions.TRANSACTION_STATE_LOG_REPLICATION_FACTOR,
        _transaction_configs,
    ),
    SHARE_GROUP_STATE: _InternalTopic(
        share.SHARE_COORDINATOR_STATE_TOPIC_NUM_PARTITIONS,
        share.SHARE_COORDINATOR_STATE_TOPIC_REPLICATION_FACTOR,
        _share_configs,
    ),
}


def creatable_topic(name: str, config: BrokerConfig, brokers: int) -> TopicSpec:
    """The spec of a topic that is created automatically, for an internal one from its own keys.

    `brokers` is their number, which bounds the replication factor and min.insync.replicas.
    """
    keys_of_topic = _INTERNAL_TOPICS.get(name)
    if keys_of_topic is None:
        return TopicSpec(name)
    return TopicSpec(
        name,
        partition_count=config[keys_of_topic.partition_count],
        replication_factor=replicas_of(config, keys_of_topic.replication_factor, brokers),
        configs=keys_of_topic.configs(config, brokers),
    )


_ANY_NUMBER: Final = 1 << 15
"""More brokers than any replication factor."""


def configured_topic(name: str, config: BrokerConfig) -> TopicSpec:
    """The spec of a topic that a member of a cluster has the controller create, with the configured factors."""
    if name in _INTERNAL_TOPICS:
        return creatable_topic(name, config, _ANY_NUMBER)
    return TopicSpec(
        name,
        partition_count=config[NUM_PARTITIONS],
        replication_factor=config[DEFAULT_REPLICATION_FACTOR],
    )
