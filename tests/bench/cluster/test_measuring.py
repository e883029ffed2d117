"""Tests the processor time of nodes between two moments."""

from __future__ import annotations

import pytest

from bench import accounting, machine
from bench.cluster.measuring import Meter, Used
from tests.bench.cluster.fakes import fake_cluster


def test_processor_time_of_some_brokers() -> None:
    used = Used({1: 1.0, 2: 2.0, 3: 4.0, 101: 8.0}, clients=0.0, others=0.0)
    assert used.of() == 7.0
    assert used.of([2, 3]) == 6.0


def test_what_neither_nodes_nor_clients_used_is_the_share_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    busy, now = iter([10.0, 20.0]), iter([100.0, 105.0])
    monkeypatch.setattr(accounting, "machine_busy_s", lambda: next(busy))
    monkeypatch.setattr("bench.cluster.measuring.time.monotonic", lambda: next(now))
    monkeypatch.setattr(machine, "cores", lambda: 2)
    cluster = fake_cluster(cpu={1: 1.0, 101: 3.0})
    meter = Meter(cluster)
    cluster.cpu = {1: 4.0, 101: 4.0}
    used = meter.used(clients_s=1.0)
    assert used.nodes == {1: 3.0, 101: 1.0}
    assert used.others == pytest.approx(0.5)  # 5 of 10 s of two processors
