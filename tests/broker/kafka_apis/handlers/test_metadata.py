"""Metadata, DescribeCluster and DescribeTopicPartitions."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from barnabas.broker.broker import AUTHORIZED_OPERATIONS_OMITTED
from barnabas.broker.controller.embedded import Decision
from barnabas.broker.kafka_apis.authorized_operations import CLUSTER_OPERATIONS, TOPIC_OPERATIONS
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.acls import AclOperation, AclResourceType
from barnabas.protocol.messages.metadata import (
    DescribeClusterRequest,
    DescribeClusterResponse,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    MetadataRequest,
    MetadataResponse,
)
from barnabas.protocol.messages.topic_records import PartitionChangeRecord
from barnabas.protocol.wire import ZERO_UUID
from tests.broker.broker_fixture import DIALLED_HOST, DIALLED_PORT, NODE_ID, WAITS, InProcessBroker, Wait
from tests.broker.cluster_images import fencing, topic_records
from tests.broker.guarded_broker import GuardedBroker
from tests.broker.held_runner import HeldRunner
from tests.broker.member_broker import Cluster
from tests.broker.throttled import set_quotas, throttled
from tests.conformance.dialogues.words import named
from tests.support.difference import Like

VERSIONS = range(14)
LATEST = 13
HERE = {"node_id": NODE_ID, "host": DIALLED_HOST, "port": DIALLED_PORT}
LEADS = {
    "error_code": ErrorCode.NONE,
    "leader_id": NODE_ID,
    "replica_nodes": [NODE_ID],
    "isr_nodes": [NODE_ID],
}


def asking(*names: str, create: bool = False) -> MetadataRequest:
    return MetadataRequest(topics=named(*names), allow_auto_topic_creation=create)


def unknown(code: ErrorCode, name: str | None = "u") -> Like:
    return Like(topics=[Like(error_code=code, name=name, topic_id=ZERO_UUID, partitions=[])])


def fail_disk(broker: InProcessBroker) -> None:
    """Takes the only log directory of the broker offline."""
    broker.replica_manager.log_dir_failed(broker.replica_manager.partition("t", 0).log.log_dir)


# ---- Metadata


@pytest.mark.parametrize("version", VERSIONS)
def test_every_version_returns_brokers_topics_and_leaders(broker: InProcessBroker, version: int) -> None:
    topic_id = broker.create_topic("t", partitions=2)
    request = MetadataRequest(topics=named("t"), allow_auto_topic_creation=True)
    expected = Like(
        brokers=[Like(rack=None, **HERE)],
        cluster_id=broker.broker.cluster_id if version >= 2 else None,
        controller_id=NODE_ID if version >= 1 else -1,
        topics=[
            Like(
                error_code=ErrorCode.NONE,
                name="t",
                topic_id=topic_id if version >= 10 else ZERO_UUID,
                is_internal=False,
                partitions=[
                    Like(
                        partition_index=index,
                        leader_epoch=0 if version >= 7 else -1,
                        offline_replicas=[],
                        **LEADS,
                    )
                    for index in range(2)
                ],
                topic_authorized_operations=AUTHORIZED_OPERATIONS_OMITTED,
            )
        ],
        cluster_authorized_operations=AUTHORIZED_OPERATIONS_OMITTED,
    )
    assert broker.client(version=version) >> request << expected


def test_a_null_list_means_all_topics_and_an_empty_one_none(broker: InProcessBroker) -> None:
    broker.create_topic("a")
    broker.create_topic("b")
    everything = Like(topics=[Like(name="a"), Like(name="b")])
    assert broker.client(version=0) >> MetadataRequest(topics=[]) << everything
    client = broker.client(version=1)
    assert client >> MetadataRequest(topics=None) << everything
    assert client >> MetadataRequest(topics=[]) << Like(topics=[], brokers=[Like(**HERE)])


def test_rack_and_advertised_address_are_returned(tmp_path: Path) -> None:
    settings = {"broker.rack": "r1", "advertised.listeners": "PLAINTEXT://kafka.example:19092"}
    broker = InProcessBroker(tmp_path, settings)
    there = Like(node_id=NODE_ID, host="kafka.example", port=19092, rack="r1")
    assert broker.client(version=LATEST) >> asking() << Like(brokers=[there])
    broker.kill()


def test_topics_may_be_requested_by_id(broker: InProcessBroker) -> None:
    topic_id = broker.create_topic("t")
    client = broker.client(version=12)
    request = MetadataRequest(topics=named(None, topic_id=topic_id))
    assert client >> request << Like(topics=[Like(error_code=0, name="t", topic_id=topic_id)])
    stranger = MetadataRequest(
        topics=named(None, topic_id=b"?" * 16), include_topic_authorized_operations=True
    )
    assert (
        client
        >> stranger
        << Like(
            topics=[
                Like(
                    error_code=ErrorCode.UNKNOWN_TOPIC_ID,
                    name=None,
                    topic_id=b"?" * 16,
                    topic_authorized_operations=AUTHORIZED_OPERATIONS_OMITTED,
                )
            ]
        )
    )


def test_one_id_makes_it_a_request_by_ids(broker: InProcessBroker) -> None:
    topic_id = broker.create_topic("t")
    stranger = b"?" * 16
    request = MetadataRequest(
        topics=[
            *named("u", "t", None),
            *named("v", None, topic_id=topic_id),
            *named(None, topic_id=stranger),
        ],
        allow_auto_topic_creation=True,
    )
    unknown_id = Like(error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=stranger)
    found = Like(error_code=ErrorCode.NONE, name="t", topic_id=topic_id)
    assert broker.client(version=LATEST) >> request << Like(topics=[unknown_id, found])
    assert "u" not in broker.broker.image.topics


def test_ids_are_supported_from_version_12(broker: InProcessBroker) -> None:
    topic_id = broker.create_topic("t")
    request = MetadataRequest(topics=[*named("t", topic_id=topic_id), *named("t")])
    assert (
        broker.client(version=11)
        >> request
        << Like(
            brokers=[],
            topics=[
                Like(error_code=ErrorCode.INVALID_REQUEST, name="t", topic_id=topic_id),
                Like(error_code=ErrorCode.INVALID_REQUEST, name="t", topic_id=ZERO_UUID),
            ],
        )
    )
    nameless = MetadataRequest(topics=named(None))
    assert broker.client(version=10) >> nameless << unknown(ErrorCode.INVALID_REQUEST, name="")


def test_a_topic_named_twice_is_returned_once(broker: InProcessBroker) -> None:
    broker.create_topic("t")
    assert broker.client(version=LATEST) >> asking("t", "t") << Like(topics=[Like(name="t")])


@pytest.mark.parametrize(
    ("wanted", "operations"), [(True, TOPIC_OPERATIONS), (False, AUTHORIZED_OPERATIONS_OMITTED)]
)
def test_authorized_operations_are_returned_on_request(
    broker: InProcessBroker, wanted: bool, operations: int
) -> None:
    broker.create_topic("t")
    request = asking("t")
    request.include_topic_authorized_operations = wanted
    answer = Like(topics=[Like(topic_authorized_operations=operations)])
    assert broker.client(version=LATEST) >> request << answer
    request.include_cluster_authorized_operations = wanted
    cluster = CLUSTER_OPERATIONS if wanted else AUTHORIZED_OPERATIONS_OMITTED
    assert broker.client(version=10) >> request << Like(cluster_authorized_operations=cluster)


# ---- unknown topics


def test_unknown_topics(broker: InProcessBroker) -> None:
    client = broker.client(version=LATEST)
    assert client >> asking("u") << unknown(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert client >> asking("a b") << unknown(ErrorCode.INVALID_TOPIC_EXCEPTION, "a b")
    assert "u" not in broker.broker.image.topics


def test_auto_creation_creates_a_topic(tmp_path: Path) -> None:
    broker = InProcessBroker(tmp_path, {"num.partitions": "3"})
    made = Like(topics=[Like(error_code=0, name="u", partitions=[Like(**LEADS)] * 3)])
    client = broker.client(version=LATEST)
    assert client >> asking("u", create=True) << made
    assert client >> asking("u") << made
    broker.kill()


def test_invalid_names_are_not_created(broker: InProcessBroker) -> None:
    request = asking("a b", "u", create=True)
    assert (
        broker.client(version=LATEST)
        >> request
        << Like(
            topics=[
                Like(error_code=ErrorCode.INVALID_TOPIC_EXCEPTION, name="a b"),
                Like(error_code=0, name="u"),
            ]
        )
    )


def test_internal_topics_are_created_with_their_settings(tmp_path: Path) -> None:
    broker = InProcessBroker(tmp_path, {"offsets.topic.num.partitions": "3"})
    name = "__consumer_offsets"
    made = Like(error_code=ErrorCode.NONE, name=name, is_internal=True, partitions=[Like(), Like(), Like()])
    assert broker.client(version=LATEST) >> asking(name, create=True) << Like(topics=[made])
    assert broker.broker.image.topic_config(name)["cleanup.policy"] == "compact"
    broker.kill()


def test_auto_creation_can_be_disabled(tmp_path: Path) -> None:
    broker = InProcessBroker(tmp_path, {"auto.create.topics.enable": "false"})
    answer = unknown(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert broker.client(version=LATEST) >> asking("u", create=True) << answer
    broker.kill()


def test_concurrent_requests_for_a_new_topic_get_the_same(tmp_path: Path) -> None:
    runner = HeldRunner()
    broker = InProcessBroker(tmp_path, runner=runner)
    one = broker.client(version=LATEST) >> asking("u", create=True) << WAITS
    other = broker.client(version=LATEST) >> asking("u", create=True) << WAITS
    runner.release_all()
    made = Like(topics=[Like(error_code=0, topic_id=(1).to_bytes(16, "big"))])
    assert one << made
    assert other << made
    broker.kill()


def test_a_topic_that_cannot_be_recorded_has_no_leader_yet(tmp_path: Path) -> None:
    runner = HeldRunner()
    broker = InProcessBroker(tmp_path, runner=runner)
    client = broker.client(version=LATEST) >> asking("u", create=True) << WAITS
    runner.fail(OSError("no space left"))
    assert client << unknown(ErrorCode.LEADER_NOT_AVAILABLE)
    broker.kill()


# ---- missing leaders


def test_a_partition_whose_disk_failed_has_no_leader(broker: InProcessBroker) -> None:
    broker.create_topic("t")
    fail_disk(broker)
    down = {
        "error_code": ErrorCode.LEADER_NOT_AVAILABLE,
        "leader_id": -1,
        "replica_nodes": [NODE_ID],
        "offline_replicas": [NODE_ID],
    }
    answer = Like(topics=[Like(partitions=[Like(**down)])])
    assert broker.client(version=LATEST) >> asking("t") << answer
    assert broker.client(version=0) >> described("t") << answer


def test_a_partition_with_another_leader(broker: InProcessBroker) -> None:
    change = PartitionChangeRecord(partition_id=0, topic_id=broker.create_topic("t"), leader=2)
    broker.controller.submit(lambda _: Decision(True, [change]), lambda _: False)
    answer = Like(topics=[Like(partitions=[Like(error_code=0, leader_id=2, leader_epoch=1)])])
    assert broker.client(version=LATEST) >> asking("t") << answer
    assert broker.client(version=0) >> described("t") << answer


# ---- DescribeCluster


@pytest.mark.parametrize("version", [0, 1, 2])
def test_every_version_describes_the_cluster(broker: InProcessBroker, version: int) -> None:
    client = broker.client(version=version)
    expected = DescribeClusterResponse(
        cluster_id=broker.broker.cluster_id,
        controller_id=NODE_ID,
        brokers=[
            DescribeClusterResponse.DescribeClusterBroker(
                broker_id=NODE_ID, host=DIALLED_HOST, port=DIALLED_PORT
            )
        ],
    )
    assert client >> DescribeClusterRequest() << expected
    expected.cluster_authorized_operations = CLUSTER_OPERATIONS
    assert client >> DescribeClusterRequest(include_cluster_authorized_operations=True) << expected


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        (2, ErrorCode.MISMATCHED_ENDPOINT_TYPE),
        (0, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE),
        (3, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE),
    ],
)
def test_only_broker_endpoints_are_described(broker: InProcessBroker, kind: int, code: ErrorCode) -> None:
    request = DescribeClusterRequest(endpoint_type=kind)
    assert broker.client(version=1) >> request << Like(error_code=code, brokers=[])


# ---- DescribeTopicPartitions


def described(
    *names: str, limit: int = 2000, cursor: tuple[str, int] | None = None
) -> DescribeTopicPartitionsRequest:
    return DescribeTopicPartitionsRequest(
        topics=[DescribeTopicPartitionsRequest.TopicRequest(name=name) for name in names],
        response_partition_limit=limit,
        cursor=cursor
        and DescribeTopicPartitionsRequest.Cursor(topic_name=cursor[0], partition_index=cursor[1]),
    )


Page = tuple[list[tuple[str | None, list[int]]], tuple[str, int] | None]


def page(broker: InProcessBroker, request: DescribeTopicPartitionsRequest) -> Page:
    """The partitions of each topic in the response, and the next cursor."""
    answer = broker.client(version=0).ask(request)
    assert isinstance(answer, DescribeTopicPartitionsResponse)
    shown = [(topic.name, [at.partition_index for at in topic.partitions]) for topic in answer.topics]
    cursor = answer.next_cursor
    return shown, None if cursor is None else (cursor.topic_name, cursor.partition_index)


def with_topics(broker: InProcessBroker, **counts: int) -> None:
    for name, count in counts.items():
        broker.create_topic(name, partitions=count)


def test_topics_are_described_in_order_of_name(broker: InProcessBroker) -> None:
    with_topics(broker, b=1, a=2)
    assert page(broker, described()) == ([("a", [0, 1]), ("b", [0])], None)
    assert page(broker, described("b", "a", "b")) == ([("a", [0, 1]), ("b", [0])], None)
    topic_id = broker.broker.image.topics["b"].topic_id
    one = Like(partition_index=0, leader_epoch=0, eligible_leader_replicas=[], last_known_elr=[], **LEADS)
    assert (
        broker.client(version=0)
        >> described("b")
        << Like(
            topics=[
                Like(
                    error_code=0,
                    topic_id=topic_id,
                    is_internal=False,
                    partitions=[one],
                    topic_authorized_operations=TOPIC_OPERATIONS,
                )
            ]
        )
    )


@pytest.mark.parametrize(
    ("cursor", "limit", "expected"),
    [
        (None, 1, ([("a", [0])], ("a", 1))),
        (("a", 1), 1, ([("a", [1])], ("b", 0))),
        (("a", 1), 2, ([("a", [1]), ("b", [0])], ("b", 1))),
        (("b", 1), 9, ([("b", [1, 2])], None)),
        (("b", 7), 9, ([("b", [])], None)),
        (("aa", 2), 9, ([("b", [0, 1, 2])], None)),
        (("c", 0), 9, ([], None)),
        (None, 5, ([("a", [0, 1]), ("b", [0, 1, 2])], None)),
        (None, 0, ([("a", [0])], ("a", 1))),
        (None, -3, ([("a", [0])], ("a", 1))),
    ],
)
def test_pages(broker: InProcessBroker, cursor: tuple[str, int] | None, limit: int, expected: Page) -> None:
    with_topics(broker, a=2, b=3)
    assert page(broker, described(limit=limit, cursor=cursor)) == expected


@pytest.mark.parametrize("index", [0, 2, 5])
def test_the_cursor_of_a_deleted_topic_shortens_no_other(broker: InProcessBroker, index: int) -> None:
    with_topics(broker, b=3)
    assert page(broker, described("a", "b", cursor=("a", index))) == ([("a", []), ("b", [0, 1, 2])], None)
    assert page(broker, described("a", "b", cursor=("a", index), limit=1)) == (
        [("a", []), ("b", [0])],
        ("b", 1),
    )


def test_an_unknown_internal_topic_is_marked_internal(broker: InProcessBroker) -> None:
    missing = Like(error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, is_internal=True)
    assert broker.client(version=0) >> described("__share_group_state") << Like(topics=[missing])


def test_the_limit_of_the_broker_applies(tmp_path: Path) -> None:
    broker = InProcessBroker(tmp_path, {"max.request.partition.size.limit": "2"})
    with_topics(broker, a=3)
    assert page(broker, described(limit=9)) == ([("a", [0, 1])], ("a", 2))
    broker.kill()


@pytest.mark.parametrize(("names", "cursor"), [(["a"], ("b", 0)), (["a"], ("a", -1)), ([], ("a", -1))])
def test_invalid_cursors(broker: InProcessBroker, names: Sequence[str], cursor: tuple[str, int]) -> None:
    with_topics(broker, a=1, b=1)
    refused = Like(topics=[Like(error_code=ErrorCode.INVALID_REQUEST, name=name) for name in names])
    assert broker.client(version=0) >> described(*names, cursor=cursor) << refused


def test_topics_that_cannot_be_described(broker: InProcessBroker) -> None:
    with_topics(broker, t=1)
    assert (
        broker.client(version=0)
        >> described("a b", "t", "u")
        << Like(
            topics=[
                Like(error_code=ErrorCode.INVALID_TOPIC_EXCEPTION, name="a b", partitions=[]),
                Like(error_code=ErrorCode.NONE, name="t"),
                Like(
                    error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                    name="u",
                    topic_id=ZERO_UUID,
                    partitions=[],
                ),
            ],
            next_cursor=None,
        )
    )


# ---- in a cluster

HOST_1 = {"node_id": NODE_ID, "host": "b1", "port": 9000}


@pytest.fixture
def cluster(broker: InProcessBroker) -> Cluster:
    made = Cluster(broker)
    made.commit(*topic_records("t", [1, 2, 3, 4, 9], [1, 2, 3, 4]))
    return made


@pytest.mark.parametrize("version", range(LATEST + 1))
def test_members_of_a_cluster_name_the_brokers_and_leaders_of_the_image(
    cluster: Cluster, version: int
) -> None:
    unreachable = ErrorCode.LEADER_NOT_AVAILABLE if version < 6 else ErrorCode.LISTENER_NOT_FOUND
    replicas = [1, 2] if version == 0 else [1, 2, 3, 4]
    fine = ErrorCode.REPLICA_NOT_AVAILABLE if version == 0 else ErrorCode.NONE
    leaders = {
        0: (1, fine),
        1: (2, fine),
        2: (3, fine),  # fenced: the controller is about to elect another
        3: (-1, unreachable),
        4: (-1, ErrorCode.LEADER_NOT_AVAILABLE),
    }
    expected = Like(
        brokers=[
            Like(rack=None, **HOST_1),
            Like(node_id=2, host="b2", port=9000, rack="r2" if version >= 1 else None),
        ],
        controller_id=4 if version >= 1 else -1,
        topics=[
            Like(
                partitions=[
                    Like(
                        partition_index=index,
                        leader_id=leader,
                        error_code=error,
                        replica_nodes=replicas,
                        isr_nodes=replicas,
                        offline_replicas=[3, 4] if version >= 5 else [],
                    )
                    for index, (leader, error) in leaders.items()
                ]
            )
        ],
    )
    client = cluster.broker.client(version=version)
    for _ in range(2):  # the second time from the cache
        assert client >> MetadataRequest(topics=named("t")) << expected


def test_answers_of_members_follow_the_liveness_of_brokers(cluster: Cluster) -> None:
    client = cluster.broker.client(version=LATEST)
    everything = MetadataRequest(topics=None)
    told = client.ask(everything)
    assert isinstance(told, MetadataResponse)
    assert told.topics[0].partitions[0].offline_replicas == [3, 4]
    cluster.commit(fencing(2, fenced=True), fencing(3, fenced=False))
    expected = Like(
        brokers=[Like(**HOST_1), Like(node_id=3)],
        topics=[Like(partitions=[Like(offline_replicas=[2, 4])] * 5)],
    )
    assert client >> everything << expected
    assert client >> MetadataRequest(topics=named("t")) << expected


@pytest.mark.parametrize("version", [0, 2])
def test_members_describe_the_cluster(cluster: Cluster, version: int) -> None:
    client = cluster.broker.client(version=version)
    alive = [Like(broker_id=1, host="b1", port=9000), Like(broker_id=2, host="b2", port=9000, rack="r2")]
    assert client >> DescribeClusterRequest() << Like(brokers=alive, controller_id=4)
    if version == 2:
        request = DescribeClusterRequest(include_fenced_brokers=True)
        assert client >> request << Like(brokers=[*alive, Like(broker_id=3, is_fenced=True)])


def test_members_describe_partitions_without_errors(cluster: Cluster) -> None:
    asked = [DescribeTopicPartitionsRequest.TopicRequest(name="t")]
    partitions = [
        Like(error_code=0, leader_id=leader, offline_replicas=[3, 4], replica_nodes=[1, 2, 3, 4])
        for leader in (1, 2, 3, -1, -1)
    ]
    client = cluster.broker.client(version=0)
    request = DescribeTopicPartitionsRequest(topics=asked)
    assert client >> request << Like(topics=[Like(partitions=partitions)])


def test_members_have_the_controller_create_topics_and_the_client_ask_again(cluster: Cluster) -> None:
    client = cluster.broker.client(version=LATEST)
    for _ in range(2):
        assert (
            client
            >> asking("new", "a b", create=True)
            << Like(
                topics=[
                    Like(name="new", error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
                    Like(name="a b", error_code=ErrorCode.INVALID_TOPIC_EXCEPTION),
                ]
            )
        )
    ((request, context),) = cluster.created
    assert [topic.name for topic in request.topics] == ["new"]
    assert context is not None
    assert context.client_id == "test"


def test_topics_that_are_created_on_demand_are_charged(broker: InProcessBroker) -> None:
    set_quotas(broker, controller_mutation_rate=0.1)
    client = broker.client(9)
    asked = MetadataRequest(topics=named("a", "b"), allow_auto_topic_creation=True)
    unknown = Like(name="b", error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert client >> MetadataRequest(topics=named("a")) << throttled(0, topics=[Like(error_code=0)])
    assert client >> MetadataRequest(topics=named("z")) << throttled(0, topics=[Like(error_code=0)])
    assert client >> asked << throttled(0, topics=[Like(error_code=0), unknown])
    client >> Wait(60)
    assert client >> asked << throttled(0, topics=[Like(error_code=0)] * 2)


# ---- authorization


T, DENIED = AclResourceType.TOPIC, ErrorCode.TOPIC_AUTHORIZATION_FAILED


@pytest.fixture
def guarded_topics(guarded: GuardedBroker) -> GuardedBroker:
    """With a topic that may be described, and one that may not."""
    for name in ("seen", "hidden"):
        guarded.create_topic(name)
    guarded.allow(AclOperation.DESCRIBE, T, "seen", "absent", "seen-2")
    return guarded


def test_a_hidden_topic_is_as_one_that_does_not_exist(guarded_topics: GuardedBroker) -> None:
    expected = [
        Like(name="seen", error_code=0, partitions=[Like()]),
        Like(name="absent", error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        *(
            Like(name=name, error_code=DENIED, topic_id=ZERO_UUID, partitions=[])
            for name in ("hidden", "never")
        ),
    ]
    asked = asking("hidden", "seen", "absent", "never")
    assert guarded_topics.client(version=LATEST) >> asked << Like(brokers=[Like()], topics=expected)


def test_a_hidden_topic_by_id_has_no_name(guarded_topics: GuardedBroker) -> None:
    ids = [guarded_topics.broker.image.topics[name].topic_id for name in ("hidden", "seen")]
    asked = MetadataRequest(topics=[named(None, topic_id=id_)[0] for id_ in (*ids, b"?" * 16)])
    expected = [
        Like(topic_id=b"?" * 16, error_code=ErrorCode.UNKNOWN_TOPIC_ID),
        Like(topic_id=ids[1], name="seen", error_code=0),
        Like(topic_id=ids[0], name=None, error_code=DENIED),
    ]
    assert guarded_topics.client(version=LATEST) >> asked << Like(topics=expected)


def test_all_topics_are_those_that_may_be_described(guarded_topics: GuardedBroker) -> None:
    all_topics = MetadataRequest(topics=None)
    mine, others = guarded_topics.client(version=LATEST), guarded_topics.admin(version=LATEST)
    for _ in range(2):  # what is kept for all clients is shown to none that may not see it
        assert mine >> all_topics << Like(topics=[Like(name="seen")])
        assert others >> all_topics << Like(topics=[Like(name="seen"), Like(name="hidden")])
    guarded_topics.allow(AclOperation.READ, T, "hidden")
    assert mine >> all_topics << Like(topics=[Like(name="seen"), Like(name="hidden")])


def test_operations_are_those_of_the_client(guarded_topics: GuardedBroker) -> None:
    guarded_topics.allow(AclOperation.READ, T, "seen")
    asked = MetadataRequest(
        topics=named("seen", "absent"),
        allow_auto_topic_creation=False,
        include_topic_authorized_operations=True,
        include_cluster_authorized_operations=True,
    )
    mine, others = guarded_topics.client(version=8), guarded_topics.admin(version=8)
    describe = 1 << AclOperation.DESCRIBE
    for _ in range(2):
        expected = [
            Like(topic_authorized_operations=describe | 1 << AclOperation.READ),
            Like(topic_authorized_operations=describe),
        ]
        assert mine >> asked << Like(topics=expected, cluster_authorized_operations=0)
        all_of_them = [Like(topic_authorized_operations=TOPIC_OPERATIONS)] * 2
        assert others >> asked << Like(topics=all_of_them, cluster_authorized_operations=CLUSTER_OPERATIONS)
    guarded_topics.allow(AclOperation.DESCRIBE)
    assert mine >> asked << Like(cluster_authorized_operations=describe)


def test_all_topics_with_operations(guarded_topics: GuardedBroker) -> None:
    asked = MetadataRequest(topics=None, include_topic_authorized_operations=True)
    mine = [Like(name="seen", topic_authorized_operations=1 << AclOperation.DESCRIBE)]
    assert guarded_topics.client(version=LATEST) >> asked << Like(topics=mine)


def test_topics_are_created_on_demand_for_who_may_create_them(guarded_topics: GuardedBroker) -> None:
    client = guarded_topics.client(version=LATEST)
    asked = asking("absent", "seen-2", "seen", create=True)
    denied = [Like(name=name, error_code=DENIED) for name in ("absent", "seen-2")]
    assert client >> asked << Like(topics=[Like(name="seen", error_code=0), *denied])
    guarded_topics.allow(AclOperation.CREATE, T, "absent")
    made = [
        Like(name="absent", error_code=0),
        Like(name="seen", error_code=0),
        Like(name="seen-2", error_code=DENIED),
    ]
    assert client >> asked << Like(topics=made)
    guarded_topics.allow(AclOperation.CREATE)
    made = [Like(name=name, error_code=0) for name in ("absent", "seen-2", "seen")]
    assert client >> asked << Like(topics=made)


def test_topics_that_may_not_be_created_on_demand_are_not_charged(guarded: GuardedBroker) -> None:
    guarded.allow(AclOperation.CREATE, T, "a", "b", "c")
    guarded.allow(AclOperation.DESCRIBE, T, "a", "b", "c", "denied")
    guarded.allow(AclOperation.ALTER_CONFIGS)
    set_quotas(guarded, controller_mutation_rate=0.1)
    client = guarded.client(version=LATEST)
    denied = Like(name="denied", error_code=DENIED)
    unknown = Like(name="c", error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    for name in ("a", "b"):  # the second is charged on credit
        made = [Like(name=name, error_code=0), denied]
        assert client >> asking("denied", name, create=True) << throttled(0, topics=made)
    assert client >> asking("denied", "c", create=True) << throttled(0, topics=[unknown, denied])


def test_operations_on_the_cluster_are_for_who_may_describe_it(guarded: GuardedBroker) -> None:
    asked, client = (
        DescribeClusterRequest(include_cluster_authorized_operations=True),
        guarded.client(version=2),
    )
    assert client >> asked << Like(brokers=[Like()], cluster_authorized_operations=0)
    guarded.allow(AclOperation.DESCRIBE)
    assert client >> asked << Like(cluster_authorized_operations=1 << AclOperation.DESCRIBE)


def test_described_topics_are_those_that_may_be(guarded_topics: GuardedBroker) -> None:
    topic, client = DescribeTopicPartitionsRequest.TopicRequest, guarded_topics.client(version=0)
    operations = 1 << AclOperation.DESCRIBE
    seen = Like(name="seen", error_code=0, topic_authorized_operations=operations)
    absent = Like(
        name="absent", error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, topic_authorized_operations=operations
    )
    hidden = Like(name="hidden", error_code=DENIED, topic_id=ZERO_UUID)
    asked = DescribeTopicPartitionsRequest(topics=[topic(name=name) for name in ("hidden", "seen", "absent")])
    assert client >> asked << Like(topics=[absent, seen, hidden])
    assert client >> DescribeTopicPartitionsRequest() << Like(topics=[seen])
