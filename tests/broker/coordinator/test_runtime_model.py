"""A runner under random operations, failures and reloads, compared with its log.

After every step a loaded shard without pending writes holds what a replay of its log gives; every confirmed write
is in the log, in order; and in the end every request was answered exactly once.
"""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from barnabas.broker.coordinator.record_queue import Answer
from barnabas.broker.coordinator.shard import CoordinatorResult
from barnabas.broker.coordinator.shard_runner import ShardState
from barnabas.broker.coordinator.txn import TransactionalProducer
from barnabas.protocol.errors import ApiError, ErrorCode
from tests.broker.coordinator.runtime_harness import (
    WRITE_TIMEOUT_MS,
    Counters,
    RuntimeHarness,
    counter,
    marker,
    no_counter,
)
from tests.broker.held_runner import HeldRunner

NAMES = st.sampled_from("abc")
PRODUCERS = st.integers(1, 2)


class RunnerMachine(RuleBasedStateMachine):
    """Values only grow, so that each is found once in the log or never."""

    def __init__(self) -> None:
        super().__init__()
        self.value = 0
        self.asked = 0
        self.answers: list[tuple[int, Any]] = []
        self.written: dict[int, Any] = {}

    @initialize(linger_ms=st.sampled_from([-1, 0, 20]))
    def begin(self, linger_ms: int) -> None:
        self.disk = HeldRunner()
        self.harness = RuntimeHarness(linger_ms=linger_ms, runner=self.disk)

    # ---- requests of clients

    def _expect(self, value: int | None = None) -> Answer[Any]:
        answer: Answer[Any] = Answer(lambda error: error)
        number, self.asked = self.asked, self.asked + 1

        def answered(said: Any) -> None:
            self.answers.append((number, said))
            if value is not None:
                self.written[value] = said

        answer.pending.add_done_callback(answered)
        return answer

    def _next(self) -> int:
        self.value += 1
        return self.value

    @rule(name=NAMES, count=st.integers(1, 4))
    def write(self, name: str, count: int) -> None:
        values = [self._next() for _ in range(count)]
        records = [counter(name, value) for value in values]
        self.harness.runner.write(lambda _: CoordinatorResult("ok", records), self._expect(values[-1]))

    @rule(name=NAMES)
    def delete(self, name: str) -> None:
        self.harness.runner.write(lambda _: CoordinatorResult("ok", [no_counter(name)]), self._expect())

    @rule()
    def write_too_much(self) -> None:
        records = [counter("a", self._next()) for _ in range(40)]
        self.harness.runner.write(lambda _: CoordinatorResult("ok", records), self._expect(self.value))

    @rule()
    def look(self) -> None:
        self.harness.runner.read(lambda shard: dict(shard.counters), self._expect())

    @rule(bug=st.booleans())
    def fail(self, bug: bool) -> None:
        def operation(shard: Counters) -> CoordinatorResult[str]:
            raise ValueError("a bug") if bug else ApiError(ErrorCode.UNKNOWN_MEMBER_ID)

        self.harness.runner.write(operation, self._expect())

    @rule(name=NAMES)
    def stumble_in_replay(self, name: str) -> None:
        def operation(shard: Counters) -> CoordinatorResult[str]:
            shard.poisoned = name
            return CoordinatorResult("ok", [counter("x", self._next()), counter(name, self._next())])

        self.harness.runner.write(operation, self._expect())
        shard = self.harness.runner.shard
        if shard is not None:
            shard.poisoned = None

    @rule(name=NAMES, producer=PRODUCERS)
    def write_in_transaction(self, name: str, producer: int) -> None:
        value = self._next()
        self.harness.runner.write_in_transaction(
            TransactionalProducer("id", producer, 0, False),
            None,
            lambda _: CoordinatorResult("ok", [counter(name, value)]),
            self._expect(value),
        )

    @rule(producer=PRODUCERS, committed=st.booleans())
    def end_transaction(self, producer: int, committed: bool) -> None:
        pending = self.harness.runner.complete_transaction(marker(producer, committed=committed))
        pending.add_done_callback(self._expect().pending.complete)

    # ---- events around them

    @rule()
    def end_pass(self) -> None:
        self.harness.end_pass()

    @rule(ms=st.sampled_from([20, WRITE_TIMEOUT_MS]))
    def wait(self, ms: int) -> None:
        self.harness.clock.advance(ms / 1000)

    @rule(holds=st.booleans())
    def hold(self, holds: bool) -> None:
        if not holds:
            self.harness.logs.commit()
        self.harness.logs.holds = holds

    @rule(count=st.integers(1, 3))
    def commit(self, count: int) -> None:
        self.harness.logs.commit(count)

    @rule()
    def lose(self) -> None:
        """The commit of all pending writes fails, as after a change of leaders."""
        self.harness.logs.commit(None, ErrorCode.NOT_LEADER_OR_FOLLOWER)

    @rule(failure=st.sampled_from([None, ErrorCode.NOT_ENOUGH_REPLICAS]))
    def refuse_in_append(self, failure: ErrorCode | None) -> None:
        self.harness.logs.failure = failure

    @rule(refuses=st.booleans())
    def refuse_before(self, refuses: bool) -> None:
        self.harness.logs.refusal = ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER) if refuses else None

    @precondition(lambda self: self.disk.held)
    @rule()
    def load(self) -> None:
        self.disk.release()

    @rule()
    def lose_the_lead_and_get_it_back(self) -> None:
        self.harness.runner.unload()
        self.harness.runner.load()

    # ---- invariants

    @invariant()
    def the_state_is_that_of_the_log(self) -> None:
        runner = getattr(self, "harness", None) and self.harness.runner
        if not runner or runner.shard is None or self.harness.logs.held:
            return
        seen: list[Any] = []
        answer: Answer[Any] = Answer(lambda error: error)
        answer.pending.add_done_callback(seen.append)
        runner.read(Counters.state, answer)
        if seen:  # no write is pending
            assert seen == [self._loaded().state()]

    def _loaded(self) -> Counters:
        """A shard as another broker would load it."""
        logs, failure, refusal = self.harness.logs, self.harness.logs.failure, self.harness.logs.refusal
        other = RuntimeHarness(logs=logs)
        logs.failure, logs.refusal = failure, refusal
        return other.shard

    @invariant()
    def what_was_said_to_be_written_is_in_the_log(self) -> None:
        if not self.written:
            return
        values = [value for _, _, _, value in self.harness.logs.records() if value is not None]
        assert values == sorted(set(values))
        for value, said in self.written.items():
            if said == "ok":
                assert value in values

    def teardown(self) -> None:
        if not hasattr(self, "harness"):
            return
        self.harness.runner.unload()
        self.harness.end_pass()
        assert sorted(number for number, _ in self.answers) == list(range(self.asked))
        assert self.harness.runner.state is ShardState.CLOSED
        self.harness.clock.advance(100)  # and calls that are still scheduled have no effect
        assert self.harness.runner.state is ShardState.CLOSED
        assert self.harness.clock.scheduled == 0


TestRunner = RunnerMachine.TestCase
TestRunner.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
