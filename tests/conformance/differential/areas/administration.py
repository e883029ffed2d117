"""Administration: topics, partitions, configurations, features, and their descriptions."""

from __future__ import annotations

from typing import Any, Final

from barnabas.protocol.messages.cluster import UpdateFeaturesRequest
from barnabas.protocol.messages.configs import (
    AlterConfigsRequest,
    DescribeConfigsRequest,
    IncrementalAlterConfigsRequest,
    ListConfigResourcesRequest,
)
from barnabas.protocol.messages.metadata import (
    DescribeClusterRequest,
    DescribeTopicPartitionsRequest,
    MetadataRequest,
)
from barnabas.protocol.messages.topics import (
    AlterPartitionReassignmentsRequest,
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    ElectLeadersRequest,
    ListPartitionReassignmentsRequest,
)
from barnabas.protocol.schema import Message
from barnabas.protocol.wire import ZERO_UUID
from tests.conformance.differential.areas import access
from tests.conformance.differential.steps import PREFIX, Step
from tests.conformance.differential.world import World

TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = range(4)

GOOD: Final = (
    ("message.timestamp.type", "LogAppendTime"),
    ("message.timestamp.type", "CreateTime"),
    ("max.message.bytes", "300"),
    ("max.message.bytes", "1000000"),
    ("cleanup.policy", "compact"),
    ("cleanup.policy", "delete,compact"),
    ("cleanup.policy", "delete"),
    ("retention.ms", "-1"),
    ("retention.ms", "100000000000"),
    ("segment.bytes", "1048576"),
    ("compression.type", "producer"),
    ("min.insync.replicas", "2"),
    ("min.insync.replicas", "1"),
    ("message.timestamp.before.max.ms", "1000"),
    ("message.timestamp.after.max.ms", "1000"),
    ("flush.messages", "1"),
    ("unclean.leader.election.enable", "true"),
    ("file.delete.delay.ms", "1000"),
)
BAD: Final = (
    ("no.such.key", "1"),
    ("retention.ms", "-2"),
    ("retention.ms", "abc"),
    ("retention.ms", ""),
    ("retention.ms", None),
    ("cleanup.policy", "nonsense"),
    ("cleanup.policy", ""),
    ("max.message.bytes", "-1"),
    ("compression.type", "best"),
    ("segment.bytes", "10"),
    ("min.insync.replicas", "0"),
    ("", "1"),
    ("remote.storage.enable", "true"),
    ("message.format.version", "3.0"),
    ("preallocate", "maybe"),
)
KEYS: Final = tuple(sorted({key for key, _ in GOOD + BAD}))


# ---- topics


def topic_configs(world: World, wrong: float = 0.2) -> list[CreateTopicsRequest.CreatableTopicConfig]:
    """Configurations of a new topic, some of them invalid."""
    if world.chance(0.55):
        return []
    count = world.mostly(1, [2])
    chosen = dict(world.one(BAD if world.chance(wrong) else GOOD) for _ in range(count))
    return [CreateTopicsRequest.CreatableTopicConfig(name=key, value=value) for key, value in chosen.items()]


def create_topics(world: World) -> Message:
    """Creates one or several topics, some of them invalid."""
    topics = [_new_topic(world) for _ in range(world.mostly(1, [0, 2, 3], 0.2))]
    return CreateTopicsRequest(
        topics=topics, timeout_ms=world.mostly(30_000, [60_000], 0), validate_only=world.chance(0.15)
    )


def _new_topic(world: World) -> CreateTopicsRequest.CreatableTopic:
    usual = f"{PREFIX}-t{world.dice.randrange(6)}"
    name = world.mostly(
        usual, ["", ".", "..", f"{PREFIX} space", f"{PREFIX}-" + "l" * 250, f"{PREFIX}.t0"], 0.1
    )
    assigned = world.chance(0.1)
    return CreateTopicsRequest.CreatableTopic(
        name=name,
        num_partitions=world.mostly(-1 if assigned else world.dice.randint(1, 3), [-1, 0, -2, 4], 0.1),
        replication_factor=world.mostly(-1 if assigned else 1, [-1, 0, 2, -2], 0.1),
        assignments=_assignments(world) if assigned else [],
        configs=topic_configs(world),
    )


def _assignments(world: World) -> list[CreateTopicsRequest.CreatableReplicaAssignment]:
    return [
        CreateTopicsRequest.CreatableReplicaAssignment(
            partition_index=world.mostly(index, [0, 5, -1], 0.1),
            broker_ids=world.mostly([1], [[], [1, 1], [2], [1, 2]], 0.2),
        )
        for index in range(world.dice.randint(1, 3))
    ]


def delete_topics(world: World) -> Message:
    """Deletes topics by name, by id, or by both."""
    topics = [world.topic(may_miss=0.2) for _ in range(world.mostly(1, [0, 2], 0.15))]
    states = []
    for topic in topics:
        by_id = world.chance(0.5)
        both = world.chance(0.05)
        states.append(
            DeleteTopicsRequest.DeleteTopicState(
                name=topic.name if both or not by_id else None,
                topic_id=topic.token if both or by_id else ZERO_UUID,
            )
        )
    return DeleteTopicsRequest(topics=states, topic_names=[topic.name for topic in topics], timeout_ms=10_000)


def create_partitions(world: World) -> Message:
    """Requests more partitions, as many, or fewer."""
    wanted = []
    for _ in range(world.mostly(1, [0, 2], 0.15)):
        topic = world.topic(may_miss=0.1)
        more = world.mostly(1, [0, -1, 2, -100], 0.3)
        assignments = None
        if world.chance(0.2):
            ids: list[list[int]] = [
                world.mostly([1], [[], [2], [1, 1]], 0.3) for _ in range(world.dice.randint(0, 2))
            ]
            assignments = [
                CreatePartitionsRequest.CreatePartitionsAssignment(broker_ids=each) for each in ids
            ]
        wanted.append(
            CreatePartitionsRequest.CreatePartitionsTopic(
                name=topic.name, count=topic.partitions + more, assignments=assignments
            )
        )
    return CreatePartitionsRequest(topics=wanted, timeout_ms=10_000, validate_only=world.chance(0.15))


def metadata(world: World) -> Message:
    """Topics by name, by id, or by both."""
    count = world.mostly(1, [0, 2, 3], 0.3)
    topics = None if world.chance(0.1) else [_metadata_topic(world) for _ in range(count)]
    return MetadataRequest(
        topics=topics,
        allow_auto_topic_creation=False,
        include_cluster_authorized_operations=world.chance(0.2),
        include_topic_authorized_operations=world.chance(0.3),
    )


def _metadata_topic(world: World) -> MetadataRequest.MetadataRequestTopic:
    topic = world.topic(may_miss=0.2)
    by_id, both = world.chance(0.4), world.chance(0.03)
    return MetadataRequest.MetadataRequestTopic(
        topic_id=topic.token if by_id or both else ZERO_UUID,
        name=topic.name if both or not by_id else None,
    )


def describe_topic_partitions(world: World) -> Message:
    """Describes partitions page by page, with cursors at topics that exist or have existed."""
    names = [world.topic(may_miss=0.15).name for _ in range(world.mostly(2, [1, 3, 0], 0.5))]
    cursor = None
    if world.chance(0.5):
        cursor = DescribeTopicPartitionsRequest.Cursor(
            topic_name=world.topic(may_miss=0.3).name, partition_index=world.one([0, 0, 1, 2, 5, -1])
        )
    return DescribeTopicPartitionsRequest(
        topics=[DescribeTopicPartitionsRequest.TopicRequest(name=name) for name in names],
        response_partition_limit=world.mostly(2000, [1, 2, 3, 0, -1], 0.5),
        cursor=cursor,
    )


def elect_leaders(world: World) -> Message:
    """Leader elections, which change nothing."""
    topic = world.topic()
    wanted = ElectLeadersRequest.TopicPartitions(topic=topic.name, partitions=[world.partition(topic)])
    return ElectLeadersRequest(election_type=world.one([0, 1]), topic_partitions=[wanted], timeout_ms=10_000)


def list_reassignments(world: World) -> Message:
    """Lists reassignments: always none."""
    topic = world.topic()
    wanted = ListPartitionReassignmentsRequest.ListPartitionReassignmentsTopics(
        name=topic.name, partition_indexes=[world.partition(topic)]
    )
    return ListPartitionReassignmentsRequest(topics=[wanted], timeout_ms=10_000)


def alter_reassignments(world: World) -> Message:
    """Reassignments to the present replicas, or to brokers that do not exist."""
    topic = world.topic(may_miss=0.1)
    replicas: list[int] | None = world.mostly([1], [None, [], [2], [1, 2], [1, 1], [-1]], 0.6)
    partition = AlterPartitionReassignmentsRequest.ReassignablePartition(
        partition_index=world.partition(topic), replicas=replicas
    )
    wanted = AlterPartitionReassignmentsRequest.ReassignableTopic(name=topic.name, partitions=[partition])
    return AlterPartitionReassignmentsRequest(topics=[wanted], timeout_ms=10_000)


def describe_cluster(world: World) -> Message:
    """Describes the cluster of one broker."""
    return DescribeClusterRequest(
        include_cluster_authorized_operations=world.chance(0.5),
        endpoint_type=world.mostly(1, [2, 0, 9], 0.1),
        include_fenced_brokers=world.chance(0.3),
    )


# ---- configurations


def _resource(world: World) -> tuple[int, str]:
    if world.chance(0.75):
        return TOPIC, world.topic(may_miss=0.08).name
    return world.one(
        [
            (GROUP, f"{PREFIX}-g0"),
            (METRICS, f"{PREFIX}-m0"),
            (BROKER, "7"),
            (TOPIC, ""),
            (1, "x"),
            (GROUP, ""),
        ]
    )


def _setting(world: World, kind: int) -> tuple[str, str | None]:
    if kind == GROUP:
        return world.one(
            [
                ("consumer.session.timeout.ms", "46000"),
                ("consumer.heartbeat.interval.ms", "6000"),
                ("consumer.session.timeout.ms", "1"),
                ("consumer.nonsense", "1"),
            ]
        )
    if kind == METRICS:
        return world.one(
            [
                ("interval.ms", "1000"),
                ("interval.ms", "x"),
                ("metrics", "a,b"),
                ("match", "a=b"),
                ("nope", "1"),
            ]
        )
    return world.one(BAD if world.chance(0.25) else GOOD)


def alter_configs(world: World) -> Message:
    """Replaces all settings of a resource."""
    resources = []
    # No resource twice: Kafka never answers such a request.
    wanted = {_resource(world) for _ in range(world.mostly(1, [0, 2], 0.15))}
    for kind, name in sorted(wanted):
        settings = dict(_setting(world, kind) for _ in range(world.mostly(1, [0, 2, 3], 0.4)))
        configs = [
            AlterConfigsRequest.AlterableConfig(name=key, value=value) for key, value in settings.items()
        ]
        resources.append(
            AlterConfigsRequest.AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
        )
    return AlterConfigsRequest(resources=resources, validate_only=world.chance(0.15))


def incremental_alter_configs(world: World) -> Message:
    """Changes single settings of a resource."""
    resources = []
    for _ in range(world.mostly(1, [0, 2], 0.15)):
        kind, name = _resource(world)
        configs = []
        for _ in range(world.mostly(1, [0, 2], 0.25)):
            key, value = _setting(world, kind)
            operation = world.mostly(SET, [DELETE, APPEND, SUBTRACT, 9, -1], 0.35)
            configs.append(
                IncrementalAlterConfigsRequest.AlterableConfig(
                    name=key, config_operation=operation, value=world.mostly(value, [None], 0.1)
                )
            )
        resources.append(
            IncrementalAlterConfigsRequest.AlterConfigsResource(
                resource_type=kind, resource_name=name, configs=configs
            )
        )
    return IncrementalAlterConfigsRequest(resources=resources, validate_only=world.chance(0.15))


def describe_configs(world: World) -> Message:
    """Describes settings of one or two resources, for some keys or all."""
    resources = []
    for _ in range(world.mostly(1, [0, 2], 0.15)):
        kind, name = _resource(world)
        keys = None if world.chance(0.4) else [world.one(KEYS) for _ in range(world.mostly(2, [0, 1]))]
        resources.append(
            DescribeConfigsRequest.DescribeConfigsResource(
                resource_type=kind, resource_name=name, configuration_keys=keys
            )
        )
    return DescribeConfigsRequest(
        resources=resources, include_synonyms=world.chance(0.5), include_documentation=world.chance(0.1)
    )


def list_config_resources(world: World) -> Message:
    """Lists resources with settings."""
    return ListConfigResourcesRequest(
        resource_types=[world.one([TOPIC, BROKER, METRICS, GROUP, 99]) for _ in range(world.one([0, 1, 2]))]
    )


# ---- features


def update_features(world: World) -> Message:
    """Only validates: all sequences share the features of the cluster."""
    updates = [
        UpdateFeaturesRequest.FeatureUpdateKey(
            feature=world.one(
                ["transaction.version", "group.version", "share.version", "nonsense", "metadata.version"]
            ),
            max_version_level=world.one([0, 1, 2, 3, -1, 99]),
            upgrade_type=world.one([0, 1, 2, 3]),
        )
        for _ in range(world.one([0, 1, 1]))
    ]
    return UpdateFeaturesRequest(timeout_ms=10_000, feature_updates=updates, validate_only=True)


DRAWS: Final = (
    (6, create_topics),
    (4, delete_topics),
    (4, create_partitions),
    (5, metadata),
    (5, describe_topic_partitions),
    (2, elect_leaders),
    (1, list_reassignments),
    (1, alter_reassignments),
    (1, describe_cluster),
    (1, list_config_resources),
    (4, alter_configs),
    (6, incremental_alter_configs),
    (5, describe_configs),
    (1, update_features),
    *access.DRAWS,
)


# ---- what responses show


def learn(world: World, step: Step, answer: Any) -> None:
    """Learns topics and their numbers of partitions."""
    request = step.request
    if isinstance(request, CreateTopicsRequest) and not request.validate_only:
        _learn_created(world, request, answer)
    elif isinstance(request, DeleteTopicsRequest):
        for response in answer["responses"]:
            if response["error_code"] == 0:
                world.remove_topic(response["name"])
    elif isinstance(request, CreatePartitionsRequest) and not request.validate_only:
        counts = {topic.name: topic.count for topic in request.topics}
        for result in answer["results"]:
            if result["error_code"] == 0 and result["name"] in world.topics:
                world.topics[result["name"]].partitions = counts[result["name"]]


def _learn_created(world: World, request: CreateTopicsRequest, answer: Any) -> None:
    requested = {topic.name: topic for topic in request.topics}
    for result in answer["topics"]:
        if result["error_code"] == 0:
            wanted = requested[result["name"]]
            partitions = len(wanted.assignments) or max(1, wanted.num_partitions)
            world.add_topic(result["name"], partitions)
