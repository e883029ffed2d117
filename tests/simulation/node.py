"""A client's process: its connections, its coroutines, and the requests that every client sends first."""

from __future__ import annotations

from collections.abc import Coroutine, Iterable, Mapping
from random import Random
from typing import TYPE_CHECKING, Any, Final

from barnabas.broker.pending import Pending
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.groups import FindCoordinatorRequest
from barnabas.protocol.messages.metadata import MetadataRequest
from barnabas.protocol.schema import Message
from barnabas.protocol.wire import Uuid
from tests.simulation.clock import Task, sleep
from tests.simulation.network import LATE, DisconnectedError, Link

if TYPE_CHECKING:
    from tests.simulation.world import World

TopicPartition = tuple[str, int]
GROUP, TRANSACTION = 0, 1
REQUEST_TIMEOUT_S: Final = 5.0

VERSIONS: Final[Mapping[ApiKey, tuple[int, int]]] = {
    ApiKey.METADATA: (10, 13),
    ApiKey.FIND_COORDINATOR: (1, 6),
    ApiKey.JOIN_GROUP: (2, 9),
    ApiKey.SYNC_GROUP: (1, 5),
    ApiKey.HEARTBEAT: (1, 4),
    ApiKey.LEAVE_GROUP: (1, 5),
    ApiKey.OFFSET_COMMIT: (3, 10),
    ApiKey.OFFSET_FETCH: (2, 10),
    ApiKey.FETCH: (4, 17),
    ApiKey.PRODUCE: (3, 13),
    ApiKey.INIT_PRODUCER_ID: (1, 5),
    ApiKey.ADD_PARTITIONS_TO_TXN: (0, 3),
    ApiKey.ADD_OFFSETS_TO_TXN: (0, 4),
    ApiKey.TXN_OFFSET_COMMIT: (0, 5),
    ApiKey.END_TXN: (0, 5),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: (0, 1),
    ApiKey.CREATE_PARTITIONS: (0, 3),
}
"""The versions that clients speak; each client speaks one version of each API, drawn from these and its needs."""

COORDINATOR_ERRORS: Final = frozenset(
    {
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.REQUEST_TIMED_OUT,
    }
)


class RetryError(Exception):
    """The broker answered with a retriable error."""


class Node:
    """One process with its own random generator. Subclasses implement its work (`live`)."""

    late: frozenset[ApiKey] = LATE
    needs: Mapping[ApiKey, tuple[int, int]] = {}

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self.rng = Random(f"{world.seed}/{name}")
        self.alive = True
        self.frozen_until = 0.0
        self._tasks: list[Task] = []
        self._links: dict[str, Link] = {}
        self._known: set[tuple[str, int]] = set()
        self._versions: dict[ApiKey, int] = {}

    def __str__(self) -> str:
        return self.name

    # -- its coroutines --

    def start(self) -> None:
        self.spawn(self.run())

    async def run(self) -> None:
        raise NotImplementedError

    def spawn(self, coroutine: Coroutine[Pending[Any], Any, None]) -> Task:
        task = Task(self.world.clock, coroutine)
        task.frozen_until = self.frozen_until
        self._tasks = [task, *(other for other in self._tasks if not other.ended)]
        return task

    def freeze(self, seconds: float) -> None:
        """Pauses the process; it notices when it resumes."""
        self.frozen_until = self.world.clock.now + seconds
        self.say("is frozen", seconds)
        for task in self._tasks:
            task.frozen_until = self.frozen_until

    def thaw(self) -> None:
        """Resumes the process."""
        self.frozen_until = 0.0
        for task in self._tasks:
            task.frozen_until = self.world.clock.now

    def die(self) -> None:
        """Ends the process; its requests in flight still arrive."""
        if not self.alive:
            return
        self.say("dies")
        self.alive = False
        for task in self._tasks:
            task.end()
        for link in self._links.values():
            link.close()
        self.died()

    def died(self) -> None:
        """A hook at the end of the process, for subclasses."""

    def say(self, *what: object) -> None:
        """Adds a line to the trace."""
        self.world.trace(self.name, *what)

    async def sleep(self, seconds: float) -> None:
        await sleep(self.world.clock, seconds)

    # -- its requests --

    def version(self, key: ApiKey) -> int:
        """Its version of an API."""
        version = self._versions.get(key)
        if version is None:
            low, high = VERSIONS[key]
            least, most = self.needs.get(key, (low, high))
            version = self._versions[key] = self.rng.randint(max(low, least), min(high, most))
        return version

    async def ask(
        self, request: Message, link: str = "coordinator", timeout_s: float = REQUEST_TIMEOUT_S
    ) -> Any:
        """Returns the response. Raises DisconnectedError."""
        found = self._links.get(link)
        if found is None or found.broken:
            found = self._links[link] = Link(self.world.network, self, self.late)
        assert request.api_key is not None
        version = self.version(ApiKey(request.api_key))
        self.world.trace(self.name, "sends", request, version)
        try:
            response = await found.ask(request, version, timeout_s)
        except DisconnectedError:
            self.world.trace(self.name, "gets no response to", type(request).__name__)
            self._known.clear()
            raise
        self.world.trace(self.name, "receives", response)
        return response

    async def find_coordinator(self, key: str, kind: int) -> None:
        """Returns once a coordinator is known; retries until then."""
        while (key, kind) not in self._known:
            try:
                code = await self._ask_for_coordinator(key, kind)
            except DisconnectedError:
                code = ErrorCode.COORDINATOR_NOT_AVAILABLE
            if code == ErrorCode.NONE:
                self._known.add((key, kind))
            else:
                await self.sleep(0.1)

    async def _ask_for_coordinator(self, key: str, kind: int) -> int:
        if self.version(ApiKey.FIND_COORDINATOR) < 4:
            answer = await self.ask(FindCoordinatorRequest(key=key, key_type=kind), "data")
            return int(answer.error_code)
        answer = await self.ask(FindCoordinatorRequest(coordinator_keys=[key], key_type=kind), "data")
        return int(answer.coordinators[0].error_code)

    def forget_coordinator(self) -> None:
        """Forgets the coordinator; the next request finds it again."""
        self._known.clear()

    async def topics(self, names: Iterable[str]) -> dict[str, tuple[Uuid, int]]:
        """The id and the partition count of each topic that exists. Raises DisconnectedError."""
        wanted = [MetadataRequest.MetadataRequestTopic(name=name) for name in names]
        answer = await self.ask(MetadataRequest(topics=wanted, allow_auto_topic_creation=False), "data")
        return {
            topic.name: (topic.topic_id, len(topic.partitions))
            for topic in answer.topics
            if topic.error_code == ErrorCode.NONE
        }
