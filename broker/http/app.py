"""The pages of the HTTP port. Imported with the first request: the standard library's HTTP modules cost 30 ms."""

from __future__ import annotations

import io
import logging
import socket
from collections.abc import Callable, Iterable
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from barnabas.broker.compaction.status import Compaction
from barnabas.broker.http.arriving import Arriving
from barnabas.broker.http.compaction import CompactionPages, read_body
from barnabas.broker.http.hosts import rejection
from barnabas.broker.metrics.prometheus import Metrics, exposition
from barnabas.broker.waiting.on_loop import LoopSilentError, OnLoop

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

    from barnabas.broker.http.login import BasicLogin
    from barnabas.broker.http.tls import HttpTls
    from barnabas.config.broker_config import BrokerConfig

logger = logging.getLogger("barnabas.http")

LIVE_TIMEOUT_S = 5.0
"""After this time without an answer the event loop counts as dead."""

SCRAPE_TIMEOUT_S = 10.0
"""Prometheus itself waits no longer, by default."""

CLIENT_TIMEOUT_S = 10.0
"""How long a handshake may take, and a request to come."""

OPEN_PAGES = ("/health/live", "/health/ready")
"""Pages that ask for no login: what probes them seldom has one (kubelet, load balancers)."""

_INDEX = """<!doctype html>
<title>Barnabas</title>
<h1>Barnabas</h1>
<ul>
<li><a href="/metrics">/metrics</a>: for Prometheus, under the names that dashboards for Apache Kafka use
<li><a href="/health/live">/health/live</a>: 200 while the broker's event loop answers
<li><a href="/health/ready">/health/ready</a>: 200 while clients are served, else 503 and the reason
<li><a href="/compaction">/compaction</a>: the running compactions
<li>/topics/<i>topic</i>/compact: the state of a topic's compaction; POST starts one
</ul>
"""


class Application:
    """The WSGI application."""

    def __init__(
        self,
        on_loop: OnLoop,
        config: BrokerConfig,
        metrics: Metrics,
        not_ready: Callable[[], str | None],
        compaction: Compaction | None = None,
        *,
        login: BasicLogin | None = None,
    ) -> None:
        self._on_loop = on_loop
        self._login = login
        self._config = config
        self._has_warned = False
        self._metrics = metrics
        self._not_ready = not_ready
        self._compaction = None if compaction is None else CompactionPages(on_loop, compaction)
        self._exposition: WSGIApplication | None = None
        self._routes: dict[str, Callable[[WSGIEnvironment, StartResponse], Iterable[bytes]]] = {
            "/": self._index,
            "/metrics": self._show_metrics,
            "/health/live": self._live,
            "/health/ready": self._ready,
        }

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        rejected = rejection(environ.get("HTTP_HOST"), environ["SERVER_PROTOCOL"], self._config)
        if rejected is not None:
            self._warn_once(rejected.text)
            return _text(start_response, rejected.status, rejected.text)
        try:
            if self._login is not None and not self._may_ask(environ, self._login):
                return _ask_for_login(environ, start_response)
            return self._route(environ, start_response)
        except LoopSilentError as error:
            return _text(start_response, HTTPStatus.SERVICE_UNAVAILABLE, str(error))
        except Exception:
            logger.exception("a bug: no response to %s", environ["PATH_INFO"])
            return _text(start_response, HTTPStatus.INTERNAL_SERVER_ERROR, "see the broker's log")

    def _may_ask(self, environ: WSGIEnvironment, login: BasicLogin) -> bool:
        if environ["PATH_INFO"] in OPEN_PAGES and environ["REQUEST_METHOD"] in ("GET", "HEAD"):
            return True
        client = environ["REMOTE_ADDR"], int(environ["REMOTE_PORT"])
        return login.admits(environ.get("HTTP_AUTHORIZATION"), client)

    def _warn_once(self, text: str) -> None:
        """Logs the first rejection, since clients may show only the status."""
        if not self._has_warned:
            self._has_warned = True
            logger.warning("http: a request is rejected: %s (further ones are not logged)", text)

    def _route(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        path = environ["PATH_INFO"]
        if self._compaction is not None and self._compaction.matches(path):
            status, text = self._compaction.answer(environ)
            return _answer(start_response, status, "application/json", text)
        if environ["REQUEST_METHOD"] not in ("GET", "HEAD"):
            return _text(start_response, HTTPStatus.METHOD_NOT_ALLOWED, "only GET and HEAD")
        route = self._routes.get(path)
        if route is None:
            return _text(start_response, HTTPStatus.NOT_FOUND, "no such page; / lists all of them")
        return route(environ, start_response)

    def _index(self, _: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        return _answer(start_response, HTTPStatus.OK, "text/html", _INDEX)

    def _show_metrics(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        if self._exposition is None:
            self._exposition = exposition(lambda: self._on_loop.run(self._metrics.snapshot, SCRAPE_TIMEOUT_S))
        return self._exposition(environ, start_response)

    def _live(self, _: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        self._on_loop.call(lambda: None, LIVE_TIMEOUT_S)
        return _text(start_response, HTTPStatus.OK, "alive")

    def _ready(self, _: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        reason = self._on_loop.call(self._not_ready, LIVE_TIMEOUT_S)
        if reason is None:
            return _text(start_response, HTTPStatus.OK, "ready")
        if self._login is not None:  # a reason may name directories
            reason = "not ready; the broker's log says why"
        return _text(start_response, HTTPStatus.SERVICE_UNAVAILABLE, reason)


def _ask_for_login(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
    from barnabas.broker.http.login import CHALLENGE

    if environ["REQUEST_METHOD"] not in ("GET", "HEAD"):
        read_body(environ)
    return _answer(
        start_response, HTTPStatus.UNAUTHORIZED, "text/plain", "a login is required\n", (CHALLENGE,)
    )


def _text(start_response: StartResponse, status: HTTPStatus, text: str) -> Iterable[bytes]:
    return _answer(start_response, status, "text/plain", f"{text}\n")


def _answer(
    start_response: StartResponse,
    status: HTTPStatus,
    content_type: str,
    text: str,
    more_headers: Iterable[tuple[str, str]] = (),
) -> Iterable[bytes]:
    body = text.encode()
    headers = [
        ("Content-Type", f"{content_type}; charset=utf-8"),
        ("Content-Length", str(len(body))),
        ("Cache-Control", "no-store"),
        *more_headers,
    ]
    start_response(f"{status.value} {status.phrase}", headers)
    return [body]


class _Handler(WSGIRequestHandler):
    """One request, without a log line above DEBUG."""

    timeout = CLIENT_TIMEOUT_S

    def setup(self) -> None:
        super().setup()
        self.rfile.close()
        self.rfile = io.BufferedReader(Arriving(self.connection, CLIENT_TIMEOUT_S))

    def get_environ(self) -> dict[str, Any]:
        return {**super().get_environ(), "REMOTE_PORT": str(self.client_address[1])}

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # the base class calls it so
        logger.debug(format, *args)


class RequestServer(WSGIServer):
    """The standard library's WSGI server without its socket: connections come from elsewhere, one at a time."""

    def __init__(self, application: WSGIApplication, tls: HttpTls | None = None) -> None:
        super().__init__(("", 0), _Handler, bind_and_activate=False)
        self._tls = tls
        self.socket.close()
        self.server_name = "barnabas"
        self.server_port = 0
        self.setup_environ()
        self.set_app(application)

    def serve(self, accepted: socket.socket, address: tuple[str, int]) -> None:
        """Serves the one request of a connection, and closes it. Raises OSError when the client has gone."""
        connection = accepted
        try:
            accepted.settimeout(CLIENT_TIMEOUT_S)
            if self._tls is not None:
                connection = self._tls.wrap(accepted)
            self.finish_request(connection, address)
            if self._tls is not None:
                from barnabas.broker.http.tls import say_goodbye

                say_goodbye(connection)
        finally:
            self.shutdown_request(connection)
