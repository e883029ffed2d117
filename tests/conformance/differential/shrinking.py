"""A sequence that shows a difference, made shorter: steps are left out as long as the same difference shows."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from tests.conformance.differential.player import Kept, Outcome, Source
from tests.conformance.differential.steps import Step

Player = Callable[[Source], Awaitable[Outcome]]


async def shrunk(outcome: Outcome, play: Player) -> Outcome:
    """The outcome of a sequence from which no single step can be left out.

    Runs of steps are left out first, each half as long as those before. What shows must be at the same API and in the
    same places; in which step does not matter.
    """
    best = outcome
    size = max(1, len(best.steps) // 2)
    while True:
        shorter = await _without_runs(best, size, play)
        if shorter is None and size == 1:
            return best
        best, size = shorter or best, size if shorter is not None and size == 1 else max(1, size // 2)


async def _without_runs(best: Outcome, size: int, play: Player) -> Outcome | None:
    """Shorter by runs of that many steps, from the end to the start; None where none can be left out."""
    found: Outcome | None = None
    end = len(best.steps)
    while end > 0:
        steps = (found or best).steps
        tried = await _try([*steps[: max(0, end - size)], *steps[end:]], best, play)
        if tried is not None:
            found = tried
            end = min(end - size, len(tried.steps))
        else:
            end -= size
    return found


async def _try(steps: Sequence[Step], best: Outcome, play: Player) -> Outcome | None:
    if not steps:
        return None
    outcome = await play(Kept(steps))
    return outcome if outcome.signature == best.signature and outcome.is_new else None
