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

from tests.storage.log_harness import EXPIRATION_MS, LogHarness
from tests.support.chance import run_seed, seeds

WEIGHTS = {
    LogHarness.append: 12,
    LogHarness.append_idempotent: 6,
    LogHarness.repeat_idempotent: 3,
    LogHarness.append_transactional: 8,
    LogHarness.end_transaction: 8,
    LogHarness.append_what_is_refused: 1,
    LogHarness.append_as_follower: 4,
    LogHarness.next_epoch: 2,
    LogHarness.move_high_watermark: 10,
    LogHarness.roll: 3,
    LogHarness.flush: 3,
    LogHarness.flush_in_steps: 3,
    LogHarness.flush_what_is_due: 2,
    LogHarness.read: 8,
    LogHarness.read_through: 5,
    LogHarness.read_outside: 1,
    LogHarness.find_by_time: 4,
    LogHarness.find_by_epoch: 2,
    LogHarness.truncate: 2,
    LogHarness.truncate_fully: 1,
    LogHarness.delete_records: 3,
    LogHarness.retain: 3,
    LogHarness.compact: 3,
    LogHarness.remove_due_files: 1,
    LogHarness.expire_producers: 1,
    LogHarness.pass_time: 3,
    LogHarness.change_config: 2,
    LogHarness.checkpoint: 2,
    LogHarness.rename_and_delete: 1,
    LogHarness.stop_cleanly: 2,
    LogHarness.kill: 2,
    LogHarness.crash: 3,
}
STEPS = list(WEIGHTS)
LIFETIME = 300
DEFAULT_STEPS = 40_000
FIXED_STEPS = 10_000
"""Steps of the run with a fixed seed."""


class LogMachine(RuleBasedStateMachine):
    """The steps as a Hypothesis state machine, which shrinks a failure to few steps."""

    harness: LogHarness

    @initialize(seed=st.integers(0, 1 << 32))
    def start(self, seed: int) -> None:
        self.harness = LogHarness(seed)

    @rule(
        step=st.sampled_from([step for step, weight in WEIGHTS.items() for _ in range(weight)]),
        seed=st.integers(0, 1 << 32),
    )
    def step(self, step: object, seed: int) -> None:
        step(self.harness, Random(seed))  # type: ignore[operator]

    @invariant()
    def agrees(self) -> None:
        if hasattr(self, "harness"):
            self.harness.check()


LogMachine.TestCase.settings = settings(
    max_examples=120,
    stateful_step_count=40,
    suppress_health_check=list(HealthCheck),
)
TestLog = LogMachine.TestCase


def live(seed: int, steps: int, taken: "Counter[str]") -> None:
    """Takes so many steps; a failure names the seed that repeats it."""
    rng = Random(seed)
    harness = LogHarness(rng.randrange(1 << 32))
    done: list[str] = []
    try:
        for step in rng.choices(STEPS, list(WEIGHTS.values()), k=steps):
            done.append(step.__name__)
            step(harness, rng)
            harness.check()
    except BaseException:
        print(f"harness {seed}, step {len(done)}: ... {' '.join(done[-25:])}")
        raise
    taken.update(done)


def live_many(seed: int, steps: int) -> None:
    """Runs seeds from a first one on, until so many steps are taken."""
    taken: Counter[str] = Counter()
    while taken.total() < steps:
        live(seed, LIFETIME, taken)
        seed += 1
    print(f"{taken.total()} steps, up to harness {seed}: {dict(taken)}")


@pytest.mark.parametrize("seed", seeds(1, fixed=1))
def test_log_and_model_agree_after_random_steps(seed: int) -> None:
    live_many(seed, FIXED_STEPS if run_seed() is None else DEFAULT_STEPS)


@pytest.mark.slow
@pytest.mark.timeout(0)
@pytest.mark.parametrize("seed", seeds(1, fixed=1000))
def test_log_and_model_agree_after_many_random_steps(seed: int) -> None:
    live_many(seed, int(os.environ.get("BARNABAS_MODEL_STEPS") or DEFAULT_STEPS))


def test_a_restart_may_forget_the_batches_of_an_expired_producer_that_a_marker_brings_back() -> None:
    """The log forgets it, as Kafka does, and the model must not expect them: kills at random times come to this."""
    rng = Random(1)
    harness = LogHarness(1)
    harness.leader_append(rng, producer=(20, 0, 0), transactional=True)
    harness.append_marker(20, 0, commit=True)
    harness.roll(rng)
    harness.env.time_ms += EXPIRATION_MS + 1000
    harness.append_marker(20, 0, commit=True)
    harness.check()
    assert harness.log.producer_state_manager.producers[20].last_sequence == 0
    harness.kill(rng)
    harness.check()
    assert harness.log.producer_state_manager.producers[20].last_sequence == -1
    harness.append_transactional(rng)
    harness.check()
