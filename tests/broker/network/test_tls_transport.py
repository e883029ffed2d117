"""A transport over TLS, with a peer that the test moves byte by byte. The loop is a fake that calls what is ready."""

from __future__ import annotations

import os
import random
import select
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar, cast

import pytest

from barnabas.broker.network.tls_transport import Handshakes, TlsTransport
from barnabas.broker.network.transport import MORE_COMES
from barnabas.broker.waiting.blocking import BlockingRunner, InlineRunner
from barnabas.broker.waiting.timer import DeadlineQueue
from barnabas.security.contexts import server_context
from tests.broker.fakes import ManualTimer
from tests.broker.held_runner import HeldRunner
from tests.security.test_contexts import client, own

Callback = tuple[Callable[..., object], tuple[object, ...]]


class FakeLoop:
    """The part of an event loop that a transport uses."""

    def __init__(self) -> None:
        self.readers: dict[int, Callback] = {}
        self.writers: dict[int, Callback] = {}
        self.soon: list[Callback] = []

    def add_reader(self, fd: int, callback: Callable[..., object], *args: object) -> None:
        self.readers[fd] = callback, args

    def add_writer(self, fd: int, callback: Callable[..., object], *args: object) -> None:
        self.writers[fd] = callback, args

    def remove_reader(self, fd: int) -> bool:
        return self.readers.pop(fd, None) is not None

    def remove_writer(self, fd: int) -> bool:
        return self.writers.pop(fd, None) is not None

    def call_soon(self, callback: Callable[..., object], *args: object) -> None:
        self.soon.append((callback, args))

    def turn(self) -> bool:
        """Calls what is ready; False where nothing was."""
        soon, self.soon = self.soon, []
        readable, writable, _ = select.select(list(self.readers), list(self.writers), [], 0)
        ready = [*soon]
        ready += [self.readers[fd] for fd in readable]
        ready += [self.writers[fd] for fd in writable]
        for callback, args in ready:
            callback(*args)
        return bool(ready)


class FakeGuard:
    """A listener."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self._context = context
        self.admitted: list[str | None] = []
        self.rejections: list[str] = []
        self.endings = 0
        self.refusal = ""

    def context(self) -> ssl.SSLContext:
        return self._context

    def admit(self, tls: ssl.SSLSocket) -> None:
        if self.refusal:
            raise ValueError(self.refusal)
        self.admitted.append(tls.version())

    def rejected(self, reason: str) -> None:
        self.rejections.append(reason)

    def ended(self) -> None:
        self.endings += 1


class Peer:
    """The client, whose bytes the test moves."""

    def __init__(self, context: ssl.SSLContext, end: socket.socket) -> None:
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self._in, self._out, server_hostname="localhost")
        self.socket = end
        end.setblocking(False)
        self.raw = b""
        self.is_open = False

    def move(self, step: int = 1 << 20) -> None:
        """Takes what has come, advances the handshake, and sends what is due, at most `step` bytes."""
        self.take()
        if not self.is_open:
            with suppress(ssl.SSLWantReadError):
                self.tls.do_handshake()
                self.is_open = True
        data = self._out.read(step)
        if data:
            self.socket.sendall(data)

    def take(self) -> None:
        with suppress(BlockingIOError):
            while data := self.socket.recv(1 << 16):
                self.raw += data
                self._in.write(data)

    def read(self) -> bytes:
        """All that can be decrypted."""
        self.take()
        parts = []
        with suppress(ssl.SSLWantReadError):
            while data := self.tls.read(1 << 16):
                parts.append(data)
        return b"".join(parts)

    def write(self, data: bytes) -> None:
        self.tls.write(data)
        self.socket.sendall(self._out.read())

    def says_goodbye(self) -> None:
        with suppress(ssl.SSLError):
            self.tls.unwrap()
        self.socket.sendall(self._out.read())


class Dialogue:
    """Both ends. As the endpoint it reads into a window of `window` bytes."""

    all: ClassVar[list[Dialogue]] = []

    def __init__(
        self,
        runner: BlockingRunner | None = None,
        us: ssl.SSLContext | None = None,
        them: ssl.SSLContext | None = None,
        window: int = 1000,
    ) -> None:
        accepted, end = socket.socketpair()
        accepted.setblocking(False)
        self.loop = FakeLoop()
        self.timer = ManualTimer()
        self.guard = FakeGuard(us or server_context(*own()))
        self.peer = Peer(them or client(), end)
        handshakes = Handshakes(runner or InlineRunner(), DeadlineQueue(self.timer), 30_000)
        self.transport = TlsTransport(cast("Any", self.loop), accepted, self.guard, handshakes)
        self.received = bytearray()
        self.errors: list[OSError] = []
        self.has_ended = False
        self.rooms = 0
        self._window = memoryview(bytearray(window))
        self.all.append(self)
        self.transport.start(self)

    def readable(self) -> None:
        try:
            count = self.transport.receive_into(self._window)
        except BlockingIOError:
            return
        except OSError as error:
            self.errors.append(error)
            self.transport.close()
            return
        self.received += self._window[:count]
        if not count:
            self.has_ended = True
            self.transport.close()

    def writable(self) -> None:
        self.rooms += 1
        self.transport.ignore_writable()

    def turns(self) -> None:
        for _ in range(10_000):
            if not self.loop.turn():
                return
        raise AssertionError("the loop spins")

    def open(self, step: int = 1 << 20) -> Dialogue:
        for _ in range(10_000):
            self.peer.move(step)
            self.turns()
            if self.guard.admitted and self.peer.is_open and not self.peer._out.pending:
                return self
        raise AssertionError("the handshake does not end")

    @property
    def is_closed(self) -> bool:
        return not self.loop.readers and not self.loop.writers and self.transport._is_closed


@pytest.fixture(autouse=True)
def _closed_sockets() -> Iterator[None]:
    yield
    while Dialogue.all:
        dialogue = Dialogue.all.pop()
        dialogue.transport.close()
        dialogue.peer.socket.close()


@pytest.fixture
def talk() -> Dialogue:
    return Dialogue().open()


def records(raw: bytes) -> list[int]:
    """The types of the TLS records."""
    kinds = []
    while raw:
        kinds.append(raw[0])
        raw = raw[5 + int.from_bytes(raw[3:5]) :]
    return kinds


@pytest.mark.parametrize("step", [1 << 20, 100, 7])
def test_a_handshake_in_pieces(step: int) -> None:
    talk = Dialogue().open(step)
    assert talk.guard.admitted == ["TLSv1.3"]
    talk.peer.write(b"question")
    talk.turns()
    assert talk.received == b"question"
    assert talk.transport.send(b"answer") == 6
    assert talk.peer.read() == b"answer"
    talk.transport.close()


def test_what_is_held_decrypted_is_read_without_a_readable_socket(talk: Dialogue) -> None:
    data = random.Random(1).randbytes(50_000)
    talk.peer.write(data)
    talk.turns()
    assert talk.received == data


def test_a_connection_that_was_reset_is_read_to_its_end(talk: Dialogue) -> None:
    talk.peer.write(b"x" * 5_000)
    talk.peer.socket.close()
    talk.loop.turn()
    talk.loop.readers.clear()  # libuv stops watching after it has reported an error
    talk.turns()
    assert len(talk.received) == 5_000
    assert talk.has_ended or talk.errors
    assert talk.is_closed


def test_each_turn_reads_once(talk: Dialogue) -> None:
    talk.peer.write(b"x" * 50_000)
    for turn in range(1, 6):
        talk.loop.turn()
        assert len(talk.loop.soon) == 1
        assert len(talk.received) <= 2_000 * turn
    talk.turns()
    assert len(talk.received) == 50_000


def test_nothing_is_read_during_a_pause(talk: Dialogue) -> None:
    talk.peer.write(b"x" * 5_000)
    talk.loop.turn()
    talk.transport.pause_reading()
    talk.turns()
    assert len(talk.received) == 1000
    talk.transport.resume_reading()
    talk.turns()
    assert len(talk.received) == 5000


def test_reading_can_be_paused_before_the_handshake_ends() -> None:
    talk = Dialogue()
    talk.transport.pause_reading()
    talk.transport.watch_writable()
    talk.open()
    talk.peer.write(b"x")
    talk.turns()
    assert (bytes(talk.received), talk.rooms) == (b"", 1)
    talk.transport.resume_reading()
    talk.turns()
    assert talk.received == b"x"


class Second:
    """The endpoint that follows when the client has logged in."""

    def __init__(self, transport: TlsTransport) -> None:
        self._transport = transport
        self._window = memoryview(bytearray(1 << 16))
        self.received = bytearray()
        self.rooms = 0

    def readable(self) -> None:
        with suppress(BlockingIOError):
            self.received += self._window[: self._transport.receive_into(self._window)]

    def writable(self) -> None:
        self.rooms += 1
        self._transport.ignore_writable()


@pytest.mark.parametrize("paused", [False, True])
def test_what_the_first_endpoint_has_not_read_is_the_seconds(paused: bool) -> None:
    talk = Dialogue(window=4).open()
    second = Second(talk.transport)
    talk.peer.write(b"sizerequest")
    talk.loop.turn()
    assert talk.received == b"size"
    if paused:
        talk.transport.pause_reading()
        talk.turns()
    talk.transport.start(second)
    talk.turns()
    assert (bytes(talk.received), bytes(second.received)) == (b"size", b"request")
    talk.transport.watch_writable()
    talk.turns()
    assert (talk.rooms, second.rooms) == (0, 1)
    assert len(talk.guard.admitted) == 1


def test_a_second_endpoint_begins_while_the_first_is_called(talk: Dialogue) -> None:
    second = Second(talk.transport)
    read = talk.readable

    def read_once_and_begin() -> None:
        read()
        talk.transport.start(second)

    talk.readable = read_once_and_begin  # type: ignore[method-assign]
    talk.peer.write(b"x" * 1_000 + b"y" * 500)
    talk.turns()
    assert (bytes(talk.received), bytes(second.received)) == (b"x" * 1_000, b"y" * 500)


def test_a_send_that_has_no_room_is_repeated_with_the_same_bytes(talk: Dialogue) -> None:
    data = random.Random(2).randbytes(3_000_000)
    got, rest = b"", memoryview(data)
    while rest:
        try:
            rest = rest[talk.transport.send(rest) :]
        except BlockingIOError:
            talk.transport.watch_writable()
            assert not talk.loop.turn() or talk.rooms
            got += talk.peer.read()
            before = talk.rooms
            talk.turns()
            assert talk.rooms == before + 1
    assert got + talk.peer.read() == data


def test_parts_of_a_response_are_joined_before_they_are_encrypted(talk: Dialogue) -> None:
    talk.peer.take()
    talk.peer.raw = b""
    assert talk.transport.send(b"head", MORE_COMES) == 4
    assert talk.peer.read() == b""
    assert talk.transport.send(b"body") == 4
    assert talk.peer.read() == b"headbody"
    assert records(talk.peer.raw) == [23]
    assert talk.transport.send(bytes(20_000), MORE_COMES) == 20_000
    assert len(talk.peer.read()) == 20_000


def test_what_was_held_is_sent_once_when_there_is_no_room(talk: Dialogue) -> None:
    filler = 0
    with suppress(BlockingIOError):
        while True:
            filler += talk.transport.send(bytes(100_000)[:100_000])
    talk.peer.read()
    talk.turns()
    sent = []
    for _ in range(200):
        talk.transport.send(b"h" * 100, MORE_COMES) if talk.transport._retried is None else None
        with suppress(BlockingIOError):
            sent.append(talk.transport.send(b"b" * 60_000))
            continue
        break
    data = talk.peer.read()
    for _ in range(50):
        with suppress(BlockingIOError):
            talk.transport.send(b"b" * 60_000)
            break
        data += talk.peer.read()
    data += talk.peer.read()
    assert data.lstrip(b"\0").replace(b"h" * 100 + b"b" * 60_000, b"") == b""


def test_records_of_a_file(talk: Dialogue, tmp_path: Path) -> None:
    content = random.Random(3).randbytes(1_000_000)
    path = tmp_path / "records"
    path.write_bytes(content)
    got, position = b"", 1000
    with path.open("rb") as file:
        while position < len(content):
            try:
                position += talk.transport.send_file(file.fileno(), position, len(content) - position)
            except BlockingIOError:
                got += talk.peer.read()
        assert talk.transport.send_file(file.fileno(), position, 10) == 0
    assert got + talk.peer.read() == content[1000:]


def test_a_goodbye_is_sent_and_not_waited_for(talk: Dialogue) -> None:
    talk.transport.close()
    talk.transport.close()
    assert talk.is_closed
    assert talk.guard.endings == 1
    talk.peer.take()
    assert talk.peer.tls.read(10) == b""


@pytest.mark.parametrize("says_goodbye", [True, False])
def test_the_end_comes_after_the_last_bytes(talk: Dialogue, says_goodbye: bool) -> None:
    talk.peer.write(b"last")
    if says_goodbye:
        talk.peer.says_goodbye()
    talk.peer.socket.close()
    talk.turns()
    assert (bytes(talk.received), talk.has_ended or bool(talk.errors)) == (b"last", True)
    assert talk.is_closed


def test_damaged_bytes_end_the_connection_after_those_before(talk: Dialogue) -> None:
    talk.peer.write(b"good")
    talk.peer.socket.sendall(b"\x17\x03\x03\x00\x20" + bytes(32))
    talk.turns()
    assert talk.received == b"good"
    assert [type(error) for error in talk.errors] == [ConnectionAbortedError]
    with pytest.raises(ConnectionAbortedError):
        talk.transport.send(b"x")


def test_a_damaged_record_alone(talk: Dialogue) -> None:
    talk.peer.socket.sendall(b"\x17\x03\x03\x00\x20" + bytes(32))
    talk.turns()
    assert [type(error) for error in talk.errors] == [ConnectionAbortedError]


def test_the_peer_goes_while_we_send(talk: Dialogue) -> None:
    talk.peer.socket.close()
    with pytest.raises(OSError, match=r"."):
        talk.transport.send(b"y")


class ScriptedTls:
    """In place of an SSLSocket that does what no peer of ours can bring about."""

    def __init__(self, *steps: Exception | int) -> None:
        self._steps = list(steps)

    def _next(self, *_: object) -> int:
        step = self._steps.pop(0)
        if isinstance(step, Exception):
            raise step
        return step

    recv_into = write = _next

    def pending(self) -> int:
        return 0

    def unwrap(self) -> None:
        pass

    def close(self) -> None:
        pass


def test_a_read_that_has_to_send_first_is_repeated_when_there_is_room(talk: Dialogue) -> None:
    real, talk.transport._tls = (
        talk.transport._tls,
        cast("Any", ScriptedTls(ssl.SSLWantWriteError(), 3, ssl.SSLWantReadError())),
    )
    talk.readable()
    assert talk.received == b""
    talk.transport.ignore_writable()  # which does not end the wait
    talk.loop.turn()
    assert len(talk.received) == 3
    assert not talk.loop.writers
    talk.transport._tls = real


def test_a_send_may_be_taken_in_part_or_fail(talk: Dialogue) -> None:
    real, talk.transport._tls = talk.transport._tls, cast("Any", ScriptedTls(2, 3, 5, ssl.SSLError(1, "bad")))
    assert talk.transport.send(b"head", MORE_COMES) == 4
    assert talk.transport.send(b"body__") == 6  # 2 of the head, 2 of it with 1 more, the rest
    with pytest.raises(ConnectionAbortedError):
        talk.transport.send(b"x")
    talk.transport._tls = real


def test_a_part_of_a_file_may_be_taken(talk: Dialogue, tmp_path: Path) -> None:
    path = tmp_path / "records"
    path.write_bytes(b"0123456789")
    scripted = ScriptedTls(4, ssl.SSLWantWriteError(), ssl.SSLWantWriteError())
    real, talk.transport._tls = talk.transport._tls, cast("Any", scripted)
    with path.open("rb") as file:
        assert talk.transport.send_file(file.fileno(), 0, 10) == 4
        with pytest.raises(BlockingIOError):
            talk.transport.send_file(file.fileno(), 4, 6)
    talk.transport._tls = real


# ---- connections that are not let in


def test_plain_bytes_are_refused_at_the_first() -> None:
    talk = Dialogue()
    talk.peer.socket.sendall(b"\x00\x00\x00\x10")
    talk.turns()
    assert talk.guard.rejections == [
        "the client sends plain bytes to a TLS listener: is its security.protocol SSL?"
    ]
    assert [type(error) for error in talk.errors] == [ConnectionAbortedError]
    assert talk.is_closed


def test_a_client_that_only_looks_is_no_failure() -> None:
    talk = Dialogue()
    talk.peer.socket.close()
    talk.turns()
    assert talk.guard.rejections == []
    assert talk.is_closed
    assert talk.guard.endings == 0


def test_a_client_that_leaves_in_the_middle_is_no_failure_of_ours() -> None:
    talk = Dialogue()
    talk.peer.move()
    talk.peer.socket.close()
    talk.turns()
    assert talk.is_closed
    assert talk.guard.admitted == []


def test_a_client_that_does_not_trust_us_is_named() -> None:
    from tests.support.certificates import Authority

    talk = Dialogue(them=client(Authority().pem))
    talk.peer.move()
    talk.turns()
    with pytest.raises(ssl.SSLCertVerificationError):
        talk.peer.move()
    talk.peer.socket.sendall(talk.peer._out.read())
    talk.turns()
    assert talk.guard.rejections == ["the peer does not know who signed the certificate shown to it"]


def test_a_client_without_a_certificate_gets_an_alert() -> None:
    talk = Dialogue(us=server_context(*own(client_auth="required")))
    for _ in range(4):
        talk.peer.move()
        talk.turns()
    assert talk.guard.rejections == ["the peer shows no certificate, and ssl.client.auth=required"]
    with pytest.raises(ssl.SSLError, match="CERTIFICATE_REQUIRED"):
        talk.peer.read()


def test_a_listener_may_refuse_a_client_whose_handshake_is_complete() -> None:
    talk = Dialogue()
    talk.guard.refusal = "no rule matches"
    for _ in range(4):
        talk.peer.move()
        talk.turns()
    assert talk.guard.rejections == ["no rule matches"]
    assert talk.is_closed
    assert talk.guard.endings == 0


def test_a_silent_client_is_closed_at_the_deadline() -> None:
    runner = HeldRunner()
    talk = Dialogue(runner)
    talk.timer.advance(29.9)
    assert talk.errors == []
    talk.timer.advance(0.2)
    assert talk.guard.rejections == ["no TLS handshake within 30000 ms"]
    assert talk.is_closed
    assert runner.held == 0  # it never had a thread


def test_the_deadline_is_over_with_the_handshake(talk: Dialogue) -> None:
    talk.timer.advance(60)
    assert talk.guard.rejections == []


def test_a_connection_is_closed_when_its_thread_is_done() -> None:
    runner = HeldRunner()
    talk = Dialogue(runner)
    talk.peer.move()
    talk.turns()
    assert runner.held == 1
    assert not talk.loop.readers
    talk.transport.close()
    assert talk.transport._accepted.fileno() >= 0
    runner.release()
    with pytest.raises(ConnectionResetError):  # since what it has sent was not read
        talk.peer.take()


def test_a_handshake_waits_for_room() -> None:
    runner = HeldRunner()
    talk = Dialogue(runner)
    talk.peer.move()
    talk.turns()
    runner.fail(ssl.SSLWantWriteError())
    assert talk.loop.writers
    talk.loop.turn()
    assert not talk.loop.writers
    assert runner.held == 1
    runner.release()
    talk.peer.move()
    talk.turns()
    runner.release_all()
    assert talk.guard.admitted == ["TLSv1.3"]
    talk.transport.close()


def test_a_bug_in_a_thread_ends_the_connection_and_is_raised() -> None:
    runner = HeldRunner()
    talk = Dialogue(runner)
    talk.peer.move()
    talk.turns()
    with pytest.raises(RuntimeError, match="bug"):
        runner.fail(RuntimeError("bug"))
    assert talk.is_closed


def test_a_readable_socket_without_bytes_is_waited_for() -> None:
    talk = Dialogue()
    talk.transport._has_first_bytes()
    assert talk.errors == []
    talk.transport._accepted.close()
    talk.transport._has_first_bytes()
    assert [type(error) for error in talk.errors] == [OSError]
    talk.loop.readers.clear()
    assert os.name == "posix"


def test_a_read_that_had_to_send_first_is_put_off_while_reading_is_paused(talk: Dialogue) -> None:
    """A throttled connection is not read, whatever its peer makes TLS do."""
    scripted = ScriptedTls(ssl.SSLWantWriteError(), 3, ssl.SSLWantReadError())
    real, talk.transport._tls = talk.transport._tls, cast("Any", scripted)
    talk.readable()
    talk.transport.pause_reading()
    talk.loop.turn()
    assert not talk.received
    assert not talk.loop.writers
    talk.transport.resume_reading()
    talk.loop.turn()
    assert len(talk.received) == 3
    talk.transport._tls = real


def test_a_handshake_that_waits_for_a_thread_too_long_takes_none() -> None:
    """Where a flood of clients waits for the threads, those that were closed meanwhile cost no arithmetic."""
    runner = HeldRunner()
    talk = Dialogue(runner)
    talk.peer.move()
    talk.turns()
    assert runner.held == 1
    talk.timer.advance(30.1)
    assert talk.guard.rejections == ["no TLS handshake within 30000 ms"]
    runner.release()
    assert talk.transport._tls is None
    assert talk.transport._accepted.fileno() == -1
