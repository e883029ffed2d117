from __future__ import annotations

from barnabas.broker.metrics.http_metrics import add_http_logins
from barnabas.broker.metrics.prometheus import Metrics
from tests.broker.metrics.test_sources import values


def test_failed_logins_are_counted() -> None:
    metrics = Metrics()
    add_http_logins(metrics, lambda: 3)
    assert values(metrics, "barnabas_http_failed_logins_total") == {(): 3}
