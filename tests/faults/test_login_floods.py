"""Many clients that begin to log in and do not go on: they cost little, and others are served."""

from __future__ import annotations

import resource
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from barnabas.protocol.messages.metadata import MetadataRequest
from barnabas.protocol.messages.security import SaslAuthenticateRequest, SaslHandshakeRequest
from tests.support.broker_process import BrokerProcess
from tests.support.raw import RawConnection
from tests.support.sasl import listener_settings, plain_entry, plain_token, request

pytestmark = [pytest.mark.faults, pytest.mark.timeout(120)]

PEERS = 2000
MIB = 1024 * 1024
DECLARED = 524_288


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    broker = BrokerProcess(tmp_path / "data")
    broker.overrides |= {
        "listeners": f"SASL_PLAINTEXT://127.0.0.1:{broker.port}",
        "socket.listen.backlog.size": "1000",
        "barnabas.authentication.timeout.ms": "15000",
        **listener_settings("SASL_PLAINTEXT", {"PLAIN": plain_entry(alice="pencil")}),
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


def test_frames_that_are_declared_and_do_not_come_cost_no_memory(broker: BrokerProcess) -> None:
    log_in(broker)
    before = broker.rss_bytes()
    with ExitStack() as stack:
        flood(broker, stack, struct.pack(">i", DECLARED) + b"x")
        log_in(broker)
        grown = broker.rss_bytes() - before
        assert grown < PEERS * 6 * 1024 + 8 * MIB, f"{grown / PEERS:.0f} bytes for each"
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
