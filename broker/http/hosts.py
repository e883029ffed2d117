"""Which Host headers the HTTP port accepts. Imported with the first request.

A page at http://evil.example:9644/ can have its name resolve to 127.0.0.1 a moment after it was loaded (DNS
rebinding). The browser then takes the broker for the page's own server and lets the page read every answer. Such
requests carry the page's name in their Host header, so a name that a stranger can register in the public DNS is
rejected unless it is known to be this broker's:

    Host                                  answer
    ------------------------------------  ----------------------------------------------------------------------
    an IP address                         accepted: no DNS is asked, so there is nothing to rebind
    a name without a dot (`broker`)       accepted: a name of this machine, of a container or of a service; the public
                                          DNS has no names without a dot that answer to a browser
    localhost, *.localhost,               accepted: these domains are reserved and cannot be registered
      *.local, *.internal                 (RFC 6761, RFC 6762, ICANN's resolution of 2024 on .internal)
    a host in listeners,                  accepted
      advertised.listeners,
      barnabas.http.host; the hostname
    in barnabas.http.allowed.hosts        accepted: `name`, `.name` with everything below it, `*` for any
    none in HTTP/1.0, or an empty one     accepted: simple probes; browsers always send one
    any other name                        421 Misdirected Request
    none in HTTP/1.1, several, no host    400 Bad Request (RFC 9112, 3.2)

Ports are not compared: port forwarding changes them, and a rebinding page has the right one anyway. An attacker who
controls DNS in the browser's own network (a hostile Wi-Fi) can still answer for names without a dot. They are accepted
all the same: containers find each other by such names, and to reject them would break every Prometheus that does.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Iterable
from http import HTTPStatus
from typing import Final, NamedTuple

from barnabas.broker.waiting.host_lookup import is_address
from barnabas.config.broker_config import BrokerConfig
from barnabas.config.catalogue.barnabas import BARNABAS_HTTP_ALLOWED_HOSTS, BARNABAS_HTTP_HOST

_HOST_AND_PORT: Final = re.compile(
    r"(?:\[(?P<v6>[0-9a-f:.]+)\]|(?P<name>[a-z0-9._-]+))(?::[0-9]*)?", re.IGNORECASE
)
_LONGEST_NAME: Final = 253
"""Characters that a name in the DNS has at most (RFC 1035)."""

_ANY: Final = "*"
_RESERVED: Final = (".localhost", ".local", ".internal")


class Rejection(NamedTuple):
    """The answer to a request whose Host header is not accepted."""

    status: HTTPStatus
    text: str


def rejection(host: str | None, protocol: str, config: BrokerConfig) -> Rejection | None:
    """Why a request with this Host header is rejected; None when it is accepted.

    `host` is the header's value, None without one, and several joined by commas (as WSGI has them); `protocol` is
    HTTP/1.0 or HTTP/1.1.
    """
    if not host:
        if host is None and protocol == "HTTP/1.1":
            return Rejection(HTTPStatus.BAD_REQUEST, "a request of HTTP/1.1 needs a Host header")
        return None
    name = _name_in(host)
    if name is None:
        return Rejection(HTTPStatus.BAD_REQUEST, "the Host header is not one host with an optional port")
    if _is_public(name) and not _fits(name, _names_of_this_broker(config)):
        return Rejection(
            HTTPStatus.MISDIRECTED_REQUEST,
            f"{name}, the name in the Host header, is not known as a name of this broker; "
            f"add it to {BARNABAS_HTTP_ALLOWED_HOSTS.name}, or use an IP address",
        )
    return None


def _name_in(host: str) -> str | None:
    """The name or address of a Host header, in lower case and without the dot of the root; None if it is malformed."""
    match = _HOST_AND_PORT.fullmatch(host)
    if match is None:
        return None
    if match["v6"] is not None:
        return match["v6"] if is_address(match["v6"]) else None
    name = _plain(match["name"])
    return name if 0 < len(name) <= _LONGEST_NAME else None


def _plain(name: str) -> str:
    return name.lower().removesuffix(".")


def _is_public(name: str) -> bool:
    """Whether anybody could register the name in the public DNS."""
    return "." in name and not name.endswith(_RESERVED) and not is_address(name)


def _names_of_this_broker(config: BrokerConfig) -> Iterable[str]:
    yield from config[BARNABAS_HTTP_ALLOWED_HOSTS]
    yield config[BARNABAS_HTTP_HOST]
    for listener in config.listeners:
        yield from filter(None, (listener.host, listener.advertised_host))
    yield socket.gethostname()


def _fits(name: str, patterns: Iterable[str]) -> bool:
    return any(_fits_one(name, _plain(pattern)) for pattern in patterns)


def _fits_one(name: str, pattern: str) -> bool:
    if pattern.startswith("."):
        return name == pattern[1:] or name.endswith(pattern)
    return pattern in (_ANY, name)
