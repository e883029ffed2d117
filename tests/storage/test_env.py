"""RealEnv and FaultEnv behave the same."""

import errno
import fcntl
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from barnabas.storage.env import (
    Env,
    RealEnv,
    read_fully,
    remove_if_exists,
    remove_tree,
    write_atomically,
    write_fully,
    write_rest,
)
from tests.storage.fault_env import Fault, FaultEnv, nth


@pytest.fixture(params=["real", "in memory"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Env, str]:
    """An Env, and an existing directory in it."""
    env: Env = RealEnv() if request.param == "real" else FaultEnv()
    directory = str(tmp_path) if request.param == "real" else "/tmp/x"
    env.mkdir(directory)
    return env, directory


def test_written_bytes_can_be_read(place: tuple[Env, str]) -> None:
    env, directory = place
    file = env.open(f"{directory}/f", create=True)
    assert file.pwritev((b"abc", memoryview(b"defg")[1:]), 0) == 6
    assert file.pwritev((b"XY",), 8) == 2
    assert file.size() == 10
    assert file.pread(100, 0) == b"abcefg\0\0XY"
    assert file.pread(3, 2) == b"cef"
    assert file.pread(3, 99) == b""
    file.truncate(2)
    file.truncate(4)
    file.sync()
    file.close()
    assert env.read_file(f"{directory}/f") == b"ab\0\0"
    assert env.size(f"{directory}/f") == 4
    assert env.mtime_ms(f"{directory}/f") > 1_600_000_000_000


def test_more_buffers_than_a_system_call_takes(place: tuple[Env, str]) -> None:
    env, directory = place
    file = env.open(f"{directory}/f", create=True)
    buffers = [b"%04d" % number for number in range(2000)]
    written = file.pwritev(buffers, 0)
    assert written > 0
    write_rest(file, buffers, 0, 8000, written)
    assert file.pread(9000, 0) == b"".join(buffers)


def test_an_open_file_outlives_its_name(place: tuple[Env, str]) -> None:
    env, directory = place
    file = env.open(f"{directory}/f", create=True)
    file.pwritev((b"still here",), 0)
    env.rename(f"{directory}/f", f"{directory}/g")
    env.remove(f"{directory}/g")
    assert file.pread(10, 0) == b"still here"
    assert not env.exists(f"{directory}/g")
    file.close()
    file.close()


def test_a_map_and_the_file_are_the_same_bytes(place: tuple[Env, str]) -> None:
    env, directory = place
    file = env.open(f"{directory}/f", create=True)
    file.truncate(16)
    writable = env.map(f"{directory}/f", 16, write=True)
    writable[4:8] = b"mmap"
    file.pwritev((b"file",), 8)
    assert bytes(writable[4:12]) == b"mmapfile"
    assert file.pread(4, 4) == b"mmap"
    readable = env.map(f"{directory}/f", 8, write=False)
    assert len(readable) == 8
    env.unmap(readable)
    env.unmap(writable)
    file.close()


def test_directories(place: tuple[Env, str]) -> None:
    env, directory = place
    env.mkdir(f"{directory}/a/b")
    env.mkdir(f"{directory}/a/b")
    write_atomically(env, f"{directory}/a/f", b"one")
    write_atomically(env, f"{directory}/a/f", b"two")
    assert sorted(env.listdir(f"{directory}/a")) == ["b", "f"]
    assert env.is_dir(f"{directory}/a/b")
    assert not env.is_dir(f"{directory}/a/f")
    env.sync_dir(f"{directory}/a")
    with pytest.raises(OSError, match=r"(?i)not empty"):
        env.rmdir(f"{directory}/a")
    env.rename(f"{directory}/a", f"{directory}/c")
    assert env.read_file(f"{directory}/c/f") == b"two"
    remove_tree(env, f"{directory}/c")
    remove_tree(env, f"{directory}/c")
    assert env.listdir(directory) == []
    assert not remove_if_exists(env, f"{directory}/c")


CALLS: dict[str, Callable[[Env, str], object]] = {
    "open": lambda env, path: env.open(path),
    "map": lambda env, path: env.map(path, 8, write=False),
    "read_file": lambda env, path: env.read_file(path),
    "size": lambda env, path: env.size(path),
    "listdir": lambda env, path: env.listdir(path),
    "remove": lambda env, path: env.remove(path),
    "sync_dir": lambda env, path: env.sync_dir(path),
    "rename": lambda env, path: env.rename(path, path + "2"),
}


@pytest.mark.parametrize("call", CALLS)
def test_missing_files_are_not_found(place: tuple[Env, str], call: str) -> None:
    env, directory = place
    with pytest.raises(FileNotFoundError):
        CALLS[call](env, f"{directory}/missing")


def test_a_lock_is_held_once(place: tuple[Env, str]) -> None:
    env, directory = place
    lock = env.lock(f"{directory}/.lock")
    assert lock is not None
    assert env.lock(f"{directory}/.lock") is None
    lock.release()
    lock.release()
    again = env.lock(f"{directory}/.lock")
    assert again is not None
    again.release()


def locked_as_java_does(path: str) -> subprocess.Popen[str]:
    """Another process that tried to take a lock as Java does; it holds it until its input ends."""
    program = (
        "import fcntl, sys\n"
        "file = open(sys.argv[1], 'r+')\n"
        "try: fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)\n"
        "except OSError: print('refused', flush=True)\n"
        "else: print('locked', flush=True)\n"
        "sys.stdin.read()\n"
    )
    words = [sys.executable, "-c", program, path]
    return subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def said_by(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def test_apache_kafka_and_barnabas_lock_each_other_out(tmp_path: Path) -> None:
    path = tmp_path / ".lock"
    path.touch()
    with locked_as_java_does(str(path)) as kafka:
        assert said_by(kafka) == "locked"
        assert RealEnv().lock(str(path)) is None
        kafka.communicate()
    ours = RealEnv().lock(str(path))
    assert ours is not None
    assert RealEnv().lock(str(path)) is None
    path.read_bytes()  # which would release a lock of the process
    with locked_as_java_does(str(path)) as kafka:
        assert said_by(kafka) == "refused"
        kafka.communicate()
    ours.release()
    with locked_as_java_does(str(path)) as kafka:
        assert said_by(kafka) == "locked"
        kafka.communicate()


def refusing(code: int) -> Callable[..., None]:
    def refuse(*_: object) -> None:
        raise OSError(code, "no such lock")

    return refuse


def test_locks_without_open_file_description_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(tmp_path / ".lock")
    with monkeypatch.context() as patched:
        patched.setattr(fcntl, "fcntl", refusing(errno.EINVAL))
        without = RealEnv().lock(path)
    assert without is not None
    assert RealEnv().lock(path) is None
    without.release()
    monkeypatch.delattr(fcntl, "F_OFD_SETLK")
    elsewhere = RealEnv().lock(path)
    assert elsewhere is not None
    elsewhere.release()


def test_a_lock_that_fails_holds_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(tmp_path / ".lock")
    with monkeypatch.context() as patched:
        patched.setattr(fcntl, "fcntl", refusing(errno.ENOLCK))
        with pytest.raises(OSError, match="no such lock"):
            RealEnv().lock(path)
    after = RealEnv().lock(path)
    assert after is not None
    after.release()


def test_a_directory_is_locked_once_and_without_a_file(place: tuple[Env, str]) -> None:
    env, directory = place
    before = env.listdir(directory)
    lock = env.lock_dir(directory)
    assert lock is not None
    assert env.lock_dir(directory) is None
    lock.release()
    again = env.lock_dir(directory)
    assert again is not None
    again.release()
    assert env.listdir(directory) == before
    with pytest.raises(FileNotFoundError):
        env.lock_dir(f"{directory}/none")


def test_clock_random_bytes_and_limits(place: tuple[Env, str]) -> None:
    env, _ = place
    assert env.now_ms() > 1_600_000_000_000
    assert len(env.random_bytes(16)) == 16
    assert env.random_bytes(16) != env.random_bytes(16)
    assert env.max_open_files() > 0


def test_short_writes_and_reads_are_continued() -> None:
    env = FaultEnv()
    file = env.open("/f", create=True)
    env.inject(lambda number, kind, _path: Fault(None, half=True) if number < 3 else None)
    write_fully(file, (b"0123456789", b"abcdef"), 4, 16)
    assert read_fully(file, 100, 4) == b"0123456789abcdef"
    assert read_fully(file, 100, 50) == b""


class Trickle:
    """A file that returns one byte per read, and accepts none."""

    def pread(self, length: int, position: int) -> bytes:
        return b"trickle"[position : position + min(length, 1)]

    def pwritev(self, buffers: object, position: int) -> int:
        return 0


def test_a_file_may_return_less_than_requested() -> None:
    assert read_fully(Trickle(), 5, 1) == b"rickl"  # type: ignore[arg-type]
    assert read_fully(Trickle(), 50, 1) == b"rickle"  # type: ignore[arg-type]


def test_a_file_that_accepts_no_bytes_is_an_error() -> None:
    with pytest.raises(OSError, match="wrote 0 of 3 bytes"):
        write_fully(Trickle(), (b"abc",), 0, 3)  # type: ignore[arg-type]


def test_an_atomic_write_survives_a_crash_whole_or_not_at_all() -> None:
    operation, done = 0, False
    while not done:
        env = FaultEnv()
        env.mkdir("/d")
        env.sync_dir("/")
        write_atomically(env, "/d/f", b"old")
        env.inject(nth(operation))
        try:
            write_atomically(env, "/d/f", b"new")
            done = True
        except OSError:
            pass
        env.crash(Random(operation) if operation % 2 else None)
        assert env.read_file("/d/f") == (b"new" if done else env.read_file("/d/f"))
        assert env.read_file("/d/f") in (b"old", b"new")
        operation += 1


def test_a_crash_loses_unsynced_bytes() -> None:
    env = FaultEnv()
    env.mkdir("/d")
    env.sync_dir("/")
    file = env.open("/d/synced", create=True)
    file.pwritev((b"kept",), 0)
    file.sync()
    env.sync_dir("/d")
    file.pwritev((b"lost",), 4)
    env.open("/d/new", create=True).sync()
    env.rename("/d/synced", "/d/renamed")
    env.crash()
    assert env.listdir("/d") == ["synced"]
    assert env.read_file("/d/synced") == b"kept"
    with pytest.raises(AssertionError, match="before the crash"):
        file.pread(1, 0)


def test_a_kill_loses_nothing() -> None:
    env = FaultEnv()
    file = env.open("/f", create=True)
    file.pwritev((b"abc",), 0)
    env.lock("/l")
    env.kill()
    assert env.read_file("/f") == b"abc"
    assert env.lock("/l") is not None


def test_injected_faults_are_raised() -> None:
    env = FaultEnv()
    file = env.open("/f", create=True)
    env.inject(nth(1, Fault(errno.ENOSPC, half=True)))
    file.pwritev((b"whole",), 0)
    with pytest.raises(OSError, match="after half") as caught:
        file.pwritev((b"half",), 5)
    assert caught.value.errno == errno.ENOSPC
    assert env.read_file("/f") == b"wholeha"
