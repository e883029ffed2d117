"""Tests the summary of `make profile` from sampled stacks."""

from __future__ import annotations

import pytest

from bench import flame
from bench.flame import Shares, shares, top

STACKS = [
    "process 7:broker;<module> (cli/__main__.py:9);handle (broker/kafka_apis/dispatch.py:80);crc32c (native:1) 3",
    "process 7:broker;<module> (cli/__main__.py:9);handle (broker/kafka_apis/dispatch.py:90) 1",
    "process 7:broker;handle (broker/kafka_apis/dispatch.py:80);handle (broker/kafka_apis/dispatch.py:85) 2",
]


def test_lines_of_one_function_count_together_and_recursion_once() -> None:
    found = shares(STACKS)
    assert found.total == 6
    assert found.itself == {"crc32c (native)": 3, "handle (broker/kafka_apis/dispatch.py)": 3}
    assert found.inside == {"crc32c (native)": 3, "handle (broker/kafka_apis/dispatch.py)": 6}


def test_the_top_is_in_percent() -> None:
    lines = list(top(shares(STACKS), count=1))
    assert lines[0].split() == ["%", "itself"]
    assert lines[1].split()[0] == "50.0"
    assert lines[3].split() == ["100.0", "handle", "(broker/kafka_apis/dispatch.py)"]


def test_a_thread_without_work_does_not_count() -> None:
    assert shares([*STACKS, "process 7:broker;_worker (concurrent/futures/thread.py:81) 5"]) == shares(STACKS)


def test_an_empty_profile() -> None:
    assert shares([]) == Shares(0, shares([]).inside, shares([]).itself)
    assert len(list(top(shares([])))) == 2


def test_workloads_are_those_of_the_benchmark(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        flame.main(["no-such-workload"])
    assert ended.value.code == 2
    assert flame.DEFAULT in capsys.readouterr().err
