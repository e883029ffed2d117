"""The seeds of randomised tests: fixed, unless BARNABAS_SEED sets the seed of this run.

`make test` sets no seed, so that each run is the same. `make explore` and `make conformance` draw a seed and print it;
the same seed repeats the same choices. Hypothesis uses it too (see tests/conftest.py).
"""

from __future__ import annotations

import os
from typing import Final

import pytest

VARIABLE: Final = "BARNABAS_SEED"
"""A non-negative integer."""

explores = pytest.mark.explores
"""Marks a test that depends on the seed of the run without a parameter `seed`."""


def run_seed() -> int | None:
    """The seed of this run; None when all seeds are fixed."""
    text = os.environ.get(VARIABLE)
    return int(text) if text else None


def seed_or(fixed: int) -> int:
    """The seed of a test: that of the run, or its fixed one if the run has none."""
    drawn = run_seed()
    return fixed if drawn is None else drawn


def seeds(count: int, fixed: int = 0) -> range:
    """`count` consecutive seeds, for a parameter `seed`."""
    first = seed_or(fixed)
    return range(first, first + count)
