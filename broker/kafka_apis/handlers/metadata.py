"""Metadata, DescribeCluster and DescribeTopicPartitions: the brokers, the topics and their leaders."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Final, cast

from barnabas.broker.broker import AUTHORIZED_OPERATIONS_OMITTED, Broker
from barnabas.broker.controller.topic_admin import check_topic_name, is_internal
from barnabas.broker.kafka_apis.api_checks import checks_of
from barnabas.broker.kafka_apis.authorization import allowed_names, denied, is_allowed, split
from barnabas.broker.kafka_apis.authorized_operations import cluster_operations, topic_operations
from barnabas.broker.kafka_apis.auto_topic_creation import create_topics_on_demand
from barnabas.broker.metadata.image import MetadataImage
from barnabas.broker.metadata.topic_answers import KeptTopics, MakeTopic
from barnabas.broker.metadata.topics import PartitionImage, TopicImage
from barnabas.broker.pending import Pending
from barnabas.broker.request import RequestContext, api
from barnabas.broker.security.decisions import Check
from barnabas.config.catalogue.log import AUTO_CREATE_TOPICS_ENABLE
from barnabas.config.catalogue.server import MAX_REQUEST_PARTITION_SIZE_LIMIT
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages.metadata import (
    DescribeClusterRequest,
    DescribeClusterResponse,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    MetadataRequest,
    MetadataResponse,
)
from barnabas.protocol.wire import ZERO_UUID, Encoded, EncodedArray, Uuid

if TYPE_CHECKING:
    from barnabas.protocol.messages.metadata import MetadataResponse as Response


_DESCRIBE, _DESCRIBE_ANY, _CREATE_ANY, _CREATE, _DESCRIBE_CLUSTER = checks_of(ApiKey.METADATA)
(_OPERATIONS_ON_CLUSTER,) = checks_of(ApiKey.DESCRIBE_CLUSTER)
(_DESCRIBE_PARTITIONS,) = checks_of(ApiKey.DESCRIBE_TOPIC_PARTITIONS)

_TOPIC_IDS_SINCE: Final = 12
_BROKERS, _CONTROLLERS = 1, 2
"""DescribeCluster's endpoint types (KIP-919)."""

_Wanted = tuple[str | None, Uuid]
"""A topic in a Metadata request: by its name, or by its id where the name is None."""


@api(ApiKey.METADATA, versions=(0, 13))
def metadata(
    broker: Broker, context: RequestContext, request: MetadataRequest
) -> MetadataResponse | Pending[MetadataResponse]:
    version, asked = context.api_version, request.topics
    if asked is None or (version == 0 and not asked):
        return _metadata_response(broker, context, request, _all_topics(broker, context, request))
    if any((t.name is None or t.topic_id != ZERO_UUID) and version < _TOPIC_IDS_SINCE for t in asked):
        rejected = [_no_topic(t.name or "", ErrorCode.INVALID_REQUEST, t.topic_id) for t in asked]
        return MetadataResponse(topics=rejected, error_code=ErrorCode.INVALID_REQUEST)

    image = broker.image
    wanted = _wanted(image, asked)
    refused: Sequence[Response.MetadataResponseTopic] = ()
    if broker.auth is not None:
        wanted, refused = _describable(broker, context, wanted)

    def respond(failures: dict[str, ErrorCode]) -> MetadataResponse:
        topics = [_asked_topic(broker, context, request, once, failures) for once in wanted]
        return _metadata_response(broker, context, request, [*topics, *refused] if refused else topics)

    missing = _missing(image, wanted)
    if missing and request.allow_auto_topic_creation and broker.config[AUTO_CREATE_TOPICS_ENABLE]:
        denied_names = _not_creatable(broker, context, missing)
        if denied_names:
            wanted = [once for once in wanted if once[0] not in denied_names]
            failed = [name for name in missing if name in denied_names]
            refused = [*(_no_topic(name, ErrorCode.TOPIC_AUTHORIZATION_FAILED) for name in failed), *refused]
            missing = [name for name in missing if name not in denied_names]
        if missing:
            return create_topics_on_demand(broker, missing, context).then(respond)
    return respond({})


def _describable(
    broker: Broker, context: RequestContext, wanted: Iterable[_Wanted]
) -> tuple[list[_Wanted], list[Response.MetadataResponseTopic]]:
    """The topics that the client may know of, or that there are none of, and the errors of the others.

    A topic by name fails in the same way whether it exists or not, one by id without its name.
    """
    image, code = broker.image, ErrorCode.TOPIC_AUTHORIZATION_FAILED
    named = [(once, image.topic_names.get(once[1]) if once[0] is None else once[0]) for once in wanted]
    allowed = allowed_names(broker, context, _DESCRIBE, [name for _, name in named if name is not None])
    seen = [once for once, name in named if name is None or name in allowed]
    refused = [
        MetadataResponse.MetadataResponseTopic(error_code=code, name=once[0], topic_id=once[1])
        for once, name in named
        if name is not None and name not in allowed
    ]
    return seen, refused


def _not_creatable(broker: Broker, context: RequestContext, missing: Iterable[str]) -> frozenset[str]:
    """The topics that the client may not have created."""
    if is_allowed(broker, context, _CREATE_ANY):
        return frozenset()
    allowed = allowed_names(broker, context, _CREATE, missing)
    return frozenset(name for name in missing if name not in allowed)


def _wanted(image: MetadataImage, asked: Iterable[MetadataRequest.MetadataRequestTopic]) -> list[_Wanted]:
    """The topics of the response, each once. With one id it is a request by ids: entries without one are ignored.

    Ids that no topic has come first. Source: KafkaApis.handleTopicMetadataRequest (useTopicId).
    """
    ids = dict.fromkeys(topic.topic_id for topic in asked if topic.topic_id != ZERO_UUID)
    if ids:
        return [(None, topic_id) for topic_id in sorted(ids, key=image.topic_names.__contains__)]
    return [(name, ZERO_UUID) for name in dict.fromkeys(topic.name for topic in asked)]


def _missing(image: MetadataImage, wanted: Iterable[_Wanted]) -> list[str]:
    """The names of topics that do not exist and could be created."""
    return sorted(name for name, _ in wanted if name is not None and name not in image.topics)


def _all_topics(
    broker: Broker, context: RequestContext, request: MetadataRequest
) -> EncodedArray | list[Response.MetadataResponseTopic | Encoded]:
    """All topics that the client may describe. Those of one client only are not kept for others."""
    image = broker.image
    make, topics = _maker(broker, context, request), image.topics
    kept = _kept_topics(broker, image, context, request)
    shown: Collection[TopicImage] = topics.values()
    if broker.auth is not None:
        allowed = broker.auth.filter(context, _DESCRIBE_ANY, topics)
        shown = [topic for name, topic in topics.items() if name in allowed]
    if kept is None:
        return [make(topic) for topic in shown]
    if len(shown) == len(topics):
        return kept.everything(topics, make)
    return [kept.one(topic, make) for topic in shown]


def _kept_topics(
    broker: Broker, image: MetadataImage, context: RequestContext, request: MetadataRequest
) -> KeptTopics | None:
    """The encoded topics that are kept for every client; None where they are those of one.

    The operations that a client may carry out are its own where there is an authorizer.
    """
    with_operations = request.include_topic_authorized_operations
    if with_operations and broker.auth is not None:
        return None
    key = broker.cluster.cache_key(image, context.connection)
    if key is None:
        return None
    return broker.topic_answers.kept(context.api_version, key, with_operations=with_operations)


def _asked_topic(
    broker: Broker,
    context: RequestContext,
    request: MetadataRequest,
    wanted: _Wanted,
    failures: dict[str, ErrorCode],
) -> Response.MetadataResponseTopic | Encoded:
    (name, topic_id), image = wanted, broker.image
    topic = image.topic_by_id(topic_id) if name is None else image.topics.get(name)
    if topic is not None:
        make, kept = _maker(broker, context, request), _kept_topics(broker, image, context, request)
        return make(topic) if kept is None else kept.one(topic, make)
    if name is None:
        return _no_topic(None, ErrorCode.UNKNOWN_TOPIC_ID, topic_id)
    missing = _no_topic(name, failures.get(name) or _why_missing(name))
    if request.include_topic_authorized_operations:
        missing.topic_authorized_operations = topic_operations(broker, context, name)
    return missing


def _maker(broker: Broker, context: RequestContext, request: MetadataRequest) -> MakeTopic:
    if request.include_topic_authorized_operations:
        return lambda topic: _topic(broker, context, topic, topic_operations(broker, context, topic.name))
    return lambda topic: _topic(broker, context, topic, AUTHORIZED_OPERATIONS_OMITTED)


def _why_missing(name: str) -> ErrorCode:
    try:
        check_topic_name(name)
    except ApiError as error:
        return error.code
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _no_topic(
    name: str | None, code: ErrorCode, topic_id: Uuid = ZERO_UUID
) -> Response.MetadataResponseTopic:
    return MetadataResponse.MetadataResponseTopic(
        error_code=code, name=name, topic_id=topic_id, is_internal=name is not None and is_internal(name)
    )


def _topic(
    broker: Broker, context: RequestContext, topic: TopicImage, operations: int
) -> Response.MetadataResponseTopic:
    return MetadataResponse.MetadataResponseTopic(
        error_code=ErrorCode.NONE,
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=is_internal(topic.name),
        partitions=[_partition(broker, context, topic, partition) for partition in topic.partitions.values()],
        topic_authorized_operations=operations,
    )


def _partition(
    broker: Broker, context: RequestContext, topic: TopicImage, partition: PartitionImage
) -> Response.MetadataResponsePartition:
    told = broker.cluster.partition(broker.image, topic, partition, context.connection, context.api_version)
    return MetadataResponse.MetadataResponsePartition(
        error_code=told.error,
        partition_index=partition.partition,
        leader_id=told.leader,
        leader_epoch=partition.leader_epoch,
        replica_nodes=list(told.replicas),
        isr_nodes=list(told.isr),
        offline_replicas=list(told.offline),
    )


def _metadata_response(
    broker: Broker,
    context: RequestContext,
    request: MetadataRequest,
    topics: Iterable[Response.MetadataResponseTopic | Encoded],
) -> MetadataResponse:
    image, cluster = broker.image, broker.cluster
    include_cluster = request.include_cluster_authorized_operations
    return MetadataResponse(
        brokers=[
            MetadataResponse.MetadataResponseBroker(
                node_id=node.node_id, host=node.host, port=node.port, rack=node.rack
            )
            for node in cluster.brokers(image, context.connection)
        ],
        cluster_id=broker.cluster_id,
        controller_id=cluster.controller_id(image),
        topics=cast("list[Response.MetadataResponseTopic]", topics),
        cluster_authorized_operations=_cluster_operations(broker, context, _DESCRIBE_CLUSTER)
        if include_cluster
        else AUTHORIZED_OPERATIONS_OMITTED,
    )


def _cluster_operations(broker: Broker, context: RequestContext, check: Check) -> int:
    """0 for a client that may not describe the cluster."""
    return cluster_operations(broker, context) if is_allowed(broker, context, check) else 0


@api(ApiKey.DESCRIBE_CLUSTER, versions=(0, 2))
def describe_cluster(
    broker: Broker, context: RequestContext, request: DescribeClusterRequest
) -> DescribeClusterResponse:
    if context.api_version >= 1 and request.endpoint_type != _BROKERS:
        return _not_this_endpoint(request.endpoint_type)
    include = request.include_cluster_authorized_operations
    return DescribeClusterResponse(
        endpoint_type=_BROKERS,
        cluster_id=broker.cluster_id,
        controller_id=broker.cluster.controller_id(broker.image),
        brokers=_described_brokers(broker, context, include_fenced=request.include_fenced_brokers),
        cluster_authorized_operations=_cluster_operations(broker, context, _OPERATIONS_ON_CLUSTER)
        if include
        else AUTHORIZED_OPERATIONS_OMITTED,
    )


def _not_this_endpoint(endpoint_type: int) -> DescribeClusterResponse:
    if endpoint_type == _CONTROLLERS:
        return DescribeClusterResponse(
            error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE,
            error_message="The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type "
            "CONTROLLER",
        )
    return DescribeClusterResponse(
        error_code=ErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
        error_message=f"Unsupported endpoint type {endpoint_type}",
    )


def _described_brokers(
    broker: Broker, context: RequestContext, *, include_fenced: bool
) -> list[DescribeClusterResponse.DescribeClusterBroker]:
    return [
        DescribeClusterResponse.DescribeClusterBroker(
            broker_id=node.node_id, host=node.host, port=node.port, rack=node.rack, is_fenced=node.is_fenced
        )
        for node in broker.cluster.described_brokers(
            broker.image, context.connection, include_fenced=include_fenced
        )
    ]


@api(ApiKey.DESCRIBE_TOPIC_PARTITIONS, versions=(0, 0))
def describe_topic_partitions(
    broker: Broker, context: RequestContext, request: DescribeTopicPartitionsRequest
) -> DescribeTopicPartitionsResponse:
    """Topics in order of name, from the cursor on, as many partitions as fit under the limit (KIP-966)."""
    image = broker.image
    cursor = request.cursor
    asked = {topic.name for topic in request.topics}
    names = sorted(asked or image.topics)
    if cursor is not None:
        if cursor.partition_index < 0 or (asked and cursor.topic_name not in asked):
            return _cursor_rejected(request)
        names = [name for name in names if name >= cursor.topic_name]
    names, refused = split(names, allowed_names(broker, context, _DESCRIBE_PARTITIONS, names), str)
    left = max(1, min(request.response_partition_limit, broker.config[MAX_REQUEST_PARTITION_SIZE_LIMIT]))
    response = DescribeTopicPartitionsResponse()
    for name in names:
        if left <= 0:
            response.next_cursor = DescribeTopicPartitionsResponse.Cursor(topic_name=name, partition_index=0)
            break
        topic = image.topics.get(name)
        if topic is None:
            response.topics.append(
                DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponseTopic(
                    error_code=_why_missing(name),
                    name=name,
                    is_internal=is_internal(name),
                    topic_authorized_operations=topic_operations(broker, context, name),
                )
            )
            continue
        first = cursor.partition_index if cursor is not None and cursor.topic_name == name else 0
        shown = [index for index in sorted(topic.partitions) if index >= first]
        response.topics.append(_described_topic(broker, context, topic, shown[:left]))
        if len(shown) > left:
            response.next_cursor = DescribeTopicPartitionsResponse.Cursor(
                topic_name=name, partition_index=shown[left]
            )
            break
        left -= len(shown)
    if asked:
        code = denied(_DESCRIBE_PARTITIONS).code
        response.topics += [
            DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponseTopic(error_code=code, name=name)
            for name in refused
        ]
    return response


def _cursor_rejected(request: DescribeTopicPartitionsRequest) -> DescribeTopicPartitionsResponse:
    """A cursor has to name one of the topics asked for, and a partition."""
    return DescribeTopicPartitionsResponse(
        topics=[
            DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponseTopic(
                error_code=ErrorCode.INVALID_REQUEST, name=topic.name
            )
            for topic in request.topics
        ]
    )


def _described_topic(
    broker: Broker, context: RequestContext, topic: TopicImage, indexes: Iterable[int]
) -> DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponseTopic:
    partitions = []
    for index in indexes:
        partition = topic.partitions[index]
        told = broker.cluster.partition(broker.image, topic, partition, context.connection, None)
        partitions.append(
            DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponsePartition(
                error_code=told.error,
                partition_index=index,
                leader_id=told.leader,
                leader_epoch=partition.leader_epoch,
                replica_nodes=list(told.replicas),
                isr_nodes=list(told.isr),
                eligible_leader_replicas=list(partition.elr),
                last_known_elr=list(partition.last_known_elr),
                offline_replicas=list(told.offline),
            )
        )
    return DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=is_internal(topic.name),
        partitions=partitions,
        topic_authorized_operations=topic_operations(broker, context, topic.name),
    )
