"""The HTTP port: /metrics, /health/live, /health/ready, compaction, and a page that lists them.

The event loop accepts connections, so that an idle port costs no thread, no timer and no import; each request is then
served by a thread of its own, with the WSGI server of the standard library, which is imported with the first request.
The thread reads the broker's state on the event loop (`OnLoop`). (serve_forever of the standard library would need the
import at the start and a thread for each socket, and spin while no file descriptor is left.)
"""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from barnabas.broker.metrics.prometheus import Metrics
from barnabas.broker.network.listeners import USE_SYSTEM_BUFFER, bind
from barnabas.broker.waiting.on_loop import OnLoop

if TYPE_CHECKING:
    from barnabas.broker.compaction.status import Compaction
    from barnabas.broker.http.app import RequestServer
    from barnabas.broker.http.login import BasicLogin
    from barnabas.broker.http.tls import HttpTls
    from barnabas.config.broker_config import BrokerConfig

logger = logging.getLogger("barnabas.http")


_BACKLOG = 16
_PAUSE_S = 1.0
_MAX_THREADS = 8
"""Requests served at a time; further connections are closed."""


class HttpSecurity(NamedTuple):
    """What clients of the port go through; None: nothing of the kind."""

    tls: HttpTls | None = None
    login: BasicLogin | None = None


OPEN = HttpSecurity()
"""Of a port that every client may use."""


class HttpServer:
    """Serves metrics and health. `not_ready` runs on the event loop: None, or why clients cannot be served.

    bind(), which raises ListenError, then start(); close() at the end.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        config: BrokerConfig,
        metrics: Metrics,
        not_ready: Callable[[], str | None],
        compaction: Compaction | None = None,
        *,
        security: HttpSecurity = OPEN,
    ) -> None:
        self._loop = loop
        self._security = security
        self._config = config
        self._compaction = compaction
        self._metrics = metrics
        self._not_ready = not_ready
        self._sockets: list[socket.socket] = []
        self._pause: asyncio.TimerHandle | None = None
        self._server: RequestServer | None = None
        self._server_lock = threading.Lock()
        self._free_threads = threading.BoundedSemaphore(_MAX_THREADS)

    def bind(self, host: str | None, port: int) -> int:
        """Binds the port, 0 for any that is free, and returns it."""
        self._sockets = bind(host, port, backlog=_BACKLOG, receive_buffer_bytes=USE_SYSTEM_BUFFER)
        return self.port

    @property
    def port(self) -> int:
        return int(self._sockets[0].getsockname()[1])

    def start(self) -> None:
        for listening in self._sockets:
            self._loop.add_reader(listening, self._accept, listening)

    def close(self) -> None:
        """Closes the port; a request that is being served may still be answered."""
        if self._pause is not None:
            self._pause.cancel()
        for listening in self._sockets:
            self._loop.remove_reader(listening)
            listening.close()
        self._sockets = []

    def _accept(self, listening: socket.socket) -> None:
        try:
            accepted, address = listening.accept()
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):  # gone already
            return
        except OSError as error:
            self._pause_accepting(error)
            return
        if not self._free_threads.acquire(blocking=False):
            accepted.close()
            return
        thread = threading.Thread(
            target=self._serve, args=(accepted, address), name="barnabas-http", daemon=True
        )
        try:
            thread.start()
        except RuntimeError as error:  # the system has none to give
            logger.warning("http: a request cannot be served: %s", error)
            self._free_threads.release()
            accepted.close()

    def _pause_accepting(self, error: OSError) -> None:
        """Pauses: without a free file descriptor the loop would report the waiting client again and again."""
        if self._pause is not None:
            return  # the other socket had a client waiting too
        logger.warning("http: cannot accept connections: %s", error)
        for listening in self._sockets:
            self._loop.remove_reader(listening)
        self._pause = self._loop.call_later(_PAUSE_S, self._resume)

    def _resume(self) -> None:
        self._pause = None
        self.start()

    def _serve(self, accepted: socket.socket, address: tuple[str, int]) -> None:
        try:
            self._request_server().serve(accepted, address)
        except OSError as error:  # the client has gone, or was too slow
            logger.debug("http: %s: %s", address[0], error)
        finally:
            self._free_threads.release()

    def _request_server(self) -> RequestServer:
        with self._server_lock:
            if self._server is None:
                from barnabas.broker.http.app import Application, RequestServer

                on_loop = OnLoop(self._loop)
                tls, login = self._security
                application = Application(
                    on_loop, self._config, self._metrics, self._not_ready, self._compaction, login=login
                )
                self._server = RequestServer(application, tls)
            return self._server
