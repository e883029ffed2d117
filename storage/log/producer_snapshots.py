"""Producer snapshots: the .snapshot files of a partition.

The layout is that of Kafka's message ProducerSnapshot; storage does not know the wire protocol, so a test holds the two
equal.
"""

import struct
from bisect import insort
from contextlib import closing
from typing import Final, NamedTuple

from barnabas.protocol.records.checksum import crc32c
from barnabas.protocol.records.layout import MAX_SEQUENCE
from barnabas.storage.env import Env, remove_if_exists, write_atomically, write_fully
from barnabas.storage.errors import CorruptSnapshotError, EmptySnapshotError

SNAPSHOT_SUFFIX: Final = ".snapshot"
_HEADER: Final = struct.Struct(">hIi")
PRODUCER_ENTRY: Final = struct.Struct(">qhiqiqiq")
_CRC_END: Final = 6
_VERSION: Final = 1


class SnapshotEntry(NamedTuple):
    """One producer in a snapshot; sequence, offsets and transaction are -1 where there is none, the timestamp ms."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int
    coordinator_epoch: int
    current_txn_first_offset: int

    @property
    def first_sequence(self) -> int:
        """Of the last batch: below 0, sequences go back to 2^31 - 1."""
        return (self.last_sequence - self.offset_delta) & MAX_SEQUENCE


def decode_snapshot(data: bytes) -> list[SnapshotEntry]:
    """The producers in the content of one snapshot. Raises CorruptSnapshotError."""
    if not data:
        raise EmptySnapshotError("it is empty")
    if len(data) < _HEADER.size:
        raise CorruptSnapshotError(f"it has only {len(data)} bytes")
    version, crc, count = _HEADER.unpack_from(data)
    if version != _VERSION:
        raise CorruptSnapshotError(f"it has version {version}, which is not {_VERSION}")
    if crc != crc32c(data[_CRC_END:]):
        raise CorruptSnapshotError(f"it has the wrong CRC, {crc:#010x}")
    if len(data) != _HEADER.size + count * PRODUCER_ENTRY.size:
        raise CorruptSnapshotError(f"it announces {count} producers in {len(data)} bytes")
    return [SnapshotEntry(*fields) for fields in PRODUCER_ENTRY.iter_unpack(data[_HEADER.size :])]


class ProducerSnapshotFiles:
    """`<offset>.snapshot`: the state of the producers of a partition before that offset.

    Format, big-endian: version 1 (int16), CRC-32C of all that follows (uint32), number of entries (int32), then per
    producer id (int64), epoch (int16), last sequence (int32), last offset (int64), offset delta of the last batch
    (int32), last timestamp (int64), coordinator epoch (int32), first offset of the open transaction (int64):

        00 01  fc 52 11 98  00 00 00 01
        00 00 00 00 00 00 00 00  00 00  00 00 13 4b  00 00 00 00 00 00 13 4b  00 00 00 12
        00 00 01 a1 fd 74 f6 17  ff ff ff ff  ff ff ff ff ff ff ff ff
        00004940.snapshot: producer 0, epoch 0, last wrote sequences 4921..4939 at offsets 4921..4939

    Of each producer only the last batch is saved. A damaged file raises CorruptSnapshotError.
    """

    __slots__ = ("_env", "_offsets", "directory")

    def __init__(self, env: Env, directory: str, names: list[str]) -> None:
        """`names`: the content of the directory."""
        self._env = env
        self._offsets: list[int] = []
        self.directory = directory
        self.rescan(names)

    def rescan(self, names: list[str]) -> None:
        stems = (name[: -len(SNAPSHOT_SUFFIX)] for name in names if name.endswith(SNAPSHOT_SUFFIX))
        self._offsets = sorted(int(stem) for stem in stems if stem.isdigit())

    @property
    def offsets(self) -> list[int]:
        """The offsets of the snapshots, in order."""
        return list(self._offsets)

    @property
    def latest_offset(self) -> int | None:
        return self._offsets[-1] if self._offsets else None

    def path(self, offset: int) -> str:
        return f"{self.directory}/{offset:020d}{SNAPSHOT_SUFFIX}"

    def write(self, offset: int, entries: list[SnapshotEntry], *, sync: bool) -> str:
        """Writes a snapshot and returns its path. Unless `sync`, it is neither synced nor renamed into place."""
        body = struct.pack(">i", len(entries)) + b"".join(PRODUCER_ENTRY.pack(*entry) for entry in entries)
        data = struct.pack(">hI", _VERSION, crc32c(body)) + body
        path = self.path(offset)
        if sync:
            write_atomically(self._env, path, data)
        else:
            # The CRC reveals a torn file, so it may be written in place.
            with closing(self._env.open(path, create=True)) as file:
                file.truncate(0)
                write_fully(file, (data,), 0, len(data))
        if offset not in self._offsets:
            insort(self._offsets, offset)
        return path

    def read(self, offset: int) -> list[SnapshotEntry]:
        """The producers in one snapshot. Raises CorruptSnapshotError."""
        path = self.path(offset)
        try:
            data = self._env.read_file(path)
        except FileNotFoundError as error:
            raise CorruptSnapshotError(f"{path} is missing") from error
        try:
            return decode_snapshot(data)
        except CorruptSnapshotError as error:
            raise type(error)(f"{path}: {error}") from None

    def remove(self, offset: int) -> None:
        """Removes a snapshot, if it exists."""
        if offset in self._offsets:
            self._offsets.remove(offset)
        remove_if_exists(self._env, self.path(offset))

    def remove_outside(self, log_start_offset: int, log_end_offset: int) -> None:
        """Removes the snapshots before the log's start and after its end.

        Keeps the one at the start (Kafka removes it): after retention has deleted the whole log, only it has the state
        of the producers.
        """
        for offset in self.offsets:
            if not log_start_offset <= offset <= log_end_offset:
                self.remove(offset)

    def remove_stray(self, segment_base_offsets: set[int]) -> None:
        """Removes the snapshots of no segment, except a latest one beyond all of them (of a clean stop)."""
        beyond = max(segment_base_offsets, default=0)
        for offset in self.offsets:
            if offset not in segment_base_offsets and not (offset == self.latest_offset and offset > beyond):
                self.remove(offset)

    def detach(self, offset: int, suffix: str) -> str | None:
        """Renames a snapshot for deletion with its segment; returns the new path, None if there was none."""
        if offset not in self._offsets:
            return None
        self._offsets.remove(offset)
        path = self.path(offset)
        try:
            self._env.rename(path, path + suffix)
        except FileNotFoundError:
            return None  # it was removed as damaged
        return path + suffix
