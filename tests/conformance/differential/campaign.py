"""Many sequences side by side, until the time is up; what differs is tried again, shrunk and reported."""

from __future__ import annotations

import asyncio
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Final

from tests.conformance.differential.areas import Script
from tests.conformance.differential.lines import Door
from tests.conformance.differential.player import Kept, Outcome, Play, Side, Source
from tests.conformance.differential.settling import Barrier
from tests.conformance.differential.shrinking import PLAYS, shrunk
from tests.conformance.differential.steps import PREFIX, prefix_of
from tests.conformance.differential.world import Versions

SIDE_BY_SIDE: Final = 24
PLAYS_OF_SILENCE: Final = 10
"""How often a sequence in which one broker does not answer is played at most: each time that is waited for."""

REPLAYS: Final = 2
"""How often a difference has to show again until it counts."""


@dataclass
class Finding:
    """A difference that shows every time."""

    seed: int
    number: int
    area: str
    outcome: Outcome
    """Of the shortest sequence that shows it."""


@dataclass
class Tally:
    """What a campaign came to."""

    sequences: int = 0
    requests: int = 0
    vanished: int = 0
    """Differences that did not show again."""
    findings: list[Finding] = field(default_factory=list)
    repeated: Counter[tuple[str, ...]] = field(default_factory=Counter)
    known: Counter[str] = field(default_factory=Counter)
    apis: Counter[str] = field(default_factory=Counter)


class Campaign:
    """Plays the sequences of one seed to a pair of brokers, the first of which is right."""

    def __init__(
        self,
        doors: Sequence[Door],
        versions: Versions,
        seed: int,
        *,
        pipelined: bool = False,
        has_barrier: bool = True,
        shrinks: bool = True,
    ) -> None:
        self._doors = doors
        self._versions = versions
        self.seed = seed
        self._pipelined = pipelined
        self._barriers = [Barrier(doors[0].line()) if has_barrier else None, *(None for _ in doors[1:])]
        self._shrinks = shrinks
        self._runs = count(1)
        self._seen: set[tuple[str, ...]] = set()
        self.tally = Tally()

    async def run(self, numbers: Iterable[int], until_s: float, side_by_side: int = SIDE_BY_SIDE) -> Tally:
        """Plays them in order, `side_by_side` at a time; begins none after `until_s` (of time.monotonic())."""
        left = iter(numbers)

        async def work() -> None:
            for number in left:
                if time.monotonic() >= until_s:
                    return
                await self._sequence(number)

        await asyncio.gather(*(work() for _ in range(side_by_side)))
        return self.tally

    async def play(self, source: Source) -> Outcome:
        """One run of a sequence, under a prefix of its own."""
        prefix = prefix_of(next(self._runs))
        sides = [
            Side(door, prefix, barrier) for door, barrier in zip(self._doors, self._barriers, strict=True)
        ]
        return await Play(source, sides, pipelined=self._pipelined).run()

    async def _sequence(self, number: int) -> None:
        script = Script(self.seed, number, self._versions)
        try:
            outcome = await self.play(script)
        except Exception:
            print(f"sequence {number} of seed {self.seed} broke:", file=sys.stderr)
            traceback.print_exc()
            raise
        self.tally.sequences += 1
        self.tally.requests += len(outcome.steps)
        self.tally.apis.update(step.name.partition(" ")[0] for step in outcome.steps)
        self.tally.known.update({entry.reason for entry in outcome.known})
        if outcome.is_new:
            await self._look_closer(number, script.area.name, outcome)

    async def _look_closer(self, number: int, area: str, outcome: Outcome) -> None:
        if outcome.signature in self._seen:
            self.tally.repeated[outcome.signature] += 1
            return
        for _ in range(REPLAYS):
            again = await self.play(Kept(outcome.steps))
            if again.signature != outcome.signature:
                self.tally.vanished += 1
                said = f"{outcome.at} {'; '.join(map(str, outcome.differences))}".replace(PREFIX, "prefix")
                print(f"did not show again: sequence {number} of seed {self.seed}: {said}", flush=True)
                return
        if outcome.signature in self._seen:
            return
        self._seen.add(outcome.signature)
        if self._shrinks:
            is_slow = "no answer" in (outcome.expected, outcome.actual)
            outcome = await shrunk(outcome, self.play, PLAYS_OF_SILENCE if is_slow else PLAYS)
        finding = Finding(self.seed, number, area, outcome)
        self.tally.findings.append(finding)
        print(told(finding), flush=True)


def told(finding: Finding) -> str:
    """A finding in words: where it comes from, its steps, and what differs."""
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
        f" ({sum(tally.repeated.values())} times again), {tally.vanished} that did not show again"
    ]
    lines += [f"  {times:6} times known: {reason}" for reason, times in tally.known.most_common()]
    lines += [f"  {times:6} times again: {signature}" for signature, times in tally.repeated.most_common()]
    lines.append("  " + ", ".join(f"{api} {times}" for api, times in tally.apis.most_common()))
    return "\n".join(lines)
