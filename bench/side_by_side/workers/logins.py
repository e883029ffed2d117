"""Clients that connect, shake hands, ask for ApiVersions, log in and leave, over and over; or that stay.

A client of librdkafka would measure its threads. The messages are made by `barnabas.security`'s own client, which keeps
the salted password, as clients do that log in often.
"""

from __future__ import annotations

import socket
import ssl
import struct
import threading
import time
from collections.abc import Generator
from typing import Final

from barnabas.protocol.codec import decode
from barnabas.protocol.messages.api_versions import ApiVersionsRequest
from barnabas.protocol.messages.security import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from barnabas.security.sasl_client import SaslLogin
from bench.side_by_side.job import Job, Outcome
from bench.side_by_side.workers.raw import framed

_LIMIT_S: Final = 30.0
_SIZE: Final = struct.Struct(">i")
_VERSIONS: Final = framed(ApiVersionsRequest(), 2)
_HANDSHAKE_VERSION: Final = 1
_AUTHENTICATE_VERSION: Final = 2


class _Door:
    """A listener, and how this job's clients get in; `settings` are named as those of librdkafka.

    Without `ssl.ca.location` there is no TLS, without `sasl.mechanism` no login. With `resumes` a connection resumes
    the session of TLS of the one before it, by the same thread.
    """

    def __init__(self, job: Job) -> None:
        settings = {name: str(value) for name, value in job.settings.items()}
        host, _, port = settings["bootstrap.servers"].rpartition(":")
        self._address = host, int(port)
        self._context: ssl.SSLContext | None = None
        if "ssl.ca.location" in settings:
            self._context = ssl.create_default_context(cafile=settings["ssl.ca.location"])
        self._resumes = "resumes" in settings
        self._login: SaslLogin | None = None
        if "sasl.mechanism" in settings:
            self._login = SaslLogin(
                settings["sasl.mechanism"], settings["sasl.username"], settings["sasl.password"]
            )
        self._own = threading.local()

    def enter(self) -> socket.socket:
        """A connection that is let in."""
        stream: socket.socket = socket.create_connection(self._address, timeout=_LIMIT_S)
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self._context is not None:
            session = getattr(self._own, "session", None) if self._resumes else None
            stream = self._context.wrap_socket(stream, server_hostname=self._address[0], session=session)
        stream.sendall(_VERSIONS)
        _answer(stream)  # TLS 1.3 has its session then, too
        if self._login is not None:
            self._log_in(stream, self._login)
        return stream

    def leave(self, stream: socket.socket) -> None:
        """Ends a connection, whose session the next one may resume."""
        if self._resumes and isinstance(stream, ssl.SSLSocket):
            self._own.session = stream.session
        stream.close()

    def _log_in(self, stream: socket.socket, login: SaslLogin) -> None:
        stream.sendall(framed(SaslHandshakeRequest(mechanism=login.mechanism), _HANDSHAKE_VERSION))
        shaken = decode(SaslHandshakeResponse, _HANDSHAKE_VERSION, _answer(stream)[4:])
        if shaken.error_code:
            raise RuntimeError(f"SaslHandshake is answered with error {shaken.error_code}")
        client = login.client()
        token: bytes | None = client.initial()
        while token is not None:
            token = client.respond(self._exchange(stream, token))

    @staticmethod
    def _exchange(stream: socket.socket, token: bytes) -> bytes:
        stream.sendall(framed(SaslAuthenticateRequest(auth_bytes=token), _AUTHENTICATE_VERSION))
        answer = decode(SaslAuthenticateResponse, _AUTHENTICATE_VERSION, _answer(stream)[5:])
        if answer.error_code:
            raise RuntimeError(f"a login is answered with {answer.error_message}")
        return answer.auth_bytes


def _answer(stream: socket.socket) -> bytes:
    (size,) = _SIZE.unpack(_received(stream, _SIZE.size))
    return _received(stream, size)


def _received(stream: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        part = stream.recv(size - len(data))
        if not part:
            raise RuntimeError("the broker closed the connection")
        data += part
    return data


def log_in(job: Job) -> Generator[None, None, Outcome]:
    """Connects and leaves for `seconds`, in `clients` threads; at `rate` connections a second, at even intervals, if
    there is one."""
    door = _Door(job)
    door.leave(door.enter())
    counts, errors = [0] * job.clients, list[BaseException]()

    def repeat(place: int, began: float) -> None:
        try:
            while (passed := time.monotonic() - began) < job.seconds:
                due = (counts[place] * job.clients + place) / job.rate if job.rate else 0.0
                if due > passed:
                    time.sleep(due - passed)
                door.leave(door.enter())
                counts[place] += 1
        except BaseException as error:
            errors.append(error)
            raise

    yield
    began = time.monotonic()
    threads = [threading.Thread(target=repeat, args=(place, began)) for place in range(job.clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return Outcome(done=sum(counts), seconds=time.monotonic() - began, bytes=sum(counts))


def stay(job: Job) -> Generator[None, None, Outcome]:
    """`count` connections that are let in, and stay open for `seconds` without a request."""
    door = _Door(job)
    yield
    began = time.monotonic()
    held = [door.enter() for _ in range(job.count)]
    time.sleep(job.seconds)
    for stream in held:
        stream.close()
    return Outcome(done=job.count, seconds=time.monotonic() - began, bytes=job.count)
