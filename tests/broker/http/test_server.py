"""The HTTP port, asked by the standard library's client from another thread."""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Generator
from typing import Any, NamedTuple

import pytest

from barnabas.broker.http.server import HttpServer
from barnabas.broker.metrics.prometheus import Metrics
from barnabas.broker.network.listeners import ListenError
from barnabas.broker.waiting.on_loop import LoopSilentError, OnLoop
from barnabas.config.broker_config import BrokerConfig

LEADERS = "kafka_server_replicamanager_leadercount"


class Reply(NamedTuple):
    status: int
    content_type: str
    body: str


def ask(port: int, path: str, method: str = "GET") -> Reply:
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", method=method)
    try:
        with urllib.request.urlopen(request, timeout=60) as reply:
            return Reply(reply.status, reply.headers["Content-Type"], reply.read().decode())
    except urllib.error.HTTPError as error:
        with error:
            return Reply(error.code, error.headers["Content-Type"], error.read().decode())


class HttpHarness:
    """An HttpServer with one metric, ready unless `reason` says why not."""

    def __init__(self) -> None:
        self.reason: str | None = None
        self.threads: set[int] = set()
        metrics = Metrics()
        metrics.add_value(LEADERS, self.leaders)
        self.http = HttpServer(asyncio.get_running_loop(), BrokerConfig(), metrics, lambda: self.reason)
        self.port = self.http.bind("127.0.0.1", 0)
        self.http.start()

    def leaders(self) -> float:
        self.threads.add(threading.get_ident())
        return 3

    async def ask(self, path: str, method: str = "GET") -> Reply:
        return await asyncio.to_thread(ask, self.port, path, method)


@pytest.fixture
async def harness() -> HttpHarness:  # type: ignore[misc]
    harness = HttpHarness()
    yield harness
    harness.http.close()


async def test_metrics(harness: HttpHarness) -> None:
    reply = await harness.ask("/metrics")
    assert reply.status == 200
    assert reply.content_type.startswith("text/plain; version=")
    assert f"\n{LEADERS} 3.0\n" in reply.body
    assert ("process_resident_memory_bytes" in reply.body) is (sys.platform == "linux")


async def test_state_is_read_on_the_event_loop_only(harness: HttpHarness) -> None:
    await harness.ask("/metrics")
    assert harness.threads == {threading.get_ident()}


async def test_live(harness: HttpHarness) -> None:
    assert await harness.ask("/health/live") == (200, "text/plain; charset=utf-8", "alive\n")


async def test_ready_and_not_ready(harness: HttpHarness) -> None:
    assert (await harness.ask("/health/ready")).status == 200
    harness.reason = "log directory /data has failed"
    assert await harness.ask("/health/ready") == (
        503,
        "text/plain; charset=utf-8",
        "log directory /data has failed\n",
    )


async def test_the_index_lists_the_rest(harness: HttpHarness) -> None:
    reply = await harness.ask("/")
    assert reply.content_type == "text/html; charset=utf-8"
    for path in ("/metrics", "/health/live", "/health/ready"):
        assert f'href="{path}"' in reply.body


async def test_there_is_nothing_else(harness: HttpHarness) -> None:
    assert (await harness.ask("/etc/passwd")).status == 404
    assert (await harness.ask("/metrics", "POST")).status == 405
    assert await harness.ask("/health/live", "HEAD") == (200, "text/plain; charset=utf-8", "")


async def test_many_at_once(harness: HttpHarness) -> None:
    replies = await asyncio.gather(*(harness.ask("/health/ready") for _ in range(5)))
    assert [reply.status for reply in replies] == [200] * 5


async def test_a_client_that_says_nothing_holds_up_nobody(harness: HttpHarness) -> None:
    with socket.create_connection(("127.0.0.1", harness.port)):
        assert (await harness.ask("/health/live")).status == 200


async def test_a_source_that_fails_is_a_bug_and_answered_as_one(
    harness: HttpHarness, caplog: pytest.LogCaptureFixture
) -> None:
    def fails() -> float:
        raise ZeroDivisionError

    harness.leaders = fails  # type: ignore[method-assign]
    harness.http._metrics._sources[LEADERS] = lambda: [((), fails())]
    assert (await harness.ask("/metrics")).status == 500
    assert "ZeroDivisionError" in caplog.text
    assert caplog.records[-1].levelno == logging.ERROR


async def test_after_close_nobody_answers(harness: HttpHarness) -> None:
    harness.http.close()
    with pytest.raises(urllib.error.URLError):
        await harness.ask("/health/live")


async def test_a_taken_port_is_named(harness: HttpHarness) -> None:
    second = HttpServer(asyncio.get_running_loop(), BrokerConfig(), Metrics(), lambda: None)
    with pytest.raises(ListenError, match=f"127.0.0.1:{harness.port}"):
        second.bind("127.0.0.1", harness.port)


async def test_too_many_at_once_are_turned_away(harness: HttpHarness) -> None:
    silent = [socket.create_connection(("127.0.0.1", harness.port)) for _ in range(8)]
    try:
        while harness.http._free_threads.acquire(blocking=False):
            harness.http._free_threads.release()
            await asyncio.sleep(0)
        with pytest.raises((urllib.error.URLError, ConnectionError)):
            await harness.ask("/health/live")
    finally:
        for connection in silent:
            connection.close()


class OutOfFiles:
    """A listening socket at which somebody waits whom nobody can accept."""

    def accept(self) -> tuple[socket.socket, object]:
        raise OSError(errno.EMFILE, "Too many open files")


class Loop:
    """Writes down what it is asked to watch, and what to do later."""

    def __init__(self) -> None:
        self.watched: list[object] = []
        self.later: list[tuple[float, Callable[[], None]]] = []

    def add_reader(self, what: object, callback: Callable[[Any], None], *args: object) -> None:
        self.watched.append(what)

    def remove_reader(self, what: object) -> None:
        self.watched.remove(what)

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> asyncio.TimerHandle:
        self.later.append((delay_s, callback))
        return asyncio.TimerHandle(0, callback, (), asyncio.get_running_loop())


async def test_without_a_file_descriptor_left_it_does_not_try_without_a_pause() -> None:
    loop, listening = Loop(), OutOfFiles()
    http = HttpServer(loop, BrokerConfig(), Metrics(), lambda: None)  # type: ignore[arg-type]
    http._sockets = [listening]  # type: ignore[list-item]
    http.start()
    assert loop.watched == [listening]
    http._accept(listening)  # type: ignore[arg-type]
    assert loop.watched == []
    http._accept(listening)  # type: ignore[arg-type]  # the loop had more to say than that
    ((delay_s, resume),) = loop.later
    assert delay_s > 0
    resume()
    assert loop.watched == [listening]
    http._accept(listening)  # type: ignore[arg-type]
    assert loop.watched == []


async def test_a_thread_that_cannot_be_started_costs_one_request_and_no_more(
    harness: HttpHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuses(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch, socket.socket() as listening:
        patch.setattr(threading.Thread, "start", refuses)
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        for _ in range(20):
            with socket.create_connection(listening.getsockname()) as client:
                harness.http._accept(listening)
                assert client.recv(1) == b""
    assert (await harness.ask("/health/live")).status == 200


# ---- asking the event loop from another thread


async def from_a_thread(function: Callable[[], object]) -> object:
    return await asyncio.to_thread(function)


async def test_what_is_asked_is_done_on_the_loop() -> None:
    on_loop = OnLoop(asyncio.get_running_loop())
    assert await from_a_thread(lambda: on_loop.call(threading.get_ident, 5)) == threading.get_ident()


async def test_its_errors_come_back() -> None:
    on_loop = OnLoop(asyncio.get_running_loop())
    with pytest.raises(ZeroDivisionError):
        await from_a_thread(lambda: on_loop.call(lambda: 1 / 0, 5))


async def test_steps_leave_the_loop_to_others_in_between() -> None:
    order: list[str] = []

    def steps() -> Generator[None, None, str]:
        for _ in range(3):
            asyncio.get_running_loop().call_soon(order.append, "other")
            order.append("step")
            yield
        return "done"

    on_loop = OnLoop(asyncio.get_running_loop())
    assert await from_a_thread(lambda: on_loop.run(steps, 5)) == "done"
    assert order == ["step", "other"] * 3


def test_a_loop_that_is_stuck_is_reported() -> None:
    loop = asyncio.new_event_loop()  # nobody runs it
    try:
        with pytest.raises(LoopSilentError, match=r"has not answered for 0\.01 s"):
            OnLoop(loop).call(lambda: None, 0.01)
        loop.call_soon(loop.stop)
        loop.run_forever()  # finds that nobody waits any more
    finally:
        loop.close()


def test_a_loop_that_has_ended_is_reported() -> None:
    loop = asyncio.new_event_loop()
    loop.close()
    with pytest.raises(LoopSilentError, match="has ended"):
        OnLoop(loop).call(lambda: None, 5)


def test_a_stuck_loop_is_not_alive() -> None:
    from barnabas.broker.http.app import Application

    class Silent(OnLoop):
        def run(self, *_: object) -> object:  # type: ignore[override]
            raise LoopSilentError("the event loop has not answered for 5 s")

    loop = asyncio.new_event_loop()
    try:
        statuses: list[str] = []
        app = Application(Silent(loop), BrokerConfig(), Metrics(), lambda: None)
        for path in ("/health/live", "/health/ready"):
            environ = {"REQUEST_METHOD": "GET", "PATH_INFO": path, "SERVER_PROTOCOL": "HTTP/1.0"}
            body = b"".join(app(environ, lambda status, headers: statuses.append(status)))  # type: ignore[arg-type]
            assert b"has not answered" in body
        assert statuses == ["503 Service Unavailable"] * 2
    finally:
        loop.close()
