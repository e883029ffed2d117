"""DescribeProducers: the producers that a partition remembers, and their open transactions (KIP-664).

Any replica answers for itself, the leader or not, so that they can be compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from barnabas.broker.controller.topic_admin import check_topic_name
from barnabas.broker.error_map import MAPPED_ERRORS, error_code_of
from barnabas.broker.kafka_apis.api_checks import checks_of
from barnabas.broker.kafka_apis.authorization import denied, is_allowed
from barnabas.broker.request import RequestContext, api
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ApiError
from barnabas.protocol.messages.producers import DescribeProducersRequest, DescribeProducersResponse
from barnabas.storage.log.producer_entry import ProducerStateEntry

if TYPE_CHECKING:
    from barnabas.broker.broker import Broker


(_READ,) = checks_of(ApiKey.DESCRIBE_PRODUCERS)


@api(ApiKey.DESCRIBE_PRODUCERS, versions=(0, 0))
def describe_producers(
    broker: Broker, context: RequestContext, request: DescribeProducersRequest
) -> DescribeProducersResponse:
    return DescribeProducersResponse(
        topics=[
            DescribeProducersResponse.TopicResponse(
                name=topic.name,
                partitions=_partitions(broker, context, topic.name, topic.partition_indexes),
            )
            for topic in request.topics
        ]
    )


def _partitions(
    broker: Broker, context: RequestContext, name: str, indexes: Sequence[int]
) -> list[DescribeProducersResponse.PartitionResponse]:
    try:
        check_topic_name(name)
        if not is_allowed(broker, context, _READ, name):
            raise denied(_READ)
    except ApiError as error:
        return [
            DescribeProducersResponse.PartitionResponse(
                partition_index=index, error_code=error.code, error_message=error.message
            )
            for index in indexes
        ]
    return [_partition(broker, name, index) for index in indexes]


def _partition(broker: Broker, name: str, index: int) -> DescribeProducersResponse.PartitionResponse:
    try:
        partition = broker.replica_manager.partition(name, index)
        partition.check_online()
    except MAPPED_ERRORS as error:
        return DescribeProducersResponse.PartitionResponse(
            partition_index=index,
            error_code=error_code_of(error),
            error_message=error.message if isinstance(error, ApiError) else str(error),
        )
    producers = partition.log.producer_state_manager.producers.values()
    return DescribeProducersResponse.PartitionResponse(
        partition_index=index, active_producers=[_producer(entry) for entry in producers]
    )


def _producer(entry: ProducerStateEntry) -> DescribeProducersResponse.ProducerState:
    return DescribeProducersResponse.ProducerState(
        producer_id=entry.producer_id,
        producer_epoch=entry.producer_epoch,
        last_sequence=entry.last_sequence,
        last_timestamp=entry.last_timestamp,
        coordinator_epoch=entry.coordinator_epoch,
        current_txn_start_offset=entry.current_txn_first_offset,
    )
