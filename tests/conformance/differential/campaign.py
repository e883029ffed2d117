"""Plays many sequences side by side until the time is up; replays, shrinks and reports differences."""

from __future__ import annotations

import asyncio
import sys
import time
import traceback
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Final

from tests.conformance.differential.areas import Script
from tests.conformance.differential.connections import Endpoint
from tests.conformance.differential.player import Outcome, Play, RecordedSteps, Side, Source
from tests.conformance.differential.settling import Barrier
from tests.conformance.differential.shrinking import PLAYS, shrink
from tests.conformance.differential.steps import PREFIX, prefix_of
from tests.conformance.differential.world import Versions

SIDE_BY_SIDE: Final = 96
"""Number of concurrent sequences: each spends most of its time waiting."""
PLAYS_OF_SILENCE: Final = 10
"""`PLAYS` for a sequence in which one broker does not answer: each play waits for its timeout."""

REPLAYS, REPLAYS_OF_SILENCE = 4, 2
"""Number of replays in which a difference must show again, and of those on Kafka alone in which it must not."""

ANALYSIS_S: Final = 120.0
"""Time after the last sequence has begun until all plays end, those that shrink a difference included."""


@dataclass
class Finding:
    """A difference that shows in every replay."""

    seed: int
    number: int
    area: str
    outcome: Outcome
    """The outcome of the shortest sequence that shows it."""


@dataclass
class Tally:
    """The counts and findings of a campaign."""

    sequences: int = 0
    requests: int = 0
    vanished: int = 0
    """Differences that did not show again, or that Kafka has with itself as well."""
    cut: int = 0
    """Sequences that did not end in time, or in which Kafka did not publish a change."""
    findings: list[Finding] = field(default_factory=list)
    repeated: Counter[tuple[str, ...]] = field(default_factory=Counter)
    known: Counter[str] = field(default_factory=Counter)
    apis: Counter[str] = field(default_factory=Counter)


class Campaign:
    """Plays the sequences of one seed to a pair of brokers, the first of which is right."""

    def __init__(
        self,
        endpoints: Sequence[Endpoint],
        versions: Versions,
        seed: int,
        *,
        pipelined: bool = True,
        has_barrier: bool = True,
        shrinks: bool = True,
    ) -> None:
        self._endpoints = endpoints
        self._versions = versions
        self.seed = seed
        self._pipelined = pipelined
        self._barriers = [
            Barrier(endpoints[0].connect()) if has_barrier else None,
            *(None for _ in endpoints[1:]),
        ]
        self._shrinks = shrinks
        self._runs = count(1)
        self._seen: set[tuple[str, ...]] = set()
        self._analyzing: defaultdict[tuple[str, ...], asyncio.Lock] = defaultdict(asyncio.Lock)
        self._end_s: float | None = None
        self.tally = Tally()

    async def run(self, numbers: Iterable[int], until_s: float, side_by_side: int = SIDE_BY_SIDE) -> Tally:
        """Plays sequences in order, `side_by_side` at a time; begins none after `until_s` (of time.monotonic()).

        All plays end ANALYSIS_S later: a difference counts when it was confirmed by then, shrunk or not.
        """
        left = iter(numbers)
        self._end_s = asyncio.get_running_loop().time() + until_s + ANALYSIS_S - time.monotonic()

        async def work() -> None:
            for number in left:
                if time.monotonic() >= until_s:
                    return
                await self._sequence(number)

        await asyncio.gather(*(work() for _ in range(side_by_side)))
        return self.tally

    async def play(self, source: Source) -> Outcome:
        """Plays a sequence under a prefix of its own. Raises TimeoutError when the campaign is over."""
        prefix = prefix_of(next(self._runs))
        sides = [
            Side(endpoint, prefix, barrier)
            for endpoint, barrier in zip(self._endpoints, self._barriers, strict=True)
        ]
        return await self._play(source, sides)

    async def play_to_kafka_twice(self, source: Source) -> Outcome:
        """Plays a sequence with the first broker on both sides: differences come from chance."""
        runs = [prefix_of(next(self._runs)) for _ in self._endpoints]
        return await self._play(source, [Side(self._endpoints[0], run, self._barriers[0]) for run in runs])

    async def _play(self, source: Source, sides: Sequence[Side]) -> Outcome:
        async with asyncio.timeout_at(self._end_s):
            return await Play(source, sides, pipelined=self._pipelined).run()

    async def _sequence(self, number: int) -> None:
        script = Script(self.seed, number, self._versions)
        try:
            outcome = await self.play(script)
            self._count(outcome)
            if outcome.is_new:
                await self._analyze(number, script.area.name, outcome)
        except TimeoutError:
            self.tally.cut += 1
            print(f"did not end in time: sequence {number} of seed {self.seed}", flush=True)
        except Exception:
            print(f"sequence {number} of seed {self.seed} broke:", file=sys.stderr)
            traceback.print_exc()
            raise

    def _count(self, outcome: Outcome) -> None:
        self.tally.sequences += 1
        self.tally.requests += len(outcome.steps)
        self.tally.apis.update(step.name.partition(" ")[0] for step in outcome.steps)
        self.tally.known.update({entry.reason for entry in outcome.known})

    async def _analyze(self, number: int, area: str, outcome: Outcome) -> None:
        signature = outcome.signature
        async with self._analyzing[signature]:
            if signature in self._seen:
                self.tally.repeated[signature] += 1
                return
            is_slow = "no answer" in (outcome.expected, outcome.actual)
            if (
                chance := await self._is_chance(outcome, REPLAYS_OF_SILENCE if is_slow else REPLAYS)
            ) is not None:
                self.tally.vanished += 1
                found = f"{outcome.at} {'; '.join(map(str, outcome.differences))}".replace(PREFIX, "prefix")
                print(f"{chance}: sequence {number} of seed {self.seed}: {found}", flush=True)
                return
            self._seen.add(signature)
            if self._shrinks:
                outcome = await shrink(outcome, self.play, PLAYS_OF_SILENCE if is_slow else PLAYS)
            finding = Finding(self.seed, number, area, outcome)
            self.tally.findings.append(finding)
            print(describe_finding(finding), flush=True)

    async def _is_chance(self, outcome: Outcome, times: int) -> str | None:
        """Why a difference does not count, or None: it must show in each replay, and never with Kafka on both sides.

        Kafka differs from itself where an order depends on generated ids, or where it continues after its response.
        """
        for _ in range(times):
            if (await self.play(RecordedSteps(outcome.steps))).signature != outcome.signature:
                return "did not show again"
            if (await self.play_to_kafka_twice(RecordedSteps(outcome.steps))).signature == outcome.signature:
                return "Kafka differs from itself"
        return None


def describe_finding(finding: Finding) -> str:
    """A finding as text: the command that repeats it, its steps, and the differences."""
    outcome = finding.outcome
    lines = [
        f"==== NEW DIFFERENCE: sequence {finding.number} of seed {finding.seed} ({finding.area}); again:",
        f"     python -m tests.conformance.differential --seed {finding.seed} --only {finding.number}",
        *(f"  {step}" for step in outcome.steps),
        f"  differs at [{outcome.at.uid if outcome.at else '?'}]:",
        *(f"    {difference}" for difference in outcome.differences),
        f"  Kafka:    {outcome.expected}",
        f"  Barnabas: {outcome.actual}",
    ]
    return "\n".join(lines).replace(PREFIX, "prefix")


def summary(tally: Tally, seconds: float) -> str:
    """The figures of a campaign."""
    lines = [
        f"{tally.sequences} sequences, {tally.requests} requests to each broker in {seconds:.0f} s"
        f" ({tally.requests / max(seconds, 0.001):.0f}/s); {len(tally.findings)} new differences"
        f" ({sum(tally.repeated.values())} times again), {tally.vanished} by chance, {tally.cut} without end"
    ]
    lines += [f"  {times:6} times known: {reason}" for reason, times in tally.known.most_common()]
    lines += [f"  {times:6} times again: {signature}" for signature, times in tally.repeated.most_common()]
    lines.append("  " + ", ".join(f"{api} {times}" for api, times in tally.apis.most_common()))
    return "\n".join(lines)
