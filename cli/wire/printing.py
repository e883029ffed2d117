"""Frames as a tree with the offset of every field, and as JSON."""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from barnabas.cli.wire.frames import Frame
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.wire import uuid_to_string

if TYPE_CHECKING:
    from collections.abc import Iterator

    from barnabas.cli.wire.walking import Node, Wrong

AROUND: Final = 16
"""The number of bytes that are shown before and after a wrong one."""
MOST_BYTES: Final = 48
"""The number of bytes of a value that the tree shows."""
MOST_INLINE: Final = 16
"""Arrays of plain values up to this length are printed on one line."""


def tree_lines(frame: Frame) -> Iterator[str]:
    """The frame as a tree. Offsets are those of the input, or of the connection's stream."""
    yield head_line(frame)
    if frame.note:
        yield f"  note: {frame.note}"
    for root in (frame.header, frame.body):
        if root is not None:
            yield from _node_lines(root, frame.base, 1)
    for wrong in frame.wrongs:
        yield from _wrong_lines(wrong, frame)


def head_line(frame: Frame) -> str:
    """The first line: time, connection, direction, API and version."""
    parts = [f"{frame.direction} {frame.title}"]
    if frame.correlation_id is not None:
        parts.append(f"correlation id {frame.correlation_id}")
    parts += [f"{len(frame.data)} bytes at {frame.base}"]
    where = [text for text in (_time_text(frame.time), frame.connection) if text]
    return " ".join([*where, ", ".join(parts)])


def _time_text(time: float | None) -> str:
    if time is None:
        return ""
    try:
        return datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    except (OverflowError, ValueError, OSError):
        return f"{time:.6f}"


def _node_lines(node: Node, base: int, depth: int) -> Iterator[str]:
    place = f"{base + node.start:06d}  {'  ' * depth}"
    name = node.name if node.tag is None or node.type == "unknown tag" else f"{node.name} (tag {node.tag})"
    if node.children is None:
        yield f"{place}{name}: {_value_text(node) if node.is_read else '?'}"
        return
    if node.value is not None:  # a batch with its records
        yield f"{place}{name}: {_value_text(node)}"
    elif _is_plain(node):
        yield f"{place}{name}: [{', '.join(map(_value_text, node.children))}]"
        return
    else:
        yield f"{place}{name}: {node.type}{'' if node.children else ', empty'}"
    for child in node.children:
        yield from _node_lines(child, base, depth + 1)


def _is_plain(node: Node) -> bool:
    children = node.children or ()
    return (
        0 < len(children) <= MOST_INLINE
        and node.type.endswith(("int8", "int16", "int32", "int64", "uint16", "uint32", "uuid", "string"))
        and all(child.children is None and child.value is not None for child in children)
    )


def _value_text(node: Node) -> str:
    value = node.value
    if isinstance(value, dict):
        return ", ".join(f"{name}={_plain_text(each)}" for name, each in value.items())
    if node.type.endswith("uuid") and isinstance(value, bytes):
        return uuid_to_string(value)
    if node.name.endswith("error_code") and isinstance(value, int):
        return f"{value} ({_error_name(value)})"
    return _plain_text(value)


def _error_name(code: int) -> str:
    try:
        return ErrorCode(code).name
    except ValueError:
        return "no error of Kafka 4.3"


def _plain_text(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, bytes | memoryview):
        return bytes_text(bytes(value))
    if isinstance(value, list):
        return "[" + ", ".join(map(_plain_text, value)) + "]"
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else str(value)


def bytes_text(data: bytes) -> str:
    """Printable ASCII as a string, other bytes as hex; at most MOST_BYTES of them."""
    if not data:
        return '""'
    shown = data[:MOST_BYTES]
    more = f"... ({len(data)} bytes)" if len(data) > MOST_BYTES else ""
    if all(0x20 <= byte < 0x7F for byte in shown):
        return json.dumps(shown.decode()) + more
    return f"0x{shown.hex()}{more}"


def _wrong_lines(wrong: Wrong, frame: Frame) -> Iterator[str]:
    yield f"{frame.base + wrong.offset:06d}  WRONG {wrong.path}: expected {wrong.expected}; found {wrong.found}"
    yield f"          {hex_around(frame.data, wrong.offset)}"


def hex_around(data: bytes, offset: int) -> str:
    """The bytes around an offset, the one at the offset in brackets."""
    before = data[max(offset - AROUND, 0) : offset]
    behind = data[offset + 1 : offset + 1 + AROUND]
    here = f"[{data[offset]:02x}]" if offset < len(data) else "[end]"
    parts = ["..." if offset > AROUND else "", before.hex(" "), here, behind.hex(" ")]
    if len(data) > offset + 1 + AROUND:
        parts.append("...")
    return " ".join(filter(None, parts))


def as_json(frame: Frame) -> dict[str, Any]:
    """The frame as JSON. Bytes are hex, UUIDs are Kafka's text."""
    return {
        "type": "frame",
        "direction": frame.direction,
        "api": None if frame.api is None else frame.title.partition(" ")[0],
        "api_key": None if frame.api is None else int(frame.api),
        "version": frame.version,
        "correlation_id": frame.correlation_id,
        "offset": frame.base,
        "size": len(frame.data),
        "connection": frame.connection or None,
        "time": frame.time,
        "note": frame.note or None,
        "header": None if frame.header is None else _node_json(frame.header),
        "body": None if frame.body is None else _node_json(frame.body),
        "wrong": [_wrong_json(wrong, frame) for wrong in frame.wrongs],
    }


def _wrong_json(wrong: Wrong, frame: Frame) -> dict[str, Any]:
    start = max(wrong.offset - AROUND, 0)
    return {
        "offset": frame.base + wrong.offset,
        "path": wrong.path,
        "expected": wrong.expected,
        "found": wrong.found,
        "hex": frame.data[start : wrong.offset + 1 + AROUND].hex(),
        "hex_offset": frame.base + start,
    }


def _node_json(node: Node) -> Any:
    if node.children is None or node.type.startswith("batch"):
        return _leaf_json(node)
    if "array of " in node.type or node.type.endswith("records"):
        return [_node_json(child) for child in node.children if _has_json(child)]
    return {child.name: _node_json(child) for child in node.children if _has_json(child)}


def _has_json(node: Node) -> bool:
    """Values that could not be decoded are left out; structs and arrays keep what was decoded."""
    return node.is_read or node.children is not None


def _leaf_json(node: Node) -> Any:
    if isinstance(node.value, dict):
        found = {name: _jsonable(value) for name, value in node.value.items()}
        if node.children is not None:
            found["records"] = [_node_json(child) for child in node.children]
        return found
    if node.type.endswith("uuid") and isinstance(node.value, bytes):
        return uuid_to_string(node.value)
    return _jsonable(node.value)


def _jsonable(value: Any) -> Any:
    if isinstance(value, bytes | memoryview):
        return bytes(value).hex()
    if isinstance(value, list):
        return [_jsonable(each) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)  # not a number in JSON
    return value
