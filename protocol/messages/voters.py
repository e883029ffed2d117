"""Changing the voters of the KRaft quorum (KIP-853)."""

from __future__ import annotations

from barnabas.protocol.schema import Message, Struct, array, bool_, int16, int32, string, struct, uint16, uuid
from barnabas.protocol.wire import Uuid


class AddRaftVoterRequest(Message, api_key=80, versions="0-1", flexible="0+"):
    """Adds a voter to the quorum."""

    class Listener(Struct):
        name: str = string()
        host: str = string()
        port: int = uint16()

    cluster_id: str | None = string(nullable="0+")
    timeout_ms: int = int32()
    voter_id: int = int32()
    voter_directory_id: Uuid = uuid()
    listeners: list[AddRaftVoterRequest.Listener] = array("Listener")
    ack_when_committed: bool = bool_(versions="1+", default=True)


class AddRaftVoterResponse(Message, api_key=80, versions="0-1", flexible="0+"):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", ignorable=True)


class RemoveRaftVoterRequest(Message, api_key=81, versions="0", flexible="0+"):
    """Removes a voter from the quorum."""

    cluster_id: str | None = string(nullable="0+")
    voter_id: int = int32()
    voter_directory_id: Uuid = uuid()


class RemoveRaftVoterResponse(Message, api_key=81, versions="0", flexible="0+"):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", ignorable=True)


class UpdateRaftVoterRequest(Message, api_key=82, versions="0", flexible="0+"):
    """A voter reports its endpoints and supported versions."""

    class Listener(Struct):
        name: str = string()
        host: str = string()
        port: int = uint16()

    class KRaftVersionFeature(Struct):
        min_supported_version: int = int16()
        max_supported_version: int = int16()

    cluster_id: str | None = string(nullable="0+")
    current_leader_epoch: int = int32()
    voter_id: int = int32()
    voter_directory_id: Uuid = uuid()
    listeners: list[UpdateRaftVoterRequest.Listener] = array("Listener")
    kraft_version_feature: UpdateRaftVoterRequest.KRaftVersionFeature = struct("KRaftVersionFeature")


class UpdateRaftVoterResponse(Message, api_key=82, versions="0", flexible="0+"):
    class CurrentLeader(Struct):
        leader_id: int = int32(default=-1)
        leader_epoch: int = int32(default=-1)
        host: str = string()
        port: int = int32()

    throttle_time_ms: int = int32()
    error_code: int = int16()
    current_leader: UpdateRaftVoterResponse.CurrentLeader = struct("CurrentLeader", tag=0, tagged="0+")
