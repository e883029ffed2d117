"""What coordinators and partitions say to each other of transactions (KIP-98, KIP-890)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from barnabas.broker.pending import Pending
from barnabas.config.catalogue.transactions import TRANSACTION_PARTITION_VERIFICATION_ENABLE
from barnabas.protocol.errors import ErrorCode
from barnabas.storage.offsets import TopicPartition

if TYPE_CHECKING:
    from barnabas.config.broker_config import BrokerConfig


class TransactionalProducer(NamedTuple):
    """Who writes in a transaction. `supports_epoch_bump`: by transaction version 2, each one in an epoch of its own."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    supports_epoch_bump: bool


def asks_coordinator(config: BrokerConfig, supports_epoch_bump: bool) -> bool:
    """Whether a producer's records wait for its coordinator's word before they begin a transaction in a partition."""
    return supports_epoch_bump or config[TRANSACTION_PARTITION_VERIFICATION_ENABLE]


class TransactionMarker(NamedTuple):
    """How a producer's transaction ends; `coordinator_epoch` is the leader epoch of its coordinator's partition."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    committed: bool
    transaction_version: int


class TransactionVerifier(Protocol):
    """Asks a transaction's coordinator on behalf of a partition. Source: kafka.server.AddPartitionsToTxnManager."""

    def verify(
        self, producer: TransactionalProducer, partitions: Sequence[TopicPartition]
    ) -> Pending[Mapping[TopicPartition, ErrorCode]]:
        """Whether each partition belongs to the producer's transaction that is open now; adds those that do not where
        the producer supports epoch bumps (NONE then)."""


class MarkerWriter(Protocol):
    """Writes markers into partitions, whoever leads them. Source: TransactionMarkerChannelManager."""

    def write(
        self, marker: TransactionMarker, partitions: Sequence[TopicPartition]
    ) -> Pending[Mapping[TopicPartition, ErrorCode]]:
        """Appends the marker to each partition; NONE for those where it is committed. Those of __consumer_offsets go to
        the group coordinator, which replays them."""


class ProducerIds(Protocol):
    """Where new producer ids come from."""

    def generate(self) -> Pending[int | None]:
        """An id that nobody had before; None where there is none to be had now."""
