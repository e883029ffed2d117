"""The seeds of randomised tests: fixed, unless BARNABAS_SEED sets the seed of this run.

`make test` sets no seed and does the same each time. `make explore` and `make conformance` draw one and print it; the
same seed brings the same choices again. Hypothesis follows it too (see tests/conftest.py).
"""

from __future__ import annotations

import os
from typing import Final

import pytest

VARIABLE: Final = "BARNABAS_SEED"
"""An integer from 0 on."""

explores = pytest.mark.explores
"""For a test that makes something else of another seed, and has no parameter `seed` that tells so."""


def run_seed() -> int | None:
    """The seed of this run; None when all seeds are fixed."""
    text = os.environ.get(VARIABLE)
    return int(text) if text else None


def seed_or(fixed: int) -> int:
    """The seed of a test: that of the run, or else its fixed one."""
    drawn = run_seed()
    return fixed if drawn is None else drawn


def seeds(count: int, fixed: int = 0) -> range:
    """So many seeds from that one on, for a parameter `seed`."""
    first = seed_or(fixed)
    return range(first, first + count)
