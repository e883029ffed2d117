"""SingleNode: a node that is alone names itself, by the address that the client dialled or the advertised one."""

from __future__ import annotations

from barnabas.broker.metadata.cluster_answers import (
    BrokerNode,
    CacheKey,
    Endpoint,
    PartitionAnswer,
    SingleNode,
)
from barnabas.broker.metadata.image import MetadataImage
from barnabas.protocol.errors import ErrorCode
from tests.broker.cluster_images import INSIDE, connection, image_of, registration, topic_records

HERE = BrokerNode(1, "192.0.2.1", 9092, "r")


class Disk:
    """The partitions whose disk has failed."""

    def __init__(self) -> None:
        self.offline: set[tuple[str, int]] = set()

    @property
    def has_offline_partitions(self) -> bool:
        return bool(self.offline)

    def is_offline(self, topic: str, index: int) -> bool:
        return (topic, index) in self.offline

    def node(self, advertised: dict[str, Endpoint] | None = None) -> SingleNode:
        return SingleNode(1, "r", advertised or {}, self)


def test_it_names_itself_and_is_its_own_controller() -> None:
    node, image = Disk().node(), MetadataImage.empty()
    assert node.brokers(image, connection()) == [HERE]
    assert node.node(image, 1, connection()) == HERE
    assert node.node(image, 2, connection()) is None
    assert node.controller_id(image) == 1


def test_an_advertised_address_takes_precedence_on_its_listener() -> None:
    node, image = Disk().node({"INSIDE": Endpoint("there", 7)}), MetadataImage.empty()
    assert node.brokers(image, connection()) == [BrokerNode(1, "there", 7, "r")]
    assert node.brokers(image, connection("OTHER")) == [HERE]


def test_other_registered_brokers_are_described() -> None:
    image = image_of(
        registration(3, fenced=True), registration(2), registration(1), registration(4, listeners=())
    )
    node = Disk().node()
    two, three = BrokerNode(2, "b2", 9000, None), BrokerNode(3, "b3", 9000, None, True)
    assert node.described_brokers(image, connection(INSIDE), include_fenced=False) == [HERE, two]
    assert node.described_brokers(image, connection(INSIDE), include_fenced=True) == [HERE, two, three]


def test_its_own_replicas_are_online_until_their_disk_fails() -> None:
    disk = Disk()
    node, image = disk.node(), image_of(*topic_records("t", [1, 1, 2], [1, 2]))
    topic = image.topics["t"]

    def told(index: int) -> PartitionAnswer:
        return node.partition(image, topic, topic.partitions[index], connection(), 13)

    assert node.cache_key(image, connection()) == CacheKey("", None)
    assert told(0) == PartitionAnswer(ErrorCode.NONE, 1, (1, 2), (1, 2), [2])
    assert told(2) == PartitionAnswer(ErrorCode.LEADER_NOT_AVAILABLE, -1, (1, 2), (1, 2), [2])
    disk.offline.add(("t", 1))
    assert node.cache_key(image, connection()) is None
    assert told(1) == PartitionAnswer(ErrorCode.LEADER_NOT_AVAILABLE, -1, (1, 2), (1, 2), [1, 2])
    assert told(0).error is ErrorCode.NONE
