"""BrokerRegistration and ControllerRegistration: the nodes of the cluster, as they registered.

Source: org.apache.kafka.metadata.BrokerRegistration, ControllerRegistration; org.apache.kafka.image.ClusterImage.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple, TypeVar

from barnabas.broker.metadata.versions import LevelRange
from barnabas.protocol.messages.cluster_records import (
    BrokerRegistrationChangeRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
)
from barnabas.protocol.wire import Uuid

FENCE: Final = 1
UNFENCE: Final = -1
"""The values of BrokerRegistrationChangeRecord.fenced; 0 means no change."""

IN_CONTROLLED_SHUTDOWN: Final = 1


class ListenerEndpoint(NamedTuple):
    """The address of a listener; `security_protocol` by number, PLAINTEXT 0."""

    host: str
    port: int
    security_protocol: int


E = TypeVar("E", RegisterBrokerRecord.BrokerEndpoint, RegisterControllerRecord.ControllerEndpoint)
F = TypeVar("F", RegisterBrokerRecord.BrokerFeature, RegisterControllerRecord.ControllerFeature)


def end_points(kind: type[E], listeners: Mapping[str, ListenerEndpoint]) -> list[E]:
    """Listeners as a record has them; the records of brokers and controllers each have a kind of their own."""
    return [
        kind(name=name, host=at.host, port=at.port, security_protocol=at.security_protocol)
        for name, at in listeners.items()
    ]


def supported_features(kind: type[F], features: Mapping[str, tuple[int, int]]) -> list[F]:
    """Supported levels (lowest, highest) as a record has them."""
    return [
        kind(name=name, min_supported_version=low, max_supported_version=high)
        for name, (low, high) in features.items()
    ]


def _listeners(points: Iterable[E]) -> dict[str, ListenerEndpoint]:
    return {point.name: ListenerEndpoint(point.host, point.port, point.security_protocol) for point in points}


def _features(features: Iterable[F]) -> dict[str, LevelRange]:
    return {
        feature.name: LevelRange(feature.min_supported_version, feature.max_supported_version)
        for feature in features
    }


class BrokerRegistration(NamedTuple):
    """A broker as it registered, and whether it is fenced. `epoch`: the offset of its registration."""

    broker_id: int
    epoch: int
    incarnation_id: Uuid
    listeners: Mapping[str, ListenerEndpoint]
    features: Mapping[str, LevelRange]
    rack: str | None
    fenced: bool
    in_controlled_shutdown: bool
    log_dirs: tuple[Uuid, ...]
    cordoned_log_dirs: tuple[Uuid, ...] | None
    is_migrating_zk_broker: bool = False

    @classmethod
    def of(cls, record: RegisterBrokerRecord) -> BrokerRegistration:
        cordoned = record.cordoned_log_dirs
        return cls(
            record.broker_id,
            record.broker_epoch,
            record.incarnation_id,
            _listeners(record.end_points),
            _features(record.features),
            record.rack,
            record.fenced,
            record.in_controlled_shutdown,
            tuple(record.log_dirs),
            None if cordoned is None else tuple(cordoned),
            record.is_migrating_zk_broker,
        )

    def changed(self, record: BrokerRegistrationChangeRecord) -> BrokerRegistration:
        """The registration after `record`; fields that the record does not set stay."""
        cordoned = record.cordoned_log_dirs
        return self._replace(
            fenced=self.fenced if record.fenced == 0 else record.fenced == FENCE,
            in_controlled_shutdown=self.in_controlled_shutdown
            or record.in_controlled_shutdown == IN_CONTROLLED_SHUTDOWN,
            log_dirs=tuple(record.log_dirs) or self.log_dirs,
            cordoned_log_dirs=self.cordoned_log_dirs if cordoned is None else tuple(cordoned),
        )

    def record(self) -> RegisterBrokerRecord:
        cordoned = self.cordoned_log_dirs
        return RegisterBrokerRecord(
            broker_id=self.broker_id,
            is_migrating_zk_broker=self.is_migrating_zk_broker,
            incarnation_id=self.incarnation_id,
            broker_epoch=self.epoch,
            end_points=end_points(RegisterBrokerRecord.BrokerEndpoint, self.listeners),
            features=supported_features(RegisterBrokerRecord.BrokerFeature, self.features),
            rack=self.rack,
            fenced=self.fenced,
            in_controlled_shutdown=self.in_controlled_shutdown,
            log_dirs=list(self.log_dirs),
            cordoned_log_dirs=None if cordoned is None else list(cordoned),
        )


class ControllerRegistration(NamedTuple):
    """A controller as it registered."""

    controller_id: int
    incarnation_id: Uuid
    listeners: Mapping[str, ListenerEndpoint]
    features: Mapping[str, LevelRange]
    zk_migration_ready: bool = False

    @classmethod
    def of(cls, record: RegisterControllerRecord) -> ControllerRegistration:
        return cls(
            record.controller_id,
            record.incarnation_id,
            _listeners(record.end_points),
            _features(record.features),
            record.zk_migration_ready,
        )

    def record(self) -> RegisterControllerRecord:
        return RegisterControllerRecord(
            controller_id=self.controller_id,
            incarnation_id=self.incarnation_id,
            zk_migration_ready=self.zk_migration_ready,
            end_points=end_points(RegisterControllerRecord.ControllerEndpoint, self.listeners),
            features=supported_features(RegisterControllerRecord.ControllerFeature, self.features),
        )
