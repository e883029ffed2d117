"""The leader's replication quota: whose records it withholds, and which bytes it counts."""

from __future__ import annotations

from pathlib import Path

import pytest

from barnabas.broker.fetch.leader_throttle import LeaderThrottle
from barnabas.broker.replica.moves.replication_quota import ReplicationQuota
from barnabas.broker.replica.partition import Partition
from barnabas.config.log_config import LogConfig
from tests.broker.fakes import ManualTimer
from tests.broker.logs import log, partition_image

HERE, IN_SYNC, LAGS = 1, 2, 3
INDEX = 4
RATE = 100
"""Bytes a second."""


class Leader:
    """A partition with a replica in sync and one that lags, a LeaderThrottle, and its clock."""

    def __init__(self, directory: Path, *throttled: str) -> None:
        image = partition_image(partition=INDEX, replicas=(HERE, IN_SYNC, LAGS), isr=(HERE, IN_SYNC))
        self.partition = Partition("t", b"t" * 16, image, log(directory, config=config(*throttled)), HERE)
        self.timer = ManualTimer()
        self.rate = RATE
        self.throttle = LeaderThrottle(
            ReplicationQuota(lambda: self.rate, samples=11, window_s=1.0, clock=self.timer.time)
        )

    def throttles(self, replica_id: int) -> bool:
        return self.throttle.should_throttle(self.partition, replica_id)


def config(*throttled: str) -> LogConfig:
    return LogConfig(leader_replication_throttled_replicas=throttled)


@pytest.mark.parametrize(
    ("throttled", "expected"),
    [
        ((), False),
        (("*",), True),
        ((f"{INDEX}:{HERE}",), True),
        ((f"{INDEX}:{LAGS}",), False),  # the follower's id is for follower.replication.throttled.replicas
        ((f"{INDEX + 1}:{HERE}",), False),
        ((f"0:{LAGS}", f"{INDEX}:{HERE}"), True),
    ],
)
def test_the_topics_list_names_the_leaders_replica(
    tmp_path: Path, throttled: tuple[str, ...], expected: bool
) -> None:
    leader = Leader(tmp_path, "*")
    leader.throttle.record(leader.partition, 1_000_000)
    leader.partition.log.update_config(config(*throttled))
    assert leader.throttles(LAGS) is expected


def test_replicas_are_throttled_while_the_rate_is_above_the_quota(tmp_path: Path) -> None:
    leader = Leader(tmp_path, "*")
    assert not leader.throttles(LAGS)
    leader.throttle.record(leader.partition, 1_000_000)
    assert leader.throttles(LAGS)
    leader.rate = 1_000_000_000
    assert not leader.throttles(LAGS)
    leader.rate = RATE
    assert leader.throttles(LAGS)
    leader.timer.advance(11.0)
    assert not leader.throttles(LAGS)


def test_replicas_in_sync_are_not_throttled_but_counted(tmp_path: Path) -> None:
    leader = Leader(tmp_path, "*")
    leader.throttle.record(leader.partition, 1_000_000)  # to whichever replica
    assert (leader.throttles(IN_SYNC), leader.throttles(LAGS)) == (False, True)


@pytest.mark.parametrize(("throttled", "size"), [((), 1_000_000), (("0:1",), 1_000_000), (("*",), 0)])
def test_nothing_else_is_counted(tmp_path: Path, throttled: tuple[str, ...], size: int) -> None:
    leader = Leader(tmp_path, *throttled)
    leader.rate = 0
    leader.throttle.record(leader.partition, size)
    leader.partition.log.update_config(config("*"))
    assert not leader.throttles(LAGS)


@pytest.mark.parametrize("seconds", [5, 120])
def test_the_rate_is_held(tmp_path: Path, seconds: int) -> None:
    leader = Leader(tmp_path, "*")
    sent = 0
    for _ in range(seconds * 10):
        if not leader.throttles(LAGS):
            leader.throttle.record(leader.partition, 25)
            sent += 25
        leader.timer.advance(0.1)
    assert sent == pytest.approx(RATE * seconds, rel=0.1)


def test_the_rate_is_that_of_throttled_partitions(tmp_path: Path) -> None:
    leader = Leader(tmp_path, "*")
    leader.throttle.record(leader.partition, 1000)
    leader.partition.log.update_config(config())
    leader.throttle.record(leader.partition, 1000)
    assert leader.throttle.byte_rate == 1000
