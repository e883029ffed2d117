"""The settings of the client: bootstrap servers, and the properties of --command-config.

These are Kafka's: security.protocol, ssl.* and sasl.* as well as timeouts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Final, NamedTuple

from barnabas.cli.admin.errors import AdminError, BadFileError
from barnabas.config.properties import PropertiesError, Property, decode, read_properties
from barnabas.security.client_settings import CLIENT_KEYS, NO_SECURITY, ClientSecurity, client_security
from barnabas.security.errors import SettingError

DEFAULT_BOOTSTRAP: Final = "localhost:9092"
DEFAULT_CLIENT_ID: Final = "barnabas-cli"


class Address(NamedTuple):
    """The address of a listener."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class ClientSettings(NamedTuple):
    """Names and defaults are those of Kafka's AdminClientConfig. Times are in milliseconds."""

    bootstrap: tuple[Address, ...]
    is_controller: bool = False
    """Whether `bootstrap` names controllers (--bootstrap-controller) and not brokers."""
    client_id: str = DEFAULT_CLIENT_ID
    request_timeout_ms: int = 30_000
    """One request, from sending it to the whole response."""
    default_api_timeout_ms: int = 60_000
    """All attempts at one call together."""
    retry_backoff_ms: int = 100
    """Before the second attempt; twice as much before each further one ..."""
    retry_backoff_max_ms: int = 1_000
    """... but no more than this."""
    retries: int = 2_147_483_647
    connection_setup_timeout_ms: int = 10_000
    """`socket.connection.setup.timeout.ms`: one attempt to connect."""
    security: ClientSecurity = NO_SECURITY
    """How the client speaks with brokers, and logs in."""


_NUMBERS: Final = {
    "request.timeout.ms": "request_timeout_ms",
    "default.api.timeout.ms": "default_api_timeout_ms",
    "retry.backoff.ms": "retry_backoff_ms",
    "retry.backoff.max.ms": "retry_backoff_max_ms",
    "retries": "retries",
    "socket.connection.setup.timeout.ms": "connection_setup_timeout_ms",
}
KNOWN_KEYS: Final = (
    "bootstrap.servers",
    "bootstrap.controllers",
    "client.id",
    *_NUMBERS,
    *CLIENT_KEYS,
)
"""The properties that have an effect."""


def parse_bootstrap(text: str) -> tuple[Address, ...]:
    """The addresses of `host:port,host:port`; IPv6 addresses stand in brackets. Raises ValueError."""
    addresses = tuple(_address(part.strip()) for part in text.split(",") if part.strip())
    if not addresses:
        raise ValueError(
            f"{text!r} names no server: host:port is expected, or several with commas in between"
        )
    return addresses


def _address(text: str) -> Address:
    text = text.rpartition("://")[2]
    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not colon or not host or not port.isascii() or not port.isdigit() or not 0 < int(port) < 65536:
        raise ValueError(f"{text!r} is not host:port, with a port from 1 to 65535")
    return Address(host, int(port))


def load_settings(
    *,
    server: str | None,
    controller: str | None,
    file: Path | None,
    default: str,
    warn: Callable[[str], None],
) -> ClientSettings:
    """The settings of one command: flags win over the file, the file over `default`.

    `warn` is called for each property without effect. Raises AdminError and BadFileError.
    """
    properties = [] if file is None else _read(file)
    values = {each.key: each.value.strip() for each in properties}
    security = _security_of(values, file)
    for each in properties:
        if each.key not in KNOWN_KEYS:
            warn(_without_effect(each, file))
    if server is None and controller is None:
        server, controller = values.get("bootstrap.servers"), values.get("bootstrap.controllers")
        if server is not None and controller is not None:
            raise AdminError(f"{file}: only one of bootstrap.servers and bootstrap.controllers can be set")
    try:
        bootstrap = parse_bootstrap(controller or server or default)
        numbers = {field: _number(key, values[key]) for key, field in _NUMBERS.items() if key in values}
    except ValueError as error:
        raise AdminError(str(error)) from None
    client_id = values.get("client.id", DEFAULT_CLIENT_ID)
    return ClientSettings(bootstrap, controller is not None, client_id, security=security, **numbers)


def _read(file: Path) -> Sequence[Property]:
    try:
        return read_properties(decode(file.read_bytes()))
    except OSError as error:
        raise BadFileError(f"{file} cannot be read: {error.strerror}") from None
    except PropertiesError as error:
        raise BadFileError(f"{file} line {error.line}: {error.message}") from None


def _security_of(values: dict[str, str], file: Path | None) -> ClientSecurity:
    try:
        return client_security(values)
    except SettingError as error:
        raise AdminError(f"{file}: {error}") from None


def _without_effect(each: Property, file: Path | None) -> str:
    near = get_close_matches(each.key, KNOWN_KEYS, n=1, cutoff=0.8)
    hint = f"; did you mean {near[0]}?" if near else ""
    return f"{file} line {each.line}: {each.key} has no effect here{hint}"


def _number(key: str, text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) > 0x7FFFFFFF:
        raise ValueError(f"{key}={text} is not a number from 0 to {0x7FFFFFFF}")
    return int(text)
