"""Real logs for tests, in a temporary directory and with a manual clock."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

from barnabas.broker.metadata.topics import PartitionImage
from barnabas.config.log_config import LogConfig
from barnabas.protocol.records.batch import NO_PRODUCER_ID
from barnabas.protocol.records.builder import build_batch
from barnabas.storage.env import RealEnv
from barnabas.storage.log.unified_log import UnifiedLog
from barnabas.storage.manager.log_manager import LogManager

START_MS = 1_700_000_000_000


class ManualEnv(RealEnv):
    """The operating system's files, with wall time and randomness set by the test."""

    __slots__ = ("_source", "ms")

    def __init__(self, ms: int = START_MS) -> None:
        self.ms = ms
        self._source = random.Random(1)

    def now_ms(self) -> int:
        return self.ms

    def random_bytes(self, length: int) -> bytes:
        return self._source.randbytes(length)

    def sync_dir(self, path: str) -> None:
        """Does nothing: a process that does not die needs no sync."""


def log_manager(directory: Path, env: ManualEnv, config: LogConfig | None = None) -> LogManager:
    """A LogManager over one new directory, where every topic has `config`."""
    effective = config or LogConfig()
    manager = LogManager(env, [str(directory)], lambda topic: effective)
    manager.dirs.lock()
    manager.load_logs()
    return manager


def log(directory: Path, env: ManualEnv | None = None, config: LogConfig | None = None) -> UnifiedLog:
    """The log of t-0, new."""
    return log_manager(directory, env or ManualEnv(), config).get_or_create_log("t", 0, b"t" * 16)


def batch(
    *values: str | bytes | None,
    key: bytes | None = None,
    timestamp: int = START_MS,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = -1,
    base_sequence: int = -1,
) -> bytes:
    """A record batch as a producer sends it, one record for each of `values`."""
    records = [
        (key, value.encode() if isinstance(value, str) else value, timestamp, ())
        for value in values or ("x",)
    ]
    return build_batch(
        records, producer_id=producer_id, producer_epoch=producer_epoch, base_sequence=base_sequence
    )


def partition_image(
    *,
    partition: int = 0,
    replicas: Sequence[int] = (1,),
    isr: Sequence[int] | None = None,
    leader: int = 1,
    leader_epoch: int = 0,
    partition_epoch: int = 0,
) -> PartitionImage:
    """A partition's registration; all replicas are in sync by default."""
    return PartitionImage(
        partition,
        replicas=tuple(replicas),
        isr=tuple(replicas if isr is None else isr),
        leader=leader,
        leader_epoch=leader_epoch,
        partition_epoch=partition_epoch,
    )
