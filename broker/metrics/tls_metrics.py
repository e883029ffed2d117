"""Metrics of listeners of TLS: ciphers of their connections, certificates, and how these are replaced."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from barnabas.broker.metrics.families import LISTENER_PREFIX
from barnabas.broker.metrics.prometheus import Metrics, Sample
from barnabas.broker.probes import SocketServerProbe

if TYPE_CHECKING:
    from barnabas.broker.network.listener_security import ListenerSecurity
    from barnabas.broker.security.tls_listener import TlsListener

Securities = Callable[[], Iterable["ListenerSecurity"]]


def add_tls(
    metrics: Metrics, probe: SocketServerProbe, securities: Securities, others: Sequence[TlsListener] = ()
) -> None:
    """`securities` returns those of the listeners that are secured; `others` have certificates, too."""

    def ciphers() -> Iterator[Sample]:
        for name, listener in list(probe.listeners.items()):
            for (cipher, protocol), count in list(listener.connections_by_cipher.items()):
                yield (cipher, protocol, name), count

    def add(metric: str, read: Callable[[TlsListener], float]) -> None:
        def source() -> Iterator[Sample]:
            for security in list(securities()):
                if security.tls is not None:
                    yield (security.tls.stores.name,), read(security.tls.stores)
            for stores in others:
                yield (stores.name,), read(stores)

        metrics.add(f"barnabas_tls_{metric}", source)

    metrics.add(f"{LISTENER_PREFIX}_connections_cipher", ciphers)
    add("certificate_expiry_timestamp_seconds", lambda stores: stores.expires_s)
    add("reloads_total", lambda stores: stores.reloads)
    add("reload_failures_total", lambda stores: stores.reload_failures)
