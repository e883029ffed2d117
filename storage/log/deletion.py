"""DeletionQueue: renamed files that are removed after file.delete.delay.ms.

Storage has no threads: its owner takes the deletions that are due and runs them on a thread of its choice.
"""

from barnabas.storage.env import Env, remove_if_exists, remove_tree


class Deletion:
    """Files, or a whole directory, to remove. `run` is safe in a thread and may be repeated; it raises OSError."""

    __slots__ = ("_env", "directory", "due_ms", "paths")

    def __init__(self, env: Env, due_ms: int, paths: list[str], directory: str | None = None) -> None:
        self._env = env
        self.due_ms = due_ms
        self.paths = paths
        self.directory = directory

    def run(self) -> None:
        for path in self.paths:
            remove_if_exists(self._env, path)
        if self.directory is not None:
            remove_tree(self._env, self.directory)

    def __repr__(self) -> str:
        return f"Deletion(due_ms={self.due_ms}, {self.directory or self.paths})"


class DeletionQueue:
    """The deletions of a log manager and their times."""

    def __init__(self, env: Env) -> None:
        self._env = env
        self._pending: list[Deletion] = []

    def __len__(self) -> int:
        return len(self._pending)

    def add(self, delay_ms: int, paths: list[str], directory: str | None = None) -> None:
        """Queues files, or a directory with its content, for removal in `delay_ms`."""
        self._pending.append(Deletion(self._env, self._env.now_ms() + delay_ms, paths, directory))

    def directory_renamed(self, old: str, new: str) -> None:
        """Follows a rename of a directory."""
        for deletion in self._pending:
            deletion.paths = [
                new + path[len(old) :] if path.startswith(f"{old}/") else path for path in deletion.paths
            ]

    def take_due(self, now_ms: int) -> list[Deletion]:
        """Removes and returns the deletions that are due, for the caller to run."""
        due = [deletion for deletion in self._pending if deletion.due_ms <= now_ms]
        if due:
            self._pending = [deletion for deletion in self._pending if deletion.due_ms > now_ms]
        return due
