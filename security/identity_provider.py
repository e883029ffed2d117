"""Requests to an identity provider (OAuth 2.0, OpenID Connect), and files in its place: each with bounds.

This is the one module of this package that opens connections. A request waits, so it belongs in a thread; it ends after
`limits.total_s` whatever the provider does, reads MAX_BYTES at most, and follows redirects to the same scheme, host and
port alone. Proxies of the environment are not used.

An answer is that of HTTP 200 or 201. Of others, those that are final (4xx, but for 408, 425 and 429, and 501, 505) are
not worth another try.
"""

from __future__ import annotations

import http.client
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import SplitResult, urljoin, urlsplit

from barnabas.security.errors import ProviderError
from barnabas.security.strict_json import JsonError, parse_object

if TYPE_CHECKING:
    import ssl

MAX_BYTES: Final = 1 << 20
MAX_REDIRECTS: Final = 3
SCHEMES: Final = ("http", "https", "file")
_PORTS: Final = {"http": 80, "https": 443}
_PIECE_BYTES: Final = 64 * 1024
_SHOWN_CHARACTERS: Final = 200
_GOOD: Final = (200, 201)
_REDIRECTS: Final = (301, 302, 303, 307, 308)
_FINAL: Final = frozenset({*range(400, 500), 501, 505} - {408, 425, 429})
_BOTH_DIRECTIONS: Final = 2  # socket.SHUT_RDWR

MakeContext = Callable[[], "ssl.SSLContext"]


class Limits(NamedTuple):
    """Of one request, in seconds: to connect, between two pieces of the answer, and for all of it."""

    connect_s: float = 10.0
    read_s: float = 10.0
    total_s: float = 10.0


DEFAULT_LIMITS: Final = Limits()


class UrlError(ValueError):
    """The text is no URL that can be asked; the message says why, as the rest of a sentence: must be ..."""


def check_url(text: str) -> str:
    """The URL. Raises UrlError."""
    requirement = "must be a URL of http, https or file"
    try:
        parts = urlsplit(text.strip())
        port_is_right = parts.port is None or parts.port > 0
    except ValueError:
        raise UrlError(requirement) from None
    if parts.scheme not in SCHEMES:
        raise UrlError(requirement)
    if parts.scheme == "file":
        if not parts.path or parts.netloc not in ("", "localhost"):
            raise UrlError("must be the URL of a file of this machine: file:///...")
    elif not parts.hostname or not port_is_right:
        raise UrlError(f"{requirement}, with a host")
    if parts.username is not None:
        raise UrlError("must have no user name in it")
    return text.strip()


def is_file(url: str) -> bool:
    return urlsplit(url).scheme == "file"


def file_of(url: str) -> str:
    """The path of a file URL."""
    return urlsplit(url).path


def read_file(url: str) -> bytes:
    """The content of a file that is named by its URL. Raises ProviderError."""
    path = file_of(url)
    try:
        with open(path, "rb") as file:
            found = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise ProviderError(f"{path} cannot be read: {error.strerror}", is_final=True) from None
    if len(found) > MAX_BYTES:
        raise ProviderError(f"{path} has more than {MAX_BYTES} bytes", is_final=True)
    return found


def get(url: str, context: MakeContext | None = None, limits: Limits = DEFAULT_LIMITS) -> bytes:
    """What a URL, of a file as well, has. `context` is for https. Raises ProviderError."""
    if is_file(url):
        return read_file(url)
    return _Request(url, context, limits).run()


def post(
    url: str,
    body: str,
    headers: Mapping[str, str],
    context: MakeContext | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> bytes:
    """The answer to a form that is sent. Raises ProviderError."""
    form = {"Content-Type": "application/x-www-form-urlencoded", "Cache-Control": "no-cache", **headers}
    return _Request(url, context, limits, body=body, headers=form).run()


class _Request:
    """One request, with the redirects that it follows."""

    def __init__(
        self,
        url: str,
        context: MakeContext | None,
        limits: Limits,
        *,
        body: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """With a body it is a POST."""
        self._url = url
        self._method = "GET" if body is None else "POST"
        self._body = body
        self._headers = {"Accept": "application/json", **(headers or {})}
        self._context = context
        self._limits = limits
        self._ends = time.monotonic() + limits.total_s
        self._is_late = False

    def run(self) -> bytes:
        try:
            url = self._url
            for _ in range(MAX_REDIRECTS + 1):
                target, answer = self._try(url)
                if target is None:
                    return answer
                url = target
        except ProviderError:
            raise
        except (OSError, http.client.HTTPException, ValueError) as error:
            if self._is_late or isinstance(error, TimeoutError):
                raise ProviderError(f"{self._url} does not answer in time") from None
            reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
            raise ProviderError(f"{self._url} does not answer: {reason[:_SHOWN_CHARACTERS]}") from None
        raise ProviderError(f"{self._url} redirects more than {MAX_REDIRECTS} times", is_final=True)

    def _try(self, url: str) -> tuple[str | None, bytes]:
        """Where the answer sends us, or the answer."""
        parts = urlsplit(url)
        connection = self._connection(parts)
        watch = threading.Timer(max(self._ends - time.monotonic(), 0), self._end, [connection])
        watch.daemon = True
        watch.start()
        try:
            connection.connect()
            assert connection.sock is not None
            connection.sock.settimeout(self._limits.read_s)
            path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
            connection.request(self._method, path, self._body, dict(self._headers))
            with closing(connection.getresponse()) as response:  # it holds the socket, too
                if response.status in _REDIRECTS and response.getheader("Location"):
                    return self._redirected(url, str(response.getheader("Location"))), b""
                return None, self._checked(response, self._read(response))
        finally:
            watch.cancel()
            connection.close()

    def _connection(self, parts: SplitResult) -> http.client.HTTPConnection:
        assert parts.hostname is not None
        timeout_s = min(self._limits.connect_s, max(self._ends - time.monotonic(), 0.001))
        if parts.scheme != "https":
            return http.client.HTTPConnection(parts.hostname, parts.port, timeout=timeout_s)
        assert self._context is not None, "https needs a context"
        context = self._context()
        return http.client.HTTPSConnection(parts.hostname, parts.port, timeout=timeout_s, context=context)

    def _end(self, connection: http.client.HTTPConnection) -> None:
        """The time for all is over: in another thread."""
        self._is_late = True
        opened = connection.sock
        if opened is not None:
            with suppress(OSError):  # it is closed already
                opened.shutdown(_BOTH_DIRECTIONS)

    def _redirected(self, url: str, location: str) -> str:
        target = urljoin(url, location)
        if _origin(target) != _origin(self._url):
            raise ProviderError(f"{self._url} redirects to another scheme, host or port", is_final=True)
        return target

    def _read(self, response: http.client.HTTPResponse) -> bytes:
        found = bytearray()
        while piece := response.read1(_PIECE_BYTES):
            found += piece
            if len(found) > MAX_BYTES:
                raise ProviderError(f"{self._url} answers with more than {MAX_BYTES} bytes", is_final=True)
            if time.monotonic() > self._ends:
                raise TimeoutError
        if self._is_late:
            raise TimeoutError
        return bytes(found)

    def _checked(self, response: http.client.HTTPResponse, answer: bytes) -> bytes:
        if response.status not in _GOOD:
            reason = f"{self._url} answers with HTTP {response.status}{_error_of(answer)}"
            raise ProviderError(reason, is_final=response.status in _FINAL)
        if response.length:
            raise ProviderError(f"{self._url} closes the connection within its answer")
        if not answer:
            raise ProviderError(f"{self._url} answers with nothing")
        return answer


def _origin(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or _PORTS.get(parts.scheme)


def _error_of(answer: bytes) -> str:
    """The error in an answer as OAuth 2.0 has it (RFC 6749, section 5.2), which contains no secret."""
    try:
        found = parse_object(answer)
    except JsonError:
        return ""
    words = [found[name] for name in ("error", "error_description") if isinstance(found.get(name), str)]
    text = " - ".join(words)[:_SHOWN_CHARACTERS]
    return f": {text}" if text.isprintable() and text else ""
