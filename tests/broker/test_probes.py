"""Counting: what the probes say after what was told to them."""

from __future__ import annotations

import pytest

from barnabas.broker.probes import (
    KEPT_TIMES,
    PAUSE_WINDOW_S,
    RATE_WINDOW_S,
    WINDOW_SAMPLES,
    ApiTimes,
    BrokerTopicProbe,
    ListenerProbe,
    LongestPause,
    Rate,
    RecentTimes,
    RequestProbe,
    SocketServerProbe,
)
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.records.errors import InvalidRecordError
from barnabas.storage.errors import InvalidMagicError, InvalidOffsetOrSequenceError, MissingKeyError


def test_a_rate_is_over_the_last_half_minute() -> None:
    rate = Rate()
    assert rate.per_second == 0
    for second in range(100):
        rate.sample(second, 5 * second if second > 60 else 0)
    assert rate.per_second == pytest.approx(5)
    assert len(rate._samples) == RATE_WINDOW_S + 1


def test_a_rate_of_one_moment_is_nothing() -> None:
    rate = Rate()
    rate.sample(1, 1)
    rate.sample(1, 2)
    assert rate.per_second == 0


def test_recent_times_are_the_latest_in_ms() -> None:
    times = RecentTimes()
    for number in range(KEPT_TIMES + 2):
        times.add(number / 1000)
    assert times.count == KEPT_TIMES + 2
    assert [round(value) for value in sorted(times.values())] == list(range(2, KEPT_TIMES + 2))


def test_the_longest_pause_is_that_of_one_to_two_windows() -> None:
    pause = LongestPause()
    assert pause.seconds == 0
    began = 5000.0
    pause.note(began, 0.0)
    pause.note(began + 10, 3.0)
    pause.note(began + 20, 2.0)
    pause.note(began + PAUSE_WINDOW_S, 1.0)
    assert pause.seconds == 3
    pause.note(began + 2 * PAUSE_WINDOW_S - 1, 0.5)
    assert pause.seconds == 3
    pause.note(began + 2 * PAUSE_WINDOW_S, 0.5)
    assert pause.seconds == 1


def test_a_pause_longer_than_the_windows_is_the_only_one_in_them() -> None:
    pause = LongestPause()
    pause.note(5000.0, 400.0)
    pause.note(5000.0 + 2 * PAUSE_WINDOW_S, 200.0)
    assert pause.seconds == 200


def test_a_listener_counts_connections_and_bytes() -> None:
    probe = ListenerProbe("PLAINTEXT")
    for second in range(3):
        probe.bytes_in += 100
        probe.connections_created += 2
        probe.connections_closed += 1
        probe.sample(second)
    assert probe.connection_count == 3
    assert probe.per_second("bytes_in") == 100
    assert probe.per_second("bytes_out") == 0
    assert probe.per_second("connections_created") == 2


def test_the_event_loop_is_idle_when_its_thread_does_not_work() -> None:
    worked = iter([0.0, 0.25, 0.5, 0.75])
    probe = SocketServerProbe(lambda: next(worked))
    assert probe.idle_ratio == 1
    for second in range(4):
        probe.sample(second)
    assert probe.idle_ratio == 0.75
    assert probe.listener("A") is probe.listener("A")


def test_times_keep_the_last_thousand() -> None:
    times = ApiTimes()
    for n in range(WINDOW_SAMPLES + 10):
        times.record(7 if n % 2 else 8, n, 1.0)
    local, remote = times.windows()
    assert sorted(local) == [float(n) for n in range(10, WINDOW_SAMPLES + 10)]
    assert list(remote) == [1.0] * WINDOW_SAMPLES
    assert times.count == WINDOW_SAMPLES + 10
    assert times.versions == {7: 517, 8: 517}


def test_requests_are_counted_by_api() -> None:
    probe = RequestProbe()
    probe.times("PRODUCE").record(9, 0.5, 0.0)
    probe.times("FETCH").record(12, 0.25, 2.0)
    probe.request_failed("PRODUCE", "NOT_LEADER_OR_FOLLOWER", 2)
    probe.request_failed("METADATA", "INVALID_TOPIC_EXCEPTION")
    probe.request_refused("unknown api key")
    assert [list(window) for window in probe.apis["FETCH"].windows()] == [[0.25], [2.0]]
    assert [list(window) for window in probe.apis["PRODUCE"].windows()] == [[0.5], [0.0]]
    assert probe.apis["PRODUCE"].errors == {"NOT_LEADER_OR_FOLLOWER": 2}
    assert (probe.apis["METADATA"].count, probe.refused) == (0, {"unknown api key": 1})


def test_topics_count_what_happens_to_them() -> None:
    probe = BrokerTopicProbe()
    probe.topic("a").produced(10, 1000)
    probe.topic("b").produced(1, 100)
    probe.fetched("a", 500)
    probe.fetch_failed("a")
    assert (probe.topics["a"].messages_in, probe.topics["a"].bytes_in, probe.topics["a"].bytes_out) == (
        10,
        1000,
        500,
    )
    assert (probe.topics["a"].total_fetch_requests, probe.topics["a"].failed_fetch_requests) == (2, 1)
    total = probe.all_topics()
    assert (total.messages_in, total.bytes_in, total.total_produce_requests) == (11, 1100, 2)


@pytest.mark.parametrize(
    ("code", "field", "amount"),
    [
        (ErrorCode.MESSAGE_TOO_LARGE, "bytes_rejected", 70),
        (ErrorCode.CORRUPT_MESSAGE, "invalid_message_crc_records", 1),
        (ErrorCode.INVALID_RECORD, "failed_produce_requests", 1),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, "failed_produce_requests", 0),
    ],
)
def test_refusals_are_told_apart(code: ErrorCode, field: str, amount: int) -> None:
    probe = BrokerTopicProbe()
    probe.topic("a").produced(1, 1)
    probe.produce_failed("a", code, 70)
    assert getattr(probe.topics["a"], field) == amount
    assert probe.topics["a"].total_produce_requests == 2


def test_topics_that_never_were_leave_no_series() -> None:
    probe = BrokerTopicProbe()
    for n in range(100):
        probe.produce_failed(f"guess-{n}", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 10)
        probe.fetch_failed(f"guess-{n}")
    assert probe.topics == {}
    assert probe.all_topics().total_produce_requests == 100
    assert probe.all_topics().failed_fetch_requests == 100


def test_the_sum_keeps_what_deleted_topics_had() -> None:
    probe = BrokerTopicProbe()
    probe.topic("a").produced(10, 1000)
    probe.topic_deleted("a")
    probe.topic_deleted("never there")
    assert "a" not in probe.topics
    assert probe.all_topics().messages_in == 10


def test_batches_that_break_the_rules_are_counted_by_rule() -> None:
    probe = BrokerTopicProbe()
    probe.topic("a").produced(1, 1)
    probe.batch_invalid("a", InvalidMagicError("formats"))
    probe.batch_invalid("a", InvalidOffsetOrSequenceError("count"))
    probe.batch_invalid("a", MissingKeyError("keys", [(0, "no key"), (3, "no key")]))
    probe.batch_invalid("nowhere", InvalidRecordError("something else"))
    counters = probe.all_topics()
    assert counters.invalid_magic_number_records == 1
    assert counters.invalid_offset_or_sequence_records == 1
    assert counters.no_key_compacted_topic_records == 2
    probe.converted("a", 5)
    assert probe.topics["a"].produce_message_conversions == 5
