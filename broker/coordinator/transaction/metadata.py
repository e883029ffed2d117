"""TransactionMetadata: the state of one transactional id, and the steps from one state to the next.

A step makes new metadata and changes none. Steps assert that they are allowed; rules.py decides whether a
producer may take one. Source: org.apache.kafka.coordinator.transaction.TransactionMetadata, TxnTransitMetadata.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from barnabas.broker.coordinator.java_order import SMALLEST_TABLE, table_after_adding, table_for_copy
from barnabas.broker.coordinator.transaction.state import (
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    EMPTY,
    ENDING,
    IDLE,
    ONGOING,
    PREPARE_ABORT,
    PREPARE_COMMIT,
    VALID_PREVIOUS_STATES,
    TransactionState,
)
from barnabas.protocol.records.layout import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_TIMESTAMP
from barnabas.storage.offsets import TopicPartition

MAX_EPOCH: Final = 32767
"""The highest epoch of a producer id: never given to a client, so that each can be fenced with a higher one."""

NO_TIMEOUT_MS: Final = 2**31 - 1
"""The timeout of a transaction that another system ends (two-phase commit, KIP-939)."""

TV_0, TV_1, TV_2 = 0, 1, 2


def supports_epoch_bump(transaction_version: int) -> bool:
    """Whether each transaction has an epoch of its own (transaction.version 2, KIP-890)."""
    return transaction_version >= TV_2


def is_epoch_exhausted(epoch: int) -> bool:
    """Whether no epoch is left to give to a client after this one."""
    return epoch >= MAX_EPOCH - 1


class TransactionMetadata(NamedTuple):
    """One transactional id. Timestamps are ms since 1970; `client_version` is the transaction version of the client
    whose request led to the state.

    `partitions` are in the order in which they were added, `table` is the size of the HashSet in which Kafka keeps them
    (java_order.py). `last_producer_epoch` is the epoch before the newest, which a retry of InitProducerId may still
    have; no record has it, so it is lost when the partition is loaded.
    """

    transactional_id: str
    producer_id: int
    timeout_ms: int
    last_update_timestamp_ms: int
    previous_producer_id: int = NO_PRODUCER_ID
    next_producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH
    last_producer_epoch: int = NO_PRODUCER_EPOCH
    state: TransactionState = EMPTY
    partitions: tuple[TopicPartition, ...] = ()
    table: int = SMALLEST_TABLE
    start_timestamp_ms: int = NO_TIMESTAMP
    client_version: int = TV_0

    @property
    def is_epoch_exhausted(self) -> bool:
        return is_epoch_exhausted(self.producer_epoch)

    @property
    def is_two_phase_commit(self) -> bool:
        return self.timeout_ms == NO_TIMEOUT_MS

    @property
    def is_ending(self) -> bool:
        return self.state in ENDING

    @property
    def commits(self) -> bool:
        """Whether a transaction that is ending is committed."""
        assert self.is_ending
        return self.state is PREPARE_COMMIT

    def has_timed_out(self, now_ms: int) -> bool:
        return (
            self.state is ONGOING
            and not self.is_two_phase_commit
            and self.start_timestamp_ms + self.timeout_ms < now_ms
        )

    def has_expired(self, now_ms: int, expiration_ms: int) -> bool:
        return self.state in IDLE and self.last_update_timestamp_ms <= now_ms - expiration_ms

    # ---- steps

    def with_next_epoch(self, timeout_ms: int, now_ms: int, *, last_epoch: int) -> TransactionMetadata:
        """InitProducerId assigns the next epoch."""
        assert not self.is_epoch_exhausted, f"no epoch is left: {self!r}"
        return self._initialized(
            timeout_ms, now_ms, producer_epoch=self.producer_epoch + 1, last_producer_epoch=last_epoch
        )

    def with_same_epoch(self, timeout_ms: int, now_ms: int) -> TransactionMetadata:
        """A retry of InitProducerId, whose response the client missed."""
        return self._initialized(timeout_ms, now_ms)

    def with_new_producer_id(
        self, producer_id: int, timeout_ms: int, now_ms: int, *, last_epoch: int
    ) -> TransactionMetadata:
        """InitProducerId where no epoch is left."""
        return self._initialized(
            timeout_ms, now_ms, producer_id=producer_id, producer_epoch=0, last_producer_epoch=last_epoch
        )

    def with_partitions(
        self, added: Iterable[TopicPartition], now_ms: int, client_version: int
    ) -> TransactionMetadata:
        """Partitions join the transaction, and begin it where none is open."""
        partitions = tuple(dict.fromkeys((*self.partitions, *added)))
        return self._step(
            ONGOING,
            partitions=partitions,
            table=table_after_adding(table_for_copy(len(self.partitions)), len(partitions)),
            start_timestamp_ms=now_ms if self.state in IDLE else self.start_timestamp_ms,
            last_update_timestamp_ms=now_ms,
            client_version=client_version,
        )

    def ending(
        self, *, commits: bool, client_version: int, now_ms: int, next_producer_id: int = NO_PRODUCER_ID
    ) -> TransactionMetadata:
        """Decides how the transaction ends. With transaction version 2 this takes an epoch, which the markers have;
        `next_producer_id` is the producer's next id when that was the last epoch."""
        epochs = self._epochs_of_end(client_version)
        return self._step(
            PREPARE_COMMIT if commits else PREPARE_ABORT,
            start_timestamp_ms=now_ms if self.state in IDLE else self.start_timestamp_ms,
            next_producer_id=next_producer_id,
            last_update_timestamp_ms=now_ms,
            client_version=client_version,
            **epochs,
        )

    def _epochs_of_end(self, client_version: int) -> dict[str, int]:
        if not supports_epoch_bump(client_version):
            return {}
        bumped = min(self.producer_epoch + 1, MAX_EPOCH)
        return {"producer_epoch": bumped, "last_producer_epoch": self.producer_epoch}

    def fenced_and_aborting(
        self, server_version: int, now_ms: int, next_producer_id: int = NO_PRODUCER_ID
    ) -> TransactionMetadata:
        """The coordinator aborts the transaction of a producer that it fences, which takes an epoch."""
        if supports_epoch_bump(server_version):
            return self.ending(
                commits=False,
                client_version=server_version,
                now_ms=now_ms,
                next_producer_id=next_producer_id,
            )
        bumped = min(self.producer_epoch + 1, MAX_EPOCH)
        fenced = self._replace(producer_epoch=bumped, last_producer_epoch=NO_PRODUCER_EPOCH)
        return fenced.ending(commits=False, client_version=TV_0, now_ms=now_ms)

    def completed(self, now_ms: int) -> TransactionMetadata:
        """All markers are written. Where no epoch is left, the next producer id replaces the id; `last_producer_epoch`
        then stays the last one that the client saw."""
        replaced: dict[str, int] = {}
        if supports_epoch_bump(self.client_version) and self.next_producer_id != NO_PRODUCER_ID:
            replaced = {"producer_id": self.next_producer_id, "producer_epoch": 0}
        return self._step(
            COMPLETE_COMMIT if self.commits else COMPLETE_ABORT,
            next_producer_id=NO_PRODUCER_ID,
            partitions=(),
            table=SMALLEST_TABLE,
            last_update_timestamp_ms=now_ms,
            **replaced,
        )

    def _initialized(self, timeout_ms: int, now_ms: int, **changes: Any) -> TransactionMetadata:
        return self._step(
            EMPTY,
            timeout_ms=timeout_ms,
            partitions=(),
            table=SMALLEST_TABLE,
            start_timestamp_ms=NO_TIMESTAMP,
            last_update_timestamp_ms=now_ms,
            **changes,
        )

    def _step(self, state: TransactionState, **changes: Any) -> TransactionMetadata:
        assert self.state in VALID_PREVIOUS_STATES[state], f"{self.state!r} to {state!r}"
        after = self._replace(state=state, previous_producer_id=self.producer_id, **changes)
        assert after.producer_id >= 0, after
        assert after.producer_epoch >= 0, after
        return after
