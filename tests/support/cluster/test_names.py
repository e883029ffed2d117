from __future__ import annotations

import socket
from pathlib import Path

import pytest

from tests.support.cluster.names import CLIENTS, address_between, hosts_of, read_hosts, write_hosts


def test_each_pair_has_an_address_of_its_own() -> None:
    nodes = range(1, 8)
    found = [address_between(a, b) for a in (*nodes, CLIENTS) for b in nodes if a != b]
    assert len(set(found)) == len(found)
    assert address_between(1, 2) == "127.1.2.1"
    assert address_between(3, 3) == "127.0.0.1"


@pytest.mark.parametrize(("asker", "asked"), [(0, 1), (1, 0), (1, CLIENTS), (256, 1), (1, 300)])
def test_ids_that_fit_no_address_are_rejected(asker: int, asked: int) -> None:
    with pytest.raises(ValueError, match="the ids of nodes"):
        address_between(asker, asked)


def test_a_table_is_read_as_it_was_written(tmp_path: Path) -> None:
    hosts = hosts_of(1, [1, 2, 3])
    assert hosts["n1.test"] == hosts["localhost"] == hosts[socket.gethostname()] == "127.0.0.1"
    assert hosts["n2.test"] == "127.1.2.1"
    write_hosts(tmp_path / "hosts", hosts)
    assert read_hosts(tmp_path / "hosts") == hosts
