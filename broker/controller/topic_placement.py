"""Placement of new partitions: replicas spread over the brokers, or as a request assigned them.

Pure functions. Source: org.apache.kafka.controller.ReplicationControlManager (validateManualPartitionAssignment),
org.apache.kafka.metadata.placement.StripedReplicaPlacer.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

from barnabas.broker.metadata.image import MetadataImage
from barnabas.broker.metadata.topics import PartitionImage
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.wire import ZERO_UUID

Replicas = Sequence[int]
"""The nodes that hold a partition, the preferred leader first."""


class Brokers:
    """The brokers that replicas can be put on: those that are `active`, and of all registered ones the rest.

    An embedded controller gets heartbeats of its own node alone, so no other one is active. Brokers whose log
    directories are all cordoned get new partitions only by a manual assignment.
    """

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
            "All brokers are currently fenced, or have all their log directories cordoned.",
        )
    if replication_factor > len(brokers.registered):
        there = len(brokers.registered)
        raise ApiError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"Unable to replicate the partition {replication_factor} time(s): The target replication factor of "
            f"{replication_factor} cannot be reached because only {there} broker(s) are registered.",
        )
    leaders = len(brokers.open)
    others = [node for node in brokers.registered if node not in brokers.open]
    rounds = [
        (*brokers.open[turn:], *brokers.open[:turn], *others)[:replication_factor] for turn in range(leaders)
    ]
    return [rounds[index % leaders] for index in range(first, first + count)]


def check_assignment(replicas: Replicas, brokers: Brokers, replication_factor: int | None = None) -> None:
    """Raises ApiError(INVALID_REPLICA_ASSIGNMENT) unless each replica has a broker of its own, and the number fits.

    One of them has to be active only for a new partition: see `check_can_begin`.
    """
    fault = next(_faults_of(sorted(replicas), brokers, replication_factor), None)
    if fault is not None:
        raise ApiError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"The manual partition assignment includes {fault}"
        )


def _faults_of(replicas: Replicas, brokers: Brokers, replication_factor: int | None) -> Iterator[str]:
    """The faults of replicas, which are in ascending order, in the order in which Kafka checks them."""
    if not replicas:
        yield "an empty replica list."
    for node, before in zip(replicas, (None, *replicas), strict=False):
        if node not in brokers.registered:
            yield f"broker {node}, but no such broker is registered."
        if node == before:
            yield f"the broker {node} more than once."
    if replication_factor is not None and len(replicas) != replication_factor:
        yield (
            f"a partition with {len(replicas)} replica(s), but this is not consistent with previous partitions, which "
            f"have {replication_factor} replica(s)."
        )


def check_can_begin(partition: int, replicas: Replicas, brokers: Brokers) -> None:
    """Raises ApiError(INVALID_REPLICA_ASSIGNMENT) where no replica could lead a new partition."""
    if not any(map(brokers.is_active, replicas)):
        raise ApiError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"All brokers specified in the manual partition assignment for partition {partition} are fenced or in "
            f"controlled shutdown: {list(replicas)}",
        )


def new_partition(index: int, replicas: Replicas, brokers: Brokers) -> PartitionImage:
    """A new partition: its active replicas are in sync, and the first of them leads."""
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
