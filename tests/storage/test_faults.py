"""A fault at each file operation in turn, in a short sequence of steps on a log.

After any failure: acknowledged records are present, no others than the sent ones are, all in the order in which they
were sent, and the log accepts appends after a restart.
"""

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from random import Random

import pytest

from barnabas.storage.errors import KafkaStorageError, StorageError
from barnabas.storage.manager.log_manager import LogManager
from barnabas.storage.offsets import FetchIsolation, LogStartOffsetIncrementReason
from tests.storage.fault_env import Fault, FaultEnv, FaultPlan, PowerCut, from_nth, nth, power_cut
from tests.storage.faulted_log_harness import count_operations, run_script_with
from tests.storage.helpers import T0, TOPIC_ID, make_batch, read_values, small_config
from tests.support.chance import seed_or, seeds

FAULTS: dict[str, Callable[[int], FaultPlan]] = {
    "an error": nth,
    "an error halfway through a write": lambda n: nth(n, Fault(errno.EIO, half=True)),
    "a short write": lambda n: nth(n, Fault(None, half=True)),
    "a disk that stays full": lambda n: from_nth(n, Fault(errno.ENOSPC, half=True)),
}


SHORT_STRIDE = int(os.environ.get("BARNABAS_FAULT_STRIDE") or 3)
"""A fault at every n-th operation of the short sequence; 1: at every operation."""


class StepsHarness:
    """A short sequence of steps on a log; a step that fails is skipped."""

    def __init__(self, env: FaultEnv) -> None:
        self.env = env
        self.sent: list[bytes] = []
        self.acknowledged: dict[int, bytes] = {}
        self.durable: set[int] = set()
        self.gone: set[bytes] = set()
        self.start_offset = 0
        self.producer_id = 6

    def run(self) -> None:
        self.producer_id += 1
        manager = LogManager(self.env, ["/logs"], lambda _topic: small_config())
        manager.dirs.lock()
        manager.load_logs()
        log = manager.get_or_create_log("t", 0, TOPIC_ID)
        self.manager, self.log = manager, log
        for step in self.steps():
            try:
                step()
            except (OSError, KafkaStorageError):
                continue
        manager.shutdown()
        self.durable = (
            set(self.acknowledged) if self.env.exists("/logs/.kafka_cleanshutdown") else self.durable
        )

    def steps(self) -> Iterator[Callable[[], object]]:
        for number in range(9):
            yield lambda number=number: self.append(b"value %d " % number + bytes(200))  # type: ignore[misc]
        yield self.flush
        yield lambda: self.append(b"idempotent" + bytes(100), producer=(self.producer_id, 0, 0))
        yield lambda: self.append(b"idempotent, next" + bytes(100), producer=(self.producer_id, 0, 1))
        yield self.log.roll
        yield lambda: self.append(b"after the roll" + bytes(100), epoch=1)
        yield self.flush
        yield lambda: self.append(b"not for long" + bytes(100), epoch=1)
        yield self.log.roll
        yield lambda: self.append(b"nor this" + bytes(100), epoch=1)
        yield self.flush
        yield self.truncate
        yield self.manager.dirs.checkpoint_all
        yield self.delete_some
        yield self.log.delete_old_segments
        yield self.manager.dirs.checkpoint_all
        yield self.remove_due
        yield lambda: self.log.read(
            self.log.log_start_offset, 10_000, FetchIsolation.LOG_END, min_one_message=True
        )
        yield lambda: self.log.fetch_offset_by_timestamp(T0)
        yield lambda: self.append(b"nearly the end" + bytes(100), epoch=1)
        yield lambda: self.append(b"the end" + bytes(100), epoch=2)

    def append(self, value: bytes, *, epoch: int = 0, producer: tuple[int, int, int] | None = None) -> None:
        value = b"%d: " % self.producer_id + value
        self.sent.append(value)
        info = self.log.append_as_leader(make_batch(value, producer=producer), epoch)
        self.log.update_high_watermark(self.log.log_end_offset)
        assert info.first_offset not in self.acknowledged
        self.acknowledged[info.first_offset] = value

    def flush(self) -> None:
        before = set(self.acknowledged)
        self.log.flush()
        self.durable |= before

    def truncate(self) -> None:
        """Truncates the last two records, as a follower does whose leader diverged."""
        end = self.log.log_end_offset - 2
        taken_back = [
            self.acknowledged.pop(offset) for offset in (end, end + 1) if offset in self.acknowledged
        ]
        self.durable &= set(self.acknowledged)
        self.manager.truncate_to(self.log, end)
        self.gone = set(taken_back)

    def delete_some(self) -> None:
        start = self.log.log_start_offset + 5
        self.log.maybe_increment_log_start_offset(start, LogStartOffsetIncrementReason.CLIENT_RECORD_DELETION)
        self.start_offset = start

    def remove_due(self) -> None:
        self.env.time_ms += 60_000
        for deletion in self.manager.take_due_deletions():
            deletion.run()

    # -- afterwards --

    def check_after_restart(self, required: set[int]) -> None:
        manager = LogManager(self.env, ["/logs"], lambda _topic: small_config())
        manager.dirs.lock()
        manager.load_logs()
        log = manager.get_or_create_log("t", 0, TOPIC_ID)
        found = read_values(log)
        for offset in required:
            if offset >= log.log_start_offset:
                assert found.get(offset) == self.acknowledged[offset], f"offset {offset}"
        assert log.log_start_offset <= self.start_offset or not found
        assert not self.gone & set(found.values())
        positions = [self.sent.index(value) for value in found.values() if value]
        assert positions == sorted(positions)
        log.update_high_watermark(log.log_end_offset)
        assert (
            log.append_as_leader(make_batch(b"after the restart"), 3).first_offset == log.log_end_offset - 1
        )
        assert read_values(log)[log.log_end_offset - 1] == b"after the restart"
        manager.shutdown()


def new_env() -> FaultEnv:
    env = FaultEnv(seed=1)
    env.mkdir("/logs")
    env.sync_dir("/")
    return env


def runs_with_faults(plan: Callable[[int], FaultPlan], *, second: bool = False) -> Iterator[StepsHarness]:
    """One run for each operation at which the plan has its fault; in a new directory or (`second`) a used one."""
    operation, completed = 0, False
    while not completed:
        harness = StepsHarness(new_env())
        if second:
            harness.run()
        harness.env.inject(plan(operation))
        with suppress(OSError, StorageError, PowerCut):  # it may not even start
            harness.run()
        completed = harness.env.operations <= operation
        harness.env.inject(None)
        yield harness
        operation += SHORT_STRIDE


@pytest.mark.parametrize("kind", FAULTS)
def test_nothing_acknowledged_is_lost_when_the_process_dies_after_a_fault(kind: str) -> None:
    for harness in runs_with_faults(FAULTS[kind]):
        harness.env.kill()
        harness.check_after_restart(set(harness.acknowledged))


@pytest.mark.parametrize("kind", FAULTS)
def test_nothing_synced_is_lost_when_the_machine_dies_after_a_fault(kind: str) -> None:
    for harness in runs_with_faults(FAULTS[kind]):
        harness.env.crash()
        harness.check_after_restart(harness.durable)


def test_nothing_acknowledged_is_lost_when_the_process_dies_at_any_operation() -> None:
    for harness in runs_with_faults(power_cut):
        harness.env.kill()
        harness.check_after_restart(set(harness.acknowledged))


@pytest.mark.parametrize("second", [False, True], ids=["new", "reopened"])
@pytest.mark.parametrize("seed", [None, *seeds(3, fixed=1)])
def test_nothing_synced_is_lost_when_the_machine_dies_at_any_operation(
    seed: int | None, second: bool
) -> None:
    for harness in runs_with_faults(power_cut, second=second):
        harness.env.crash(None if seed is None else Random(seed))
        harness.check_after_restart(harness.durable)


@pytest.mark.parametrize("plan", [nth, power_cut])
def test_a_restart_that_fails_anywhere_leaves_everything_for_the_next_one(
    plan: Callable[[int], FaultPlan],
) -> None:
    operation, completed = 0, False
    while not completed:
        harness = StepsHarness(new_env())
        harness.run()
        harness.env.remove("/logs/.kafka_cleanshutdown")
        harness.env.kill()
        harness.env.inject(plan(operation))
        with suppress(OSError, StorageError, PowerCut):
            harness.check_after_restart(set(harness.acknowledged))
        completed = harness.env.operations <= operation
        harness.env.kill()
        harness.sent.append(b"after the restart")
        harness.check_after_restart(set(harness.acknowledged))
        operation += SHORT_STRIDE


# -- more kinds of steps, against the model of `LogHarness` --

RICH_FAULTS: dict[
    str, tuple[Callable[[int], FaultPlan], bool]
] = {  # the plan, and whether it has a single fault
    "an error": (nth, True),
    "an error halfway through a write": (lambda n: nth(n, Fault(errno.EIO, half=True)), True),
    "no room for a write": (lambda n: nth(n, Fault(errno.ENOSPC, half=True)), True),
    "a short write": (lambda n: nth(n, Fault(None, half=True)), True),
    "errors from there on": (from_nth, False),
    "a disk that stays full": (lambda n: from_nth(n, Fault(errno.ENOSPC, half=True)), False),
    "the end": (power_cut, False),
}
STRIDE = 97  # a fault at every n-th operation; each offset selects others
SLOW_STRIDE = int(os.environ.get("BARNABAS_FAULT_STRIDE") or 23)  # 1: each operation in turn


def check_faults(kind: str, stride: int, offset: int) -> None:
    """Runs the script with a fault at every `stride`-th operation, each followed by a kill and by a crash."""
    plan, is_single = RICH_FAULTS[kind]
    operations = count_operations()
    print(f"{operations} operations, every {stride}th from {offset} on")
    for number in range(offset, operations, stride):
        for power_cut_after, rng in ((False, None), (True, None), (True, Random(number))):
            with printing_on_failure(
                f"{kind} at operation {number}, power cut {power_cut_after}, mixture {rng is not None}"
            ):
                harness = run_script_with(plan(number), single_fault=is_single)
                harness.reopen_and_check(power_cut=power_cut_after, rng=rng)
                harness.check_still_works()


@contextmanager
def printing_on_failure(what: str) -> Iterator[None]:
    try:
        yield
    except BaseException:
        print(what)
        raise


@pytest.mark.parametrize("kind", RICH_FAULTS)
def test_log_and_model_agree_whatever_operation_fails(kind: str) -> None:
    check_faults(kind, STRIDE, offset=list(RICH_FAULTS).index(kind) * 13)


@pytest.mark.slow
@pytest.mark.timeout(0)
@pytest.mark.parametrize("kind", RICH_FAULTS)
def test_log_and_model_agree_whatever_operation_fails_of_many(kind: str) -> None:
    check_faults(kind, SLOW_STRIDE, offset=seed_or(1) % SLOW_STRIDE)
