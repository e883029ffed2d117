"""A fixed script of many kinds of steps on a log, in which one file operation after the other fails.

After any failure: a step either happened or was rejected with an error of storage's own; the log agrees
with its model while it is online; and after a restart what was acknowledged is there (after a power cut: what was
flushed), no torn batch is returned, and the log accepts further appends.
"""

from collections.abc import Callable
from contextlib import suppress
from random import Random

from barnabas.storage.errors import KafkaStorageError, StorageError
from barnabas.storage.log.checkpoints import CLEAN_SHUTDOWN
from tests.storage.fault_env import FaultEnv, FaultPlan, PowerCut
from tests.storage.log_appends import SteeredEnv
from tests.storage.log_harness import LogHarness

Step = Callable[[LogHarness, Random], None]
L = LogHarness

SCRIPT: tuple[Step, ...] = (
    *(L.append, L.append_idempotent, L.append_transactional, L.append, L.append_transactional),
    *(L.move_high_watermark, L.flush, L.roll, L.next_epoch, L.end_transaction, L.append_as_follower),
    *(L.append, L.repeat_idempotent, L.end_transaction, L.move_high_watermark, L.read_through),
    *(L.checkpoint, L.append_transactional, L.append_idempotent, L.roll, L.append, L.append_idempotent),
    *(L.flush_in_steps, L.find_by_time, L.read, L.move_high_watermark, L.compact, L.append),
    *(L.end_transaction, L.delete_records, L.checkpoint, L.retain, L.append, L.remove_due_files),
    *(L.append_transactional, L.roll, L.append, L.truncate, L.append, L.append_idempotent, L.flush),
    *(L.move_high_watermark, L.stop_cleanly, L.append, L.end_transaction, L.read_through, L.roll),
    *(
        L.append_idempotent,
        L.append,
        L.move_high_watermark,
        L.retain,
        L.kill,
        L.append,
        L.append_transactional,
    ),
    *(L.checkpoint, L.flush, L.append_as_follower, L.end_transaction, L.append, L.move_high_watermark),
    *(L.roll, L.append, L.compact, L.read_through, L.append_idempotent, L.stop_cleanly, L.append, L.crash),
    *(
        L.append,
        L.append_transactional,
        L.truncate_fully,
        L.append,
        L.append_idempotent,
        L.flush,
        L.stop_cleanly,
    ),
)
AFTERWARDS: tuple[Step, ...] = (
    *(L.append, L.append_idempotent, L.append_transactional, L.end_transaction, L.move_high_watermark),
    *(L.read_through, L.find_by_time, L.roll, L.append, L.compact, L.truncate, L.append, L.flush),
    *(L.retain, L.append, L.stop_cleanly, L.read_through, L.append, L.kill, L.read_through),
)
MAY_GO_OFFLINE = {
    *(L.flush, L.flush_in_steps, L.truncate, L.truncate_fully, L.retain, L.compact, L.end_transaction),
    *(L.stop_cleanly, L.kill, L.crash),
}
"""Only these steps may leave the log offline if one operation fails, because the state on disk is then uncertain."""


class FaultedLogHarness(LogHarness):
    """A log harness that records its step, for the checks after a failed operation."""

    def __init__(self, seed: int, env: SteeredEnv | None = None, log_dir: str = "/logs") -> None:
        self.step_in_progress: Step | None = None
        super().__init__(seed, env, log_dir)

    def run_script(self, *, single_fault: bool) -> bool:
        """Runs the steps of the script until one takes the log offline; returns False in that case."""
        for number, step in enumerate(SCRIPT):
            self.step_in_progress = step
            failed = self.attempt(step, Random(number))
            if self.log.is_failed or (failed and step in (L.stop_cleanly, L.kill, L.crash)):
                assert not single_fault or step in MAY_GO_OFFLINE, f"{step.__name__} took the log offline"
                return False
            if failed:
                self.apply_rejected_step()
            self.check()
        self.step_in_progress = None
        return True

    def attempt(self, step: Step, rng: Random) -> bool:
        """Run a step; return whether it was rejected."""
        try:
            step(self, rng)
        except (OSError, StorageError):
            return True
        return False

    def apply_rejected_step(self) -> None:
        """Apply the effects of a rejected step to the model."""
        log, model = self.log, self.model
        if log.log_start_offset > model.start:
            model.move_start(log.log_start_offset)
        if self.truncating_to is not None and log.log_end_offset == self.truncating_to:
            self.apply_truncation(self.truncating_to)
        self.truncating_to, self.truncates_all, self.pending = None, False, []

    def apply_truncation(self, offset: int) -> None:
        if self.log.segments[0].base_offset == self.log.log_end_offset >= self.model.end:
            self.model.start_anew_at(offset)
        else:
            self.model.cut_to(offset)

    def check_stopped(self) -> None:
        if not self.env.exists(f"{self.log_dir}/{CLEAN_SHUTDOWN}"):
            raise KafkaStorageError("the stop was not clean")

    # -- stops while operations still fail --

    def end_process(self) -> None:
        assert isinstance(self.env, FaultEnv)
        plan = self.env.plan
        self.env.kill()
        self.env.plan = plan

    def end_machine(self, rng: Random | None) -> None:
        assert isinstance(self.env, FaultEnv)
        plan = self.env.plan
        self.env.crash(rng)
        self.env.plan = plan

    def end_faults(self) -> None:
        assert isinstance(self.env, FaultEnv)
        self.env.plan = None

    def apply_start(self) -> None:
        """Apply the log start, where a failure leaves it uncertain."""

    # -- afterwards --

    def reopen_and_check(self, *, power_cut: bool, rng: Random | None = None) -> None:
        """End the process or the machine, repair the disk, and check that all that must survive is present."""
        model, was_lost = self.model, power_cut or self.step_in_progress is L.crash
        required = model.durable_end if was_lost else model.end
        if hasattr(self, "log") and self.log.log_start_offset > model.start:
            model.move_start(self.log.log_start_offset)
        self.end_faults()
        if power_cut:
            self.end_machine(rng)
        else:
            self.end_process()
        self.open()
        self.apply_start()
        if self.truncating_to is not None:
            required = 0 if self.truncates_all else min(required, self.truncating_to)
            is_emptied = self.log.segments[0].base_offset == self.log.log_end_offset == self.truncating_to
            # With producers it was empty there before, and has kept its snapshot.
            if is_emptied and not self.log.producer_state_manager.producers:
                self.apply_truncation(self.truncating_to)
        for batch in self.pending:
            if model.end <= batch.base_offset and batch.next_offset <= self.log.log_end_offset:
                model.append(batch)
            elif self.log.segments[-1].base_offset == self.log.log_end_offset == batch.base_offset:
                # A segment was begun for a batch, perhaps after a gap.
                model.end = max(model.end, batch.base_offset)
        was_emptied = self.truncates_all
        self.truncating_to, self.truncates_all, self.pending = None, False, []
        start, was_retained = (
            model.start,
            model.retained_since_flush or self.step_in_progress in (L.retain, L.flush_in_steps),
        )
        self.reopened(min(required, self.log.log_end_offset) if required > model.end else required)
        model.high_watermark = self.log.high_watermark
        if self.step_in_progress in (
            L.flush,
            L.flush_in_steps,
            L.flush_what_is_due,
            L.compact,
            L.stop_cleanly,
        ):
            model.durable_end = max(model.durable_end, self.log.recovery_point)  # its flush had completed
        if was_lost and was_retained:
            model.give_up_producers_before(start)
        if was_emptied:
            model.given_up |= model.producers.keys() - self.log.producer_state_manager.producers.keys()
        self.end_transactions_of_lost_producers()
        self.check()

    def check_still_works(self) -> None:
        """Check that the log works again."""
        for number, step in enumerate(AFTERWARDS):
            step(self, Random(1000 + number))
            self.check()


def count_operations() -> int:
    """Counts the file operations of the script."""
    env = run_script_with(None, single_fault=False).env
    assert isinstance(env, FaultEnv)
    return env.operations


def run_script_with(plan: FaultPlan | None, *, single_fault: bool) -> FaultedLogHarness:
    """Run the script under a plan of faults, until the log is offline or the power is cut."""
    harness = FaultedLogHarness(seed=1)
    assert isinstance(harness.env, FaultEnv)
    harness.env.inject(plan)
    with suppress(PowerCut):
        harness.run_script(single_fault=single_fault)
    return harness
