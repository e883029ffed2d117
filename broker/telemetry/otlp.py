"""Metrics that clients push: OTLP's MetricsData (OpenTelemetry 1.x, protobuf) into numbers with a name and labels.

What comes in is anybody's bytes, so all that is taken of it is bounded; what cannot be shown is left out and counted.
Protobuf is imported with the first push: it costs 60 ms and 6 MiB, which a broker without subscriptions need not pay.
Source: KIP-714, opentelemetry/proto/metrics/v1/metrics.proto.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from barnabas.protocol.records.compression import CompressionType, decompress
from barnabas.protocol.records.errors import CorruptRecordError, UnsupportedCompressionError

if TYPE_CHECKING:
    from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
    from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric, MetricsData, NumberDataPoint

MAX_POINTS: Final = 5_000
"""Of one push; what comes after them is left out."""
MAX_LABELS: Final = 12
MAX_TEXT_LENGTH: Final = 256
"""Of names and of values of labels; longer ones are cut."""

_DELTA: Final = 1
_OTHER_LETTERS: Final = re.compile(r"[^a-zA-Z0-9_]")
_RESERVED_NAMES: Final = ("barnabas_", "kafka_", "process_", "python_", "__")
"""How the broker's own metrics begin, and what Prometheus keeps for itself."""
_TOTAL: Final = "_total"
"""What the name of a counter ends with where it is shown, and no other name."""
RESERVED_LABELS: Final = frozenset({"client_id", "client_instance_id"})


class MalformedTelemetryError(Exception):
    """These bytes are no metrics: they cannot be unpacked, unpack to too much, or are no OTLP."""


class Point(NamedTuple):
    """A value. A counter only grows (its name has no `_total` yet); with `is_delta`, `value` is what was added."""

    name: str
    labels: tuple[tuple[str, str], ...]
    value: float
    is_counter: bool
    is_delta: bool


class Payload(NamedTuple):
    """What one push holds: points, and how many there were beside them that cannot be shown."""

    points: list[Point]
    dropped: int


def parse(codec: int, data: bytes, max_bytes: int) -> Payload:
    """The metrics of one push, packed by `codec`. Raises MalformedTelemetryError, also beyond `max_bytes` unpacked."""
    points: list[Point] = []
    dropped = 0
    for point in _points(_message(unpack(codec, data, max_bytes))):
        if point is None or len(points) == MAX_POINTS:
            dropped += 1
        else:
            points.append(point)
    return Payload(points, dropped)


def unpack(codec: int, data: bytes, max_bytes: int) -> bytes:
    """What `codec` has packed, whatever it is. Raises MalformedTelemetryError."""
    try:
        return decompress(CompressionType.of(codec), data, max_bytes)
    except (CorruptRecordError, UnsupportedCompressionError) as error:
        raise MalformedTelemetryError(str(error)) from error


def _message(data: bytes) -> MetricsData:
    from google.protobuf.message import DecodeError
    from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData

    message = MetricsData()
    try:
        message.ParseFromString(data)
    except DecodeError as error:
        raise MalformedTelemetryError("these bytes are no MetricsData") from error
    return message


def _points(message: MetricsData) -> Iterator[Point | None]:
    """Every data point, None for one that cannot be shown."""
    for resource in message.resource_metrics:
        shared = resource.resource.attributes
        for scope in resource.scope_metrics:
            for metric in scope.metrics:
                yield from _points_of(metric, shared)


def _points_of(metric: Metric, shared: Iterable[KeyValue]) -> Iterator[Point | None]:
    name = _name(metric.name)
    kind = metric.WhichOneof("data")
    if kind == "gauge":
        for point in metric.gauge.data_points:
            yield _point(name, point, shared, is_counter=False, is_delta=False)
    elif kind == "sum":
        is_delta = metric.sum.aggregation_temporality == _DELTA
        for point in metric.sum.data_points:
            yield _point(name, point, shared, is_counter=metric.sum.is_monotonic, is_delta=is_delta)
    else:  # histograms and summaries: no client sends any, and nothing of them could be shown as one number
        yield None


def _point(
    name: str | None, point: NumberDataPoint, shared: Iterable[KeyValue], *, is_counter: bool, is_delta: bool
) -> Point | None:
    value = float(point.as_int if point.WhichOneof("value") == "as_int" else point.as_double)
    adds_up = is_counter or is_delta
    if name is None or (adds_up and not math.isfinite(value)) or (is_counter and value < 0):
        return None
    labels = _labels([*shared, *point.attributes])
    return Point(name, labels, value, is_counter, is_delta)


def _name(name: str) -> str | None:
    """The name as Prometheus spells it; None for none, and for one that could pass for a metric of the broker's own."""
    spelled = _OTHER_LETTERS.sub("_", name[:MAX_TEXT_LENGTH])
    while spelled.endswith(_TOTAL):
        spelled = spelled.removesuffix(_TOTAL)
    if not spelled or spelled[0].isdigit() or spelled.startswith(_RESERVED_NAMES):
        return None
    return spelled


def _labels(attributes: list[KeyValue]) -> tuple[tuple[str, str], ...]:
    """Labels sorted by name; of two of the same name the last one holds, so the data point's and not the client's."""
    labels: dict[str, str] = {}
    for attribute in attributes[: MAX_LABELS * 4]:
        name = _OTHER_LETTERS.sub("_", attribute.key[:MAX_TEXT_LENGTH])
        if name and not name[0].isdigit() and not name.startswith("__") and name not in RESERVED_LABELS:
            labels[name] = _text(attribute.value)
    return tuple(sorted(labels.items())[:MAX_LABELS])


def _text(value: AnyValue) -> str:
    match value.WhichOneof("value"):
        case "string_value":
            return value.string_value[:MAX_TEXT_LENGTH]
        case "bool_value":
            return str(value.bool_value).lower()
        case "int_value":
            return str(value.int_value)
        case "double_value":
            return str(value.double_value)
        case _:
            return ""
