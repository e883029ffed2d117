"""NewDirectories: the making of many logs, in one piece of work that may leave the thread.

A new log needs its directory on stable storage before anybody relies on it. Making directories and files is most of
the cost of a topic, and touches nothing that is shared, so the broker has it done in a thread; `get_or_create_log` then
only takes what is there. What is in the directory need not be durable yet: the first flush of the log sees to it.
"""

from collections.abc import Callable
from typing import NamedTuple

from barnabas.storage.env import Env
from barnabas.storage.log.checkpoints import PARTITION_METADATA, PartitionMetadataFile
from barnabas.storage.log.unified_log import UnifiedLog
from barnabas.storage.segment.open_segments import OpenSegments


class _New(NamedTuple):
    """A directory to come, the topic's id if it is known, and what opens the log in it."""

    path: str
    topic_id: bytes | None
    open_log: Callable[[], UnifiedLog] | None


class NewDirectories:
    """The directories of logs to come. Made by `LogManager.prepare_logs`; run() is safe in a thread."""

    __slots__ = ("_env", "_logs", "_new", "is_done")

    def __init__(self, env: Env) -> None:
        self._env = env
        self._new: dict[str, list[_New]] = {}
        self._logs: dict[str, UnifiedLog] = {}
        self.is_done = False

    def add(
        self,
        log_dir: str,
        name: str,
        topic_id: bytes | None,
        open_log: Callable[[], UnifiedLog] | None = None,
    ) -> None:
        """Plans the partition directory `name` in `log_dir`; no id where nobody knows the topic's yet.

        `open_log` opens the log in it, in the thread that run() is called in, and must share nothing with any other.
        Without it whoever opens the log finds everything durable.
        """
        self._new.setdefault(log_dir, []).append(_New(f"{log_dir}/{name}", topic_id, open_log))

    def run(self) -> None:
        """Makes them all, with one sync for each log directory. Raises OSError; what was made by then may stay."""
        for log_dir, new in self._new.items():
            for path, topic_id, open_log in new:
                self._env.mkdir(path)
                file = PartitionMetadataFile(self._env, f"{path}/{PARTITION_METADATA}")
                if topic_id is not None:
                    (file.write_unsynced if open_log else file.write)(topic_id)
                if open_log is not None:
                    self._logs[path] = open_log()
            self._env.sync_dir(log_dir)
        self.is_done = True

    def take(self, path: str, ring: OpenSegments) -> UnifiedLog | None:
        """The log that was opened in a directory, which opens its files among those of `ring` from here on.

        None when it did not come to that. Not while run() is at work.
        """
        log = self._logs.pop(path, None)
        if log is not None:
            log.share_open_segments(ring)
            log.sync_topic_id_with_next_flush()
        return log
