"""The metrics of quotas: what users and client ids use, and how long they are throttled.

Names of users and client ids are the clients' choice: of each type of quota only the MAX_SERIES that were used last are
shown. Source: the MBeans of ClientQuotaManager and its subclasses, ConnectionQuotas.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from barnabas.broker.metrics.families import LISTENER_PREFIX, QUOTA_PREFIX, REQUEST_PREFIX
from barnabas.broker.quotas.quota_types import QuotaType

if TYPE_CHECKING:
    from barnabas.broker.metrics.prometheus import Distribution, Metrics, Sample
    from barnabas.broker.network.connection_quotas import ConnectionQuotas
    from barnabas.broker.quotas.client_quotas import ClientCounter
    from barnabas.broker.quotas.quota_managers import QuotaManagers

MAX_SERIES: Final = 1000
MAX_LABEL_CHARACTERS: Final = 256

_RATES: Final = {
    QuotaType.PRODUCE: "byte_rate",
    QuotaType.FETCH: "byte_rate",
    QuotaType.REQUEST: "request_time",
    QuotaType.CONTROLLER_MUTATION: "mutation_rate",
}

Read = Callable[["ClientCounter", int], float | None]
"""The value of a counter at a time; None without one."""


def add_quotas(metrics: Metrics, quotas: QuotaManagers) -> None:
    """What clients use of their quotas. Without quotas there are no series."""

    def source(types: tuple[QuotaType, ...], read: Read) -> Callable[[], Iterator[Sample]]:
        def samples() -> Iterator[Sample]:
            now_ms = quotas.now_ms()
            for manager in quotas.each():
                if manager.type in types:
                    for labels, counter in manager.latest(MAX_SERIES):
                        value = read(counter, now_ms)
                        if value is not None:
                            yield (manager.type.value, *map(_shortened, labels)), value

        return samples

    for name in ("byte_rate", "request_time", "mutation_rate"):
        types = tuple(each for each, rate in _RATES.items() if rate == name)
        metrics.add(f"{QUOTA_PREFIX}_{name}", source(types, lambda it, now_ms: it.rate.measure(now_ms)))
    metrics.add(f"{QUOTA_PREFIX}_tokens", source((QuotaType.CONTROLLER_MUTATION,), _tokens))
    metrics.add(f"{QUOTA_PREFIX}_throttle_time", source(tuple(QuotaType), _throttle_time))
    metrics.add(
        f"{QUOTA_PREFIX}_queue_size", lambda: [((it.type.value,), it.throttled_now) for it in quotas.each()]
    )
    metrics.add(f"{QUOTA_PREFIX}_counters", lambda: [((it.type.value,), len(it)) for it in quotas.each()])
    metrics.add_value(f"{QUOTA_PREFIX}_exempt_request_time", quotas.exempt_percent)
    metrics.add(f"{REQUEST_PREFIX}_throttletimems", lambda: _throttle_times(quotas))


def _shortened(name: str) -> str:
    """The name, or its beginning and a digest, so that no two series have the same labels."""
    if len(name) <= MAX_LABEL_CHARACTERS:
        return name
    import hashlib  # not for the start of every broker

    digest = hashlib.sha256(name.encode(errors="surrogatepass")).hexdigest()
    return f"{name[: MAX_LABEL_CHARACTERS - len(digest)]}{digest}"


def _tokens(counter: ClientCounter, now_ms: int) -> float | None:
    return None if counter.bucket is None else counter.bucket.tokens(counter.limit, now_ms)


def _throttle_time(counter: ClientCounter, now_ms: int) -> float | None:
    return None if counter.throttled is None else counter.throttled.average_ms(now_ms)


def _throttle_times(quotas: QuotaManagers) -> Iterator[Distribution]:
    for api, times in list(quotas.throttle_times.items()):
        name = "".join(word.capitalize() for word in api.split("_"))
        yield (name,), times.count, array("d", times.values())


def add_connection_rates(metrics: Metrics, quotas: ConnectionQuotas) -> None:
    """How fast connections come, and how long they wait for it."""
    prefix = LISTENER_PREFIX
    metrics.add(
        f"{prefix}_connection_accept_rate",
        lambda: [((name,), rate) for name, rate in quotas.accept_rates() if name is not None],
    )
    metrics.add(
        f"{prefix}_broker_connection_accept_rate",
        lambda: [((), rate) for name, rate in quotas.accept_rates() if name is None],
    )
    metrics.add(
        f"{prefix}_connection_accept_throttle_time",
        lambda: [((name,), waited) for name, waited, _ in quotas.accept_throttle_times_ms()],
    )
    metrics.add(
        f"{prefix}_ip_connection_accept_throttle_time",
        lambda: [((name,), held) for name, _, held in quotas.accept_throttle_times_ms()],
    )
