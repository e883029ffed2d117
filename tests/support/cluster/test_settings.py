from __future__ import annotations

from pathlib import Path

import pytest

from barnabas.config.properties import read_properties
from tests.support.cluster.settings import (
    ClusterShape,
    Ports,
    broker_settings,
    controller_settings,
    rack_of,
    write_properties,
)

PORTS = {node: Ports(node * 10, node * 10 + 1) for node in range(1, 5)}
CONTROLLERS = {101: Ports(7, 0), 102: Ports(8, 0)}


@pytest.mark.parametrize(("brokers", "factor", "least"), [(2, 2, 1), (3, 3, 2), (4, 3, 2)])
def test_one_broker_may_be_gone(brokers: int, factor: int, least: int) -> None:
    shape = ClusterShape(CONTROLLERS, {node: PORTS[node] for node in range(1, brokers + 1)})
    assert (shape.replication_factor, shape.min_in_sync) == (factor, least)
    settings = broker_settings(shape, 1, [Path("/d")])
    assert settings["offsets.topic.replication.factor"] == str(factor)
    assert settings["transaction.state.log.min.isr"] == str(least)


def test_nodes_are_advertised_by_name_and_listen_on_the_loopback() -> None:
    shape = ClusterShape(CONTROLLERS, PORTS)
    broker = broker_settings(shape, 2, [Path("/a"), Path("/b")], "127.200.2.1")
    assert broker["listeners"] == "INTERNAL://127.0.0.1:20,CLIENT://127.0.0.1:21"
    assert broker["advertised.listeners"] == "INTERNAL://n2.test:20,CLIENT://127.200.2.1:21"
    assert broker["controller.quorum.bootstrap.servers"] == "n101.test:7,n102.test:8"
    assert broker["log.dirs"] == "/a,/b"
    controller = controller_settings(shape, 102, Path("/c"))
    assert controller["listeners"] == "CONTROLLER://127.0.0.1:8"
    assert controller["advertised.listeners"] == "CONTROLLER://n102.test:8"
    assert (broker["process.roles"], controller["process.roles"]) == ("broker", "controller")


def test_the_nodes_of_a_direct_cluster_have_no_names() -> None:
    shape = ClusterShape(CONTROLLERS, PORTS, is_direct=True)
    broker = broker_settings(shape, 2, [Path("/a")])
    assert broker["advertised.listeners"] == "INTERNAL://127.0.0.1:20,CLIENT://127.0.0.1:21"
    assert broker["controller.quorum.bootstrap.servers"] == "127.0.0.1:7,127.0.0.1:8"
    controller = controller_settings(shape, 102, Path("/c"))
    assert controller["advertised.listeners"] == "CONTROLLER://127.0.0.1:8"


def test_other_tuning_takes_the_place_of_that_of_tests() -> None:
    shape, tuning = ClusterShape(CONTROLLERS, PORTS), {"num.io.threads": "8", "node.id": "9"}
    for settings in (
        broker_settings(shape, 1, [Path("/d")], tuning=tuning),
        controller_settings(shape, 101, Path("/c"), tuning),
    ):
        assert settings["num.io.threads"] == "8"
        assert "broker.session.timeout.ms" not in settings
        assert settings["node.id"] != "9", "what makes a node a part of its cluster stays"


def test_timers_obey_the_rules_of_kafka() -> None:
    settings = broker_settings(ClusterShape(CONTROLLERS, PORTS), 1, [Path("/d")])
    beat, session = settings["broker.heartbeat.interval.ms"], settings["broker.session.timeout.ms"]
    assert 2 * int(beat) <= int(session)
    assert int(settings["replica.fetch.wait.max.ms"]) <= int(settings["replica.lag.time.max.ms"])


def test_neighbours_are_in_different_racks() -> None:
    assert rack_of(1) != rack_of(2)
    assert rack_of(1) == rack_of(3)


def test_properties_are_read_as_they_were_written(tmp_path: Path) -> None:
    settings = broker_settings(ClusterShape(CONTROLLERS, PORTS), 1, [Path("/d")])
    write_properties(tmp_path / "server.properties", settings)
    found = read_properties((tmp_path / "server.properties").read_text())
    assert {each.key: each.value for each in found} == settings
