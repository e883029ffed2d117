"""MemberAnswers: brokers, leaders and replicas as KRaftMetadataCache tells them to the clients of a listener."""

from __future__ import annotations

import pytest

from barnabas.broker.metadata.cluster_answers import BrokerNode, PartitionAnswer
from barnabas.broker.metadata.image import MetadataImage
from barnabas.broker.metadata.member_answers import MemberAnswers, alive_node, has_online_dir
from barnabas.broker.metadata.topics import PartitionImage
from barnabas.protocol.errors import ErrorCode
from tests.broker.cluster_images import (
    INSIDE,
    OUTSIDE,
    connection,
    dir_id,
    fencing,
    image_of,
    registration,
    topic_id,
    topic_records,
)

NONE, UNAVAILABLE = ErrorCode.NONE, ErrorCode.LEADER_NOT_AVAILABLE
ONE = registration(1, listeners=(INSIDE, OUTSIDE), rack="a", log_dirs=[dir_id("x"), dir_id("y")])
TWO = registration(2, fenced=True)
THREE = registration(3, listeners=(OUTSIDE,))
NODE_1, NODE_2 = BrokerNode(1, "b1", 9000, "a"), BrokerNode(2, "b2", 9000, None, True)


def answers() -> MemberAnswers:
    return MemberAnswers(max)


def told(
    image: MetadataImage, version: int | None = 13, index: int = 0, listener: str = INSIDE
) -> PartitionAnswer:
    topic = image.topics["t"]
    return answers().partition(image, topic, topic.partitions[index], connection(listener), version)


def test_clients_are_told_the_alive_brokers_of_their_listener() -> None:
    image = image_of(ONE, TWO, THREE)
    assert answers().brokers(image, connection()) == [NODE_1]
    assert [node.node_id for node in answers().brokers(image, connection(OUTSIDE))] == [1, 3]
    assert answers().brokers(image, connection("ELSEWHERE")) == []


def test_describe_cluster_shows_fenced_brokers_on_demand() -> None:
    image = image_of(ONE, TWO, THREE)
    assert answers().described_brokers(image, connection(), include_fenced=False) == [NODE_1]
    assert answers().described_brokers(image, connection(), include_fenced=True) == [NODE_1, NODE_2]


def test_a_node_can_be_reached_while_it_is_alive_on_the_listener() -> None:
    image, member = image_of(ONE, TWO, THREE), answers()
    assert [member.node(image, node_id, connection()) for node_id in (1, 2, 3, 4)] == [
        NODE_1,
        None,
        None,
        None,
    ]
    assert alive_node(image, 1, INSIDE) == NODE_1
    assert alive_node(image, 2, INSIDE) is None
    fenced = image_of(fencing(1, fenced=True), fencing(2, fenced=False), before=image)
    assert member.node(fenced, 1, connection()) is None
    assert member.node(fenced, 2, connection()) == NODE_2._replace(is_fenced=False)


def test_the_controller_is_an_alive_broker_by_chance() -> None:
    assert answers().controller_id(image_of(ONE, TWO)) == 1
    assert answers().controller_id(image_of(ONE, THREE)) == 3
    assert answers().controller_id(image_of(TWO)) == -1


@pytest.mark.parametrize(
    ("leader", "version", "error", "named"),
    [
        (1, 13, NONE, 1),
        (2, 13, NONE, 2),  # fenced: the controller is about to elect another
        (3, 6, ErrorCode.LISTENER_NOT_FOUND, -1),
        (3, 5, UNAVAILABLE, -1),
        (4, 13, UNAVAILABLE, -1),
        (-1, 13, UNAVAILABLE, -1),
        (-1, None, NONE, -1),
        (3, None, NONE, -1),
    ],
)
def test_the_leader_as_the_listener_reaches_it(
    leader: int, version: int | None, error: ErrorCode, named: int
) -> None:
    image = image_of(ONE, TWO, THREE, *topic_records("t", [leader], [1]))
    assert told(image, version)[:2] == (error, named)


def test_replicas_are_offline_whose_broker_cannot_be_reached() -> None:
    image = image_of(ONE, TWO, THREE, *topic_records("t", [1], [1, 2, 3, 4]))
    assert told(image) == PartitionAnswer(NONE, 1, (1, 2, 3, 4), (1, 2, 3, 4), [2, 3, 4])
    assert told(image, listener=OUTSIDE).offline == [2, 4]


@pytest.mark.parametrize(
    ("directory", "is_online"),
    [
        (dir_id("x"), True),
        (dir_id("z"), False),
        (bytes(16), True),
        (bytes(15) + b"\1", False),
        (bytes(15) + b"\2", True),
    ],
)
def test_replicas_are_offline_whose_directory_has_failed(directory: bytes, is_online: bool) -> None:
    partition = PartitionImage(
        0, replicas=[1], isr=[1], leader=1, leader_epoch=0, partition_epoch=0, directories=[directory]
    )
    image = image_of(ONE, *topic_records("t", []), partition.record(topic_id("t")))
    assert told(image).offline == ([] if is_online else [1])
    assert has_online_dir(image.brokers[1], directory) is is_online


def test_brokers_from_before_directories_had_ids_list_none() -> None:
    brokers = image_of(registration(1)).brokers
    assert has_online_dir(brokers[1], dir_id("x"))
    assert not has_online_dir(brokers[1], bytes(15) + b"\1")


@pytest.mark.parametrize(
    ("replicas", "expected"),
    [
        ([1], PartitionAnswer(NONE, 1, (1,), (1,), [])),
        ([1, 2], PartitionAnswer(ErrorCode.REPLICA_NOT_AVAILABLE, 1, (1,), (1,), [2])),
    ],
)
def test_version_0_has_no_offline_replicas_and_leaves_them_out(
    replicas: list[int], expected: PartitionAnswer
) -> None:
    assert told(image_of(ONE, TWO, *topic_records("t", [1], replicas)), version=0) == expected


def test_topics_are_cached_for_a_listener_while_the_brokers_are_the_same() -> None:
    image = image_of(ONE, TWO)
    key = answers().cache_key(image, connection())
    assert key is not None
    more = image_of(*topic_records("t", [1]), before=image)
    assert answers().cache_key(more, connection()) == key
    assert more.brokers is image.brokers
    fenced = image_of(fencing(1, fenced=True), before=image)
    assert fenced.brokers is not image.brokers
    assert answers().cache_key(image, connection(OUTSIDE)) != key
