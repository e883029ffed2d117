"""Rules for every message declaration. tests/conformance compares the declarations with Kafka's."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from typing import Any, get_type_hints

import pytest

from barnabas.protocol import schema, wire
from barnabas.protocol.schema import Field, Message, Struct
from tests.protocol.samples import message_types, version_id

PYTHON_TYPES: dict[str, Any] = {
    "bool": bool,
    "float64": float,
    "string": str,
    "bytes": bytes,
    "uuid": bytes,
    **dict.fromkeys(("int8", "int16", "uint16", "int32", "uint32", "int64"), int),
}


def structs_of(message: type[Message]) -> list[type[Struct]]:
    """The message and the structs nested in it."""
    nested = [
        value for value in vars(message).values() if isinstance(value, type) and issubclass(value, Struct)
    ]
    return [message, *nested]


def annotation_of(field: Field) -> Any:
    """The Python type that a field of this wire type must be annotated with."""
    if field.type == "records":
        return None
    python_type: Any = field.struct or PYTHON_TYPES[field.type]
    if field.is_array:
        python_type = list[python_type]
    can_be_null = field.nullable != schema.NO_VERSIONS or field.default is None
    return python_type | None if can_be_null else python_type


def test_there_are_all_messages_of_kafka_4_3() -> None:
    kinds = Counter(message.__name__.endswith("Request") for message in message_types())
    assert (kinds[True], len(message_types())) == (89, 272)


def test_names_are_unique() -> None:
    assert max(Counter(message.__name__ for message in message_types()).values()) == 1


@pytest.mark.parametrize("message", message_types(), ids=version_id)
def test_annotations_agree_with_the_wire_types(message: type[Message]) -> None:
    for struct in structs_of(message):
        hints = get_type_hints(struct, localns={"Chunk": wire.Chunk})
        for field in struct.fields:
            if field.type == "records":
                assert None.__class__ in hints[field.name].__args__
            else:
                assert hints[field.name] == annotation_of(field), f"{struct.__qualname__}.{field.name}"


@pytest.mark.parametrize("message", message_types(), ids=version_id)
def test_every_nested_struct_is_used_and_belongs_to_its_message(message: type[Message]) -> None:
    used = {
        field.struct for struct in structs_of(message) for field in struct.fields if field.struct is not None
    }
    assert used == set(structs_of(message)[1:])
    assert all(struct.__qualname__ == f"{message.__name__}.{struct.__name__}" for struct in used)


@pytest.mark.parametrize("message", message_types(), ids=version_id)
def test_tags_are_unique_and_only_in_flexible_versions(message: type[Message]) -> None:
    for struct in structs_of(message):
        tagged = [field for field in struct.fields if field.tag >= 0]
        assert len({field.tag for field in tagged}) == len(tagged)
        for field in tagged:
            assert message.flexible_versions.low <= field.tagged.low


def test_importing_the_families_of_the_first_requests_imports_no_other() -> None:
    code = (
        "import sys; from barnabas.protocol.api_keys import *; request_type(3); response_type(18);"
        "print(sorted(m for m in sys.modules if m.startswith('barnabas.protocol.messages.') or m == 'construct'))"
    )
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (
        printed.stdout.strip()
        == "['barnabas.protocol.messages.api_versions', 'barnabas.protocol.messages.metadata']"
    )
