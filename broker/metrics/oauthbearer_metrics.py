"""Metrics of listeners whose clients log in by OAUTHBEARER: the keys of their identity providers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from barnabas.broker.metrics.prometheus import Metrics, Sample

if TYPE_CHECKING:
    from barnabas.broker.network.listener_security import ListenerSecurity
    from barnabas.broker.security.sasl.jwks import ProviderKeys

Securities = Callable[[], Iterable[tuple[str, "ListenerSecurity"]]]


def add_oauthbearer(metrics: Metrics, securities: Securities) -> None:
    """`securities` returns those of the listeners that are secured, by the listeners' names."""

    def add(metric: str, read: Callable[[ProviderKeys], float]) -> None:
        def source() -> Iterator[Sample]:
            for listener, security in list(securities()):
                keys = keys_of(security)
                if keys is not None:
                    yield (listener,), read(keys)

        metrics.add(f"barnabas_oauthbearer_{metric}", source)

    add("jwks_age_seconds", lambda keys: (keys.age_ms() or 0) / 1000)
    add("jwks_keys", lambda keys: len(keys.current))
    add("jwks_refresh_failures_total", lambda keys: keys.failures)


def keys_of(security: ListenerSecurity) -> ProviderKeys | None:
    """The keys that a listener checks tokens with; None where it checks none, or by other means."""
    mechanism = None if security.sasl is None else security.sasl.mechanisms.get("OAUTHBEARER")
    keys: ProviderKeys | None = getattr(mechanism, "keys", None)
    return keys
