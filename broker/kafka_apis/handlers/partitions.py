"""CreatePartitions, ElectLeaders, AlterPartitionReassignments and ListPartitionReassignments."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from barnabas.broker.controller.embedded import Decision
from barnabas.broker.controller.partition_admin import (
    cancel_reassignment,
    elect_leader,
    new_partitions,
    reassign,
    reassignments,
)
from barnabas.broker.controller.partition_change import Election
from barnabas.broker.controller.topic_placement import Brokers
from barnabas.broker.kafka_apis.api_checks import checks_of
from barnabas.broker.kafka_apis.authorization import allowed_names, denied, split
from barnabas.broker.metadata.image import MetadataImage
from barnabas.broker.metadata.log import MAX_RECORDS_PER_USER_OP
from barnabas.broker.metadata.topics import PartitionImage
from barnabas.broker.pending import Pending
from barnabas.broker.request import PartitionCharge, RequestContext, api
from barnabas.config.log_config import LogConfig
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages.topic_records import PartitionChangeRecord, PartitionRecord
from barnabas.protocol.messages.topics import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    ElectLeadersRequest,
    ElectLeadersResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)

if TYPE_CHECKING:
    from barnabas.broker.broker import Broker

(_ALTER,) = checks_of(ApiKey.CREATE_PARTITIONS)

_ELECTIONS: Final = {0: Election.PREFERRED, 1: Election.UNCLEAN}
"""By ElectionType's numbers; requests of version 0 know the first only."""

_STRICT_CREATION_SINCE: Final = 3
"""Clients that send this version know THROTTLING_QUOTA_EXCEEDED (KIP-599)."""


def _is_usable(broker: Broker) -> Callable[[str, PartitionImage, int], bool]:
    """Whether a node is up with its replica, which is known of this broker's replicas."""

    def usable(name: str, partition: PartitionImage, node: int) -> bool:
        if node == broker.node_id:
            return not broker.replica_manager.is_offline(name, partition.partition)
        return node in broker.topic_defaults.brokers

    return usable


# ---- CreatePartitions


@api(ApiKey.CREATE_PARTITIONS, versions=(0, 3), forwardable=True)
def create_partitions(
    broker: Broker, context: RequestContext, request: CreatePartitionsRequest
) -> Pending[CreatePartitionsResponse]:
    counts = Counter(topic.name for topic in request.topics)
    once = [topic for topic in request.topics if counts[topic.name] == 1]
    allowed = allowed_names(broker, context, _ALTER, [topic.name for topic in once])
    topics, refused = split(once, allowed, attrgetter("name"))
    charge: PartitionCharge | None = None
    if context.meter is not None:
        charge = context.meter.mutation_charge(is_strict=context.api_version >= _STRICT_CREATION_SINCE)

    def decide(image: MetadataImage) -> Decision[CreatePartitionsResponse]:
        results = [
            _partitions_result(name, _named_twice(name)) for name, count in counts.items() if count > 1
        ]
        results += [_partitions_result(topic.name, denied(_ALTER)) for topic in refused]
        records: list[PartitionRecord] = []
        for topic in topics:
            try:
                records += _new_partitions(
                    broker, image, topic, MAX_RECORDS_PER_USER_OP - len(records), charge
                )
            except ApiError as error:
                results.append(_partitions_result(topic.name, error))
            else:
                results.append(_partitions_result(topic.name, None))
        return Decision(CreatePartitionsResponse(results=results), [] if request.validate_only else records)

    def rejected(error: ApiError) -> CreatePartitionsResponse:
        return CreatePartitionsResponse(results=[_partitions_result(name, error) for name in counts])

    return broker.controller.change("The partitions", decide, rejected)


def _new_partitions(
    broker: Broker,
    image: MetadataImage,
    topic: CreatePartitionsRequest.CreatePartitionsTopic,
    limit: int,
    charge: PartitionCharge | None,
) -> list[PartitionRecord]:
    known = image.topics.get(topic.name)
    if known is None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    too_many = ApiError(
        ErrorCode.POLICY_VIOLATION, f"One request may create {MAX_RECORDS_PER_USER_OP} partitions in all."
    )
    assignments = None
    if topic.assignments is not None:
        assignments = [assignment.broker_ids for assignment in topic.assignments]
    elif topic.count - len(known.partitions) > limit:
        raise too_many
    records = new_partitions(
        image,
        topic.name,
        topic.count,
        assignments,
        Brokers.of(image, broker.topic_defaults.brokers),
        charge=charge,
    )
    if len(records) > limit:
        raise too_many
    if no_space := broker.replica_manager.no_space_error():
        raise no_space
    return records


def _named_twice(name: str) -> ApiError:
    return ApiError(
        ErrorCode.INVALID_REQUEST, f"Duplicate topic name: '{name}' is in the request more than once."
    )


def _partitions_result(
    name: str, error: ApiError | None
) -> CreatePartitionsResponse.CreatePartitionsTopicResult:
    if error is None:
        return CreatePartitionsResponse.CreatePartitionsTopicResult(name=name)
    return CreatePartitionsResponse.CreatePartitionsTopicResult(
        name=name, error_code=error.code, error_message=error.message
    )


# ---- ElectLeaders


@api(ApiKey.ELECT_LEADERS, versions=(0, 2), forwardable=True)
def elect_leaders(
    broker: Broker, context: RequestContext, request: ElectLeadersRequest
) -> ElectLeadersResponse | Pending[ElectLeadersResponse]:
    if request.topic_partitions is not None and not request.topic_partitions:
        return ElectLeadersResponse()
    election = _ELECTIONS.get(request.election_type)
    if election is None:
        unknown = f"Unknown election type {request.election_type}"
        return _elections_rejected(request, ApiError(ErrorCode.INVALID_REQUEST, unknown))
    chosen = election

    def decide(image: MetadataImage) -> Decision[ElectLeadersResponse]:
        records: list[PartitionChangeRecord] = []
        response = ElectLeadersResponse()
        for name, indexes in _partitions_to_elect(image, request):
            results = []
            for index in indexes:
                error = None
                try:
                    records.append(elect_leader(image, name, index, chosen, _is_usable(broker)))
                except ApiError as caught:
                    error = caught
                if request.topic_partitions is None and _is_led(error):
                    continue
                results.append(_election_result(index, error))
            response.replica_election_results.append(
                ElectLeadersResponse.ReplicaElectionResult(topic=name, partition_result=results)
            )
        return Decision(response, records)

    return broker.controller.submit(
        decide, lambda _: _elections_rejected(request, ApiError(ErrorCode.KAFKA_STORAGE_ERROR, ""))
    )


def _partitions_to_elect(image: MetadataImage, request: ElectLeadersRequest) -> list[tuple[str, list[int]]]:
    """The named partitions, or all."""
    if request.topic_partitions is None:
        return [(name, list(topic.partitions)) for name, topic in image.topics.items()]
    return [(topic.topic, topic.partitions) for topic in request.topic_partitions]


def _is_led(error: ApiError | None) -> bool:
    return error is not None and error.code is ErrorCode.ELECTION_NOT_NEEDED


def _election_result(index: int, error: ApiError | None) -> ElectLeadersResponse.PartitionResult:
    if error is None:
        return ElectLeadersResponse.PartitionResult(partition_id=index, error_message=None)
    return ElectLeadersResponse.PartitionResult(
        partition_id=index, error_code=error.code, error_message=error.message
    )


def _elections_rejected(request: ElectLeadersRequest, error: ApiError) -> ElectLeadersResponse:
    """The same error for all named partitions, and for the response."""
    return ElectLeadersResponse(
        error_code=error.code,
        replica_election_results=[
            ElectLeadersResponse.ReplicaElectionResult(
                topic=topic.topic,
                partition_result=[_election_result(index, error) for index in topic.partitions],
            )
            for topic in request.topic_partitions or ()
        ],
    )


# ---- AlterPartitionReassignments


@api(ApiKey.ALTER_PARTITION_REASSIGNMENTS, versions=(0, 1), forwardable=True)
def alter_partition_reassignments(
    broker: Broker, context: RequestContext, request: AlterPartitionReassignmentsRequest
) -> Pending[AlterPartitionReassignmentsResponse]:
    def decide(image: MetadataImage) -> Decision[AlterPartitionReassignmentsResponse]:
        records: list[PartitionChangeRecord] = []

        def outcome(
            name: str, wanted: AlterPartitionReassignmentsRequest.ReassignablePartition
        ) -> ApiError | None:
            try:
                record = _reassigned(broker, image, name, wanted, request.allow_replication_factor_change)
            except ApiError as error:
                return error
            if record is not None:
                records.append(record)
            return None

        return Decision(_reassignment_response(request, outcome), records)

    def failed(error: BaseException) -> AlterPartitionReassignmentsResponse:
        response = _reassignment_response(request, lambda _, __: None)
        response.error_code = ErrorCode.KAFKA_STORAGE_ERROR
        response.error_message = f"The moves could not be recorded: {error}"
        return response

    return broker.controller.submit(decide, failed)


def _reassigned(
    broker: Broker,
    image: MetadataImage,
    name: str,
    wanted: AlterPartitionReassignmentsRequest.ReassignablePartition,
    may_change_count: bool,
) -> PartitionChangeRecord | None:
    if wanted.replicas is None:
        config = LogConfig.of(broker.config, image.topic_config(name))
        return cancel_reassignment(
            image,
            name,
            wanted.partition_index,
            _is_usable(broker),
            may_lose=config.unclean_leader_election_enable,
        )
    return reassign(
        image,
        name,
        wanted.partition_index,
        wanted.replicas,
        brokers=Brokers.of(image, broker.topic_defaults.brokers),
        is_usable=_is_usable(broker),
        may_change_count=may_change_count,
    )


def _reassignment_response(
    request: AlterPartitionReassignmentsRequest,
    outcome: Callable[[str, AlterPartitionReassignmentsRequest.ReassignablePartition], ApiError | None],
) -> AlterPartitionReassignmentsResponse:
    return AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change,
        error_message=None,
        responses=[
            AlterPartitionReassignmentsResponse.ReassignableTopicResponse(
                name=topic.name,
                partitions=[
                    _reassignment_result(wanted.partition_index, outcome(topic.name, wanted))
                    for wanted in topic.partitions
                ],
            )
            for topic in request.topics
        ],
    )


def _reassignment_result(
    index: int, error: ApiError | None
) -> AlterPartitionReassignmentsResponse.ReassignablePartitionResponse:
    result = AlterPartitionReassignmentsResponse.ReassignablePartitionResponse(
        partition_index=index, error_message=None
    )
    if error is not None:
        result.error_code, result.error_message = error.code, error.message
    return result


# ---- ListPartitionReassignments


@api(ApiKey.LIST_PARTITION_REASSIGNMENTS, versions=(0, 0), forwardable=True)
def list_partition_reassignments(
    broker: Broker, context: RequestContext, request: ListPartitionReassignmentsRequest
) -> ListPartitionReassignmentsResponse:
    asked = request.topics
    wanted = None if asked is None else [(topic.name, topic.partition_indexes) for topic in asked]
    return ListPartitionReassignmentsResponse(
        error_message=None,
        topics=[
            ListPartitionReassignmentsResponse.OngoingTopicReassignment(
                name=name, partitions=[_ongoing(partition) for partition in moving]
            )
            for name, moving in reassignments(broker.image, wanted)
        ],
    )


def _ongoing(partition: PartitionImage) -> ListPartitionReassignmentsResponse.OngoingPartitionReassignment:
    return ListPartitionReassignmentsResponse.OngoingPartitionReassignment(
        partition_index=partition.partition,
        replicas=list(partition.replicas),
        adding_replicas=list(partition.adding_replicas),
        removing_replicas=list(partition.removing_replicas),
    )
