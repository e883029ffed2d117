"""What TLS costs the thread that does it: handshakes, and bytes either way, with the ssl module's memory BIOs.

That is how asyncio and uvloop do TLS: the socket's bytes go through an SSLObject in the loop's thread.
"""

from __future__ import annotations

import ssl
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Final, NamedTuple

from bench.cores_work import speed_up

KEYS: Final = {"RSA 2048": "rsa:2048", "ECDSA P-256": "ec"}
PIECE: Final = bytes(1 << 20)


class Peer(NamedTuple):
    """One end, and the bytes that came for it and that it has to send."""

    tls: ssl.SSLObject
    incoming: ssl.MemoryBIO
    outgoing: ssl.MemoryBIO


def server_context(directory: Path, key: str) -> ssl.SSLContext:
    """With a certificate of its own, made by the openssl command."""
    words = ["-newkey", key] if key != "ec" else ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"]
    files = [directory / f"{key.replace(':', '-')}.{kind}" for kind in ("key", "crt")]
    command = ["openssl", "req", "-x509", *words, "-nodes", "-subj", "/CN=localhost", "-days", "1"]
    subprocess.run(
        [*command, "-keyout", str(files[0]), "-out", str(files[1])], check=True, stderr=subprocess.DEVNULL
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files[1], files[0])
    return context


def client_context() -> ssl.SSLContext:
    """Which believes everything: only the other end is measured."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def peer(context: ssl.SSLContext, *, server: bool) -> Peer:
    """One end, not connected to anything."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    return Peer(context.wrap_bio(incoming, outgoing, server_side=server), incoming, outgoing)


def shake_hands(server_side: ssl.SSLContext, client_side: ssl.SSLContext) -> tuple[Peer, Peer, float]:
    """Both ends after a full handshake, and the processor's seconds of the server's part."""
    server, client = peer(server_side, server=True), peer(client_side, server=False)
    used, done = 0.0, False
    while not done:
        done = _step(client)
        server.incoming.write(client.outgoing.read())
        began = time.thread_time()
        done = _step(server) and done
        used += time.thread_time() - began
        client.incoming.write(server.outgoing.read())
    return server, client, used


def _step(end: Peer) -> bool:
    try:
        end.tls.do_handshake()
    except ssl.SSLWantReadError:
        return False
    return True


def handshake_us(key: str, rounds: int) -> float:
    """Of the server, the best of some."""
    with tempfile.TemporaryDirectory(prefix="cores-tls-") as directory:
        context, clients = server_context(Path(directory), KEYS[key]), client_context()
        return min(shake_hands(context, clients)[2] for _ in range(rounds)) * 1e6


def handshake_speed_up(key: str, rounds: int) -> float:
    """Of two threads that shake hands, both ends each, beside one."""
    with tempfile.TemporaryDirectory(prefix="cores-tls-") as directory:
        context, clients = server_context(Path(directory), KEYS[key]), client_context()
        return speed_up(lambda: [shake_hands(context, clients) for _ in range(20)], rounds)


def bytes_us(rounds: int) -> tuple[str, float, float]:
    """The cipher, and us of the server for a MiB that comes and for one that goes."""
    with tempfile.TemporaryDirectory(prefix="cores-tls-") as directory:
        server, client, _ = shake_hands(server_context(Path(directory), "ec"), client_context())
        came = went = float("inf")
        for _ in range(rounds):
            client.tls.write(PIECE)
            wire = client.outgoing.read()
            began = time.thread_time()
            server.incoming.write(wire)
            left = len(PIECE)
            while left:
                left -= len(server.tls.read(256 << 10))
            came = min(came, time.thread_time() - began)
            began = time.thread_time()
            server.tls.write(PIECE)
            server.outgoing.read()
            went = min(went, time.thread_time() - began)
        cipher = server.tls.cipher()
        return (cipher[0] if cipher else "", came * 1e6, went * 1e6)
