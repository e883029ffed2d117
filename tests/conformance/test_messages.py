"""Our message tables against the definitions inside Apache Kafka's jars: field by field, version by version."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.protocol.reference import COMPACT_LENGTH, NullableStruct, Prefixed, StructOf, layout
from barnabas.protocol.schema import Field, Message, Struct
from tests.conformance.definitions import FieldDefinition, Row, definitions, rows, snake_case
from tests.protocol.samples import every_version, message_types, version_id

pytestmark = pytest.mark.conformance


def facts(field: Field) -> dict[str, Any]:
    """The attributes of a field in our declaration."""
    shared = field.struct is not None and not field.is_array and field.default is not None
    return {
        "name": field.name,
        "type": ("[]" if field.is_array else "") + field.type,
        "versions": field.versions,
        "nullable": field.nullable,
        "tagged": field.tagged,
        "tag": field.tag,
        "default": "struct" if shared else field.make_default(),
        "ignorable": field.ignorable,
        "flexible": field.flexible,
    }


def test_no_message_is_missing_on_either_side() -> None:
    assert {message.__name__ for message in message_types()} == set(definitions())


@pytest.mark.parametrize("message", message_types(), ids=version_id)
def test_key_and_versions(message: type[Message]) -> None:
    definition = definitions()[message.__name__]
    assert message.api_key == definition.api_key
    assert message.versions == definition.versions
    assert message.flexible_versions == definition.flexible
    assert message.latest_unstable == definition.latest_unstable


@pytest.mark.parametrize("message", message_types(), ids=version_id)
def test_every_field_of_every_struct(message: type[Message]) -> None:
    definition = definitions()[message.__name__]
    assert_same_fields(message, definition.fields)
    nested = {name: value for name, value in vars(message).items() if isinstance(value, type)}
    assert set(nested) == set(definition.structs)
    for name, fields in definition.structs.items():
        assert_same_fields(nested[name], fields)


def assert_same_fields(struct: type[Struct], fields: tuple[FieldDefinition, ...]) -> None:
    expected = [{**field._asdict(), "name": snake_case(field.name)} for field in fields]
    assert [facts(field) for field in struct.fields] == expected, struct.__qualname__


@pytest.mark.parametrize(("message", "version"), every_version(), ids=version_id)
def test_every_version_has_the_layout_of_the_definition(message: type[Message], version: int) -> None:
    definition = definitions()[message.__name__]
    assert layout_rows(layout(message, version)) == rows(definition, version)


def layout_rows(struct: StructOf, path: str = "") -> list[Row]:
    """The same table as `definitions.rows`, from the construct."""
    table: list[Row] = []
    entries: list[tuple[Field, Any, int | None]] = [(field, value, None) for field, value in struct.members]
    if struct.tagged is not None:
        entries += [(entry.field, entry.value, tag) for tag, entry in struct.tagged.known.items()]
    for field, value, tag in entries:
        where = path + field.name
        nullable = isinstance(value, NullableStruct) or (isinstance(value, Prefixed) and value.nullable)
        element = getattr(value, "element", value)
        compact = [part.length is COMPACT_LENGTH for part in (value, element) if isinstance(part, Prefixed)]
        assert len(set(compact)) < 2
        flexible = compact[0] if compact else struct.tagged is not None
        name = ("[]" if field.is_array else "") + field.type
        table.append(Row(where, name, nullable, flexible, tag))
        inner = element.struct if isinstance(element, NullableStruct) else element
        if isinstance(inner, StructOf):
            table += layout_rows(inner, where + ".")
    return table
