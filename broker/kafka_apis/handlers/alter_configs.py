"""AlterConfigs and IncrementalAlterConfigs. The rules are in config_admin.py and loggers.py."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from barnabas.broker.controller.config_admin import (
    ChecksWaitError,
    ConfigAdmin,
    ConfigAlteration,
    KeyAlteration,
    check_form,
    repeated_resources,
)
from barnabas.broker.controller.embedded import Decision
from barnabas.broker.controller.loggers import alter_loggers
from barnabas.broker.kafka_apis.api_checks import checks_of
from barnabas.broker.kafka_apis.authorization import denied, is_allowed
from barnabas.broker.metadata.image import (
    BROKER_LOGGER_RESOURCE,
    BROKER_RESOURCE,
    CLIENT_METRICS_RESOURCE,
    GROUP_RESOURCE,
    TOPIC_RESOURCE,
    MetadataImage,
)
from barnabas.broker.pending import Pending, all_of
from barnabas.broker.request import RequestContext, api
from barnabas.config.alteration import AlterOperation
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages.acls import CLUSTER_NAME
from barnabas.protocol.messages.configs import (
    AlterConfigsRequest,
    AlterConfigsResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from barnabas.protocol.schema import Message

if TYPE_CHECKING:
    from barnabas.broker.broker import Broker

_ALTER_TOPIC, _ALTER_GROUP, _ALTER_CLUSTER = checks_of(ApiKey.INCREMENTAL_ALTER_CONFIGS)
"""Those of AlterConfigs are the same."""

_CHECKS: Final = {
    TOPIC_RESOURCE: _ALTER_TOPIC,
    GROUP_RESOURCE: _ALTER_GROUP,
    BROKER_RESOURCE: _ALTER_CLUSTER,
    CLIENT_METRICS_RESOURCE: _ALTER_CLUSTER,
}
_NAMED: Final = (TOPIC_RESOURCE, GROUP_RESOURCE)

Response = TypeVar("Response", AlterConfigsResponse, IncrementalAlterConfigsResponse)


@api(ApiKey.ALTER_CONFIGS, versions=(0, 2), forwardable=True)
def alter_configs(
    broker: Broker, context: RequestContext, request: AlterConfigsRequest
) -> Pending[AlterConfigsResponse]:
    alterations = alterations_of(request)
    refused = _denied(broker, context, alterations)
    return _alter_when_checked(
        broker, alterations, refused, AlterConfigsResponse, validate_only=request.validate_only
    )


@api(ApiKey.INCREMENTAL_ALTER_CONFIGS, versions=(0, 1), forwardable=True)
def incremental_alter_configs(
    broker: Broker, context: RequestContext, request: IncrementalAlterConfigsRequest
) -> Pending[IncrementalAlterConfigsResponse]:
    alterations = alterations_of(request)
    done = alter_own_loggers(broker, context, alterations, validate_only=request.validate_only)
    done |= _denied(broker, context, alterations)
    return _alter_when_checked(
        broker, alterations, done, IncrementalAlterConfigsResponse, validate_only=request.validate_only
    )


def _denied(
    broker: Broker, context: RequestContext, alterations: Sequence[ConfigAlteration]
) -> dict[int, ApiError | None]:
    """The errors of resources that the client may not alter, by position.

    What is malformed or named twice is left to `_alter`, and settings that this broker cannot have, which Kafka's
    brokers reject before the controller authorizes the rest. But nobody who may not alter settings has this broker read
    files, load classes or connect to other hosts.
    """
    if broker.auth is None:
        return {}
    repeated = repeated_resources(each.resource for each in alterations)
    errors: dict[int, ApiError | None] = {}
    for position, alteration in enumerate(alterations):
        kind, name = alteration.resource
        check = _CHECKS.get(kind)
        if check is None or alteration.resource in repeated or not _is_sound(broker, alteration):
            continue
        if not is_allowed(broker, context, check, name if kind in _NAMED else CLUSTER_NAME):
            errors[position] = denied(check)
    return errors


def _is_sound(broker: Broker, alteration: ConfigAlteration) -> bool:
    try:
        check_form(alteration)
    except ApiError:
        return False
    if alteration.resource[0] != BROKER_RESOURCE:
        return True
    admin = ConfigAdmin(broker.config, broker.node_id, asks_parts=False)
    (outcome,) = admin.decide(broker.image, [alteration])
    return not isinstance(outcome, ApiError)


def alterations_of(
    request: AlterConfigsRequest | IncrementalAlterConfigsRequest,
) -> list[ConfigAlteration]:
    """The alterations that a request asks for, in its order."""
    if isinstance(request, AlterConfigsRequest):
        return [
            ConfigAlteration(
                (resource.resource_type, resource.resource_name),
                [KeyAlteration(config.name, AlterOperation.SET, config.value) for config in resource.configs],
                replaces=True,
            )
            for resource in request.resources
        ]
    return [
        ConfigAlteration(
            (resource.resource_type, resource.resource_name),
            [
                KeyAlteration(config.name, config.config_operation, config.value)
                for config in resource.configs
            ],
        )
        for resource in request.resources
    ]


def alter_own_loggers(
    broker: Broker, context: RequestContext, alterations: Sequence[ConfigAlteration], *, validate_only: bool
) -> dict[int, ApiError | None]:
    """Applies the alterations of loggers, which are not in the metadata; returns their errors, or None, by position."""
    repeated = repeated_resources(each.resource for each in alterations)
    outcomes: dict[int, ApiError | None] = {}
    for position, alteration in enumerate(alterations):
        kind, name = alteration.resource
        if kind != BROKER_LOGGER_RESOURCE or alteration.resource in repeated:
            continue
        outcomes[position] = None
        try:
            check_form(alteration)
            if not is_allowed(broker, context, _ALTER_CLUSTER):
                raise denied(_ALTER_CLUSTER)
            alter_loggers(name, alteration.keys, node_id=broker.node_id, validate_only=validate_only)
        except ApiError as error:
            outcomes[position] = error
    return outcomes


def after_checks(
    broker: Broker, alterations: Sequence[ConfigAlteration], positions: Iterable[int]
) -> Pending[dict[int, ApiError | None]] | None:
    """Completes when the settings of brokers at these positions can be decided on; None where they can be now.

    Its result are the errors of those that had to wait, by position. They are not to be decided on again: what could
    not be fetched is then fetched once more.
    """
    admin = ConfigAdmin(broker.config, broker.node_id)
    waiting: list[Pending[tuple[int, ApiError | None]]] = []
    for position in positions:
        if alterations[position].resource[0] == BROKER_RESOURCE:
            (outcome,) = admin.decide(broker.image, [alterations[position]])
            if isinstance(outcome, ChecksWaitError):
                checked = _checked_later(broker, admin, alterations[position], outcome)
                waiting.append(checked.then(partial(_at, position)))
    if not waiting:
        return None
    return all_of(waiting).then(lambda found: {at: error for at, error in found if error is not None})


def _at(position: int, error: ApiError | None) -> tuple[int, ApiError | None]:
    return position, error


def _checked_later(
    broker: Broker, admin: ConfigAdmin, alteration: ConfigAlteration, needed: ChecksWaitError
) -> Pending[ApiError | None]:
    """The error of an alteration, once everything that it needs has been fetched."""
    checked: Pending[ApiError | None] = Pending()

    def fetched() -> None:
        (outcome,) = admin.decide(broker.image, [alteration])
        if isinstance(outcome, ChecksWaitError):  # another provider
            outcome.wait.fetch(fetched)
        else:
            checked.complete(outcome if isinstance(outcome, ApiError) else None)

    needed.wait.fetch(fetched)
    return checked


def _alter_when_checked(
    broker: Broker,
    alterations: Sequence[ConfigAlteration],
    done: Mapping[int, ApiError | None],
    response_type: type[Response],
    *,
    validate_only: bool,
) -> Pending[Response]:
    """As `_alter`, when what this broker's own settings need has been fetched."""
    positions = [position for position in range(len(alterations)) if position not in done]
    checked = after_checks(broker, alterations, positions)
    if checked is None:
        return _alter(broker, alterations, done, response_type, validate_only=validate_only)
    answered: Pending[Response] = Pending()

    def alter(errors: dict[int, ApiError | None]) -> None:
        everything = {**done, **errors}
        altered = _alter(broker, alterations, everything, response_type, validate_only=validate_only)
        altered.add_done_callback(answered.complete)

    checked.add_done_callback(alter)
    return answered


def _alter(
    broker: Broker,
    alterations: Sequence[ConfigAlteration],
    done: Mapping[int, ApiError | None],
    response_type: type[Response],
    *,
    validate_only: bool,
) -> Pending[Response]:
    """Submits the alterations to the controller, but those that are `done`, by position; the results are in order."""
    positions = [position for position in range(len(alterations)) if position not in done]
    admin = ConfigAdmin(broker.config, broker.node_id)

    def answer(outcomes: Sequence[ApiError | None]) -> Response:
        by_position = {**done, **dict(zip(positions, outcomes, strict=True))}
        return response_type(
            responses=[
                alteration_result(response_type, alteration, by_position[position])
                for position, alteration in enumerate(alterations)
            ]
        )

    def decide(image: MetadataImage) -> Decision[Response]:
        outcomes = admin.decide(image, [alterations[position] for position in positions])
        granted = [outcome for outcome in outcomes if not isinstance(outcome, ApiError)]
        records: list[Message] = [] if validate_only else [record for each in granted for record in each]
        return Decision(
            answer([outcome if isinstance(outcome, ApiError) else None for outcome in outcomes]), records
        )

    return broker.controller.change(
        "The settings", decide, lambda failure: answer([failure] * len(positions))
    )


def alteration_result(
    response_type: type[Response], alteration: ConfigAlteration, error: ApiError | None
) -> Any:
    """The result of one alteration in a response of this type."""
    kind, name = alteration.resource
    return response_type.AlterConfigsResourceResponse(
        error_code=ErrorCode.NONE if error is None else error.code,
        error_message=None if error is None else error.message,
        resource_type=kind,
        resource_name=name,
    )
