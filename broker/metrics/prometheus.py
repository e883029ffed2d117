"""Metrics for a scrape by Prometheus: the sources of the values, and the exposition.

This is the only module that uses prometheus_client, and it imports that with the first scrape: it costs 60
ms and 5 MiB, which a broker that is never scraped does not pay.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from barnabas.broker.metrics.families import FAMILIES, QUANTILES, Family, Kind

if TYPE_CHECKING:
    from wsgiref.types import WSGIApplication

T = TypeVar("T")

Labels: TypeAlias = tuple[str | None, ...]

Sample: TypeAlias = tuple[Labels, float]
"""Label values, as many as apply (None for one in between that does not), and the value."""

Distribution: TypeAlias = tuple[Labels, int, "array[float]"]
"""Label values, how many values there have been, and the recent ones."""

Source: TypeAlias = Callable[[], Iterable[Sample] | Iterable[Distribution]]

OpenSource: TypeAlias = Callable[[], Iterable[tuple[Family, Iterable[Sample]]]]
"""Returns families that cannot be declared, such as those of clients' metrics."""

Snapshot: TypeAlias = list[tuple[Family, list[Any]]]
"""Families with samples (distributions for summaries), at the time of the scrape."""

SAMPLES_PER_STEP = 500


class Metrics:
    """The source of each metric. A metric without one is not shown."""

    def __init__(self) -> None:
        self._sources: dict[str, Source] = {}
        self._open_sources: list[OpenSource] = []

    def add(self, name: str, source: Source) -> None:
        """Adds the source of the samples of a metric with labels.

        It is called on the event loop, and may be iterated over several of its turns: it must iterate over copies of
        what can change.
        """
        assert name in FAMILIES, f"{name} is not declared in families"
        assert name not in self._sources, f"{name} has two sources"
        self._sources[name] = source

    def add_families(self, source: OpenSource) -> None:
        """Adds a source of families with their samples, with the rules of `add`; none may have a declared name."""
        self._open_sources.append(source)

    def add_value(self, name: str, read: Callable[[], float]) -> None:
        """Adds the source of a metric without labels."""
        self.add(name, lambda: [((), read())])

    def add_each(
        self,
        name: str,
        items: Callable[[], Iterable[T]],
        labels: Callable[[T], Labels],
        read: Callable[[T], float],
    ) -> None:
        """Adds the source of a metric that has one sample for each of `items`."""

        def source() -> Iterator[Sample]:
            for item in list(items()):
                yield labels(item), read(item)

        self.add(name, source)

    def snapshot(self) -> Generator[None, None, Snapshot]:
        """Reads all sources, in steps between which the event loop does other work; returns their samples."""
        taken: Snapshot = []
        count = 0
        for family, source in self._families():
            samples: list[Any] = []
            for sample in source:
                samples.append(sample)
                count += 1
                if count % SAMPLES_PER_STEP == 0:
                    yield
            taken.append((family, samples))
        return taken

    def _families(self) -> Iterator[tuple[Family, Iterable[Any]]]:
        for name, source in self._sources.items():
            yield FAMILIES[name], source()
        for open_source in self._open_sources:
            yield from open_source()


def exposition(take_snapshot: Callable[[], Snapshot]) -> WSGIApplication:
    """The WSGI application behind /metrics; `take_snapshot` is called once for each scrape, in the server's thread."""
    import prometheus_client
    from prometheus_client.registry import Collector

    class BrokerCollector(Collector):
        def collect(self) -> Iterator[prometheus_client.Metric]:
            for family, samples in take_snapshot():
                if samples:
                    yield _to_metric(family, samples)

    registry = prometheus_client.CollectorRegistry(auto_describe=False)
    prometheus_client.ProcessCollector(registry=registry)
    registry.register(BrokerCollector())
    return prometheus_client.make_wsgi_app(registry)


def _to_metric(family: Family, samples: list[Any]) -> Any:
    from prometheus_client import Metric

    metric = Metric(family.name.removesuffix("_total"), family.help, family.kind.value)
    if family.kind is Kind.SUMMARY:
        for values, count, recent in samples:
            labels = dict(zip(family.labels, values, strict=False))
            for quantile, value in quantiles(recent):
                metric.add_sample(family.name, {**labels, "quantile": quantile}, value)
            metric.add_sample(f"{family.name}_count", labels, count)
    else:
        for values, value in samples:
            given = zip(family.labels, values, strict=False)
            metric.add_sample(family.name, {name: it for name, it in given if it is not None}, value)
    return metric


def quantiles(values: array[float]) -> list[tuple[str, float]]:
    """The QUANTILES of `values`, each interpolated between its two neighbours."""
    if not values:
        return []
    ordered = sorted(values)
    result = []
    for quantile in QUANTILES:
        position = float(quantile) * (len(ordered) - 1)
        below = int(position)
        above = min(below + 1, len(ordered) - 1)
        result.append((quantile, ordered[below] + (ordered[above] - ordered[below]) * (position - below)))
    return result
