"""Metrics of the HTTP port itself: logins that failed."""

from __future__ import annotations

from collections.abc import Callable

from barnabas.broker.metrics.prometheus import Metrics


def add_http_logins(metrics: Metrics, failures: Callable[[], int]) -> None:
    """`failures` returns how many logins have failed."""
    metrics.add_value("barnabas_http_failed_logins_total", failures)
