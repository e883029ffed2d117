"""What coordinators and partitions exchange about transactions (KIP-98, KIP-890)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from barnabas.broker.pending import Pending
from barnabas.config.catalogue.transactions import TRANSACTION_PARTITION_VERIFICATION_ENABLE
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.records.control import end_transaction_marker
from barnabas.storage.offsets import TopicPartition

if TYPE_CHECKING:
    from barnabas.config.broker_config import BrokerConfig


class TransactionalProducer(NamedTuple):
    """The producer of a transaction. `supports_epoch_bump`: each transaction has an epoch (transaction version 2)."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    supports_epoch_bump: bool


def needs_verification(config: BrokerConfig, supports_epoch_bump: bool) -> bool:
    """Whether the coordinator verifies a producer before its first records of a transaction in a partition."""
    return supports_epoch_bump or config[TRANSACTION_PARTITION_VERIFICATION_ENABLE]


class TransactionMarker(NamedTuple):
    """How a producer's transaction ends; `coordinator_epoch` is the leader epoch of its coordinator's partition."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    committed: bool
    transaction_version: int

    def batch(self, now_ms: int) -> bytes:
        """The control batch that ends the transaction in a partition."""
        return end_transaction_marker(
            commit=self.committed,
            coordinator_epoch=self.coordinator_epoch,
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            timestamp=now_ms,
        )


class TransactionVerifier(Protocol):
    """Verifies transactions with their coordinator, for a partition. Source: kafka.server.AddPartitionsToTxnManager."""

    def verify(
        self, producer: TransactionalProducer, partitions: Sequence[TopicPartition]
    ) -> Pending[Mapping[TopicPartition, ErrorCode]]:
        """NONE for each partition that belongs to the producer's open transaction; where the producer supports epoch
        bumps, missing ones are added."""


class MarkerWriter(Protocol):
    """Writes transaction markers to partitions. Source: TransactionMarkerChannelManager."""

    def write(
        self, marker: TransactionMarker, partitions: Sequence[TopicPartition]
    ) -> Pending[Mapping[TopicPartition, ErrorCode]]:
        """Appends the marker to each partition; NONE for those where it is committed. Those of __consumer_offsets go to
        the group coordinator, which replays them."""


class MarkerSender(Protocol):
    """Sends transaction markers to the leaders of partitions. Source: TransactionMarkerChannelManager."""

    def send(
        self, marker: TransactionMarker, partitions: Sequence[TopicPartition], is_current: Callable[[], bool]
    ) -> Sequence[Pending[Mapping[TopicPartition, ErrorCode]]]:
        """Has the marker written to each partition; one result for each of the leaders, as MarkerWriter.write has it.

        A marker that waits to be sent is dropped, with NOT_COORDINATOR, where `is_current` no longer holds.
        """


class ProducerIds(Protocol):
    """Generates producer ids."""

    def generate(self) -> Pending[int | None]:
        """A producer id that was never used; None where none can be reserved now."""
