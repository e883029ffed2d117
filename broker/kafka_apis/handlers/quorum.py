"""DescribeQuorum and UnregisterBroker: the nodes of the cluster (KIP-595, KIP-631)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from barnabas.broker.controller.embedded import Decision
from barnabas.broker.pending import Pending
from barnabas.broker.request import RequestContext, api
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages.cluster import UnregisterBrokerRequest, UnregisterBrokerResponse
from barnabas.protocol.messages.cluster_records import UnregisterBrokerRecord
from barnabas.protocol.messages.quorum import DescribeQuorumRequest, DescribeQuorumResponse
from barnabas.protocol.wire import ZERO_UUID
from barnabas.storage.manager.log_manager import CLUSTER_METADATA_TOPIC

if TYPE_CHECKING:
    from barnabas.broker.broker import Broker
    from barnabas.broker.metadata.image import MetadataImage

_NODES_SINCE: Final = 2
_NOT_HOSTED: Final = "This server does not host this topic-partition."


@api(ApiKey.DESCRIBE_QUORUM, versions=(0, 2), forwardable=True)
def describe_quorum(
    broker: Broker, context: RequestContext, request: DescribeQuorumRequest
) -> DescribeQuorumResponse:
    """One partition has a quorum; a request that names any other is rejected as a whole."""
    response = DescribeQuorumResponse(error_message="")
    named = [
        (topic.topic_name, part.partition_index) for topic in request.topics for part in topic.partitions
    ]
    is_right = named == [(CLUSTER_METADATA_TOPIC, 0)] and len(request.topics) == 1
    response.topics = [
        DescribeQuorumResponse.TopicData(
            topic_name=topic.topic_name,
            partitions=[
                _partition(broker, context.api_version) if is_right else _not_hosted(part.partition_index)
                for part in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    if is_right and context.api_version >= _NODES_SINCE:
        response.nodes = [_node(broker)]
    return response


def _partition(broker: Broker, version: int) -> DescribeQuorumResponse.PartitionData:
    """The log is that of the only voter, which fetches from itself now, and all of it is committed."""
    log, now_ms = broker.own_quorum.log, broker.own_quorum.now_ms()
    names_directory = broker.own_quorum.kraft_version > 0 and version >= _NODES_SINCE
    voter = DescribeQuorumResponse.ReplicaState(
        replica_id=log.node_id,
        replica_directory_id=log.directory_id if names_directory else ZERO_UUID,
        log_end_offset=log.end_offset,
        last_fetch_timestamp=now_ms,
        last_caught_up_timestamp=now_ms,
    )
    return DescribeQuorumResponse.PartitionData(
        partition_index=0,
        error_message="",
        leader_id=log.node_id,
        leader_epoch=log.leader_epoch,
        high_watermark=log.end_offset,
        current_voters=[voter],
    )


def _not_hosted(index: int) -> DescribeQuorumResponse.PartitionData:
    return DescribeQuorumResponse.PartitionData(
        partition_index=index,
        error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        error_message=_NOT_HOSTED,
    )


def _node(broker: Broker) -> DescribeQuorumResponse.Node:
    return DescribeQuorumResponse.Node(
        node_id=broker.own_quorum.log.node_id,
        listeners=[
            DescribeQuorumResponse.Listener(name=at.name, host=at.host or "localhost", port=at.port)
            for at in broker.own_quorum.listeners
        ],
    )


@api(ApiKey.UNREGISTER_BROKER, versions=(0, 0), forwardable=True)
def unregister_broker(
    broker: Broker, _context: RequestContext, request: UnregisterBrokerRequest
) -> Pending[UnregisterBrokerResponse] | UnregisterBrokerResponse:
    """Removes a broker that is gone; rejected for this one, which could not serve without its registration."""
    broker_id = request.broker_id

    def rejected(error: ApiError) -> UnregisterBrokerResponse:
        return UnregisterBrokerResponse(error_code=error.code, error_message=error.message)

    def decide(image: MetadataImage) -> Decision[UnregisterBrokerResponse]:
        found = image.brokers.get(broker_id)
        if found is None:
            raise ApiError(
                ErrorCode.BROKER_ID_NOT_REGISTERED, f"Broker ID {broker_id} is not currently registered"
            )
        record = UnregisterBrokerRecord(broker_id=broker_id, broker_epoch=found.epoch)
        return Decision(UnregisterBrokerResponse(error_message=""), [record])

    if broker_id == broker.node_id:
        return rejected(
            ApiError(
                ErrorCode.INVALID_REQUEST,
                f"Broker {broker_id} is the one that serves this cluster: it cannot be unregistered",
            )
        )
    return broker.controller.change("The broker's removal", decide, rejected)
