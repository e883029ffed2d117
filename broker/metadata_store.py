"""MetadataStore: metadata records in a file of their own, until `__cluster_metadata-0` takes its place.

The file is a row of record batches (format v2). Each batch is one atomic change; the value of each record is a KRaft
metadata record in KRaft's framing: frame version (varint, 1), record type (varint), record version (varint), fields.

    offset of a batch     what
    0                     61 bytes of batch header: CRC-32C over all that follows it
    61                    records: key null, value 01 02 00 ... (frame 1, TopicRecord, version 0)

A batch that is cut short or fails its CRC at the end of the file is one that was never acknowledged: it is cut off
when the file is opened. A bad batch with good ones behind it is damage, which no crash leaves: that is an error.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from broker.metadata.image import MetadataImage
from protocol.codec import decode, encode
from protocol.messages.topic_records import (
    ConfigRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from protocol.records.batch import CorruptRecordError, RecordBatch, build_batch
from protocol.schema import Message
from storage.env import Env, File, write_fully
from storage.errors import suppress_no_space

FILE_NAME: Final = "barnabas.metadata"
_FRAME_VERSION: Final = 1
_RECORD_TYPES: Final[dict[int | None, type[Message]]] = {
    record_type.api_key: record_type
    for record_type in (
        TopicRecord,
        PartitionRecord,
        ConfigRecord,
        PartitionChangeRecord,
        RemoveTopicRecord,
        ProducerIdsRecord,
    )
}
_REWRITE_FACTOR: Final = 4
"""A file that holds this many times the records that its image needs is written anew when it is opened."""


class MetadataStoreError(Exception):
    """The metadata file cannot be what it claims: it is damaged, or newer than this broker."""


def frame(record: Message, version: int) -> bytes:
    """A metadata record with KRaft's frame around it."""
    api_key = record.api_key
    assert api_key is not None
    assert api_key < 128
    assert version < 128
    return bytes((_FRAME_VERSION, api_key, version)) + encode(record, version)


def unframe(value: bytes) -> Message:
    """The metadata record in a frame. Raises MetadataStoreError for a frame, type or version that is not known here."""
    frame_version, api_key, version = value[:3] if len(value) >= 3 else (0, 0, 0)
    message_type = _RECORD_TYPES.get(api_key)
    if frame_version != _FRAME_VERSION or message_type is None or not message_type.versions.has(version):
        raise MetadataStoreError(
            f"metadata record with frame version {frame_version}, type {api_key} and version {version} is not known "
            f"to this broker; it knows frame version {_FRAME_VERSION} and types {[*_RECORD_TYPES]}"
        )
    return decode(message_type, version, value[3:])


class MetadataStore:
    """The file in `log_dir`, open for appending. `append` blocks until the records are on the disk."""

    def __init__(self, env: Env, log_dir: str) -> None:
        self.directory = log_dir
        self.path = f"{log_dir}/{FILE_NAME}"
        self._env = env
        self._log_dir = log_dir
        self._file: File | None = None
        self._end = 0
        self._next_offset = 0
        self.leader_epoch = 0

    def exists(self) -> bool:
        """Whether there is a file, that is, whether a broker of ours has been here before."""
        return self._env.exists(self.path)

    def open(self) -> MetadataImage:
        """Opens or makes the file, cuts off what a crash left half written, and returns the image it holds."""
        data = self._env.read_file(self.path) if self.exists() else b""
        image = MetadataImage.empty()
        record_count = 0
        position = next_offset = 0
        while position < len(data):
            batch = self._batch_at(data, position)
            if batch is None:
                break
            records = [unframe(record.value or b"") for record in batch.records()]
            image, _ = image.apply(records)
            record_count += len(records)
            position += batch.size_in_bytes
            next_offset = batch.next_offset
        live = list(image.records())
        if record_count > _REWRITE_FACTOR * len(live) + 100:
            with suppress_no_space():  # another time, then
                self._rewrite(live)
                return image
        self._next_offset = next_offset
        self._file = self._env.open(self.path, create=True)
        self._file.truncate(position)
        self._file.sync()
        self._env.sync_dir(self._log_dir)
        self._end = position
        return image

    def append(self, batches: Sequence[Sequence[Message]]) -> int:
        """Writes each of `batches` as one batch and returns when they are durable. After an OSError none of them is."""
        assert self._file is not None, "the metadata store is not open"
        next_offset = self._next_offset
        batch = b""
        for records in batches:
            batch += self._batch_of(records, next_offset)
            next_offset += len(records)
        try:
            write_fully(self._file, (batch,), self._end, len(batch))
            self._file.sync()
        except OSError:
            self._file.truncate(self._end)
            raise
        self._end += len(batch)
        self._next_offset = next_offset
        return next_offset

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _batch_of(self, records: Sequence[Message], base_offset: int) -> bytes:
        values = [(None, frame(record, record.versions.high), -1, ()) for record in records]
        return build_batch(values, base_offset=base_offset, partition_leader_epoch=0)

    def _batch_at(self, data: bytes, position: int) -> RecordBatch | None:
        """The whole, valid batch at `position`, or None when the rest of the file is a torn append."""
        try:
            batch = RecordBatch(data, position)
            batch.ensure_valid()
        except CorruptRecordError as error:
            if _has_batch_after(data, position):
                raise MetadataStoreError(
                    f"{self.path} is damaged at byte {position} with good records behind it: {error}"
                ) from error
            return None
        return batch

    def _rewrite(self, records: Sequence[Message]) -> None:
        """Puts a file with just `records` in the place of the one that is there, all or nothing."""
        temporary = f"{self.path}.tmp"
        self._next_offset = 0
        self._end = 0
        self._file = self._env.open(temporary, create=True)
        self._file.truncate(0)
        if records:
            self.append([records])
        self._file.sync()
        self._env.rename(temporary, self.path)
        self._env.sync_dir(self._log_dir)


def _has_batch_after(data: bytes, position: int) -> bool:
    """Whether a valid batch begins where the bad one at `position` claims to end."""
    length = int.from_bytes(data[position + 8 : position + 12], "big", signed=True)
    end = position + 12 + length
    if length <= 0 or end >= len(data):
        return False
    try:
        RecordBatch(data, end).ensure_valid()
    except CorruptRecordError:
        return False
    return True
