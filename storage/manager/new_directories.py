"""NewDirectories: a job that creates many logs, in a thread.

The directory of a new log must be durable before the log is used. Creating directories and files is most of the cost of
a topic and touches nothing shared, so the broker runs it in a thread; `get_or_create_log` then takes the open logs. The
content of the directory becomes durable with the first flush of the log.
"""

from collections.abc import Callable
from typing import NamedTuple

from barnabas.storage.env import Env
from barnabas.storage.log.checkpoints import PARTITION_METADATA, PartitionMetadataFile
from barnabas.storage.log.unified_log import UnifiedLog
from barnabas.storage.segment.open_segments import OpenSegments


class _New(NamedTuple):
    """A directory to create, the topic id if known, and the function that opens the log in it."""

    path: str
    topic_id: bytes | None
    open_log: Callable[[], UnifiedLog] | None


class NewDirectories:
    """The directories of new logs. Made by `LogManager.prepare_logs`; `run` is safe in a thread."""

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
        """Plans the partition directory `name` in `log_dir`; `topic_id` is None if it is not known yet.

        `open_log` opens the log in it, in the thread of `run`, and must share nothing with other logs. Without it all
        files are durable after `run`.
        """
        self._new.setdefault(log_dir, []).append(_New(f"{log_dir}/{name}", topic_id, open_log))

    def run(self) -> None:
        """Creates all, with one sync for each log directory. Raises OSError; some may exist then."""
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
        """The log that was opened in a directory, registered with `ring`; None if `run` did not open it.

        Not to be called while `run` is in progress.
        """
        log = self._logs.pop(path, None)
        if log is not None:
            log.share_open_segments(ring)
            log.sync_topic_id_with_next_flush()
        return log
