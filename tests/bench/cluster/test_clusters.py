"""Tests where the replicas of partitions are, and where clusters are made."""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path

import pytest

from bench.cluster import clusters
from bench.cluster.clusters import BROKERS, Cluster, led_by, spread
from tests.support.cluster.nodes import Implementation


@pytest.mark.parametrize("factor", [2, 3])
def test_spread_leaders_are_as_many_on_each_broker(factor: int) -> None:
    found = spread(6, factor)
    assert Counter(replicas[0] for replicas in found.values()) == dict.fromkeys(BROKERS, 2)
    assert {len(set(replicas)) for replicas in found.values()} == {factor}
    held = Counter(node for replicas in found.values() for node in replicas)
    assert set(held.values()) == {2 * factor}


def test_one_broker_leads_and_the_others_follow_as_many_partitions() -> None:
    assert led_by(1, 4, 3) == {0: [1, 2, 3], 1: [1, 3, 2], 2: [1, 2, 3], 3: [1, 3, 2]}
    followers = Counter(replicas[1] for replicas in led_by(2, 4, 2).values())
    assert followers == {1: 2, 3: 2}


def test_clusters_are_made_in_memory_where_there_is_room(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(clusters, "IN_MEMORY", tmp_path)
    monkeypatch.setattr(clusters, "ROOM_BYTES", 1)
    monkeypatch.setattr(clusters, "LEAST_MEMORY_GIB", 0)
    assert clusters.usual_root() == tmp_path
    monkeypatch.setattr(clusters, "ROOM_BYTES", 1 << 60)
    assert clusters.usual_root() == Path(tempfile.gettempdir())


def test_a_deleted_replica_is_there_until_its_directory_is_gone(tmp_path: Path) -> None:
    """Of a topic that was just deleted the directories have their usual names still."""
    first, second = tmp_path / "data-0", tmp_path / "data-1"
    for name in ("kept-0", "kept-1.0123456789abcdef-delete", "gone-0", "gone-1.0123456789abcdef-delete"):
        (first / name).mkdir(parents=True)
    renamed = {first / "kept-1.0123456789abcdef-delete", first / "gone-1.0123456789abcdef-delete"}
    assert set(clusters.deleted([first, second], [])) == renamed
    assert set(clusters.deleted([first, second], ["gone"])) == {*renamed, first / "gone-0"}


def test_a_cluster_that_was_never_started_is_removed(tmp_path: Path) -> None:
    cluster = Cluster("Barnabas", Implementation.BARNABAS, "no.jar", tmp_path)
    with pytest.raises(AssertionError, match="Barnabas was never started"):
        assert cluster.rig
    cluster.lasting["t"] = 1
    cluster.remove()
    assert cluster.lasting == {}
