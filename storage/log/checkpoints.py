"""The small text files beside the logs; the docstring of each class is the format of its file.

All are replaced atomically (`env.write_atomically`). None has a checksum: a file that cannot be parsed raises
CorruptCheckpointError, and the caller continues as without the file, which costs recovery time and loses nothing.
"""

import struct
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from threading import Lock
from typing import Final

from barnabas.config.properties import PropertiesError, read_properties
from barnabas.protocol.wire import uuid_from_string, uuid_to_string
from barnabas.storage.env import Env, write_atomically, write_fully
from barnabas.storage.errors import CorruptCheckpointError, InconsistentMetadataError
from barnabas.storage.offsets import TopicPartition

RECOVERY_POINT_CHECKPOINT: Final = "recovery-point-offset-checkpoint"
LOG_START_OFFSET_CHECKPOINT: Final = "log-start-offset-checkpoint"
HIGH_WATERMARK_CHECKPOINT: Final = "replication-offset-checkpoint"
CLEANER_OFFSET_CHECKPOINT: Final = "cleaner-offset-checkpoint"
LEADER_EPOCH_CHECKPOINT: Final = "leader-epoch-checkpoint"
PARTITION_METADATA: Final = "partition.metadata"
META_PROPERTIES: Final = "meta.properties"
CLEAN_SHUTDOWN: Final = ".kafka_cleanshutdown"
LOCK: Final = ".lock"

_ESCAPED: Final = {character: f"\\{character}" for character in "\\=:#! "}
_MAX_DIGITS: Final = 10
_MAX_NODE_ID: Final = (1 << 31) - 1


def _read_lines(env: Env, path: str) -> list[str] | None:
    try:
        return _lines(path, env.read_file(path))
    except FileNotFoundError:
        return None


def _lines(path: str, data: bytes) -> list[str]:
    try:
        return data.decode().splitlines()
    except UnicodeDecodeError as error:
        raise CorruptCheckpointError(f"{path} is not text") from error


def _parse_checkpoint(path: str, lines: list[str]) -> list[list[str]]:
    """The entries of a version 0 checkpoint: `0`, the number of entries, then one entry a line."""
    if not lines:
        return []
    try:
        version, count = int(lines[0]), int(lines[1])
    except (IndexError, ValueError) as error:
        raise CorruptCheckpointError(f"{path} does not begin with a version and a count") from error
    if version != 0:
        raise CorruptCheckpointError(f"{path} has version {version}; 0 is the only one there is")
    entries = [line.split() for line in lines[2:] if line]
    if count != len(entries):
        raise CorruptCheckpointError(f"{path} announces {count} entries and has {len(entries)}")
    return entries


def _format_checkpoint(entries: Iterable[str]) -> bytes:
    rows = list(entries)
    return "".join(f"{row}\n" for row in ("0", str(len(rows)), *rows)).encode()


def parse_offset_checkpoint(path: str, data: bytes) -> dict[TopicPartition, int]:
    """The offsets in the content of an OffsetCheckpointFile. Raises CorruptCheckpointError, which names the path."""
    offsets: dict[TopicPartition, int] = {}
    for entry in _parse_checkpoint(path, _lines(path, data)):
        try:
            topic, partition, offset = entry
            offsets[topic, int(partition)] = int(offset)
        except ValueError as error:
            raise CorruptCheckpointError(f"{path}: {' '.join(entry)!r} is no entry") from error
    return offsets


class OffsetCheckpointFile:
    """One offset per partition: recovery points, log start offsets or high watermarks of a log directory.

    Format: the version, the number of entries, then `topic partition offset`, each on a line:

        0
        2
        orders 0 10310
        orders 1 9690

    An empty file (Kafka creates them at the first start) has no entries.
    """

    __slots__ = ("_env", "_last_prepared", "_last_written", "_lock", "_written", "path")

    def __init__(self, env: Env, path: str) -> None:
        self._env = env
        self._lock = Lock()
        self._last_prepared = 0
        self._last_written = 0
        self._written: bytes | None = None
        self.path = path

    def read(self) -> dict[TopicPartition, int]:
        """The offsets; empty without a file. Raises CorruptCheckpointError."""
        try:
            return parse_offset_checkpoint(self.path, self._env.read_file(self.path))
        except FileNotFoundError:
            return {}

    def prepare(self, offsets: Mapping[TopicPartition, int]) -> Callable[[], None]:
        """A job, for any thread, that writes these offsets unless the file is as new. Raises OSError."""
        rows = (f"{topic} {partition} {offset}" for (topic, partition), offset in offsets.items())
        data = _format_checkpoint(rows)
        self._last_prepared += 1
        number = self._last_prepared
        return lambda: self._write(number, data)

    def _write(self, number: int, data: bytes) -> None:
        with self._lock:
            if number > self._last_written and data != self._written:
                write_atomically(self._env, self.path, data)
                self._written = data
            self._last_written = max(number, self._last_written)

    def write(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Replaces the file. Raises OSError."""
        self.prepare(offsets)()


class LeaderEpochCheckpointFile:
    """leader-epoch-checkpoint of a partition: the start offset of each leader epoch.

    Format as of an offset checkpoint, with `epoch start-offset` entries, both increasing:

        0
        2
        0 0
        3 1500
    """

    __slots__ = ("_env", "path")

    def __init__(self, env: Env, path: str) -> None:
        self._env = env
        self.path = path

    def move_to(self, directory: str) -> None:
        """Follows a rename of the directory."""
        self.path = f"{directory}/{LEADER_EPOCH_CHECKPOINT}"

    def is_missing(self) -> bool:
        """Whether there is no file, or an empty one as Kafka creates it for a new log."""
        return not self._env.exists(self.path) or self._env.size(self.path) == 0

    def read(self) -> list[tuple[int, int]]:
        """(epoch, start offset) in order; empty without a file. Raises CorruptCheckpointError."""
        lines = _read_lines(self._env, self.path)
        try:
            entries = [
                (int(epoch), int(offset)) for epoch, offset in _parse_checkpoint(self.path, lines or [])
            ]
        except ValueError as error:
            raise CorruptCheckpointError(f"{self.path} has an entry that is not two numbers") from error
        starts = [offset for _, offset in entries]
        if entries != sorted(entries) or starts != sorted(starts):
            raise CorruptCheckpointError(f"{self.path} has epochs out of order")
        if entries and min(entries[0]) < 0:
            raise CorruptCheckpointError(f"{self.path} has a number below zero")
        return entries

    def write(self, entries: Iterable[tuple[int, int]]) -> None:
        write_atomically(
            self._env, self.path, _format_checkpoint(f"{epoch} {offset}" for epoch, offset in entries)
        )


class PartitionMetadataFile:
    """partition.metadata of a partition: the id of the topic that the directory belongs to.

    Format: two lines, the second without an end of line; the id is the topic id in URL-safe base64 (22 characters):

        version: 0
        topic_id: LW01YoydQdydrfujEok0XQ
    """

    __slots__ = ("_env", "path")

    def __init__(self, env: Env, path: str) -> None:
        self._env = env
        self.path = path

    def read(self) -> bytes | None:
        """The topic id; None without a file. Raises CorruptCheckpointError."""
        lines = _read_lines(self._env, self.path)
        if lines is None:
            return None
        fields = dict(line.split(": ", 1) for line in lines if ": " in line)
        if fields.get("version") != "0" or not fields.get("topic_id"):
            raise CorruptCheckpointError(f"{self.path} holds no version 0 topic id")
        try:
            return uuid_from_string(fields["topic_id"])
        except ValueError as error:
            raise CorruptCheckpointError(f"{self.path}: {fields['topic_id']!r} is no topic id") from error

    def write(self, topic_id: bytes) -> None:
        """Replaces the file. Raises OSError."""
        write_atomically(self._env, self.path, self._text(topic_id))

    def write_unsynced(self, topic_id: bytes) -> None:
        """Creates the file in a new directory; the caller must have it synced later. Raises OSError.

        After a power cut before that it may be missing or damaged, when the directory holds no durable data yet. A
        killed process leaves it complete or absent: Apache Kafka does not start with an empty one.
        """
        text = self._text(topic_id)
        temporary = f"{self.path}.tmp"
        with closing(self._env.open(temporary, create=True)) as file:
            write_fully(file, (text,), 0, len(text))
            file.truncate(len(text))
        self._env.rename(temporary, self.path)

    @staticmethod
    def _text(topic_id: bytes) -> bytes:
        return f"version: 0\ntopic_id: {uuid_to_string(topic_id)}".encode()


class MetaProperties:
    """meta.properties of a log directory: the ids of its cluster, its node and itself.

    Format: Java properties as KRaft writes them, `#` lines first, then

        node.id=1
        directory.id=qzLvuX_YJuUwQMtNPUxuzA
        version=1
        cluster.id=V8fuWNeJMPAdsUHP31AizQ

    Values are escaped as Java escapes them (`cluster.id=MkU3OEVBNTcwNTJENDM2QQ\\=\\=`). Other keys are kept.
    """

    __slots__ = ("cluster_id", "directory_id", "node_id", "others")

    def __init__(
        self, cluster_id: str, node_id: int, directory_id: str, others: dict[str, str] | None = None
    ) -> None:
        self.cluster_id = cluster_id
        self.node_id = node_id
        self.directory_id = directory_id
        self.others = others or {}

    @classmethod
    def read(cls, env: Env, directory: str) -> "MetaProperties | None":
        """The properties of a directory; None if it is not formatted. Raises InconsistentMetadataError."""
        path = f"{directory}/{META_PROPERTIES}"
        try:
            text = env.read_file(path).decode("latin-1")
        except FileNotFoundError:
            return None
        try:
            fields = {found.key: found.value.strip() for found in read_properties(text)}
        except PropertiesError as error:
            raise InconsistentMetadataError(f"{path} line {error.line}: {error}") from error
        if fields.pop("version", "1") not in ("0", "1"):
            raise InconsistentMetadataError(f"{path} has a version that is neither 0 nor 1")
        node_id = fields.pop("node.id", None) or fields.pop("broker.id", "")
        if not _is_node_id(node_id):
            raise InconsistentMetadataError(
                f"{path}: node.id={node_id} is not a number from 0 to {_MAX_NODE_ID}"
            )
        cluster_id = fields.pop("cluster.id", "")
        if not cluster_id:
            raise InconsistentMetadataError(f"{path} has no cluster.id")
        return cls(cluster_id, int(node_id), fields.pop("directory.id", ""), fields)

    def write(self, env: Env, directory: str) -> None:
        fields = {"node.id": str(self.node_id), "directory.id": self.directory_id, "version": "1"}
        fields |= {"cluster.id": self.cluster_id, **self.others}
        text = f"#\n#{_java_date(env.now_ms())}\n" + "".join(
            f"{_escaped(key)}={_escaped(value)}\n" for key, value in fields.items()
        )
        write_atomically(env, f"{directory}/{META_PROPERTIES}", text.encode("latin-1"))


def _is_node_id(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= _MAX_DIGITS and int(text) <= _MAX_NODE_ID


def _escaped(text: str) -> str:
    """As Java's Properties.store writes a key, or a value without white space."""
    return "".join(_ESCAPED.get(character) or _in_ascii(character) for character in text)


def _in_ascii(character: str) -> str:
    if " " < character <= "~":
        return character
    return "".join(f"\\u{unit:04X}" for (unit,) in struct.iter_unpack(">H", character.encode("utf-16-be")))


def _java_date(now_ms: int) -> str:
    """The comment line of Java's Properties.store, in UTC."""
    import time

    return time.strftime("%a %b %d %H:%M:%S UTC %Y", time.gmtime(now_ms // 1000))


class CleanShutdownFile:
    """.kafka_cleanshutdown of a log directory: exists only between a clean stop and the next start.

    Format: JSON on one line, `{"version":0,"brokerEpoch":11}`; the epoch is -1 if the broker had none.
    It covers every partition in the directory, so it is removed before any of them is written.
    """

    __slots__ = ("_env", "path")

    def __init__(self, env: Env, directory: str) -> None:
        self._env = env
        self.path = f"{directory}/{CLEAN_SHUTDOWN}"

    def exists(self) -> bool:
        return self._env.exists(self.path)

    def read_epoch(self) -> int:
        """The broker epoch in it; -1 if there is none that can be read. Raises OSError."""
        import json  # only needed by a member of a cluster

        try:
            content = json.loads(self._env.read_file(self.path))
        except (FileNotFoundError, ValueError):
            return -1
        epoch = content.get("brokerEpoch") if isinstance(content, dict) else None
        return epoch if type(epoch) is int else -1

    def write(self, broker_epoch: int = -1) -> None:
        write_atomically(self._env, self.path, f'{{"version":0,"brokerEpoch":{broker_epoch}}}'.encode())

    def remove(self) -> None:
        """Removes it durably."""
        try:
            self._env.remove(self.path)
        except FileNotFoundError:
            return
        self._env.sync_dir(self.path.rpartition("/")[0])
