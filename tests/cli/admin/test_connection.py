from __future__ import annotations

import socket
import struct
from collections.abc import Iterator

import pytest

from barnabas.cli.admin.connection import Connection, LostConnectionError, UnknownHostError
from barnabas.cli.admin.errors import (
    NotReachableError,
    SecurityFailedError,
    UnsendableError,
    UnsupportedApiError,
)
from barnabas.cli.admin.settings import Address
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ProtocolError
from barnabas.protocol.messages.groups import ListGroupsRequest, ListGroupsResponse
from barnabas.protocol.messages.offsets import DeleteRecordsRequest
from barnabas.protocol.messages.security import SaslAuthenticateResponse, SaslHandshakeResponse
from barnabas.protocol.schema import Message, VersionRange
from barnabas.security.client_settings import NO_SECURITY, ClientSecurity
from barnabas.security.contexts import server_context
from barnabas.security.sasl_client import SaslLogin
from barnabas.security.settings import TlsSettings
from tests.cli.admin.fake_broker import CLOSE, LOCALHOST, FakeCluster
from tests.security.test_contexts import CA, own
from tests.support.certificates import Authority
from tests.support.ports import held_ports

PATIENCE_S = 60.0


def connect(port: int, timeout_s: float = PATIENCE_S, security: ClientSecurity = NO_SECURITY) -> Connection:
    address = Address(LOCALHOST, port)
    return Connection(address, "me", connect_timeout_s=PATIENCE_S, timeout_s=timeout_s, security=security)


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


# ---- TLS and logins


LOGIN = SaslLogin("PLAIN", "u", "secret")


def tls(ca: Authority = CA) -> TlsSettings:
    return TlsSettings({"ssl.truststore.type": "PEM", "ssl.truststore.certificates": ca.pem})


def test_a_connection_begins_with_tls_and_a_login(cluster: FakeCluster) -> None:
    cluster.tls = server_context(*own())
    cluster.on(ApiKey.SASL_HANDSHAKE, SaslHandshakeResponse(mechanisms=["PLAIN"]))
    cluster.on(ApiKey.SASL_AUTHENTICATE, SaslAuthenticateResponse())
    connection = connect(cluster.brokers[1].port, security=ClientSecurity("SASL_SSL", tls(), LOGIN))
    assert connection.serves(ApiKey.METADATA)
    assert [key for _, key, _, _ in cluster.requests] == [
        ApiKey.SASL_HANDSHAKE,
        ApiKey.SASL_AUTHENTICATE,
        ApiKey.API_VERSIONS,
    ]
    assert cluster.asked(ApiKey.SASL_AUTHENTICATE)[0].auth_bytes == b"\0u\0secret"
    connection.close()


def test_a_login_that_is_rejected_is_not_tried_again(cluster: FakeCluster) -> None:
    cluster.on(ApiKey.SASL_HANDSHAKE, SaslHandshakeResponse(mechanisms=["PLAIN"]))
    cluster.on(
        ApiKey.SASL_AUTHENTICATE, SaslAuthenticateResponse(error_code=58, error_message="Wrong password")
    )
    security = ClientSecurity("SASL_PLAINTEXT", None, LOGIN)
    with pytest.raises(SecurityFailedError, match=r"login as u by PLAIN at .* failed: Wrong password"):
        connect(cluster.brokers[1].port, security=security)


def test_a_login_at_something_else(cluster: FakeCluster) -> None:
    cluster.on(ApiKey.SASL_HANDSHAKE, struct.pack(">iiB", 5, 1, 0))
    with pytest.raises(NotReachableError, match="does not speak Kafka's protocol"):
        connect(cluster.brokers[1].port, security=ClientSecurity("SASL_PLAINTEXT", None, LOGIN))


def test_a_certificate_that_is_not_trusted(cluster: FakeCluster) -> None:
    cluster.tls = server_context(*own())
    with pytest.raises(
        SecurityFailedError, match=r"TLS with 127.0.0.1:\d+ failed: the certificate is signed by"
    ):
        connect(cluster.brokers[1].port, security=ClientSecurity("SSL", tls(Authority())))


def test_a_server_that_asks_for_a_certificate(cluster: FakeCluster) -> None:
    cluster.tls = server_context(*own(client_auth="required"))
    with pytest.raises(SecurityFailedError, match="the peer asks for a certificate"):
        connect(cluster.brokers[1].port, security=ClientSecurity("SSL", tls()))


def test_a_server_that_leaves_during_the_handshake() -> None:
    with socket.create_server((LOCALHOST, 0)) as listener:
        import threading

        def leave() -> None:
            accepted, _ = listener.accept()
            accepted.recv(10_000)
            accepted.close()

        thread = threading.Thread(target=leave)
        thread.start()
        with pytest.raises(LostConnectionError, match="failed: the peer closed the connection"):
            connect(listener.getsockname()[1], security=ClientSecurity("SSL", tls()))
        thread.join()
