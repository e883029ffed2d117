"""ShardRunner: operations, their records and responses; failures; loading and unloading."""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import Any

import pytest

from barnabas.broker.coordinator.loading import ShardLoader
from barnabas.broker.coordinator.record_queue import Answer
from barnabas.broker.coordinator.shard import CoordinatorResult
from barnabas.broker.coordinator.shard_runner import ShardState
from barnabas.broker.coordinator.txn import TransactionalProducer
from barnabas.broker.metadata.image import MetadataDelta, MetadataImage
from barnabas.broker.pending import Pending
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.storage.errors import OutOfResourcesError
from barnabas.storage.log.txn_verification import VerificationGuard
from tests.broker.coordinator.runtime_harness import (
    MAX_BATCH_BYTES,
    WRITE_TIMEOUT_MS,
    Counters,
    MemoryLogs,
    RuntimeHarness,
    counter,
    marker,
    no_counter,
)
from tests.broker.held_runner import HeldRunner

PRODUCER = TransactionalProducer("id", 5, 0, False)


class Told:
    """The response that a client received: `value` is "nothing" until then."""

    def __init__(self) -> None:
        self.value: Any = "nothing"

    def __call__(self, value: object) -> None:
        assert self.value == "nothing"
        self.value = value


def ask(pending: Pending[Any]) -> Told:
    told = Told()
    pending.add_done_callback(told)
    return told


def write(harness: RuntimeHarness, operation: Callable[[Counters], CoordinatorResult[Any]]) -> Told:
    answer: Answer[Any] = Answer(lambda error: error.code)
    harness.runner.write(operation, answer)
    return ask(answer.pending)


def look(
    harness: RuntimeHarness, operation: Callable[[Counters], Any] = lambda shard: dict(shard.counters)
) -> Told:
    answer: Answer[Any] = Answer(lambda error: error.code)
    harness.runner.read(operation, answer)
    return ask(answer.pending)


def write_in_transaction(
    harness: RuntimeHarness,
    operation: Callable[[Counters], CoordinatorResult[Any]],
    guard: VerificationGuard | None = None,
) -> Told:
    answer: Answer[Any] = Answer(lambda error: error.code)
    harness.runner.write_in_transaction(PRODUCER, guard, operation, answer)
    return ask(answer.pending)


def end(harness: RuntimeHarness, *, committed: bool) -> Told:
    return ask(
        harness.runner.complete_transaction(marker(5, committed=committed)).then(lambda e: e and e.code)
    )


def _five_of(number: int) -> Callable[[Counters], CoordinatorResult[object]]:
    return lambda shard: shard.set(f"c{number}", *range(5))


# ---- responses


def test_operations_of_one_pass_see_each_other_and_share_a_batch() -> None:
    harness = RuntimeHarness()
    first = write(harness, lambda shard: shard.set("a", 1, 2))
    second = write(harness, lambda shard: shard.set("a", 3))
    assert (first.value, second.value, harness.logs.batches) == ("nothing", "nothing", [])
    harness.end_pass()
    assert (first.value, second.value, len(harness.logs.batches)) == (None, 2, 1)
    assert harness.shard.offsets == [0, 1, 2]


def test_a_response_waits_for_the_commit_of_its_records_and_of_those_it_has_read() -> None:
    harness = RuntimeHarness()
    harness.logs.holds = True
    written = write(harness, lambda shard: shard.set("a", 1))
    harness.end_pass()
    seen = look(harness)
    asked = write(harness, lambda shard: CoordinatorResult("no records"))
    assert (written.value, seen.value, asked.value) == ("nothing",) * 3
    harness.logs.commit()
    assert (written.value, seen.value, asked.value) == (None, {"a": 1}, "no records")


def test_a_read_without_uncommitted_state_is_answered_at_once() -> None:
    harness = RuntimeHarness()
    assert look(harness).value == {}
    assert write(harness, lambda _: CoordinatorResult("fine")).value == "fine"


def test_a_pending_response_waits_for_its_completion_and_for_the_commit() -> None:
    harness = RuntimeHarness()
    response: Pending[str] = Pending()
    told = write(harness, lambda _: CoordinatorResult(response, [counter("a", 1)]))
    harness.end_pass()
    assert told.value == "nothing"
    response.complete("all have joined")
    assert told.value == "all have joined"


def test_on_committed_is_called_before_the_response() -> None:
    harness = RuntimeHarness()
    heard: list[object] = []
    told = write(
        harness,
        lambda _: CoordinatorResult(
            "x", [counter("a", 1)], on_committed=lambda error: heard.append((error, told.value))
        ),
    )
    harness.end_pass()
    assert (heard, told.value) == ([(None, "nothing")], "x")


def test_records_without_replay_are_only_written() -> None:
    harness = RuntimeHarness()
    write(harness, lambda _: CoordinatorResult(None, [counter("a", 1)], replays=False))
    harness.end_pass()
    assert (harness.shard.counters, harness.logs.next_offset) == ({}, 1)


@pytest.mark.parametrize("linger_ms", [0, 20])
def test_records_are_collected_for_the_linger_time(linger_ms: int) -> None:
    harness = RuntimeHarness(linger_ms=linger_ms)
    write(harness, lambda shard: shard.set("a", 1))
    told = write(harness, lambda shard: shard.set("a", 2))
    harness.end_pass()
    if linger_ms:
        assert (told.value, len(harness.logs.batches)) == ("nothing", 0)
    harness.clock.advance(linger_ms / 1000)
    assert (told.value, len(harness.logs.batches)) == (1, 1 if linger_ms else 2)


def test_a_full_batch_is_written_before_the_next_begins() -> None:
    harness = RuntimeHarness()
    told = [write(harness, _five_of(n)) for n in range(12)]
    harness.end_pass()
    assert all(len(batch) <= MAX_BATCH_BYTES for batch in harness.logs.batches)
    assert len(harness.logs.batches) > 1
    assert [each.value for each in told] == [None] * 12
    assert harness.shard.offsets == list(range(60))


# ---- failures


def test_a_failed_operation_has_no_effect() -> None:
    harness = RuntimeHarness()

    def refuse(shard: Counters) -> CoordinatorResult[None]:
        raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)

    assert write(harness, refuse).value is ErrorCode.UNKNOWN_MEMBER_ID
    assert look(harness, refuse).value is ErrorCode.UNKNOWN_MEMBER_ID
    harness.end_pass()
    assert harness.logs.batches == []


def test_a_bug_is_logged_with_its_traceback_and_the_shard_continues(caplog: pytest.LogCaptureFixture) -> None:
    harness = RuntimeHarness()

    def stumble(shard: Counters) -> Any:
        raise KeyError("nobody thought of it")

    assert write(harness, stumble).value is ErrorCode.UNKNOWN_SERVER_ERROR
    assert look(harness, stumble).value is ErrorCode.UNKNOWN_SERVER_ERROR
    assert caplog.text.count("nobody thought of it") >= 2
    told = write(harness, lambda shard: shard.set("a", 1))
    harness.end_pass()
    assert told.value is None


def test_records_that_are_too_large_are_rejected_and_not_replayed() -> None:
    harness = RuntimeHarness()
    heard: list[ApiError | None] = []
    told = write(
        harness,
        lambda _: CoordinatorResult(None, [counter("a", n) for n in range(40)], on_committed=heard.append),
    )
    assert (told.value, harness.shard.counters) == (ErrorCode.UNKNOWN_SERVER_ERROR, {})
    assert [error and error.code for error in heard] == [ErrorCode.UNKNOWN_SERVER_ERROR]


def test_a_record_that_cannot_be_encoded_is_a_bug_of_the_operation() -> None:
    harness = RuntimeHarness()
    assert write(harness, lambda shard: shard.set("a", 1 << 70)).value is ErrorCode.UNKNOWN_SERVER_ERROR
    assert harness.shard.counters == {}


@pytest.mark.parametrize(
    ("refusal", "told"),
    [
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
    ],
)
def test_rejected_records_are_not_replayed(refusal: ErrorCode, told: ErrorCode) -> None:
    harness = RuntimeHarness()
    harness.logs.refusal = ApiError(refusal)
    assert write(harness, lambda shard: shard.set("a", 1)).value is told
    assert write_in_transaction(harness, lambda shard: shard.set("a", 1)).value is told
    assert (harness.shard.counters, len(harness.shards)) == ({}, 1)


def test_on_a_full_disk_only_necessary_records_are_written() -> None:
    harness = RuntimeHarness()
    harness.logs.is_full = True
    assert write(harness, lambda shard: shard.set("a", 1)).value is ErrorCode.COORDINATOR_NOT_AVAILABLE
    told = write(harness, lambda _: CoordinatorResult("gone", [no_counter("a")]))
    harness.end_pass()
    assert told.value == "gone"


def test_after_a_failed_append_the_shard_is_loaded_again() -> None:
    harness = RuntimeHarness()
    write(harness, lambda shard: shard.set("a", 1))
    harness.end_pass()
    told = [write(harness, lambda shard: shard.set("a", 2)), write(harness, lambda shard: shard.set("b", 2))]
    seen = look(harness)
    old = harness.shard
    harness.logs.failure = ErrorCode.NOT_ENOUGH_REPLICAS
    harness.end_pass()
    assert [each.value for each in (*told, seen)] == [ErrorCode.COORDINATOR_NOT_AVAILABLE] * 3
    assert old.events == ["loaded", "unloaded"]
    assert harness.shard is not old
    assert look(harness).value == {"a": 1}


def test_repeated_losses_delay_the_load() -> None:
    harness = RuntimeHarness()
    write(harness, lambda shard: shard.set("a", 1))
    harness.end_pass()
    harness.logs.failure = ErrorCode.NOT_ENOUGH_REPLICAS
    for wait_s in (0, 0.5, 1, 2, 4, 8, 10, 10):
        write(harness, lambda shard: shard.set("a", 2))
        harness.end_pass()
        if wait_s:
            harness.clock.advance(wait_s - 0.001)
            assert look(harness).value is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            harness.clock.advance(0.001)
        assert look(harness).value == {"a": 1}
    harness.logs.failure = None
    harness.clock.advance(60)
    write(harness, lambda shard: shard.set("a", 3))
    harness.end_pass()
    harness.logs.failure = ErrorCode.NOT_ENOUGH_REPLICAS
    write(harness, lambda shard: shard.set("a", 4))
    harness.end_pass()
    assert look(harness).value == {"a": 3}


def test_a_delayed_load_is_cancelled_with_the_partition() -> None:
    harness = RuntimeHarness()
    harness.logs.failure = ErrorCode.NOT_ENOUGH_REPLICAS
    for _ in range(2):
        write(harness, lambda shard: shard.set("a", 1))
        harness.end_pass()
    harness.runner.unload()
    harness.clock.advance(60)
    assert harness.runner.state is ShardState.CLOSED


def test_a_failed_commit_fails_later_writes() -> None:
    harness = RuntimeHarness()
    harness.logs.holds = True
    first = write(harness, lambda shard: shard.set("a", 1))
    harness.end_pass()
    second = write(harness, lambda shard: shard.set("a", 2))
    harness.end_pass()
    third = write(harness, lambda shard: shard.set("a", 3))
    harness.logs.reading = ApiError(ErrorCode.KAFKA_STORAGE_ERROR)
    harness.logs.commit(1, ErrorCode.KAFKA_STORAGE_ERROR)
    harness.end_pass()
    assert [each.value for each in (first, second, third)] == [ErrorCode.NOT_COORDINATOR] * 3
    assert harness.runner.state is ShardState.FAILED
    harness.logs.commit(None, ErrorCode.KAFKA_STORAGE_ERROR)  # which has no effect any more
    assert look(harness).value is ErrorCode.NOT_COORDINATOR


def test_a_foreign_record_in_the_log_causes_a_reload() -> None:
    harness = RuntimeHarness()
    told = write(harness, lambda shard: shard.set("a", 1))
    stranger = RuntimeHarness(logs=harness.logs)
    write(stranger, lambda shard: shard.set("b", 2))
    stranger.end_pass()
    harness.end_pass()
    assert told.value is ErrorCode.NOT_COORDINATOR
    assert look(harness).value == {"a": 1, "b": 2}


def test_records_that_fail_to_replay_are_not_written_and_cause_a_reload() -> None:
    harness = RuntimeHarness()
    kept = write(harness, lambda shard: shard.set("a", 1))
    harness.shard.poisoned = "b"
    told = write(harness, lambda shard: CoordinatorResult(None, [counter("a", 2), counter("b", 2)]))
    harness.end_pass()
    assert (kept.value, told.value) == (None, ErrorCode.UNKNOWN_SERVER_ERROR)
    assert look(harness).value == {"a": 1}
    assert harness.logs.next_offset == 1


def test_a_commit_that_takes_too_long_times_out_and_the_records_stay() -> None:
    harness = RuntimeHarness()
    harness.logs.holds = True
    told = write(harness, lambda shard: shard.set("a", 1))
    harness.end_pass()
    harness.clock.advance(WRITE_TIMEOUT_MS / 1000 - 0.001)
    assert told.value == "nothing"
    harness.clock.advance(0.001)
    assert told.value is ErrorCode.COORDINATOR_NOT_AVAILABLE
    seen = look(harness)
    harness.clock.advance(WRITE_TIMEOUT_MS / 1000)
    assert seen.value is ErrorCode.COORDINATOR_NOT_AVAILABLE
    harness.logs.commit()
    assert look(harness).value == {"a": 1}


def test_each_operation_has_the_whole_write_timeout() -> None:
    harness = RuntimeHarness()
    harness.logs.holds = True
    first = write(harness, lambda shard: shard.set("a", 1))
    harness.end_pass()
    harness.clock.advance(WRITE_TIMEOUT_MS / 1000 - 1)
    seen, later = look(harness), write(harness, lambda _: CoordinatorResult("no records"))
    harness.clock.advance(1)
    assert (first.value, seen.value) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, "nothing")
    harness.clock.advance(WRITE_TIMEOUT_MS / 1000 - 1.001)
    assert (seen.value, later.value) == ("nothing", "nothing")
    harness.clock.advance(0.001)
    assert (seen.value, later.value) == (ErrorCode.COORDINATOR_NOT_AVAILABLE,) * 2
    third = look(harness)
    harness.clock.advance(1)
    harness.logs.commit()
    assert third.value == {"a": 1}
    assert harness.clock.scheduled == 0


# ---- a new leader, whose log may hold records that are not committed


def test_responses_wait_for_loaded_records_that_are_not_committed() -> None:
    logs = MemoryLogs()
    write(earlier := RuntimeHarness(logs=logs), lambda shard: shard.set("a", 1))
    earlier.end_pass()
    behind: Pending[object] = Pending()
    logs.behind = behind
    logs.holds = True
    harness = RuntimeHarness(logs=logs)
    seen, written = look(harness), write(harness, lambda shard: shard.set("b", 2))
    harness.end_pass()
    assert (seen.value, written.value) == ("nothing", "nothing")
    behind.complete(True)
    assert (seen.value, written.value) == ({"a": 1}, "nothing")
    logs.commit()
    assert (written.value, look(harness).value) == (None, {"a": 1, "b": 2})


def test_loaded_records_that_are_not_committed_in_time() -> None:
    logs = MemoryLogs()
    behind: Pending[object] = Pending()
    logs.behind = behind
    harness = RuntimeHarness(logs=logs)
    seen = look(harness)
    harness.clock.advance(WRITE_TIMEOUT_MS / 1000)
    assert seen.value is ErrorCode.COORDINATOR_NOT_AVAILABLE
    again = look(harness)
    harness.runner.unload()
    assert again.value is ErrorCode.NOT_COORDINATOR
    behind.complete(True)
    assert harness.clock.scheduled == 0


def test_a_callback_that_raises_does_not_block_other_responses(
    caplog: pytest.LogCaptureFixture,
) -> None:
    harness = RuntimeHarness()

    def stumble(error: ApiError | None) -> None:
        raise RuntimeError("the listener stumbles")

    first = write(harness, lambda _: CoordinatorResult(1, [counter("a", 1)], on_committed=stumble))
    second = write(harness, lambda shard: shard.set("a", 2))
    harness.end_pass()
    assert (first.value, second.value) == (1, 1)
    assert "the listener stumbles" in caplog.text


# ---- transactions


def test_transactional_records_take_effect_once_committed() -> None:
    harness = RuntimeHarness()
    guard = VerificationGuard()
    write(harness, lambda shard: shard.set("a", 1))
    told = write_in_transaction(harness, lambda shard: shard.set("a", 2), guard)
    assert told.value == 1
    assert harness.logs.guards == [None, guard]
    assert look(harness).value == {"a": 1}
    assert end(harness, committed=True).value is None
    assert look(harness).value == {"a": 2}
    assert [record[:3] for record in harness.logs.records()] == [(0, -1, "a"), (1, 5, "a"), (2, 5, None)]
    assert harness.shard.offsets == [0, 1]


def test_records_of_an_aborted_transaction_never_take_effect() -> None:
    harness = RuntimeHarness()
    write_in_transaction(harness, lambda shard: shard.set("a", 2))
    end(harness, committed=False)
    again = RuntimeHarness(logs=harness.logs)
    assert look(harness).value == look(again).value == {}


def test_a_transactional_batch_that_the_log_rejects_changes_nothing() -> None:
    harness = RuntimeHarness()
    harness.logs.batch_refusal = ApiError(ErrorCode.INVALID_PRODUCER_EPOCH)
    told = write_in_transaction(harness, lambda shard: shard.set("a", 2))
    assert told.value is ErrorCode.INVALID_PRODUCER_EPOCH
    assert (harness.shard.open, len(harness.shards)) == ({}, 1)


def test_a_marker_that_the_log_rejects_ends_nothing() -> None:
    harness = RuntimeHarness()
    write_in_transaction(harness, lambda shard: shard.set("a", 2))
    harness.logs.failure = ErrorCode.TRANSACTION_COORDINATOR_FENCED
    assert end(harness, committed=True).value is ErrorCode.TRANSACTION_COORDINATOR_FENCED
    assert harness.shard.open == {5: {"a": 2}}


def test_a_marker_is_answered_once_it_is_committed() -> None:
    harness = RuntimeHarness()
    write_in_transaction(harness, lambda shard: shard.set("a", 2))
    harness.logs.holds = True
    told = end(harness, committed=True)
    assert told.value == "nothing"
    harness.logs.commit()
    assert told.value is None


def test_transactions_end_even_if_the_shard_cannot_be_loaded() -> None:
    harness = RuntimeHarness()
    write_in_transaction(harness, lambda shard: shard.set("a", 2))
    harness.runner.unload()
    harness.logs.errno = errno.EIO
    harness.runner.load()
    assert harness.runner.state is ShardState.FAILED
    assert end(harness, committed=True).value is None
    harness.logs.errno = 0
    harness.runner.lead(8)
    assert look(harness).value == {"a": 2}


def test_a_failed_transactional_append_is_answered_and_undone() -> None:
    harness = RuntimeHarness()
    harness.logs.failure = ErrorCode.NOT_ENOUGH_REPLICAS
    told = write_in_transaction(harness, lambda shard: shard.set("a", 2))
    assert told.value is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert harness.shard.open == {}


# ---- timers


def test_an_expired_timer_runs_an_ordinary_operation() -> None:
    harness = RuntimeHarness()
    shard = harness.shard
    shard.context.timer.schedule("t", 1000, lambda: shard.set("a", 1))
    harness.clock.advance(1)
    assert look(harness).value == {"a": 1}
    assert harness.logs.next_offset == 1


@pytest.mark.parametrize("retry", [True, False])
def test_a_timer_whose_records_were_rejected_is_retried_on_request(retry: bool) -> None:
    harness = RuntimeHarness()
    shard = harness.shard
    shard.context.timer.schedule("t", 1000, lambda: shard.set("a", 1), retry=retry)
    harness.logs.refusal = ApiError(ErrorCode.NOT_ENOUGH_REPLICAS)
    harness.clock.advance(1)
    harness.logs.refusal = None
    harness.clock.advance(0.5)
    assert shard.counters == ({"a": 1} if retry else {})


def test_the_timers_of_an_unloaded_shard_are_cancelled() -> None:
    harness = RuntimeHarness()
    shard = harness.shard
    shard.context.timer.schedule("t", 1000, lambda: shard.set("a", 1))
    harness.runner.unload()
    harness.runner.load()
    shard.context.timer.schedule("u", 1000, lambda: shard.set("a", 2))
    harness.clock.advance(2)
    assert (harness.shard.counters, harness.clock.scheduled) == ({}, 0)


# ---- loading and unloading


def filled() -> MemoryLogs:
    harness = RuntimeHarness()
    write(harness, lambda shard: shard.set("a", 1, 2))
    harness.end_pass()
    return harness.logs


def test_an_empty_partition_is_loaded_at_once_and_others_off_the_loop() -> None:
    runner = HeldRunner()
    assert RuntimeHarness(runner=runner).shard.events == ["loaded"]
    harness = RuntimeHarness(runner=runner, logs=filled())
    assert (runner.held, harness.runner.state) == (1, ShardState.LOADING)
    assert write(harness, lambda shard: shard.set("a", 3)).value is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert look(harness).value is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert end(harness, committed=True).value is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    runner.release()
    assert look(harness).value == {"a": 2}
    (summary,) = harness.probe.loads
    assert (summary.records, summary.skipped, summary.size) == (1, 1, len(harness.logs.batches[0]))


def test_metadata_published_during_a_load_is_applied_afterwards() -> None:
    runner = HeldRunner()
    harness = RuntimeHarness(runner=runner, logs=filled())
    harness.runner.metadata_changed(MetadataImage.empty(), MetadataDelta())
    runner.release()
    assert harness.shard.events == ["loaded", "metadata"]
    harness.runner.metadata_changed(MetadataImage.empty(), MetadataDelta())
    assert harness.shard.events == ["loaded", "metadata", "metadata"]


def test_an_obsolete_load_is_cancelled() -> None:
    runner = HeldRunner()
    harness = RuntimeHarness(runner=runner, logs=filled())
    harness.runner.unload()
    runner.release()
    assert (harness.runner.state, harness.shards[0].counters) == (ShardState.CLOSED, {})
    harness.runner.load()
    runner.release()
    assert look(harness).value == {"a": 2}


def test_the_later_of_two_loads_counts() -> None:
    runner = HeldRunner()
    harness = RuntimeHarness(runner=runner, logs=filled())
    harness.runner.unload()
    harness.runner.load()
    runner.release_all()
    assert harness.shard is harness.shards[1]


@pytest.mark.parametrize("what", ["disk", "log", "replay"])
def test_an_unreadable_partition_is_not_coordinated(what: str, caplog: pytest.LogCaptureFixture) -> None:
    logs = filled()
    logs.errno = errno.EIO if what == "disk" else 0
    logs.reading = ApiError(ErrorCode.KAFKA_STORAGE_ERROR) if what == "log" else None
    Counters.poisoned = "a" if what == "replay" else None
    try:
        harness = RuntimeHarness(logs=logs)
    finally:
        Counters.poisoned = None
    assert harness.runner.state is ShardState.FAILED
    assert look(harness).value is ErrorCode.NOT_COORDINATOR
    assert harness.probe.load_failures == 1
    assert "cannot be loaded" in caplog.text
    assert len(logs.disk_errors) == (what == "disk")
    logs.errno, logs.reading = 0, None
    harness.runner.lead(8)
    assert (look(harness).value, harness.shard.context.epoch) == ({"a": 2}, 8)


@pytest.mark.parametrize("what", [errno.EMFILE, errno.ENFILE, errno.ENOMEM, "contents", "memory"])
def test_a_load_that_lacked_resources_of_the_process_is_retried(
    what: int | str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log and its disk are sound then, and the groups in it must not be lost until the broker restarts."""
    logs = filled()
    logs.errno = what if isinstance(what, int) else 0
    logs.reading = OutOfResourcesError("no descriptor") if what == "contents" else None
    with monkeypatch.context() as patch:
        if what == "memory":
            patch.setattr(ShardLoader, "load", _out_of_memory)
        harness = RuntimeHarness(logs=logs)
        for wait_s in (0.5, 1, 2, 4, 8, 10, 10):
            assert look(harness).value is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            harness.clock.advance(wait_s)
    assert harness.probe.load_failures == 8
    assert logs.disk_errors == []
    logs.errno, logs.reading = 0, None
    harness.runner.metadata_changed(MetadataImage.empty(), MetadataDelta())
    harness.clock.advance(10)
    assert look(harness).value == {"a": 2}
    assert harness.shard.events == ["loaded", "metadata"]
    logs.errno = errno.EMFILE
    harness.runner.unload()
    harness.runner.load()
    harness.clock.advance(0.5)  # not only after ten seconds
    assert harness.probe.load_failures == 10


def test_a_load_to_be_retried_is_cancelled_with_the_partition() -> None:
    logs = filled()
    logs.errno = errno.EMFILE
    harness = RuntimeHarness(logs=logs)
    harness.runner.unload()
    harness.clock.advance(60)
    assert (harness.runner.state, harness.probe.load_failures) == (ShardState.CLOSED, 1)
    harness.runner.load()
    harness.runner.unload()
    logs.errno = 0
    harness.runner.load()
    harness.clock.advance(60)
    assert len(harness.probe.loads) == 1


def _out_of_memory(*_: object) -> None:
    raise MemoryError


def test_metadata_from_before_a_failed_load_is_dropped() -> None:
    runner = HeldRunner()
    logs = filled()
    logs.errno = errno.EIO
    harness = RuntimeHarness(runner=runner, logs=logs)
    harness.runner.metadata_changed(MetadataImage.empty(), MetadataDelta())
    runner.release()
    assert harness.runner.state is ShardState.FAILED
    logs.errno = 0
    harness.runner.lead(8)
    runner.release()
    assert harness.shard.events == ["loaded"]


def test_a_new_epoch_of_the_same_leader_keeps_the_state() -> None:
    harness = RuntimeHarness()
    shard = harness.shard
    harness.runner.lead(8)
    assert harness.shard is shard
    assert (shard.context.epoch, shard.events) == (8, ["loaded", "epoch"])


def test_pending_requests_of_an_unloaded_partition_fail() -> None:
    harness = RuntimeHarness()
    harness.logs.holds = True
    told = [write(harness, lambda shard: shard.set("a", 1))]
    harness.end_pass()
    told += [write(harness, lambda shard: shard.set("a", 2)), look(harness)]
    shard = harness.shard
    harness.runner.unload()
    assert [each.value for each in told] == [ErrorCode.NOT_COORDINATOR] * 3
    assert shard.events == ["loaded", "unloaded"]
    assert write(harness, lambda shard: shard.set("a", 3)).value is ErrorCode.NOT_COORDINATOR
    harness.end_pass()
    harness.logs.commit()
    assert harness.logs.next_offset == 1


def test_decided_records_are_written_and_answered_before_the_broker_stops() -> None:
    harness = RuntimeHarness()
    told = write(harness, lambda shard: shard.set("a", 1))
    shard = harness.shard
    harness.runner.close()
    assert (told.value, harness.logs.next_offset, shard.events) == (None, 1, ["loaded", "unloaded"])
    assert look(harness).value is ErrorCode.NOT_COORDINATOR


def test_a_shard_that_fails_to_unload_or_start_affects_only_its_partition(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stumble(self: Counters) -> None:
        raise RuntimeError("it stumbles")

    harness = RuntimeHarness()
    monkeypatch.setattr(Counters, "on_unloaded", stumble)
    harness.runner.unload()
    monkeypatch.setattr(Counters, "on_loaded", stumble)
    harness.runner.load()
    assert harness.runner.state is ShardState.FAILED
    assert caplog.text.count("it stumbles") >= 2
