"""Metrics of listeners that ask who connects: clients that were let in or not, ciphers, certificates."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from barnabas.broker.metrics.families import LISTENER_PREFIX
from barnabas.broker.metrics.prometheus import Metrics, Sample

if TYPE_CHECKING:
    from barnabas.broker.network.listener_security import ListenerSecurity, SecurityProbe
    from barnabas.broker.security.tls_listener import TlsListener

Securities = Callable[[], Iterable["ListenerSecurity"]]


def add_security(metrics: Metrics, securities: Securities) -> None:
    """`securities` returns those of the listeners that are protected."""

    def ciphers() -> Iterator[Sample]:
        for security in list(securities()):
            for (cipher, protocol), count in list(security.probe.by_cipher.items()):
                yield (cipher, protocol, security.name), count

    metrics.add(f"{LISTENER_PREFIX}_connections_cipher", ciphers)
    _add_probe(metrics, securities, "successful", lambda probe: probe.successful_authentications)
    _add_probe(metrics, securities, "failed", lambda probe: probe.failed_authentications)
    _add_tls(metrics, securities, "certificate_expiry_timestamp_seconds", lambda tls: tls.expires_s)
    _add_tls(metrics, securities, "reloads_total", lambda tls: tls.reloads)
    _add_tls(metrics, securities, "reload_failures_total", lambda tls: tls.reload_failures)


def _add_probe(
    metrics: Metrics, securities: Securities, which: str, read: Callable[[SecurityProbe], float]
) -> None:
    metrics.add(
        f"{LISTENER_PREFIX}_{which}_authentication_total",
        lambda: [((security.name, "0"), read(security.probe)) for security in list(securities())],
    )


def _add_tls(
    metrics: Metrics, securities: Securities, metric: str, read: Callable[[TlsListener], float]
) -> None:
    def source() -> Iterator[Sample]:
        for security in list(securities()):
            if security.tls is not None:
                yield (security.name,), read(security.tls)

    metrics.add(f"barnabas_tls_{metric}", source)
