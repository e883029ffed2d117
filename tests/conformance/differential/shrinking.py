"""Shrinks a sequence with a difference: leaves out steps as long as the same difference shows."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Final

from tests.conformance.differential.player import Outcome, RecordedSteps, Source
from tests.conformance.differential.steps import Step

Player = Callable[[Source], Awaitable[Outcome]]

PLAYS: Final = 120
"""The largest number of plays to shrink a sequence."""


async def shrink(outcome: Outcome, play: Player, plays: int = PLAYS) -> Outcome:
    """The outcome of a sequence from which no single step can be left out, or the shortest after so many `plays`.

    Leaves out runs of steps, at first half of all, then shorter ones. The difference must be in the same places of the
    same API, in any step. A play that raises TimeoutError is the last.
    """
    return await _Shrinking(outcome, play, plays).run()


class _Shrinking:
    def __init__(self, outcome: Outcome, play: Player, plays: int) -> None:
        self._best = outcome
        self._play = play
        self._left = plays

    async def run(self) -> Outcome:
        with suppress(TimeoutError):
            await self._shrink()
        return self._best

    async def _shrink(self) -> None:
        size = max(1, len(self._best.steps) // 2)
        while self._left > 0:
            has_shrunk = await self._without_runs(size)
            if size == 1 and not has_shrunk:
                break
            size = max(1, size // 2)

    async def _without_runs(self, size: int) -> bool:
        """Leaves out runs of that many steps, from the end to the start; whether that succeeded for any."""
        length = len(self._best.steps)
        end = length
        while end > 0 and self._left > 0:
            steps = self._best.steps
            shorter = [*steps[: max(0, end - size)], *steps[end:]]
            end -= size
            if await self._shows_in(shorter):
                end = min(end, len(self._best.steps))
        return len(self._best.steps) < length

    async def _shows_in(self, steps: Sequence[Step]) -> bool:
        if not steps:
            return False
        self._left -= 1
        outcome = await self._play(RecordedSteps(steps))
        if outcome.signature != self._best.signature:
            return False
        self._best = outcome
        return True
