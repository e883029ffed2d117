"""ClientMetricsStore: the newest values that clients pushed, bounded in number, for /metrics.

A client's series stay for a while after its last push, so that the last values of a client that ends are scraped too.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from barnabas.broker.metrics.families import Family, Kind
from barnabas.broker.telemetry.otlp import Payload, Point
from barnabas.broker.waiting.timer import Timer, TimerHandle
from barnabas.config.catalogue.barnabas import BARNABAS_CLIENT_METRICS_MAX_SERIES
from barnabas.protocol.wire import Uuid

logger = logging.getLogger("barnabas.telemetry")

MAX_SERIES_OF_A_CLIENT: Final = 2_000
"""So that one client, or one that pretends, leaves room for others."""

_CLIENT_LABELS: Final = ("client_id", "client_instance_id")

Labels = tuple[tuple[str, str], ...]
SeriesKey = tuple[Uuid, Labels]
ShownSample = tuple[tuple[str | None, ...], float]


class PushingClient(NamedTuple):
    """The client of a push, in texts that may be shown."""

    instance_id: Uuid
    instance_text: str
    client_id: str


class _FamilyOfClients:
    """All series of one name."""

    __slots__ = ("kind", "values")

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        self.values: dict[SeriesKey, float] = {}


class _Client:
    __slots__ = ("client", "expiry", "series")

    def __init__(self, client: PushingClient, expiry: TimerHandle) -> None:
        self.client = client
        self.expiry = expiry
        self.series: set[tuple[str, SeriesKey]] = set()


class ClientMetricsStore:
    """Stores points and returns families. Runs on the event loop."""

    def __init__(self, max_series: int, timer: Timer) -> None:
        self.max_series = max_series
        self.series_count = 0
        self.dropped: Counter[str] = Counter()
        """Points that are not shown, by the reason: not showable, of another kind, no room."""
        self._timer = timer
        self._families: dict[str, _FamilyOfClients] = {}  # by names without _total: each is of one kind
        self._clients: dict[Uuid, _Client] = {}
        self._is_full = False

    def receive(self, client: PushingClient, payload: Payload, keep_ms: int) -> None:
        """Stores one push; the client's series are forgotten `keep_ms` after it, unless another comes."""
        self.dropped["not showable"] += payload.dropped
        entry = self._entry(client, keep_ms)
        for point in payload.points:
            reason = self._take(entry, point)
            if reason is not None:
                self.dropped[reason] += 1
        if not entry.series:
            self._forget(client.instance_id)

    def client_count(self) -> int:
        return len(self._clients)

    def families(self) -> Iterator[tuple[Family, Iterator[ShownSample]]]:
        """Each family with its samples; a label that a series lacks is None.

        Clients may push and be forgotten between two families, so that a scrape does not block the loop.
        """
        for name, family in list(self._families.items()):
            series = list(family.values.items())
            names = sorted({label for (_, labels), _ in series for label, _ in labels})
            shown = f"{name}_total" if family.kind is Kind.COUNTER else name
            described = Family(shown, family.kind, [*_CLIENT_LABELS, *names], "Pushed by clients (KIP-714).")
            yield described, self._samples(series, names)

    def _samples(
        self, series: Sequence[tuple[SeriesKey, float]], names: Sequence[str]
    ) -> Iterator[ShownSample]:
        for (instance_id, labels), value in series:
            entry = self._clients.get(instance_id)
            if entry is not None:
                client = entry.client
                yield (client.client_id, client.instance_text, *map(dict(labels).get, names)), value

    def _entry(self, client: PushingClient, keep_ms: int) -> _Client:
        expiry = self._timer.call_at(
            self._timer.time() + keep_ms / 1000, lambda: self._forget(client.instance_id)
        )
        entry = self._clients.get(client.instance_id)
        if entry is None:
            entry = self._clients[client.instance_id] = _Client(client, expiry)
        else:
            entry.expiry.cancel()
            entry.client, entry.expiry = client, expiry
        return entry

    def _take(self, entry: _Client, point: Point) -> str | None:
        """Why the point is not shown; None when it is."""
        family = self._families.get(point.name)
        kind = Kind.COUNTER if point.is_counter else Kind.GAUGE
        if family is not None and family.kind is not kind:
            return "of another kind"
        key = (entry.client.instance_id, point.labels)
        if family is None or key not in family.values:
            if not self._has_room(entry):
                return "no room"
            if family is None:
                family = self._families[point.name] = _FamilyOfClients(kind)
            family.values[key] = 0.0
            entry.series.add((point.name, key))
            self.series_count += 1
        family.values[key] = family.values[key] + point.value if point.is_delta else point.value
        return None

    def _has_room(self, entry: _Client) -> bool:
        if len(entry.series) >= MAX_SERIES_OF_A_CLIENT:
            return False
        is_full = self.series_count >= self.max_series
        if is_full and not self._is_full:
            logger.warning(
                "clients push more than the %d series that %s allows; the rest is not shown",
                self.max_series,
                BARNABAS_CLIENT_METRICS_MAX_SERIES.name,
            )
        self._is_full = is_full
        return not is_full

    def _forget(self, instance_id: Uuid) -> None:
        entry = self._clients.pop(instance_id)
        entry.expiry.cancel()
        for name, key in entry.series:
            values = self._families[name].values
            del values[key]
            if not values:
                del self._families[name]
        self.series_count -= len(entry.series)
