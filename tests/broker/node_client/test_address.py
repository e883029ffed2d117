"""NodeAddress: how an address is written."""

from __future__ import annotations

import pytest

from barnabas.broker.node_client.address import NodeAddress


@pytest.mark.parametrize(
    ("host", "written"), [("n1.test", "n1.test:9092"), ("127.0.0.1", "127.0.0.1:9092"), ("::1", "[::1]:9092")]
)
def test_an_address_is_written_as_clients_write_it(host: str, written: str) -> None:
    assert str(NodeAddress(host, 9092)) == written
