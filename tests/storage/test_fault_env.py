"""FaultEnv compared with a real file system: the same random operations have the same results."""

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest

from barnabas.storage.env import Env, File, Lock, Mapping, RealEnv
from tests.storage.fault_env import Directory, FaultEnv, Inode
from tests.support.chance import seeds

NAMES = ("a", "b", "c")
LONG_AGO_MS = 1000


class Twins:
    """Two file systems that get the same operations, and their open files."""

    def __init__(self, seed: int, directory: str) -> None:
        self.rng = Random(seed)
        self.envs: tuple[tuple[Env, str], ...] = ((RealEnv(), directory), (FaultEnv(), directory))
        self.envs[1][0].mkdir(directory)
        self.real = Path(directory)
        self.files: list[tuple[File, ...]] = []
        self.maps: list[tuple[Mapping, ...]] = []
        self.mapped: set[str] = set()
        self.locks: dict[str, tuple[Lock | None, ...]] = {}

    def path(self) -> str:
        return "/".join(self.rng.choices(NAMES, k=self.rng.randint(1, 3)))

    def both(self, what: Callable[[Env, str], object]) -> list[object]:
        """The results of both; errors by their numbers."""
        answers = []
        for env, directory in self.envs:
            try:
                answers.append(what(env, directory))
            except OSError as error:
                answers.append(f"errno {error.errno}")
        return answers

    def agree(self, what: Callable[[Env, str], object]) -> None:
        real, fake = self.both(what)
        assert real == fake

    # -- the operations --

    def step(self) -> str:
        operation = self.rng.choice(OPERATIONS)
        operation(self)
        self.compare_trees()
        return operation.__name__

    def open_file(self) -> None:
        path, create = self.path(), self.rng.random() < 0.8
        found = self.both(lambda env, at: env.open(f"{at}/{path}", create=create))
        if any(isinstance(one, str) for one in found):
            assert found[0] == found[1]
        else:
            self.files.append(tuple(found))  # type: ignore[arg-type]

    def file(self) -> tuple[File, ...] | None:
        return self.rng.choice(self.files) if self.files else None

    def with_file(self, what: Callable[[File], object]) -> None:
        files = self.file()
        if files is not None:
            assert what(files[0]) == what(files[1])

    def write(self) -> None:
        if self.maps:
            return  # storage resizes no file that it has mapped, and FaultEnv does not let it
        position, parts = self.rng.randint(0, 300), [self.rng.randbytes(self.rng.randint(0, 200)), b"end"]
        self.with_file(lambda file: file.pwritev(parts, position))

    def truncate(self) -> None:
        size = self.rng.choice((0, self.rng.randint(0, 400)))
        if not self.maps:
            self.with_file(lambda file: file.truncate(size))

    def read(self) -> None:
        length, position = self.rng.randint(0, 500), self.rng.randint(0, 400)
        self.with_file(lambda file: (file.size(), file.pread(length, position)))

    def sync(self) -> None:
        self.with_file(lambda file: file.sync())

    def close(self) -> None:
        if self.files:
            for file in self.files.pop(self.rng.randrange(len(self.files))):
                file.close()
                file.close()

    def map_file(self) -> None:
        path = self.path()
        real, fake = self.both(
            lambda env, at: env.size(f"{at}/{path}") if not env.is_dir(f"{at}/{path}") else 0
        )
        assert real == fake
        if isinstance(real, int) and real > 0:
            size, write = self.rng.randint(1, real), self.rng.random() < 0.7
            self.maps.append(tuple(env.map(f"{at}/{path}", size, write=write) for env, at in self.envs))

    def use_map(self) -> None:
        if self.maps:
            maps = self.rng.choice(self.maps)
            byte, at = self.rng.randrange(256), self.rng.randrange(len(maps[0]))
            before = [mapping[at] for mapping in maps]
            assert before[0] == before[1]
            with suppress(TypeError):  # a read-only map: both raise, and the comparison sees it
                for mapping in maps:
                    mapping[at] = byte
            assert bytes(maps[0][:]) == bytes(maps[1][:])

    def unmap(self) -> None:
        if self.maps:
            for (env, _), mapping in zip(self.envs, self.maps.pop(), strict=True):
                env.unmap(mapping)

    def mkdir(self) -> None:
        path = self.path()
        self.agree(lambda env, at: env.mkdir(f"{at}/{path}"))

    def rename(self) -> None:
        source, target = self.path(), self.path()
        if not source.startswith(f"{target}/"):  # the kernel's error depends on its order of checks
            self.agree(lambda env, at: env.rename(f"{at}/{source}", f"{at}/{target}"))

    def remove(self) -> None:
        path = self.path()
        self.agree(lambda env, at: env.remove(f"{at}/{path}"))

    def rmdir(self) -> None:
        path = self.path()
        self.agree(lambda env, at: env.rmdir(f"{at}/{path}"))

    def sync_dir(self) -> None:
        path = self.path()
        self.agree(lambda env, at: env.sync_dir(f"{at}/{path}"))

    def look(self) -> None:
        path = self.path()
        self.agree(lambda env, at: (env.exists(f"{at}/{path}"), env.is_dir(f"{at}/{path}")))
        self.agree(lambda env, at: sorted(env.listdir(f"{at}/{path}")))
        self.agree(lambda env, at: env.read_file(f"{at}/{path}"))

    def take_lock(self) -> None:
        name = self.rng.choice(NAMES) + ".lock"
        taken = tuple(env.lock(f"{at}/{name}") for env, at in self.envs)
        assert (taken[0] is None) == (taken[1] is None) == (name in self.locks)
        if name in self.locks:
            for lock in self.locks.pop(name):
                assert lock is not None
                lock.release()
        else:
            self.locks[name] = taken

    # -- comparison --

    def compare_trees(self) -> None:
        """Compare names, contents, and the files written since the last comparison; reset their modification times."""
        root = self.envs[1][0]._find(str(self.real))  # type: ignore[attr-defined]
        assert isinstance(root, Directory)
        real, fake = dict(self.real_tree()), dict(fake_tree(root))
        # The kernel decides when a store through a map changes a real file's modification time.
        times = slice(1) if self.maps else slice(2)
        assert {name: what[times] for name, what in real.items()} == {
            name: what[times] for name, what in fake.items()
        }

    def real_tree(self) -> Iterator[tuple[str, tuple[object, ...]]]:
        for folder, folders, names in os.walk(self.real):
            for name in names:
                path = Path(folder, name)
                is_old = path.stat().st_mtime_ns // 1_000_000 == LONG_AGO_MS
                yield str(path.relative_to(self.real)), (path.read_bytes(), is_old)
                os.utime(path, (LONG_AGO_MS / 1000, LONG_AGO_MS / 1000))
            yield from ((str(Path(folder, name).relative_to(self.real)), ("directory",)) for name in folders)

    def give_back(self) -> None:
        while self.maps:
            self.unmap()
        while self.files:
            self.close()
        for locks in self.locks.values():
            for lock in locks:
                assert lock is not None
                lock.release()


def fake_tree(directory: Directory, prefix: str = "") -> Iterator[tuple[str, tuple[object, ...]]]:
    for name, node in directory.entries.items():
        if isinstance(node, Inode):
            yield prefix + name, (bytes(node.data), node.mtime_ms == LONG_AGO_MS)
            node.mtime_ms = LONG_AGO_MS
        else:
            yield prefix + name, ("directory",)
            yield from fake_tree(node, f"{prefix}{name}/")


OPERATIONS = (
    *(Twins.open_file, Twins.open_file, Twins.write, Twins.write, Twins.write, Twins.truncate, Twins.read),
    *(Twins.sync, Twins.close, Twins.map_file, Twins.use_map, Twins.use_map, Twins.unmap, Twins.unmap),
    *(Twins.mkdir, Twins.rename, Twins.rename, Twins.rename, Twins.remove, Twins.rmdir, Twins.sync_dir),
    *(Twins.look, Twins.look, Twins.take_lock),
)


@pytest.mark.parametrize("seed", seeds(20))
def test_the_same_operations_have_the_same_results(seed: int, tmp_path: Path) -> None:
    twins = Twins(seed, str(tmp_path))
    done: list[str] = []
    try:
        done.extend(twins.step() for _ in range(300))
    except BaseException:
        print(f"seed {seed}, after", *done[-20:])
        raise
    finally:
        twins.give_back()
