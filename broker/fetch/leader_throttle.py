"""LeaderThrottle: the replication quota of this broker as a leader (KIP-73).

A topic's leader.replication.throttled.replicas names the partitions for which this broker is throttled: "*", or pairs
"partition:broker". While the rate of what followers are sent of those is above leader.replication.throttled.rate,
replicas that are not in sync get no records of them. Source: kafka.server.ReplicaManager (shouldLeaderThrottle),
KafkaApis (sizeOfThrottledPartitions), ReplicationQuotaManager.
"""

from __future__ import annotations

from barnabas.broker.replica.fetcher.throttle import names_replica
from barnabas.broker.replica.moves.replication_quota import ReplicationQuota
from barnabas.broker.replica.partition import Partition


class LeaderThrottle:
    """Decides which partitions of a follower's fetch get no records, and counts what the others send.

    The topic's list is that of the partition's log, so that a change applies to the next fetch. `quota` is over all
    throttled partitions that this broker leads.
    """

    def __init__(self, quota: ReplicationQuota) -> None:
        self._quota = quota

    @property
    def byte_rate(self) -> float:
        """Bytes a second that followers are sent of throttled partitions: byte-rate of LeaderReplication."""
        return self._quota.byte_rate

    def should_throttle(self, partition: Partition, replica_id: int) -> bool:
        """Whether the replica gets no records now. One in the ISR always gets them: it would drop out of the ISR,
        catch up, and drop out again."""
        return replica_id not in partition.isr and _is_throttled(partition) and self._quota.delay_s() > 0

    def record(self, partition: Partition, size: int) -> None:
        """Counts bytes of records that a follower is sent, in sync or not, where the partition is throttled.

        Kafka counts what surrounds the records in the response as well, a few dozen bytes a partition.
        """
        if size and _is_throttled(partition):
            self._quota.record(size)


def _is_throttled(partition: Partition) -> bool:
    """Whether the topic's list names this broker's replica."""
    throttled = partition.log.config.leader_replication_throttled_replicas
    return bool(throttled) and names_replica(throttled, partition.index, partition.local_node_id)
