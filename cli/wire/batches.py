"""The record batches of a Produce or a Fetch, summarised, and their records if they are wanted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from barnabas.cli.wire.tree import Node, Wrong
from barnabas.protocol.records.batch import RecordBatch
from barnabas.protocol.records.entries import batches
from barnabas.protocol.records.errors import (
    CorruptRecordError,
    InvalidRecordError,
    UnsupportedCompressionError,
)

if TYPE_CHECKING:
    from barnabas.protocol.records.legacy import LegacyEntry
    from barnabas.protocol.records.record import Record

REFUSALS: Final = (CorruptRecordError, InvalidRecordError, UnsupportedCompressionError)
MAX_DECOMPRESSED_BYTES: Final = 64 * 1024 * 1024


def read_batches(
    data: bytes, start: int, path: str, *, with_records: bool, may_be_cut: bool
) -> tuple[list[Node], list[Wrong]]:
    """A node for each batch in `data`, which lies at `start` in the frame, and what is wrong with them.

    `may_be_cut`: what a consumer gets may end within a batch.
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
    """The codec and the records of a batch, as far as they are right; what is wrong."""
    if not batch.is_valid_crc():
        return Wrong(
            node.start, path, f"bytes whose CRC is the batch's, {batch.crc:#010x}", "bytes with another"
        )
    try:
        node.value["codec"] = batch.compression_type.name.lower()
        records = list(batch.records(MAX_DECOMPRESSED_BYTES)) if with_records else None
    except REFUSALS as error:
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
