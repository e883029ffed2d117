"""The metrics of the metadata log and its snapshots, as Kafka's raft-metrics, SnapshotEmitter, MetadataLoader
and broker-metadata-metrics."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from barnabas.broker.metrics.families import (
    BROKER_METADATA_PREFIX,
    METADATA_LOADER_PREFIX,
    RAFT_PREFIX,
    SNAPSHOT_EMITTER_PREFIX,
)
from barnabas.broker.metrics.prometheus import Metrics

if TYPE_CHECKING:
    from barnabas.broker.metadata.image import MetadataImage
    from barnabas.broker.metadata.loader import MetadataPublishers
    from barnabas.broker.metadata.raft_log import EmbeddedRaftLog


def add_metadata_log(
    metrics: Metrics,
    log: EmbeddedRaftLog,
    image: Callable[[], MetadataImage],
    now_ms: Callable[[], int],
    publishers: MetadataPublishers,
) -> None:
    """`image` gives the newest metadata, `publishers` counts failures, `now_ms` is the wall clock of the log."""
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
        BROKER_METADATA_PREFIX: {
            "last_applied_record_offset": lambda: image().offset,
            "metadata_apply_error_count": lambda: publishers.failures,
        },
        METADATA_LOADER_PREFIX: {
            "currentmetadataversion": lambda: image().metadata_version,
        },
    }.items():
        for name, read in sources.items():
            metrics.add_value(f"{prefix}_{name}", read)
