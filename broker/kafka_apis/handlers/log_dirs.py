"""DescribeLogDirs and AlterReplicaLogDirs."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from barnabas.broker.controller.log_dir_admin import LogDirDescription
from barnabas.broker.metadata.versions import CORDONED_LOG_DIRS
from barnabas.broker.pending import Pending
from barnabas.broker.request import RequestContext, api
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.log_dirs import (
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)
from barnabas.storage.offsets import TopicPartition

if TYPE_CHECKING:
    from barnabas.broker.broker import Broker


@api(ApiKey.DESCRIBE_LOG_DIRS, versions=(1, 5))
def describe_log_dirs(
    broker: Broker, context: RequestContext, request: DescribeLogDirsRequest
) -> Pending[DescribeLogDirsResponse]:
    wanted = (
        None
        if request.topics is None
        else {(topic.topic, index) for topic in request.topics for index in topic.partitions}
    )
    shows_cordoned = broker.image.metadata_version >= CORDONED_LOG_DIRS
    described = broker.log_dirs.describe(wanted, shows_cordoned=shows_cordoned)
    return described.then(
        lambda directories: DescribeLogDirsResponse(results=[_result(one) for one in directories])
    )


def _result(directory: LogDirDescription) -> DescribeLogDirsResponse.DescribeLogDirsResult:
    return DescribeLogDirsResponse.DescribeLogDirsResult(
        error_code=directory.error,
        log_dir=directory.path,
        topics=[
            DescribeLogDirsResponse.DescribeLogDirsTopic(
                name=topic,
                partitions=[
                    DescribeLogDirsResponse.DescribeLogDirsPartition(
                        partition_index=replica.partition,
                        partition_size=replica.size,
                        offset_lag=replica.offset_lag,
                        is_future_key=replica.is_future,
                    )
                    for replica in replicas
                ],
            )
            for topic, replicas in directory.topics.items()
        ],
        total_bytes=directory.total_bytes,
        usable_bytes=directory.usable_bytes,
        is_cordoned=directory.is_cordoned,
    )


@api(ApiKey.ALTER_REPLICA_LOG_DIRS, versions=(1, 2))
def alter_replica_log_dirs(
    broker: Broker, context: RequestContext, request: AlterReplicaLogDirsRequest
) -> Pending[AlterReplicaLogDirsResponse]:
    # A partition that is named twice goes where it is named last.
    wanted: dict[TopicPartition, str] = {
        (topic.name, index): directory.path
        for directory in request.dirs
        for topic in directory.topics
        for index in topic.partitions
    }
    return broker.log_dirs.alter(wanted).then(_altered)


def _altered(codes: dict[TopicPartition, ErrorCode]) -> AlterReplicaLogDirsResponse:
    topics: defaultdict[str, list[AlterReplicaLogDirsResponse.AlterReplicaLogDirPartitionResult]]
    topics = defaultdict(list)
    for (topic, index), code in codes.items():
        topics[topic].append(
            AlterReplicaLogDirsResponse.AlterReplicaLogDirPartitionResult(
                partition_index=index, error_code=code
            )
        )
    return AlterReplicaLogDirsResponse(
        results=[
            AlterReplicaLogDirsResponse.AlterReplicaLogDirTopicResult(topic_name=topic, partitions=results)
            for topic, results in topics.items()
        ]
    )
