"""Compaction over HTTP: GET /compaction, GET and POST /topics/{topic}/compact. Imported with the first request.

Any client that reaches the port may send these, as everything else on it. Web pages may not: a browser in the broker's
network sends requests for any page, and its headers, which are checked here, show it.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from barnabas.broker.compaction.status import Compaction, CompactionRejectedError, RejectionReason, Report
from barnabas.broker.waiting.on_loop import OnLoop

if TYPE_CHECKING:
    from wsgiref.types import WSGIEnvironment

TIMEOUT_S: Final = 10.0
_LARGEST_BODY_BYTES: Final = 65_536
_OVERVIEW: Final = "/compaction"
_STATUS: Final = {
    RejectionReason.UNKNOWN_TOPIC: HTTPStatus.NOT_FOUND,
    RejectionReason.NOT_COMPACTED: HTTPStatus.CONFLICT,
    RejectionReason.TURNED_OFF: HTTPStatus.CONFLICT,
    RejectionReason.OFFLINE: HTTPStatus.SERVICE_UNAVAILABLE,
}


class CompactionPages:
    """Answers as (status, JSON text)."""

    def __init__(self, on_loop: OnLoop, compaction: Compaction) -> None:
        self._on_loop = on_loop
        self._compaction = compaction

    def matches(self, path: str) -> bool:
        """Whether the path is one of these pages."""
        return path == _OVERVIEW or _topic_of(path) is not None

    def answer(self, environ: WSGIEnvironment) -> tuple[HTTPStatus, str]:
        """Raises LoopSilentError."""
        topic, method = _topic_of(environ["PATH_INFO"]), environ["REQUEST_METHOD"]
        if method not in ("GET", "HEAD"):
            read_body(environ)
            if topic is None or method != "POST":
                return _error(
                    HTTPStatus.METHOD_NOT_ALLOWED, "only GET, HEAD, and POST to have a topic compacted"
                )
            if is_from_a_web_page(environ):
                return _error(HTTPStatus.FORBIDDEN, "not for web pages")
            return self._ask(lambda: self._compaction.request(topic), HTTPStatus.ACCEPTED)
        if topic is None:
            return self._ask(self._compaction.overview, HTTPStatus.OK)
        return self._ask(lambda: self._compaction.state(topic), HTTPStatus.OK)

    def _ask(self, question: Callable[[], Report], status: HTTPStatus) -> tuple[HTTPStatus, str]:
        try:
            return status, _json(self._on_loop.call(question, TIMEOUT_S))
        except CompactionRejectedError as error:
            return _error(_STATUS[error.reason], str(error))


def is_from_a_web_page(environ: WSGIEnvironment) -> bool:
    """Whether a browser sends this for a page: browsers add the page's origin, or `null`, to each POST."""
    return "HTTP_ORIGIN" in environ or environ.get("HTTP_SEC_FETCH_SITE", "none") != "none"


def _topic_of(path: str) -> str | None:
    parts = path.split("/")
    is_ours = len(parts) == 4 and parts[0] == "" and parts[1] == "topics" and parts[3] == "compact"
    return parts[2] if is_ours and parts[2] else None


def read_body(environ: WSGIEnvironment) -> None:
    """Reads the request's body, which none of the pages needs, off the connection."""
    length = environ.get("CONTENT_LENGTH") or "0"
    if length.isdigit():
        environ["wsgi.input"].read(min(int(length), _LARGEST_BODY_BYTES))


def _json(report: Report) -> str:
    return json.dumps(report, indent=1) + "\n"


def _error(status: HTTPStatus, text: str) -> tuple[HTTPStatus, str]:
    return status, _json({"error": text})
