"""CreateTopics and DeleteTopics: answered when the records are durable and the logs exist."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, cast

from barnabas.broker.controller.embedded import Decision
from barnabas.broker.controller.topic_admin import (
    NewTopic,
    TopicSpec,
    config_removals,
    new_topics,
    removal_record,
)
from barnabas.broker.kafka_apis.api_checks import checks_of
from barnabas.broker.kafka_apis.authorization import allowed_names, denied, is_allowed, split
from barnabas.broker.metadata.image import MetadataImage
from barnabas.broker.pending import Pending
from barnabas.broker.request import PartitionCharge, RequestContext, api
from barnabas.broker.security.auth_helper import EVERYTHING
from barnabas.broker.security.decisions import Check
from barnabas.config.catalogue.server import DELETE_TOPIC_ENABLE
from barnabas.config.describe import describe_new_topic
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages.topic_records import RemoveTopicRecord
from barnabas.protocol.messages.topics import (
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)
from barnabas.protocol.schema import Message
from barnabas.protocol.wire import ZERO_UUID, EncodedArray, Uuid
from barnabas.storage.manager.log_manager import CLUSTER_METADATA_TOPIC

if TYPE_CHECKING:
    from barnabas.broker.broker import Broker

_CREATE_ANY, _CREATE, _SHOW_CONFIGS = checks_of(ApiKey.CREATE_TOPICS)
_DELETE_ANY, _DESCRIBE, _DELETE = checks_of(ApiKey.DELETE_TOPICS)

_DELETION_DISABLED_SINCE: Final = 3
_TOPIC_STATES_SINCE: Final = 6
_CONFIGS_SINCE: Final = 5
_STRICT_CREATION_SINCE: Final = 6
_STRICT_DELETION_SINCE: Final = 5
"""Clients that send these versions know THROTTLING_QUOTA_EXCEEDED (KIP-599)."""


def _charge(context: RequestContext, *, strict_since: int) -> PartitionCharge | None:
    """The client's quota of changes to topics; None without one."""
    if context.meter is None:
        return None
    return context.meter.mutation_charge(is_strict=context.api_version >= strict_since)


@api(ApiKey.CREATE_TOPICS, versions=(2, 7), forwardable=True)
def create_topics(
    broker: Broker, context: RequestContext, request: CreateTopicsRequest
) -> Pending[CreateTopicsResponse]:
    counts = Counter(topic.name for topic in request.topics)
    doubled = [name for name, count in counts.items() if count > 1]
    once = [name for name, count in counts.items() if count == 1 and name != CLUSTER_METADATA_TOPIC]
    refused: list[str] = []
    if not is_allowed(broker, context, _CREATE_ANY):
        _, refused = split(once, allowed_names(broker, context, _CREATE, once), str)
    shows_configs = allowed_names(broker, context, _SHOW_CONFIGS, once)
    specs = [
        _spec(topic) for topic in request.topics if counts[topic.name] == 1 and topic.name not in refused
    ]
    charge = _charge(context, strict_since=_STRICT_CREATION_SINCE)

    def rejected(error_of_all: ApiError) -> CreateTopicsResponse:
        return CreateTopicsResponse(
            topics=[_not_created(topic.name, error_of_all) for topic in request.topics]
        )

    def decide(image: MetadataImage) -> Decision[CreateTopicsResponse]:
        no_space = broker.replica_manager.no_space_error()
        outcomes = new_topics(
            image, specs, broker.topic_defaults, broker.new_topic_id, no_space, charge=charge
        )
        for name in doubled:
            outcomes[name] = ApiError(
                ErrorCode.INVALID_REQUEST, f"Duplicate topic name: '{name}' is in the request more than once."
            )
        for name in refused:
            outcomes[name] = ApiError(denied(_CREATE).code, "Authorization failed.")
        accepted = [topic for topic in outcomes.values() if isinstance(topic, NewTopic)]
        response = CreateTopicsResponse(
            topics=[
                _created(broker, context.api_version, outcome, shows_configs=name in shows_configs)
                if isinstance(outcome, NewTopic)
                else _not_created(name, outcome)
                for name, outcome in sorted(
                    outcomes.items(), key=lambda item: item[0] == CLUSTER_METADATA_TOPIC
                )
            ]
        )
        records: list[Message] = []
        if not request.validate_only:
            records = [record for topic in accepted for record in topic.records]
        return Decision(response, records)

    return broker.controller.change("The topics", decide, rejected)


def _spec(topic: CreateTopicsRequest.CreatableTopic) -> TopicSpec:
    return TopicSpec(
        topic.name,
        partition_count=topic.num_partitions,
        replication_factor=topic.replication_factor,
        assignments=[(item.partition_index, item.broker_ids) for item in topic.assignments],
        configs=_settings(topic.configs),
    )


def _settings(items: Iterable[CreateTopicsRequest.CreatableTopicConfig]) -> dict[str, str | None]:
    """The settings by name; of a repeated key the last one counts, unless one of them has no value."""
    items = list(items)
    without_value = {item.name: None for item in items if item.value is None}
    return {item.name: item.value for item in items} | without_value


def _created(
    broker: Broker, version: int, topic: NewTopic, *, shows_configs: bool
) -> CreateTopicsResponse.CreatableTopicResult:
    if not shows_configs:
        return CreateTopicsResponse.CreatableTopicResult(
            name=topic.name,
            topic_id=topic.topic_id,
            error_message=None,
            topic_config_error_code=denied(_SHOW_CONFIGS).code,
            configs=[],
        )
    configs: EncodedArray | list[CreateTopicsResponse.CreatableTopicConfigs] = []
    if topic.configs:
        configs = _described(broker, topic.configs)
    elif version >= _CONFIGS_SINCE:
        configs = broker.topic_answers.default_configs(
            broker.image, lambda: _described(broker, topic.configs), version
        )
    return CreateTopicsResponse.CreatableTopicResult(
        name=topic.name,
        topic_id=topic.topic_id,
        error_message=None,
        num_partitions=len(topic.partitions),
        replication_factor=len(topic.partitions[0].replicas),
        configs=cast("list[CreateTopicsResponse.CreatableTopicConfigs]", configs),
    )


def _described(broker: Broker, own: Mapping[str, str]) -> list[CreateTopicsResponse.CreatableTopicConfigs]:
    """All settings of a topic with these settings of its own."""
    return [
        CreateTopicsResponse.CreatableTopicConfigs(
            name=entry.name,
            value=entry.value,
            read_only=entry.read_only,
            config_source=entry.source,
            is_sensitive=entry.sensitive,
        )
        for entry in describe_new_topic(broker.config, own)
    ]


def _not_created(name: str, error: ApiError) -> CreateTopicsResponse.CreatableTopicResult:
    return CreateTopicsResponse.CreatableTopicResult(
        name=name, error_code=error.code, error_message=error.message, configs=[]
    )


_Named = tuple[str | None, Uuid]
"""A topic in a DeleteTopics request: by its name, or by its id where the name is None."""


@api(ApiKey.DELETE_TOPICS, versions=(1, 6), forwardable=True)
def delete_topics(
    broker: Broker, context: RequestContext, request: DeleteTopicsRequest
) -> DeleteTopicsResponse | Pending[DeleteTopicsResponse]:
    version = context.api_version
    doomed: list[_Named] = [(state.name, state.topic_id) for state in request.topics]
    if version < _TOPIC_STATES_SINCE:
        doomed = [(name, ZERO_UUID) for name in request.topic_names]
    if not broker.config[DELETE_TOPIC_ENABLE]:
        named = version >= _DELETION_DISABLED_SINCE
        disabled = ApiError(
            ErrorCode.TOPIC_DELETION_DISABLED if named else ErrorCode.INVALID_REQUEST,
            "delete.topic.enable is false on this broker.",
        )
        return _all_rejected(doomed, disabled)
    charge = _charge(context, strict_since=_STRICT_DELETION_SINCE)

    may_delete_all = is_allowed(broker, context, _DELETE_ANY)

    def authorize(check: Check, names: Sequence[str]) -> Container[str]:
        return EVERYTHING if may_delete_all else allowed_names(broker, context, check, names)

    def decide(image: MetadataImage) -> Decision[DeleteTopicsResponse]:
        answers, records = _deletions(image, doomed, authorize, charge)
        return Decision(DeleteTopicsResponse(responses=answers), records)

    return broker.controller.change("The deletion", decide, partial(_all_rejected, doomed))


_Authorize = Callable[[Check, Sequence[str]], Container[str]]


def _deletions(
    image: MetadataImage, doomed: Sequence[_Named], authorize: _Authorize, charge: PartitionCharge | None
) -> tuple[list[DeleteTopicsResponse.DeletableTopicResult], list[Message]]:
    """The results, and the records that remove the topics that exist and are named once.

    A topic that is named twice stays: the client may have meant another one. It is answered once, but for
    entries with both a name and an id, or neither: each of those is answered for itself. Of one that the client may not
    describe nothing is said but that, and one by id is not named.
    """
    answers = []
    found: dict[Uuid, tuple[str, RemoveTopicRecord]] = {}
    counts = Counter(doomed)
    for topic in [topic for topic in doomed if _is_malformed(topic)]:
        answers.append(_not_deleted(topic, _malformed(topic)))
        counts.pop(topic, None)
    names = [
        name
        for given, topic_id in (topic for topic, count in counts.items() if count == 1)
        if (name := image.topic_names.get(topic_id) if given is None else given) is not None
    ]
    visible, deletable = authorize(_DESCRIBE, names), authorize(_DELETE, names)
    for topic in sorted(counts, key=lambda named: named[0] is not None):  # by id first, then by name
        try:
            _check_named_once(topic, counts[topic])
            if topic[0] is not None and topic[0] not in visible:
                raise denied(_DESCRIBE)
            name, record = removal_record(image, name=topic[0], topic_id=topic[1])
            if name not in deletable:
                topic = (topic[0] or (name if name in visible else None), topic[1])  # noqa: PLW2901 (the answer may name it)
                raise denied(_DELETE)
            if found.pop(record.topic_id, None) is not None:
                topic = name, record.topic_id  # noqa: PLW2901 (the answer says what both stand for)
                raise _twice("The provided topic name maps to an ID that was already supplied.")
        except ApiError as error:
            answers.append(_not_deleted(topic, error))
        else:
            found[record.topic_id] = name, record
    records: list[Message] = []
    for topic_id, (name, record) in found.items():
        try:
            if charge is not None:
                charge(name, len(image.topics[name].partitions))
        except ApiError as error:
            answers.append(_not_deleted((name, topic_id), error))
            continue
        answers.append(DeleteTopicsResponse.DeletableTopicResult(name=name, topic_id=topic_id))
        records += [*config_removals(image, name), record]
    return answers, records


def _is_malformed(topic: _Named) -> bool:
    name, topic_id = topic
    return (name is None) == (topic_id == ZERO_UUID)


def _malformed(topic: _Named) -> ApiError:
    message = "Neither topic name nor id were specified."
    if topic[0] is not None:
        message = "You may not specify both topic name and topic id."
    return ApiError(ErrorCode.INVALID_REQUEST, message)


def _check_named_once(topic: _Named, count: int) -> None:
    if count > 1:
        raise _twice("Duplicate topic id." if topic[0] is None else "Duplicate topic name.")


def _twice(message: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REQUEST, message)


def _not_deleted(topic: _Named, error: ApiError) -> DeleteTopicsResponse.DeletableTopicResult:
    name, topic_id = topic
    return DeleteTopicsResponse.DeletableTopicResult(
        name=name, topic_id=topic_id, error_code=error.code, error_message=error.message
    )


def _all_rejected(doomed: Sequence[_Named], error: ApiError) -> DeleteTopicsResponse:
    return DeleteTopicsResponse(responses=[_not_deleted(topic, error) for topic in doomed])
