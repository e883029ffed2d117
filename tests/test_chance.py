"""Nothing is left to chance without BARNABAS_SEED, and with it everything that draws follows it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import settings

from tests.support import chance

ROOT = Path(__file__).parents[1]
DRAWN = re.compile(r"\b(SystemRandom|urandom|time_ns\(\) %|Random\(\))")
ALLOWED = {
    "tests/faults/killed_broker.py": "ids of topics, which have to be of this life",
    "tests/support/apache_kafka.py": "the id of a cluster",
    "tests/support/cluster/rig.py": "ids of clusters and of log directories",
    "tests/test_chance.py": "what is looked for",
}


def test_without_a_seed_all_are_fixed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(chance.VARIABLE, raising=False)
    assert (chance.run_seed(), chance.seed_or(31), chance.seeds(3)) == (None, 31, range(3))
    assert chance.seeds(2, fixed=1) == range(1, 3)


def test_a_seed_is_that_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(chance.VARIABLE, "4711")
    assert (chance.run_seed(), chance.seed_or(31), chance.seeds(3, fixed=1)) == (
        4711,
        4711,
        range(4711, 4714),
    )


def test_hypothesis_draws_only_with_a_seed() -> None:
    assert settings().derandomize == (chance.run_seed() is None)
    assert settings().deadline is None
    assert settings().database is None


def collected(seed: str) -> set[str]:
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "--collect-only",
        "-m",
        "explores",
        "-p",
        "no:cacheprovider",
    ]
    modules = ["tests/storage/test_power_cuts.py", "tests/broker/coordinator/test_timers.py"]
    environment = {**os.environ, chance.VARIABLE: seed}
    found = subprocess.run(
        [*command, *modules], cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    )
    return {line for line in found.stdout.splitlines() if "::" in line}


def test_what_explores_is_marked_and_named_by_its_seed() -> None:
    timers = "tests/broker/coordinator/test_timers.py::test_timers_expire_as_in_a_model"
    fixed, drawn = collected(""), collected("4711")
    assert timers in fixed & drawn
    assert {name for name in fixed if "test_timers.py" in name} == {timers}
    assert any(name.endswith("[0]") for name in fixed)
    assert any(name.endswith("[4711]") for name in drawn)
    assert len(fixed) == len(drawn)


def test_no_test_draws_for_itself() -> None:
    found = {
        str(path.relative_to(ROOT))
        for path in (ROOT / "tests").rglob("*.py")
        if DRAWN.search(path.read_text())
    }
    assert found == set(ALLOWED)
