"""The rig before it starts a process; the scenarios in tests/conformance/cluster try the rest."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.cluster.names import CLIENTS, address_between, read_hosts
from tests.support.cluster.nodes import Implementation
from tests.support.cluster.rig import ClusterRig


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[ClusterRig]:
    rig = ClusterRig(tmp_path, "jbb", "no.jar", controllers=3, log_dirs=2)
    yield rig
    rig.close()


def listens(host: str, port: int) -> bool:
    """Whether there is a link: no node runs behind it, so that it resets the connection."""
    try:
        with socket.create_connection((host, port), timeout=5) as connection:
            connection.recv(1)
    except ConnectionRefusedError:
        return False
    except ConnectionResetError:
        pass
    return True


def test_a_layout_has_a_letter_for_each_broker(rig: ClusterRig) -> None:
    assert [broker.implementation for broker in rig.brokers.values()] == [
        Implementation.JVM,
        Implementation.BARNABAS,
        Implementation.BARNABAS,
    ]
    assert list(rig.nodes) == [101, 102, 103, 1, 2, 3]
    assert {node.implementation for node in rig.controllers.values()} == {Implementation.JVM}


def test_all_nodes_are_configured_before_any_starts(rig: ClusterRig) -> None:
    rig.configure_nodes()
    for number, node in rig.nodes.items():
        settings = node.files.properties.read_text()
        assert f"node.id={number}\n" in settings
        hosts = read_hosts(node.files.hosts)
        assert {name for name in hosts if name.endswith(".test")} == {f"n{each}.test" for each in rig.nodes}
        assert hosts[f"n{number}.test"] == "127.0.0.1"


def test_there_is_a_link_from_each_node_to_those_that_it_calls(rig: ClusterRig) -> None:
    rig.configure_nodes()
    for asker in rig.brokers:
        for asked, ports in {**rig.shape.brokers, **rig.shape.controllers}.items():
            if asker != asked:
                assert listens(address_between(asker, asked), ports.internal)
    assert listens(address_between(101, 102), rig.shape.controllers[102].internal)
    assert not listens(address_between(101, 1), rig.shape.brokers[1].internal)
    assert listens(address_between(CLIENTS, 1), rig.shape.brokers[1].client)


def test_the_nodes_of_a_direct_cluster_are_connected_without_links(tmp_path: Path) -> None:
    rig = ClusterRig(tmp_path, "jb", "no.jar", direct=True, tuning={"num.io.threads": "8"})
    try:
        rig.configure_nodes()
        for asked, ports in {**rig.shape.brokers, **rig.shape.controllers}.items():
            assert not listens(address_between(CLIENTS, asked), ports.client)
            if asked != 1:
                assert not listens(address_between(1, asked), ports.internal)
        settings = rig.brokers[2].files.properties.read_text()
        assert "n2.test" not in settings
        assert "num.io.threads=8\n" in settings
    finally:
        rig.close()


def test_clients_ask_the_brokers_that_can_answer(rig: ClusterRig) -> None:
    ports = [rig.shape.brokers[node].client for node in rig.brokers]
    assert rig.bootstrap == ",".join(f"127.0.0.1:{port}" for port in ports)
    assert rig.running() == []


def test_the_timeline_and_the_logs_are_reported(rig: ClusterRig) -> None:
    rig.configure_nodes()
    rig.note("something happens")
    rig.brokers[2].files.console.write_text("a last line")
    report = rig.report()
    assert " s  something happens\n" in report
    assert "--- node 2 (BARNABAS)\n" in report
    assert "a last line" in report
