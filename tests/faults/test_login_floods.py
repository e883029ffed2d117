"""Many clients that begin to log in and do not go on: they cost little, and others are served.

Times are compared with those of the same client before the flood, memory with what the broker had.
"""

from __future__ import annotations

import resource
import socket
import ssl
import struct
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from barnabas.protocol.messages.api_versions import ApiVersionsRequest
from barnabas.protocol.messages.metadata import MetadataRequest
from barnabas.protocol.messages.security import SaslAuthenticateRequest, SaslHandshakeRequest
from barnabas.protocol.messages.topics import CreateTopicsRequest
from tests.support.broker_process import BrokerProcess
from tests.support.certificates import Authority
from tests.support.ports import held_ports
from tests.support.raw import RawConnection, metadata_request
from tests.support.sasl import SCRAM_MODULE, framed, listener_settings, plain_entry, plain_token, request

pytestmark = [pytest.mark.faults, pytest.mark.timeout(120)]

PEERS = 2000
MIB = 1024 * 1024
DECLARED = 524_288
MECHANISMS = {"PLAIN": plain_entry(alice="pencil"), "SCRAM-SHA-256": f"{SCRAM_MODULE} required;"}
CA = Authority()
slow = pytest.mark.slow


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    broker = BrokerProcess(tmp_path / "data")
    broker.overrides |= {
        "listeners": f"SASL_PLAINTEXT://127.0.0.1:{broker.port}",
        "socket.listen.backlog.size": "1000",
        "barnabas.authentication.timeout.ms": "15000",
        **listener_settings("SASL_PLAINTEXT", MECHANISMS),
    }
    with broker:
        yield broker


@pytest.fixture(autouse=True)
def _many_files() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def log_in(broker: BrokerProcess) -> float:
    """Logs in and asks for metadata; returns how many seconds that took."""
    began = time.monotonic()
    with RawConnection(broker.bootstrap) as client:
        for frame in (
            request(SaslHandshakeRequest(mechanism="PLAIN"), 1),
            request(SaslAuthenticateRequest(auth_bytes=plain_token("alice", "pencil")), 2),
            request(MetadataRequest(topics=[]), 9),
        ):
            client.send_frame(frame)
            client.read_frame()
    return time.monotonic() - began


def flood(broker: BrokerProcess, stack: ExitStack, data: bytes, peers: int = PEERS) -> list[socket.socket]:
    """Peers that send these bytes, and no more."""
    sockets = []
    for _ in range(peers):
        peer = stack.enter_context(socket.create_connection(("127.0.0.1", broker.port), timeout=30))
        peer.sendall(data)
        sockets.append(peer)
    return sockets


@pytest.mark.parametrize("peers", [PEERS, pytest.param(10_000, marks=slow)])
def test_frames_that_are_declared_and_do_not_come_cost_no_memory(broker: BrokerProcess, peers: int) -> None:
    log_in(broker)
    before = broker.rss_bytes()
    with ExitStack() as stack:
        flood(broker, stack, struct.pack(">i", DECLARED) + b"x", peers)
        log_in(broker)
        grown = broker.rss_bytes() - before
        assert grown < min(peers * 6 * 1024 + 8 * MIB, 64 * MIB), f"{grown / peers:.0f} bytes for each"
        assert log_in(broker) < 2


def test_frames_that_come_in_part_are_bounded_all_together(broker: BrokerProcess) -> None:
    log_in(broker)
    before = broker.rss_bytes()
    with ExitStack() as stack:
        flood(broker, stack, struct.pack(">i", DECLARED) + bytes(400_000), peers=200)
        log_in(broker)
        assert broker.rss_bytes() - before < 40 * MIB
        assert "the memory for logins is used up" in broker.output


def test_who_does_not_go_on_is_ended_in_time(broker: BrokerProcess) -> None:
    with ExitStack() as stack:
        peers = flood(broker, stack, b"\0\0\1\0", peers=50)
        for peer in peers:
            assert peer.recv(1) == b""
    assert "it took longer than 15000 ms" in broker.output
    log_in(broker)


@pytest.mark.parametrize("size", [200_000, pytest.param(1900, marks=slow)])
def test_what_a_mechanism_keeps_of_a_message_is_bounded(broker: BrokerProcess, size: int) -> None:
    """The first message of SCRAM may fill a frame; the second does not come."""
    log_in(broker)
    before = broker.rss_bytes()
    first = b"n,,n=" + b"u" * size + b",r=" + b"r" * size
    begin = framed(request(SaslHandshakeRequest(mechanism="SCRAM-SHA-256"), 1))
    begin += framed(request(SaslAuthenticateRequest(auth_bytes=first), 2))
    with ExitStack() as stack:
        for _ in range(300 if size < 4096 else 40):
            with_patience(broker, stack, begin)
        assert log_in(broker) < 1
        assert broker.rss_bytes() - before < 40 * MIB


def with_patience(broker: BrokerProcess, stack: ExitStack, data: bytes) -> None:
    """A peer that reads what it gets of the first answers, so that the broker takes the rest; it may be cut off."""
    peer = stack.enter_context(socket.create_connection(("127.0.0.1", broker.port), timeout=30))
    try:
        peer.sendall(data)
        while peer.recv(1 << 20) and len(data) > 4096:
            pass
    except OSError:
        return


def test_what_clients_say_of_themselves_is_bounded(broker: BrokerProcess) -> None:
    log_in(broker)
    before = broker.rss_bytes()
    name = "n" * 32_000
    versions = ApiVersionsRequest(client_software_name=name, client_software_version=name)
    with ExitStack() as stack:
        flood(broker, stack, framed(request(versions, 4)), peers=500)  # some are cut off
        log_in(broker)
        assert broker.rss_bytes() - before < 500 * 16 * 1024 + 8 * MIB


def test_large_requests_in_the_middle_of_a_login_stop_nobody(broker: BrokerProcess) -> None:
    """To decode half a megabyte of small parts would take a second of the loop."""
    topic = CreateTopicsRequest.CreatableTopic(name="")
    large = request(CreateTopicsRequest(topics=[topic] * 40_000), 7)
    assert 300_000 < len(large) < DECLARED
    begin = framed(request(SaslHandshakeRequest(mechanism="PLAIN"), 1)) + framed(large)
    with ExitStack() as stack:
        for _ in range(40):
            with_patience(broker, stack, begin)
        assert log_in(broker) < 1


# ---- TLS


@pytest.fixture
def over_tls(tmp_path: Path) -> Iterator[BrokerProcess]:
    """Its port speaks TLS; PLAINTEXT is on another."""
    identity = CA.issue("broker", ["localhost", "127.0.0.1"])
    (tmp_path / "broker.pem").write_text(identity.key_pem() + identity.chain_pem())
    broker = BrokerProcess(tmp_path / "data")
    broker.overrides |= {
        "listeners": f"SSL://127.0.0.1:{broker.port},PLAINTEXT://127.0.0.1:{held_ports(1)[0]}",
        "inter.broker.listener.name": "PLAINTEXT",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": f"{tmp_path}/broker.pem",
        "socket.listen.backlog.size": "1000",
        "barnabas.authentication.timeout.ms": "60000",
    }
    with broker:
        yield broker


class TlsClient:
    """A client whose handshake is done."""

    def __init__(self, broker: BrokerProcess, stack: ExitStack) -> None:
        self._broker = broker
        context = ssl.create_default_context(cadata=CA.pem)
        plain = socket.create_connection(("127.0.0.1", broker.port), timeout=60)
        self.socket = stack.enter_context(context.wrap_socket(plain, server_hostname="localhost"))

    def time_s(self) -> float:
        """How long a request takes."""
        began = time.monotonic()
        self.socket.sendall(metadata_request())
        (size,) = struct.unpack(">i", self._read(4))
        self._read(size)
        return time.monotonic() - began

    def _read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            more = self.socket.recv(size - len(data))
            assert more, "the connection is closed"
            data += more
        return data

    def cost_s(self) -> float:
        """What the event loop works for 500 requests: that is what they wait for, on a quiet machine and a busy one."""
        before = self._loop_s()
        for _ in range(500):
            self.time_s()
        return self._loop_s() - before

    def _loop_s(self) -> float:
        of_first_thread = Path(f"/proc/{self._broker.pid}/task/{self._broker.pid}/schedstat")
        return int(of_first_thread.read_text().split()[0]) / 1e9


def client_hello() -> bytes:
    sent = ssl.MemoryBIO()
    tls = ssl.create_default_context().wrap_bio(ssl.MemoryBIO(), sent, server_hostname="localhost")
    with pytest.raises(ssl.SSLWantReadError):
        tls.do_handshake()
    return sent.read()


@pytest.mark.parametrize(
    ("peers", "is_whole"),
    [
        (300, False),
        pytest.param(300, True, marks=slow),
        pytest.param(10_000, False, marks=slow),
        pytest.param(3000, True, marks=slow),
    ],
)
def test_handshakes_that_stop_slow_nobody_down(over_tls: BrokerProcess, peers: int, is_whole: bool) -> None:
    """`is_whole`: the client says all of its first message, to which the broker answers; else a byte of it."""
    with ExitStack() as stack:
        client = TlsClient(over_tls, stack)
        client.cost_s()
        before, memory = client.cost_s(), over_tls.rss_bytes()
        sockets = flood(over_tls, stack, client_hello() if is_whole else b"\x16", peers)
        if is_whole:
            assert all(len(each.recv(1)) == 1 for each in sockets)
        during = client.cost_s()
        assert during < 2 * before + 0.1, (before, during)
        each = (over_tls.rss_bytes() - memory) / peers
        assert each < 128 * 1024, f"{each:.0f} bytes for each"
        TlsClient(over_tls, stack).time_s()


@slow
def test_a_flood_of_handshakes_leaves_others_their_turn(over_tls: BrokerProcess) -> None:
    """Their arithmetic is that of threads: a client that is there is answered meanwhile."""
    hello = client_hello()
    with ExitStack() as stack:
        client = TlsClient(over_tls, stack)
        times = []
        for _ in range(20):
            for peer in flood(over_tls, stack, hello, 50):
                peer.close()
            times.append(client.time_s())
        assert sorted(times)[len(times) // 2] < 0.5, times
        TlsClient(over_tls, stack).time_s()
