"""Seeds of the simulation: some with every run of the tests, many with the slow ones.

Each runs in a process with a fixed order of sets, as `python -m tests.simulation` does, so that a seed that
fails here fails there. BARNABAS_SEED names the first of them. The slow test runs as many as its time allows;
BARNABAS_SIMULATION_SEEDS sets a number instead.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.simulation.__main__ import HASH_SEED, main
from tests.simulation.checks import ViolationError
from tests.simulation.scenario import Scenario
from tests.simulation.trace_text import format_trace
from tests.support.chance import explores, seed_or

ROOT = Path(__file__).parents[2]
FEW = 20
MANY = 4000
"""More than two processors can run in the time."""

SECONDS = 100
PROCESSES = 2


def start(*arguments: str) -> subprocess.Popen[str]:
    """Starts `python -m tests.simulation` with these arguments."""
    return subprocess.Popen(
        [sys.executable, "-m", "tests.simulation", *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": HASH_SEED},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def end_well(*processes: subprocess.Popen[str]) -> None:
    """Waits for all; their reports of failed seeds become the failure of the test."""
    outputs = [process.communicate()[0] for process in processes]
    failed = [output for process, output in zip(processes, outputs, strict=True) if process.returncode]
    assert not failed, "\n".join(failed)


@explores
def test_some_seeds() -> None:
    end_well(start("--from", str(seed_or(0)), "--count", str(FEW)))


@pytest.mark.slow
@pytest.mark.timeout(0)
def test_many_seeds() -> None:
    first = seed_or(0) + FEW
    wanted = os.environ.get("BARNABAS_SIMULATION_SEEDS")
    count = int(wanted or MANY) // PROCESSES
    bound = () if wanted else ("--seconds", str(SECONDS))
    processes = [
        start("--from", str(first + number), "--stride", str(PROCESSES), "--count", str(count), *bound)
        for number in range(PROCESSES)
    ]
    end_well(*processes)


@pytest.mark.parametrize("seed", [3, 11])
def test_a_seed_determines_everything(seed: int) -> None:
    first, second = Scenario(seed), Scenario(seed)
    first.run()
    second.run()
    assert first.world.steps == second.world.steps
    assert format_trace(first.world.lines, 100_000) == format_trace(second.world.lines, 100_000)


def test_a_failed_seed_reports_how_to_run_it_again(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(self: Scenario) -> None:
        self.world.trace("the moon", "falls")
        raise ViolationError("two moons")

    monkeypatch.setenv("PYTHONHASHSEED", HASH_SEED)
    monkeypatch.setattr(Scenario, "run", run)
    assert main(["4711"]) == 1
    said = capsys.readouterr().out
    assert "the moon falls" in said
    assert "two moons" in said
    assert "again: .venv/bin/python -m tests.simulation 4711\n" in said
    assert main(["4711", "--themes", "eager"]) == 1
    assert "again: .venv/bin/python -m tests.simulation 4711 --themes 'eager'\n" in capsys.readouterr().out
