"""Random steps on one log against a model, kills and crashes included.

After any sequence of steps: the log has exactly the records of the model, reads from any
offset, by any isolation, timestamp and epoch return what the model returns, flushed records survive a crash of the
machine, appended records survive a kill of the process, producers and transactions keep their states, and
no record is there that was not appended.

BARNABAS_MODEL_STEPS says how many steps the long run takes. The seed is part of the test's name and printed on failure;
BARNABAS_SEED brings the same steps again.
"""

import os
from collections import Counter
from random import Random

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tests.storage.log_life import LogLife
from tests.support.chance import run_seed, seeds

WEIGHTS = {
    LogLife.append: 12,
    LogLife.append_idempotent: 6,
    LogLife.repeat_idempotent: 3,
    LogLife.append_transactional: 8,
    LogLife.end_transaction: 8,
    LogLife.append_what_is_refused: 1,
    LogLife.append_as_follower: 4,
    LogLife.next_epoch: 2,
    LogLife.move_high_watermark: 10,
    LogLife.roll: 3,
    LogLife.flush: 3,
    LogLife.flush_in_steps: 3,
    LogLife.flush_what_is_due: 2,
    LogLife.read: 8,
    LogLife.read_through: 5,
    LogLife.read_outside: 1,
    LogLife.find_by_time: 4,
    LogLife.find_by_epoch: 2,
    LogLife.truncate: 2,
    LogLife.truncate_fully: 1,
    LogLife.delete_records: 3,
    LogLife.retain: 3,
    LogLife.compact: 3,
    LogLife.remove_due_files: 1,
    LogLife.expire_producers: 1,
    LogLife.pass_time: 3,
    LogLife.change_config: 2,
    LogLife.checkpoint: 2,
    LogLife.rename_and_delete: 1,
    LogLife.stop_cleanly: 2,
    LogLife.kill: 2,
    LogLife.crash: 3,
}
STEPS = list(WEIGHTS)
LIFETIME = 300
DEFAULT_STEPS = 40_000
FIXED_STEPS = 10_000
"""Steps of the run with a fixed seed."""


class LogMachine(RuleBasedStateMachine):
    """The steps as a Hypothesis state machine, which shrinks a failure to few steps."""

    life: LogLife

    @initialize(seed=st.integers(0, 1 << 32))
    def start(self, seed: int) -> None:
        self.life = LogLife(seed)

    @rule(
        step=st.sampled_from([step for step, weight in WEIGHTS.items() for _ in range(weight)]),
        seed=st.integers(0, 1 << 32),
    )
    def step(self, step: object, seed: int) -> None:
        step(self.life, Random(seed))  # type: ignore[operator]

    @invariant()
    def agrees(self) -> None:
        if hasattr(self, "life"):
            self.life.check()


LogMachine.TestCase.settings = settings(
    max_examples=120,
    stateful_step_count=40,
    suppress_health_check=list(HealthCheck),
)
TestLog = LogMachine.TestCase


def live(seed: int, steps: int, taken: "Counter[str]") -> None:
    """Takes so many steps; a failure names the seed that repeats it."""
    rng = Random(seed)
    life = LogLife(rng.randrange(1 << 32))
    done: list[str] = []
    try:
        for step in rng.choices(STEPS, list(WEIGHTS.values()), k=steps):
            done.append(step.__name__)
            step(life, rng)
            life.check()
    except BaseException:
        print(f"life {seed}, step {len(done)}: ... {' '.join(done[-25:])}")
        raise
    taken.update(done)


def live_many(seed: int, steps: int) -> None:
    """Runs seeds from a first one on, until so many steps are taken."""
    taken: Counter[str] = Counter()
    while taken.total() < steps:
        live(seed, LIFETIME, taken)
        seed += 1
    print(f"{taken.total()} steps, up to life {seed}: {dict(taken)}")


@pytest.mark.parametrize("seed", seeds(1, fixed=1))
def test_log_and_model_agree_after_random_steps(seed: int) -> None:
    live_many(seed, FIXED_STEPS if run_seed() is None else DEFAULT_STEPS)


@pytest.mark.slow
@pytest.mark.timeout(0)
@pytest.mark.parametrize("seed", seeds(1, fixed=1000))
def test_log_and_model_agree_after_many_random_steps(seed: int) -> None:
    live_many(seed, int(os.environ.get("BARNABAS_MODEL_STEPS") or DEFAULT_STEPS))
