"""Decoding of pushed metrics, of valid and of any bytes."""

from __future__ import annotations

import math
import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.metrics.v1.metrics_pb2 import Histogram, Metric, NumberDataPoint, Summary

from barnabas.broker.telemetry.otlp import (
    MAX_LABELS,
    MAX_POINTS,
    MAX_TEXT_LENGTH,
    MalformedTelemetryError,
    Payload,
    Point,
    parse,
    unpack,
)
from barnabas.protocol.records.compression import CompressionType, compress
from tests.broker.telemetry.otlp_payloads import counter, gauge, payload, point

LIMIT = 1 << 20
NONE = CompressionType.NONE
RATE = "org.apache.kafka.producer.record.send.rate"


def points(*metrics: Metric, **resource: str) -> list[Point]:
    return parse(NONE, payload(*metrics, **resource), LIMIT).points


@pytest.mark.parametrize("codec", CompressionType)
def test_every_codec_is_decompressed(codec: CompressionType) -> None:
    packed = compress(codec, payload(gauge(RATE, point(1.5))))
    assert parse(codec, packed, LIMIT) == Payload(
        [Point("org_apache_kafka_producer_record_send_rate", (), 1.5, is_counter=False, is_delta=False)], 0
    )


def test_kinds_of_metrics() -> None:
    found = points(
        gauge("g", point(1.0)),
        counter("c", point(2.0)),
        counter("c.cumulative", point(3.0), delta=False),
        counter("up.and.down", point(-4.0), monotonic=False),
    )
    assert [(it.name, it.value, it.is_counter, it.is_delta) for it in found] == [
        ("g", 1.0, False, False),
        ("c", 2.0, True, True),
        ("c_cumulative", 3.0, True, False),
        ("up_and_down", -4.0, False, True),
    ]


def test_a_name_is_the_same_with_and_without_total() -> None:
    found = points(
        gauge("x.total", point(1.0)),
        counter("x", point(2.0)),
        counter("x_total", point(3.0)),
        gauge("x.total.total", point(4.0)),
    )
    assert [it.name for it in found] == ["x"] * 4


def test_integers_are_numbers_too() -> None:
    (found,) = points(gauge("g", NumberDataPoint(as_int=7)))
    assert found.value == 7.0


def test_labels_are_those_of_the_client_and_of_the_point() -> None:
    (found,) = points(gauge("g", point(1.0, topic="t", client_rack="b")), client_rack="a", group_id="g")
    assert found.labels == (("client_rack", "b"), ("group_id", "g"), ("topic", "t"))


def test_label_values_are_strings() -> None:
    values = {
        "text": AnyValue(string_value="x"),
        "flag": AnyValue(bool_value=True),
        "whole": AnyValue(int_value=-3),
        "part": AnyValue(double_value=0.5),
        "bytes": AnyValue(bytes_value=b"x"),
        "nothing": AnyValue(),
    }
    attributes = [KeyValue(key=key, value=value) for key, value in values.items()]
    (found,) = points(gauge("g", NumberDataPoint(as_double=1, attributes=attributes)))
    assert dict(found.labels) == {
        "text": "x", "flag": "true", "whole": "-3", "part": "0.5", "bytes": "", "nothing": ""
    }  # fmt: skip


def test_unsupported_metrics_are_counted() -> None:
    data = payload(
        gauge("kafka.server.anything", point(1.0)),
        gauge("barnabas_network", point(1.0)),
        gauge("process.cpu", point(1.0)),
        gauge("__name__", point(1.0)),
        gauge("", point(1.0)),
        gauge("9lives", point(1.0)),
        gauge(".total", point(1.0)),
        counter("_total_total", point(1.0)),
        counter("c", point(-1.0), point(math.nan), point(math.inf)),
        counter("d", point(math.nan), monotonic=False),
        Metric(name="h", histogram=Histogram()),
        Metric(name="s", summary=Summary()),
        Metric(name="nothing"),
    )
    assert parse(NONE, data, LIMIT) == Payload([], 15)


def test_unusual_gauges_are_shown() -> None:
    found = points(gauge("g", point(math.nan), point(-math.inf)))
    assert math.isnan(found[0].value)
    assert found[1].value == -math.inf


def test_names_and_labels_are_truncated() -> None:
    labels = {f"label{number:03}": "v" * 1000 for number in range(100)}
    (found,) = points(gauge("n" * 1000, point(1.0, **labels)))
    assert len(found.name) == MAX_TEXT_LENGTH
    assert len(found.labels) == MAX_LABELS
    assert {len(value) for _, value in found.labels} == {MAX_TEXT_LENGTH}


def test_a_client_cannot_set_its_identity_labels() -> None:
    (found,) = points(gauge("g", point(1.0, **{"client.id": "x", "__a": "x", "1a": "x", "": "x", "ok": "x"})))
    assert found.labels == (("ok", "x"),)


def test_the_number_of_points_is_limited() -> None:
    data = payload(gauge("g", *(point(float(number)) for number in range(MAX_POINTS + 3))))
    found = parse(NONE, data, LIMIT)
    assert (len(found.points), found.dropped) == (MAX_POINTS, 3)


def test_a_decompression_bomb_is_rejected() -> None:
    bomb = zlib.compress(bytes(64 << 20), wbits=31)
    with pytest.raises(MalformedTelemetryError, match="unpacks to more"):
        unpack(CompressionType.GZIP, bomb, LIMIT)


@pytest.mark.parametrize("codec", [*CompressionType, 5, -1, 99])
@settings(deadline=None)
@given(data=st.binary(max_size=200))
def test_any_bytes_decode_to_metrics_or_are_malformed(codec: int, data: bytes) -> None:
    try:
        found = parse(codec, data, LIMIT)
    except MalformedTelemetryError:
        return
    assert isinstance(found, Payload)


@settings(deadline=None)
@given(st.integers(0, 200), st.integers(0, 255))
def test_a_damaged_payload_decodes_to_metrics_or_is_malformed(at: int, byte: int) -> None:
    data = bytearray(payload(gauge(RATE, point(1.0, topic="t")), counter("c", point(2.0)), client_rack="a"))
    data[at % len(data)] = byte
    try:
        found = parse(NONE, bytes(data), LIMIT)
    except MalformedTelemetryError:
        return
    assert len(found.points) + found.dropped <= len(data)


def test_deep_nesting_is_malformed() -> None:
    """An attribute that is a list of lists of lists; protobuf stops at a hundred."""
    value = b"\x0a\x01x"
    for _ in range(5_000):
        inner = b"\x0a" + _varint(len(value)) + value
        value = b"\x2a" + _varint(len(inner)) + inner
    key_value = b"\x12" + _varint(len(value)) + value
    resource = b"\x0a" + _varint(len(key_value)) + key_value
    resource_metrics = b"\x0a" + _varint(len(resource)) + resource
    data = b"\x0a" + _varint(len(resource_metrics)) + resource_metrics
    with pytest.raises(MalformedTelemetryError):
        parse(NONE, data, LIMIT)


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
