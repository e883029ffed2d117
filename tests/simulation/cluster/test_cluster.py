"""Seeds of the simulated cluster: a few dozen with every run of the tests, many with the slow ones.

BARNABAS_SEED names the first of them; BARNABAS_SIMULATION_SEEDS sets the number of the slow test.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.simulation.cluster.__main__ import HASH_SEED, main
from tests.simulation.cluster.broker import LAG_MAX_S
from tests.simulation.cluster.checks import ViolationError
from tests.simulation.cluster.scenario import Scenario
from tests.support.chance import explores, seed_or

ROOT = Path(__file__).parents[3]
FEW = 24
MANY = 4000
"""More than one processor can run in the time."""

SECONDS = 100


def run(*arguments: str) -> None:
    """Runs `python -m tests.simulation.cluster`; its report of a failed seed becomes the failure of the test."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.simulation.cluster", *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": HASH_SEED},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout


@explores
def test_some_seeds() -> None:
    run("--from", str(seed_or(0)), "--count", str(FEW))


@pytest.mark.slow
@pytest.mark.timeout(0)
def test_many_seeds() -> None:
    count = os.environ.get("BARNABAS_SIMULATION_SEEDS")
    bound = () if count else ("--seconds", str(SECONDS))
    run("--from", str(seed_or(0) + FEW), "--count", count or str(MANY), *bound)


@pytest.mark.parametrize("seed", range(3))
def test_the_second_opinion_holds_as_well(seed: int) -> None:
    Scenario(seed, second_opinion=True).run()


@pytest.mark.parametrize("seed", [4, 12])
def test_a_seed_determines_everything(seed: int) -> None:
    first, second = Scenario(seed), Scenario(seed)
    first.run()
    second.run()
    assert first.steps == second.steps
    assert first.lines == second.lines


def test_the_seeds_commit_something_in_spite_of_everything() -> None:
    """So that the checks have something to check: acknowledged records, and several leaders."""
    scenario = Scenario(3)
    scenario.run()
    ledgers = scenario.checks.ledgers.values()
    assert sum(len(ledger.acked) for ledger in ledgers) > 50
    assert max(len(ledger.leaders) for ledger in ledgers) > 1


@pytest.mark.parametrize("seed", [3, 6])
def test_a_follower_that_cannot_fetch_leaves_the_isr_and_comes_back(seed: int) -> None:
    """No record waits for it any longer than replica.lag.time.max.ms allows."""
    scenario = Scenario(seed, unclean=False)
    scenario.begin()
    scenario.spend(1.0)
    [key, *_] = scenario.keys
    image = scenario.controller.partitions[key]
    follower = next(node for node in image.replicas if node != image.leader)
    for other in set(scenario.brokers) - {follower}:
        scenario.network.cut |= {(follower, other), (other, follower)}
    scenario.spend(2 * LAG_MAX_S + 1.0)
    assert follower not in scenario.controller.partitions[key].isr
    acknowledged = len(scenario.checks.ledger(key).acked)
    scenario.spend(1.0)
    assert len(scenario.checks.ledger(key).acked) > acknowledged
    scenario.finish()


def test_a_failed_seed_reports_how_to_run_it_again(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(self: Scenario) -> None:
        self.trace("the moon falls")
        raise ViolationError("two moons")

    monkeypatch.setenv("PYTHONHASHSEED", HASH_SEED)
    monkeypatch.setattr(Scenario, "run", fail)
    assert main(["4711"]) == 1
    said = capsys.readouterr().out
    assert "the moon falls" in said
    assert "two moons" in said
    assert "python -m tests.simulation.cluster 4711\n" in said
