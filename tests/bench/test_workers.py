"""Tests jobs and outcomes of workers, without a broker, and the order of a run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import KafkaError

from bench import __main__ as bench
from bench.side_by_side import rounds
from bench.side_by_side.command import options_of
from bench.side_by_side.contestants import Contestant
from bench.side_by_side.crew import Crew, Measured, WorkerError
from bench.side_by_side.job import Job, Outcome, values
from bench.side_by_side.rounds import Plan, figures_of, lost, turns
from bench.side_by_side.workers.java import parse_consumed, parse_produced
from bench.side_by_side.workers.producing import first_message, first_messages
from bench.side_by_side.workloads import WORKLOADS

PRODUCED = """\
41 records sent, 8.2 records/sec (0.01 MB/sec), 1.0 ms avg latency, 2.0 ms max latency.
200000 records sent, 71301.25 records/sec (69.63 MB/sec), 370.31 ms avg latency, 512.00 ms max latency, 1 ms 50th.
"""
CONSUMED = (
    "start.time, end.time, data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec, "
    "rebalance.time.ms, fetch.time.ms, fetch.MB.sec, fetch.nMsg.sec\n"
    "2026-11-22 05:00:00:000, 2026-11-22 05:00:04:000, 195.3125, 48.8, 200000, 50000.0, "
    "3000, 1000, 195.3125, 200000.0000\n"
)


def test_jobs_and_outcomes_come_through_a_line_of_json() -> None:
    job = Job("produce", "127.0.0.1:1", "t", settings={"batch.size": 16384}, firsts=[1], ends=[2])
    assert Job.parse(job.line()) == job
    outcome = Outcome(done=3, latencies_ms=[1.5], error="no\nway")
    assert Outcome.parse(outcome.line()) == outcome
    assert outcome.line().count("\n") == 1


def test_values_are_the_same_each_time_and_of_their_size() -> None:
    assert values(1024) == values(1024)
    assert {len(value) for value in values(100)} == {100}
    assert len(set(values(1024))) == 500


def test_output_of_the_perf_tools() -> None:
    assert parse_produced(PRODUCED) == (200_000, 71301.25)
    assert parse_consumed(CONSUMED) == (200_000, 200_000.0)
    for parse in (parse_produced, parse_consumed):
        with pytest.raises(RuntimeError, match="said: no such"):
            parse("no such class")


def test_a_worker_that_fails_says_why() -> None:
    with pytest.raises(WorkerError, match="KeyError: 'dance'"), Crew([Job("dance")], 20):
        pass


def measured(*outcomes: Outcome) -> Measured:
    return Measured(list(outcomes), broker_cpu_s=2.0, others=0.1, peak_mib=50.0)


def test_figures_of_several_workers() -> None:
    jobs = [Job("one-each"), Job("one-each")]
    found = figures_of(
        jobs, measured(Outcome(done=100, seconds=2, bytes=1000, cpu_s=1), Outcome(300, 1, 4, 3000))
    )
    assert found["rate"] == 100
    assert found["cpu_us"] == 5000
    assert found["cpu_s_gb"] == pytest.approx(500_000)
    assert found["client_us"] == 2500
    assert found["missing"] == 1


def test_figures_count_the_first_kind_and_take_ages_from_whoever_has_them() -> None:
    jobs = [Job("consume"), Job("send-paced"), Job("receive-paced")]
    ages = [float(number) for number in range(1, 1001)]
    outcomes = (
        Outcome(done=50, seconds=1, bytes=1),
        Outcome(done=7),
        Outcome(latencies_ms=ages),
    )
    found = figures_of(jobs, measured(*outcomes))
    assert found["rate"] == 50
    assert (found["p50_ms"], found["p99_ms"], found["p999_ms"]) == (500, 990, 999)


def test_acknowledged_messages_that_cannot_be_read_are_missing() -> None:
    jobs = [Job("produce"), Job("receive-paced")]
    outcomes = measured(Outcome(done=100, beside=3), Outcome(done=100))
    assert lost(jobs, outcomes, 103) == 0
    assert lost(jobs, outcomes, 101) == 2
    assert lost(jobs, outcomes, 150) == 0, "what was sent twice is there twice"


def test_every_row_has_workers_that_exist_and_grows_with_the_scale() -> None:
    from bench.side_by_side.workers.__main__ import WORKERS

    for row in WORKLOADS:
        assert {job.kind for job in row.team} <= set(WORKERS), row.name
        half = row.scaled(0.5)
        assert half.scaled(2.0).team[0].kind == row.team[0].kind
        for job, whole in zip(half.team, row.team, strict=True):
            assert job.count <= whole.count
            assert job.seconds <= whole.seconds


def test_rounds_begin_with_either_broker_and_rows_that_keep_their_topic_come_last() -> None:
    brokers = [Contestant(name, lambda _: pytest.fail("nobody starts here")) for name in "ab"]
    lasting = next(row for row in WORKLOADS if row.lasting)
    usual = WORKLOADS[0]
    order = turns([lasting, usual], brokers, Plan(rounds=2, warm_ups=1))
    assert [(number, row.name, broker.name) for number, row, broker in order] == [
        (number, name, broker)
        for name in (usual.name, lasting.name)
        for number, pair in ((0, "ba"), (1, "ab"), (2, "ba"))
        for broker in pair
    ]


def test_a_disturbed_measurement_is_repeated_and_the_quietest_one_counts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    disturbed = iter([0.9, 0.5, 0.7])
    monkeypatch.setattr(rounds, "one", lambda row, broker: {"others": next(disturbed)})
    monkeypatch.setattr(rounds, "_PAUSE_S", 0)
    broker = Contestant("a", lambda _: pytest.fail("nobody starts here"))
    assert rounds.attempt(WORKLOADS[0], broker, 1, Plan()).figures == {"others": 0.5}
    assert next(disturbed, None) is None


def test_a_failure_is_a_sample_with_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> dict[str, float]:
        raise TimeoutError("late")

    monkeypatch.setattr(rounds, "one", fail)
    broker = Contestant("a", lambda _: pytest.fail("nobody starts here"))
    sample = rounds.attempt(WORKLOADS[0], broker, 1, Plan())
    assert not sample.counts
    assert sample.error.strip().endswith("TimeoutError: late")


def test_a_part_of_the_rows_does_not_take_the_place_of_the_document() -> None:
    options, rows = options_of(["--only", "small,consume-1k"])
    assert [row.name for row in rows] == ["small", "consume-1k"]
    assert options.results is not None
    assert options.results.name == "performance"
    assert options.results.parent.name == "build"
    assert options_of([])[0].results is None
    assert options_of(["--quick"])[0].rounds == 1
    assert options_of([])[0].rounds == 5
    with pytest.raises(SystemExit):
        options_of(["--only", "smal"])


def test_benchmarks_get_the_remaining_arguments() -> None:
    assert bench.chosen([]) == (["side-by-side"], [])
    assert bench.chosen(["--quick"]) == (["side-by-side"], ["--quick"])
    assert bench.chosen(["lookup", "--quick", "codec"]) == (["lookup", "codec"], ["--quick"])
    assert bench.chosen(["all"])[0] == list(bench.BENCHMARKS)
    assert all(name in bench.usage() for name in bench.BENCHMARKS)


class OneMessage:
    """A producer whose one message fails or succeeds."""

    def __init__(self, error: KafkaError | None = None) -> None:
        self._error = error
        self.sent: list[dict[str, Any]] = []
        self._told: Callable[[KafkaError | None, None], None] = lambda *_: None

    def produce(
        self, topic: str, *, on_delivery: Callable[[KafkaError | None, None], None], **message: Any
    ) -> None:
        self.sent.append({"topic": topic, **message})
        self._told = on_delivery

    def flush(self, _: float) -> int:
        self._told(self._error, None)
        return 0


def test_the_first_message_suits_a_compacted_topic() -> None:
    """A compacted topic requires keys, and rejects records without one."""
    producer: Any = OneMessage()
    assert first_message(producer, "t", {"key": b"k", "value": b"v"}) == 1
    assert producer.sent == [{"topic": "t", "partition": 0, "key": b"k", "value": b"v"}]
    assert first_message(producer, "t", {"value": b"v", "partition": 3}) == 1
    assert producer.sent[-1]["partition"] == 3
    refusing: Any = OneMessage(KafkaError(KafkaError.INVALID_RECORD))
    with pytest.raises(AssertionError, match="INVALID_RECORD"):
        first_message(refusing, "t", {"value": b"v"})


def test_a_producer_that_connects_sends_a_message_to_each_partition() -> None:
    producer: Any = OneMessage()
    assert first_messages(producer, Job(topic="t", partitions=3), {"value": b"v"}) == 1
    assert [each["partition"] for each in producer.sent] == [0]
    producer.sent.clear()
    assert first_messages(producer, Job(topic="t", partitions=3, connects=True), {"value": b"v"}) == 3
    assert [each["partition"] for each in producer.sent] == [0, 1, 2]
