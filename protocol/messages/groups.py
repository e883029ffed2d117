"""The classic group protocol, finding coordinators, and listing groups."""

from __future__ import annotations

from barnabas.protocol.schema import Message, Struct, array, bool_, bytes_, int8, int16, int32, string


class FindCoordinatorRequest(Message, api_key=10, versions="0-6", flexible="3+"):
    """Asks which broker coordinates a group, a transactional id or a share partition."""

    key: str = string(versions="0-3")
    key_type: int = int8(versions="1+")
    coordinator_keys: list[str] = array(string, versions="4+")


class FindCoordinatorResponse(Message, api_key=10, versions="0-6", flexible="3+"):
    class Coordinator(Struct):
        key: str = string(versions="4+")
        node_id: int = int32(versions="4+")
        host: str = string(versions="4+")
        port: int = int32(versions="4+")
        error_code: int = int16(versions="4+")
        error_message: str | None = string(versions="4+", nullable="4+", ignorable=True)

    throttle_time_ms: int = int32(versions="1+", ignorable=True)
    error_code: int = int16(versions="0-3")
    error_message: str | None = string(versions="1-3", nullable="1-3", ignorable=True)
    node_id: int = int32(versions="0-3")
    host: str = string(versions="0-3")
    port: int = int32(versions="0-3")
    coordinators: list[FindCoordinatorResponse.Coordinator] = array("Coordinator", versions="4+")


class JoinGroupRequest(Message, api_key=11, versions="0-9", flexible="6+"):
    """Joins a classic group, or joins it again; the answer waits for the other members."""

    class JoinGroupRequestProtocol(Struct):
        name: str = string()
        metadata: bytes = bytes_()

    group_id: str = string()
    session_timeout_ms: int = int32()
    rebalance_timeout_ms: int = int32(versions="1+", default=-1, ignorable=True)
    member_id: str = string()
    group_instance_id: str | None = string(versions="5+", nullable="5+", default=None)
    protocol_type: str = string()
    protocols: list[JoinGroupRequest.JoinGroupRequestProtocol] = array("JoinGroupRequestProtocol")
    reason: str | None = string(versions="8+", nullable="8+", default=None, ignorable=True)


class JoinGroupResponse(Message, api_key=11, versions="0-9", flexible="6+"):
    """The generation and the member's id; the leader also gets all members and assigns."""

    class JoinGroupResponseMember(Struct):
        member_id: str = string()
        group_instance_id: str | None = string(versions="5+", nullable="5+", default=None, ignorable=True)
        metadata: bytes = bytes_()

    throttle_time_ms: int = int32(versions="2+", ignorable=True)
    error_code: int = int16()
    generation_id: int = int32(default=-1)
    protocol_type: str | None = string(versions="7+", nullable="7+", default=None, ignorable=True)
    protocol_name: str | None = string(nullable="7+")
    leader: str = string()
    skip_assignment: bool = bool_(versions="9+")
    member_id: str = string()
    members: list[JoinGroupResponse.JoinGroupResponseMember] = array("JoinGroupResponseMember")


class HeartbeatRequest(Message, api_key=12, versions="0-4", flexible="4+"):
    """Says that a member of a classic group is alive."""

    group_id: str = string()
    generation_id: int = int32()
    member_id: str = string()
    group_instance_id: str | None = string(versions="3+", nullable="3+", default=None)


class HeartbeatResponse(Message, api_key=12, versions="0-4", flexible="4+"):
    throttle_time_ms: int = int32(versions="1+", ignorable=True)
    error_code: int = int16()


class LeaveGroupRequest(Message, api_key=13, versions="0-5", flexible="4+"):
    """Members leave a classic group."""

    class MemberIdentity(Struct):
        member_id: str = string(versions="3+")
        group_instance_id: str | None = string(versions="3+", nullable="3+", default=None)
        reason: str | None = string(versions="5+", nullable="5+", default=None, ignorable=True)

    group_id: str = string()
    member_id: str = string(versions="0-2")
    members: list[LeaveGroupRequest.MemberIdentity] = array("MemberIdentity", versions="3+")


class LeaveGroupResponse(Message, api_key=13, versions="0-5", flexible="4+"):
    class MemberResponse(Struct):
        member_id: str = string(versions="3+")
        group_instance_id: str | None = string(versions="3+", nullable="3+")
        error_code: int = int16(versions="3+")

    throttle_time_ms: int = int32(versions="1+", ignorable=True)
    error_code: int = int16()
    members: list[LeaveGroupResponse.MemberResponse] = array("MemberResponse", versions="3+")


class SyncGroupRequest(Message, api_key=14, versions="0-5", flexible="4+"):
    """Asks for the assignment of this generation; the leader brings all of them."""

    class SyncGroupRequestAssignment(Struct):
        member_id: str = string()
        assignment: bytes = bytes_()

    group_id: str = string()
    generation_id: int = int32()
    member_id: str = string()
    group_instance_id: str | None = string(versions="3+", nullable="3+", default=None)
    protocol_type: str | None = string(versions="5+", nullable="5+", default=None, ignorable=True)
    protocol_name: str | None = string(versions="5+", nullable="5+", default=None, ignorable=True)
    assignments: list[SyncGroupRequest.SyncGroupRequestAssignment] = array("SyncGroupRequestAssignment")


class SyncGroupResponse(Message, api_key=14, versions="0-5", flexible="4+"):
    throttle_time_ms: int = int32(versions="1+", ignorable=True)
    error_code: int = int16()
    protocol_type: str | None = string(versions="5+", nullable="5+", default=None, ignorable=True)
    protocol_name: str | None = string(versions="5+", nullable="5+", default=None, ignorable=True)
    assignment: bytes = bytes_()


class DescribeGroupsRequest(Message, api_key=15, versions="0-6", flexible="5+"):
    """Asks for the state and the members of classic groups."""

    groups: list[str] = array(string)
    include_authorized_operations: bool = bool_(versions="3+")


class DescribeGroupsResponse(Message, api_key=15, versions="0-6", flexible="5+"):
    class DescribedGroupMember(Struct):
        member_id: str = string()
        group_instance_id: str | None = string(versions="4+", nullable="4+", default=None, ignorable=True)
        client_id: str = string()
        client_host: str = string()
        member_metadata: bytes = bytes_()
        member_assignment: bytes = bytes_()

    class DescribedGroup(Struct):
        error_code: int = int16()
        error_message: str | None = string(versions="6+", nullable="6+", default=None)
        group_id: str = string()
        group_state: str = string()
        protocol_type: str = string()
        protocol_data: str = string()
        members: list[DescribeGroupsResponse.DescribedGroupMember] = array("DescribedGroupMember")
        authorized_operations: int = int32(versions="3+", default=-2147483648)

    throttle_time_ms: int = int32(versions="1+", ignorable=True)
    groups: list[DescribeGroupsResponse.DescribedGroup] = array("DescribedGroup")


class ListGroupsRequest(Message, api_key=16, versions="0-5", flexible="3+"):
    """Asks which groups this broker coordinates."""

    states_filter: list[str] = array(string, versions="4+")
    types_filter: list[str] = array(string, versions="5+")


class ListGroupsResponse(Message, api_key=16, versions="0-5", flexible="3+"):
    class ListedGroup(Struct):
        group_id: str = string()
        protocol_type: str = string()
        group_state: str = string(versions="4+", ignorable=True)
        group_type: str = string(versions="5+", ignorable=True)

    throttle_time_ms: int = int32(versions="1+", ignorable=True)
    error_code: int = int16()
    groups: list[ListGroupsResponse.ListedGroup] = array("ListedGroup")


class DeleteGroupsRequest(Message, api_key=42, versions="0-2", flexible="2+"):
    """Deletes empty groups."""

    groups_names: list[str] = array(string)


class DeleteGroupsResponse(Message, api_key=42, versions="0-2", flexible="2+"):
    class DeletableGroupResult(Struct):
        group_id: str = string()
        error_code: int = int16()

    throttle_time_ms: int = int32()
    results: list[DeleteGroupsResponse.DeletableGroupResult] = array("DeletableGroupResult")
