"""Images of clusters with several brokers: their registrations and partitions, as metadata records."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from barnabas.broker.metadata.image import MetadataImage
from barnabas.broker.metadata.replay import replayed
from barnabas.broker.metadata.topics import PartitionImage
from barnabas.broker.request import ConnectionInfo
from barnabas.protocol.messages.cluster_records import BrokerRegistrationChangeRecord, RegisterBrokerRecord
from barnabas.protocol.messages.topic_records import PartitionChangeRecord, TopicRecord
from barnabas.protocol.schema import Message
from barnabas.protocol.wire import Uuid

INSIDE, OUTSIDE = "INSIDE", "OUTSIDE"


def dir_id(name: str) -> Uuid:
    """The id of a log directory."""
    return name.encode().rjust(16, b"-")


def registration(
    node_id: int,
    *,
    listeners: Iterable[str] = (INSIDE,),
    fenced: bool = False,
    rack: str | None = None,
    log_dirs: Sequence[Uuid] = (),
) -> RegisterBrokerRecord:
    """A broker `b<id>`, whose listeners have the ports 9000, 9001 ... in their order."""
    return RegisterBrokerRecord(
        broker_id=node_id,
        incarnation_id=bytes([node_id] * 16),
        broker_epoch=node_id,
        end_points=[
            RegisterBrokerRecord.BrokerEndpoint(name=name, host=f"b{node_id}", port=port)
            for port, name in enumerate(listeners, 9000)
        ],
        rack=rack,
        fenced=fenced,
        log_dirs=list(log_dirs),
    )


def fencing(node_id: int, *, fenced: bool) -> BrokerRegistrationChangeRecord:
    """The record by which the controller fences a broker, or ends that."""
    return BrokerRegistrationChangeRecord(broker_id=node_id, broker_epoch=node_id, fenced=1 if fenced else -1)


def topic_id(name: str) -> Uuid:
    return name.encode()[:16].ljust(16, b"-")


def topic_records(name: str, leaders: Sequence[int], replicas: Sequence[int] = ()) -> list[Message]:
    """A topic with a partition for each leader; its replicas are `replicas`, or the leader alone."""
    records: list[Message] = [TopicRecord(name=name, topic_id=topic_id(name))]
    for index, leader in enumerate(leaders):
        nodes = replicas or (leader,)
        partition = PartitionImage(
            index, replicas=nodes, isr=nodes, leader=leader, leader_epoch=0, partition_epoch=0
        )
        records.append(partition.record(topic_id(name)))
    return records


def election(name: str, index: int, leader: int) -> PartitionChangeRecord:
    """The record by which the controller elects a leader, in the next leader epoch."""
    return PartitionChangeRecord(partition_id=index, topic_id=topic_id(name), leader=leader)


def image_of(*records: Message, before: MetadataImage | None = None) -> MetadataImage:
    return replayed(MetadataImage.empty() if before is None else before, records)[0]


def connection(listener: str = INSIDE) -> ConnectionInfo:
    """The connection of a client of this listener."""
    return ConnectionInfo(
        connection_id=1,
        listener_name=listener,
        client_host="192.0.2.7",
        client_port=50_000,
        local_host="192.0.2.1",
        local_port=9092,
    )


def leaders(image: MetadataImage) -> Mapping[tuple[str, int], int]:
    """The leader of each partition."""
    return {
        (topic.name, index): partition.leader
        for topic in image.topics.values()
        for index, partition in topic.partitions.items()
    }
