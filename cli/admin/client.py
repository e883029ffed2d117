"""The client of the admin commands: finds the broker that can answer a request, sends it, and retries.

    with AdminClient(settings) as client:
        answer = client.send(MetadataRequest(topics=[]))                       # any broker
        answer = client.send(request, Node(3), codes=lambda a: [a.error_code])  # one of them

Kafka's `KafkaAdminClient` uses futures; this client sends one request at a time on blocking sockets.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeVar

from barnabas.cli.admin.connection import ANY_VERSION, Connection, LostConnectionError, UnknownHostError
from barnabas.cli.admin.errors import NotReachableError, check, code_name
from barnabas.cli.admin.settings import Address, ClientSettings
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ErrorCode, ProtocolError
from barnabas.protocol.messages.groups import FindCoordinatorRequest
from barnabas.protocol.messages.metadata import DescribeClusterRequest, MetadataRequest
from barnabas.protocol.schema import VersionRange, version_range

if TYPE_CHECKING:
    from barnabas.protocol.messages.api_versions import ApiVersionsResponse
    from barnabas.protocol.schema import Message, Struct

T = TypeVar("T")

WAIT_CODES: Final = frozenset(
    {
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.BROKER_NOT_AVAILABLE,
    }
)
"""Errors that a later attempt, or one at another broker, may not have. All other codes are for the caller."""

SILENT_RETRIES: Final = 3
"""Retries that are not reported: these last less than a second."""
GROUP_COORDINATOR: Final = 0
TRANSACTION_COORDINATOR: Final = 1
_COORDINATED: Final = {GROUP_COORDINATOR: "group", TRANSACTION_COORDINATOR: "transactional id"}
CONTROLLERS: Final = 2
"""The endpoint type of controllers in DescribeCluster."""


class Anyone(NamedTuple):
    """Any broker."""


class Controller(NamedTuple):
    """The active controller, or with KRaft a broker that forwards requests to it."""


class Node(NamedTuple):
    """The broker with this id."""

    id: int


class Coordinator(NamedTuple):
    """The coordinator of a group, or of a transactional id (`key_type` TRANSACTION_COORDINATOR)."""

    key: str
    key_type: int = 0


Target = Anyone | Controller | Node | Coordinator
ANYONE: Final = Anyone()
CONTROLLER: Final = Controller()


class Clock(Protocol):
    """The part of the module `time` that the client needs, in seconds."""

    def monotonic(self) -> float: ...

    def sleep(self, seconds: float, /) -> None: ...


def top_level(answer: Any) -> Iterable[int]:
    """The error code of a response that has one for all of it."""
    return (getattr(answer, "error_code", ErrorCode.NONE),)


def every_code(answer: Struct) -> Iterator[int]:
    """The error codes of a response at all levels."""
    for field in answer.fields:
        value = getattr(answer, field.name)
        if field.name == "error_code":
            yield value
        elif field.struct is not None and value is not None:
            for each in value if field.is_array else (value,):
                yield from every_code(each)


class Cluster(NamedTuple):
    """The nodes of the cluster, as of the last metadata response."""

    nodes: dict[int, Address]
    controller_id: int
    cluster_id: str | None


class AdminClient:
    """One command's connections to a cluster. `on_wait` is called once with each reason for a retry."""

    def __init__(
        self,
        settings: ClientSettings,
        *,
        clock: Clock = time,
        on_wait: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.settings = settings
        self._clock = clock
        self._on_wait = on_wait
        self._connections: dict[Address, Connection] = {}
        self._bootstrap: Address | None = None
        self._cluster: Cluster | None = None
        self._coordinators: dict[Coordinator, int] = {}
        self._reported: set[str] = set()

    def __enter__(self) -> AdminClient:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes all connections."""
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    # ---- requests

    def send(
        self,
        request: Message,
        to: Target = ANYONE,
        *,
        codes: Callable[[Any], Iterable[int]] = top_level,
        versions: str | None = None,
        timeout_ms: int | None = None,
    ) -> Any:
        """The response to `request`, in the newest of `versions` that both sides support.

        It is sent again after a lost connection, or while one of `codes(answer)` is in WAIT_CODES, until
        `timeout_ms` (default.api.timeout.ms) are over. Other error codes are for the caller. Raises
        NotReachableError and UnsupportedApiError.
        """
        assert request.api_key is not None
        key, wanted = ApiKey(request.api_key), ANY_VERSION if versions is None else version_range(versions)
        deadline = self._clock.monotonic() + (timeout_ms or self.settings.default_api_timeout_ms) / 1000
        attempt = 0
        while True:
            answer = connection = None
            try:
                connection = self._connect(to, deadline)
                answer = connection.ask(
                    request, connection.version_of(key, wanted), self._patience_s(deadline)
                )
                waiting = [code for code in codes(answer) if code in WAIT_CODES]
                if not waiting:
                    return answer
                problem = f"the broker at {connection.address} answers {code_name(waiting[0])}"
            except LostConnectionError as lost:
                problem = str(lost)
                self._drop(connection)
            except ProtocolError as error:
                raise NotReachableError(f"a response cannot be decoded: {error}") from None
            self._forget(to)
            if not self._may_retry(attempt, deadline, problem):
                if answer is None:
                    raise NotReachableError(self._timed_out(problem))
                return answer
            attempt += 1

    def features(self, to: Target = ANYONE) -> ApiVersionsResponse:
        """The ApiVersions response of a broker: its APIs and features."""
        return self._waiting(lambda deadline: self._connect(to, deadline)).features

    def serves(self, key: ApiKey, to: Target = ANYONE) -> bool:
        """Whether a broker serves this API in any version."""
        return self._waiting(lambda deadline: self._connect(to, deadline)).serves(key)

    def coordinator_of(self, key: str, key_type: int = GROUP_COORDINATOR) -> int:
        """The id of the broker that coordinates a group, or a transactional id."""
        return self._waiting(lambda deadline: self._coordinator(Coordinator(key, key_type), deadline))

    def cluster(self) -> Cluster:
        """The brokers (or controllers) and their addresses; fetched once, and again after a failure."""
        return self._waiting(self._known_cluster)

    # ---- time

    def _waiting(self, attempt: Callable[[float], T]) -> T:
        deadline = self._clock.monotonic() + self.settings.default_api_timeout_ms / 1000
        tries = 0
        while True:
            try:
                return attempt(deadline)
            except LostConnectionError as lost:
                if not self._may_retry(tries, deadline, str(lost)):
                    raise NotReachableError(self._timed_out(str(lost))) from None
                tries += 1

    def _patience_s(self, deadline: float) -> float:
        return max(min(self.settings.request_timeout_ms / 1000, deadline - self._clock.monotonic()), 0.001)

    def _may_retry(self, attempt: int, deadline: float, problem: str) -> bool:
        """Waits before the next attempt: exponential backoff with 20 % jitter, as in Kafka's clients.

        False where there is none: after `retries`, or at the deadline, up to which this waits.
        """
        left_s = deadline - self._clock.monotonic()
        if attempt >= self.settings.retries or left_s <= 0:
            return False
        if attempt >= SILENT_RETRIES and problem not in self._reported:
            self._reported.add(problem)
            self._on_wait(f"{problem}; trying for {left_s:.0f} s")
        longest = min(
            self.settings.retry_backoff_ms * 2 ** min(attempt, 20), self.settings.retry_backoff_max_ms
        )
        pause_s: float = longest / 1000 * random.uniform(0.8, 1.2)
        self._clock.sleep(min(pause_s, left_s))
        return pause_s < left_s

    def _timed_out(self, problem: str) -> str:
        return f"timed out after {self.settings.default_api_timeout_ms / 1000:g} s: {problem}"

    # ---- connections

    def _connect(self, to: Target, deadline: float) -> Connection:
        if isinstance(to, Anyone) or (isinstance(to, Controller) and not self.settings.is_controller):
            return self._connect_to_any(deadline)
        return self._open(self._address(to, deadline), deadline)

    def _connect_to_any(self, deadline: float) -> Connection:
        """A connection to the first that answers: the last one used, the bootstrap servers, known brokers.

        Any broker forwards a request for the controller.
        """
        known = [] if self._cluster is None else [*self._cluster.nodes.values()]
        first = [] if self._bootstrap is None else [self._bootstrap]
        problems: list[LostConnectionError] = []
        for address in dict.fromkeys([*first, *self.settings.bootstrap, *known]):
            try:
                connection = self._open(address, deadline)
            except LostConnectionError as lost:
                problems.append(lost)
            else:
                self._bootstrap = address
                return connection
        text = "; ".join(dict.fromkeys(map(str, problems)))
        if all(isinstance(problem, UnknownHostError) for problem in problems):
            raise NotReachableError(text)
        raise LostConnectionError(text)

    def _open(self, address: Address, deadline: float) -> Connection:
        connection = self._connections.get(address)
        if connection is None:
            patience_s = self._patience_s(deadline)
            connect_s = min(self.settings.connection_setup_timeout_ms / 1000, patience_s)
            connection = Connection(
                address,
                self.settings.client_id,
                connect_timeout_s=connect_s,
                timeout_s=patience_s,
                security=self.settings.security,
            )
            self._connections[address] = connection
        return connection

    def _drop(self, connection: Connection | None) -> None:
        if connection is not None:
            connection.close()
            self._connections.pop(connection.address, None)

    # ---- addresses

    def _address(self, to: Controller | Node | Coordinator, deadline: float) -> Address:
        if isinstance(to, Coordinator):
            node_id = self._coordinator(to, deadline)
        else:
            node_id = to.id if isinstance(to, Node) else self._known_cluster(deadline).controller_id
        nodes = self._known_cluster(deadline).nodes
        if node_id not in nodes:
            known = ", ".join(map(str, sorted(nodes))) or "none"
            raise LostConnectionError(f"the cluster has no broker {node_id} (known: {known})")
        return nodes[node_id]

    def _known_cluster(self, deadline: float) -> Cluster:
        if self._cluster is None:
            self._cluster = (
                self._ask_controllers(deadline)
                if self.settings.is_controller
                else self._ask_brokers(deadline)
            )
        return self._cluster

    def _ask_brokers(self, deadline: float) -> Cluster:
        answer = self._ask_once(MetadataRequest(topics=[], allow_auto_topic_creation=False), "4-13", deadline)
        nodes = {broker.node_id: Address(broker.host, broker.port) for broker in answer.brokers}
        return Cluster(nodes, answer.controller_id, answer.cluster_id)

    def _ask_controllers(self, deadline: float) -> Cluster:
        answer = self._ask_once(DescribeClusterRequest(endpoint_type=CONTROLLERS), "1-2", deadline)
        check(answer.error_code, answer.error_message)
        nodes = {node.broker_id: Address(node.host, node.port) for node in answer.brokers}
        return Cluster(nodes, answer.controller_id, answer.cluster_id)

    def _coordinator(self, wanted: Coordinator, deadline: float) -> int:
        if wanted not in self._coordinators:
            request = FindCoordinatorRequest(key_type=wanted.key_type, coordinator_keys=[wanted.key])
            found = self._ask_once(request, "4-6", deadline).coordinators[0]
            what = f"{_COORDINATED[wanted.key_type]} {wanted.key!r}"
            if found.error_code in WAIT_CODES:
                raise LostConnectionError(f"{what} has no coordinator: {code_name(found.error_code)}")
            check(found.error_code, found.error_message, about=what)
            self._coordinators[wanted] = found.node_id
        return self._coordinators[wanted]

    def _ask_once(self, request: Message, versions: str, deadline: float) -> Any:
        assert request.api_key is not None
        connection = self._connect_to_any(deadline)
        version = connection.version_of(ApiKey(request.api_key), VersionRange(*version_range(versions)))
        try:
            return connection.ask(request, version, self._patience_s(deadline))
        except LostConnectionError:
            self._drop(connection)
            raise

    def _forget(self, to: Target) -> None:
        """Drops the cached addresses, with which a request has just failed."""
        self._cluster = None
        if isinstance(to, Coordinator):
            with suppress(KeyError):
                del self._coordinators[to]
