"""The metrics of the metadata log and its snapshots, as Kafka's raft-metrics, SnapshotEmitter and MetadataLoader."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from broker.metric_families import METADATA_LOADER_PREFIX, RAFT_PREFIX, SNAPSHOT_EMITTER_PREFIX
from broker.metrics import Metrics

if TYPE_CHECKING:
    from broker.metadata.image import MetadataImage
    from broker.metadata.raft_log import EmbeddedRaftLog


def add_metadata_log(
    metrics: Metrics, log: EmbeddedRaftLog, image: Callable[[], MetadataImage], now_ms: Callable[[], int]
) -> None:
    """`image` gives the newest metadata; `now_ms` is the wall clock that the log goes by."""
    snapshots = log.snapshots
    for prefix, sources in {
        RAFT_PREFIX: {
            "current_epoch": lambda: log.leader_epoch,
            "current_leader": lambda: log.node_id,
            "high_watermark": lambda: log.high_watermark,
            "log_end_offset": lambda: log.end_offset,
        },
        SNAPSHOT_EMITTER_PREFIX: {
            "latestsnapshotgeneratedbytes": lambda: snapshots.written_bytes,
            "latestsnapshotgeneratedagems": lambda: now_ms() - snapshots.written_ms,
        },
        METADATA_LOADER_PREFIX: {
            "currentmetadataversion": lambda: image().metadata_version,
        },
    }.items():
        for name, read in sources.items():
            metrics.add_value(f"{prefix}_{name}", read)
