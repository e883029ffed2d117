"""Bytes to a tree of fields with the offset of each, as far as they can be read, and the record batches in them.

The constructs of `protocol.reference` read every value and every length; this adds where they are in the frame, and
the description of bytes that do not fit.
"""

from __future__ import annotations

import io
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from construct.core import ConstructError, StreamError

from barnabas.cli.wire.layouts import type_text
from barnabas.protocol.records.batch import RecordBatch
from barnabas.protocol.records.entries import batches
from barnabas.protocol.records.errors import (
    CorruptRecordError,
    InvalidRecordError,
    UnsupportedCompressionError,
)
from barnabas.protocol.reference import (
    BOOLEAN,
    VARINT,
    KafkaArray,
    NullableStruct,
    Prefixed,
    Records,
    StructOf,
    TaggedFields,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from construct.core import Construct

    from barnabas.protocol.records.legacy import LegacyEntry
    from barnabas.protocol.records.record import Record

UNALIGNED: Final = "unaligned_records"
"""The field of FetchSnapshot whose bytes begin and end anywhere in a file of batches."""
MAX_DECOMPRESSED_BYTES: Final = 64 * 1024 * 1024


@dataclass(slots=True)
class Node:
    """A field, an element of an array, a record batch or a record. Offsets count from the first byte of the frame.

    `children` is None for a single value, whose `value` is then set. `is_read` is false if it could not be decoded.
    """

    name: str
    type: str
    start: int
    end: int
    value: Any = None
    children: list[Node] | None = None
    tag: int | None = None
    is_read: bool = True


@dataclass(slots=True, frozen=True)
class Wrong:
    """Bytes that do not match the layout at this offset."""

    offset: int
    path: str
    expected: str
    found: str


class _StoppedError(Exception):
    """Nothing after this offset can be decoded."""

    def __init__(self, wrong: Wrong) -> None:
        super().__init__(wrong.expected)
        self.wrong = wrong


class _Stream(io.BytesIO):
    """Bytes of a frame from the offset `base` on."""

    def __init__(self, data: bytes, base: int = 0) -> None:
        super().__init__(data)
        self._base = base

    @property
    def place(self) -> int:
        """The current offset in the frame."""
        return self._base + self.tell()

    @property
    def left(self) -> int:
        """The number of bytes after the current offset."""
        with self.getbuffer() as buffer:
            return len(buffer) - self.tell()


@dataclass(slots=True)
class Walk:
    """The decoded tree of a message; `is_whole` if it was decoded up to its end."""

    root: Node
    end: int
    wrongs: list[Wrong] = field(default_factory=list)
    is_whole: bool = True


def walk(
    struct: StructOf,
    data: bytes,
    start: int,
    name: str,
    *,
    with_records: bool = False,
    may_be_cut: bool = False,
) -> Walk:
    """Decodes the struct that begins at `start`. `may_be_cut`: a last batch that is cut off is not an error."""
    found = Walk(Node(name, struct.cls.__name__, start, start), start)
    stream = _Stream(data[start:], start)
    try:
        _Walker(found.wrongs, with_records, may_be_cut).struct(found.root, struct, stream, "")
    except _StoppedError as stopped:
        found.wrongs.append(stopped.wrong)
        found.is_whole = False
    found.end = stream.place
    return found


class _Walker:
    """Decodes values into nodes. A node is in the tree before its value is decoded, so that a failed one is shown."""

    def __init__(self, wrongs: list[Wrong], with_records: bool, may_be_cut: bool) -> None:
        self._wrongs = wrongs
        self._with_records = with_records
        self._may_be_cut = may_be_cut

    def struct(self, node: Node, struct: StructOf, stream: _Stream, path: str) -> None:
        node.children = []
        for declared, value in struct.members:
            child = Node(declared.name, type_text(declared, value), stream.place, stream.place)
            self._child(node, child, value, stream, path + declared.name)
        if struct.tagged is not None:
            where = f"{path}tagged_fields"
            for _ in range(self._varint(stream, where, "the number of tagged fields")):
                self._tagged_field(node, struct.tagged, stream, path)

    def _child(self, parent: Node, child: Node, value: Construct, stream: _Stream, path: str) -> None:
        assert parent.children is not None
        parent.children.append(child)
        child.is_read = False
        try:
            self._value(child, value, stream, path)
            child.is_read = True
        finally:
            child.end = stream.place

    def _value(self, node: Node, value: Construct, stream: _Stream, path: str) -> None:
        if isinstance(value, StructOf):
            self.struct(node, value, stream, f"{path}.")
        elif isinstance(value, NullableStruct):
            expected = "the marker of a struct that may be null"
            if self._guarded(stream, path, expected, partial(_parse, value.marker, stream)) >= 0:
                self.struct(node, value.struct, stream, f"{path}.")
        elif isinstance(value, KafkaArray):
            self._array(node, value, stream, path)
        elif isinstance(value, Prefixed):
            self._blob(node, value, stream, path)
        else:
            size = 1 if value is BOOLEAN else value.sizeof()
            expected = f"{node.type} of {size} byte{'' if size == 1 else 's'}"
            node.value = self._guarded(stream, path, expected, partial(_parse, value, stream))

    def _array(self, node: Node, value: KafkaArray, stream: _Stream, path: str) -> None:
        start, place = stream.tell(), stream.place
        count = self._length(value, stream, path, f"the number of elements of {node.type}")
        if count < 0:
            return
        node.children = []
        if count > stream.left:
            found = f"{count} elements, and {stream.left} bytes are left"
            stream.seek(start)
            raise _StoppedError(Wrong(place, path, node.type, found))
        kind = node.type.partition("array of ")[2]
        for index in range(count):
            element = Node(f"[{index}]", kind, stream.place, stream.place)
            self._child(node, element, value.element, stream, f"{path}[{index}]")

    def _blob(self, node: Node, value: Prefixed, stream: _Stream, path: str) -> None:
        start, place = stream.tell(), stream.place
        length = self._length(value, stream, path, f"the length of {node.type}")
        if length > stream.left:
            found = f"a length of {length}, and {stream.left} bytes are left"
            stream.seek(start)
            raise _StoppedError(Wrong(place, path, node.type, found))
        behind_length = stream.place
        stream.seek(start)
        node.value = self._guarded(stream, path, node.type, partial(_parse, value, stream))
        if isinstance(value, Records) and node.value is not None and node.name != UNALIGNED:
            node.children, wrongs = read_batches(
                bytes(node.value),
                behind_length,
                path,
                with_records=self._with_records,
                may_be_cut=self._may_be_cut,
            )
            self._wrongs += wrongs
            node.value = None

    def _tagged_field(self, parent: Node, tagged: TaggedFields, stream: _Stream, path: str) -> None:
        start, place, where = stream.tell(), stream.place, f"{path}tagged_fields"
        tag = self._varint(stream, where, "a tag")
        size = self._varint(stream, where, f"the size of tag {tag}")
        if size > stream.left or tag in tagged.misplaced:
            too_long = f"a size of {size}, and {stream.left} bytes are left"
            expected = "a tag that this version has" if tag in tagged.misplaced else f"the value of tag {tag}"
            stream.seek(start)
            found = f"tag {tag}" if tag in tagged.misplaced else too_long
            raise _StoppedError(Wrong(place, where, expected, found))
        at, data = stream.place, stream.read(size)
        if tag not in tagged.known:
            assert parent.children is not None
            parent.children.append(Node(f"tag {tag}", "unknown tag", at, at + size, data, tag=tag))
            return
        declared, value = tagged.known[tag]
        inner = _Stream(data, at)
        child = Node(declared.name, type_text(declared, value), at, at, tag=tag)
        self._child(parent, child, value, inner, path + declared.name)
        if inner.left:
            expected = f"a value of {size} bytes, which is the size of tag {tag}"
            found = f"one of {size - inner.left} bytes"
            raise _StoppedError(Wrong(inner.place, path + declared.name, expected, found))

    def _varint(self, stream: _Stream, path: str, expected: str) -> int:
        return int(self._guarded(stream, path, expected, partial(_parse, VARINT, stream)))

    def _length(self, value: Prefixed, stream: _Stream, path: str, expected: str) -> int:
        return int(self._guarded(stream, path, expected, partial(value._parse_length, stream, None, path)))

    def _guarded(self, stream: _Stream, path: str, expected: str, read: Callable[[], Any]) -> Any:
        """The value that `read` returns. An error of the construct is reported at the offset of the value."""
        start, place, left = stream.tell(), stream.place, stream.left
        try:
            return read()
        except StreamError:
            found = (
                f"{left} byte{'' if left == 1 else 's'} and then the end" if left else "the end of the bytes"
            )
        except ConstructError as error:
            found = str(error).rpartition("\n")[2]
        stream.seek(start)
        raise _StoppedError(Wrong(place, path, expected, found))


def _parse(value: Construct, stream: _Stream) -> Any:
    return value._parsereport(stream, None, "")


# ---- record batches


def read_batches(
    data: bytes, start: int, path: str, *, with_records: bool, may_be_cut: bool
) -> tuple[list[Node], list[Wrong]]:
    """A node for each batch in `data`, which begins at `start` in the frame, and the errors in them.

    `may_be_cut`: a Fetch response may end within a batch.
    """
    nodes: list[Node] = []
    wrongs: list[Wrong] = []
    position = 0
    walk = batches(data)
    while True:
        here = f"{path}.batch[{len(nodes)}]"
        try:
            batch = next(walk, None)
        except CorruptRecordError as error:
            wrongs.append(Wrong(start + position, here, "a record batch", str(error)))
            return nodes, wrongs
        if batch is None:
            break
        at = start + position
        node = Node(
            f"batch[{len(nodes)}]", f"batch v{batch.magic}", at, at + batch.size_in_bytes, _summary(batch)
        )
        nodes.append(node)
        wrong = _fill(node, batch, here, with_records=with_records)
        if wrong is not None:
            wrongs.append(wrong)
        position += batch.size_in_bytes
    if position < len(data):
        left = len(data) - position
        if may_be_cut:
            nodes.append(
                Node("cut off", "bytes", start + position, start + len(data), f"{left} bytes of a batch")
            )
        else:
            found = f"{left} bytes, fewer than the batch claims"
            wrongs.append(Wrong(start + position, here, "a whole record batch", found))
    return nodes, wrongs


def _fill(node: Node, batch: RecordBatch | LegacyEntry, path: str, *, with_records: bool) -> Wrong | None:
    """Adds the codec and the records to the node of a batch; returns the error, or None."""
    if not batch.is_valid_crc():
        return Wrong(
            node.start, path, f"bytes whose CRC is the batch's, {batch.crc:#010x}", "bytes with another"
        )
    try:
        node.value["codec"] = batch.compression_type.name.lower()
        records = list(batch.records(MAX_DECOMPRESSED_BYTES)) if with_records else None
    except (CorruptRecordError, InvalidRecordError, UnsupportedCompressionError) as error:
        return Wrong(node.start, path, "records that can be read", str(error))
    if records is not None:
        node.children = [_record_node(record, node) for record in records]
    return None


def _summary(batch: RecordBatch | LegacyEntry) -> dict[str, Any]:
    if not isinstance(batch, RecordBatch):
        return {"last_offset": batch.last_offset, "max_timestamp": batch.max_timestamp}
    summary: dict[str, Any] = {
        "base_offset": batch.base_offset,
        "last_offset": batch.last_offset,
        "record_count": batch.record_count,
        "max_timestamp": batch.max_timestamp,
        "leader_epoch": batch.partition_leader_epoch,
    }
    if batch.has_producer_id:
        summary |= {
            "producer_id": batch.producer_id,
            "producer_epoch": batch.producer_epoch,
            "base_sequence": batch.base_sequence,
        }
    if batch.is_transactional:
        summary["transactional"] = True
    if batch.is_control:
        summary["control"] = True
    return summary


def _record_node(record: Record, batch: Node) -> Node:
    value: dict[str, Any] = {
        "offset": record.offset,
        "timestamp": record.timestamp,
        "key": record.key,
        "value": record.value,
    }
    if record.headers:
        value["headers"] = [[name, content] for name, content in record.headers]
    return Node("record", "record", batch.start, batch.end, value)
