"""SimulatedBroker: one broker's machine and process: logs, partitions, fetchers, heartbeats, and what it serves."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, Final, NamedTuple

from barnabas.broker.fetch.cache import FetchSessionCache
from barnabas.broker.fetch.context import FetchContext
from barnabas.broker.fetch.manager import FetchManager
from barnabas.broker.metadata.topics import PartitionImage
from barnabas.broker.node_client.address import NodeAddress
from barnabas.broker.node_client.channel import NodeClientError, NodeUnavailable
from barnabas.broker.pending import Pending
from barnabas.broker.replica.fetcher.fetch_state import InitialFetchState
from barnabas.broker.replica.fetcher.fetcher import FetcherConfig
from barnabas.broker.replica.fetcher.manager import ReplicaFetcherManager
from barnabas.broker.replica.fetcher.ports import FollowedLog
from barnabas.broker.replica.fetcher.throttle import UNLIMITED
from barnabas.broker.waiting.blocking import Done, Work
from barnabas.protocol.codec import decode, encode
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages.fetch import FetchRequest, FetchResponse
from barnabas.protocol.messages.offsets import ListOffsetsRequest, ListOffsetsResponse
from barnabas.protocol.schema import Message
from barnabas.storage.env import make_directory
from barnabas.storage.errors import OffsetOutOfRangeError, StorageError
from barnabas.storage.log.unified_log import UnifiedLog
from barnabas.storage.manager.log_manager import LogManager
from barnabas.storage.offsets import (
    FetchIsolation,
    LogAppendInfo,
    LogStartOffsetIncrementReason,
    TopicPartition,
)
from tests.broker.fakes import ManualHandle
from tests.simulation.clock import Clock
from tests.simulation.cluster.controller import BrokerView, IsrAnswer, IsrRequest, ModelController, View
from tests.simulation.cluster.network import Network
from tests.simulation.cluster.partition import ReplicatedPartition
from tests.simulation.machine import SimulatedDisk
from tests.storage.helpers import small_config

LOGS: Final = "/logs"
HEARTBEAT_S: Final = 0.5
LAG_MAX_S: Final = 2.0
FETCH_WAIT_MS: Final = 400
BACKOFF_MS: Final = 100
RPC_S: Final = 1.5
CONTROLLER = "c"
BETWEEN_BYTES: Final = 10


class Appended(NamedTuple):
    """The answer to a produce request."""

    error: ErrorCode
    offset: int = -1
    of_former_leader: bool = False
    """An error of a broker that led the partition and has not heard yet that another does."""


class Process:
    """A run of the broker: its timers and threads end with it, and stand still while it is paused."""

    def __init__(self, clock: Clock, rng: Random, guard: Callable[[Callable[[], object]], None]) -> None:
        self._clock = clock
        self._rng = rng
        self._guard = guard
        self.alive = True
        self.paused_until = 0.0
        self._jobs: list[_Job] = []

    def time(self) -> float:
        return self._clock.now

    def call_at(self, when: float, callback: Callable[[], object]) -> ManualHandle:
        handle = ManualHandle(callback)
        self._schedule(when, handle)
        return handle

    def _schedule(self, when: float, handle: ManualHandle) -> None:
        def run() -> None:
            if handle.cancelled or not self.alive:
                return
            if self._clock.now < self.paused_until:
                self._schedule(self.paused_until + self._rng.random() * 0.001, handle)
            else:
                self._guard(handle.callback)

        self._clock.call_at(when, run)

    def call_later(self, delay_s: float, callback: Callable[[], object]) -> ManualHandle:
        return self.call_at(self._clock.now + delay_s, callback)

    def soon(self, callback: Callable[[], object]) -> None:
        """What another host has sent arrives: later, while the process is paused."""
        self.call_later(0, callback)

    def submit(self, work: Work, done: Done) -> None:
        """As BlockingRunner: the work is done some time later, and reported later still."""
        job = _Job(work, done)
        self._jobs.append(job)

        def report() -> None:
            if job in self._jobs:
                self._jobs.remove(job)
                job.report()

        def begin() -> None:
            job.run()
            self.call_later(self._rng.random() * 0.003, report)

        self.call_later(self._rng.random() * (0.3 if self._rng.random() < 0.2 else 0.004), begin)

    def drain(self) -> None:
        """Waits for the threads, as a broker that stops does."""
        while self._jobs:
            job = self._jobs.pop(0)
            job.run()
            job.report()


class _Job:
    """Work for a thread."""

    def __init__(self, work: Work, done: Done) -> None:
        self._work: Work | None = work
        self._done = done
        self._error: BaseException | None = None

    def run(self) -> None:
        work, self._work = self._work, None
        if work is not None:
            try:
                work()
            except (OSError, StorageError) as raised:
                self._error = raised

    def report(self) -> None:
        self._done(self._error)


class _FetchWait:
    """A fetch that waits for records."""

    def __init__(self, answer: Callable[[], None]) -> None:
        self.answer = answer
        self.done = False

    def end(self) -> None:
        if not self.done:
            self.done = True
            self.answer()


class _ProduceWait:
    """An acks=all append that waits for the high watermark."""

    def __init__(
        self, partition: ReplicatedPartition, required: int, pending: Pending[Appended], offset: int
    ) -> None:
        self.partition = partition
        self.required = required
        self.pending = pending
        self.offset = offset

    def look(self) -> bool:
        """Answers it if it can be; returns whether it was."""
        if not self.partition.is_leader:
            self.pending.complete(Appended(ErrorCode.NOT_LEADER_OR_FOLLOWER))
            return True
        error = self.partition.is_replicated(self.required)
        if error is None:
            return False
        self.pending.complete(Appended(error, self.offset))
        return True


class Run:
    """One process of the broker, with everything that ends with it. The `Surroundings` of its partitions."""

    def __init__(self, machine: SimulatedBroker, process: Process, rng: Random) -> None:
        self.machine = machine
        self.process = process
        self.node_id = machine.node_id
        self.lag_max_s = LAG_MAX_S
        self.rng = rng
        self.incarnation = machine.starts
        self.epoch = -1
        self.view = View(-1, {}, {})
        self.is_ready = False
        self.is_fenced = True
        self.wants_shutdown = False
        self.partitions: dict[TopicPartition, Any] = {}
        self.seen: dict[TopicPartition, tuple[int, int]] = {}
        """For the checks: (the leader epoch or -1, the high watermark) at their last look."""
        self.logs = LogManager(
            machine.disk,
            [LOGS],
            lambda _topic: small_config(
                retention_ms=-1, flush_messages=machine.flush_messages, min_insync_replicas=machine.min_isr
            ),
        )
        sessions = FetchSessionCache(100, lambda: rng.randrange(1, 1 << 31))
        self.fetch_manager = FetchManager(sessions, lambda: round(process.time() * 1000))
        self.fetchers = ReplicaFetcherManager(
            self._channel,
            process,
            FetcherConfig(
                node_id=self.node_id,
                wait_max_ms=FETCH_WAIT_MS,
                min_bytes=1,
                partition_max_bytes=machine.partition_max_bytes,
                response_max_bytes=machine.partition_max_bytes * 3,
                backoff_ms=BACKOFF_MS,
                request_timeout_ms=1000,
                metadata_version=lambda: 30,
                broker_epoch=self.broker_epoch,
            ),
            events=self,
            quota=UNLIMITED,
            count=machine.fetchers,
        )
        self._fetches: dict[TopicPartition, list[_FetchWait]] = {}
        self._produces: dict[TopicPartition, list[_ProduceWait]] = {}
        self.failed: list[str] = []

    # ---- Surroundings

    def now(self) -> float:
        return self.process.time()

    def min_isr(self) -> int:
        return self.machine.min_isr

    def broker_epoch(self) -> int:
        return self.epoch

    def alive_epoch(self, broker_id: int) -> int | None:
        view: BrokerView | None = self.view.brokers.get(broker_id)
        return None if view is None or view.fenced or view.in_controlled_shutdown else view.epoch

    def alter_isr(self, request: IsrRequest) -> Pending[IsrAnswer]:
        """Asks until there is an answer."""
        pending: Pending[IsrAnswer] = Pending()

        def ask() -> None:
            self._rpc(lambda controller: controller.alter_partition(request), answered)

        def answered(answer: IsrAnswer | None) -> None:
            if answer is None:
                self.process.call_later(0.05, ask)
            elif answer.error in (ErrorCode.STALE_BROKER_EPOCH, ErrorCode.NOT_CONTROLLER):
                self.process.call_later(0.05, lambda: pending.complete(answer))
            else:
                pending.complete(answer)

        ask()
        return pending

    def moved(self, partition: ReplicatedPartition) -> None:
        waits = self._produces.get(partition.key)
        if waits:
            self._produces[partition.key] = [wait for wait in waits if not wait.look()]
        for fetch in self._fetches.pop(partition.key, ()):
            fetch.end()

    # ---- the controller

    def _rpc(self, serve: Callable[[ModelController], Any], answered: Callable[[Any], None]) -> None:
        machine, process = self.machine, self.process

        def arrive() -> Any:
            # Of a process that has ended nothing arrives: its connection is gone. A late registration of it would take
            # the place of the next process.
            return serve(machine.controller) if process.alive else None

        answer = machine.network.rpc(self.node_id, CONTROLLER, arrive, RPC_S)
        answer.add_done_callback(lambda result: self.process.soon(lambda: answered(result)))

    def register(self) -> None:
        """Registers, and then follows the metadata and sends heartbeats."""
        machine = self.machine
        incarnation, previous = self.incarnation, machine.clean_epoch

        def registered(epoch: int | None) -> None:
            if epoch is None or epoch < 0:
                self.process.call_later(HEARTBEAT_S, self.register)
                return
            self.epoch = epoch
            self._observe()
            self._beat()
            self.process.call_later(LAG_MAX_S / 2, self._shrink)

        self._rpc(lambda controller: controller.register(self.node_id, incarnation, previous), registered)

    def _observe(self) -> None:
        def seen(view: View | None) -> None:
            if view is not None:
                self._apply(view)
            lag = self.rng.uniform(0.1, 0.8) if self.rng.random() < 0.1 else 0.002
            self.process.call_later(lag, self._observe)

        offset = self.view.offset
        self._rpc(lambda controller: controller.view_after(offset), seen)

    def _beat(self) -> None:
        def answered(answer: tuple[bool, bool] | None) -> None:
            if answer is not None:
                self.is_fenced, may_stop = answer
                if self.wants_shutdown and may_stop:
                    self.machine.stop()
                    return
            self.process.call_later(0.05 if self.wants_shutdown else HEARTBEAT_S, self._beat)

        offset, ready, stops = self.view.offset, self.is_ready, self.wants_shutdown
        self._rpc(
            lambda controller: controller.heartbeat(
                self.node_id, self.epoch, offset, ready=ready, wants_shutdown=stops
            ),
            answered,
        )

    def _shrink(self) -> None:
        for partition in self.partitions.values():
            partition.maybe_shrink_isr()
        self.process.call_later(LAG_MAX_S / 2, self._shrink)

    # ---- metadata

    def _apply(self, view: View) -> None:
        if view.offset <= self.view.offset:
            return
        before, self.view = self.view, view
        if before.offset < 0:
            self._give_up_gaps(view)
        for key, image in view.partitions.items():
            old = before.partitions.get(key)
            if old is None or image.partition_epoch != old.partition_epoch:
                self._change(key, image)
        self.fetchers.close_idle()
        if view.offset >= self.epoch:
            self.is_ready = True

    def _give_up_gaps(self, view: View) -> None:
        """The first metadata after a start: what a power cut may have torn out of a log is fetched again."""
        for log in self.logs.all_logs():
            image = view.partitions.get((log.topic, log.partition))
            others = set(image.isr) - {self.node_id} if image is not None else set()
            if log.unproven_gap is not None and others:
                self.logs.truncate_to(log, log.unproven_gap)

    def _change(self, key: TopicPartition, image: PartitionImage) -> None:
        partition = self.partitions.get(key)
        if partition is not None and partition.is_truncating:
            partition.when_free.append(lambda: self._change(key, image))
            return
        if self.node_id not in image.replicas:
            self._stop_replica(key)
            return
        if partition is None:
            partition = self._open(key)
        if image.leader == self.node_id:
            self.fetchers.remove([key])
            partition.make_leader(image)
        else:
            self._follow(partition, image)

    def _follow(self, partition: ReplicatedPartition, image: PartitionImage) -> None:
        if image.leader_epoch > partition.leader_epoch or partition.is_leader:
            self.fetchers.remove([partition.key])
        if not partition.make_follower(image) or image.leader < 0:
            return
        log = partition.log
        offset = log.log_end_offset if log.latest_epoch >= 0 else log.high_watermark
        address = NodeAddress(str(image.leader), 9092)
        self.fetchers.add(partition, InitialFetchState(image.leader, address, image.leader_epoch, offset))

    def _open(self, key: TopicPartition) -> ReplicatedPartition:
        topic_id = topic_id_of(key[0])
        log = self.logs.get_or_create_log(*key, topic_id)
        partition = ReplicatedPartition(
            key, topic_id, log=log, logs=self.logs, runner=self.process, broker=self
        )
        self.partitions[key] = partition
        return partition

    def _stop_replica(self, key: TopicPartition) -> None:
        self.fetchers.remove([key])
        partition = self.partitions.pop(key, None)
        if partition is not None:
            partition.resign()
            self.logs.delete_log(*key)
        elif self.logs.get_log(*key) is not None:
            self.logs.delete_log(*key)

    # ---- FollowerEvents

    def follower_appended(self, log: FollowedLog, info: LogAppendInfo, size: int) -> None:
        """Nothing waits for the appends of a follower here."""

    def follower_offsets_moved(self, log: FollowedLog) -> None:
        """Nor for its offsets."""

    def follower_failed(self, log: FollowedLog, error: Exception) -> None:
        self.failed.append(f"broker {self.node_id}: {log.key} failed: {error!r}")

    # ---- what it serves

    def produce(
        self, key: TopicPartition, records: bytes, acks: int, timeout_s: float
    ) -> Appended | Pending[Appended]:
        partition = self.partitions.get(key)
        if partition is None:
            return Appended(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        try:
            info = partition.append_as_leader(records, acks)
        except ApiError as error:
            return Appended(error.code)
        except StorageError as error:
            return Appended(_code_of(error))
        if acks != -1:
            return Appended(ErrorCode.NONE, info.first_offset)
        wait = _ProduceWait(partition, info.last_offset + 1, Pending(), info.first_offset)
        if not wait.look():
            self._produces.setdefault(key, []).append(wait)
            self.process.call_later(timeout_s, lambda: self._time_out(wait))
        return wait.pending

    def _time_out(self, wait: _ProduceWait) -> None:
        waits = self._produces.get(wait.partition.key, [])
        if wait in waits:
            waits.remove(wait)
            wait.pending.complete(Appended(ErrorCode.REQUEST_TIMED_OUT))

    def delete_records(self, key: TopicPartition, offset: int) -> int | None:
        """Deletes records before `offset`, or the high watermark; returns the new log start offset."""
        partition = self.partitions.get(key)
        if partition is None or not partition.is_leader or partition.is_truncating:
            return None
        log: UnifiedLog = partition.log
        log.maybe_increment_log_start_offset(
            min(offset, log.high_watermark), LogStartOffsetIncrementReason.CLIENT_RECORD_DELETION
        )
        return log.log_start_offset

    def fetch(self, request: FetchRequest, version: int) -> FetchResponse | Pending[FetchResponse]:
        names = {partition.topic_id: key[0] for key, partition in self.partitions.items()}
        replica_id = request.replica_state.replica_id if version >= 15 else request.replica_id
        context = self.fetch_manager.context(request, version, names.get, is_follower=replica_id >= 0)
        results, is_over = self._read(request, context, replica_id, updates=True)
        if is_over or request.max_wait_ms <= 0:
            return context.response(results)
        pending: Pending[FetchResponse] = Pending()

        def answer() -> None:
            context.refresh()
            pending.complete(context.response(self._read(request, context, replica_id, updates=False)[0]))

        wait = _FetchWait(answer)
        for entry in context.partitions:
            self._fetches.setdefault((entry.topic or "", entry.index), []).append(wait)
        self.process.call_later(request.max_wait_ms / 1000, wait.end)
        return pending

    def _read(
        self, request: FetchRequest, context: FetchContext, replica_id: int, *, updates: bool
    ) -> tuple[list[FetchResponse.PartitionData], bool]:
        results = []
        is_over = bool(context.error) or not context.partitions
        isolation = FetchIsolation.LOG_END if replica_id >= 0 else FetchIsolation.HIGH_WATERMARK
        for entry in context.partitions:
            try:
                partition = self.partitions.get((entry.topic or "", entry.index))
                if partition is None:
                    raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "")
                data = partition.read(
                    entry,
                    replica_id=replica_id,
                    replica_epoch=request.replica_state.replica_epoch,
                    max_bytes=entry.max_bytes,
                    isolation=isolation,
                    updates=updates,
                )
                is_over |= bool(data.records) or data.diverging_epoch.epoch >= 0
            except (ApiError, OffsetOutOfRangeError) as error:
                is_over = True
                data = FetchResponse.PartitionData(
                    partition_index=entry.index,
                    error_code=error.code if isinstance(error, ApiError) else ErrorCode.OFFSET_OUT_OF_RANGE,
                    high_watermark=-1,
                    records=b"",
                )
            results.append(data)
        return results, is_over

    def list_offsets(self, request: ListOffsetsRequest) -> ListOffsetsResponse:
        topics = []
        for topic in request.topics:
            answers = []
            for one in topic.partitions:
                answer = ListOffsetsResponse.ListOffsetsPartitionResponse(partition_index=one.partition_index)
                try:
                    log = self.leader_of(topic.name, one.partition_index, one.current_leader_epoch).log
                    answer.offset = log.log_end_offset if one.timestamp == -1 else log.log_start_offset
                except ApiError as error:
                    answer.error_code = error.code
                answers.append(answer)
            topics.append(ListOffsetsResponse.ListOffsetsTopicResponse(name=topic.name, partitions=answers))
        return ListOffsetsResponse(topics=topics)

    def leader_of(self, topic: str, index: int, epoch: int) -> Any:
        """The partition, which this broker leads in `epoch`. Raises ApiError."""
        partition = self.partitions.get((topic, index))
        if partition is None:
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "")
        partition.check_leader(epoch)
        return partition

    def serve(self, request: Message, version: int) -> Message | Pending[Any]:
        """A request of another broker's fetcher."""
        if isinstance(request, FetchRequest):
            return self.fetch(request, version)
        assert isinstance(request, ListOffsetsRequest)
        return self.list_offsets(request)

    def _channel(self, address: NodeAddress) -> BrokerChannel:
        return BrokerChannel(self, int(address.host))


def topic_id_of(topic: str) -> bytes:
    return topic.encode().ljust(16, b"-")


def name_of(topic_id: bytes) -> str:
    return topic_id.rstrip(b"-").decode()


def _code_of(error: StorageError) -> ErrorCode:
    from barnabas.broker.error_map import error_code_of

    return error_code_of(error)


class BrokerChannel:
    """A NodeChannel over the simulated network. Some messages travel as bytes of their version: most of the time of a
    run would go into all of them."""

    def __init__(self, run: Run, target: int) -> None:
        self._run = run
        self._target = target
        self._closed = False
        self._sent = 0

    def send(
        self, request: Message, *, version: int | None = None, timeout_ms: int | None = None
    ) -> Pending[Message | NodeClientError]:
        assert version is not None
        assert timeout_ms is not None
        assert not self._closed
        self._sent += 1
        as_bytes = self._sent % BETWEEN_BYTES == 1
        machine = self._run.machine.peers[self._target]

        def through(message: Message) -> Message:
            return (
                decode(type(message), version, memoryview(encode(message, version))) if as_bytes else message
            )

        sent = through(request)

        def serve() -> Any:
            assert machine.run is not None
            result = machine.run.serve(sent, version)
            return result.then(through) if isinstance(result, Pending) else through(result)

        pending: Pending[Message | NodeClientError] = Pending()

        def answered(result: Message | None) -> None:
            if not self._closed and self._run.process.alive:
                pending.complete(NodeUnavailable("lost") if result is None else result)

        answer = self._run.machine.network.rpc(self._run.node_id, self._target, serve, timeout_ms / 1000)
        answer.add_done_callback(lambda result: self._run.process.soon(lambda: answered(result)))
        return pending

    def close(self) -> None:
        """The fetcher that closes it waits for nothing any more."""
        self._closed = True


class SimulatedBroker:
    """A machine on which a broker runs, is paused, stops, and dies."""

    def __init__(
        self,
        node_id: int,
        clock: Clock,
        network: Network,
        controller: ModelController,
        *,
        seed: int,
        min_isr: int,
        fetchers: int,
        partition_max_bytes: int,
        flush_messages: int,
        make_run: Callable[[SimulatedBroker, Process, Random], Run] = Run,
    ) -> None:
        self.node_id = node_id
        self.clock = clock
        self.network = network
        self.controller = controller
        self.min_isr = min_isr
        self.fetchers = fetchers
        self.partition_max_bytes = partition_max_bytes
        self.flush_messages = flush_messages
        self.make_run = make_run
        self.peers: dict[int, SimulatedBroker] = {}
        self.disk = SimulatedDisk(clock, seed)
        make_directory(self.disk, LOGS)
        self.starts = 0
        self.clean_epoch = -1
        self.run: Run | None = None
        self._rng = Random(seed)

    @property
    def is_up(self) -> bool:
        return self.run is not None

    def receive(self, callback: Callable[[], None]) -> None:
        assert self.run is not None
        self.run.process.call_later(0, callback)

    def guard(self, callback: Callable[[], object]) -> None:
        callback()

    def start(self) -> None:
        assert self.run is None
        self.starts += 1
        process = Process(self.clock, self._rng, self.guard)
        self.run = self.make_run(self, process, self._rng)
        self.run.logs.dirs.lock()
        self.run.logs.load_logs()
        self.run.register()

    @property
    def is_paused(self) -> bool:
        """Whether its process stands still."""
        return self.run is not None and self.clock.now < self.run.process.paused_until

    def pause(self, seconds: float) -> None:
        if self.run is not None:
            self.run.process.paused_until = self.clock.now + seconds

    def begin_shutdown(self) -> None:
        if self.run is not None:
            self.run.wants_shutdown = True

    def stop(self) -> None:
        """A clean stop, which the controller has granted."""
        if self.run is None:
            return
        run = self.run
        run.fetchers.close()
        run.process.drain()
        run.logs.shutdown(run.epoch)
        self.clean_epoch = run.epoch
        self._end()
        self.disk.kill()

    def kill(self) -> None:
        if self.run is not None:
            self.clean_epoch = -1
            self._end()
            self.disk.kill()

    def cut_power(self) -> None:
        if self.run is not None:
            self.clean_epoch = -1
            self._end()
            self.disk.crash(self._rng)

    def _end(self) -> None:
        assert self.run is not None
        self.run.process.alive = False
        self.run = None
