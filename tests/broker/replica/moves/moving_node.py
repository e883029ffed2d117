"""A node with several log directories on an in-memory disk, one partition, and moves whose every step the test takes.

Each appended record is acknowledged once it is flushed. The metadata are one file that says in which directory the
partition lies, replaced atomically.
"""

from __future__ import annotations

from random import Random

from barnabas.broker.metadata.topics import PartitionImage
from barnabas.broker.pending import Pending
from barnabas.broker.replica.log_flusher import LogFlusher
from barnabas.broker.replica.moves.alter_log_dirs import ReplicaAlterLogDirsManager
from barnabas.broker.replica.moves.log_dir_move import MovePhase
from barnabas.broker.replica.moves.replication_quota import ReplicationQuota
from barnabas.broker.replica.partition import ACKS_ALL, Partition
from barnabas.broker.waiting.blocking import InlineRunner
from barnabas.config.log_config import LogConfig
from barnabas.protocol.errors import ErrorCode
from barnabas.storage.cleaner.manager import LogCleanerManager
from barnabas.storage.env import write_atomically
from barnabas.storage.errors import KafkaStorageError
from barnabas.storage.log.unified_log import UnifiedLog
from barnabas.storage.manager.log_dir import LogDir
from barnabas.storage.manager.log_manager import LogManager
from barnabas.storage.offsets import TopicPartition
from tests.broker.fakes import ManualTimer
from tests.broker.held_runner import HeldRunner
from tests.storage.fault_env import FaultEnv
from tests.storage.helpers import TOPIC_ID, make_batch, read_values, small_config

KEY: TopicPartition = ("t", 0)
METADATA = "/meta/directory"
LOG_DIRS = ("/a", "/b", "/c")


class MovingNode:
    """`start` it on an environment, as often as there are crashes."""

    def __init__(self, env: FaultEnv, config: LogConfig | None = None) -> None:
        self.env = env
        self.config = config or small_config(flush_messages=1)
        self.acknowledged: dict[int, bytes] = {}
        self.sent = 0
        env.mkdir("/meta")
        env.sync_dir("/")

    # ---- its life

    def start(self, *, limit_bytes_per_second: int = 1 << 62) -> None:
        env = self.env
        self.limit_bytes_per_second = limit_bytes_per_second
        self.timer = ManualTimer()
        self.copying = HeldRunner()
        self.failed_dirs: list[str] = []
        self.holds_metadata = False
        self.held_reports: list[Pending[bool]] = []
        self.log_manager = LogManager(
            env, LOG_DIRS, lambda _topic: self.config, assigned_dir=lambda _topic, _index: self.assigned_id()
        )
        self.log_manager.dirs.lock()
        self.log_manager.dirs.load_meta_properties()
        fresh = iter(range(1, 9))
        self.log_manager.dirs.format("cluster", 1, lambda: f"{'A' * 20}{'ABCDEFGHI'[next(fresh)]}A")
        self.log_manager.load_logs()
        self.log_manager.future.finish_decided(lambda _topic, _index: self.assigned_id())
        self.log_manager.cleaner = self.cleaner = LogCleanerManager(env, self.log_manager)
        log = self.log_manager.get_or_create_log(*KEY, TOPIC_ID, directory_id=self.assigned_id() or bytes(16))
        if self.assigned_id() != self.directory_of(log).directory_id:
            self._assign(self.directory_of(log))
        image = PartitionImage(
            0, replicas=(1,), isr=(1,), leader=1, leader_epoch=0, partition_epoch=0, directories=(bytes(16),)
        )
        self.partition = Partition("t", TOPIC_ID, image, log, 1)
        self.flusher = LogFlusher(InlineRunner(), self._flushed, self._flush_failed)
        self.log_manager.on_log_dir_failed = self._went_offline
        self.moves = ReplicaAlterLogDirsManager(
            self,
            threads=2,
            runner=self.copying,
            timer=self.timer,
            quota=ReplicationQuota(
                lambda: self.limit_bytes_per_second, samples=2, window_s=1.0, clock=self.timer.time
            ),
            report=self._report,
            backoff_s=lambda: 1.0,
        )
        self.moves.start()

    def restart_after(self, rng: Random | None, *, power_is_cut: bool) -> None:
        """A crash of the process, or of the machine (what was not synced is lost, with `rng` in doubt)."""
        if power_is_cut:
            self.env.crash(rng)
        else:
            self.env.kill()
        self.start()

    # ---- Hosts

    def find(self, topic: str, index: int) -> Partition | None:
        return self.partition if (topic, index) == KEY else None

    def log_dir_failed(self, log_dir: str, why: str = "") -> None:
        self.failed_dirs.append(log_dir)
        self.log_manager.log_dir_failed(log_dir, why)

    def log_replaced(self, partition: Partition, log: UnifiedLog) -> None:
        partition.log = log

    def _went_offline(self, log_dir: str) -> None:
        if self.partition.log.directory.startswith(f"{log_dir}/"):
            self.partition.offline = True
        self.moves.log_dir_failed(log_dir)

    # ---- the metadata

    def assigned_id(self) -> bytes | None:
        """The id of the directory that the metadata have the partition in."""
        return self.env.read_file(METADATA) if self.env.exists(METADATA) else None

    def _assign(self, directory: LogDir) -> None:
        assert directory.directory_id is not None
        write_atomically(self.env, METADATA, directory.directory_id)

    def _report(self, partition: Partition, directory_id: bytes) -> Pending[bool]:
        reported: Pending[bool] = Pending()
        if self.holds_metadata:
            self.held_reports.append(reported)
            return reported
        try:
            write_atomically(self.env, METADATA, directory_id)
        except OSError:
            reported.complete(False)
        else:
            reported.complete(True)
        return reported

    # ---- what a test does with it

    @property
    def log(self) -> UnifiedLog:
        return self.partition.log

    @property
    def place(self) -> str:
        """The log directory that the log in use lies in."""
        return self.directory_of(self.log).path

    def directory_of(self, log: UnifiedLog) -> LogDir:
        return self.log_manager.directory_of(log)

    def dir(self, path: str) -> LogDir:
        return next(one for one in self.log_manager.dirs if one.path == path)

    def move(self, path: str) -> Pending[ErrorCode]:
        self.partition.check_leader()
        return self.moves.begin(self.partition, self.dir(path))

    def append(self, count: int = 1, *, size: int = 60) -> None:
        """Records whose values tell their offsets, one a batch."""
        for _ in range(count):
            value = b"%08d" % self.log.log_end_offset + bytes(size)
            info = self.partition.append_as_leader(make_batch(value), ACKS_ALL)
            self.sent = max(self.sent, info.last_offset + 1)
            self.flusher.flush(self.log)
        self._flushed(self.log)

    def _flushed(self, log: UnifiedLog) -> None:
        current = self.log
        for offset in range(max(self.acknowledged, default=-1) + 1, current.recovery_point):
            self.acknowledged[offset] = b"%08d" % offset

    def _flush_failed(self, log: UnifiedLog, error: KafkaStorageError) -> None:
        self.log_dir_failed(log.directory.rpartition("/")[0], str(error))

    @property
    def phase(self) -> MovePhase | None:
        """Of the move, if there is one."""
        return next((move.phase for move in self.moves.moves), None)

    def step(self) -> bool:
        """Lets one piece of work of the moves be done; False when there was none."""
        if not self.copying.held:
            return False
        self.copying.release()
        return True

    def finish(self) -> None:
        """All that is left of the moves."""
        while self.step():
            pass

    def check(self) -> None:
        """Everything that was acknowledged is there, at its offset, and nothing else."""
        values = read_values(self.log)
        for offset in range(self.log.log_start_offset, max(self.acknowledged, default=-1) + 1):
            assert offset in values, f"{offset} was acknowledged, and {self.log!r} does not have it"
        for offset, value in values.items():
            assert value is not None
            assert value[:8] == b"%08d" % offset, (offset, value)
        lists = [list(one.logs) for one in self.log_manager.dirs]
        assert sum(KEY in each for each in lists) == 1 + (self.log_manager.get_future_log(*KEY) is not None)
