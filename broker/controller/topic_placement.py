"""Which brokers hold the replicas of new partitions: spread over those that there are, or as a request assigned them.

Pure functions. Source: org.apache.kafka.controller.ReplicationControlManager (validateManualPartitionAssignment),
org.apache.kafka.metadata.placement.StripedReplicaPlacer.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from broker.metadata.image import MetadataImage
from broker.metadata.topics import PartitionImage
from protocol.errors import ApiError, ErrorCode
from protocol.wire import ZERO_UUID

Replicas = Sequence[int]
"""The nodes that hold a partition, the preferred leader first."""


class Brokers:
    """The brokers that replicas can be put on: those that are `active`, and of all registered ones the rest.

    An embedded controller hears of no broker but its own node, so that one is active and no other. Those whose log
    directories are all cordoned get new partitions only where a request says so.
    """

    __slots__ = ("active", "open", "registered")

    def __init__(
        self, active: Sequence[int], registered: Iterable[int] = (), cordoned: Collection[int] = ()
    ) -> None:
        self.active = tuple(active)
        self.open = tuple(node for node in self.active if node not in cordoned)
        self.registered = (*self.active, *sorted(set(registered) - set(active)))

    @classmethod
    def of(cls, image: MetadataImage, active: Sequence[int]) -> Brokers:
        cordoned = {
            node
            for node, broker in image.brokers.items()
            if broker.cordoned_log_dirs and set(broker.log_dirs) <= set(broker.cordoned_log_dirs)
        }
        return cls(active, image.brokers, cordoned)

    def is_active(self, node_id: int) -> bool:
        return node_id in self.active


def placed(first: int, count: int, replication_factor: int, brokers: Brokers) -> list[Replicas]:
    """Replicas for the partitions `first` to `first + count` (exclusive), leaders spread over the active brokers.

    Raises ApiError(INVALID_REPLICATION_FACTOR) where there are too few brokers.
    """
    if not brokers.open:
        raise ApiError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "No broker is there that could lead a partition, or all log directories are cordoned.",
        )
    if replication_factor > len(brokers.registered):
        there = len(brokers.registered)
        raise ApiError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"A replication factor of {replication_factor} needs as many brokers, and there "
            f"{'is only 1' if there == 1 else f'are only {there}'}.",
        )
    leaders = len(brokers.open)
    others = [node for node in brokers.registered if node not in brokers.open]
    rounds = [
        (*brokers.open[turn:], *brokers.open[:turn], *others)[:replication_factor] for turn in range(leaders)
    ]
    return [rounds[index % leaders] for index in range(first, first + count)]


def check_assignment(partition: int, replicas: Replicas, brokers: Brokers) -> None:
    """Raises ApiError(INVALID_REPLICA_ASSIGNMENT) unless each of `replicas` has a broker of its own.

    Whether one of them is active matters only where a partition is to begin there: see `check_can_begin`.
    """
    if not replicas or len(set(replicas)) != len(replicas) or not set(replicas) <= set(brokers.registered):
        raise ApiError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Partition {partition} is assigned to {list(replicas)}; each replica needs a broker of its own out of "
            f"{list(brokers.registered)}.",
        )


def check_can_begin(partition: int, replicas: Replicas, brokers: Brokers) -> None:
    """Raises ApiError(INVALID_REPLICA_ASSIGNMENT) where nobody could lead a new partition."""
    if not any(map(brokers.is_active, replicas)):
        raise ApiError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Partition {partition} is assigned to {list(replicas)}, and none of these brokers is there.",
        )


def check_same_size(assignments: Iterable[Replicas]) -> None:
    """Raises ApiError(INVALID_REPLICA_ASSIGNMENT) unless all partitions have as many replicas."""
    sizes = {len(replicas) for replicas in assignments}
    if len(sizes) > 1:
        raise ApiError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"All partitions need the same number of replicas, not {sorted(sizes)}.",
        )


def new_partition(index: int, replicas: Replicas, brokers: Brokers) -> PartitionImage:
    """A partition as it begins: whoever is active is in sync, and the first of them leads."""
    in_sync = [node for node in replicas if brokers.is_active(node)]
    return PartitionImage(
        index,
        replicas=replicas,
        isr=in_sync,
        leader=in_sync[0],
        leader_epoch=0,
        partition_epoch=0,
        directories=(ZERO_UUID,) * len(replicas),
    )
