"""Records of __cluster_metadata: brokers, controllers, security."""

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


class RegisterBrokerRecord(Message, api_key=0, versions="0-4", flexible="0+"):
    """A broker has registered; it stays fenced until it has caught up."""

    class BrokerEndpoint(Struct):
        name: str = string()
        host: str = string()
        port: int = uint16()
        security_protocol: int = int16()

    class BrokerFeature(Struct):
        name: str = string()
        min_supported_version: int = int16()
        max_supported_version: int = int16()

    broker_id: int = int32()
    is_migrating_zk_broker: bool = bool_(versions="2+")
    incarnation_id: Uuid = uuid()
    broker_epoch: int = int64()
    end_points: list[RegisterBrokerRecord.BrokerEndpoint] = array("BrokerEndpoint")
    features: list[RegisterBrokerRecord.BrokerFeature] = array("BrokerFeature")
    rack: str | None = string(nullable="0+")
    fenced: bool = bool_(default=True)
    in_controlled_shutdown: bool = bool_(versions="1+")
    log_dirs: list[Uuid] = array(uuid, versions="3+", tag=0, tagged="3+")
    cordoned_log_dirs: list[Uuid] | None = array(
        uuid, versions="4+", nullable="4+", default=None, tag=1, tagged="4+"
    )


class UnregisterBrokerRecord(Message, api_key=1, versions="0", flexible="0+"):
    """A broker is gone for good."""

    broker_id: int = int32()
    broker_epoch: int = int64()


class FenceBrokerRecord(Message, api_key=7, versions="0", flexible="0+"):
    """A broker is fenced (older form of BrokerRegistrationChangeRecord)."""

    id: int = int32()
    epoch: int = int64()


class UnfenceBrokerRecord(Message, api_key=8, versions="0", flexible="0+"):
    """A broker is unfenced (older form of BrokerRegistrationChangeRecord)."""

    id: int = int32()
    epoch: int = int64()


class DelegationTokenRecord(Message, api_key=10, versions="0", flexible="0+"):
    """A delegation token exists."""

    owner: str = string()
    requester: str = string()
    renewers: list[str] = array(string)
    issue_timestamp: int = int64()
    max_timestamp: int = int64()
    expiration_timestamp: int = int64()
    token_id: str = string()


class UserScramCredentialRecord(Message, api_key=11, versions="0", flexible="0+"):
    """A user has a SCRAM credential."""

    name: str = string()
    mechanism: int = int8()
    salt: bytes = bytes_()
    stored_key: bytes = bytes_()
    server_key: bytes = bytes_()
    iterations: int = int32()


class BrokerRegistrationChangeRecord(Message, api_key=17, versions="0-3", flexible="0+"):
    """A registered broker is fenced, unfenced, shutting down, or has other directories."""

    broker_id: int = int32()
    broker_epoch: int = int64()
    fenced: int = int8(tag=0, tagged="0+")
    in_controlled_shutdown: int = int8(versions="1+", tag=1, tagged="1+")
    log_dirs: list[Uuid] = array(uuid, versions="2+", tag=2, tagged="2+")
    cordoned_log_dirs: list[Uuid] | None = array(
        uuid, versions="3+", nullable="3+", default=None, tag=3, tagged="3+"
    )


class AccessControlEntryRecord(Message, api_key=18, versions="0", flexible="0+"):
    """An access control entry exists."""

    id: Uuid = uuid()
    resource_type: int = int8()
    resource_name: str = string()
    pattern_type: int = int8()
    principal: str = string()
    host: str = string()
    operation: int = int8()
    permission_type: int = int8()


class RemoveAccessControlEntryRecord(Message, api_key=19, versions="0", flexible="0+"):
    """An access control entry is gone."""

    id: Uuid = uuid()


class RemoveUserScramCredentialRecord(Message, api_key=22, versions="0", flexible="0+"):
    """A user's SCRAM credential is gone."""

    name: str = string()
    mechanism: int = int8()


class RemoveDelegationTokenRecord(Message, api_key=26, versions="0", flexible="0+"):
    """A delegation token is gone."""

    token_id: str = string()


class RegisterControllerRecord(Message, api_key=27, versions="0", flexible="0+"):
    """A controller has registered."""

    class ControllerEndpoint(Struct):
        name: str = string()
        host: str = string()
        port: int = uint16()
        security_protocol: int = int16()

    class ControllerFeature(Struct):
        name: str = string()
        min_supported_version: int = int16()
        max_supported_version: int = int16()

    controller_id: int = int32()
    incarnation_id: Uuid = uuid()
    zk_migration_ready: bool = bool_()
    end_points: list[RegisterControllerRecord.ControllerEndpoint] = array("ControllerEndpoint")
    features: list[RegisterControllerRecord.ControllerFeature] = array("ControllerFeature")
