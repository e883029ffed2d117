"""Plays a sequence to two brokers, and compares what they answer."""

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
from tests.conformance.differential.answers import Noter
from tests.conformance.differential.exceptions import Difference, Known, known
from tests.conformance.differential.lines import Answer, Door, Line
from tests.conformance.differential.names import Names
from tests.conformance.differential.settling import (
    PUBLISHED_LATER,
    Barrier,
    look_at_topics,
    transaction_ended,
)
from tests.conformance.differential.steps import PREFIX, Step

QUIET_S: Final = 0.05
FENCES: Final = 2
"""A request that may wait counts as one that waits when it is not answered within this time, after as many fences."""

STILL_S: Final = 0.03
"""How long after each step what waits is given to be answered."""

LATE_S: Final = 15.0
"""How much later than the other a broker may answer what waited."""

PATIENCE_S: Final = 30.0
"""How long any other answer may take."""


PIPELINED: Final = frozenset({0, 1})
"""The connections on which requests are sent behind others that wait; those on others go to a free one."""

BEHIND_ONE: Final = 2
"""How many requests may stand behind one that waits."""

SETTLED: Final = (*PUBLISHED_LATER, EndTxnRequest, InitProducerIdRequest)
"""What is waited for after its answer."""

CLEAN_UP_S: Final = 10.0
"""How long the end of a sequence may take."""


class Source(Protocol):
    """Where steps come from: drawn, or kept from an earlier run."""

    def step(self) -> Step | None:
        """The next one; None at the end."""

    def learn(self, step: Step, answer: Any) -> None:
        """Is shown what both brokers have answered."""


class Kept:
    """Steps of an earlier run."""

    def __init__(self, steps: Sequence[Step]) -> None:
        self._steps = iter(steps)

    def step(self) -> Step | None:
        return next(self._steps, None)

    def learn(self, step: Step, answer: Any) -> None:
        pass


@dataclass
class Outcome:
    """What a run of a sequence came to. `differences` are those at `at`, the step of the last answer compared."""

    steps: list[Step] = field(default_factory=list)
    differences: list[Difference] = field(default_factory=list)
    at: Step | None = None
    expected: Any = None
    actual: Any = None
    known: list[Known] = field(default_factory=list)

    @property
    def is_new(self) -> bool:
        """Whether the brokers differed in something that no exception covers."""
        return bool(self.differences)

    @property
    def signature(self) -> tuple[str, ...]:
        """By which the same difference is known again: the API and the places, without values."""
        api = type(self.at.request).__name__ if self.at is not None else ""
        return (api, *sorted({"".join(c for c in d.path if not c.isdigit()) for d in self.differences}))


class Side:
    """One broker, in one run of a sequence."""

    def __init__(self, door: Door, prefix: str, barrier: Barrier | None) -> None:
        self._door = door
        self._lines: dict[int, Line] = {}
        self._barrier = barrier
        self.names = Names(prefix)
        self.noter = Noter(self.names)

    def line(self, number: int) -> Line:
        """The connection of that number, opened when it is first used."""
        if number not in self._lines:
            self._lines[number] = self._door.line()
        return self._lines[number]

    async def settle(self, step: Step) -> str:
        """Waits until what the step has set off is done; whether it is."""
        request = step.request
        if isinstance(request, PUBLISHED_LATER) and self._barrier is not None:
            await self._barrier.passed()
        if isinstance(request, CreateTopicsRequest) and not request.validate_only:
            await self._learn_ids([topic.name for topic in request.topics])
        if isinstance(request, EndTxnRequest | InitProducerIdRequest) and request.transactional_id:
            theirs = self.names.theirs(request)
            try:
                await transaction_ended(self.line(-1), str(theirs.transactional_id))
            except TimeoutError:
                return "a transaction does not end"
        return "all is done"

    async def fence(self, step: Step) -> None:
        """Returns when the broker has looked at that step, whether it has answered or not.

        A group is asked about what goes through the same queue; anything else by a request that is quickly done.
        """
        request: Message = ApiVersionsRequest()
        if isinstance(step.request, JoinGroupRequest | SyncGroupRequest):
            request = DescribeGroupsRequest(groups=[step.request.group_id])
        await asyncio.wait([await self.line(-1).send(self.names.theirs(request), 0)], timeout=PATIENCE_S)

    async def _learn_ids(self, names: list[str]) -> None:
        request, version = look_at_topics(sorted({name for name in names if name}))
        step = Step(-1, -1, request, version)
        answer = await self.line(-1).send(self.names.theirs(request), version)
        await asyncio.wait([answer], timeout=PATIENCE_S)
        if answer.done() and not isinstance(found := answer.result(), str):
            self.noter.tree(step, found)

    async def clean_up(self, topics: set[str]) -> None:
        """Deletes the topics of the sequence, and closes its connections."""
        theirs = sorted(name.replace(PREFIX, self.names.prefix) for name in topics if PREFIX in name)
        if theirs:
            request = DeleteTopicsRequest(topic_names=theirs, timeout_ms=5_000)
            await asyncio.wait([await self.line(-1).send(request, 5)], timeout=CLEAN_UP_S)
        for line in self._lines.values():
            line.close()


@dataclass
class Asked:
    """A request that both brokers have been sent."""

    step: Step
    line: int
    answers: list[asyncio.Future[Answer]]
    had_its_turn: bool = False
    """Whether it was looked at when nothing on its connection was in front of it any more."""

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
        self._waiting: list[Asked] = []
        self._topics: set[str] = set()
        self.outcome = Outcome()

    async def run(self) -> Outcome:
        """Plays it to its end, or to the first difference that it cannot go on behind."""
        try:
            while (step := self._source.step()) is not None:
                self.outcome.steps.append(step)
                if not await self._take(step):
                    break
        finally:
            await asyncio.gather(*(side.clean_up(self._topics) for side in self._sides))
        return self.outcome

    async def _take(self, step: Step) -> bool:
        line = self._free_line(step)
        theirs = [side.names.theirs(step.request) for side in self._sides]
        if isinstance(step.request, CreateTopicsRequest):
            self._topics |= {topic.name for topic in step.request.topics}
        lines = [side.line(line) for side in self._sides]
        sent = await asyncio.gather(
            *(one.send(request, step.version) for one, request in zip(lines, theirs, strict=True))
        )
        asked = Asked(step, line, list(sent))
        self._waiting.append(asked)
        if not self._is_first(asked):
            await self._quiet(asked)
        while fresh := [one for one in self._waiting if self._is_first(one) and not one.had_its_turn]:
            for one in fresh:
                await self._turn(one)
            await self._even()
        await self._even()
        if not self._compare_answered():
            return False
        if asked.is_pending:
            return True
        return self._agree(step, *await asyncio.gather(*(side.settle(step) for side in self._sides)))

    def _is_first(self, asked: Asked) -> bool:
        """Whether nothing that was sent on the same connection before it waits for its answer."""
        in_front = self._waiting[: self._waiting.index(asked)]
        return all(other.is_done for other in in_front if other.line == asked.line)

    async def _turn(self, asked: Asked) -> None:
        """Waits until a request with nothing in front of it is answered, or waits for others."""
        asked.had_its_turn = True
        if asked.step.may_wait:
            await self._quiet(asked)
        else:
            await asyncio.wait(asked.answers, timeout=PATIENCE_S)

    async def _quiet(self, asked: Asked) -> None:
        """Waits until a request that may wait is answered, or it is plain that it does wait."""
        for _ in range(FENCES):
            await asyncio.wait(asked.answers, timeout=QUIET_S)
            if asked.is_done:
                return
            await asyncio.gather(*(side.fence(asked.step) for side in self._sides))

    async def _even(self) -> None:
        """Gives what waits some time, and waits for a broker that has not answered yet what the other has."""
        waiting = [answer for asked in self._waiting for answer in asked.answers if not answer.done()]
        if waiting:
            await asyncio.wait(waiting, timeout=STILL_S)
        deadline = asyncio.get_running_loop().time() + LATE_S
        while (left := deadline - asyncio.get_running_loop().time()) > 0:
            late = [asked for asked in self._waiting if not asked.is_done and not asked.is_pending]
            if not late:
                return
            answers = [answer for asked in late for answer in asked.answers if not answer.done()]
            await asyncio.wait(answers, timeout=left, return_when=asyncio.FIRST_COMPLETED)

    def _free_line(self, step: Step) -> int:
        """The connection of the step, or the next one on which nothing waits; few may stand behind one that waits.

        What is settled after its answer waits for nothing: it could not be settled before the next one is handled.
        """
        lines = Counter(asked.line for asked in self._waiting)
        pipelined = self._pipelined and step.line in PIPELINED and not isinstance(step.request, SETTLED)
        if pipelined and lines[step.line] <= BEHIND_ONE:
            return step.line
        return next(line for line in count(step.line) if not lines[line])

    def _compare_answered(self) -> bool:
        """Those first that have nothing in front of them: where one is not answered, nothing behind it is either."""
        done = [asked for asked in self._waiting if not asked.is_pending]
        done.sort(key=lambda asked: (not self._is_first(asked), _names_others(asked)))
        self._waiting = [asked for asked in self._waiting if asked.is_pending]
        trees = [
            [self._tree(side, asked, answer) for side, answer in zip(self._sides, asked.answers, strict=True)]
            for asked in done
        ]
        return all(self._agree(asked.step, *pair) for asked, pair in zip(done, trees, strict=True))

    def _tree(self, side: Side, asked: Asked, answer: asyncio.Future[Answer]) -> Any:
        if not answer.done():
            return "no answer"
        result = answer.result()
        return result if isinstance(result, str) else side.noter.tree(asked.step, result)

    def _agree(self, step: Step, expected: Any, actual: Any) -> bool:
        """Whether both say the same, or differ in nothing that the sequence cannot go on behind."""
        found = list(differences(expected, actual))
        entries = known(step, found, self.outcome.steps)
        self.outcome.known += [entry for entry in entries if entry is not None]
        new = [difference for difference, entry in zip(found, entries, strict=True) if entry is None]
        if new:
            self.outcome.differences, self.outcome.at = new, step
            self.outcome.expected, self.outcome.actual = expected, actual
            return False
        if not all(entry is None or entry.goes_on for entry in entries):
            return False
        self._source.learn(step, expected)
        return True


def _names_others(asked: Asked) -> bool:
    """Whether the answer has ids of members that other answers, which came at the same time, are the first to show."""
    answers = (answer.result() for answer in asked.answers if answer.done())
    return any(bool(answer.members) for answer in answers if isinstance(answer, JoinGroupResponse))


def differences(expected: Any, actual: Any, path: str = "", beside: Any = None) -> Iterator[Difference]:
    """Each place in which two trees differ."""
    if isinstance(expected, dict) and isinstance(actual, dict):
        for key in sorted(expected.keys() | actual.keys()):
            yield from differences(expected.get(key), actual.get(key), f"{path}.{key}", expected)
    elif isinstance(expected, list) and isinstance(actual, list) and len(expected) == len(actual):
        for index, (one, other) in enumerate(zip(expected, actual, strict=True)):
            yield from differences(one, other, f"{path}[{index}]", beside)
    elif expected != actual:
        yield Difference(path, expected, actual, beside)
