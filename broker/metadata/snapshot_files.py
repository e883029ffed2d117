"""Snapshots of the metadata: `<end offset, 20 digits>-<epoch, 10 digits>.checkpoint` beside the metadata log.

A snapshot is the state before its end offset, with the epoch of the last record before that. The file is a sequence of
record batches as in a log, numbered from 0, in the snapshot's epoch:

    a control batch   SnapshotHeaderRecord: when the last contained record was appended; with kraft.version 1 and
                      above also KRaftVersionRecord and VotersRecord
    batches           metadata records, in the frame of `records`, up to 8 MiB a batch
    a control batch   SnapshotFooterRecord: without it the snapshot is not whole

    name              state
    ....checkpoint.part     being written; removed at the next start
    ....checkpoint          whole and synced, never changed
    ....checkpoint.deleted  a newer one exists; removed after a minute, or at the next start

Source: org.apache.kafka.snapshot.Snapshots, RecordsSnapshotWriter, RecordsSnapshotReader.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from barnabas.broker.metadata.log import MetadataLogError
from barnabas.broker.metadata.records import frame, unframe
from barnabas.protocol.codec import decode, encode
from barnabas.protocol.errors import ProtocolError
from barnabas.protocol.messages.control_records import (
    KRaftVersionRecord,
    LeaderChangeMessage,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    VotersRecord,
)
from barnabas.protocol.records.batch import CorruptRecordError, InvalidRecordError, RecordBatch, build_batch
from barnabas.protocol.records.control import ControlRecordType, control_record_key, control_record_type
from barnabas.protocol.records.entries import batches
from barnabas.protocol.records.record import Record
from barnabas.protocol.schema import Message
from barnabas.storage.env import Buffer, Env, File, remove_if_exists, write_fully

SUFFIX: Final = ".checkpoint"
PART_SUFFIX: Final = ".checkpoint.part"
DELETED_SUFFIX: Final = ".checkpoint.deleted"
MAX_BATCH_BYTES: Final = 8 << 20
"""No batch of metadata is larger (KafkaRaftClient.MAX_BATCH_SIZE_BYTES)."""

_RECORD_OVERHEAD_BYTES: Final = 24
"""The most bytes of a record beside its value."""
_HEADER_BYTES: Final = 64 << 10
_NAME: Final = re.compile(r"(\d{20})-(\d{10})\.checkpoint")

CONTROL_MESSAGES: Final[dict[ControlRecordType, type[Message]]] = {
    ControlRecordType.LEADER_CHANGE: LeaderChangeMessage,
    ControlRecordType.SNAPSHOT_HEADER: SnapshotHeaderRecord,
    ControlRecordType.SNAPSHOT_FOOTER: SnapshotFooterRecord,
    ControlRecordType.KRAFT_VERSION: KRaftVersionRecord,
    ControlRecordType.KRAFT_VOTERS: VotersRecord,
}


class SnapshotId(NamedTuple):
    """`end_offset`: of the first record that is not in it. The order of snapshots is that of their ids."""

    end_offset: int
    epoch: int

    @property
    def file_name(self) -> str:
        return f"{self.end_offset:020d}-{self.epoch:010d}{SUFFIX}"

    @classmethod
    def of(cls, file_name: str) -> SnapshotId | None:
        """The id of a whole snapshot; None for any other file."""
        match = _NAME.fullmatch(file_name)
        return None if match is None else cls(int(match[1]), int(match[2]))


class Control(NamedTuple):
    """The quorum of a snapshot or a log, by its control records."""

    kraft_version: int = 0
    voters: VotersRecord | None = None


STATIC_VOTERS: Final = Control()
"""The configuration names the voters, not the log."""


class Snapshot(NamedTuple):
    """A complete snapshot that was read. `timestamp_ms` is that of the last record it contains."""

    timestamp_ms: int
    control: Control
    records: list[Message]


def is_leftover(file_name: str) -> bool:
    """Whether this is a snapshot that is incomplete or being deleted."""
    return file_name.endswith((PART_SUFFIX, DELETED_SUFFIX))


# -- control batches --


def control_batch(
    messages: Iterable[tuple[ControlRecordType, Message]], *, base_offset: int, epoch: int, now_ms: int
) -> bytes:
    """One batch of control records. A LeaderChangeMessage and all others are written in version 0, as Kafka does."""
    records = [(control_record_key(kind), encode(message, 0), now_ms, ()) for kind, message in messages]
    return build_batch(records, base_offset=base_offset, partition_leader_epoch=epoch, is_control=True)


def read_control(record: Record) -> Message | None:
    """The message of a control record; None for an unknown type, which is to be skipped.

    Raises InvalidRecordError, ProtocolError.
    """
    message_type = CONTROL_MESSAGES.get(control_record_type(record.key))
    if message_type is None or record.value is None:
        return None
    version = int.from_bytes(record.value[:2], "big")  # each of them begins with its own version
    return decode(message_type, min(version, message_type.versions.high), record.value)


# -- writing --


def write_snapshot(
    env: Env,
    directory: str,
    snapshot_id: SnapshotId,
    records: Iterable[Message],
    *,
    metadata_version: int,
    timestamp_ms: int,
    control: Control = STATIC_VOTERS,
    max_batch_bytes: int = MAX_BATCH_BYTES,
) -> int:
    """Writes a snapshot: whole, synced and under its name on return. Its size in bytes.

    `timestamp_ms` is that of the last record that it contains. Raises OSError; at worst a file is left then that the
    next start removes.
    """
    target = f"{directory}/{snapshot_id.file_name}"
    part = part_path(env, directory, snapshot_id)
    parts = snapshot_batches(
        (frame(record, metadata_version) for record in records),
        epoch=snapshot_id.epoch,
        timestamp_ms=timestamp_ms,
        now_ms=env.now_ms(),
        control=control,
        max_batch_bytes=max_batch_bytes,
    )
    try:
        size = _write(env, part, parts)
        env.rename(part, target)
    except OSError:
        _remove_quietly(env, part)
        raise
    env.sync_dir(directory)
    return size


def part_path(env: Env, directory: str, snapshot_id: SnapshotId) -> str:
    """A new name for a snapshot that is not whole yet."""
    return f"{directory}/{snapshot_id.file_name[: -len(SUFFIX)]}-{env.random_bytes(8).hex()}{PART_SUFFIX}"


def _write(env: Env, path: str, parts: Iterable[bytes]) -> int:
    file: File = env.open(path, create=True)
    try:
        position = 0
        for part in parts:
            write_fully(file, (part,), position, len(part))
            position += len(part)
        file.sync()
    finally:
        file.close()
    return position


def _remove_quietly(env: Env, path: str) -> None:
    try:
        remove_if_exists(env, path)
    except OSError:
        return  # the next start removes it


def snapshot_batches(
    values: Iterable[bytes],
    *,
    epoch: int,
    timestamp_ms: int,
    now_ms: int,
    control: Control = STATIC_VOTERS,
    max_batch_bytes: int = MAX_BATCH_BYTES,
) -> Iterator[bytes]:
    """The batches of a snapshot file, of framed records; also those of bootstrap.checkpoint (epoch 0)."""
    header = _header(timestamp_ms, control)
    yield control_batch(header, base_offset=0, epoch=epoch, now_ms=now_ms)
    offset = len(header)
    for group in _grouped(values, max_batch_bytes):
        rows = [(None, value, now_ms, ()) for value in group]
        yield build_batch(rows, base_offset=offset, partition_leader_epoch=epoch)
        offset += len(group)
    footer = [(ControlRecordType.SNAPSHOT_FOOTER, SnapshotFooterRecord(version=0))]
    yield control_batch(footer, base_offset=offset, epoch=epoch, now_ms=now_ms)


def _header(timestamp_ms: int, control: Control) -> list[tuple[ControlRecordType, Message]]:
    header = SnapshotHeaderRecord(version=0, last_contained_log_timestamp=timestamp_ms)
    return [(ControlRecordType.SNAPSHOT_HEADER, header), *quorum_records(control)]


def quorum_records(control: Control) -> list[tuple[ControlRecordType, Message]]:
    """The control records that name the voters: none where the configuration does (kraft.version 0)."""
    if control.kraft_version == 0:
        return []
    version = KRaftVersionRecord(version=0, kraft_version=control.kraft_version)
    records: list[tuple[ControlRecordType, Message]] = [(ControlRecordType.KRAFT_VERSION, version)]
    if control.voters is not None:
        records.append((ControlRecordType.KRAFT_VOTERS, control.voters))
    return records


def _grouped(values: Iterable[bytes], max_batch_bytes: int) -> Iterator[list[bytes]]:
    group: list[bytes] = []
    size = 0
    for value in values:
        needed = len(value) + _RECORD_OVERHEAD_BYTES
        if group and size + needed > max_batch_bytes:
            yield group
            group, size = [], 0
        group.append(value)
        size += needed
    if group:
        yield group


class SnapshotDownload:
    """A snapshot that is fetched from another node, from its first byte on."""

    def __init__(self, env: Env, directory: str, snapshot_id: SnapshotId) -> None:
        """Creates its file. Raises OSError."""
        self.snapshot_id = snapshot_id
        self.position = 0
        """Its bytes so far."""
        self._env = env
        self._directory = directory
        self._part = part_path(env, directory, snapshot_id)
        self._file = env.open(self._part, create=True)

    def append(self, data: Buffer) -> None:
        """Appends bytes, unsynced. Raises OSError."""
        write_fully(self._file, (data,), self.position, len(data))
        self.position += len(data)

    def finish(self) -> None:
        """Puts the snapshot under its name, durably. Raises MetadataLogError where it is not whole, and OSError."""
        try:
            self._file.sync()
        finally:
            self._file.close()
        read_snapshot(self._env, self._part)
        self._env.rename(self._part, f"{self._directory}/{self.snapshot_id.file_name}")
        self._env.sync_dir(self._directory)

    def abandon(self) -> None:
        """Removes the file, or leaves it to the next start."""
        self._file.close()
        _remove_quietly(self._env, self._part)


# -- reading --


def read_snapshot(env: Env, path: str) -> Snapshot:
    """A snapshot, all of it, or bootstrap.checkpoint. Raises MetadataLogError where it is not whole, and OSError."""
    try:
        return _parse(env.read_file(path))
    except (CorruptRecordError, InvalidRecordError, ProtocolError, MetadataLogError) as error:
        raise MetadataLogError(f"{path} is no whole snapshot: {error}") from error


def _parse(data: bytes) -> Snapshot:
    timestamp_ms, is_whole, position = -1, False, 0
    control, records = Control(), list[Message]()
    for batch in batches(data):
        if not isinstance(batch, RecordBatch) or is_whole:
            break
        batch.ensure_valid()
        position += batch.size_in_bytes
        if not batch.is_control:
            records += [unframe(record.value) for record in batch.records()]
            continue
        for record in batch.records():
            message = read_control(record)
            control = control_after(control, message)
            if isinstance(message, SnapshotHeaderRecord):
                timestamp_ms = message.last_contained_log_timestamp
            is_whole = isinstance(message, SnapshotFooterRecord)
    if timestamp_ms < 0 or not is_whole or position != len(data):
        raise MetadataLogError("the header, the footer, or something in between is missing")
    return Snapshot(timestamp_ms, control, records)


def control_after(control: Control, message: Message | None) -> Control:
    """The state of the quorum after a control record."""
    match message:
        case KRaftVersionRecord():
            return control._replace(kraft_version=message.kraft_version)
        case VotersRecord():
            return control._replace(voters=message)
    return control


def read_timestamp_ms(env: Env, path: str) -> int:
    """When the last record in a snapshot was appended; read from its header alone.

    Raises MetadataLogError, OSError.
    """
    file = env.open(path, write=False)
    try:
        head = file.pread(_HEADER_BYTES, 0)
    finally:
        file.close()
    for batch in batches(head):
        for record in batch.records() if isinstance(batch, RecordBatch) and batch.is_control else ():
            message = read_control(record)
            if isinstance(message, SnapshotHeaderRecord):
                return message.last_contained_log_timestamp
    raise MetadataLogError(f"{path} does not begin with a snapshot's header")
