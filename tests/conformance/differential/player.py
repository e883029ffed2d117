"""Plays a sequence to two brokers and compares their responses."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Final, Protocol

from barnabas.protocol.messages.api_versions import ApiVersionsRequest
from barnabas.protocol.messages.groups import (
    DescribeGroupsRequest,
    JoinGroupRequest,
    JoinGroupResponse,
    SyncGroupRequest,
)
from barnabas.protocol.messages.topics import CreateTopicsRequest, DeleteTopicsRequest
from barnabas.protocol.messages.transactions import EndTxnRequest, InitProducerIdRequest
from barnabas.protocol.schema import Message
from tests.conformance.differential.answers import TreeBuilder
from tests.conformance.differential.connections import Answer, Connection, Endpoint
from tests.conformance.differential.exceptions import Difference, Known, known
from tests.conformance.differential.names import Names
from tests.conformance.differential.settling import (
    PUBLISHED_LATER,
    Barrier,
    metadata_request,
    transaction_ended,
)
from tests.conformance.differential.steps import PREFIX, Step

QUIET_S: Final = 0.05
FENCES: Final = 2
"""A request is taken to wait when it has no response after this time and as many fences."""

STILL_S: Final = 0.03
"""Time after each step in which waiting requests may complete."""

LATE_S: Final = 15.0
"""How much later than the other a broker may answer a waiting request."""

PATIENCE_S: Final = 30.0
"""The timeout of all other responses."""


PIPELINED: Final = frozenset({0, 1})
"""The connections on which requests follow others that wait; on the rest they go to a free connection."""

MAX_BEHIND: Final = 2
"""The largest number of requests that follow one that waits."""

SETTLED: Final = (*PUBLISHED_LATER, EndTxnRequest, InitProducerIdRequest)
"""Requests whose effects the player waits for after their response."""

CLEAN_UP_S: Final = 10.0
"""The timeout for the deletion of a sequence's topics."""


class Source(Protocol):
    """A source of steps: random ones, or those of an earlier run."""

    def step(self) -> Step | None:
        """The next step; None at the end."""

    def learn(self, step: Step, answer: Any) -> None:
        """Takes note of the response of both brokers."""


class RecordedSteps:
    """Steps of an earlier run."""

    def __init__(self, steps: Sequence[Step]) -> None:
        self._steps = iter(steps)

    def step(self) -> Step | None:
        return next(self._steps, None)

    def learn(self, step: Step, answer: Any) -> None:
        pass


@dataclass
class Outcome:
    """The result of one run of a sequence. `differences` are those at `at`, the last step compared."""

    steps: list[Step] = field(default_factory=list)
    differences: list[Difference] = field(default_factory=list)
    at: Step | None = None
    expected: Any = None
    actual: Any = None
    known: list[Known] = field(default_factory=list)

    @property
    def is_new(self) -> bool:
        """Whether the brokers differed in a way that no exception covers."""
        return bool(self.differences)

    @property
    def signature(self) -> tuple[str, ...]:
        """The API and the places of the difference, without values, to recognize it."""
        api = type(self.at.request).__name__ if self.at is not None else ""
        return (api, *sorted({"".join(c for c in d.path if not c.isdigit()) for d in self.differences}))


class Side:
    """One broker, in one run of a sequence."""

    def __init__(self, endpoint: Endpoint, prefix: str, barrier: Barrier | None) -> None:
        self._endpoint = endpoint
        self._connections: dict[int, Connection] = {}
        self._barrier = barrier
        self.names = Names(prefix)
        self.trees = TreeBuilder(self.names)

    def connection(self, number: int) -> Connection:
        """The connection of that number, opened on first use."""
        if number not in self._connections:
            self._connections[number] = self._endpoint.connect()
        return self._connections[number]

    async def settle(self, step: Step) -> str:
        """Waits until the effects of the step are complete; returns whether they are, as text."""
        request = step.request
        if isinstance(request, PUBLISHED_LATER) and self._barrier is not None:
            await self._barrier.passed()
        if isinstance(request, CreateTopicsRequest) and not request.validate_only:
            await self._learn_ids([topic.name for topic in request.topics])
        if isinstance(request, EndTxnRequest | InitProducerIdRequest) and request.transactional_id:
            theirs = self.names.theirs(request)
            try:
                await transaction_ended(self.connection(-1), str(theirs.transactional_id))
            except TimeoutError:
                return "a transaction does not end"
        return "all is done"

    async def fence(self, step: Step) -> None:
        """Returns when the broker has handled that step, whether it has answered or not.

        For a group it sends a request that goes through the same queue; otherwise one that is quickly done.
        """
        request: Message = ApiVersionsRequest()
        if isinstance(step.request, JoinGroupRequest | SyncGroupRequest):
            request = DescribeGroupsRequest(groups=[step.request.group_id])
        await asyncio.wait(
            [await self.connection(-1).send(self.names.theirs(request), 0)], timeout=PATIENCE_S
        )

    async def _learn_ids(self, names: list[str]) -> None:
        request, version = metadata_request(sorted({name for name in names if name}))
        step = Step(-1, -1, request, version)
        answer = await self.connection(-1).send(self.names.theirs(request), version)
        await asyncio.wait([answer], timeout=PATIENCE_S)
        if answer.done() and not isinstance(found := answer.result(), str):
            self.trees.tree(step, found)

    async def clean_up(self, topics: set[str]) -> None:
        """Deletes the topics of the sequence, and closes its connections."""
        theirs = sorted(name.replace(PREFIX, self.names.prefix) for name in topics if PREFIX in name)
        if theirs:
            request = DeleteTopicsRequest(topic_names=theirs, timeout_ms=5_000)
            await asyncio.wait([await self.connection(-1).send(request, 5)], timeout=CLEAN_UP_S)
        for connection in self._connections.values():
            connection.close()


@dataclass
class InFlight:
    """A request that was sent to both brokers."""

    step: Step
    connection: int
    answers: list[asyncio.Future[Answer]]
    was_awaited: bool = False
    """Whether the player has waited for its response while it was the first on its connection."""

    @property
    def is_done(self) -> bool:
        """Whether both have answered."""
        return all(answer.done() for answer in self.answers)

    @property
    def is_pending(self) -> bool:
        """Whether neither has answered."""
        return not any(answer.done() for answer in self.answers)


class Play:
    """One run of a sequence on two sides, the first of which is right."""

    def __init__(self, source: Source, sides: Sequence[Side], *, pipelined: bool = True) -> None:
        self._source = source
        self._sides = sides
        self._pipelined = pipelined
        self._waiting: list[InFlight] = []
        self._topics: set[str] = set()
        self.outcome = Outcome()

    async def run(self) -> Outcome:
        """Plays the sequence to its end, or to the first difference after which it cannot continue."""
        try:
            while (step := self._source.step()) is not None:
                self.outcome.steps.append(step)
                if not await self._play_step(step):
                    break
        finally:
            await asyncio.gather(*(side.clean_up(self._topics) for side in self._sides))
        return self.outcome

    async def _play_step(self, step: Step) -> bool:
        connection = self._free_connection(step)
        theirs = [side.names.theirs(step.request) for side in self._sides]
        if isinstance(step.request, CreateTopicsRequest):
            self._topics |= {topic.name for topic in step.request.topics}
        connections = [side.connection(connection) for side in self._sides]
        sent = await asyncio.gather(
            *(one.send(request, step.version) for one, request in zip(connections, theirs, strict=True))
        )
        in_flight = InFlight(step, connection, list(sent))
        self._waiting.append(in_flight)
        if not self._is_first(in_flight):
            await self._await_quiet(in_flight)
        while fresh := [one for one in self._waiting if self._is_first(one) and not one.was_awaited]:
            for one in fresh:
                await self._await_turn(one)
            await self._await_both()
        await self._await_both()
        if not self._compare_answered():
            return False
        if in_flight.is_pending:
            return True
        return self._compare(step, *await asyncio.gather(*(side.settle(step) for side in self._sides)))

    def _is_first(self, in_flight: InFlight) -> bool:
        """Whether all earlier requests on the same connection have a response."""
        in_front = self._waiting[: self._waiting.index(in_flight)]
        return all(other.is_done for other in in_front if other.connection == in_flight.connection)

    async def _await_turn(self, in_flight: InFlight) -> None:
        """Waits until the first request of a connection has a response, or is known to wait for others."""
        in_flight.was_awaited = True
        if in_flight.step.may_wait:
            await self._await_quiet(in_flight)
        else:
            await asyncio.wait(in_flight.answers, timeout=PATIENCE_S)

    async def _await_quiet(self, in_flight: InFlight) -> None:
        """Waits until a request that may wait has a response, or is known to wait."""
        for _ in range(FENCES):
            await asyncio.wait(in_flight.answers, timeout=QUIET_S)
            if in_flight.is_done:
                return
            await asyncio.gather(*(side.fence(in_flight.step) for side in self._sides))

    async def _await_both(self) -> None:
        """Waits a moment for pending responses, and longer for one that only the other broker has sent."""
        waiting = [answer for one in self._waiting for answer in one.answers if not answer.done()]
        if waiting:
            await asyncio.wait(waiting, timeout=STILL_S)
        deadline = asyncio.get_running_loop().time() + LATE_S
        while (left := deadline - asyncio.get_running_loop().time()) > 0:
            late = [one for one in self._waiting if not one.is_done and not one.is_pending]
            if not late:
                return
            answers = [answer for one in late for answer in one.answers if not answer.done()]
            await asyncio.wait(answers, timeout=left, return_when=asyncio.FIRST_COMPLETED)

    def _free_connection(self, step: Step) -> int:
        """The connection of the step, or the next free one; few requests may follow one that waits.

        A request with effects to wait for takes a free one: it must complete before the next request is handled.
        """
        connections = Counter(one.connection for one in self._waiting)
        pipelined = self._pipelined and step.connection in PIPELINED and not isinstance(step.request, SETTLED)
        if pipelined and connections[step.connection] <= MAX_BEHIND:
            return step.connection
        return next(connection for connection in count(step.connection) if not connections[connection])

    def _compare_answered(self) -> bool:
        """Compares the first requests of connections first: without their response the next ones have none either."""
        done = [one for one in self._waiting if not one.is_pending]
        done.sort(key=lambda one: (not self._is_first(one), _has_other_member_ids(one)))
        self._waiting = [one for one in self._waiting if one.is_pending]
        trees = [
            [self._tree(side, one, answer) for side, answer in zip(self._sides, one.answers, strict=True)]
            for one in done
        ]
        return all(self._compare(one.step, *pair) for one, pair in zip(done, trees, strict=True))

    def _tree(self, side: Side, in_flight: InFlight, answer: asyncio.Future[Answer]) -> Any:
        if not answer.done():
            return "no answer"
        result = answer.result()
        return result if isinstance(result, str) else side.trees.tree(in_flight.step, result)

    def _compare(self, step: Step, expected: Any, actual: Any) -> bool:
        """Whether both are equal, or differ in a way after which the sequence can continue."""
        found = list(differences(expected, actual))
        entries = known(step, found, self.outcome.steps)
        self.outcome.known += [entry for entry in entries if entry is not None]
        new = [difference for difference, entry in zip(found, entries, strict=True) if entry is None]
        if new:
            self.outcome.differences, self.outcome.at = new, step
            self.outcome.expected, self.outcome.actual = expected, actual
            return False
        if not all(entry is None or entry.continues for entry in entries):
            return False
        self._source.learn(step, expected)
        return True


def _has_other_member_ids(in_flight: InFlight) -> bool:
    """Whether the response has ids of members that another response, which came at the same time, gives their names."""
    answers = (answer.result() for answer in in_flight.answers if answer.done())
    return any(bool(answer.members) for answer in answers if isinstance(answer, JoinGroupResponse))


def differences(expected: Any, actual: Any, path: str = "", beside: Any = None) -> Iterator[Difference]:
    """All places in which two trees differ."""
    if isinstance(expected, dict) and isinstance(actual, dict):
        for key in sorted(expected.keys() | actual.keys()):
            yield from differences(expected.get(key), actual.get(key), f"{path}.{key}", expected)
    elif isinstance(expected, list) and isinstance(actual, list) and len(expected) == len(actual):
        for index, (one, other) in enumerate(zip(expected, actual, strict=True)):
            yield from differences(one, other, f"{path}[{index}]", beside)
    elif expected != actual:
        yield Difference(path, expected, actual, beside)
