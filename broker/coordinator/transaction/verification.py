"""AddPartitionsToTxnManager: verifies partitions with the coordinator of a transaction, or adds them (KIP-890).

Source: org.apache.kafka.server.transaction.AddPartitionsToTxnManager.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from barnabas.broker.coordinator.transaction.coordinator import TransactionCoordinator
from barnabas.broker.coordinator.transaction.metadata import TV_2
from barnabas.broker.coordinator.transaction.rules import ProducerIdAndEpoch
from barnabas.broker.coordinator.txn import TransactionalProducer
from barnabas.broker.pending import Pending
from barnabas.broker.probes import RecentTimes
from barnabas.protocol.errors import ErrorCode
from barnabas.storage.offsets import TopicPartition

if TYPE_CHECKING:
    from barnabas.broker.coordinator.transaction.remote_coordinators import RemoteCoordinators

Codes = Mapping[TopicPartition, ErrorCode]


class VerificationProbe:
    """How many partitions the coordinator rejected, and how long verifications took."""

    def __init__(self) -> None:
        self.failures = 0
        self.times = RecentTimes()


class AddPartitionsToTxnManager:
    """A TransactionVerifier over the coordinator in this process, and in a cluster over `remote` ones.

    `time` is a monotonic clock in seconds.
    """

    def __init__(
        self,
        coordinator: TransactionCoordinator,
        probe: VerificationProbe,
        time: Callable[[], float],
        remote: RemoteCoordinators | None = None,
    ) -> None:
        self._coordinator = coordinator
        self._probe = probe
        self._time = time
        self._remote = remote

    def verify(self, producer: TransactionalProducer, partitions: Sequence[TopicPartition]) -> Pending[Codes]:
        """NONE for each partition that belongs to the producer's open transaction; where the producer supports epoch
        bumps, missing ones are added.

        TRANSACTION_ABORTABLE is INVALID_TXN_STATE to clients that do not know it (Produce below version 11,
        TxnOffsetCommit below version 4); the caller maps it for those.
        """
        started = self._time()

        def answered(codes: Codes) -> Codes:
            failures = sum(code is not ErrorCode.NONE for code in codes.values())
            self._probe.failures += failures
            self._probe.times.add(self._time() - started)
            return {partition: _for_producers(code) for partition, code in codes.items()}

        return self._ask(producer, partitions).then(answered)

    def _ask(self, producer: TransactionalProducer, partitions: Sequence[TopicPartition]) -> Pending[Codes]:
        if self._remote is not None and not self._remote.is_local(producer.transactional_id):
            return self._remote.ask(producer, partitions)
        transactional_id, epoch = (
            producer.transactional_id,
            ProducerIdAndEpoch(producer.producer_id, producer.producer_epoch),
        )
        if not producer.supports_epoch_bump:
            return self._coordinator.verify_partitions(transactional_id, epoch, partitions)
        return self._coordinator.add_partitions(transactional_id, epoch, partitions, TV_2).then(
            lambda code: dict.fromkeys(partitions, code)
        )


def _for_producers(code: ErrorCode) -> ErrorCode:
    """Producers expect INVALID_PRODUCER_EPOCH of a partition where the coordinator has PRODUCER_FENCED."""
    return ErrorCode.INVALID_PRODUCER_EPOCH if code is ErrorCode.PRODUCER_FENCED else code
