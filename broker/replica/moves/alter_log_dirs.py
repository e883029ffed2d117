"""ReplicaAlterLogDirsManager: replicas that move from one log directory of this broker to another (KIP-113).

    create    a thread makes the directory of the future log; the client gets its response
    copy      a thread copies records of the log in use to the future log, a piece at a time
    mirror    the future log has caught up. From here on each append goes to both logs in the same
              step, and acknowledgements that wait for an fsync wait, while a thread makes the future log durable
    commit    the controller writes the new directory into the metadata: from here on a crash leaves the future log
    replace   in one step the future log takes the place of the log in use, which is deleted

So at every instant either log that a crash may leave in use has all acknowledged records. A step that fails goes back
to copying, or ends the move. Source: kafka.server.ReplicaAlterLogDirsThread, ReplicaManager.alterReplicaLogDirs.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

from barnabas.broker.logging.setup import RateLimit
from barnabas.broker.pending import Pending
from barnabas.broker.replica.moves.log_dir_move import LogDirMove, MovePhase, may_pass, of_target
from barnabas.broker.replica.partition import Partition
from barnabas.broker.waiting.blocking import BlockingRunner, Done, Work
from barnabas.broker.waiting.timer import Timer, TimerHandle
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.records.errors import CorruptRecordError
from barnabas.storage.errors import (
    KafkaStorageError,
    LogDirError,
    StorageError,
)
from barnabas.storage.manager.future_log import SourceChangedError
from barnabas.storage.offsets import TopicPartition

if TYPE_CHECKING:
    from barnabas.broker.replica.log_flusher import LogFlusher
    from barnabas.broker.replica.moves.replication_quota import ReplicationQuota
    from barnabas.storage.log.unified_log import UnifiedLog
    from barnabas.storage.manager.future_log import CopyStep
    from barnabas.storage.manager.future_logs import NewFutureLog
    from barnabas.storage.manager.log_dir import LogDir
    from barnabas.storage.manager.log_manager import LogManager

logger = logging.getLogger("barnabas.alter_log_dirs")

INLINE_BYTES: Final = 128 << 10
"""So little is appended at once, on the loop: else a future log would never catch up with a busy log."""

MAX_INLINE_STEPS: Final = 3  # the tail of one segment, and the next one

FLUSH_BYTES: Final = 32 << 20
"""After so many bytes a future log is flushed, so that little is left to flush when it has caught up."""


class Replicas(Protocol):
    """The part of the ReplicaManager that moves use."""

    log_manager: LogManager
    flusher: LogFlusher

    def find(self, topic: str, index: int) -> Partition | None: ...
    def log_dir_failed(self, log_dir: str, why: str = ...) -> None: ...
    def log_replaced(self, partition: Partition, log: UnifiedLog) -> None: ...


ReportDirectory = Callable[[Partition, bytes], Pending[bool]]
"""Has the controller write the replica's directory (its id) into the metadata. False: that failed."""


class ReplicaAlterLogDirsManager:
    """The moves of one broker. On the event loop; blocking work goes to `runner`, whose threads do nothing else."""

    def __init__(
        self,
        replicas: Replicas,
        *,
        threads: int,
        runner: BlockingRunner,
        timer: Timer,
        quota: ReplicationQuota,
        report: ReportDirectory,
        backoff_s: Callable[[], float],
    ) -> None:
        self._replicas = replicas
        self._log_manager = replicas.log_manager
        self._threads = threads
        self._runner = runner
        self._timer = timer
        self._quota = quota
        self._report = report
        self._backoff_s = backoff_s
        self._moves: dict[TopicPartition, LogDirMove] = {}
        self._ready: deque[LogDirMove] = deque()
        self._running = 0  # steps, of which there are `threads` at a time
        self._busy = 0  # moves that a thread works for
        self._handle: TimerHandle | None = None
        self._rate_limit = RateLimit()
        self._all_idle: asyncio.Future[None] | None = None
        self._is_stopping = False

    # ---- the moves

    @property
    def moves(self) -> list[LogDirMove]:
        return list(self._moves.values())

    def target_of(self, key: TopicPartition) -> str | None:
        """The log directory that a partition is moving to."""
        move = self._moves.get(key)
        return None if move is None else move.target.path

    def begin(self, partition: Partition, target: LogDir) -> Pending[ErrorCode]:
        """Begins a move, or finds the running one; completes when the future log exists."""
        if (known := self._moves.get((partition.topic, partition.index))) is not None:
            return known.begun
        move = self._add(partition, target)
        if move.is_ended:  # a disk failed while a cleaning was aborted for it
            return move.begun
        try:
            new = self._log_manager.future.prepare(partition.log, target.path)
        except (KafkaStorageError, CorruptRecordError) as error:
            logger.error("%s cannot begin: %s", move, error)
            self._end(move, ErrorCode.KAFKA_STORAGE_ERROR)
            return move.begun
        logger.info("%s begins at offset %d", move, new.start_offset)
        self._start(move, new.run, lambda error: self._created(move, new, error))
        return move.begun

    def start(self) -> None:
        """Resumes the moves whose future logs exist, unless the partition is offline."""
        for future in self._log_manager.future_logs():
            partition = self._replicas.find(future.topic, future.partition)
            if partition is not None and not partition.offline:
                self._resume(partition, future)

    def _resume(self, partition: Partition, future: UnifiedLog) -> None:
        move = self._add(partition, self._log_manager.directory_of(future))
        logger.info("%s resumes at offset %d", move, future.log_end_offset)
        self._copy(move, future)

    def _add(self, partition: Partition, target: LogDir) -> LogDirMove:
        move = LogDirMove(partition, target, self._timer.time())
        self._moves[move.key] = move
        move.paused = self._log_manager.cleaner
        if move.paused is not None:
            move.paused.abort_and_pause_cleaning(move.key)
        return move

    def _created(self, move: LogDirMove, new: NewFutureLog, error: BaseException | None) -> None:
        self._idle(move)
        if error is None and not move.is_ended and not self._is_stopping:
            try:
                future = self._log_manager.future.open(new)
            except KafkaStorageError as failure:
                error = failure
            else:
                self._copy(move, future)
                return
        if error is not None:
            logger.error("%s cannot begin: %s", move, error)
        if not move.is_ended:
            self._end(move, ErrorCode.KAFKA_STORAGE_ERROR)
            if error is not None and not may_pass(error):
                self._replicas.log_dir_failed(move.target.path, str(error))
        self._runner.submit(new.remove, lambda failure: None)

    # ---- how one ends

    def cancel(self, key: TopicPartition) -> Pending[None]:
        """Cancels the move of a partition, if any; completes when its files are scheduled for deletion."""
        gone: Pending[None] = Pending()
        if (move := self._moves.get(key)) is None:
            gone.complete(None)
            return gone
        logger.info("%s is cancelled", move)
        future = self._log_manager.future.detach(*key)
        self._end(move, ErrorCode.NONE)

        def discard() -> None:
            if future is not None:
                try:
                    self._log_manager.future.discard(future)
                except KafkaStorageError as error:
                    self._replicas.log_dir_failed(move.target.path, str(error))
            gone.complete(None)

        if move.is_busy:
            move.on_idle = discard
        else:
            discard()
        if move.has_reported:
            self._report_place(move.partition)
        return gone

    def log_dir_failed(self, log_dir: str) -> None:
        """A log directory has failed: moves to and from it end; those from it resume at the next start."""
        for move in self.moves:
            if move.partition.offline:
                self._end(move, ErrorCode.KAFKA_STORAGE_ERROR)
            elif move.target.path == log_dir:
                logger.error("%s has ended: the directory has failed", move)
                self._end(move, ErrorCode.KAFKA_STORAGE_ERROR)
                if move.has_reported:
                    self._report_place(move.partition)

    def _end(self, move: LogDirMove, code: ErrorCode) -> None:
        self._part(move)
        move.phase = MovePhase.ENDED
        del self._moves[move.key]
        if move.paused is not None:
            move.paused.resume_cleaning(move.key)
        if not move.begun.done:
            move.begun.complete(code)

    def _report_place(self, partition: Partition) -> None:
        """Corrects the metadata, which may name the target of a move that has ended."""
        directory_id = self._log_manager.directory_of(partition.log).directory_id
        if directory_id is not None and not partition.offline:
            self._report(partition, directory_id)

    async def stop(self) -> None:
        """Begins no more steps; returns when no thread works on a future log. The next start resumes the moves.

        Commits that are running finish: until then both logs have to be appended to.
        """
        self._is_stopping = True
        if self._handle is not None:
            self._handle.cancel()
        for move in self.moves:
            if move.phase is MovePhase.MIRROR:
                self._part(move)
        if self._has_work:
            self._all_idle = asyncio.get_running_loop().create_future()
            await self._all_idle

    @property
    def _has_work(self) -> bool:
        return self._busy > 0 or any(move.phase is MovePhase.COMMIT for move in self.moves)

    def _maybe_idle(self) -> None:
        if self._all_idle is not None and not self._has_work:
            self._all_idle.set_result(None)
            self._all_idle = None

    # ---- copying

    def reconfigure(self) -> None:
        """Checks again the moves that wait for the quota, which may have changed."""
        self._pump()

    def _copy(self, move: LogDirMove, future: UnifiedLog) -> None:
        move.future = future
        move.phase = MovePhase.COPY
        if not move.begun.done:
            move.begun.complete(ErrorCode.NONE)
        self._ready.append(move)
        self._pump()

    def _pump(self) -> None:
        """Starts steps, up to the number of threads."""
        while self._ready and self._running < self._threads and not self._is_stopping:
            if (delay_s := self._quota.delay_s()) > 0:
                self._pump_in(delay_s)
                return
            move = self._ready.popleft()
            if move.phase is MovePhase.COPY and not move.is_busy:
                self._step(move)

    def _pump_in(self, delay_s: float) -> None:
        if self._handle is not None:
            self._handle.cancel()
        self._handle = self._timer.call_at(self._timer.time() + delay_s, self._pump)

    def _step(self, move: LogDirMove) -> None:
        """Runs one step of copying, or the flush that has to come before it."""
        source, future = move.partition.log, move.future
        assert future is not None
        if move.target.space.is_full:
            self._try_again(move, f"{move.target.path} is full")
            return
        if future.config is not source.config:
            future.update_config(source.config)
        try:
            if move.unflushed_bytes >= FLUSH_BYTES:
                self._flush(move, lambda: self._again(move))
                return
            step = self._next_step(move, source, future)
        except (StorageError, CorruptRecordError, OSError) as error:
            self._step_failed(move, error)
            return
        if step is None:
            self._mirror(move)
            return

        def done(error: BaseException | None) -> None:
            if not self._stepped(move, error):
                return
            self._count(move, step)
            self._again(move)

        self._submit(move, step.run, done)

    def _next_step(self, move: LogDirMove, source: UnifiedLog, future: UnifiedLog) -> CopyStep | None:
        """The next step large enough for a thread; None when the future log has caught up."""
        for _ in range(MAX_INLINE_STEPS):
            step = self._log_manager.future.plan_step(source, future)
            if step is None or step.size > INLINE_BYTES:
                return step
            step.run()
            self._count(move, step)
        return self._log_manager.future.plan_step(source, future)

    def _count(self, move: LogDirMove, step: CopyStep) -> None:
        self._quota.record(step.size)
        move.copied_bytes += step.size
        move.unflushed_bytes += step.size
        move.is_failing = False

    def _submit(self, move: LogDirMove, work: Work, done: Done) -> None:
        self._running += 1
        self._start(move, work, done)

    def _start(self, move: LogDirMove, work: Work, done: Done) -> None:
        move.is_busy = True
        self._busy += 1
        failures: list[BaseException] = []

        def guarded() -> None:
            try:
                work()
            except (StorageError, CorruptRecordError) as error:
                failures.append(error)

        self._runner.submit(guarded, lambda error: done(error or next(iter(failures), None)))

    def _stepped(self, move: LogDirMove, error: BaseException | None) -> bool:
        """Ends each piece of work; returns whether it succeeded and the move continues."""
        self._running -= 1
        self._idle(move)
        if not move.is_ended and not self._is_stopping:
            if error is None:
                return True
            self._step_failed(move, error)
        self._pump()
        return False

    def _idle(self, move: LogDirMove) -> None:
        move.is_busy = False
        self._busy -= 1
        if move.on_idle is not None:
            then, move.on_idle = move.on_idle, None
            then()
        self._maybe_idle()

    def _again(self, move: LogDirMove) -> None:
        self._ready.append(move)
        self._pump()

    def _try_again(self, move: LogDirMove, why: str) -> None:
        """Retries later after an error that may pass."""
        move.is_failing = True
        self._rate_limit.warning(logger, move.key, "%s has to wait: %s", move, why)

        def again() -> None:
            if move.phase is MovePhase.COPY:
                self._again(move)

        self._timer.call_at(self._timer.time() + self._backoff_s(), again)

    def _step_failed(self, move: LogDirMove, error: BaseException) -> None:
        self._part(move)
        if move.partition.log.is_failed:
            return  # its directory is going offline
        if isinstance(error, SourceChangedError):
            self._again(move)
        elif may_pass(error):
            self._try_again(move, str(error))
        elif isinstance(error, LogDirError):
            self._replicas.log_dir_failed(error.log_dir, str(error))
        elif isinstance(error, KafkaStorageError):
            self._replicas.log_dir_failed(move.target.path, str(error))
        elif isinstance(error, OSError):
            source = self._log_manager.directory_of(move.partition.log)
            self._replicas.log_dir_failed(source.path, f"{move}: {error}")
        else:
            logger.error("%s stops until the next start", move, exc_info=error)
            move.is_failing = True

    # ---- caught up

    def _mirror(self, move: LogDirMove) -> None:
        """Sends every append to both logs from here on, and flushes the future log."""
        move.phase = MovePhase.MIRROR
        move.partition.mirror = lambda: self._append_too(move)
        self._replicas.flusher.hold(move.partition.log)
        self._flush(move, lambda: self._commit(move))

    def _append_too(self, move: LogDirMove) -> None:
        """Appends the last append to the future log too; an error here does not undo the append."""
        assert move.future is not None
        try:
            self._log_manager.future.catch_up(move.partition.log, move.future)
        except (StorageError, CorruptRecordError, OSError) as error:
            self._step_failed(move, error)

    def _part(self, move: LogDirMove) -> None:
        """Stops sending appends to both logs; the future log has to catch up again."""
        if move.phase in (MovePhase.MIRROR, MovePhase.COMMIT):
            move.phase = MovePhase.COPY
            move.partition.mirror = None
            self._replicas.flusher.release(move.partition.log)

    def _flush(self, move: LogDirMove, then: Callable[[], None]) -> None:
        """Flushes the future log, and writes its checkpoints."""
        future, phase = move.future, move.phase
        assert future is not None
        try:
            job = future.prepare_flush()
        except KafkaStorageError as error:
            self._step_failed(move, error)
            return
        move.unflushed_bytes = 0
        # These are of the flush before this one: records not known as durable are copied again after a crash.
        is_last = phase is MovePhase.MIRROR
        checkpoints = move.target.checkpoint_jobs() if is_last else [move.target.recovery_point_job()]

        def work() -> None:
            job.run()
            for checkpoint in checkpoints:
                checkpoint()

        def done(error: BaseException | None) -> None:
            if not self._stepped(move, of_target(error)):
                return
            try:
                future.complete_flush(job)
            except KafkaStorageError as failure:
                self._step_failed(move, failure)
                return
            if move.phase is phase:
                then()
            else:
                self._again(move)

        self._submit(move, work, done)

    def _commit(self, move: LogDirMove) -> None:
        move.phase = MovePhase.COMMIT
        move.has_reported = True
        directory_id = move.target.directory_id
        assert directory_id is not None, f"{move.target.path} has no id"

        def committed(is_done: bool) -> None:
            if move.phase is MovePhase.COMMIT and is_done:
                self._replace(move)
            elif not (is_done or move.is_ended):
                self._part(move)
                self._try_again(move, "the metadata cannot be changed")
            self._maybe_idle()

        self._report(move.partition, directory_id).add_done_callback(committed)

    def _replace(self, move: LogDirMove) -> None:
        """Replaces the log in use by the future log, in one step."""
        source, future = move.partition.log, move.future
        assert future is not None
        source_dir = self._log_manager.directory_of(source)
        try:
            self._log_manager.future.replace_current(*move.key)
        except (KafkaStorageError, OSError) as error:
            self._step_failed(move, error)
            return
        future.take_over(source)
        move.partition.mirror = None
        move.phase = MovePhase.ENDED
        del self._moves[move.key]
        if move.paused is not None:
            move.paused.resume_cleaning(move.key)
        self._replicas.log_replaced(move.partition, future)
        self._replicas.flusher.replace(source, future)
        self._sync([source_dir, move.target])
        took_s = max(self._timer.time() - move.started_s, 1e-6)
        logger.info("%s is done: %d bytes in %.1f s", move, move.copied_bytes, took_s)
        self._pump()

    def _sync(self, directories: Iterable[LogDir]) -> None:
        """Syncs the new names before the deleted files are gone."""
        for directory in directories:
            if directory in self._log_manager.dirs:
                for job in self._log_manager.future.sync_jobs([directory]):
                    self._runner.submit(job, partial(self._synced, directory))

    def _synced(self, directory: LogDir, error: BaseException | None) -> None:
        if isinstance(error, OSError) and not may_pass(error):
            self._replicas.log_dir_failed(directory.path, str(error))
