"""The metrics of the metadata log."""

from __future__ import annotations

from barnabas.broker.metadata.loader import MetadataPublishers
from barnabas.broker.metrics.metadata_metrics import add_metadata_log
from barnabas.broker.metrics.prometheus import Metrics
from tests.broker.metadata.raft_logs import Node, new_env
from tests.broker.metrics.test_sources import value


def test_the_log_and_its_snapshots() -> None:
    node = Node(new_env())
    metrics = Metrics()
    publishers = MetadataPublishers(first=lambda image, delta: None)
    add_metadata_log(metrics, node.log, lambda: node.image, node.env.now_ms, publishers)
    started_ms = node.env.time_ms
    node.set("a", "1")
    node.env.time_ms += 5000
    assert value(metrics, "kafka_server_raft_metrics_current_epoch") == 1
    assert value(metrics, "kafka_server_raft_metrics_current_leader") == 1
    assert value(metrics, "kafka_server_raft_metrics_high_watermark") == 3
    assert value(metrics, "kafka_server_raft_metrics_log_end_offset") == 3
    assert value(metrics, "kafka_server_snapshotemitter_latestsnapshotgeneratedbytes") == 0
    assert value(metrics, "kafka_server_snapshotemitter_latestsnapshotgeneratedagems") == 5000
    assert value(metrics, "kafka_server_metadataloader_currentmetadataversion") == 30
    assert value(metrics, "kafka_server_broker_metadata_metrics_last_applied_record_offset") == 2
    assert value(metrics, "kafka_server_broker_metadata_metrics_metadata_apply_error_count") == 0
    publishers.failures += 1
    assert value(metrics, "kafka_server_broker_metadata_metrics_metadata_apply_error_count") == 1
    node.snapshot()
    (snapshot,) = node.log.snapshots.ids
    size = node.env.size(node.log.snapshots.path(snapshot))
    assert value(metrics, "kafka_server_snapshotemitter_latestsnapshotgeneratedbytes") == size
    assert value(metrics, "kafka_server_snapshotemitter_latestsnapshotgeneratedagems") == 0
    assert node.env.time_ms > started_ms
