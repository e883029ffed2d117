"""Batches of transactions, and a fake transaction coordinator."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from barnabas.broker.coordinator.transaction.coordinator import TransactionCoordinator
from barnabas.broker.coordinator.transaction.metadata import TV_2
from barnabas.broker.coordinator.transaction.rules import ProducerIdAndEpoch
from barnabas.broker.pending import Pending
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.records.builder import build_batch
from barnabas.storage.offsets import TopicPartition
from tests.broker.logs import START_MS

PRODUCER_ID = 7
Asked = tuple[str, str, ProducerIdAndEpoch, tuple[TopicPartition, ...]]
"""The call ("add" or "verify"), its transactional id, its producer, and its partitions."""


def txn_batch(
    *values: str, sequence: int = 0, epoch: int = 0, producer_id: int = PRODUCER_ID, timestamp: int = START_MS
) -> bytes:
    """A batch of a transaction."""
    return build_batch(
        [(None, value.encode(), timestamp, ()) for value in values],
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        is_transactional=True,
    )


class FakeTransactions(TransactionCoordinator):
    """A transaction coordinator. `says` has the codes of partitions that it rejects; all others are in the transaction.

    With `holds` it answers when the test calls `release`.
    """

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self.says: dict[TopicPartition, ErrorCode] = {}
        self.holds = False
        self._held: list[tuple[Pending[Mapping[TopicPartition, ErrorCode]], tuple[TopicPartition, ...]]] = []

    def add_partitions(
        self,
        transactional_id: str,
        producer: ProducerIdAndEpoch,
        partitions: Collection[TopicPartition],
        client_version: int,
    ) -> Pending[ErrorCode]:
        """One result for all: that of the first partition that is rejected."""
        assert client_version == TV_2
        return self._asked("add", transactional_id, producer, partitions).then(
            lambda codes: next(
                (code for code in codes.values() if code is not ErrorCode.NONE), ErrorCode.NONE
            )
        )

    def verify_partitions(
        self, transactional_id: str, producer: ProducerIdAndEpoch, partitions: Collection[TopicPartition]
    ) -> Pending[Mapping[TopicPartition, ErrorCode]]:
        return self._asked("verify", transactional_id, producer, partitions)

    def _asked(
        self,
        what: str,
        transactional_id: str,
        producer: ProducerIdAndEpoch,
        partitions: Collection[TopicPartition],
    ) -> Pending[Mapping[TopicPartition, ErrorCode]]:
        self.asked.append((what, transactional_id, producer, tuple(partitions)))
        pending: Pending[Mapping[TopicPartition, ErrorCode]] = Pending()
        self._held.append((pending, tuple(partitions)))
        if not self.holds:
            self.release()
        return pending

    def release(self) -> None:
        """Answers all requests up to now."""
        held, self._held = self._held, []
        for pending, partitions in held:
            pending.complete({key: self.says.get(key, ErrorCode.NONE) for key in partitions})
