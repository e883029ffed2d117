"""Requests between brokers and the controller."""

from __future__ import annotations

from barnabas.protocol.schema import (
    Message,
    Struct,
    array,
    bool_,
    bytes_,
    int8,
    int16,
    int32,
    int64,
    string,
    uint16,
    uuid,
)
from barnabas.protocol.wire import Uuid


class AlterPartitionRequest(Message, api_key=56, versions="2-3", flexible="0+"):
    """A leader asks the controller for another ISR."""

    class BrokerState(Struct):
        broker_id: int = int32(versions="3+")
        broker_epoch: int = int64(versions="3+", default=-1)

    class PartitionData(Struct):
        partition_index: int = int32()
        leader_epoch: int = int32()
        new_isr: list[int] = array(int32, versions="0-2")
        new_isr_with_epochs: list[AlterPartitionRequest.BrokerState] = array("BrokerState", versions="3+")
        leader_recovery_state: int = int8(versions="1+")
        partition_epoch: int = int32()

    class TopicData(Struct):
        topic_id: Uuid = uuid(versions="2+", ignorable=True)
        partitions: list[AlterPartitionRequest.PartitionData] = array("PartitionData")

    broker_id: int = int32()
    broker_epoch: int = int64(default=-1)
    topics: list[AlterPartitionRequest.TopicData] = array("TopicData")


class AlterPartitionResponse(Message, api_key=56, versions="2-3", flexible="0+"):
    class PartitionData(Struct):
        partition_index: int = int32()
        error_code: int = int16()
        leader_id: int = int32()
        leader_epoch: int = int32()
        isr: list[int] = array(int32)
        leader_recovery_state: int = int8(versions="1+", ignorable=True)
        partition_epoch: int = int32()

    class TopicData(Struct):
        topic_id: Uuid = uuid(versions="2+", ignorable=True)
        partitions: list[AlterPartitionResponse.PartitionData] = array("PartitionData")

    throttle_time_ms: int = int32()
    error_code: int = int16()
    topics: list[AlterPartitionResponse.TopicData] = array("TopicData")


class UpdateFeaturesRequest(Message, api_key=57, versions="0-2", flexible="0+"):
    """Changes finalized feature levels (KIP-584)."""

    class FeatureUpdateKey(Struct):
        feature: str = string()
        max_version_level: int = int16()
        allow_downgrade: bool = bool_(versions="0")
        upgrade_type: int = int8(versions="1+", default=1)

    timeout_ms: int = int32(default=60000)
    feature_updates: list[UpdateFeaturesRequest.FeatureUpdateKey] = array("FeatureUpdateKey")
    validate_only: bool = bool_(versions="1+")


class UpdateFeaturesResponse(Message, api_key=57, versions="0-2", flexible="0+"):
    class UpdatableFeatureResult(Struct):
        feature: str = string()
        error_code: int = int16()
        error_message: str | None = string(nullable="0+")

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    results: list[UpdateFeaturesResponse.UpdatableFeatureResult] = array(
        "UpdatableFeatureResult", versions="0-1", ignorable=True
    )


class EnvelopeRequest(Message, api_key=58, versions="0", flexible="0+"):
    """A request that a broker forwards to the controller, with the principal of its client (KIP-590)."""

    request_data: bytes = bytes_()
    request_principal: bytes | None = bytes_(nullable="0+")
    client_host_address: bytes = bytes_()


class EnvelopeResponse(Message, api_key=58, versions="0", flexible="0+"):
    response_data: bytes | None = bytes_(nullable="0+", default=None)
    error_code: int = int16()


class BrokerRegistrationRequest(Message, api_key=62, versions="0-4", flexible="0+"):
    """A broker makes itself known to the controller."""

    class Listener(Struct):
        name: str = string()
        host: str = string()
        port: int = uint16()
        security_protocol: int = int16()

    class Feature(Struct):
        name: str = string()
        min_supported_version: int = int16()
        max_supported_version: int = int16()

    broker_id: int = int32()
    cluster_id: str = string()
    incarnation_id: Uuid = uuid()
    listeners: list[BrokerRegistrationRequest.Listener] = array("Listener")
    features: list[BrokerRegistrationRequest.Feature] = array("Feature")
    rack: str | None = string(nullable="0+")
    is_migrating_zk_broker: bool = bool_(versions="1+")
    log_dirs: list[Uuid] = array(uuid, versions="2+", ignorable=True)
    previous_broker_epoch: int = int64(versions="3+", default=-1, ignorable=True)


class BrokerRegistrationResponse(Message, api_key=62, versions="0-4", flexible="0+"):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    broker_epoch: int = int64(default=-1)


class BrokerHeartbeatRequest(Message, api_key=63, versions="0-2", flexible="0+"):
    """The heartbeat of a broker, with its metadata offset and the states it wants."""

    broker_id: int = int32()
    broker_epoch: int = int64(default=-1)
    current_metadata_offset: int = int64()
    want_fence: bool = bool_()
    want_shut_down: bool = bool_()
    offline_log_dirs: list[Uuid] = array(uuid, versions="1+", tag=0, tagged="1+")
    cordoned_log_dirs: list[Uuid] | None = array(
        uuid, versions="2+", nullable="2+", default=None, tag=1, tagged="2+"
    )


class BrokerHeartbeatResponse(Message, api_key=63, versions="0-2", flexible="0+"):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    is_caught_up: bool = bool_()
    is_fenced: bool = bool_(default=True)
    should_shut_down: bool = bool_()


class UnregisterBrokerRequest(Message, api_key=64, versions="0", flexible="0+"):
    """Removes a broker from the cluster."""

    broker_id: int = int32()


class UnregisterBrokerResponse(Message, api_key=64, versions="0", flexible="0+"):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")


class AllocateProducerIdsRequest(Message, api_key=67, versions="0", flexible="0+"):
    """A broker asks for a block of producer ids."""

    broker_id: int = int32()
    broker_epoch: int = int64(default=-1)


class AllocateProducerIdsResponse(Message, api_key=67, versions="0", flexible="0+"):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    producer_id_start: int = int64()
    producer_id_len: int = int32()


class ControllerRegistrationRequest(Message, api_key=70, versions="0", flexible="0+"):
    """A controller makes itself known to the active one."""

    class Listener(Struct):
        name: str = string()
        host: str = string()
        port: int = uint16()
        security_protocol: int = int16()

    class Feature(Struct):
        name: str = string()
        min_supported_version: int = int16()
        max_supported_version: int = int16()

    controller_id: int = int32()
    incarnation_id: Uuid = uuid()
    zk_migration_ready: bool = bool_()
    listeners: list[ControllerRegistrationRequest.Listener] = array("Listener")
    features: list[ControllerRegistrationRequest.Feature] = array("Feature")


class ControllerRegistrationResponse(Message, api_key=70, versions="0", flexible="0+"):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
