"""Messages as JSON, as Kafka's generated JsonConverters convert them and Jackson writes them.

Fields come in the order of the declaration, those that the version does not have are left out, and so are tagged
fields that have their defaults. Bytes are base64, UUIDs are Kafka's text form.
"""

from __future__ import annotations

import base64
import re
from functools import cache
from typing import Any, Final

from barnabas.cli.tools.java_text import format_double
from barnabas.protocol.schema import Field, Message, Struct
from barnabas.protocol.wire import uuid_to_string

_SPECIAL_NAMES: Final = {
    "kraft_version": "kRaftVersion",
    "kraft_version_feature": "kRaftVersionFeature",
}
_ESCAPED: Final = re.compile(r'[\x00-\x1f"\\]')
_SHORT_ESCAPES: Final = {
    '"': '\\"',
    "\\": "\\\\",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
}


class Bytes(str):
    """The base64 text of bytes; `data` are the bytes."""

    __slots__ = ("data",)
    data: bytes

    @classmethod
    def of(cls, data: bytes) -> Bytes:
        text = cls(base64.b64encode(data).decode())
        text.data = data
        return text


def to_json(message: Message, version: int) -> dict[str, Any]:
    """The message as plain dicts, lists, strings and numbers, as its JsonConverter writes `version`."""
    return _struct(message, version)


def _struct(value: Struct, version: int) -> dict[str, Any]:
    found = {}
    for field in value.fields:
        if not field.versions.has(version):
            continue
        item = getattr(value, field.name)
        if field.tagged.has(version) and item == field.make_default():
            continue
        found[json_name(field.name)] = _field(field, item, version)
    return found


def _field(field: Field, value: Any, version: int) -> Any:
    if value is None:
        return None
    if field.is_array:
        return [_element(field, item, version) for item in value]
    return _element(field, value, version)


def _element(field: Field, value: Any, version: int) -> Any:
    if field.struct is not None:
        return _struct(value, version)
    if field.type == "uuid":
        return uuid_to_string(value)
    return Bytes.of(bytes(value)) if field.type in ("bytes", "records") else value


@cache
def json_name(name: str) -> str:
    """Kafka's name for one of our fields: topic_id is topicId."""
    first, *others = name.split("_")
    return _SPECIAL_NAMES.get(name) or first + "".join(other.capitalize() for other in others)


def dumps(value: Any) -> str:
    """The text that Jackson's JsonNode.toString gives."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{dumps(key)}:{dumps(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return f"[{','.join(map(dumps, value))}]"
    if isinstance(value, str):
        return f'"{_ESCAPED.sub(_escape, value)}"'
    if isinstance(value, float):
        text = format_double(value)
        return text if text[-1].isdigit() else f'"{text}"'
    words = {None: "null", True: "true", False: "false"}
    return words[value] if value is None or isinstance(value, bool) else str(value)


def _escape(found: re.Match[str]) -> str:
    character = found.group()
    return _SHORT_ESCAPES.get(character) or f"\\u{ord(character):04X}"
