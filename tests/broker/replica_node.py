"""A ReplicaManager on real logs, over a disk that fails on demand, and the calls of its tests."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

from barnabas.broker.fetch.context import FetchContext, FetchParams
from barnabas.broker.fetch.partition import FetchPartition
from barnabas.broker.fetch.reader import ReplicaReader
from barnabas.broker.kafka_apis.handlers.fetch import READ_COMMITTED
from barnabas.broker.metadata.image import MetadataImage
from barnabas.broker.metadata.replay import replayed
from barnabas.broker.metadata.topics import PartitionImage
from barnabas.broker.pending import Pending
from barnabas.broker.replica.append import AppendResult, append_error_of
from barnabas.broker.replica.isr import LeaderContext
from barnabas.broker.replica.partition import ACKS_ALL
from barnabas.broker.replica.replica_manager import ReplicaManager
from barnabas.broker.waiting.purgatory import DelayedOperationPurgatory
from barnabas.config.log_config import LogConfig
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.fetch import FetchRequest, FetchResponse
from barnabas.protocol.messages.topic_records import PartitionChangeRecord, RemoveTopicRecord, TopicRecord
from barnabas.protocol.schema import Message
from barnabas.protocol.wire import ZERO_UUID, Uuid
from barnabas.storage.env import RealFile
from barnabas.storage.manager.log_manager import LogManager
from barnabas.storage.offsets import FetchIsolation
from tests.broker.cluster_images import INSIDE
from tests.broker.fakes import ManualTimer
from tests.broker.held_runner import HeldRunner
from tests.broker.logs import ManualEnv, partition_image

HERE, ELSEWHERE = 1, 2
T, U, V = b"t" * 16, b"u" * 16, b"v" * 16
BOTH = partition_image(replicas=(HERE, ELSEWHERE))

R = TypeVar("R")


class BreakableEnv(ManualEnv):
    """A disk whose files cannot be opened, or whose syncs, writes, renames or new directories fail, when the test
    sets it so."""

    __slots__ = ("broken", "errno", "space", "synced")

    def __init__(self) -> None:
        super().__init__()
        self.broken: set[str] = set()
        self.errno = errno.EIO
        self.space = (1 << 40, 1 << 39)
        self.synced: list[str] = []

    def check(self, what: str) -> None:
        if what in self.broken:
            raise OSError(self.errno, os.strerror(self.errno), f"{what} failed")

    def disk_space(self, path: str) -> tuple[int, int]:
        return self.space

    def open(self, path: str, *, create: bool = False, write: bool = True) -> RealFile:
        self.check("open")
        real = super().open(path, create=create, write=write)
        file = BreakableFile(self, real.fd, path)
        real.fd = -1
        return file

    def mkdir(self, path: str) -> None:
        self.check("mkdir")
        super().mkdir(path)

    def rename(self, source: str, target: str) -> None:
        self.check("rename")
        super().rename(source, target)

    def sync_dir(self, path: str) -> None:
        super().sync_dir(path)
        self.listdir(path)  # a directory that is gone cannot be synced


class BreakableFile(RealFile):
    __slots__ = ("env", "path")

    def __init__(self, env: BreakableEnv, fd: int, path: str) -> None:
        super().__init__(fd)
        self.env = env
        self.path = path

    def sync(self) -> None:
        self.env.check("sync")
        self.env.synced.append(self.path)
        super().sync()

    def pwritev(self, buffers: Sequence[bytes | bytearray | memoryview], position: int) -> int:
        self.env.check("write")
        return super().pwritev(buffers, position)


class Traffic:
    """Records the traffic of one topic."""

    def __init__(self, topic: str, lines: list[str]) -> None:
        self.topic = topic
        self.lines = lines

    def produced(self, records: int, size: int) -> None:
        self.lines.append(f"{self.topic} +{records}")


class Probe:
    """Records what is counted."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def topic(self, topic: str) -> Traffic:
        return Traffic(topic, self.lines)

    def produce_failed(self, topic: str, code: ErrorCode, size: int) -> None:
        self.lines.append(f"{topic} {code.name}")

    def batch_invalid(self, topic: str, error: Exception) -> None:
        self.lines.append(f"{topic} {type(error).__name__}")

    def converted(self, topic: str, records: int) -> None:
        self.lines.append(f"{topic} converted {records}")

    def fetched(self, topic: str, size: int) -> None:
        self.lines.append(f"{topic} gave {'something' if size else 'nothing'}")

    def fetched_nothing(self, topic: str, partitions: int) -> None:
        self.lines.append(f"{topic} had nothing in {partitions}")

    def fetch_failed(self, topic: str) -> None:
        self.lines.append(f"{topic} gave an error")

    def topic_deleted(self, topic: str) -> None:
        self.lines.append(f"{topic} deleted")


class Node:
    """A ReplicaManager, its dependencies, and the metadata that it follows."""

    def __init__(
        self,
        *directories: Path,
        config: LogConfig | None = None,
        min_free_bytes: int = 0,
        context: LeaderContext | None = None,
    ) -> None:
        """With a `context` it is a member of a cluster, that of `tests.broker.replica.isr_harness`."""
        self.env = BreakableEnv()
        self.config = config or LogConfig()
        self.log_manager = LogManager(
            self.env,
            [str(path) for path in directories],
            lambda topic: self.config,
            min_free_bytes=min_free_bytes,
        )
        self.log_manager.dirs.lock()
        self.log_manager.load_logs()
        self.timer = ManualTimer()
        self.disk = HeldRunner()
        self.probe = Probe()
        self.failed_dirs: list[str] = []
        self.image = MetadataImage.empty()
        self.manager = ReplicaManager(
            log_manager=self.log_manager,
            node_id=HERE,
            runner=self.disk,
            produce_purgatory=DelayedOperationPurgatory("Produce", self.timer),
            fetch_purgatory=DelayedOperationPurgatory("Fetch", self.timer),
            delete_records_purgatory=DelayedOperationPurgatory("DeleteRecords", self.timer),
            probe=self.probe,
            log_dir_failed=self.failed_dirs.append,
            context=context,
        )
        self.log_manager.on_log_dir_failed = self.manager.log_dir_went_offline
        self.reader = ReplicaReader(self.manager, self.probe)

    # ---- metadata

    def commit(self, *records: Message, prepared: bool = True) -> None:
        """Publishes new metadata, as the controller does."""
        self.image, delta = replayed(self.image, records)
        work = self.manager.prepare(self.image, delta) if prepared else None
        if work is not None:
            work()
        self.manager.apply(self.image, delta)

    def create(self, name: str = "t", topic_id: Uuid = T, *partitions: PartitionImage) -> None:
        self.commit(*creation(name, topic_id, *partitions))

    def elect(self, topic_id: Uuid, leader: int) -> None:
        self.commit(PartitionChangeRecord(partition_id=0, topic_id=topic_id, leader=leader))

    def delete(self, topic_id: Uuid = T) -> None:
        self.commit(RemoveTopicRecord(topic_id=topic_id))

    # ---- appending

    def append(
        self,
        *entries: tuple[str | None, int, bytes],
        acks: int = ACKS_ALL,
        topic_id: Uuid = ZERO_UUID,
        refusal: Exception | None = None,
    ) -> Pending[list[AppendResult]]:
        """Appends to each (topic, partition), and waits 500 ms at most."""
        wanted = [(topic, index, topic_id, records, refusal) for topic, index, records in entries]
        return pending(self.manager.append_records(wanted, acks, 500))

    def log(self, topic: str = "t", index: int = 0) -> tuple[int, int]:
        """The high watermark and the end of a partition's log."""
        log = self.manager.partition(topic, index).log
        return log.high_watermark, log.log_end_offset

    # ---- reading

    def fetch(
        self,
        *wanted: FetchPartition,
        max_wait_ms: int = 500,
        min_bytes: int = 1,
        max_bytes: int = 1_000_000,
        replica_id: int = -1,
        isolation_level: int = 0,
        replica_epoch: int = -1,
        only_leader: bool = True,
        rack: str = "",
    ) -> Pending[list[FetchResponse.PartitionData]]:
        isolation = FetchIsolation.LOG_END if replica_id >= 0 else FetchIsolation.HIGH_WATERMARK
        if isolation_level == READ_COMMITTED:
            isolation = FetchIsolation.TXN_COMMITTED
        params = FetchParams(
            replica_id=replica_id,
            max_wait_ms=max_wait_ms,
            min_bytes=min_bytes,
            max_bytes=max_bytes,
            isolation=isolation,
            replica_epoch=replica_epoch,
            only_leader=only_leader,
            rack=rack,
            listener=INSIDE,
        )
        return pending(self.reader.read(params, FetchContext(wanted)))


def pending(result: R | Pending[R]) -> Pending[R]:
    """A result as a Pending, completed or not."""
    if isinstance(result, Pending):
        return result
    at_once: Pending[R] = Pending()
    at_once.complete(result)
    return at_once


def result(answer: Pending[R]) -> R:
    heard: list[R] = []
    answer.add_done_callback(heard.append)
    assert heard, "there is no answer yet"
    return heard[0]


def creation(name: str, topic_id: Uuid, *partitions: PartitionImage) -> list[Message]:
    images = partitions or (partition_image(),)
    return [TopicRecord(name=name, topic_id=topic_id), *(image.record(topic_id) for image in images)]


def wanted(
    topic: str | None = "t",
    index: int = 0,
    offset: int = 0,
    *,
    max_bytes: int = 1_000_000,
    epoch: int = -1,
    last_fetched_epoch: int = -1,
    topic_id: Uuid = ZERO_UUID,
    log_start_offset: int = -1,
) -> FetchPartition:
    request = FetchRequest.FetchPartition(
        partition=index,
        log_start_offset=log_start_offset,
        fetch_offset=offset,
        partition_max_bytes=max_bytes,
        current_leader_epoch=epoch,
        last_fetched_epoch=last_fetched_epoch,
    )
    return FetchPartition((topic or topic_id, index), topic, topic_id, request)


def errors(answer: Pending[list[AppendResult]]) -> list[ErrorCode]:
    return [append_error_of(each) for each in result(answer)]
