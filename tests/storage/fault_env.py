"""An in-memory file system behind `storage.env.Env`, for tests: it counts operations, fails chosen ones,
writes short, and crashes in two ways.

`kill()` ends the process: all written bytes remain. `crash()` ends the machine: of every file only
what was synced is there, of every directory only the entries that were there when it was last synced; with a random
generator some of the rest survives too, as it may on a real disk: of a file any of the blocks, of a directory the first
so many of its changes (file systems with a journal keep those in order). Handles from before either are dead: using one
fails the test. `test_fault_env` holds it against a real file system.
"""

import errno
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import lru_cache
from random import Random

from barnabas.storage.env import Buffer, Mapping

BLOCK_BYTES = 64
DISK_BLOCK_BYTES = 512
UNLIMITED = 1 << 40
ZEROS = bytes(1 << 14)


class Inode:
    """A file: its bytes, and those on stable storage."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.synced = b""
        self.mtime_ms = 0
        self.blocks: set[int] = set()  # which have been written to; truncation leaves holes

    def after_kill(self, survivors: "Survivors") -> "Inode":
        survivor = survivors.setdefault(id(self), Inode())
        assert isinstance(survivor, Inode)
        survivor.data[:] = self.data  # a copy: maps of the dead process hold on to the old bytes
        survivor.synced, survivor.mtime_ms = self.synced, self.mtime_ms
        survivor.blocks = set(self.blocks)
        return survivor

    def after_crash(self, rng: Random | None) -> "Inode":
        survivor = Inode()
        survivor.mtime_ms = self.mtime_ms
        survivor.data[:] = survivor.synced = self.synced if rng is None else self._mixture(rng)
        return survivor

    def _mixture(self, rng: Random) -> bytes:
        """Each block either as synced or as written since; a length between the two."""
        low, high = sorted((len(self.synced), len(self.data)))
        length = rng.choice((len(self.synced), len(self.data), rng.randint(low, high)))
        mixed = bytearray(length)
        end = max(_end_of_content(self.synced), _end_of_content(self.data))
        for start in range(0, min(length, end), BLOCK_BYTES):
            source = rng.choice((self.synced, self.data))[start : min(start + BLOCK_BYTES, length)]
            mixed[start : start + len(source)] = source
        return bytes(mixed)


def _end_of_content(data: bytes | bytearray) -> int:
    """The length without the zeros at the end. Indexes end in megabytes of them: they are compared in pieces."""
    end = len(data)
    while end > len(ZEROS) and data.endswith(ZEROS, 0, end):
        end -= len(ZEROS)
    start = max(end - len(ZEROS), 0)
    return start + len(data[start:end].rstrip(b"\0"))


class Directory:
    """A directory: its entries, those that are on stable storage, and every state in between."""

    def __init__(self) -> None:
        self.entries: dict[str, Inode | Directory] = {}
        self.synced: dict[str, Inode | Directory] = {}
        self.unsynced: list[
            dict[str, Inode | Directory]
        ] = []  # after each change since the last sync; the last equals `entries`

    def changed(self) -> None:
        """Records the entries after a change."""
        self.unsynced.append(dict(self.entries))

    def sync(self) -> None:
        self.synced = dict(self.entries)
        self.unsynced.clear()

    def after_kill(self, survivors: "Survivors") -> "Directory":
        survivor = survivors.setdefault(id(self), Directory())
        assert isinstance(survivor, Directory)

        def copied(entries: dict[str, Inode | Directory]) -> dict[str, Inode | Directory]:
            return {
                name: survivors[id(node)] if id(node) in survivors else node.after_kill(survivors)
                for name, node in entries.items()
            }

        survivor.entries = copied(self.entries)
        survivor.synced = copied(self.synced)
        survivor.unsynced = [copied(entries) for entries in self.unsynced]
        return survivor

    def after_crash(self, rng: Random | None) -> "Directory":
        survivor = Directory()
        source = self.synced if rng is None else rng.choice((self.synced, self.entries, *self.unsynced))
        survivor.entries = {name: node.after_crash(rng) for name, node in source.items()}
        survivor.synced = dict(survivor.entries)
        return survivor


Survivors = dict[int, Inode | Directory]
"""Copies made so far, by the id of the original."""


class Fault:
    """The effect of a fault on an operation: raise at once, or (writes) after half of the bytes, or write half."""

    def __init__(self, error: int | None = errno.EIO, *, half: bool = False) -> None:
        self.error = error
        self.half = half


class PowerCut(BaseException):
    """A power cut in the middle of an operation: the code under test must not catch it."""


FaultPlan = Callable[[int, str, str], Fault | None]


def nth(operation: int, fault: Fault | None = None) -> FaultPlan:
    """Fails one operation, counted from 0."""
    return lambda number, _kind, _path: (fault or Fault()) if number == operation else None


def from_nth(operation: int, fault: Fault | None = None) -> FaultPlan:
    """Fails every operation from one on: the disk has died, or is full."""
    return lambda number, _kind, _path: (fault or Fault()) if number >= operation else None


def power_cut(operation: int) -> FaultPlan:
    """Cuts the power at one operation, before it has any effect."""

    def plan(number: int, _kind: str, _path: str) -> Fault | None:
        if number == operation:
            raise PowerCut
        return None

    return plan


class FaultFile:
    """An open file."""

    def __init__(self, env: "FaultEnv", path: str, inode: Inode, *, write: bool) -> None:
        self._env = env
        self._generation = env.generation
        self._write = write
        self.path = path
        self.inode = inode

    def _do(self, kind: str) -> Fault | None:
        assert self._generation == self._env.generation, f"{self.path} was opened before the crash"
        assert self._write or kind in ("pread", "size"), f"{self.path} was opened for reading"
        return self._env.operation(kind, self.path)

    def size(self) -> int:
        self._do("size")
        return len(self.inode.data)

    def pread(self, length: int, position: int) -> bytes:
        self._do("pread")
        return bytes(self.inode.data[position : position + length])

    def fileno(self) -> int | None:
        return None

    def pread_into(self, buffer: memoryview, position: int) -> int:
        self._do("pread")
        data = self.inode.data[position : position + len(buffer)]
        buffer[: len(data)] = data
        return len(data)

    def pwritev(self, buffers: Sequence[Buffer], position: int) -> int:
        fault = self._do("pwritev")
        data = b"".join(buffers)
        if fault is not None:
            data = data[: (len(data) + 1) // 2]
        self._env.take_blocks(self, position, len(data))
        content = self.inode.data
        if position > len(content):
            content.extend(bytes(position - len(content)))
        content[position : position + len(data)] = data
        self.inode.mtime_ms = self._env.time_ms
        if fault is not None and fault.error is not None:
            raise OSError(fault.error, "after half of it", self.path)
        return len(data)

    def truncate(self, size: int) -> None:
        self._do("truncate")
        content = self.inode.data
        if size < len(content):
            del content[size:]
            self.inode.blocks = {block for block in self.inode.blocks if block * DISK_BLOCK_BYTES < size}
        else:
            content.extend(bytes(size - len(content)))
        self.inode.mtime_ms = self._env.time_ms

    def sync(self) -> None:
        self._do("sync")
        self.inode.synced = bytes(self.inode.data)

    def close(self) -> None:
        pass


class FaultLock:
    def __init__(self, env: "FaultEnv", path: str) -> None:
        self._env = env
        self._path = path

    def release(self) -> None:
        self._env.locks.discard(self._path)


@lru_cache(maxsize=1 << 12)
def _names(path: str) -> tuple[str, ...]:
    return tuple(name for name in path.split("/") if name)


class FaultEnv:
    """The file system, the clock and the dice of a test."""

    def __init__(self, *, seed: int = 0, time_ms: int = 1_700_000_000_000) -> None:
        self.root = Directory()
        self.generation = 0
        self.locks: set[str] = set()
        self.random = Random(seed)
        self.time_ms = time_ms
        self.operations = 0
        self.plan: FaultPlan | None = None
        self.maps = 0
        self.disk_bytes = UNLIMITED

    # -- faults and crashes --

    def inject(self, plan: FaultPlan | None) -> None:
        """Counts operations from 0 again; `plan` decides which fail."""
        self.operations = 0
        self.plan = plan

    def kill(self) -> None:
        """Ends the process; its written bytes remain."""
        self.root = self.root.after_kill({})
        self.maps = 0
        self.generation += 1
        self.locks.clear()
        self.plan = None

    def crash(self, rng: Random | None = None) -> None:
        """Ends the machine; unsynced bytes are lost, or with `rng` only some of them."""
        self.kill()
        self.root = self.root.after_crash(rng)

    def write_file(self, path: str, data: bytes) -> None:
        """Writes a file directly, without the code under test."""
        inode = self.file(path) if self.exists(path) else Inode()
        inode.data[:] = data
        directory, name = self._parent(path)
        directory.entries[name] = inode
        directory.changed()

    def file(self, path: str) -> Inode:
        node = self._find(path)
        assert isinstance(node, Inode), path
        return node

    # -- internals --

    def operation(self, kind: str, path: str) -> Fault | None:
        """Counts the operation; raises the plan's fault, or returns it where the write has to apply it."""
        number = self.operations
        self.operations += 1
        fault = self.plan(number, kind, path) if self.plan else None
        if fault is None or (kind != "pwritev" and fault.error is None):
            return None
        if fault.error is not None and not (fault.half and kind == "pwritev"):
            raise OSError(fault.error, "injected", path)
        return fault

    def _find(self, path: str) -> Inode | Directory | None:
        """The file or directory of that name, or None. Raises NotADirectoryError if the path leads through a file."""
        node: Inode | Directory | None = self.root
        for name in _names(path):
            if isinstance(node, Inode):
                raise NotADirectoryError(errno.ENOTDIR, "a file is in the way", path)
            if node is None:
                return None
            node = node.entries.get(name)
        return node

    def _existing(self, path: str) -> Inode | Directory:
        node = self._find(path)
        if node is None:
            raise FileNotFoundError(errno.ENOENT, "no such file or directory", path)
        return node

    def _existing_file(self, path: str) -> Inode:
        node = self._existing(path)
        if isinstance(node, Directory):
            raise IsADirectoryError(errno.EISDIR, "a directory", path)
        return node

    def _existing_directory(self, path: str) -> Directory:
        node = self._existing(path)
        if isinstance(node, Inode):
            raise NotADirectoryError(errno.ENOTDIR, "no directory", path)
        return node

    def _parent(self, path: str) -> tuple[Directory, str]:
        directory, _, name = path.rstrip("/").rpartition("/")
        return self._existing_directory(directory), name

    # -- Env --

    def now_ms(self) -> int:
        return self.time_ms

    def random_bytes(self, length: int) -> bytes:
        return self.random.randbytes(length)

    def open(self, path: str, *, create: bool = False, write: bool = True) -> FaultFile:
        self.operation("open", path)
        directory, name = self._parent(path)
        if create and name not in directory.entries:
            node = directory.entries[name] = Inode()
            node.mtime_ms = self.time_ms
            directory.changed()
        return FaultFile(self, path, self._existing_file(path), write=write)

    def map(self, path: str, size: int, *, write: bool) -> memoryview:
        self.operation("map", path)
        node = self._existing_file(path)
        assert 0 < size <= len(node.data), f"a map of {size} of {len(node.data)} bytes of {path}"
        self.maps += 1
        view = memoryview(node.data)[:size]  # while it is held, resizing the file raises BufferError
        return view if write else view.toreadonly()

    def unmap(self, mapping: Mapping) -> None:
        assert isinstance(mapping, memoryview)
        mapping.release()
        self.maps -= 1

    def disk_space(self, path: str) -> tuple[int, int]:
        self.operation("disk_space", path)
        return self.disk_bytes, self.disk_bytes - self.used_bytes()

    def used_bytes(self) -> int:
        """The size of all files, in whole blocks."""
        return self._used_blocks() * DISK_BLOCK_BYTES

    def _used_blocks(self) -> int:
        def count(node: Inode | Directory) -> int:
            return len(node.blocks) if isinstance(node, Inode) else sum(map(count, node.entries.values()))

        return count(self.root)

    def take_blocks(self, file: FaultFile, position: int, length: int) -> None:
        """Reserves blocks for a write, if `disk_bytes` allows it."""
        blocks = range(position // DISK_BLOCK_BYTES, -(-(position + length) // DISK_BLOCK_BYTES))
        new = set(blocks) - file.inode.blocks
        if (
            new
            and self.disk_bytes < UNLIMITED
            and (self._used_blocks() + len(new)) * DISK_BLOCK_BYTES > self.disk_bytes
        ):
            raise OSError(errno.ENOSPC, "the disk of the test is full", file.path)
        file.inode.blocks |= new

    def max_open_files(self) -> int:
        return 1024

    def read_file(self, path: str) -> bytes:
        self.operation("read_file", path)
        return bytes(self._existing_file(path).data)

    def exists(self, path: str) -> bool:
        with suppress(NotADirectoryError):
            return self._find(path) is not None
        return False

    def is_dir(self, path: str) -> bool:
        with suppress(NotADirectoryError):
            return isinstance(self._find(path), Directory)
        return False

    def size(self, path: str) -> int:
        self.operation("size", path)
        return len(self._existing_file(path).data)

    def mtime_ms(self, path: str) -> int:
        return self._existing_file(path).mtime_ms

    def set_mtime_ms(self, path: str, mtime_ms: int) -> None:
        self.operation("set_mtime_ms", path)
        self._existing_file(path).mtime_ms = mtime_ms

    def listdir(self, path: str) -> list[str]:
        self.operation("listdir", path)
        names = list(self._existing_directory(path).entries)
        self.random.shuffle(names)  # the code must not rely on an order
        return names

    def scan_dir(self, path: str) -> list[tuple[str, bool]]:
        return [(name, self.is_dir(f"{path}/{name}")) for name in self.listdir(path)]

    def mkdir(self, path: str) -> None:
        self.operation("mkdir", path)
        node = self.root
        names = path.strip("/").split("/")
        for depth, name in enumerate(names, 1):
            child = node.entries.get(name)
            if isinstance(child, Inode):
                if depth == len(names):
                    raise FileExistsError(errno.EEXIST, "a file is in the way", path)
                raise NotADirectoryError(errno.ENOTDIR, "a file is in the way", path)
            if child is None:
                child = node.entries[name] = Directory()
                node.changed()
            node = child

    def rename(self, source: str, target: str) -> None:
        self.operation("rename", source)
        origin, old = self._parent(source)
        destination, new = self._parent(target)
        node, replaced = self._existing(source), destination.entries.get(new)
        if node is replaced:
            return
        if f"{target}/".startswith(f"{source}/"):
            raise OSError(errno.EINVAL, "into itself", target)
        if isinstance(node, Inode) and isinstance(replaced, Directory):
            raise IsADirectoryError(errno.EISDIR, "a directory is in the way", target)
        if isinstance(node, Directory) and isinstance(replaced, Inode):
            raise NotADirectoryError(errno.ENOTDIR, "a file is in the way", target)
        if isinstance(replaced, Directory) and replaced.entries:
            raise OSError(errno.ENOTEMPTY, "a directory that is not empty is in the way", target)
        destination.entries[new] = origin.entries.pop(old)
        for directory in {id(origin): origin, id(destination): destination}.values():
            directory.changed()

    def remove(self, path: str) -> None:
        self.operation("remove", path)
        directory, name = self._parent(path)
        self._existing_file(path)
        del directory.entries[name]
        directory.changed()

    def rmdir(self, path: str) -> None:
        self.operation("rmdir", path)
        directory, name = self._parent(path)
        if self._existing_directory(path).entries:
            raise OSError(errno.ENOTEMPTY, "not empty", path)
        del directory.entries[name]
        directory.changed()

    def sync_dir(self, path: str) -> None:
        self.operation("sync_dir", path)
        self._existing_directory(path).sync()

    def lock(self, path: str) -> FaultLock | None:
        self.operation("lock", path)
        if path in self.locks:
            return None
        self.open(path, create=True)
        self.locks.add(path)
        return FaultLock(self, path)

    def lock_dir(self, path: str) -> FaultLock | None:
        self.operation("lock_dir", path)
        if path in self.locks:
            return None
        if not self.is_dir(path):
            raise FileNotFoundError(errno.ENOENT, "no such directory", path)
        self.locks.add(path)
        return FaultLock(self, path)
