"""The file operations of an ingest: in a local directory, or through Hadoop's file systems.

Hadoop decides whether a path is local, as for Spark: a path without a scheme lies where `fs.defaultFS` says.
"""

from __future__ import annotations

import os
import shutil
import uuid
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Files(Protocol):
    """Files by their paths, which are full ones or URIs."""

    def read(self, path: str) -> bytes | None:
        """The file's contents; None when there is no such file."""

    def create(self, path: str, data: bytes) -> bool:
        """Creates a whole file or none, and the directories above it; False when the name is taken."""

    def rename(self, source: str, target: str) -> bool:
        """Renames a file to an unused name, and creates the directories above it; False when there is no such
        source."""

    def names(self, directory: str) -> list[str]:
        """The names in a directory, sorted; empty without a directory."""

    def tree(self, directory: str) -> list[str]:
        """The paths of all files below a directory, from there, sorted, but for hidden ones (. or _ in front)."""

    def remove(self, path: str) -> None:
        """Removes a file, or a directory with its contents; does nothing without one."""

    def for_spark(self, path: str) -> str:
        """The path with its scheme: without one Spark looks where `fs.defaultFS` says."""


def join(*parts: str) -> str:
    """A path or URI of its parts."""
    return "/".join([parts[0].rstrip("/"), *(part.strip("/") for part in parts[1:])])


def hidden(path: str) -> bool:
    """True for names that Spark and other readers of tables ignore."""
    return any(name[:1] in ("_", ".") for name in path.split("/"))


class LocalFiles:
    """Directories of this machine. Created files are synced, so that they outlast a power failure before the caller
    relies on them."""

    def read(self, path: str) -> bytes | None:
        try:
            return Path(path).read_bytes()
        except FileNotFoundError:
            return None

    def create(self, path: str, data: bytes) -> bool:
        """Creates it by a hard link: the name appears with the whole file, and only one caller can create it."""
        target = Path(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = target.with_name(f".{target.name}.{uuid.uuid4().hex}")
        try:
            with temporary.open("xb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.link(temporary, target)
            _sync_directory(target.parent)
        except FileExistsError:
            return False
        finally:
            temporary.unlink(missing_ok=True)
        return True

    def rename(self, source: str, target: str) -> bool:
        Path(target).parent.mkdir(parents=True, exist_ok=True)
        try:
            Path(source).rename(target)
        except FileNotFoundError:
            return False
        return True

    def names(self, directory: str) -> list[str]:
        try:
            return sorted(os.listdir(directory))
        except FileNotFoundError:
            return []

    def tree(self, directory: str) -> list[str]:
        root = Path(directory)
        paths = (path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file())
        return sorted(path for path in paths if not hidden(path))

    def remove(self, path: str) -> None:
        if Path(path).is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            Path(path).unlink(missing_ok=True)

    def for_spark(self, path: str) -> str:
        return f"file://{path}"


def _sync_directory(path: Path) -> None:
    """Syncs a directory, without which a new name may not outlast a power failure."""
    directory = os.open(path, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


class HadoopFiles:
    """The same through Hadoop's FileSystem (HDFS, object stores), by the driver's JVM.

    `create` is as atomic as the file system's rename: HDFS rejects a name that is taken; object stores copy, and two
    drivers at the same time could both believe they made it.
    """

    def __init__(self, jvm: Any, file_system: Any) -> None:
        self._jvm = jvm
        self._fs = file_system

    def _path(self, path: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(path)

    def read(self, path: str) -> bytes | None:
        if not self._fs.exists(self._path(path)):
            return None
        with closing(self._fs.open(self._path(path))) as stream:
            return bytes(stream.readAllBytes())

    def create(self, path: str, data: bytes) -> bool:
        """Writes a file beside its place and renames it."""
        target = self._path(path)
        if self._fs.exists(target):
            return False
        temporary = self._path(f"{path}.{uuid.uuid4().hex}.tmp")
        with closing(self._fs.create(temporary, False)) as stream:
            stream.write(data)
        if self._fs.rename(temporary, target):
            return True
        self._fs.delete(temporary, False)
        return False

    def rename(self, source: str, target: str) -> bool:
        if not self._fs.exists(self._path(source)):
            return False
        self._fs.mkdirs(self._path(target).getParent())
        if not self._fs.rename(self._path(source), self._path(target)):
            raise OSError(f"{source} could not be renamed to {target}")
        return True

    def names(self, directory: str) -> list[str]:
        if not self._fs.exists(self._path(directory)):
            return []
        return sorted(str(one.getPath().getName()) for one in self._fs.listStatus(self._path(directory)))

    def tree(self, directory: str) -> list[str]:
        if not self._fs.exists(self._path(directory)):
            return []
        root = str(self._fs.makeQualified(self._path(directory)))
        found = []
        files = self._fs.listFiles(self._path(directory), True)
        while files.hasNext():
            found.append(str(files.next().getPath())[len(root) :].lstrip("/"))
        return sorted(path for path in found if not hidden(path))

    def remove(self, path: str) -> None:
        self._fs.delete(self._path(path), True)

    def for_spark(self, path: str) -> str:
        return path


def located(spark: SparkSession, path: str) -> tuple[Files, str]:
    """The file system of a path, and its full path there."""
    jvm: Any = spark._jvm  # pyspark's typing calls it optional
    configuration = spark._jsc.hadoopConfiguration()
    place = jvm.org.apache.hadoop.fs.Path(path)
    file_system = place.getFileSystem(configuration)
    qualified = file_system.makeQualified(place)
    if qualified.toUri().getScheme() == "file":
        return LocalFiles(), str(qualified.toUri().getPath())
    return HadoopFiles(jvm, file_system), str(qualified)
