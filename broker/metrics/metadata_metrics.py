"""The metrics of the metadata log and its snapshots, as Kafka's raft-metrics, SnapshotEmitter, MetadataLoader
and broker-metadata-metrics."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from barnabas.broker.metadata.quorum_state import NO_NODE
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
    from barnabas.broker.metadata.quorum_view import QuorumView
    from barnabas.broker.metadata.raft_log import RaftLog


def add_metadata_log(
    metrics: Metrics,
    raft: RaftLog,
    *,
    node_id: int,
    leader: Callable[[], QuorumView],
    image: Callable[[], MetadataImage],
    now_ms: Callable[[], int],
    publishers: MetadataPublishers,
) -> None:
    """`node_id` is this node, `leader` gives the quorum's newest epoch and leader, `image` the newest metadata;
    `publishers` counts failures, `now_ms` is the wall clock of the log."""
    snapshots = raft.snapshots
    metrics.add(f"{RAFT_PREFIX}_current_state_info", lambda: [((_state(leader(), node_id),), 1)])
    for prefix, sources in {
        RAFT_PREFIX: {
            "current_epoch": lambda: leader().epoch,
            "current_leader": lambda: leader().leader_id,
            "current_vote": lambda: node_id if leader().leader_id == node_id else NO_NODE,
            "high_watermark": lambda: raft.high_watermark,
            "log_end_offset": lambda: raft.log.log_end_offset,
            "log_end_epoch": lambda: raft.last_epoch,
            "number_of_voters": lambda: raft.voter_count,
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
            "currentcontrollerid": lambda: leader().leader_id,
        },
    }.items():
        for name, read in sources.items():
            metrics.add_value(f"{prefix}_{name}", read)


def _state(view: QuorumView, node_id: int) -> str:
    """The state of this node, as Kafka names it. A node that is alone leads; a member never has a vote."""
    if view.leader_id == node_id:
        return "leader"
    return "observer" if view.has_leader else "unattached"
