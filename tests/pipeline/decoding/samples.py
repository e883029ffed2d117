"""Schemas and values that several test modules use."""

from __future__ import annotations

import base64
import io
import json
from typing import Any

import fastavro
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, timestamp_pb2

ORDER_JSON = {
    "type": "object",
    "properties": {
        "id": {"type": "integer"},
        "price": {"type": "number", "minimum": 0},
        "paid": {"type": "boolean"},
        "note": {"type": ["string", "null"]},
        "at": {"type": "string", "format": "date-time"},
        "day": {"type": "string", "format": "date"},
        "lines": {"type": "array", "items": {"$ref": "#/$defs/line"}},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        "extra": {},
        "kind": {"enum": ["a", "b"]},
    },
    "required": ["id"],
    "$defs": {"line": {"type": "object", "properties": {"sku": {"type": "string"}}}},
}

ORDER_AVRO = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "note", "type": ["null", "string"], "default": None},
        {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["NEW", "OLD"]}},
        {"name": "before", "type": ["null", "State"], "default": None},
        {"name": "token", "type": {"type": "string", "logicalType": "uuid"}},
        {"name": "counts", "type": {"type": "map", "values": "int"}},
        {"name": "any", "type": ["null", "string", "long"], "default": None},
        {"name": "child", "type": ["null", "Order"], "default": None},
    ],
}


def avro_bytes(schema: Any, value: Any) -> bytes:
    """An Avro value without header, as producers write it."""
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(schema), value)
    return stream.getvalue()


def order_file() -> descriptor_pb2.FileDescriptorProto:
    """shop.proto: message Other {}; message Order { ... message Line {...} }."""
    file = descriptor_pb2.FileDescriptorProto(
        name="shop.proto", package="shop", syntax="proto3", dependency=["google/protobuf/timestamp.proto"]
    )
    file.message_type.add(name="Other")
    order = file.message_type.add(name="Order")
    field = descriptor_pb2.FieldDescriptorProto
    scalars = [("id", 1, field.TYPE_INT64), ("big", 2, field.TYPE_UINT64), ("name", 3, field.TYPE_STRING)]
    for name, number, kind in scalars:
        order.field.add(name=name, number=number, type=kind, label=field.LABEL_OPTIONAL)
    order.field.add(
        name="at",
        number=4,
        type=field.TYPE_MESSAGE,
        type_name=".google.protobuf.Timestamp",
        label=field.LABEL_OPTIONAL,
    )
    line = order.nested_type.add(name="Line")
    line.field.add(name="sku", number=1, type=field.TYPE_STRING, label=field.LABEL_OPTIONAL)
    order.field.add(
        name="lines",
        number=5,
        type=field.TYPE_MESSAGE,
        type_name=".shop.Order.Line",
        label=field.LABEL_REPEATED,
    )
    state = order.enum_type.add(name="State")
    state.value.add(name="NEW", number=0)
    state.value.add(name="OLD", number=1)
    order.field.add(
        name="state",
        number=6,
        type=field.TYPE_ENUM,
        type_name=".shop.Order.State",
        label=field.LABEL_OPTIONAL,
    )
    entry = order.nested_type.add(name="CountsEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, type=field.TYPE_STRING, label=field.LABEL_OPTIONAL)
    entry.field.add(name="value", number=2, type=field.TYPE_INT32, label=field.LABEL_OPTIONAL)
    order.field.add(
        name="counts",
        number=7,
        type=field.TYPE_MESSAGE,
        type_name=".shop.Order.CountsEntry",
        label=field.LABEL_REPEATED,
    )
    order.field.add(
        name="child", number=8, type=field.TYPE_MESSAGE, type_name=".shop.Order", label=field.LABEL_OPTIONAL
    )
    return file


def timestamp_file() -> descriptor_pb2.FileDescriptorProto:
    """google/protobuf/timestamp.proto, as protoc --include_imports puts it in front."""
    return descriptor_pb2.FileDescriptorProto.FromString(timestamp_pb2.DESCRIPTOR.serialized_pb)


def descriptor_set() -> bytes:
    """The output of protoc --include_imports --descriptor_set_out for shop.proto."""
    return bytes(descriptor_pb2.FileDescriptorSet(file=[timestamp_file(), order_file()]).SerializeToString())


def texts() -> tuple[str, ...]:
    """The same in the form of a DecodingSpec."""
    return tuple(
        base64.b64encode(one.SerializeToString()).decode() for one in (timestamp_file(), order_file())
    )


def order_class(name: str = "shop.Order") -> Any:
    """The class of a message."""
    pool = descriptor_pool.DescriptorPool()
    for file in (timestamp_file(), order_file()):
        pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))


def json_text(schema: Any) -> tuple[str, ...]:
    """A schema in the form of a DecodingSpec."""
    return (json.dumps(schema),)
