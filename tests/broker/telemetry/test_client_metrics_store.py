"""What clients pushed is shown, within bounds, and for a while."""

from __future__ import annotations

import logging

import pytest
from prometheus_client.parser import text_string_to_metric_families

from barnabas.broker.metrics.families import Kind
from barnabas.broker.metrics.prometheus import Metrics, exposition
from barnabas.broker.telemetry import client_metrics_store
from barnabas.broker.telemetry.client_metrics_store import ClientMetricsStore, PushingClient
from barnabas.broker.telemetry.otlp import Payload, Point
from tests.broker.fakes import ManualTimer
from tests.broker.metrics.snapshots import snapshot_at_once

ALICE = PushingClient(b"a" * 16, "YWFh", "alice")
BOB = PushingClient(b"b" * 16, "YmJi", "bob")
KEEP_MS = 60_000


def gauge(name: str, value: float, **labels: str) -> Point:
    return Point(name, tuple(sorted(labels.items())), value, is_counter=False, is_delta=False)


def counter(name: str, value: float, *, delta: bool = True, **labels: str) -> Point:
    return Point(name, tuple(sorted(labels.items())), value, is_counter=True, is_delta=delta)


class StoreHarness:
    def __init__(self, max_series: int = 100) -> None:
        self.timer = ManualTimer()
        self.store = ClientMetricsStore(max_series, self.timer)

    def receive(self, client: PushingClient, *points: Point, dropped: int = 0) -> None:
        self.store.receive(client, Payload(list(points), dropped), KEEP_MS)

    def shown(self) -> dict[str, dict[tuple[str | None, ...], float]]:
        return {family.name: dict(samples) for family, samples in self.store.families()}


def test_the_newest_values_are_shown_and_deltas_add_up() -> None:
    harness = StoreHarness()
    harness.receive(ALICE, gauge("g", 1.0), counter("c", 2.0), counter("d", 5.0, delta=False))
    harness.receive(ALICE, gauge("g", 3.0), counter("c", 4.0), counter("d", 6.0, delta=False))
    key = ("alice", "YWFh")
    assert harness.shown() == {"g": {key: 3.0}, "c_total": {key: 6.0}, "d_total": {key: 6.0}}
    assert {family.name: family.kind for family, _ in harness.store.families()} == {
        "g": Kind.GAUGE,
        "c_total": Kind.COUNTER,
        "d_total": Kind.COUNTER,
    }


def test_clients_and_labels_make_series_of_their_own() -> None:
    harness = StoreHarness()
    harness.receive(ALICE, gauge("g", 1.0, topic="t"), gauge("g", 2.0, node="1"), gauge("g", 3.0))
    harness.receive(BOB, gauge("g", 4.0, topic="t"))
    assert harness.shown() == {
        "g": {
            ("alice", "YWFh", None, "t"): 1.0,
            ("alice", "YWFh", "1", None): 2.0,
            ("alice", "YWFh", None, None): 3.0,
            ("bob", "YmJi", None, "t"): 4.0,
        }
    }
    assert (harness.store.series_count, harness.store.client_count()) == (4, 2)


def test_a_client_is_forgotten_after_a_while_and_not_before() -> None:
    harness = StoreHarness()
    harness.receive(ALICE, gauge("g", 1.0))
    harness.timer.advance(40)
    harness.receive(ALICE, gauge("g", 2.0))
    harness.receive(BOB, gauge("g", 3.0))
    harness.timer.advance(59)
    assert len(harness.shown()["g"]) == 2
    harness.timer.advance(1)
    assert harness.shown() == {}
    assert (harness.store.series_count, harness.store.client_count()) == (0, 0)


def test_a_client_that_is_forgotten_during_a_scrape_is_left_out() -> None:
    harness = StoreHarness()
    harness.receive(ALICE, gauge("g", 1.0))
    harness.receive(BOB, gauge("g", 2.0), gauge("h", 2.0))
    families = harness.store.families()
    family, samples = next(families)
    assert (family.name, next(samples)) == ("g", (("alice", "YWFh"), 1.0))
    harness.timer.advance(60)
    assert list(samples) == []
    assert [list(rest) for _, rest in families] == [[]]


def test_there_is_a_limit_and_room_again(caplog: pytest.LogCaptureFixture) -> None:
    harness = StoreHarness(max_series=2)
    with caplog.at_level(logging.WARNING, "barnabas.telemetry"):
        harness.receive(ALICE, gauge("g", 1.0), gauge("h", 1.0), gauge("i", 1.0), gauge("j", 1.0))
        harness.receive(ALICE, gauge("g", 2.0), gauge("i", 1.0))
        harness.receive(BOB, gauge("g", 1.0))
    assert len(caplog.messages) == 1
    assert "barnabas.client.metrics.max.series" in caplog.text
    assert harness.shown() == {"g": {("alice", "YWFh"): 2.0}, "h": {("alice", "YWFh"): 1.0}}
    assert harness.store.dropped["no room"] == 4
    assert harness.store.client_count() == 1
    harness.timer.advance(60)
    harness.receive(BOB, gauge("g", 1.0))
    assert harness.shown() == {"g": {("bob", "YmJi"): 1.0}}


def test_no_client_takes_it_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_metrics_store, "MAX_SERIES_OF_A_CLIENT", 3)
    harness = StoreHarness()
    harness.receive(ALICE, *(gauge("g", 1.0, partition=str(number)) for number in range(10)))
    harness.receive(BOB, gauge("g", 1.0))
    assert harness.store.series_count == 4
    assert harness.store.dropped["no room"] == 7


def test_one_name_is_of_one_kind() -> None:
    harness = StoreHarness()
    harness.receive(ALICE, counter("x", 1.0))
    harness.receive(BOB, gauge("x", 9.0))
    assert harness.shown() == {"x_total": {("alice", "YWFh"): 1.0}}
    assert harness.store.dropped["of another kind"] == 1
    assert harness.store.client_count() == 1


def test_what_could_not_be_read_is_counted() -> None:
    harness = StoreHarness()
    harness.receive(ALICE, dropped=3)
    assert harness.store.dropped["not showable"] == 3
    assert harness.store.client_count() == 0


def test_a_scrape_can_be_parsed() -> None:
    harness, metrics = StoreHarness(), Metrics()
    metrics.add_families(harness.store.families)
    harness.receive(ALICE, gauge("g", 1.0, topic='quo"ted\\\n'), counter("c", 2.0), gauge("g", 2.0))
    app = exposition(lambda: snapshot_at_once(metrics))
    body = b"".join(app({"REQUEST_METHOD": "GET", "PATH_INFO": "/metrics"}, lambda *_: lambda _: None))
    samples = {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(body.decode())
        for sample in family.samples
    }
    client = (("client_id", "alice"), ("client_instance_id", "YWFh"))
    assert samples["g", (*client, ("topic", 'quo"ted\\\n'))] == 1.0
    assert samples["g", client] == 2.0
    assert samples["c_total", client] == 2.0
