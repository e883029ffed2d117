"""The simulated cluster finds the faults that it is there to find: rules of replication that are broken on purpose."""

from __future__ import annotations

import pytest

from tests.simulation.cluster.mutations import (
    ARE_COMPILED,
    IN_COMPILED_MODULES,
    MUTATIONS,
    UNNOTICED,
    Mutation,
    first_found,
)

QUICK = (
    "a follower's high watermark is its log's end",
    "the high watermark is the leader's end",
    "a fetcher goes on with a partition that was taken from it",
)
"""Noticed at once; the others run with the slow tests."""


def parameters() -> list[object]:
    return [
        pytest.param(
            one, id=one.name, marks=() if one.name in QUICK else (pytest.mark.slow, pytest.mark.timeout(0))
        )
        for one in MUTATIONS
        if one.name not in UNNOTICED and not (ARE_COMPILED and one.name in IN_COMPILED_MODULES)
    ]


@pytest.mark.parametrize("mutated", parameters())
def test_a_broken_rule_is_noticed(mutated: Mutation) -> None:
    assert first_found(mutated) is not None, "no seed notices"


def test_the_names_are_those_of_mutations() -> None:
    names = [one.name for one in MUTATIONS]
    assert len(set(names)) == len(names)
    assert set(UNNOTICED) <= set(names)
    assert set(QUICK) <= set(names)
    assert set(names) >= IN_COMPILED_MODULES
    assert {one.name for one in MUTATIONS if one.found is None} == set(UNNOTICED)
