"""Tests the figures of a catch-up."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.cluster.catch_up import CatchUp, figures_of, log_bytes
from bench.cluster.measuring import Used
from tests.bench.cluster.fakes import fake_cluster
from tests.support.cluster.history import At


def test_megabytes_a_second_and_seconds_a_gigabyte() -> None:
    used = Used({1: 0.5, 2: 1.0, 3: 7.0, 101: 7.0}, clients=0.0, others=0.1)
    assert figures_of(500_000_000, 2.0, used) == {
        "mb_s": pytest.approx(250),
        "leader_s_gb": pytest.approx(1.0),
        "follower_s_gb": pytest.approx(2.0),
        "others": 0.1,
    }


def test_segments_of_the_leader_count_and_indexes_do_not(tmp_path: Path) -> None:
    cluster = fake_cluster()
    cluster.rig = fake_cluster()
    cluster.rig.partition_directory = lambda node, at: tmp_path if node == 1 else None
    for name in ("0.log", "7.log", "0.index"):
        (tmp_path / name).write_bytes(bytes(10))
    assert log_bytes(cluster, At("t", 0)) == 20


def test_the_title_has_the_size() -> None:
    assert CatchUp(64).title == "64 MiB in 4 partitions"
