"""The metrics of the metadata log."""

from __future__ import annotations

import pytest

from barnabas.broker.metadata.loader import MetadataPublishers
from barnabas.broker.metadata.quorum_state import NO_NODE
from barnabas.broker.metadata.quorum_view import QuorumView
from barnabas.broker.metrics.metadata_metrics import add_metadata_log
from barnabas.broker.metrics.prometheus import Metrics
from tests.broker.metadata.raft_logs import Node, new_env
from tests.broker.metrics.test_sources import value, values


def test_the_log_and_its_snapshots() -> None:
    node = Node(new_env())
    metrics = Metrics()
    publishers = MetadataPublishers(first=lambda image, delta: iter(()))
    add_metadata_log(
        metrics,
        node.log.raft,
        node_id=node.log.node_id,
        leader=lambda: QuorumView(node.log.leader_epoch, node.log.node_id),
        image=lambda: node.image,
        now_ms=node.env.now_ms,
        publishers=publishers,
    )
    started_ms = node.env.time_ms
    node.set("a", "1")
    node.env.time_ms += 5000
    assert value(metrics, "kafka_server_raft_metrics_current_epoch") == 1
    assert value(metrics, "kafka_server_raft_metrics_current_leader") == 1
    assert value(metrics, "kafka_server_raft_metrics_high_watermark") == 3
    assert value(metrics, "kafka_server_raft_metrics_log_end_offset") == 3
    assert value(metrics, "kafka_server_raft_metrics_log_end_epoch") == 1
    assert value(metrics, "kafka_server_raft_metrics_number_of_voters") == 1
    assert value(metrics, "kafka_server_raft_metrics_current_vote") == 1
    assert values(metrics, "kafka_server_raft_metrics_current_state_info") == {("leader",): 1}
    assert value(metrics, "kafka_server_metadataloader_currentcontrollerid") == 1
    assert value(metrics, "kafka_server_snapshotemitter_latestsnapshotgeneratedbytes") == 0
    assert value(metrics, "kafka_server_snapshotemitter_latestsnapshotgeneratedagems") == 5000
    assert value(metrics, "kafka_server_metadataloader_currentmetadataversion") == 30
    assert value(metrics, "kafka_server_broker_metadata_metrics_last_applied_record_offset") == 2
    assert value(metrics, "kafka_server_broker_metadata_metrics_metadata_apply_error_count") == 0
    publishers.failures += 1
    assert value(metrics, "kafka_server_broker_metadata_metrics_metadata_apply_error_count") == 1
    node.snapshot()
    (snapshot,) = node.log.raft.snapshots.ids
    size = node.env.size(node.log.raft.snapshots.path(snapshot))
    assert value(metrics, "kafka_server_snapshotemitter_latestsnapshotgeneratedbytes") == size
    assert value(metrics, "kafka_server_snapshotemitter_latestsnapshotgeneratedagems") == 0
    assert node.env.time_ms > started_ms


@pytest.mark.parametrize(
    ("view", "state"), [(QuorumView(5, 3000), "observer"), (QuorumView(5, NO_NODE), "unattached")]
)
def test_a_node_that_follows_the_quorum_has_no_vote(view: QuorumView, state: str) -> None:
    node = Node(new_env())
    metrics = Metrics()
    add_metadata_log(
        metrics,
        node.log.raft,
        node_id=node.log.node_id,
        leader=lambda: view,
        image=lambda: node.image,
        now_ms=node.env.now_ms,
        publishers=MetadataPublishers(first=lambda image, delta: iter(())),
    )
    assert values(metrics, "kafka_server_raft_metrics_current_state_info") == {(state,): 1}
    assert value(metrics, "kafka_server_raft_metrics_current_vote") == -1
    assert value(metrics, "kafka_server_raft_metrics_current_epoch") == 5
    for name in ("raft_metrics_current_leader", "metadataloader_currentcontrollerid"):
        assert value(metrics, f"kafka_server_{name}") == view.leader_id
