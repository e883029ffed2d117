"""From which replica a consumer should read: the RackAwareReplicaSelector (KIP-392).

Source: org.apache.kafka.common.replica.RackAwareReplicaSelector, ReplicaManager.findPreferredReadReplica.
"""

from __future__ import annotations

from typing import Final

from barnabas.broker.replica.isr import LeaderContext, RemoteReplica
from barnabas.broker.replica.partition import Partition

RACK_AWARE: Final = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
"""The value of replica.selector.class that is built in."""


class RackAwareReplicaSelector:
    """A follower in the consumer's rack, in the ISR, that has the offset; the leader where it is in that rack, too.

    `own_rack` is this broker's; the others' are those of their registrations in `context`.
    """

    def __init__(self, context: LeaderContext, own_rack: str | None) -> None:
        self._context = context
        self._own_rack = own_rack

    def select(self, partition: Partition, rack: str, listener: str, fetch_offset: int) -> int | None:
        """The node of the best such follower: that with the highest log end, then that which was last caught up. None
        for the leader. Only brokers that are alive and have the listener can be named."""
        if rack == self._own_rack:
            return None
        best = max(
            (
                replica
                for replica in partition.remote_replicas
                if replica.node_id in partition.isr
                and replica.log_end_offset >= fetch_offset >= replica.log_start_offset
                and self._is_reachable(replica.node_id, rack, listener)
            ),
            key=_rank,
            default=None,
        )
        return None if best is None else best.node_id

    def _is_reachable(self, node_id: int, rack: str, listener: str) -> bool:
        known = self._context.brokers.get(node_id)
        return known is not None and not known.fenced and known.rack == rack and listener in known.listeners


def _rank(replica: RemoteReplica) -> tuple[int, int, int]:
    return replica.log_end_offset, replica.last_caught_up_ms, replica.node_id
