"""The rules of altering configurations: from an image and an alteration to ConfigRecords, or to an ApiError.

A ConfigAlteration is atomic; those of one request are decided independently.
Source: org.apache.kafka.controller.ConfigurationControlManager, kafka.server.ConfigAdminManager and
ControllerConfigurationValidator. Loggers are altered in loggers.py: their levels are not stored.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from barnabas.broker.controller.topic_admin import check_topic_name
from barnabas.broker.metadata.image import (
    BROKER_RESOURCE,
    CLIENT_METRICS_RESOURCE,
    GROUP_RESOURCE,
    TOPIC_RESOURCE,
    ConfigResource,
    MetadataImage,
)
from barnabas.broker.metadata.log import MAX_RECORDS_PER_USER_OP
from barnabas.broker.metadata.versions import ELIGIBLE_LEADER_REPLICAS_VERSION
from barnabas.config.alteration import AlterOperation, altered
from barnabas.config.broker_config import BrokerConfig
from barnabas.config.catalogue import BROKER_KEYS, DYNAMIC_BROKER_KEYS, TOPIC_KEYS
from barnabas.config.catalogue.log import MIN_INSYNC_REPLICAS
from barnabas.config.client_metrics import (
    ClientMetricsConfig,
    IntervalOutOfRangeError,
    UnknownClientMetricsKeyError,
)
from barnabas.config.dynamic import SettingsWaitError, check_dynamic_settings, sound_settings
from barnabas.config.group_config import validate_group_overrides
from barnabas.config.keys import ConfigError, ConfigKey
from barnabas.config.layers import InvalidConfigError
from barnabas.config.log_config import validate_topic_overrides
from barnabas.config.values import ConfigType
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages.topic_records import ConfigRecord

CLUSTER_DEFAULT: Final = ""
ALTERABLE_RESOURCES: Final = (TOPIC_RESOURCE, BROKER_RESOURCE, CLIENT_METRICS_RESOURCE, GROUP_RESOURCE)

_NOTHING: Final[Mapping[str, str]] = {}


class KeyAlteration(NamedTuple):
    """The alteration of one key: the number of the operation in the request, and the value, None if absent."""

    key: str
    operation: int
    value: str | None


class ConfigAlteration(NamedTuple):
    """The alteration of one resource. `replaces`: keys that are not in `keys` are removed (AlterConfigs)."""

    resource: ConfigResource
    keys: Sequence[KeyAlteration]
    replaces: bool = False


class ChecksWaitError(ApiError):
    """The settings of a broker cannot be decided on before `wait.fetch` has called back."""

    def __init__(self, wait: SettingsWaitError) -> None:
        super().__init__(
            ErrorCode.INVALID_REQUEST, "The settings have changed since they were checked: try again."
        )
        self.wait = wait


Outcome = list[ConfigRecord] | ApiError


def repeated_resources(resources: Iterable[ConfigResource]) -> set[ConfigResource]:
    """The resources that are named more than once; their alterations are rejected."""
    return {resource for resource, count in Counter(resources).items() if count > 1}


def check_form(alteration: ConfigAlteration) -> None:
    """Raises ApiError(INVALID_REQUEST) unless the alteration is well-formed, for any resource."""
    counts = Counter(each.key for each in alteration.keys)
    twice = [key for key, count in counts.items() if count > 1]
    if twice:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Error due to duplicate config keys: {', '.join(twice)}")
    empty = [
        key
        for key, operation, value in alteration.keys
        if value is None and operation != AlterOperation.DELETE
    ]
    if empty:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {','.join(empty)}")


class ConfigAdmin:
    """The rules, for the broker with this configuration and id."""

    def __init__(self, config: BrokerConfig, node_id: int, *, asks_parts: bool = True) -> None:
        """`asks_parts`: see check_dynamic_settings. Not for clients that may not alter what they ask for."""
        self._config = config
        self._node_id = node_id
        self._asks_parts = asks_parts

    def decide(self, image: MetadataImage, alterations: Sequence[ConfigAlteration]) -> list[Outcome]:
        """For each alteration its records, or its error."""
        repeated = repeated_resources(each.resource for each in alterations)
        twice = ApiError(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
        outcomes = [twice if each.resource in repeated else self._decide(image, each) for each in alterations]
        count = sum(len(outcome) for outcome in outcomes if not isinstance(outcome, ApiError))
        if count > MAX_RECORDS_PER_USER_OP:
            too_many = ApiError(
                ErrorCode.POLICY_VIOLATION,
                f"One request may change {MAX_RECORDS_PER_USER_OP} settings in all, not {count}.",
            )
            return [outcome if isinstance(outcome, ApiError) else too_many for outcome in outcomes]
        return outcomes

    def _decide(self, image: MetadataImage, alteration: ConfigAlteration) -> Outcome:
        try:
            check_form(alteration)
            self._check_resource(alteration)
            stored = image.configs.get(alteration.resource, _NOTHING)
            changes = _changes(alteration, stored)
            self._check_broker(image, alteration, stored, asks_parts=False)
            self._check_result(image, alteration.resource, _after(stored, changes))
            if image.features.get(ELIGIBLE_LEADER_REPLICAS_VERSION, 0) > 0:
                _check_min_isr(alteration.resource, changes)
            if self._asks_parts:  # last: what is wrong in itself has nobody look at files and other hosts
                self._check_broker(image, alteration, stored, asks_parts=True)
        except ApiError as error:
            return error
        kind, name = alteration.resource
        # An unchanged setting of a broker is recorded too: it makes the broker read files again (KAFKA-14136).
        return [
            ConfigRecord(resource_type=kind, resource_name=name, name=key, value=value)
            for key, value in changes.items()
            if kind == BROKER_RESOURCE or stored.get(key) != value
        ]

    # ---- checks of a resource

    def _check_resource(self, alteration: ConfigAlteration) -> None:
        kind, name = alteration.resource
        if kind not in ALTERABLE_RESOURCES:
            raise ApiError(
                ErrorCode.INVALID_REQUEST,
                f"Unknown resource type {kind}: those that can be altered are {ALTERABLE_RESOURCES}.",
            )
        if kind == BROKER_RESOURCE and name != CLUSTER_DEFAULT:
            check_broker_id(name, self._node_id)

    def _check_broker(
        self,
        image: MetadataImage,
        alteration: ConfigAlteration,
        stored: Mapping[str, str],
        *,
        asks_parts: bool,
    ) -> None:
        """Kafka's broker checks changes of its own settings before its controller does, with other messages."""
        kind, name = alteration.resource
        if kind != BROKER_RESOURCE:
            return
        per_broker = name != CLUSTER_DEFAULT
        sound = _NOTHING if alteration.replaces else sound_settings(stored, per_broker=per_broker)
        texts = _after(sound, _changes(alteration, sound))
        other = (BROKER_RESOURCE, CLUSTER_DEFAULT if per_broker else str(self._node_id))
        try:
            check_dynamic_settings(
                self._config,
                texts,
                image.configs.get(other, _NOTHING),
                per_broker=per_broker,
                asks_parts=asks_parts,
            )
        except SettingsWaitError as wait:
            raise ChecksWaitError(wait) from None
        except (ConfigError, InvalidConfigError) as error:
            raise ApiError(ErrorCode.INVALID_REQUEST, error.answer) from error

    def _check_result(
        self, image: MetadataImage, resource: ConfigResource, settings: Mapping[str, str]
    ) -> None:
        """Raises ApiError unless the settings that the resource would have are valid together."""
        kind, name = resource
        try:
            if kind == TOPIC_RESOURCE:
                self._check_topic(image, name, settings)
            elif kind == CLIENT_METRICS_RESOURCE:
                _check_client_metrics(name, settings)
            elif kind == GROUP_RESOURCE:
                self._check_group(name, settings)
        except ConfigError as error:
            raise ApiError(ErrorCode.INVALID_CONFIG, error.answer) from error

    def _check_topic(self, image: MetadataImage, name: str, settings: Mapping[str, str]) -> None:
        if not name:
            raise ApiError(ErrorCode.INVALID_REQUEST, "Default topic resources are not allowed.")
        check_topic_name(name)
        validate_topic_overrides(settings, self._config)
        if name not in image.topics:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")

    def _check_group(self, name: str, settings: Mapping[str, str]) -> None:
        if not name:
            raise ApiError(ErrorCode.INVALID_REQUEST, "Default group resources are not allowed.")
        validate_group_overrides(settings, self._config)


def check_broker_id(name: str, node_id: int) -> None:
    """Raises ApiError(INVALID_REQUEST) unless `name` is the id of this broker, in decimal."""
    if name == str(node_id):
        return
    if not name.removeprefix("-").isdecimal():
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Node id must be an integer, but it is: {name}")
    raise ApiError(
        ErrorCode.INVALID_REQUEST, f"Unexpected broker id, expected {node_id}, but received {name}"
    )


def _check_client_metrics(name: str, settings: Mapping[str, str]) -> None:
    if not name:
        raise ApiError(ErrorCode.INVALID_REQUEST, "Subscription name can't be empty")
    try:
        ClientMetricsConfig.of(settings)
    except (UnknownClientMetricsKeyError, IntervalOutOfRangeError) as error:
        raise ApiError(ErrorCode.INVALID_REQUEST, error.answer) from error


def _check_min_isr(resource: ConfigResource, changes: Mapping[str, str | None]) -> None:
    """While ELR is on, min.insync.replicas is one value for the whole cluster, and topics may have their own (KIP-966).

    It decides which replicas are eligible, which must not depend on the broker.
    """
    kind, name = resource
    if kind != BROKER_RESOURCE or MIN_INSYNC_REPLICAS.name not in changes:
        return
    if name != CLUSTER_DEFAULT:
        what = f"Broker-level {MIN_INSYNC_REPLICAS.name} cannot be altered"
    elif changes[MIN_INSYNC_REPLICAS.name] is None:
        what = f"Cluster-level {MIN_INSYNC_REPLICAS.name} cannot be removed"
    else:
        return
    raise ApiError(
        ErrorCode.INVALID_CONFIG, f"{what} while ELR is enabled ({ELIGIBLE_LEADER_REPLICAS_VERSION})."
    )


# ---- changes


def _changes(alteration: ConfigAlteration, stored: Mapping[str, str]) -> dict[str, str | None]:
    """The new value of each key that the alteration names or removes; None: unset. Raises ApiError."""
    changes = {
        each.key: _new_value(alteration.resource[0], each, stored.get(each.key)) for each in alteration.keys
    }
    if alteration.replaces:
        changes |= {key: None for key in stored if key not in changes}
    return changes


def _new_value(kind: int, alteration: KeyAlteration, current: str | None) -> str | None:
    try:
        operation = AlterOperation(alteration.operation)
    except ValueError:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Unknown operations type {alteration.operation}") from None
    key = _key_of(kind, alteration.key)
    if operation.is_of_lists and (key is None or key.type is not ConfigType.LIST):
        raise ApiError(ErrorCode.INVALID_CONFIG, _no_list(kind, operation, alteration.key, key))
    default = None if key is None else key.format(key.default)
    return altered(operation, current, alteration.value, default)


def _no_list(kind: int, operation: AlterOperation, name: str, key: ConfigKey[Any] | None) -> str:
    """The message for a key that is no list: that of Kafka's broker for keys of brokers, else of its controller."""
    if kind != BROKER_RESOURCE:
        return f"Can't {operation.name} to key {name} because its type is not LIST."
    if key is None:
        return f"Unknown config name: {name}"
    return f"Config value {operation.name.lower()} is not allowed for config key: {name}"


def _key_of(kind: int, name: str) -> ConfigKey[Any] | None:
    """The key whose type counts for APPEND and SUBTRACT: Kafka's controller knows only those of topics and brokers."""
    if kind == TOPIC_RESOURCE:
        return TOPIC_KEYS.get(name)
    if kind == BROKER_RESOURCE:
        return BROKER_KEYS.get(name) or DYNAMIC_BROKER_KEYS.get(name)
    return None


def _after(stored: Mapping[str, str], changes: Mapping[str, str | None]) -> dict[str, str]:
    merged = {**stored, **changes}
    return {key: value for key, value in merged.items() if value is not None}
