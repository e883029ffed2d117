"""Env: the interface of storage to files, clocks and randomness.

All accesses of `storage` go through an `Env`, so that tests can use an in-memory file system that drops unsynced data,
fails the n-th operation or writes partially. `RealEnv` adds as little as possible: every produce request calls
`File.pwritev` and every fetch `File.pread`.

Paths are plain strings. Failures are `OSError`, as the operating system raises them; `storage.errors` maps them.
"""

import errno
import mmap
import os
import struct
import sys
import time
from collections.abc import Sequence
from contextlib import closing
from typing import Protocol

from mypy_extensions import mypyc_attr

Buffer = bytes | bytearray | memoryview


class File(Protocol):
    """One open file. Stays readable after its name is removed; closes with the last reference."""

    def size(self) -> int:
        """Its length in bytes."""

    def fileno(self) -> int | None:
        """The descriptor, for sendfile; None without one, or after `close`."""

    def pread(self, length: int, position: int) -> bytes:
        """Up to `length` bytes from `position`; fewer at the end of the file."""

    def pread_into(self, buffer: memoryview, position: int) -> int:
        """Reads from `position` into the buffer; returns the number of bytes, 0 at the end of the file."""

    def pwritev(self, buffers: Sequence[Buffer], position: int) -> int:
        """Writes the buffers one after the other at `position`; returns the bytes written, which may be fewer."""

    def truncate(self, size: int) -> None:
        """Truncates or extends (with zeros, sparsely) to `size` bytes."""

    def sync(self) -> None:
        """Returns once the contents are on stable storage (fdatasync). Safe in a thread."""

    def close(self) -> None:
        """Closes the descriptor. Idempotent."""


Mapping = mmap.mmap | memoryview
"""A file's bytes as memory, for the sparse indexes; `struct` packs into it and unpacks from it."""


class Lock(Protocol):
    """An exclusive lock on a path, held by this process until it is released or the process ends."""

    def release(self) -> None: ...


class Env(Protocol):
    """Files, clock and randomness."""

    def now_ms(self) -> int:
        """Wall clock, milliseconds since the epoch."""

    def random_bytes(self, length: int) -> bytes: ...

    def open(self, path: str, *, create: bool = False, write: bool = True) -> File:
        """Opens an existing file, or creates it with `create`."""

    def map(self, path: str, size: int, *, write: bool) -> Mapping:
        """Maps the first `size` bytes (at least one) of a file that is at least that long."""

    def unmap(self, mapping: Mapping) -> None:
        """Closes a map, which must not be accessed any more."""

    def max_open_files(self) -> int:
        """The maximum of descriptors of this process."""

    def disk_space(self, path: str) -> tuple[int, int]:
        """(total, available) bytes of the file system of a directory. Safe in a thread."""

    def read_file(self, path: str) -> bytes: ...

    def exists(self, path: str) -> bool: ...

    def is_dir(self, path: str) -> bool: ...

    def size(self, path: str) -> int: ...

    def mtime_ms(self, path: str) -> int: ...

    def set_mtime_ms(self, path: str, mtime_ms: int) -> None: ...

    def listdir(self, path: str) -> list[str]: ...

    def scan_dir(self, path: str) -> list[tuple[str, bool]]:
        """The names in a directory, and whether each is a directory, without a stat of each."""

    def mkdir(self, path: str) -> None:
        """Creates the directory and missing parents; it may exist."""

    def rename(self, source: str, target: str) -> None:
        """Atomic; replaces a target file."""

    def remove(self, path: str) -> None:
        """Removes a file."""

    def rmdir(self, path: str) -> None:
        """Removes an empty directory."""

    def sync_dir(self, path: str) -> None:
        """Returns once creations, renames and removals in the directory are on stable storage. Safe in a thread."""

    def lock(self, path: str) -> Lock | None:
        """Locks the file at `path`, created if missing; None if another process holds the lock."""

    def lock_dir(self, path: str) -> Lock | None:
        """Locks a directory itself, without a file; None if another process holds the lock."""


_SMALL_FILE_BYTES = 64 * 1024
_IOV_MAX = 1024
"""The most buffers that a system call takes on Linux and macOS; the callers write the rest (`write_rest`)."""


@mypyc_attr(allow_interpreted_subclasses=True)  # those of the tests
class RealFile:
    """A `File` over a descriptor."""

    __slots__ = ("fd",)

    def __init__(self, fd: int) -> None:
        self.fd = fd

    def size(self) -> int:
        return os.fstat(self.fd).st_size

    def fileno(self) -> int | None:
        return self.fd if self.fd >= 0 else None

    def pread(self, length: int, position: int) -> bytes:
        return os.pread(self.fd, length, position)

    def pread_into(self, buffer: memoryview, position: int) -> int:
        return os.preadv(self.fd, (buffer,), position)

    def pwritev(self, buffers: Sequence[Buffer], position: int) -> int:
        if len(buffers) == 1:
            return os.pwrite(self.fd, buffers[0], position)  # at half the cost
        return os.pwritev(self.fd, buffers if len(buffers) <= _IOV_MAX else buffers[:_IOV_MAX], position)

    def truncate(self, size: int) -> None:
        os.ftruncate(self.fd, size)

    def sync(self) -> None:
        _sync_data(self.fd)

    def close(self) -> None:
        fd, self.fd = self.fd, -1
        if fd >= 0:
            os.close(fd)

    def __del__(self) -> None:
        self.close()


def _sync_data(fd: int) -> None:
    if sys.platform == "darwin":
        import fcntl

        fcntl.fcntl(fd, fcntl.F_FULLFSYNC)  # fsync on macOS stops at the drive's own cache
    else:
        os.fdatasync(fd)


class RealLock:
    """A `Lock` over a descriptor, which the kernel drops when the process dies."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def release(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)


@mypyc_attr(allow_interpreted_subclasses=True)  # those of the tests
class RealEnv:
    """The `Env` of the operating system."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def random_bytes(self, length: int) -> bytes:
        return os.urandom(length)

    def open(self, path: str, *, create: bool = False, write: bool = True) -> RealFile:
        flags = (os.O_RDWR if write else os.O_RDONLY) | os.O_CLOEXEC
        return RealFile(os.open(path, flags | os.O_CREAT if create else flags, 0o644))

    def map(self, path: str, size: int, *, write: bool) -> mmap.mmap:
        fd = os.open(path, (os.O_RDWR if write else os.O_RDONLY) | os.O_CLOEXEC)
        access = mmap.ACCESS_WRITE if write else mmap.ACCESS_READ
        try:
            if sys.version_info >= (3, 13):
                return mmap.mmap(fd, size, access=access, trackfd=False)  # costs no descriptor
            return mmap.mmap(fd, size, access=access)
        finally:
            os.close(fd)

    def unmap(self, mapping: Mapping) -> None:
        if isinstance(mapping, mmap.mmap):
            mapping.close()

    def max_open_files(self) -> int:
        import resource

        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        return soft if soft != resource.RLIM_INFINITY else sys.maxsize

    def disk_space(self, path: str) -> tuple[int, int]:
        found = os.statvfs(path)
        return found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize

    def read_file(self, path: str) -> bytes:
        # Python's file objects need twice the system calls, and loading reads three small files for each partition.
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            data = os.read(fd, _SMALL_FILE_BYTES)
            if len(data) < _SMALL_FILE_BYTES:
                return data
            parts = [data]
            while data:
                data = os.read(fd, _SMALL_FILE_BYTES)
                parts.append(data)
            return b"".join(parts)
        finally:
            os.close(fd)

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def is_dir(self, path: str) -> bool:
        return os.path.isdir(path)

    def size(self, path: str) -> int:
        return os.stat(path).st_size

    def mtime_ms(self, path: str) -> int:
        return os.stat(path).st_mtime_ns // 1_000_000

    def set_mtime_ms(self, path: str, mtime_ms: int) -> None:
        os.utime(path, ns=(mtime_ms * 1_000_000, mtime_ms * 1_000_000))

    def listdir(self, path: str) -> list[str]:
        return os.listdir(path)

    def scan_dir(self, path: str) -> list[tuple[str, bool]]:
        with os.scandir(path) as entries:
            return [(entry.name, entry.is_dir()) for entry in entries]

    def mkdir(self, path: str) -> None:
        try:
            os.mkdir(path)  # usually only this one is missing, and makedirs checks the parents first
        except (FileExistsError, FileNotFoundError):
            os.makedirs(path, exist_ok=True)

    def rename(self, source: str, target: str) -> None:
        os.replace(source, target)

    def remove(self, path: str) -> None:
        os.unlink(path)

    def rmdir(self, path: str) -> None:
        os.rmdir(path)

    def sync_dir(self, path: str) -> None:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def lock(self, path: str) -> RealLock | None:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        lock = _flock(fd)
        if lock is None:
            return None
        try:
            is_ours = _lock_as_java_does(fd)
        except BaseException:
            lock.release()
            raise
        if not is_ours:
            lock.release()
            return None
        return lock

    def lock_dir(self, path: str) -> RealLock | None:
        return _flock(os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))


def _flock(fd: int) -> RealLock | None:
    import fcntl

    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        return None
    return RealLock(fd)


def _lock_as_java_does(fd: int) -> bool:
    """Locks the whole file by fcntl; False if another process holds the lock.

    Java's FileChannel.tryLock, with which Apache Kafka locks .lock, and flock ignore each other. The lock belongs to
    the open file, so that it is not lost when the process closes the file elsewhere.
    """
    import fcntl

    command = getattr(fcntl, "F_OFD_SETLK", None)
    if command is None:
        return True  # not Linux
    try:
        fcntl.fcntl(fd, command, struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0))
    except OSError as error:
        if error.errno in (errno.EAGAIN, errno.EACCES):
            return False
        if error.errno != errno.EINVAL:  # the error of a kernel without such locks
            raise
    return True


def write_fully(file: File, buffers: Sequence[Buffer], position: int, size: int) -> None:
    """Writes all `size` bytes of the buffers at `position`, in several writes if needed."""
    written = file.pwritev(buffers, position)
    if written != size:
        write_rest(file, buffers, position, size, written)


def write_rest(file: File, buffers: Sequence[Buffer], position: int, size: int, written: int) -> None:
    """Continues after a first `pwritev` at `position` wrote `written` of `size` bytes."""
    rest = memoryview(b"".join(buffers))
    while written < size:
        count = file.pwritev((rest[written:],), position + written)
        if count <= 0:
            raise OSError(f"wrote {written} of {size} bytes at {position} and then nothing")
        written += count


def read_fully(file: File, length: int, position: int) -> bytes:
    """`length` bytes from `position`, or fewer at the end of the file."""
    data = file.pread(length, position)
    if len(data) == length or not data:
        return data
    parts = [data]
    missing = length - len(data)
    while missing > 0:
        data = file.pread(missing, position + length - missing)
        if not data:
            break
        parts.append(data)
        missing -= len(data)
    return b"".join(parts)


def read_into(file: File, buffer: memoryview, position: int) -> int:
    """Reads into the buffer from `position`; returns the number of bytes, fewer at the end of the file."""
    length = file.pread_into(buffer, position)
    while 0 < length < len(buffer):
        count = file.pread_into(buffer[length:], position + length)
        if not count:
            break
        length += count
    return length


def write_atomically(env: Env, path: str, data: bytes) -> None:
    """Replaces a small file atomically: a crash leaves the old or the new content.

    Temporary file, sync, rename, sync of the directory (Kafka's Utils.atomicMoveWithFallback with flush).
    """
    temporary = path + ".tmp"
    with closing(env.open(temporary, create=True)) as file:
        file.truncate(0)
        write_fully(file, (data,), 0, len(data))
        file.sync()
    env.rename(temporary, path)
    env.sync_dir(os.path.dirname(path))


def make_directory(env: Env, path: str) -> None:
    """Creates a directory and missing parents, durably."""
    if env.exists(path):
        return
    parent = os.path.dirname(path) or "."
    if parent != path:
        make_directory(env, parent)
    env.mkdir(path)
    env.sync_dir(parent)


def sync_path(env: Env, path: str) -> None:
    """Returns once the contents of a file are on stable storage. Raises FileNotFoundError, OSError."""
    with closing(env.open(path)) as file:
        file.sync()


def remove_if_exists(env: Env, path: str) -> bool:
    """Removes a file; False if there was none."""
    try:
        env.remove(path)
    except FileNotFoundError:
        return False
    return True


def remove_tree(env: Env, path: str) -> None:
    """Removes a directory with its content; missing entries are ignored."""
    try:
        names = env.listdir(path)
    except FileNotFoundError:
        return
    for name in names:
        child = f"{path}/{name}"
        if env.is_dir(child):
            remove_tree(env, child)
        else:
            remove_if_exists(env, child)
    env.rmdir(path)
