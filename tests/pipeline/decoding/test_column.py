"""Tests decoded values, and the reasons of malformed ones. No bytes raise an exception."""

from __future__ import annotations

import base64
import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.pipeline.decoding import samples
from tests.pipeline.decoding.framing import join_indexes

pa = pytest.importorskip("pyarrow")
pytest.importorskip("fastavro")

from barnabas.pipeline.decoding.column import decode_column, decoder_of  # noqa: E402
from barnabas.pipeline.decoding.errors import SchemaError  # noqa: E402
from barnabas.pipeline.decoding.spec import DecodingSpec  # noqa: E402
from barnabas.pipeline.decoding.wire_format import join  # noqa: E402

JSON = DecodingSpec("json", samples.json_text(samples.ORDER_JSON))
AVRO = DecodingSpec("avro", samples.json_text(samples.ORDER_AVRO))
PROTOBUF = DecodingSpec("protobuf", samples.texts(), "shop.Order")
WRITERS = {7: samples.json_text(samples.ORDER_AVRO)}
FRAMED = [
    DecodingSpec("json", JSON.schema, registry_framing=True),
    DecodingSpec("avro", AVRO.schema, registry_framing=True, writers=WRITERS),
    DecodingSpec(
        "protobuf", PROTOBUF.schema, "shop.Order", registry_framing=True, writers={7: PROTOBUF.schema}
    ),
]
ORDER: dict[str, Any] = {
    "id": 3,
    "price": Decimal("1.50"),
    "at": datetime(2026, 1, 31, 12, tzinfo=UTC),
    "state": "NEW",
    "token": "7f0c0a52-4b4e-4a64-8a5f-0e9c3f3e1c11",
    "counts": {"a": 1},
}


def decoded(spec: DecodingSpec, *values: bytes | None) -> list[dict[str, Any]]:
    """The rows for these values."""
    rows: list[dict[str, Any]] = decode_column(spec.to_json(), pa.array(values, pa.binary())).to_pylist()
    return rows


def data_of(spec: DecodingSpec, value: bytes) -> Any:
    """The data of a valid value."""
    (row,) = decoded(spec, value)
    assert row["reason"] is None, row
    return row["data"]


def detail_of(spec: DecodingSpec, value: bytes) -> str:
    """The detail of a malformed value."""
    (row,) = decoded(spec, value)
    assert (row["data"], row["reason"]) == (None, "malformed")
    return str(row["detail"])


def test_json_has_a_column_for_each_property() -> None:
    text = (
        '{"id": 5.0, "price": 2, "paid": true, "note": null, "at": "2026-01-31T12:00:00+01:00", "day": "2026-01-31",'
        ' "lines": [{"sku": "x", "more": 1}], "labels": {"a": "b"}, "extra": [1, {"z": 2}], "kind": "a"}'
    )
    assert data_of(JSON, text.encode()) == {
        "id": 5,
        "price": 2.0,
        "paid": True,
        "note": None,
        "at": datetime(2026, 1, 31, 11, tzinfo=UTC),
        "day": date(2026, 1, 31),
        "lines": [{"sku": "x"}],
        "labels": [("a", "b")],
        "extra": '[1, {"z": 2}]',
        "kind": "a",
    }


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (b"{", "not JSON"),
        (b'{"id": 1} {}', "not JSON"),
        (b"\xff\xfe", "not JSON"),
        (b'{"id": NaN}', "NaN"),
        (b"{}", "must contain ['id']"),
        (b'{"id": "1"}', "data.id must be integer"),
        (b'{"id": 1, "price": -1}', "data.price must be bigger"),
        (b'{"id": 1, "at": "2026-02-30T00:00:00Z"}', "data.at must be date-time"),
        (b'{"id": 9223372036854775808}', "cannot hold it"),
        (b'{"id": 1, "note": "\\ud800"}', "cannot hold it"),
        (b"[" * 100_000, "nested too deeply"),
        (b"", "not JSON"),
    ],
)
def test_json_that_the_schema_does_not_allow_is_malformed(value: bytes, words: str) -> None:
    assert words in detail_of(JSON, value)


def test_a_value_outside_its_columns_range_does_not_affect_others() -> None:
    rows = decoded(JSON, b'{"id": 1}', b'{"id": 9223372036854775808}', b'{"id": 2}', None)
    assert [row["reason"] for row in rows] == [None, "malformed", None, None]
    assert [row["data"] and row["data"]["id"] for row in rows] == [1, None, 2, None]


def test_avro_has_a_column_for_each_field() -> None:
    child = {**ORDER, "id": 4, "any": 17, "before": "OLD"}
    data = data_of(AVRO, samples.avro_bytes(samples.ORDER_AVRO, {**ORDER, "any": "text", "child": child}))
    assert data["counts"] == [("a", 1)]
    assert {name: data[name] for name in ("id", "price", "at", "state", "token")} == {
        name: ORDER[name] for name in ("id", "price", "at", "state", "token")
    }
    assert (data["any"], data["note"]) == ('"text"', None)
    assert json.loads(data["child"])["any"] == 17  # a recursive record has no Arrow type


def test_avro_is_read_with_the_schema_it_was_written_with() -> None:
    older = {**samples.ORDER_AVRO, "fields": [one for one in _fields() if one["name"] != "note"]}
    spec = DecodingSpec("avro", AVRO.schema, registry_framing=True, writers={9: samples.json_text(older)})
    data = data_of(spec, join(9, samples.avro_bytes(older, ORDER)))
    assert (data["id"], data["note"]) == (3, None)


def _fields() -> list[dict[str, Any]]:
    fields = samples.ORDER_AVRO["fields"]
    assert isinstance(fields, list)
    return fields


def test_avro_that_ends_early_or_late_is_malformed() -> None:
    whole = samples.avro_bytes(samples.ORDER_AVRO, ORDER)
    assert detail_of(AVRO, whole[:-1])
    assert "1 bytes are left over" in detail_of(AVRO, whole + b"\0")


@pytest.mark.parametrize("spec", FRAMED[1:], ids=lambda spec: str(spec.value_format))
def test_an_unknown_schema_id_is_reported_with_its_row(spec: DecodingSpec) -> None:
    (row,) = decoded(spec, join(8, b"\0"))
    assert (row["reason"], row["schema_id"]) == ("unknown schema", 8)


def test_avro_that_refers_to_other_schemas() -> None:
    line = {
        "type": "record",
        "name": "Line",
        "namespace": "shop",
        "fields": [{"name": "sku", "type": "string"}],
    }
    lines = {"type": "array", "items": "shop.Line"}
    order = {"type": "record", "name": "Order", "fields": [{"name": "lines", "type": lines}]}
    value = samples.avro_bytes(
        {**order, "fields": [{"name": "lines", "type": {**lines, "items": line}}]}, ORDER_LINES
    )
    texts = (json.dumps(line), json.dumps(order))
    assert data_of(DecodingSpec("avro", texts), value) == ORDER_LINES
    framed = DecodingSpec("avro", texts, registry_framing=True, writers={7: texts})
    assert data_of(framed, join(7, value)) == ORDER_LINES


ORDER_LINES = {"lines": [{"sku": "x"}, {"sku": "y"}]}


@pytest.mark.parametrize(
    ("last", "inlined", "value", "expected"),
    [
        (["null", "Line"], ["null", "{}"], {"sku": "x"}, {"sku": "x"}),
        (["Line", "string"], ["{}", "string"], {"sku": "x"}, '{"sku": "x"}'),
        (
            {"type": "map", "values": "Line"},
            {"type": "map", "values": "{}"},
            {"a": {"sku": "x"}},
            [("a", {"sku": "x"})],
        ),
        ("Line", "{}", {"sku": "x"}, {"sku": "x"}),
    ],
)
def test_avro_that_is_no_record_and_refers_to_one(last: Any, inlined: Any, value: Any, expected: Any) -> None:
    """Topics with values of several types have such a union as their schema."""
    line = {"type": "record", "name": "Line", "fields": [{"name": "sku", "type": "string"}]}
    whole = json.loads(json.dumps(inlined).replace('"{}"', json.dumps(line)))
    spec = DecodingSpec("avro", (json.dumps(line), json.dumps(last)))
    assert data_of(spec, samples.avro_bytes(whole, value)) == expected


def test_avro_null_and_empty_records_have_columns_for_files() -> None:
    empty = {"type": "record", "name": "Empty", "fields": []}
    fields = [{"name": "none", "type": "null"}, {"name": "empty", "type": empty}]
    schema = {"type": "record", "name": "R", "fields": fields}
    spec = DecodingSpec("avro", samples.json_text(schema))
    assert decoder_of(spec).type == pa.struct([("none", pa.string()), ("empty", pa.string())])
    assert data_of(spec, samples.avro_bytes(schema, {"none": None, "empty": {}})) == {
        "none": None,
        "empty": "{}",
    }


def test_nullable_json_has_the_column_of_its_other_type() -> None:
    """As Confluent's serializer describes each field of Java objects."""
    absent = {"type": "null", "title": "Not included"}
    schema = {"type": "object", "properties": {"a": {"oneOf": [absent, {"type": "integer"}]}}}
    spec = DecodingSpec("json", samples.json_text(schema))
    assert [data_of(spec, value) for value in (b'{"a": 1}', b'{"a": null}')] == [{"a": 1}, {"a": None}]


def test_json_times_may_have_small_letters() -> None:
    spec = DecodingSpec("json", samples.json_text({"type": "string", "format": "date-time"}))
    assert data_of(spec, b'"2026-01-31t12:00:00z"') == datetime(2026, 1, 31, 12, tzinfo=UTC)


def test_json_pattern_properties_of_one_type_are_a_map() -> None:
    number, text = {"type": "integer"}, {"type": "string"}
    mixed = {"type": "object", "additionalProperties": number, "patternProperties": {"^x": text}}
    spec = DecodingSpec("json", samples.json_text(mixed))
    found = [
        json.loads(data_of(spec, value)) for value in (b'{"a": 1}', b'{"x": "5"}', b'{"x": "b", "a": 2}')
    ]
    assert found == [{"a": 1}, {"x": "5"}, {"x": "b", "a": 2}]
    alike = DecodingSpec("json", samples.json_text({**mixed, "patternProperties": {"^x": number}}))
    assert data_of(alike, b'{"x": 5}') == [("x", 5)]


@pytest.mark.parametrize(
    "schema",
    [
        {"type": ["object", "null"], "properties": {"a": {"type": "integer"}}},
        {"oneOf": [{"type": "null"}, {"type": "integer"}]},
        {"type": ["array", "null"], "items": {"type": "string"}},
        {},
    ],
)
def test_json_that_is_null_as_a_whole(schema: dict[str, Any]) -> None:
    assert data_of(DecodingSpec("json", samples.json_text(schema)), b"null") is None


def test_avro_that_is_null_as_a_whole() -> None:
    fields = [{"name": "a", "type": "int"}]
    schema = ["null", {"type": "record", "name": "A", "fields": fields}]
    text = samples.json_text(schema)
    value = samples.avro_bytes(schema, None)
    assert data_of(DecodingSpec("avro", text), value) is None
    framed = DecodingSpec("avro", text, registry_framing=True, writers={7: text})
    assert data_of(framed, join(7, value)) is None
    assert data_of(framed, join(7, samples.avro_bytes(schema, {"a": 1}))) == {"a": 1}


def test_protobuf_has_a_column_for_each_field() -> None:
    message = samples.order_class()(id=1, big=2**64 - 1, name="n", state=1)
    message.at.FromDatetime(datetime(2026, 1, 31))  # noqa: DTZ001 - Protobuf means UTC
    message.lines.add(sku="x")
    message.counts["a"] = 2
    message.child.id = 9
    assert data_of(PROTOBUF, message.SerializeToString()) == {
        "id": 1,
        "big": Decimal(2**64 - 1),
        "name": "n",
        "at": datetime(2026, 1, 31, tzinfo=UTC),
        "lines": [{"sku": "x"}],
        "state": "OLD",
        "counts": [("a", 2)],
        "child": '{"id": "9"}',
    }
    assert data_of(PROTOBUF, b"")["at"] is None
    assert "not this Protobuf message" in detail_of(PROTOBUF, b"\x0a")


def test_protobuf_of_another_message_is_malformed() -> None:
    framed = FRAMED[2]
    payload = samples.order_class()(id=5).SerializeToString()
    assert data_of(framed, join(7, join_indexes([1], payload)))["id"] == 5
    detail = detail_of(framed, join(7, join_indexes([0], payload)))
    assert detail == "its indexes [0] are those of shop.Other in the schema 7, not of shop.Order"
    assert "[1, 9] are those of no message" in detail_of(framed, join(7, join_indexes([1, 9], payload)))


def test_protobuf_indexes_refer_to_the_writers_file() -> None:
    """There the message was the first; the second message there is another one."""
    older = samples.order_file()
    older.message_type.reverse()
    texts = (*samples.texts()[:-1], base64.b64encode(older.SerializeToString()).decode())
    spec = DecodingSpec("protobuf", PROTOBUF.schema, "shop.Order", registry_framing=True, writers={3: texts})
    payload = samples.order_class()(id=5).SerializeToString()
    assert data_of(spec, join(3, join_indexes([0], payload)))["id"] == 5
    assert "shop.Other" in detail_of(spec, join(3, join_indexes([1], payload)))


def test_a_message_within_a_message() -> None:
    spec = DecodingSpec(
        "protobuf", PROTOBUF.schema, "shop.Order.Line", registry_framing=True, writers={7: PROTOBUF.schema}
    )
    payload = samples.order_class("shop.Order.Line")(sku="x").SerializeToString()
    assert data_of(spec, join(7, join_indexes([1, 0], payload))) == {"sku": "x"}


def test_protobuf_without_googles_own_files() -> None:
    """A registry has only registered files, and google/protobuf/timestamp.proto is not one."""
    spec = DecodingSpec("protobuf", samples.texts()[-1:], "shop.Order")
    assert data_of(spec, samples.order_class()(id=5).SerializeToString())["id"] == 5
    foreign = samples.order_file()
    foreign.dependency.append("confluent/meta.proto")
    with pytest.raises(SchemaError, match=r"do not make a whole: .*confluent/meta\.proto"):
        decoder_of(
            DecodingSpec("protobuf", (base64.b64encode(foreign.SerializeToString()).decode(),), "shop.Order")
        )


def test_an_empty_protobuf_message_has_a_column_for_files() -> None:
    spec = DecodingSpec("protobuf", samples.texts(), "shop.Other")
    assert (decoder_of(spec).type, data_of(spec, b"")) == (pa.string(), "{}")


@pytest.mark.parametrize("spec", FRAMED, ids=lambda spec: str(spec.value_format))
def test_values_without_the_wire_format_are_malformed(spec: DecodingSpec) -> None:
    assert "the first byte is 1" in detail_of(spec, b"\1\0\0\0\7{}")
    assert "4 bytes" in detail_of(spec, b"\0\0\0\0")


@pytest.mark.parametrize("spec", [JSON, AVRO, PROTOBUF, *FRAMED], ids=lambda spec: str(spec.value_format))
@settings(max_examples=60, deadline=None)
@given(values=st.lists(st.binary(max_size=40) | st.builds(join, st.just(7), st.binary(max_size=40))))
def test_any_bytes_are_decoded_or_have_a_reason(spec: DecodingSpec, values: list[bytes]) -> None:
    for row in decoded(spec, *values):
        assert (row["data"] is None) == (row["reason"] is not None)


@pytest.mark.parametrize(
    "spec",
    [
        DecodingSpec("json", ("{",)),
        DecodingSpec("json", ('{"type": 5}',)),
        DecodingSpec("json", ('{"$ref": "http://127.0.0.1:1/x"}',)),
        DecodingSpec("json", ('{"$ref": "#/nowhere"}',)),
        DecodingSpec("avro", ("{",)),
        DecodingSpec("avro", ('{"type": "record", "name": "x", "fields": [{"name": "a", "type": "none"}]}',)),
        DecodingSpec("protobuf", samples.texts(), "shop.Nothing"),
        DecodingSpec("protobuf", samples.texts()),
        DecodingSpec("protobuf", ("syntax = proto3;",), "x"),
    ],
)
def test_an_unusable_schema_is_rejected(spec: DecodingSpec) -> None:
    with pytest.raises(SchemaError):
        decoder_of(spec)


def test_specs_go_through_json() -> None:
    for spec in (JSON, AVRO, PROTOBUF, *FRAMED):
        assert DecodingSpec.from_json(spec.to_json()) == spec
