"""Tests how it is found out when leaders have moved."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator
from typing import Any

import pytest

from bench.cluster.leaders import fenced_at, figures_of, wait_until_served

LOGGED = """\
[2026-11-27 06:03:06,125] INFO [QuorumController id=101] Fencing broker 2 at epoch 7 because its session has timed out. (org.apache.kafka.controller.ReplicationControlManager)
[2026-11-27 06:03:07,250] INFO [QuorumController id=101] Fencing broker 1 at epoch 5 because its session has timed out. (org.apache.kafka.controller.ReplicationControlManager)
[2026-11-27 06:03:07,251] INFO [QuorumController id=101] Something else about broker 1 (org.apache.kafka.controller.QuorumController)
"""  # noqa: E501


class FakeBroker:
    """Serves more partitions each time that it is asked."""

    def __init__(self, *served: set[int]) -> None:
        self._served: Iterator[set[int]] = iter(served)
        self._now: set[int] = set()
        self.asked: list[list[int]] = []
        self.is_closed = False

    def served(self, partitions: Collection[int]) -> set[int]:
        self.asked.append(list(partitions))
        self._now = next(self._served, self._now)
        return self._now & set(partitions)

    def close(self) -> None:
        self.is_closed = True


def test_the_controller_logs_when_it_fences_a_broker() -> None:
    moment = time.mktime(time.strptime("2026-11-27 06:03:07", "%Y-%m-%d %H:%M:%S"))
    assert fenced_at(LOGGED, 1) == pytest.approx(moment + 0.25)
    assert fenced_at(LOGGED, 1) - fenced_at(LOGGED, 2) == pytest.approx(1.125)
    with pytest.raises(LookupError, match="broker 3"):
        fenced_at(LOGGED, 3)


def test_seconds_from_the_kill_and_from_the_fencing() -> None:
    assert figures_of(100.0, 108.5, 109.0) == {"whole_s": 9.0, "after_fencing_s": 0.5}


def test_one_partition_is_asked_for_until_one_is_served_and_then_those_that_are_left() -> None:
    one: Any = FakeBroker(set(), {0, 2}, {0, 2})
    other: Any = FakeBroker(set(), set(), {1, 3})
    before = time.time()
    assert wait_until_served([one, other], range(4)) >= before
    assert one.asked == [[0], [0], [1, 2, 3]]
    assert other.asked == one.asked
    assert one.is_closed
    assert other.is_closed


def test_partitions_that_are_never_served_end_the_wait() -> None:
    broker: Any = FakeBroker({0})
    with pytest.raises(TimeoutError, match="1 partitions are not served"):
        wait_until_served([broker], range(2), limit_s=0.02)
    assert broker.is_closed
