"""The names of partition directories, and LoadTask, which loads the log of one.

LogManager plans one LoadTask for every partition directory; the start of the broker runs them on several threads. A
task accesses nothing but its own directory.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from barnabas.protocol.records.errors import CorruptRecordError
from barnabas.storage.env import Env
from barnabas.storage.errors import StorageError
from barnabas.storage.offsets import TopicPartition
from barnabas.storage.segment.names import LOG_SUFFIX

if TYPE_CHECKING:
    from barnabas.storage.log.unified_log import UnifiedLog
    from barnabas.storage.manager.log_dir import LogDir

DELETE_DIR_SUFFIX: Final = "-delete"
FUTURE_DIR_SUFFIX: Final = "-future"
STRAY_DIR_SUFFIX: Final = "-stray"
MAX_DIR_NAME: Final = 255
_PARTITION_DIR: Final = re.compile(r"(.+)-(\d+)")
_ODD_DIR: Final = re.compile(r"(.+)-(\d+)\.([^.]+)(-delete|-future|-stray)")

Open = Callable[["LoadTask"], "UnifiedLog"]
RunTasks = Callable[[Sequence["LoadTask"]], Iterable["LoadTask"]]
"""Runs all tasks and yields each when it is done, in any order."""


RunAll = Callable[[Sequence[Callable[[], None]]], None]
"""Runs jobs, none of which raises, and returns when all are done."""


class PartitionDirName(NamedTuple):
    """The fields of a partition directory's name. `suffix` is "" for the current log."""

    topic: str
    partition: int
    suffix: str

    @property
    def key(self) -> TopicPartition:
        return self.topic, self.partition


def parse_partition_dir(name: str) -> PartitionDirName | None:
    """`topic-partition`, or `topic-partition.uniqueid-delete` (-future, -stray); None for any other name.

    Kafka's UnifiedLog.parseTopicPartitionName.
    """
    odd = _ODD_DIR.fullmatch(name)
    if odd is not None:
        return PartitionDirName(odd[1], int(odd[2]), odd[4])
    plain = _PARTITION_DIR.fullmatch(name)
    if plain is None or name.endswith((DELETE_DIR_SUFFIX, FUTURE_DIR_SUFFIX, STRAY_DIR_SUFFIX)):
        return None
    return PartitionDirName(plain[1], int(plain[2]), "")


def odd_dir_name(topic: str, partition: int, suffix: str, unique: bytes) -> str:
    """topic-partition.uniqueid-suffix, as in Kafka; a long topic is truncated to the maximum length of a file name."""
    tail = f"-{partition}.{unique.hex()}{suffix}"
    return topic[: MAX_DIR_NAME - len(tail)] + tail


class LoadTask:
    """One log to open. `run` is called once, on any thread, and sets either `log` or `error`.

    Recovery must read `bytes_to_read` of the log (0 after a clean stop) and has read `bytes_read`.
    """

    __slots__ = ("_open", "bytes_read", "bytes_to_read", "directory", "error", "log", "name", "path")

    def __init__(self, directory: "LogDir", path: str, name: PartitionDirName, open_log: Open) -> None:
        self._open = open_log
        self.directory = directory
        self.path = path
        self.name = name
        self.bytes_to_read = 0
        self.bytes_read = 0
        self.log: UnifiedLog | None = None
        self.error: OSError | StorageError | CorruptRecordError | None = None

    @property
    def is_future(self) -> bool:
        """Whether it is a future log, of a replica that moves between directories."""
        return self.name.suffix == FUTURE_DIR_SUFFIX

    def survey(self, env: Env) -> None:
        """Sets `bytes_to_read`. Raises OSError."""
        if self.directory.had_clean_shutdown:
            return
        recovery_point = self.directory.recovery_points.get(self.name.key, 0)
        names = sorted(
            name for name in env.listdir(self.path) if name[20:] == LOG_SUFFIX and name[:20].isdigit()
        )
        first = max((at for at, name in enumerate(names) if int(name[:20]) <= recovery_point), default=0)
        self.bytes_to_read = sum(env.size(f"{self.path}/{name}") for name in names[first:])

    def read(self, count: int) -> None:
        """Adds to `bytes_read`."""
        self.bytes_read += count

    def run(self) -> None:
        try:
            self.log = self._open(self)
        except (OSError, StorageError, CorruptRecordError) as error:
            self.error = error
        self.bytes_read = self.bytes_to_read

    def __repr__(self) -> str:
        return f"LoadTask({self.path})"


def run_in_turn(tasks: Sequence[LoadTask]) -> Iterable[LoadTask]:
    """Runs the tasks one after the other, on the calling thread."""
    for task in tasks:
        task.run()
        yield task


def run_all_in_turn(work: Sequence[Callable[[], None]]) -> None:
    """Runs the jobs one after the other, on the calling thread."""
    for one in work:
        one()
