"""A transport over TLS, with a peer that the test moves byte by byte. The loop is a fake that calls what is ready."""

from __future__ import annotations

import os
import random
import re
import select
import socket
import ssl
import struct
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar, cast

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

from barnabas.broker.network.tls_records import MOST_RECORD_BYTES
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
        for callback, args in soon:
            callback(*args)
        for watched, ready in (self.readers, readable), (self.writers, writable):
            for fd in ready:
                if fd in watched:  # no callback before it has removed that
                    callback, args = watched[fd]
                    callback(*args)
        return bool(soon or readable or writable)


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

    def admit(self, tls: ssl.SSLObject) -> None:
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
    fill(talk)
    talk.peer.read()
    talk.turns()
    sent = []
    for _ in range(200):
        talk.transport.send(b"h" * 100, MORE_COMES) if not talk.transport._unsent else None
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


class Secrets:
    """Those of a client, from its key log: writes the records that no library of Python's writes."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._sent = 0
        self._secret = b""

    def _record(self, kind: int, content: bytes) -> bytes:
        if not self._secret:
            found = re.search(r"CLIENT_TRAFFIC_SECRET_0 \w+ (\w+)", self._path.read_text())
            assert found is not None
            self._secret = bytes.fromhex(found[1])
        key, iv = self._derived("key", 32), self._derived("iv", 12)
        nonce = bytes(a ^ b for a, b in zip(iv, self._sent.to_bytes(12, "big"), strict=True))
        self._sent += 1
        header = b"\x17\x03\x03" + (len(content) + 17).to_bytes(2, "big")
        return header + AESGCM(key).encrypt(nonce, content + bytes([kind]), header)

    def _derived(self, label: str, size: int) -> bytes:
        name = f"tls13 {label}".encode()
        info = size.to_bytes(2, "big") + bytes([len(name)]) + name + b"\0"
        return HKDFExpand(hashes.SHA384(), size, info).derive(self._secret)

    def data(self, content: bytes) -> bytes:
        return self._record(23, content)

    def new_key(self) -> bytes:
        """KeyUpdate, which asks for one of the other side; what follows has the new key."""
        record = self._record(22, b"\x18\0\0\1\1")
        self._secret, self._sent = self._derived("traffic upd", 48), 0
        return record


@pytest.fixture
def keyed(tmp_path: Path) -> tuple[Dialogue, Secrets]:
    context = client()
    context.keylog_filename = str(tmp_path / "keys")
    return Dialogue(them=context).open(), Secrets(tmp_path / "keys")


def fill(talk: Dialogue) -> int:
    """Sends until the socket takes no more; returns how many bytes were accepted."""
    sent = 0
    with suppress(BlockingIOError):
        while True:
            sent += talk.transport.send(bytes(100_000))
    return sent


def test_a_new_key_is_answered_with_one(keyed: tuple[Dialogue, Secrets]) -> None:
    talk, secrets = keyed
    talk.peer.read()
    talk.peer.raw = b""
    talk.peer.socket.sendall(secrets.data(b"old,") + secrets.new_key() + secrets.data(b"new"))
    talk.turns()
    assert talk.received == b"old,new"
    talk.transport.send(b"answer")
    assert talk.peer.read() == b"answer"
    assert records(talk.peer.raw) == [23, 23]  # the new key is one of them


class Owing:
    """TLS that has to answer what it reads, as versions of OpenSSL do a new key, and any a renegotiation."""

    def __init__(self, real: ssl.SSLObject, owed: bytes) -> None:
        self._real = real
        self._owed = owed

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def read(self, size: int, buffer: memoryview) -> int:
        owed, self._owed = self._owed, b""
        if owed:
            self._real.write(owed)
        count: Any = self._real.read(size, cast("Any", buffer))
        return int(count)


def owing(talk: Dialogue, owed: bytes = b"owed") -> None:
    talk.transport._tls = cast("Any", Owing(cast("ssl.SSLObject", talk.transport._tls), owed))


def test_what_tls_owes_is_sent_at_once(talk: Dialogue) -> None:
    owing(talk)
    talk.peer.write(b"question")
    talk.turns()
    assert talk.received == b"question"
    assert talk.peer.read() == b"owed"


def test_nothing_is_read_while_tls_cannot_send_what_it_owes(talk: Dialogue) -> None:
    """A peer that makes TLS answer, and reads no answer, gets no memory of ours."""
    owing(talk)
    zeros = fill(talk)
    fresh = talk.transport._fresh
    talk.peer.write(b"old")
    talk.turns()
    talk.peer.write(b"new")
    talk.turns()
    assert talk.received == b"old"
    assert not talk.loop.readers
    talk.readable()
    talk.transport.ignore_writable()  # which does not end the wait
    talk.transport.pause_reading()
    talk.transport.resume_reading()
    talk.transport._has_room()  # as the loop thinks
    talk.turns()
    assert talk.received == b"old"
    got = b""
    while talk.loop.writers:
        got += talk.peer.read()
        talk.turns()
    assert talk.received == b"oldnew"
    assert got + talk.peer.read() == bytes(zeros + fresh) + b"owed"


def test_what_tls_owes_is_sent_when_there_is_room_though_reading_is_paused(talk: Dialogue) -> None:
    owing(talk)
    fill(talk)
    talk.peer.write(b"old")
    talk.turns()
    talk.peer.write(b"new")
    talk.transport.pause_reading()
    talk.transport.watch_writable()
    while talk.loop.writers:
        talk.peer.read()
        talk.turns()
    assert talk.rooms >= 1
    assert talk.received == b"old"
    talk.transport.resume_reading()
    talk.turns()
    assert talk.received == b"oldnew"


def test_a_record_without_data_to_which_tls_owes_an_answer(keyed: tuple[Dialogue, Secrets]) -> None:
    talk, secrets = keyed
    owing(talk)
    fill(talk)
    talk.peer.socket.sendall(secrets.data(b""))
    talk.turns()
    talk.peer.socket.sendall(secrets.data(b"new"))
    talk.turns()
    assert talk.received == b""
    while talk.loop.writers:
        talk.peer.read()
        talk.turns()
    assert talk.received == b"new"


def test_a_peer_has_gone_to_which_tls_owes_an_answer(talk: Dialogue) -> None:
    owing(talk)
    talk.peer.write(b"old")
    talk.peer.socket.close()
    talk.turns()
    assert talk.received == b"old"
    assert [type(error) for error in talk.errors] == [BrokenPipeError]


def test_a_peer_goes_to_which_tls_owes_an_answer(talk: Dialogue) -> None:
    owing(talk)
    fill(talk)
    talk.peer.write(b"old")
    talk.turns()
    talk.peer.socket.close()
    talk.turns()
    assert talk.received == b"old"
    assert len(talk.errors) == 1
    assert talk.is_closed


def test_records_without_data(keyed: tuple[Dialogue, Secrets]) -> None:
    talk, secrets = keyed
    talk.peer.socket.sendall(secrets.data(b""))
    talk.turns()
    talk.peer.socket.sendall(secrets.data(b"") + secrets.data(b"x"))
    talk.turns()
    assert talk.received == b"x"


@pytest.mark.parametrize("window", [5, 1000, 1 << 17])
@pytest.mark.parametrize("step", [1, 100, 5_000, 200_000])
def test_records_of_any_size_in_pieces_of_any_size(window: int, step: int) -> None:
    talk = Dialogue(window=window).open()
    chance = random.Random(4)
    sent = b""
    while len(sent) < min(20 * step, 20_000):
        data = chance.randbytes(chance.choice([1, 9, 30, 1_000, 20_000]))
        talk.peer.tls.write(data)
        sent += data
    while piece := talk.peer._out.read(step):
        talk.peer.socket.sendall(piece)
        talk.turns()
    assert talk.received == sent
    assert not talk.transport._arrived
    assert not talk.transport._has_unread


def test_a_part_of_a_record_is_kept_and_no_more(talk: Dialogue) -> None:
    talk.peer.tls.write(b"x" * 10_000)
    data = talk.peer._out.read()
    talk.peer.socket.sendall(data[:7_000])
    talk.turns()
    assert len(talk.transport._arrived) == 7_000
    talk.peer.socket.sendall(data[7_000:])
    talk.turns()
    assert len(talk.received) == 10_000
    assert not talk.transport._arrived


def test_no_more_is_read_from_the_socket_than_the_endpoint_takes(talk: Dialogue) -> None:
    talk.peer.write(b"x" * 100_000)
    kept = 0
    while talk.loop.turn():
        tls = talk.transport._tls
        assert tls is not None
        kept = max(kept, len(talk.transport._arrived) + talk.transport._incoming.pending + tls.pending())
    assert len(talk.received) == 100_000
    assert kept < 2 * MOST_RECORD_BYTES


def test_a_reset_that_was_reported_before_the_last_bytes(talk: Dialogue) -> None:
    """The error of the socket comes to the endpoint after these, without another call of the loop's."""
    talk.peer.write(b"x")
    pair = socket.create_server(("127.0.0.1", 0))
    peer = socket.create_connection(pair.getsockname())
    ours, _ = pair.accept()
    ours.setblocking(False)
    ours.send(b"unread")
    peer.sendall(talk.transport._socket.recv(1000))
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    select.select([ours], [], [])
    peer.close()
    real, talk.transport._socket = talk.transport._socket, ours
    talk.loop.readers.clear()
    talk.transport._is_readable()
    talk.turns()
    assert talk.received == b"x"
    assert [type(error) for error in talk.errors] == [ConnectionResetError]
    for each in (real, pair):
        each.close()


def test_a_peer_whose_records_have_to_be_small(talk: Dialogue) -> None:
    """As one that asks for a max_fragment_length; TLS says how much it has taken of a piece."""

    class Small:
        def __init__(self, real: ssl.SSLObject) -> None:
            self._real = real

        def __getattr__(self, name: str) -> Any:
            return getattr(self._real, name)

        def write(self, data: memoryview) -> int:
            return self._real.write(data[:512])

    talk.transport._tls = cast("Any", Small(cast("ssl.SSLObject", talk.transport._tls)))
    data = random.Random(5).randbytes(100_000)
    assert talk.transport.send(data) == 100_000
    assert talk.peer.read() == data


def test_nothing_can_be_encrypted_after_the_goodbye(talk: Dialogue) -> None:
    tls = talk.transport._tls
    assert tls is not None
    with suppress(ssl.SSLError):
        tls.unwrap()
    with pytest.raises(ConnectionAbortedError):
        talk.transport.send(b"x")


class Narrow:
    """A socket with room for so many bytes."""

    def __init__(self, real: socket.socket, room: int) -> None:
        self._real = real
        self.room = room

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def send(self, data: bytes | memoryview) -> int:
        if not self.room:
            raise BlockingIOError
        count = self._real.send(data[: self.room])
        self.room -= count
        return count

    def sendmsg(self, parts: list[bytes]) -> int:
        return self.send(b"".join(parts))


def test_any_room(talk: Dialogue, tmp_path: Path) -> None:
    """What is accepted was sent, and is sent once."""
    content = random.Random(6).randbytes(300_000)
    path = tmp_path / "records"
    path.write_bytes(content)
    chance = random.Random(7)
    narrow = Narrow(talk.transport._socket, 0)
    talk.transport._socket = cast("Any", narrow)
    got, position = b"", 0
    with path.open("rb") as file:
        while position < len(content):
            narrow.room = chance.choice([0, 1, 100, 20_000, 65_624, 65_630, 90_000])
            is_held = not talk.transport._fresh and not talk.transport._unsent
            before = position
            with suppress(BlockingIOError):
                if is_held:
                    few = content[position : position + chance.randrange(20)]
                    position += talk.transport.send(few, MORE_COMES)
                position += talk.transport.send_file(file.fileno(), position, 150_000)
            assert position >= before
            got += talk.peer.read()
    narrow.room = 1_000_000
    talk.transport.send(b"")
    assert got + talk.peer.read() == content


def test_a_part_of_a_file_waits_encrypted(talk: Dialogue, tmp_path: Path) -> None:
    """It is accepted when it is sent, without the file, which need not be read again."""
    path = tmp_path / "records"
    path.write_bytes(b"0123456789")
    zeros = fill(talk)
    fresh = talk.transport._fresh
    got = b""
    with path.open("rb") as file:
        with pytest.raises(BlockingIOError):
            talk.transport.send_file(file.fileno(), 0, 10)
        for _ in range(1000):
            got += talk.peer.read()
            with suppress(BlockingIOError):
                assert talk.transport.send_file(file.fileno(), 0, fresh) == fresh
                break
    got += talk.peer.read()
    assert got == bytes(zeros + fresh)


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
    assert talk.transport._socket.fileno() >= 0
    runner.release()
    assert talk.peer.socket.recv(1) == b""
    assert talk.transport._tls is None


@pytest.mark.parametrize("leaves", [False, True])
def test_a_handshake_waits_for_room(leaves: bool) -> None:
    runner = HeldRunner()
    talk = Dialogue(runner)
    talk.peer.move()
    talk.turns()
    with suppress(BlockingIOError):
        while True:
            talk.transport._socket.send(bytes(1000))
    runner.release()
    assert talk.loop.writers
    assert not talk.loop.readers
    assert not talk.loop.turn()
    if leaves:
        talk.peer.socket.close()
        talk.turns()
        assert [type(error) for error in talk.errors] == [BrokenPipeError]
        assert (talk.guard.admitted, talk.guard.rejections) == ([], [])
        return
    while talk.loop.writers:
        assert talk.peer.socket.recv(1 << 16)
        talk.turns()
    assert talk.loop.readers


@pytest.mark.parametrize("data", [b"", b"last"])
def test_a_client_leaves_without_its_session_tickets(data: bytes) -> None:
    """It may have sent something all the same."""
    runner = HeldRunner()
    talk = Dialogue(runner, window=100)
    talk.peer.move()
    talk.turns()
    runner.release()
    talk.peer.take()
    talk.peer.tls.do_handshake()
    if data:
        talk.peer.tls.write(data)
    talk.peer.socket.sendall(talk.peer._out.read())
    talk.turns()
    talk.peer.socket.close()
    runner.release_all()
    talk.turns()
    assert talk.guard.admitted == ["TLSv1.3"]
    assert talk.received == data
    assert talk.has_ended or talk.errors
    assert talk.is_closed


def test_an_error_of_a_step_that_is_not_of_tls() -> None:
    runner = HeldRunner()
    talk = Dialogue(runner)
    talk.peer.move()
    talk.turns()
    runner.fail(OSError("no memory"))
    assert (len(talk.errors), talk.guard.rejections) == (1, [])
    assert talk.is_closed


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
    talk.transport._has_bytes()
    assert talk.errors == []
    talk.transport._socket.close()
    talk.transport._has_bytes()
    assert [type(error) for error in talk.errors] == [OSError]
    talk.loop.readers.clear()
    assert os.name == "posix"


def test_a_client_that_ends_its_side_in_the_middle_is_a_failure() -> None:
    talk = Dialogue()
    talk.peer.move()
    talk.turns()
    talk.peer.socket.shutdown(socket.SHUT_WR)
    talk.turns()
    assert talk.guard.rejections == ["the peer closed the connection"]
    assert talk.is_closed


def test_what_begins_like_a_record_and_is_none_is_refused_at_once() -> None:
    talk = Dialogue()
    talk.peer.socket.sendall(b"\x16GET /")
    talk.turns()
    assert talk.guard.rejections == ["the peer does not speak TLS: it is a PLAINTEXT or SASL_PLAINTEXT one"]
    assert talk.is_closed


def test_a_part_of_a_record_takes_no_thread() -> None:
    runner = HeldRunner()
    talk = Dialogue(runner)
    with suppress(ssl.SSLWantReadError):
        talk.peer.tls.do_handshake()
    data = talk.peer._out.read()
    talk.peer.socket.sendall(data[:-1])
    talk.turns()
    assert runner.held == 0
    talk.peer.socket.sendall(data[-1:])
    talk.turns()
    assert runner.held == 1
    runner.release()


def test_what_comes_with_the_end_of_the_handshake_is_read() -> None:
    talk = Dialogue()
    talk.peer.move()
    talk.turns()
    talk.peer.take()
    talk.peer.tls.do_handshake()
    talk.peer.tls.write(b"first,")
    talk.peer.tls.write(b"second," * 3_000)
    talk.peer.tls.write(b"third")
    data = talk.peer._out.read()
    talk.peer.socket.sendall(data[:-3])
    talk.turns()
    talk.peer.socket.sendall(data[-3:])
    talk.turns()
    assert talk.received == b"first," + b"second," * 3_000 + b"third"


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
    assert talk.transport._socket.fileno() == -1
