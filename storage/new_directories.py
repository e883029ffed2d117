"""NewDirectories: the durable part of making many logs, in one piece of work that may leave the thread.

A new log needs its directory and partition.metadata on stable storage before anybody relies on it. Making those is most
of the cost of a topic, and touches nothing that is shared, so the broker has it done in a thread; `get_or_create_log`
then only opens what is there.
"""

from storage.checkpoints import PARTITION_METADATA, PartitionMetadataFile
from storage.env import Env


class NewDirectories:
    """The directories of logs to come. Made by `LogManager.prepare_logs`; run() is safe in a thread."""

    __slots__ = ("_env", "_topic_ids", "is_done")

    def __init__(self, env: Env) -> None:
        self._env = env
        self._topic_ids: dict[str, dict[str, bytes | None]] = {}
        self.is_done = False

    def add(self, log_dir: str, name: str, topic_id: bytes | None) -> None:
        """Plans the partition directory `name` in `log_dir`; None where nobody knows the topic's id yet."""
        self._topic_ids.setdefault(log_dir, {})[f"{log_dir}/{name}"] = topic_id

    def run(self) -> None:
        """Makes them all, with one sync for each log directory. Raises OSError; what was made by then may stay."""
        for log_dir, directories in self._topic_ids.items():
            for directory, topic_id in directories.items():
                self._env.mkdir(directory)
                if topic_id is not None:
                    PartitionMetadataFile(self._env, f"{directory}/{PARTITION_METADATA}").write(topic_id)
            self._env.sync_dir(log_dir)
        self.is_done = True
