"""Payloads of PushTelemetry, made with OpenTelemetry's own classes."""

from __future__ import annotations

from collections.abc import Mapping

from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.metrics.v1.metrics_pb2 import (
    AggregationTemporality,
    Gauge,
    Metric,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.proto.resource.v1.resource_pb2 import Resource


def attributes(labels: Mapping[str, str]) -> list[KeyValue]:
    return [KeyValue(key=key, value=AnyValue(string_value=value)) for key, value in labels.items()]


def point(value: float, **labels: str) -> NumberDataPoint:
    return NumberDataPoint(as_double=value, attributes=attributes(labels))


def gauge(name: str, *points: NumberDataPoint) -> Metric:
    return Metric(name=name, gauge=Gauge(data_points=points))


def counter(name: str, *points: NumberDataPoint, delta: bool = True, monotonic: bool = True) -> Metric:
    temporality = (
        AggregationTemporality.AGGREGATION_TEMPORALITY_DELTA
        if delta
        else AggregationTemporality.AGGREGATION_TEMPORALITY_CUMULATIVE
    )
    sums = Sum(data_points=points, is_monotonic=monotonic, aggregation_temporality=temporality)
    return Metric(name=name, sum=sums)


def payload(*metrics: Metric, **resource: str) -> bytes:
    """The bytes of one push; `resource` has the labels that apply to all of it."""
    resource_metrics = ResourceMetrics(
        resource=Resource(attributes=attributes(resource)), scope_metrics=[ScopeMetrics(metrics=metrics)]
    )
    data: bytes = MetricsData(resource_metrics=[resource_metrics]).SerializeToString()
    return data
