"""Responses in which everything that a request asks for has failed alike: where the controller answers requests, and
where the authorizer denies one as a whole.

Source: org.apache.kafka.common.requests, getErrorResponse of each request.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from barnabas.broker.request import ANONYMOUS
from barnabas.protocol.api_keys import ApiKey, response_type
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.acls import CreateAclsResponse, DeleteAclsResponse
from barnabas.protocol.messages.commits import OffsetCommitResponse
from barnabas.protocol.messages.configs import AlterConfigsResponse, IncrementalAlterConfigsResponse
from barnabas.protocol.messages.log_dirs import AlterReplicaLogDirsResponse
from barnabas.protocol.messages.quotas import AlterClientQuotasResponse, DescribeClientQuotasResponse
from barnabas.protocol.messages.security import (
    AlterUserScramCredentialsResponse,
    DescribeUserScramCredentialsResponse,
)
from barnabas.protocol.messages.tokens import CreateDelegationTokenResponse
from barnabas.protocol.messages.topics import (
    AlterPartitionReassignmentsResponse,
    CreatePartitionsResponse,
    CreateTopicsResponse,
    DeleteTopicsResponse,
    ElectLeadersResponse,
)
from barnabas.protocol.messages.transactions import TxnOffsetCommitResponse
from barnabas.protocol.schema import Message

_NULL_PROTOCOL_SINCE: Final = 7
"""The version of JoinGroup."""
_REQUESTER_SINCE: Final = 3
"""The version of CreateDelegationToken."""


def error_response(request: Message, version: int, error: ErrorCode, message: str) -> Message:
    """The response to `request` that has this error wherever it can have one in this version."""
    assert request.api_key is not None
    make = _FORMS.get(request.api_key)
    if make is not None:
        response: Any = make(request, {"error_code": error, "error_message": message})
        if request.api_key == ApiKey.ELECT_LEADERS and version == 0:
            response.error_code = ErrorCode.NONE  # only partitions have errors
        if request.api_key == ApiKey.CREATE_DELEGATION_TOKEN and version >= _REQUESTER_SINCE:
            response.token_requester_principal_type = ANONYMOUS.principal_type
            response.token_requester_principal_name = ANONYMOUS.name
        return response  # type: ignore[no-any-return]
    kind = response_type(request.api_key)
    response = kind()
    response.error_code = error
    if hasattr(kind, "error_message"):
        response.error_message = message
    if request.api_key == ApiKey.JOIN_GROUP:  # a group without a protocol: null since version 7
        response.protocol_name = None if version >= _NULL_PROTOCOL_SINCE else ""
    return response  # type: ignore[no-any-return]


def _topics_created(request: Any, error: dict[str, Any]) -> Message:
    result = CreateTopicsResponse.CreatableTopicResult
    return CreateTopicsResponse(
        topics=[result(name=topic.name, configs=[], **error) for topic in request.topics]
    )


def _topics_deleted(request: Any, error: dict[str, Any]) -> Message:
    result = DeleteTopicsResponse.DeletableTopicResult
    named = [result(name=name, **error) for name in request.topic_names]
    states = [result(name=state.name, topic_id=state.topic_id, **error) for state in request.topics]
    return DeleteTopicsResponse(responses=named + states)


def _acls_created(request: Any, error: dict[str, Any]) -> Message:
    return CreateAclsResponse(
        results=[CreateAclsResponse.AclCreationResult(**error) for _ in request.creations]
    )


def _acls_deleted(request: Any, error: dict[str, Any]) -> Message:
    result = DeleteAclsResponse.DeleteAclsFilterResult
    return DeleteAclsResponse(filter_results=[result(**error) for _ in request.filters])


def _configs_altered(
    kind: type[AlterConfigsResponse | IncrementalAlterConfigsResponse],
) -> Callable[[Any, dict[str, Any]], Message]:
    def make(request: Any, error: dict[str, Any]) -> Message:
        result: Any = kind.AlterConfigsResourceResponse
        return kind(
            responses=[
                result(resource_type=each.resource_type, resource_name=each.resource_name, **error)
                for each in request.resources
            ]
        )

    return make


def _partitions_created(request: Any, error: dict[str, Any]) -> Message:
    result = CreatePartitionsResponse.CreatePartitionsTopicResult
    return CreatePartitionsResponse(results=[result(name=topic.name, **error) for topic in request.topics])


def _leaders_elected(request: Any, error: dict[str, Any]) -> Message:
    result = ElectLeadersResponse.PartitionResult
    return ElectLeadersResponse(
        error_code=error["error_code"],
        replica_election_results=[
            ElectLeadersResponse.ReplicaElectionResult(
                topic=topic.topic,
                partition_result=[result(partition_id=index, **error) for index in topic.partitions],
            )
            for topic in request.topic_partitions or ()
        ],
    )


def _reassigned(request: Any, error: dict[str, Any]) -> Message:
    result = AlterPartitionReassignmentsResponse.ReassignablePartitionResponse
    return AlterPartitionReassignmentsResponse(
        **error,
        responses=[
            AlterPartitionReassignmentsResponse.ReassignableTopicResponse(
                name=topic.name,
                partitions=[
                    result(partition_index=part.partition_index, **error) for part in topic.partitions
                ],
            )
            for topic in request.topics
        ],
    )


def _quotas_altered(request: Any, error: dict[str, Any]) -> Message:
    entity = AlterClientQuotasResponse.EntityData
    return AlterClientQuotasResponse(
        entries=[
            AlterClientQuotasResponse.EntryData(
                entity=[
                    entity(entity_type=one.entity_type, entity_name=one.entity_name) for one in entry.entity
                ],
                **error,
            )
            for entry in request.entries
        ]
    )


def _scram_altered(request: Any, error: dict[str, Any]) -> Message:
    users = dict.fromkeys(each.name for each in (*request.deletions, *request.upsertions))
    result = AlterUserScramCredentialsResponse.AlterUserScramCredentialsResult
    return AlterUserScramCredentialsResponse(results=[result(user=user, **error) for user in users])


def _offsets_committed(request: Any, error: dict[str, Any]) -> Message:
    topic_result = OffsetCommitResponse.OffsetCommitResponseTopic
    result = OffsetCommitResponse.OffsetCommitResponsePartition
    code = error["error_code"]
    return OffsetCommitResponse(
        topics=[
            topic_result(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    result(partition_index=part.partition_index, error_code=code) for part in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _txn_offsets_committed(request: Any, error: dict[str, Any]) -> Message:
    topic_result = TxnOffsetCommitResponse.TxnOffsetCommitResponseTopic
    result = TxnOffsetCommitResponse.TxnOffsetCommitResponsePartition
    code = error["error_code"]
    return TxnOffsetCommitResponse(
        topics=[
            topic_result(
                name=topic.name,
                partitions=[
                    result(partition_index=part.partition_index, error_code=code) for part in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _log_dirs_altered(request: Any, error: dict[str, Any]) -> Message:
    result = AlterReplicaLogDirsResponse.AlterReplicaLogDirPartitionResult
    code = error["error_code"]
    return AlterReplicaLogDirsResponse(
        results=[
            AlterReplicaLogDirsResponse.AlterReplicaLogDirTopicResult(
                topic_name=topic.name,
                partitions=[result(partition_index=index, error_code=code) for index in topic.partitions],
            )
            for directory in request.dirs
            for topic in directory.topics
        ]
    )


def _token_not_created(request: Any, error: dict[str, Any]) -> Message:
    return CreateDelegationTokenResponse(
        error_code=error["error_code"],
        principal_type=ANONYMOUS.principal_type,
        principal_name=ANONYMOUS.name,
        issue_timestamp_ms=-1,
        expiry_timestamp_ms=-1,
        max_timestamp_ms=-1,
    )


def _quotas_described(request: Any, error: dict[str, Any]) -> Message:
    return DescribeClientQuotasResponse(entries=None, **error)


def _scram_described(request: Any, error: dict[str, Any]) -> Message:
    """A result for each user that was asked for, though Kafka does not name it."""
    result = DescribeUserScramCredentialsResponse.DescribeUserScramCredentialsResult
    return DescribeUserScramCredentialsResponse(
        results=[result(**error) for _ in request.users or ()], **error
    )


_FORMS: Final[dict[int, Callable[[Any, dict[str, Any]], Message]]] = {
    ApiKey.CREATE_TOPICS: _topics_created,
    ApiKey.DELETE_TOPICS: _topics_deleted,
    ApiKey.CREATE_ACLS: _acls_created,
    ApiKey.DELETE_ACLS: _acls_deleted,
    ApiKey.ALTER_CONFIGS: _configs_altered(AlterConfigsResponse),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: _configs_altered(IncrementalAlterConfigsResponse),
    ApiKey.CREATE_PARTITIONS: _partitions_created,
    ApiKey.ELECT_LEADERS: _leaders_elected,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: _reassigned,
    ApiKey.ALTER_CLIENT_QUOTAS: _quotas_altered,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: _scram_altered,
    ApiKey.CREATE_DELEGATION_TOKEN: _token_not_created,
    ApiKey.OFFSET_COMMIT: _offsets_committed,
    ApiKey.TXN_OFFSET_COMMIT: _txn_offsets_committed,
    ApiKey.ALTER_REPLICA_LOG_DIRS: _log_dirs_altered,
    ApiKey.DESCRIBE_CLIENT_QUOTAS: _quotas_described,
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: _scram_described,
}
"""The others have one error code for all."""


def has_error_response(request: Message, version: int) -> bool:
    """Whether the response to `request` has a place for an error in this version that is known here."""
    assert request.api_key is not None
    if request.api_key in _FORMS:
        return True
    of_all = [field for field in response_type(request.api_key).fields if field.name == "error_code"]
    return any(field.versions.has(version) for field in of_all)
