"""TransactionCoordinator: the requests of handlers and partitions about transactions.

Source: kafka.coordinator.transaction.TransactionCoordinator.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Final

from barnabas.broker.coordinator.runtime import CoordinatorRuntime
from barnabas.broker.coordinator.shard import CoordinatorResult
from barnabas.broker.coordinator.transaction.listing import (
    Described,
    Listed,
    TransactionFilter,
    describe,
    list_transactions,
)
from barnabas.broker.coordinator.transaction.metadata import NO_TIMEOUT_MS
from barnabas.broker.coordinator.transaction.rules import (
    NewIdNeeded,
    ProducerAnswer,
    ProducerIdAndEpoch,
)
from barnabas.broker.coordinator.transaction.shard import TransactionCoordinatorShard
from barnabas.broker.coordinator.txn import ProducerIds
from barnabas.broker.pending import Pending, all_of, completed
from barnabas.config.broker_config import BrokerConfig
from barnabas.config.catalogue.transactions import (
    TRANSACTION_MAX_TIMEOUT_MS,
    TRANSACTION_TWO_PHASE_COMMIT_ENABLE,
)
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages.producers import ListTransactionsResponse
from barnabas.storage.offsets import TopicPartition

logger = logging.getLogger("barnabas.transactions")


_NO_ID: Final = ProducerAnswer(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
"""No producer id can be reserved now: not an error of the coordinator, but Kafka answers the same."""


class TransactionCoordinator:
    """Checks requests, finds the shard of each transactional id, and fetches producer ids where they are needed."""

    def __init__(
        self,
        runtime: CoordinatorRuntime[TransactionCoordinatorShard],
        config: BrokerConfig,
        producer_ids: ProducerIds,
    ) -> None:
        self._runtime = runtime
        self._config = config
        self._producer_ids = producer_ids

    # ---- requests of producers

    def init_producer_id(
        self,
        transactional_id: str | None,
        timeout_ms: int,
        expected: ProducerIdAndEpoch | None = None,
        *,
        enable_two_phase_commit: bool = False,
        keep_prepared: bool = False,
    ) -> Pending[ProducerAnswer]:
        """Assigns a producer id and an epoch; without a transactional id a new producer id.

        Two-phase commit has no timeout, and is rejected where it is not enabled. A prepared transaction cannot be kept,
        as in Kafka 4.3.
        """
        if transactional_id is None:
            return self._producer_ids.generate().then(_idempotent)
        rejection = self._rejection(transactional_id, timeout_ms, enable_two_phase_commit, keep_prepared)
        if rejection is not None:
            return completed(ProducerAnswer(rejection))
        resolved_ms = NO_TIMEOUT_MS if enable_two_phase_commit else timeout_ms

        def initialize(
            shard: TransactionCoordinatorShard, new_id: int | None
        ) -> CoordinatorResult[ProducerAnswer | NewIdNeeded]:
            return shard.init_producer_id(transactional_id, resolved_ms, expected, new_id)

        answer = self._with_new_id(transactional_id, initialize)
        answer.add_done_callback(lambda given: self._log_initialized(transactional_id, given))
        return answer

    def _rejection(
        self, transactional_id: str, timeout_ms: int, two_phase_commit: bool, keep_prepared: bool
    ) -> ErrorCode | None:
        if not transactional_id:
            return ErrorCode.INVALID_REQUEST
        if two_phase_commit and not self._config[TRANSACTION_TWO_PHASE_COMMIT_ENABLE]:
            return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        if keep_prepared:
            return ErrorCode.UNSUPPORTED_VERSION
        if not two_phase_commit and not 0 < timeout_ms <= self._config[TRANSACTION_MAX_TIMEOUT_MS]:
            return ErrorCode.INVALID_TRANSACTION_TIMEOUT
        return None

    def _log_initialized(self, transactional_id: str, answer: ProducerAnswer) -> None:
        if answer.error is ErrorCode.NONE:
            logger.info(
                "Transactional id %s continues with producer id %d, epoch %d",
                transactional_id,
                answer.producer_id,
                answer.producer_epoch,
            )

    def add_partitions(
        self,
        transactional_id: str,
        producer: ProducerIdAndEpoch,
        partitions: Collection[TopicPartition],
        client_version: int,
    ) -> Pending[ErrorCode]:
        """Adds partitions to the producer's transaction; NONE once that is committed."""
        if not transactional_id:
            return completed(ErrorCode.INVALID_REQUEST)
        return self._runtime.write(
            transactional_id,
            lambda shard: shard.add_partitions(transactional_id, producer, partitions, client_version),
            lambda error: error.code,
        )

    def verify_partitions(
        self, transactional_id: str, producer: ProducerIdAndEpoch, partitions: Collection[TopicPartition]
    ) -> Pending[Mapping[TopicPartition, ErrorCode]]:
        """NONE for each partition that is in the producer's transaction, or the error."""
        if not transactional_id:
            return completed(dict.fromkeys(partitions, ErrorCode.INVALID_REQUEST))
        return self._runtime.read(
            transactional_id,
            lambda shard: shard.verify_partitions(transactional_id, producer, partitions),
            lambda error: dict.fromkeys(partitions, error.code),
        )

    def end_transaction(
        self, transactional_id: str, producer: ProducerIdAndEpoch, *, commits: bool, client_version: int
    ) -> Pending[ProducerAnswer]:
        """Commits or aborts the producer's transaction: NONE once that is decided; the markers follow."""
        if not transactional_id:
            return completed(ProducerAnswer(ErrorCode.INVALID_REQUEST))

        def end(
            shard: TransactionCoordinatorShard, new_id: int | None
        ) -> CoordinatorResult[ProducerAnswer | NewIdNeeded]:
            return shard.end_transaction(
                transactional_id, producer, commits=commits, client_version=client_version, new_id=new_id
            )

        return self._with_new_id(transactional_id, end)

    # ---- descriptions

    def describe(self, transactional_id: str) -> Pending[Described]:
        """The state of a transactional id, or TRANSACTIONAL_ID_NOT_FOUND."""
        if not transactional_id:
            return completed(_undescribed(transactional_id, ErrorCode.INVALID_REQUEST))
        return self._runtime.read(
            transactional_id,
            lambda shard: describe(shard, transactional_id),
            lambda error: _undescribed(transactional_id, error.code),
        )

    def list_transactions(self, wanted: TransactionFilter) -> Pending[ListTransactionsResponse]:
        """The transactional ids of this coordinator that match `wanted`; an error where a partition is being loaded."""

        def failed(error: ApiError) -> Listed | ErrorCode:
            return error.code if error.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS else []

        def matching(shard: TransactionCoordinatorShard) -> Listed | ErrorCode:
            return list_transactions(shard.transactions.values(), wanted, shard.context.now_ms())

        return all_of(self._runtime.read_all(matching, failed)).then(partial(_all_listed, wanted))

    # ---- new producer ids

    def _with_new_id(
        self,
        transactional_id: str,
        operation: Callable[
            [TransactionCoordinatorShard, int | None], CoordinatorResult[ProducerAnswer | NewIdNeeded]
        ],
    ) -> Pending[ProducerAnswer]:
        """Runs `operation`, and once more with a new producer id where it needs one."""
        answer: Pending[ProducerAnswer] = Pending()

        def attempt(new_id: int | None) -> None:
            self._runtime.write(
                transactional_id,
                lambda shard: operation(shard, new_id),
                lambda error: ProducerAnswer(error.code),
            ).add_done_callback(decided)

        def decided(result: ProducerAnswer | NewIdNeeded) -> None:
            if isinstance(result, ProducerAnswer):
                answer.complete(result)
            else:
                self._producer_ids.generate().add_done_callback(generated)

        def generated(new_id: int | None) -> None:
            if new_id is None:
                answer.complete(_NO_ID)
            else:
                attempt(new_id)

        attempt(None)
        return answer


def _idempotent(producer_id: int | None) -> ProducerAnswer:
    if producer_id is None:
        return _NO_ID
    return ProducerAnswer(ErrorCode.NONE, producer_id, 0)


def _undescribed(transactional_id: str, error: ErrorCode) -> Described:
    return Described(transactional_id=transactional_id, error_code=error)


def _all_listed(wanted: TransactionFilter, parts: Sequence[Listed | ErrorCode]) -> ListTransactionsResponse:
    failed = next((part for part in parts if isinstance(part, ErrorCode)), None)
    if failed is not None:
        return ListTransactionsResponse(error_code=failed)
    return ListTransactionsResponse(
        unknown_state_filters=wanted.unknown_states,
        transaction_states=[it for part in parts if not isinstance(part, ErrorCode) for it in part],
    )
