"""CreateTopics and DeleteTopics: answered when done, that is, when the records are durable and the logs are there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from broker.controller import Decision
from broker.metadata_image import MetadataImage
from broker.request import Pending, RequestContext, api
from broker.topic_admin import NewTopic, TopicSpec, new_topics, removal_record
from config.catalogue.server import DELETE_TOPIC_ENABLE
from config.describe import describe_topic_configs
from protocol.api_keys import ApiKey
from protocol.errors import ApiError, ErrorCode
from protocol.messages.topic_records import RemoveTopicRecord
from protocol.messages.topics import (
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)
from protocol.schema import Message
from protocol.wire import ZERO_UUID, Uuid

if TYPE_CHECKING:
    from broker.services import Broker

_DELETION_DISABLED_SINCE: Final = 3
_TOPIC_STATES_SINCE: Final = 6


@api(ApiKey.CREATE_TOPICS, versions=(2, 7))
def create_topics(
    broker: Broker, context: RequestContext, request: CreateTopicsRequest
) -> Pending[CreateTopicsResponse]:
    counts = Counter(topic.name for topic in request.topics)
    doubled = [name for name, count in counts.items() if count > 1]
    specs = [_spec(topic) for topic in request.topics if counts[topic.name] == 1]

    def decide(image: MetadataImage) -> Decision[CreateTopicsResponse]:
        outcomes: dict[str, NewTopic | ApiError] = {
            name: ApiError(ErrorCode.INVALID_REQUEST, f"Topic '{name}' is in the request more than once.")
            for name in doubled
        }
        outcomes |= new_topics(image, specs, broker.topic_defaults, broker.new_topic_id)
        accepted = [topic for topic in outcomes.values() if isinstance(topic, NewTopic)]
        response = CreateTopicsResponse(
            topics=[
                _created(broker, outcome) if isinstance(outcome, NewTopic) else _not_created(name, outcome)
                for name, outcome in outcomes.items()
            ]
        )
        records: list[Message] = []
        if not request.validate_only:
            records = [record for topic in accepted for record in topic.records]
        return Decision(response, records)

    def failed(error: BaseException) -> CreateTopicsResponse:
        refusal = ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"The topics could not be recorded: {error}")
        return CreateTopicsResponse(topics=[_not_created(topic.name, refusal) for topic in request.topics])

    return broker.controller.submit(decide, failed)


def _spec(topic: CreateTopicsRequest.CreatableTopic) -> TopicSpec:
    return TopicSpec(
        topic.name,
        partition_count=topic.num_partitions,
        replication_factor=topic.replication_factor,
        assignments={item.partition_index: item.broker_ids for item in topic.assignments},
        configs={item.name: item.value for item in topic.configs},
    )


def _created(broker: Broker, topic: NewTopic) -> CreateTopicsResponse.CreatableTopicResult:
    return CreateTopicsResponse.CreatableTopicResult(
        name=topic.name,
        topic_id=topic.topic_id,
        num_partitions=len(topic.partitions),
        replication_factor=len(topic.partitions[0].replicas),
        configs=[
            CreateTopicsResponse.CreatableTopicConfigs(
                name=entry.name,
                value=entry.value,
                read_only=entry.read_only,
                config_source=entry.source,
                is_sensitive=entry.sensitive,
            )
            for entry in describe_topic_configs(broker.config, topic.configs)
        ],
    )


def _not_created(name: str, error: ApiError) -> CreateTopicsResponse.CreatableTopicResult:
    return CreateTopicsResponse.CreatableTopicResult(
        name=name, error_code=error.code, error_message=error.message, configs=None
    )


class _Doomed:
    """One topic of a DeleteTopics request: by name or, where that is None, by id."""

    __slots__ = ("name", "topic_id")

    def __init__(self, name: str | None, topic_id: Uuid = ZERO_UUID) -> None:
        self.name = name
        self.topic_id = topic_id


@api(ApiKey.DELETE_TOPICS, versions=(1, 6))
def delete_topics(
    broker: Broker, context: RequestContext, request: DeleteTopicsRequest
) -> DeleteTopicsResponse | Pending[DeleteTopicsResponse]:
    version = context.api_version
    if version >= _TOPIC_STATES_SINCE:
        doomed = [_Doomed(state.name, state.topic_id) for state in request.topics]
    else:
        doomed = [_Doomed(name) for name in request.topic_names]
    if not broker.config[DELETE_TOPIC_ENABLE]:
        named = version >= _DELETION_DISABLED_SINCE
        disabled = ApiError(
            ErrorCode.TOPIC_DELETION_DISABLED if named else ErrorCode.INVALID_REQUEST,
            "delete.topic.enable is false on this broker.",
        )
        return _all_refused(doomed, disabled)

    def decide(image: MetadataImage) -> Decision[DeleteTopicsResponse]:
        answers, records = _deletions(image, doomed)
        return Decision(DeleteTopicsResponse(responses=answers), records)

    def failed(error: BaseException) -> DeleteTopicsResponse:
        refusal = ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"The deletion could not be recorded: {error}")
        return _all_refused(doomed, refusal)

    return broker.controller.submit(decide, failed)


def _deletions(
    image: MetadataImage, doomed: Iterable[_Doomed]
) -> tuple[list[DeleteTopicsResponse.DeletableTopicResult], list[RemoveTopicRecord]]:
    """One answer for each topic asked for, and the records that remove those which can be."""
    answers = []
    found: dict[Uuid, tuple[_Doomed, str, RemoveTopicRecord]] = {}
    for topic in doomed:
        try:
            if topic.name is not None and topic.topic_id != ZERO_UUID:
                raise ApiError(
                    ErrorCode.INVALID_REQUEST, "A topic is named by its name or by its id, not by both."
                )
            name, record = removal_record(image, name=topic.name, topic_id=topic.topic_id)
            if record.topic_id in found:
                raise ApiError(ErrorCode.INVALID_REQUEST, f"Topic '{name}' is in the request more than once.")
        except ApiError as error:
            answers.append(_not_deleted(topic, error))
        else:
            found[record.topic_id] = (topic, name, record)
            answers.append(DeleteTopicsResponse.DeletableTopicResult(name=name, topic_id=record.topic_id))
    return answers, [record for _, _, record in found.values()]


def _not_deleted(topic: _Doomed, error: ApiError) -> DeleteTopicsResponse.DeletableTopicResult:
    return DeleteTopicsResponse.DeletableTopicResult(
        name=topic.name, topic_id=topic.topic_id, error_code=error.code, error_message=error.message
    )


def _all_refused(doomed: Iterable[_Doomed], error: ApiError) -> DeleteTopicsResponse:
    return DeleteTopicsResponse(responses=[_not_deleted(topic, error) for topic in doomed])
