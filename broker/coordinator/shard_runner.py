"""ShardRunner: one partition of a coordinator's topic: its shard, its timers, and its records on their way to the log.

    state    | entered                                        | operations are answered
    ---------+------------------------------------------------+---------------------------------------
    LOADING  | at first; when the state is not the log's;     | COORDINATOR_LOAD_IN_PROGRESS
             | until a load that lacked something is repeated |
    ACTIVE   | when the log is replayed                       | by the shard
    FAILED   | when the log cannot be read                    | NOT_COORDINATOR
    CLOSED   | when another leads, the partition goes, at stop| NOT_COORDINATOR

An operation's records are replayed at once, with the offsets that they will have, and wait in a batch that is appended
at the end of the pass of the event loop, together with those of other operations. What would keep them from being
written is checked before they are replayed. Where the log rejects a batch all the same, the state no longer matches the
log: all pending responses fail, and the shard is loaded again.
Source: CoordinatorRuntime.CoordinatorContext.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Hashable, Sequence
from enum import Enum
from functools import partial
from typing import Any, Final, Generic, TypeVar

from barnabas.broker.coordinator import errors
from barnabas.broker.coordinator.dependencies import RuntimeDependencies
from barnabas.broker.coordinator.loading import LoadCancelledError, ShardLoader
from barnabas.broker.coordinator.record_queue import Answer, Batch, RecordQueue, notify, size_of
from barnabas.broker.coordinator.shard import (
    CoordinatorResult,
    CoordinatorShard,
    ShardContext,
    TimedOperation,
)
from barnabas.broker.coordinator.timers import RETRY_BACKOFF_MS, ShardTimers
from barnabas.broker.coordinator.txn import TransactionalProducer, TransactionMarker
from barnabas.broker.logging.setup import RateLimit
from barnabas.broker.metadata.image import MetadataDelta, MetadataImage
from barnabas.broker.pending import Pending
from barnabas.broker.replica.append import AppendError, AppendResult
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.records.builder import build_batch
from barnabas.protocol.records.layout import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from barnabas.storage.errors import OutOfResourcesError, is_fault_of_disk
from barnabas.storage.log.txn_verification import VerificationGuard
from barnabas.storage.offsets import FileRecords

logger = logging.getLogger("barnabas.coordinator")

S = TypeVar("S", bound=CoordinatorShard)
R = TypeVar("R")
Operation = Callable[[S], CoordinatorResult[R]]

_rate_limit: Final = RateLimit()
LOAD_BACKOFF_MAX_S: Final = 10.0
_MOST_DOUBLINGS: Final = 10
LOSSES_FORGOTTEN_S: Final = 60.0
"""How long lost records delay the loads after the next one, in s."""

_GONE: Final = (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)


class ShardState(Enum):
    LOADING = "Loading"
    ACTIVE = "Active"
    FAILED = "Failed"
    CLOSED = "Closed"


class ShardRunner(Generic[S]):
    """Runs the operations of one shard. `epoch` is the leader epoch in which this broker coordinates."""

    def __init__(self, dependencies: RuntimeDependencies[S], partition: int, epoch: int) -> None:
        self.partition = partition
        self.epoch = epoch
        self.name = f"{dependencies.topic}-{partition}"
        self.state = ShardState.CLOSED
        self._dependencies = dependencies
        self._shard: S | None = None
        self._context: ShardContext | None = None
        self._timers = ShardTimers(dependencies.loop, self._due)
        self._queue = RecordQueue(dependencies, partition, self._lost)
        self._missed: list[tuple[MetadataImage, MetadataDelta]] = []
        self._losses = 0
        self._delayed_loads = 0
        self._lost_at = -math.inf
        self._awaited: object = None

    @property
    def shard(self) -> S | None:
        """The shard, where it is loaded."""
        return self._shard if self.state is ShardState.ACTIVE else None

    def rejection(self) -> ApiError | None:
        """Why operations are rejected now; None where they run."""
        if self.state is ShardState.ACTIVE:
            return None
        if self.state is ShardState.LOADING:
            return errors.load_in_progress(self.name)
        return errors.not_coordinator(self.name)

    # ---- operations

    def write(self, operation: Operation[S, R], answer: Answer[R]) -> None:
        """Runs `operation` and appends its records. See CoordinatorRuntime.write."""
        self._run(operation, answer, self._replay_and_add)
        self._queue.flush_unless_lingering()

    def _run(
        self,
        operation: Operation[S, R],
        answer: Answer[R],
        add: Callable[[CoordinatorResult[R]], None],
    ) -> None:
        """Runs `operation`; `add` replays its records and has them written, or raises ApiError."""
        probe = self._dependencies.probe
        began = probe.clock()
        result = self._decide(operation, answer)
        if result is None:
            return
        try:
            if result.records:
                add(result)
        except ApiError as error:
            _finish(result, answer, errors.as_coordinator(error))
            return
        probe.processing.add(probe.clock() - began)
        self._queue.when_committed(partial(_finish, result, answer))

    def read(self, operation: Callable[[S], R], answer: Answer[R]) -> None:
        """Runs a read-only operation. See CoordinatorRuntime.read."""
        result = self._decide(lambda shard: CoordinatorResult(operation(shard)), answer)
        if result is not None:
            self._queue.when_committed(partial(_finish, result, answer))

    def _decide(self, operation: Operation[S, R], answer: Answer[R]) -> CoordinatorResult[R] | None:
        """The result of the operation; None where it raised, and `answer` has failed."""
        shard = self.shard
        if shard is None:
            answer.fail(self.rejection() or errors.bug(self.name))
            return None
        try:
            return operation(shard)
        except ApiError as error:
            answer.fail(error)
        except Exception:
            logger.exception("an operation on %s failed", self.name)
            answer.fail(errors.bug(self.name))
        return None

    def _replay_and_add(self, result: CoordinatorResult[Any]) -> None:
        """Replays records and adds them to the next batch. Raises ApiError: the state is as before then, or the shard
        is loaded again."""
        records = result.records
        encoded = self._queue.encode(records)
        is_needed = any(map(self._dependencies.is_needed, records))
        batch = self._queue.batch_for(size_of(encoded), is_needed=is_needed)
        self._check_active()
        if result.replays:
            self._replay(records, batch.next_offset, NO_PRODUCER_ID, NO_PRODUCER_EPOCH)
        self._queue.add(batch, encoded)

    def _replay(self, records: Sequence[Any], offset: int, producer_id: int, producer_epoch: int) -> None:
        assert self._shard is not None
        try:
            for at, record in enumerate(records, offset):
                self._shard.replay(at, producer_id, producer_epoch, record)
        except Exception as error:
            logger.exception(
                "%s cannot replay the records of its own operation; it is loaded again", self.name
            )
            self._queue.flush()
            self._reload()
            raise errors.bug(self.name) from error

    def _check_active(self) -> None:
        rejection = self.rejection()
        if rejection is not None:
            raise rejection

    # ---- when the state is not the log's any more

    def _lost(self, batch: Batch, error: ApiError) -> None:
        """A batch is not in the log as it was replayed: the state that was built on it is abandoned."""
        answered = errors.as_coordinator(error)
        if self.state is not ShardState.ACTIVE:
            batch.complete(answered)
            return
        logger.warning("records of %s were not written: %s; it is loaded again", self.name, error)
        self._abandon(answered, batch)
        self._load_after_loss()

    def _load_after_loss(self) -> None:
        """Loads at once; with growing delays where the log keeps rejecting what the shard does after each load (the end
        of a transaction on a full disk)."""
        loop = self._dependencies.loop
        now = loop.time()
        self._losses = self._losses + 1 if now < self._lost_at + LOSSES_FORGOTTEN_S else 1
        self._lost_at = now
        if self._losses == 1:
            self._load()
            return
        self._load_later(self._losses - 1)

    def _load_later(self, times: int) -> None:
        """Delays a load, for longer with each of the `times` in a row."""
        self.state, self._context = ShardState.LOADING, None
        delay_s = min(RETRY_BACKOFF_MS / 1000 * 2 ** min(times - 1, _MOST_DOUBLINGS), LOAD_BACKOFF_MAX_S)
        self._awaited = awaited = object()
        loop = self._dependencies.loop
        loop.call_at(loop.time() + delay_s, lambda: self._load_if_awaited(awaited))

    def _load_if_awaited(self, awaited: object) -> None:
        if self._awaited is awaited and self.state is ShardState.LOADING:
            self._load()

    def _reload(self) -> None:
        self._abandon(errors.not_coordinator(self.name))
        self._load()

    def _abandon(self, error: ApiError, *batches: Batch) -> None:
        """Abandons the shard and fails all pending responses, those of `batches` first."""
        shard, self._shard, self.state = self._shard, None, ShardState.CLOSED
        self._context = None
        self._timers.close()
        for batch in batches:
            batch.complete(error)
        self._queue.abandon(error)
        if shard is not None:
            self._unload_shard(shard)

    def _unload_shard(self, shard: S) -> None:
        for seen in self._dependencies.probe.shard_gone:
            seen(shard)
        try:
            shard.on_unloaded()
        except Exception:
            logger.exception("%s failed to unload", self.name)

    # ---- transactions

    def write_in_transaction(
        self,
        producer: TransactionalProducer,
        guard: VerificationGuard | None,
        operation: Operation[S, R],
        answer: Answer[R],
    ) -> None:
        """Runs `operation` and appends its records in a batch of their own, in the producer's transaction."""
        self._queue.flush()
        self._run(operation, answer, lambda result: self._write_batch(result.records, producer, guard))

    def _write_batch(
        self, records: Sequence[Any], producer: TransactionalProducer, guard: VerificationGuard | None
    ) -> None:
        dependencies = self._dependencies
        encoded = self._queue.encode(records)
        batch = self._queue.new_batch(size_of(encoded), is_needed=any(map(dependencies.is_needed, records)))
        batch.add(encoded, dependencies.now_ms())
        data = build_batch(
            batch.records,
            compression=dependencies.compression(),
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            base_sequence=dependencies.base_sequence,
            is_transactional=True,
        )
        dependencies.logs.check_batch(self.partition, data, guard)
        self._replay(records, batch.first_offset, producer.producer_id, producer.producer_epoch)
        self._follow(batch, dependencies.logs.append(self.partition, data, guard=guard))

    def _follow(self, batch: Batch, result: AppendResult | Pending[AppendResult]) -> None:
        """Raises ApiError where the append has failed already."""
        failure: list[ApiError] = []
        batch.when_committed(lambda error: None if error is None else failure.append(error))
        self._queue.follow(batch, result)
        if failure:
            raise failure[0]

    def complete_transaction(self, marker: TransactionMarker) -> Pending[ApiError | None]:
        """Writes a marker and replays it. See CoordinatorRuntime.complete_transaction.

        Where the shard cannot be loaded the marker is appended all the same: the transaction has to end, and a later
        load replays the marker.
        """
        answer: Answer[ApiError | None] = Answer(lambda error: error)
        self._queue.flush()
        rejection = None if self.state is ShardState.FAILED else self.rejection()
        if rejection is None:
            try:
                self._write_marker(marker)
            except ApiError as error:
                rejection = error
        if rejection is not None:
            answer.fail(rejection)
        else:
            self._queue.when_committed(answer.pending.complete)
        return answer.pending

    def _write_marker(self, marker: TransactionMarker) -> None:
        dependencies = self._dependencies
        batch = self._queue.new_batch(0, is_needed=True)
        result = dependencies.logs.append(
            self.partition,
            marker.batch(dependencies.now_ms()),
            transaction_version=marker.transaction_version,
        )
        if isinstance(result, AppendError):
            raise ApiError(result.error, result.error_message)
        if self._shard is not None:
            self._replay_marker(self._shard, marker)
        self._follow(batch, result)

    def _replay_marker(self, shard: S, marker: TransactionMarker) -> None:
        try:
            shard.replay_end_transaction_marker(
                marker.producer_id, marker.producer_epoch, committed=marker.committed
            )
        except Exception as error:
            logger.exception("%s cannot replay the end of a transaction; it is loaded again", self.name)
            self._reload()
            raise errors.bug(self.name) from error

    # ---- timers

    def _due(self, key: Hashable, operation: TimedOperation, retry: bool) -> None:
        def failed(error: ApiError) -> None:
            if error.code in _GONE or self.shard is None:
                return
            _rate_limit.warning(logger, self.name, "the timer %r of %s: %s", key, self.name, error)
            if retry and not self._timers.is_scheduled(key):
                self._timers.schedule(key, RETRY_BACKOFF_MS, operation, retry=True)

        self.write(lambda _: operation(), Answer(failed))

    # ---- loading and unloading

    def load(self) -> None:
        """Starts coordinating."""
        if self.state in {ShardState.CLOSED, ShardState.FAILED}:
            self._load()

    def lead(self, epoch: int) -> None:
        """Continues in another leader epoch."""
        self.epoch = epoch
        if self._context is not None:
            self._context.epoch = epoch
        if self.shard is not None:
            self._new_epoch(self.shard)
        self.load()

    def _new_epoch(self, shard: S) -> None:
        try:
            shard.on_new_epoch()
        except Exception:
            logger.exception("%s failed to apply a new leader epoch", self.name)

    def unload(self) -> None:
        """Stops coordinating; pending responses fail with NOT_COORDINATOR."""
        self._missed.clear()
        self._delayed_loads = 0
        self._abandon(errors.not_coordinator(self.name))

    def close(self) -> None:
        """Appends the records of all operations so far and closes the shard, at the broker's stop."""
        self._queue.flush()
        shard, self._shard, self.state = self._shard, None, ShardState.CLOSED
        self._context = None
        self._timers.close()
        if shard is not None:
            self._unload_shard(shard)

    def is_usable(self) -> bool:
        """Whether the partition can be written and read."""
        try:
            self._dependencies.logs.check(self.partition)
        except ApiError as error:
            return error.code is ErrorCode.NOT_ENOUGH_REPLICAS
        return True

    def _load(self) -> None:
        dependencies = self._dependencies
        self.state, self._awaited = ShardState.LOADING, None
        self._timers = ShardTimers(dependencies.loop, self._due)
        self._context = context = ShardContext(
            partition=self.partition,
            epoch=self.epoch,
            config=dependencies.config,
            timer=self._timers,
            now_ms=dependencies.now_ms,
            image=dependencies.image,
            new_uuid=dependencies.new_uuid,
            when_committed=self._queue.when_committed,
        )
        try:
            contents = dependencies.logs.contents(self.partition)
        except (ApiError, OutOfResourcesError) as error:
            if self._context is context:  # and not gone with its disk
                self._not_loaded(error)
            return
        shard = dependencies.new_shard(context)
        loader = ShardLoader(
            self.name, dependencies.serde, dependencies.load_buffer_size(), lambda: self._context is context
        )
        if contents:
            self._load_on_thread(loader, contents, shard, context)
        else:
            self._loaded(shard, loader)

    def _load_on_thread(
        self, loader: ShardLoader, contents: Sequence[FileRecords], shard: S, context: ShardContext
    ) -> None:
        dependencies = self._dependencies
        failure: list[Exception] = []

        def work() -> None:
            try:
                loader.load(contents, shard)
            except Exception as error:  # of any kind: `done` handles it on the loop
                failure.append(error)

        def done(error: BaseException | None) -> None:
            if self._context is not context or self.state is not ShardState.LOADING:
                return
            if error is not None or failure:
                self._not_loaded(error or failure[0])
                if failure and isinstance(failure[0], OSError) and not _is_transient(failure[0]):
                    dependencies.logs.read_failed(self.partition, failure[0])
            else:
                self._loaded(shard, loader)

        dependencies.runner.submit(work, done)

    def _not_loaded(self, error: BaseException) -> None:
        self.state = ShardState.FAILED
        if isinstance(error, LoadCancelledError):
            return
        self._dependencies.probe.load_failures += 1
        if _is_transient(error):
            logger.warning("%s cannot be loaded now; the load is retried: %r", self.name, error)
            self._delayed_loads += 1
            self._load_later(self._delayed_loads)
        else:
            self._missed.clear()
            logger.error("%s cannot be loaded: %s", self.name, error, exc_info=_unexpected(error))

    def _loaded(self, shard: S, loader: ShardLoader) -> None:
        self._shard, self.state, self._delayed_loads = shard, ShardState.ACTIVE, 0
        try:
            self._queue.follow_loaded()
            shard.on_loaded()
            missed, self._missed = self._missed, []
            for image, delta in missed:
                shard.on_new_metadata_image(image, delta)
        except Exception as error:  # a bug, which must affect this partition alone
            self._abandon(errors.not_coordinator(self.name))
            self._not_loaded(error)
            return
        self._dependencies.probe.loaded(loader.summary)

    def metadata_changed(self, image: MetadataImage, delta: MetadataDelta) -> None:
        if self.state is ShardState.LOADING:
            self._missed.append((image, delta))
        elif self._shard is not None:
            try:
                self._shard.on_new_metadata_image(image, delta)
            except Exception:
                logger.exception("%s failed to apply new metadata", self.name)


def _finish(result: CoordinatorResult[R], answer: Answer[R], error: ApiError | None) -> None:
    if result.on_committed is not None:
        notify(result.on_committed, error)
    if error is None:
        answer.give(result.response)
    else:
        answer.fail(error)


def _is_transient(error: BaseException) -> bool:
    """Whether a load failed for lack of descriptors or memory, which is no fault of the log or its disk."""
    if isinstance(error, OSError):
        return not is_fault_of_disk(error)
    return isinstance(error, OutOfResourcesError | MemoryError)


def _unexpected(error: BaseException) -> BaseException | None:
    return None if isinstance(error, ApiError | OSError) else error
