"""Deletions of files are delayed and can be repeated."""

import pytest

from barnabas.storage.log.deletion import DeletionQueue
from tests.storage.fault_env import FaultEnv, nth


def test_a_due_deletion_is_taken_once() -> None:
    env = FaultEnv()
    queue = DeletionQueue(env)
    for name in ("a", "b"):
        env.write_file(f"/{name}", b"")
    queue.add(100, ["/a"])
    queue.add(200, ["/b", "/never there"])
    assert queue.take_due(env.time_ms + 99) == []
    (first,) = queue.take_due(env.time_ms + 100)
    assert len(queue) == 1
    assert queue.take_due(env.time_ms + 100) == []
    (second,) = queue.take_due(env.time_ms + 500)
    for deletion in (first, second, second):
        deletion.run()
    assert env.listdir("/") == []
    assert "/a" in repr(first)


def test_a_directory_is_removed_with_its_contents() -> None:
    env = FaultEnv()
    env.mkdir("/d/below")
    env.write_file("/d/below/f", b"")
    queue = DeletionQueue(env)
    queue.add(0, [], "/d")
    (deletion,) = queue.take_due(env.time_ms)
    env.inject(nth(2))
    with pytest.raises(OSError, match="injected"):
        deletion.run()
    env.inject(None)
    deletion.run()
    deletion.run()
    assert not env.exists("/d")
    assert "/d" in repr(deletion)


def test_files_of_a_renamed_directory_are_removed() -> None:
    env = FaultEnv()
    queue = DeletionQueue(env)
    queue.add(0, ["/d/t-0.x-future/a", "/d/t-0.x-future-too/b"])
    queue.add(0, [], "/d/t-0.x-future")
    queue.directory_renamed("/d/t-0.x-future", "/d/t-0")
    first, second = queue.take_due(env.time_ms)
    assert first.paths == ["/d/t-0/a", "/d/t-0.x-future-too/b"]
    assert second.directory == "/d/t-0.x-future", "that one is what was deleted"
