"""Limits replication factors to the number of brokers.

Kafka's defaults for its internal topics want three brokers; with one, the first consumer group waits for ever.
Here the number of brokers bounds every factor, and a log line at the start reports it.
"""

from barnabas.config.broker_config import BrokerConfig
from barnabas.config.catalogue.groups import OFFSETS_TOPIC_REPLICATION_FACTOR
from barnabas.config.catalogue.replication import DEFAULT_REPLICATION_FACTOR
from barnabas.config.catalogue.share import (
    SHARE_COORDINATOR_STATE_TOPIC_MIN_ISR,
    SHARE_COORDINATOR_STATE_TOPIC_REPLICATION_FACTOR,
)
from barnabas.config.catalogue.transactions import (
    TRANSACTION_STATE_LOG_MIN_ISR,
    TRANSACTION_STATE_LOG_REPLICATION_FACTOR,
)
from barnabas.config.keys import ConfigKey

REPLICA_COUNTS: tuple[ConfigKey[int], ...] = (
    DEFAULT_REPLICATION_FACTOR,
    OFFSETS_TOPIC_REPLICATION_FACTOR,
    TRANSACTION_STATE_LOG_REPLICATION_FACTOR,
    TRANSACTION_STATE_LOG_MIN_ISR,
    SHARE_COORDINATOR_STATE_TOPIC_REPLICATION_FACTOR,
    SHARE_COORDINATOR_STATE_TOPIC_MIN_ISR,
)


def replicas_of(config: BrokerConfig, key: ConfigKey[int], brokers: int = 1) -> int:
    """The effective value of one of REPLICA_COUNTS with so many brokers."""
    return min(config[key], brokers)


def clamp_replication(config: BrokerConfig, brokers: int = 1) -> list[str]:
    """The log line for the start when REPLICA_COUNTS exceed the number of brokers; empty when they do not.

    In a cluster the controller knows how many brokers there are.
    """
    clamped = [key for key in REPLICA_COUNTS if config[key] > brokers]
    if not clamped or config.is_member:
        return []
    there_are = "there is 1 broker" if brokers == 1 else f"there are {brokers} brokers"
    names = ", ".join(f"{key.name}={config[key]}" for key in clamped)
    return [f"{there_are}, so each of these counts as {brokers}: {names}"]
