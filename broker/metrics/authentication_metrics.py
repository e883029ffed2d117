"""The sources of metrics about authentication: how often it succeeds and fails on each listener, and what it holds."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from barnabas.broker.metrics.families import LISTENER_PREFIX
from barnabas.broker.metrics.prometheus import Metrics, Sample
from barnabas.broker.probes import ListenerProbe, SocketServerProbe

if TYPE_CHECKING:
    from barnabas.broker.network.authentication import Authentications

PROCESSOR: Final = "0"
"""There is one."""

_WITH_RATES: Final = {
    "successful_authentication": "successful_authentications",
    "failed_authentication": "failed_authentications",
    "successful_reauthentication": "successful_reauthentications",
    "failed_reauthentication": "failed_reauthentications",
}


def add_authentications(
    metrics: Metrics, probe: SocketServerProbe, under_way: Callable[[], Authentications | None]
) -> None:
    """`under_way` returns the connections that have not authenticated; None where no listener asks for that."""

    def add(metric: str, read: Callable[[ListenerProbe], float]) -> None:
        def source() -> list[Sample]:
            return [((name, PROCESSOR), read(listener)) for name, listener in probe.listeners.items()]

        metrics.add(f"{LISTENER_PREFIX}_{metric}", source)

    def add_count(metric: str, field: str) -> None:
        add(f"{metric}_total", lambda listener: getattr(listener, field))
        add(f"{metric}_rate", lambda listener: listener.per_second(field))

    for metric, field in _WITH_RATES.items():
        add_count(metric, field)
    add("successful_authentication_no_reauth_total", lambda it: it.successful_authentications_no_reauth)
    add("expired_connections_killed_count", lambda it: it.expired_connections_killed)
    add("reauthentication_latency_avg", lambda it: _average(list(it.reauthentication_times.values())))
    add("reauthentication_latency_max", lambda it: max(it.reauthentication_times.values(), default=0.0))
    metrics.add_value(
        "kafka_network_socketserver_expiredconnectionskilledcount",
        lambda: sum(listener.expired_connections_killed for listener in probe.listeners.values()),
    )
    metrics.add_value("barnabas_network_unauthenticated_connections", lambda: len(under_way() or ()))
    metrics.add_value(
        "barnabas_network_unauthenticated_memory_bytes",
        lambda: 0 if (it := under_way()) is None else it.memory.used_bytes,
    )


def _average(values: list[float]) -> float:
    return sum(values) / len(values) if values else 0.0
