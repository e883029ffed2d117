"""Replication factors on fewer brokers than they ask for."""

from __future__ import annotations

from barnabas.config.broker_config import BrokerConfig
from barnabas.config.catalogue.groups import OFFSETS_TOPIC_REPLICATION_FACTOR
from barnabas.config.replicas import clamp_replication, replicas_of


def test_one_line_names_every_factor_that_counts_as_less() -> None:
    (line,) = clamp_replication(
        BrokerConfig.of(b"default.replication.factor=2\noffsets.topic.replication.factor=1")
    )
    assert line.startswith("there is 1 broker, so each of these counts as 1: default.replication.factor=2, ")
    assert "offsets.topic" not in line
    assert "transaction.state.log.replication.factor=3" in line


def test_no_log_line_with_enough_brokers() -> None:
    assert clamp_replication(BrokerConfig(), brokers=3) == []
    assert clamp_replication(BrokerConfig(), brokers=2)[0].startswith(
        "there are 2 brokers, so each of these counts as 2"
    )


def test_a_factor_counts_as_the_brokers_there_are() -> None:
    assert replicas_of(BrokerConfig(), OFFSETS_TOPIC_REPLICATION_FACTOR) == 1
    assert replicas_of(BrokerConfig(), OFFSETS_TOPIC_REPLICATION_FACTOR, brokers=9) == 3
