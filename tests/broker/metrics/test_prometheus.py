"""Metric families and sources, and the text format of Prometheus."""

from __future__ import annotations

import subprocess
import sys
from array import array
from collections.abc import Iterator
from functools import partial
from wsgiref.util import setup_testing_defaults

import pytest
from prometheus_client.parser import text_string_to_metric_families

from barnabas.broker.metrics.families import FAMILIES, Kind
from barnabas.broker.metrics.prometheus import (
    SAMPLES_PER_STEP,
    Metrics,
    Sample,
    exposition,
    quantiles,
)
from tests.broker.metrics.snapshots import snapshot_at_once

SIZE = "kafka_log_log_size"
LEADERS = "kafka_server_replicamanager_leadercount"


def scrape(metrics: Metrics, accept: str = "text/plain") -> str:
    environ = {"HTTP_ACCEPT": accept}
    setup_testing_defaults(environ)
    app = exposition(lambda: snapshot_at_once(metrics))
    return b"".join(app(environ, lambda *_: lambda _: None)).decode()


def lines(metrics: Metrics) -> list[str]:
    return [line for line in scrape(metrics).splitlines() if line.startswith(("kafka_", "barnabas_"))]


def test_a_value_has_its_metric_name() -> None:
    metrics = Metrics()
    metrics.add_value(LEADERS, lambda: 3)
    assert lines(metrics) == [f"{LEADERS} 3.0"]
    assert f"# HELP {LEADERS} {FAMILIES[LEADERS].help}" in scrape(metrics)
    assert f"# TYPE {LEADERS} gauge" in scrape(metrics)


def test_labels_are_in_order_and_left_out_if_empty() -> None:
    metrics = Metrics()
    metrics.add(SIZE, lambda: [(("t", "0"), 5), (("t", "1"), 6)])
    metrics.add("kafka_server_brokertopicmetrics_bytesin_total", lambda: [((), 11), (('odd"name',), 11)])
    assert lines(metrics) == [
        'kafka_log_log_size{partition="0",topic="t"} 5.0',
        'kafka_log_log_size{partition="1",topic="t"} 6.0',
        "kafka_server_brokertopicmetrics_bytesin_total 11.0",
        'kafka_server_brokertopicmetrics_bytesin_total{topic="odd\\"name"} 11.0',
    ]
    assert "# TYPE kafka_server_brokertopicmetrics_bytesin_total counter" in scrape(metrics)


def test_each_of_several_items_is_a_sample() -> None:
    metrics = Metrics()
    sizes = {"a": 1, "b": 2}
    metrics.add_each(SIZE, lambda: sizes, lambda topic: (topic, "0"), sizes.__getitem__)
    assert lines(metrics) == [
        'kafka_log_log_size{partition="0",topic="a"} 1.0',
        'kafka_log_log_size{partition="0",topic="b"} 2.0',
    ]


def test_a_summary_has_quantiles_and_a_count() -> None:
    metrics = Metrics()
    name = "kafka_network_requestmetrics_totaltimems"
    metrics.add(name, lambda: [(("Produce",), 5000, array("d", range(101)))])
    assert lines(metrics) == [
        f'{name}{{quantile="0.50",request="Produce"}} 50.0',
        f'{name}{{quantile="0.75",request="Produce"}} 75.0',
        f'{name}{{quantile="0.95",request="Produce"}} 95.0',
        f'{name}{{quantile="0.98",request="Produce"}} 98.0',
        f'{name}{{quantile="0.99",request="Produce"}} 99.0',
        f'{name}{{quantile="0.999",request="Produce"}} 99.9',
        f'{name}_count{{request="Produce"}} 5000.0',
    ]


def test_quantiles_of_one_value_and_of_no_values() -> None:
    assert quantiles(array("d")) == []
    assert {value for _, value in quantiles(array("d", [7]))} == {7}


def test_a_metric_without_samples_is_left_out() -> None:
    metrics = Metrics()
    metrics.add(SIZE, list)
    assert lines(metrics) == []


@pytest.mark.skipif(sys.platform != "linux", reason="prometheus_client looks into /proc")
def test_process_metrics_are_included() -> None:
    text = scrape(Metrics())
    for name in ("process_open_fds", "process_cpu_seconds_total", "process_resident_memory_bytes"):
        assert f"\n{name} " in text


def test_openmetrics_is_supported() -> None:
    metrics = Metrics()
    metrics.add("kafka_server_brokertopicmetrics_bytesin_total", lambda: [((), 11)])
    metrics.add("kafka_network_requestmetrics_totaltimems", lambda: [(("Fetch",), 1, array("d", [1]))])
    text = scrape(metrics, accept="application/openmetrics-text; version=1.0.0")
    assert text.endswith("# EOF\n")
    assert "kafka_server_brokertopicmetrics_bytesin_total 11.0" in text


def test_the_output_can_be_parsed() -> None:
    metrics = Metrics()
    for name, family in FAMILIES.items():
        labels = tuple(f"value-{n}" for n in range(len(family.labels)))
        if family.kind is Kind.SUMMARY:
            metrics.add(name, partial(list, [(labels, 2, array("d", [1, 2]))]))
        else:
            metrics.add(name, partial(list, [(labels, 1.0)]))
    parsed = {
        sample.name for family in text_string_to_metric_families(scrape(metrics)) for sample in family.samples
    }
    assert parsed >= set(FAMILIES)


def test_metric_names_are_declared_and_have_one_source() -> None:
    metrics = Metrics()
    with pytest.raises(AssertionError, match="not declared"):
        metrics.add_value("kafka_no_such_metric", lambda: 1)
    metrics.add_value(LEADERS, lambda: 1)
    with pytest.raises(AssertionError, match="two sources"):
        metrics.add_value(LEADERS, lambda: 1)


@pytest.mark.parametrize("family", FAMILIES.values(), ids=lambda family: family.name)
def test_every_family_has_a_description(family) -> None:  # type: ignore[no-untyped-def]
    assert family.help.endswith(".") or family.help.endswith("0 to 1.")
    assert len(family.help) > 10
    assert (family.kind is Kind.COUNTER) == family.name.endswith("_total")


def test_a_long_snapshot_yields_to_the_loop() -> None:
    def many() -> Iterator[Sample]:
        for n in range(3 * SAMPLES_PER_STEP):
            yield ("t", str(n)), n

    metrics = Metrics()
    metrics.add(SIZE, many)
    assert len(list(metrics.snapshot())) == 3


def test_prometheus_client_is_imported_only_on_demand() -> None:
    code = (
        "import sys; import barnabas.broker.metrics.prometheus, "
        "barnabas.broker.metrics.sources, barnabas.broker.probes, barnabas.broker.http.server;"
        "assert not {'prometheus_client', 'wsgiref', 'http.server'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
