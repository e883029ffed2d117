"""Drives JavaMessages.java, and converts our messages into the JSON form that Kafka's converters read and write."""

from __future__ import annotations

import base64
import json
import struct
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

from barnabas.protocol.schema import Field, Message, Struct
from barnabas.protocol.wire import uuid_to_string
from tests.conformance.definitions import Definition, FieldDefinition, definitions, json_name, snake_case
from tests.conformance.kafka_jars import require_compiled

SOURCE = Path(__file__).parent / "java" / "JavaMessages.java"


class RejectedError(Exception):
    """Kafka rejected the message; the error message is its exception."""


class JavaMessages:
    """The running Java process."""

    def __init__(self) -> None:
        command = [
            "java",
            "-XX:TieredStopAtLevel=1",
            "-Xmx256m",
            "-cp",
            require_compiled(SOURCE),
            "JavaMessages",
        ]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def close(self) -> None:
        """Ends the process."""
        self._process.communicate(timeout=30)

    def to_json(self, message_type: type[Message], version: int, data: bytes) -> Any:
        """The JSON form of the message that Kafka decodes from `data`. Raises RejectedError."""
        return json.loads(self._request("j", message_type, version, data))

    def from_json(self, message_type: type[Message], version: int, value: Any) -> bytes:
        """A message in JSON form, encoded by Kafka. Raises RejectedError."""
        return self._request("b", message_type, version, json.dumps(value).encode())

    def again(self, message_type: type[Message], version: int, data: bytes) -> bytes:
        """`data` decoded and encoded again by Kafka. Raises RejectedError."""
        return self._request("r", message_type, version, data)

    def error_codes(self) -> list[tuple[int, str, bool]]:
        """Code, name and retriability of each error."""
        lines = [line.split() for line in self._request("e", None, 0, b"").decode().splitlines()]
        return [(int(code), name, retriable == "true") for code, name, retriable in lines]

    def _request(
        self, operation: str, message_type: type[Message] | None, version: int, payload: bytes
    ) -> bytes:
        name = definitions()[message_type.__name__].java_class.encode() if message_type else b""
        request = (
            struct.pack(">ch", operation.encode(), len(name)) + name + struct.pack(">h", version) + payload
        )
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(struct.pack(">i", len(request)) + request)
        stdin.flush()
        (size,) = struct.unpack(">i", stdout.read(4))
        answer = stdout.read(size)
        if answer[0]:
            raise RejectedError(answer[1:].decode())
        return answer[1:]


def json_of(message: Message, version: int) -> dict[str, Any]:
    """The JSON form of a message. Tagged fields with their default are left out."""
    definition = definitions()[type(message).__name__]
    return _struct_json(message, definition, definition.fields, version)


def _struct_json(
    value: Struct, definition: Definition, fields: tuple[FieldDefinition, ...], version: int
) -> dict[str, Any]:
    return {
        json_name(field.name): _field_json(getattr(value, snake_case(field.name)), definition, field, version)
        for field in fields
        if field.versions.has(version)
        and not (field.tagged.has(version) and _is_default(value, snake_case(field.name)))
    }


def _is_default(value: Struct, name: str) -> bool:
    field: Field = _fields_of(type(value))[name]
    return bool(getattr(value, name) == field.make_default())


@cache
def _fields_of(cls: type[Struct]) -> dict[str, Field]:
    return {field.name: field for field in cls.fields}


def _field_json(value: Any, definition: Definition, field: FieldDefinition, version: int) -> Any:
    if value is None:
        return None
    if field.is_array:
        return [_element_json(element, definition, field.element, version) for element in value]
    return _element_json(value, definition, field.element, version)


def _element_json(value: Any, definition: Definition, element: str, version: int) -> Any:
    if element in definition.structs:
        return _struct_json(value, definition, definition.structs[element], version)
    if element == "uuid":
        return uuid_to_string(value)
    if element in {"bytes", "records"}:
        return base64.b64encode(value).decode()
    return value
