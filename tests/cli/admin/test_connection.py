from __future__ import annotations

import socket
import struct
from collections.abc import Iterator

import pytest

from barnabas.cli.admin.connection import Connection, LostConnectionError, UnknownHostError
from barnabas.cli.admin.errors import NotReachableError, UnsendableError, UnsupportedApiError
from barnabas.cli.admin.settings import Address
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ProtocolError
from barnabas.protocol.messages.groups import ListGroupsRequest, ListGroupsResponse
from barnabas.protocol.messages.offsets import DeleteRecordsRequest
from barnabas.protocol.schema import Message, VersionRange
from tests.cli.admin.fake_broker import CLOSE, LOCALHOST, FakeCluster
from tests.support.ports import held_ports

PATIENCE_S = 60.0


def connect(port: int, timeout_s: float = PATIENCE_S) -> Connection:
    return Connection(Address(LOCALHOST, port), "me", connect_timeout_s=PATIENCE_S, timeout_s=timeout_s)


@pytest.fixture
def connection(cluster: FakeCluster) -> Iterator[Connection]:
    connection = connect(cluster.brokers[1].port)
    yield connection
    connection.close()


def test_the_first_request_is_api_versions(cluster: FakeCluster, connection: Connection) -> None:
    assert cluster.versions(ApiKey.API_VERSIONS) == [4]
    assert cluster.asked(ApiKey.API_VERSIONS)[0].client_software_name == "barnabas"
    assert connection.version_of(ApiKey.LIST_GROUPS) == 5
    assert connection.version_of(ApiKey.LIST_GROUPS, VersionRange(0, 3)) == 3
    assert connection.serves(ApiKey.LIST_GROUPS)


def test_unstable_versions_are_not_used(connection: Connection) -> None:
    assert connection.version_of(ApiKey.INIT_PRODUCER_ID) == 5


def test_an_older_broker_names_its_version_of_api_versions(cluster: FakeCluster) -> None:
    cluster.served[ApiKey.API_VERSIONS] = VersionRange(0, 2)
    cluster.served[ApiKey.LIST_GROUPS] = VersionRange(0, 2)
    connection = connect(cluster.brokers[1].port)
    assert cluster.versions(ApiKey.API_VERSIONS) == [4, 2]
    assert connection.version_of(ApiKey.LIST_GROUPS) == 2
    connection.close()


def test_an_unsupported_api_is_named_with_its_key(cluster: FakeCluster) -> None:
    cluster.without(ApiKey.LIST_GROUPS)
    connection = connect(cluster.brokers[1].port)
    assert not connection.serves(ApiKey.LIST_GROUPS)
    with pytest.raises(UnsupportedApiError, match=r"does not serve ListGroups \(API key 16\)"):
        connection.version_of(ApiKey.LIST_GROUPS)
    connection.close()


def test_versions_without_overlap_are_named(cluster: FakeCluster) -> None:
    cluster.served[ApiKey.LIST_GROUPS] = VersionRange(6, 7)
    connection = connect(cluster.brokers[1].port)
    with pytest.raises(UnsupportedApiError, match=r"in versions 6-7, and this needs one of 0-5"):
        connection.version_of(ApiKey.LIST_GROUPS)
    connection.close()


def test_a_request_gets_its_response(cluster: FakeCluster, connection: Connection) -> None:
    cluster.on(ApiKey.LIST_GROUPS, ListGroupsResponse(error_code=7))
    assert connection.ask(ListGroupsRequest(), 5, PATIENCE_S).error_code == 7
    assert connection.ask(ListGroupsRequest(), 0, PATIENCE_S).error_code == 7


def test_a_closed_connection_is_an_error(cluster: FakeCluster, connection: Connection) -> None:
    cluster.on(ApiKey.LIST_GROUPS, CLOSE)
    with pytest.raises(LostConnectionError, match="closed the connection"):
        connection.ask(ListGroupsRequest(), 5, PATIENCE_S)


def test_a_response_to_another_request_is_an_error(cluster: FakeCluster, connection: Connection) -> None:
    cluster.on(ApiKey.LIST_GROUPS, struct.pack(">ii", 4, 999))
    with pytest.raises(ProtocolError):
        connection.ask(ListGroupsRequest(), 0, PATIENCE_S)


def test_an_invalid_response_is_an_error(cluster: FakeCluster, connection: Connection) -> None:
    cluster.on(ApiKey.LIST_GROUPS, struct.pack(">iih", 6, 2, 0))
    with pytest.raises(ProtocolError):
        connection.ask(ListGroupsRequest(), 0, PATIENCE_S)


def test_a_missing_response_times_out() -> None:
    with (
        socket.create_server((LOCALHOST, 0)) as silent,
        pytest.raises(LostConnectionError, match="no answer"),
    ):
        connect(silent.getsockname()[1], timeout_s=0.05)


def test_a_peer_of_another_protocol_is_an_error(cluster: FakeCluster) -> None:
    cluster.on(ApiKey.API_VERSIONS, b"HTTP/1.1 400 Bad Request\r\n\r\n")
    with pytest.raises(NotReachableError, match=r"does not speak Kafka's protocol in plain text.*HTTP"):
        connect(cluster.brokers[1].port)


def test_a_refused_connection_is_an_error() -> None:
    with pytest.raises(LostConnectionError, match=f"no server answers at {LOCALHOST}"):
        connect(held_ports(1)[0])


def test_an_unknown_host_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "create_connection", unknown)
    with pytest.raises(UnknownHostError, match="is an unknown host"):
        Connection(Address("no.such.host", 1), "me", connect_timeout_s=1, timeout_s=1)


@pytest.mark.parametrize(
    "unsendable",
    [
        DeleteRecordsRequest(timeout_ms=1 << 31),
        ListGroupsRequest(states_filter=["stable\udcff"]),
    ],
)
def test_a_value_that_cannot_be_encoded_is_an_error(connection: Connection, unsendable: Message) -> None:
    """Such as a number of twenty digits, or bytes that are not UTF-8, from a command line."""
    version = connection.version_of(ApiKey(unsendable.api_key or 0))
    with pytest.raises(
        UnsendableError, match=f"^the request cannot be encoded: .*{type(unsendable).__name__}.*$"
    ):
        connection.ask(unsendable, version, PATIENCE_S)


@pytest.mark.parametrize("host", ["one..example", "a" * 64 + ".example"])
def test_an_invalid_host_name_is_an_unknown_host(host: str) -> None:
    with pytest.raises(UnknownHostError, match="is not a host name"):
        Connection(Address(host, 9092), "me", connect_timeout_s=PATIENCE_S, timeout_s=PATIENCE_S)
