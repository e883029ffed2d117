"""Metrics of client metrics: what clients pushed, and how the taking of it goes."""

from __future__ import annotations

from barnabas.broker.metrics.families import CLIENT_METRICS_PREFIX
from barnabas.broker.metrics.prometheus import Metrics, Sample
from barnabas.broker.telemetry.client_metrics import ClientMetricsManager


def add_client_metrics(metrics: Metrics, manager: ClientMetricsManager) -> None:
    """How many clients push, and with what outcome; with a store, also all that they pushed."""
    store, prefix = manager.store, CLIENT_METRICS_PREFIX

    def dropped() -> list[Sample]:
        return [] if store is None else [((reason,), count) for reason, count in store.dropped.items()]

    metrics.add_value(f"{prefix}_clients", manager.client_count)
    metrics.add(f"{prefix}_pushes_total", lambda: [((code,), n) for code, n in manager.pushes.items()])
    metrics.add_value(f"{prefix}_series", lambda: 0 if store is None else store.series_count)
    metrics.add_value(f"{prefix}_series_limit", lambda: 0 if store is None else store.max_series)
    metrics.add(f"{prefix}_dropped_points_total", dropped)
    if store is not None:
        metrics.add_families(store.families)
