"""Between the wire and the handlers: where a request comes from, and which handler serves which API.

A handler is a plain function, `handler(broker, context, request)`, registered with `@api`. It answers at once with
a response message, or with a `Pending` that is completed later (long polls, acknowledgements that wait for a flush), or
with a `NoResponse` (a produce request with acks=0). What ApiVersions advertises is computed from this registry.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any, Final, Protocol, TypeVar

from barnabas.protocol.api_keys import ApiKey


class NoResponse(enum.Enum):
    """What a handler returns in place of a response; an enum, so that type checkers can tell it from a message."""

    NO_RESPONSE = "no response"
    CLOSE_CONNECTION = "close the connection"


NO_RESPONSE: Final = NoResponse.NO_RESPONSE
CLOSE_CONNECTION: Final = NoResponse.CLOSE_CONNECTION
"""The only way to report an error to a producer with acks=0: its connection closes."""


USER: Final = "User"
"""The type of all principals that this broker makes itself."""


class KafkaPrincipal:
    """Who sends requests: a type, which is User but for builders of one's own, and a name (KIP-371).

    `token_authenticated` says that a delegation token was the login; it is no part of what makes principals equal.
    """

    __slots__ = ("name", "principal_type", "token_authenticated")

    def __init__(self, name: str, principal_type: str = USER, *, token_authenticated: bool = False) -> None:
        self.principal_type = principal_type
        self.name = name
        self.token_authenticated = token_authenticated

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, KafkaPrincipal)
            and self.name == other.name
            and self.principal_type == other.principal_type
        )

    def __hash__(self) -> int:
        return hash((self.principal_type, self.name))

    def __str__(self) -> str:
        """As in ACLs: User:alice."""
        return f"{self.principal_type}:{self.name}"

    def __repr__(self) -> str:
        return f"<KafkaPrincipal {self}{' by token' if self.token_authenticated else ''}>"


ANONYMOUS: Final = KafkaPrincipal("ANONYMOUS")
"""A client of a listener without logins."""


class ConnectionInfo:
    """The facts of one connection that its requests share.

    `cached_headers` belongs to KafkaApis: decoded headers by the four bytes of API key and version. `decisions` belongs
    to AuthHelper: what the authorizer has decided about this connection.
    `local_host` and `local_port` are this end's address, which is the one that the client dialled.
    `principal` is None until the client has logged in, where the listener asks for that: no request is handled before.
    `session` belongs to the listener's logins; None where it has none. `naming` is what names the client where a class
    of the operator's own does (security.principals.Naming), and None otherwise.
    """

    __slots__ = (
        "cached_headers",
        "client_host",
        "client_port",
        "client_software_name",
        "client_software_version",
        "connection_id",
        "decisions",
        "listener_name",
        "local_host",
        "local_port",
        "naming",
        "principal",
        "security_protocol",
        "session",
    )

    def __init__(
        self,
        *,
        connection_id: int,
        listener_name: str,
        client_host: str,
        client_port: int,
        local_host: str,
        local_port: int,
        security_protocol: str = "PLAINTEXT",
        principal: KafkaPrincipal | None = ANONYMOUS,
    ) -> None:
        self.connection_id = connection_id
        self.listener_name = listener_name
        self.client_host = client_host
        self.client_port = client_port
        self.local_host = local_host
        self.local_port = local_port
        self.security_protocol = security_protocol
        self.principal = principal
        self.session: Any = None
        self.naming: Any = None
        self.cached_headers: dict[bytes, Any] = {}
        self.decisions: Any = None
        self.client_software_name = "unknown"
        self.client_software_version = "unknown"


PartitionCharge = Callable[[str, int], None]
"""Charges the client with a change of so many partitions of a topic; raises ApiError where it may not be made."""


class Meter(Protocol):
    """What a handler charges its request with, where clients have quotas: quotas.request_meter.RequestMeter."""

    def fetch_limit_bytes(self) -> int:
        """The most that the response to a fetch may have."""

    def fetched(self, response_bytes: int) -> int:
        """Charges a fetch; returns the throttle time in milliseconds, for which its response has to go out empty."""

    def exempt(self) -> None:
        """No quota is charged with the request."""

    def mutation_charge(self, *, is_strict: bool, throttles: bool = True) -> PartitionCharge | None:
        """Charges partitions that are created or deleted, before each change; None where there is no such quota."""


class RequestContext:
    """A request as its handler sees it: its connection, and its header without the correlation id.

    One context serves all requests of a client with the same header, so it never changes. While clients have quotas
    each request has a context of its own, with its `meter`.
    """

    __slots__ = ("api_key", "api_version", "client_id", "connection", "meter")

    def __init__(
        self,
        connection: ConnectionInfo,
        api_key: ApiKey,
        api_version: int,
        client_id: str | None = None,
    ) -> None:
        self.connection = connection
        self.api_key = api_key
        self.api_version = api_version
        self.client_id = client_id
        self.meter: Meter | None = None

    def metered(self, meter: Meter) -> RequestContext:
        """The context of one request, with its meter."""
        context = RequestContext(self.connection, self.api_key, self.api_version, self.client_id)
        context.meter = meter
        return context


Handler = Callable[[Any, RequestContext, Any], Any]
"""A handler takes the Broker (broker.broker), which is built on top of this module, the context and its own request."""


Offered = Callable[[Any], bool]
"""Whether a Broker advertises an API to its clients."""


def _always(broker: Any) -> bool:
    return True


class ApiHandler:
    """A handler and the versions that it serves.

    `versions` is the inclusive range served; `advertised` what ApiVersions says of it, which is wider only where
    clients draw conclusions from old versions that none of them sends (Produce, KAFKA-18659), and only if `offered` is
    true of the broker. `unstable` is the next version, still in the making: it is served and advertised with
    unstable.api.versions.enable. A `forwardable` API is answered by the controller where that is another node.
    """

    __slots__ = (
        "advertised",
        "forwardable",
        "handle",
        "is_always_offered",
        "key",
        "offered",
        "unstable",
        "versions",
    )

    def __init__(
        self,
        key: ApiKey,
        versions: tuple[int, int],
        advertised: tuple[int, int],
        handle: Handler,
        offered: Offered,
        *,
        unstable: int | None = None,
        forwardable: bool = False,
    ) -> None:
        assert unstable in (None, versions[1] + 1)
        self.key = key
        self.versions = versions
        self.advertised = advertised
        self.handle = handle
        self.offered = offered
        self.is_always_offered = offered is _always
        self.unstable = unstable
        self.forwardable = forwardable

    def served(self, *, with_unstable: bool) -> tuple[int, int]:
        """The inclusive range that is served."""
        return _up_to(self.versions, self.unstable if with_unstable else None)

    def shown(self, *, with_unstable: bool) -> tuple[int, int]:
        """The inclusive range that ApiVersions advertises."""
        return _up_to(self.advertised, self.unstable if with_unstable else None)


def _up_to(versions: tuple[int, int], last: int | None) -> tuple[int, int]:
    return versions if last is None else (versions[0], last)


REGISTRY: dict[int, ApiHandler] = {}

H = TypeVar("H", bound=Handler)


def api(
    key: ApiKey,
    *,
    versions: tuple[int, int],
    advertised: tuple[int, int] | None = None,
    offered: Offered = _always,
    unstable: int | None = None,
    forwardable: bool = False,
) -> Callable[[H], H]:
    """Registers the decorated function as the handler of `key` in `versions` (both ends included)."""

    def register(handler: H) -> H:
        assert key not in REGISTRY, f"{key.name} has two handlers"
        REGISTRY[key] = ApiHandler(
            key,
            versions,
            advertised or versions,
            handler,
            offered,
            unstable=unstable,
            forwardable=forwardable,
        )
        return handler

    return register
