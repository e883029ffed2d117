"""ReplicaAlterLogDirsManager: replicas that move from one log directory of this broker to another (KIP-113).

    create    a thread makes the directory of the future log; the client hears that the move has begun
    copy      a thread appends to the future log what the log in use has, a piece at a time; the loop goes on
    mirror    the future log has caught up. From here on what is appended to one is appended to the other in the same
              step, and acknowledgements that wait for an fsync wait, while a thread makes the future log durable
    commit    the controller writes the new directory into the metadata: from here on a crash leaves the future log
    replace   in one step the future log takes the place of the log in use, which is deleted

So at every instant either log that a crash may leave in use has all that was acknowledged. What fails goes back to
copying, or ends the move. Source: kafka.server.ReplicaAlterLogDirsThread, ReplicaManager.alterReplicaLogDirs.
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
from barnabas.broker.replica.moves.log_dir_move import LogDirMove, Phase, may_pass, of_target
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
"""So little is appended at once, on the loop: or a future log would never catch up with a log that never rests."""

MAX_INLINE_STEPS: Final = 3  # the tail of one segment, and the next one

FLUSH_BYTES: Final = 32 << 20
"""After so many bytes a future log is flushed, so that little is left to flush when it has caught up."""


class Hosts(Protocol):
    """What is needed of the ReplicaManager."""

    log_manager: LogManager
    flusher: LogFlusher

    def find(self, topic: str, index: int) -> Partition | None: ...
    def log_dir_failed(self, log_dir: str, why: str = ...) -> None: ...
    def log_replaced(self, partition: Partition, log: UnifiedLog) -> None: ...


ReportDirectory = Callable[[Partition, bytes], Pending[bool]]
"""Has the controller write into the metadata in which directory (by its id) the replica lies. False: it could not."""


class ReplicaAlterLogDirsManager:
    """The moves of one broker. On the event loop; what blocks goes to `runner`, whose threads do nothing else."""

    def __init__(
        self,
        hosts: Hosts,
        *,
        threads: int,
        runner: BlockingRunner,
        timer: Timer,
        quota: ReplicationQuota,
        report: ReportDirectory,
        backoff_s: Callable[[], float],
    ) -> None:
        self._hosts = hosts
        self._log_manager = hosts.log_manager
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

    # ---- which moves there are

    @property
    def moves(self) -> list[LogDirMove]:
        """Those that are going on."""
        return list(self._moves.values())

    def target_of(self, key: TopicPartition) -> str | None:
        """The log directory that a partition is moving to."""
        move = self._moves.get(key)
        return None if move is None else move.target.path

    def begin(self, partition: Partition, target: LogDir) -> Pending[ErrorCode]:
        """Begins a move, or finds it going on; the answer comes when the future log is there."""
        if (known := self._moves.get((partition.topic, partition.index))) is not None:
            return known.begun
        move = self._add(partition, target)
        if move.is_ended:  # a disk has failed over what was to be called off for it
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
        """Goes on with the moves whose future logs are there already. Where the partition is offline they wait."""
        for future in self._log_manager.future_logs():
            partition = self._hosts.find(future.topic, future.partition)
            if partition is not None and not partition.offline:
                self._resume(partition, future)

    def _resume(self, partition: Partition, future: UnifiedLog) -> None:
        move = self._add(partition, self._log_manager.directory_of(future))
        logger.info("%s goes on at offset %d", move, future.log_end_offset)
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
                self._hosts.log_dir_failed(move.target.path, str(error))
        self._runner.submit(new.remove, lambda failure: None)

    # ---- how one ends

    def cancel(self, key: TopicPartition) -> Pending[None]:
        """Ends a move before its end, if there is one; completed when its files are on their way out."""
        gone: Pending[None] = Pending()
        if (move := self._moves.get(key)) is None:
            gone.complete(None)
            return gone
        logger.info("%s is called off", move)
        future = self._log_manager.future.detach(*key)
        self._end(move, ErrorCode.NONE)

        def discard() -> None:
            if future is not None:
                try:
                    self._log_manager.future.discard(future)
                except KafkaStorageError as error:
                    self._hosts.log_dir_failed(move.target.path, str(error))
            gone.complete(None)

        if move.is_busy:
            move.on_idle = discard
        else:
            discard()
        if move.has_reported:
            self._report_place(move.partition)
        return gone

    def log_dir_failed(self, log_dir: str) -> None:
        """A log directory has failed: moves to it end, and those from it; those go on at the next start."""
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
        move.phase = Phase.ENDED
        del self._moves[move.key]
        if move.paused is not None:
            move.paused.resume_cleaning(move.key)
        if not move.begun.done:
            move.begun.complete(code)

    def _report_place(self, partition: Partition) -> None:
        """The metadata may have the partition where it will not be: they get to know where it is."""
        directory_id = self._log_manager.directory_of(partition.log).directory_id
        if directory_id is not None and not partition.offline:
            self._report(partition, directory_id)

    async def stop(self) -> None:
        """Nothing more is begun; returns when no thread works on a future log. The next start goes on.

        What the metadata are being told of comes to its end: until then both logs have to be appended to.
        """
        self._is_stopping = True
        if self._handle is not None:
            self._handle.cancel()
        for move in self.moves:
            if move.phase is Phase.MIRROR:
                self._part(move)
        if self._has_work:
            self._all_idle = asyncio.get_running_loop().create_future()
            await self._all_idle

    @property
    def _has_work(self) -> bool:
        return self._busy > 0 or any(move.phase is Phase.COMMIT for move in self.moves)

    def _maybe_idle(self) -> None:
        if self._all_idle is not None and not self._has_work:
            self._all_idle.set_result(None)
            self._all_idle = None

    # ---- copying

    def reconfigure(self) -> None:
        """The rate may be another one: whoever waits looks again."""
        self._pump()

    def _copy(self, move: LogDirMove, future: UnifiedLog) -> None:
        move.future = future
        move.phase = Phase.COPY
        if not move.begun.done:
            move.begun.complete(ErrorCode.NONE)
        self._ready.append(move)
        self._pump()

    def _pump(self) -> None:
        """Has as many steps going on as there may be."""
        while self._ready and self._running < self._threads and not self._is_stopping:
            if (delay_s := self._quota.delay_s()) > 0:
                self._pump_in(delay_s)
                return
            move = self._ready.popleft()
            if move.phase is Phase.COPY and not move.is_busy:
                self._step(move)

    def _pump_in(self, delay_s: float) -> None:
        if self._handle is not None:
            self._handle.cancel()
        self._handle = self._timer.call_at(self._timer.time() + delay_s, self._pump)

    def _step(self, move: LogDirMove) -> None:
        """One step of copying, or what has to come before the next one."""
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
        """The next step that is worth a thread; None when the future log has caught up."""
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
        """After each piece of work: whether it came to something, and the move goes on."""
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
        """Later, for what may pass."""
        move.is_failing = True
        self._rate_limit.warning(logger, move.key, "%s has to wait: %s", move, why)

        def again() -> None:
            if move.phase is Phase.COPY:
                self._again(move)

        self._timer.call_at(self._timer.time() + self._backoff_s(), again)

    def _step_failed(self, move: LogDirMove, error: BaseException) -> None:
        self._part(move)
        if move.partition.log.is_failed:
            return  # its directory is on its way out
        if isinstance(error, SourceChangedError):
            self._again(move)
        elif may_pass(error):
            self._try_again(move, str(error))
        elif isinstance(error, LogDirError):
            self._hosts.log_dir_failed(error.log_dir, str(error))
        elif isinstance(error, KafkaStorageError):
            self._hosts.log_dir_failed(move.target.path, str(error))
        elif isinstance(error, OSError):
            source = self._log_manager.directory_of(move.partition.log)
            self._hosts.log_dir_failed(source.path, f"{move}: {error}")
        else:
            logger.error("%s does not go on before the next start", move, exc_info=error)
            move.is_failing = True

    # ---- caught up

    def _mirror(self, move: LogDirMove) -> None:
        """From here on every append goes to both logs; now for what makes the future log as durable as the other."""
        move.phase = Phase.MIRROR
        move.partition.mirror = lambda: self._append_too(move)
        self._hosts.flusher.hold(move.partition.log)
        self._flush(move, lambda: self._commit(move))

    def _append_too(self, move: LogDirMove) -> None:
        """What was appended to the log in use just now. Whatever goes wrong with it, that append stands."""
        assert move.future is not None
        try:
            self._log_manager.future.catch_up(move.partition.log, move.future)
        except (StorageError, CorruptRecordError, OSError) as error:
            self._step_failed(move, error)

    def _part(self, move: LogDirMove) -> None:
        """The logs are appended to each by itself again, if they were not; the future log has to catch up anew."""
        if move.phase in (Phase.MIRROR, Phase.COMMIT):
            move.phase = Phase.COPY
            move.partition.mirror = None
            self._hosts.flusher.release(move.partition.log)

    def _flush(self, move: LogDirMove, then: Callable[[], None]) -> None:
        """Makes the future log durable, and what the checkpoints say of it."""
        future, phase = move.future, move.phase
        assert future is not None
        try:
            job = future.prepare_flush()
        except KafkaStorageError as error:
            self._step_failed(move, error)
            return
        move.unflushed_bytes = 0
        # Meanwhile, of the flush before this one: what is not known as durable is copied again after a crash.
        is_last = phase is Phase.MIRROR
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
        move.phase = Phase.COMMIT
        move.has_reported = True
        directory_id = move.target.directory_id
        assert directory_id is not None, f"{move.target.path} has no id"

        def committed(is_done: bool) -> None:
            if move.phase is Phase.COMMIT and is_done:
                self._replace(move)
            elif not (is_done or move.is_ended):
                self._part(move)
                self._try_again(move, "the metadata cannot be changed")
            self._maybe_idle()

        self._report(move.partition, directory_id).add_done_callback(committed)

    def _replace(self, move: LogDirMove) -> None:
        """The future log takes its place, in one step."""
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
        move.phase = Phase.ENDED
        del self._moves[move.key]
        if move.paused is not None:
            move.paused.resume_cleaning(move.key)
        self._hosts.log_replaced(move.partition, future)
        self._hosts.flusher.replace(source, future)
        self._sync([source_dir, move.target])
        took_s = max(self._timer.time() - move.started_s, 1e-6)
        logger.info("%s is done: %d bytes in %.1f s", move, move.copied_bytes, took_s)
        self._pump()

    def _sync(self, directories: Iterable[LogDir]) -> None:
        """The new names on stable storage, before what was deleted is gone."""
        for directory in directories:
            if directory in self._log_manager.dirs:
                for job in self._log_manager.future.sync_jobs([directory]):
                    self._runner.submit(job, partial(self._synced, directory))

    def _synced(self, directory: LogDir, error: BaseException | None) -> None:
        if isinstance(error, OSError) and not may_pass(error):
            self._hosts.log_dir_failed(directory.path, str(error))
