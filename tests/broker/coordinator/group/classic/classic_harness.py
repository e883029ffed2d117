"""ClassicHarness: members of classic groups on a shard without a broker, with a manual clock."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Generic, TypeVar

from barnabas.broker.coordinator.group.classic.classic_group import ClassicGroup
from barnabas.broker.coordinator.group.shard import GroupCoordinatorShard
from barnabas.broker.pending import Pending
from barnabas.broker.request import ConnectionInfo, RequestContext
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages.groups import (
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from tests.broker.coordinator.shard_harness import ShardHarness

R = TypeVar("R")
Protocols = Sequence[tuple[str, bytes]]

SESSION_MS = 10_000
REBALANCE_MS = 60_000
SUBSCRIBED = b"\0\0\0\0\0\1\0\1t\xff\xff\xff\xff"
RANGE: Protocols = (("range", SUBSCRIBED),)
AT_ONCE = {"group.initial.rebalance.delay.ms": "0"}


class Heard(Generic[R]):
    """The response to a request; `answer` is None while it is pending."""

    def __init__(self, response: R | Pending[R]) -> None:
        self.answer: R | None = None
        if isinstance(response, Pending):
            response.add_done_callback(self._take)
        else:
            self.answer = response

    def _take(self, response: R) -> None:
        self.answer = response

    @property
    def waits(self) -> bool:
        return self.answer is None

    @property
    def code(self) -> ErrorCode:
        assert self.answer is not None, "it waits"
        code: int = self.answer.error_code  # type: ignore[attr-defined]
        return ErrorCode(code)

    @property
    def said(self) -> R:
        assert self.answer is not None, "it waits"
        return self.answer


class ClassicHarness:
    """A shard with members of classic groups."""

    def __init__(
        self,
        settings: Mapping[str, str] | None = None,
        shard_harness: ShardHarness[GroupCoordinatorShard] | None = None,
    ) -> None:
        self.shard_harness = shard_harness or ShardHarness(GroupCoordinatorShard, settings)

    def reloaded(self) -> ClassicHarness:
        """The harness after another load of the partition."""
        return ClassicHarness(shard_harness=self.shard_harness.reloaded())

    @property
    def shard(self) -> GroupCoordinatorShard:
        return self.shard_harness.shard

    def group(self, group_id: str = "g") -> ClassicGroup:
        group = self.shard.groups.get(group_id)
        assert isinstance(group, ClassicGroup)
        return group

    def advance(self, ms: int) -> None:
        self.shard_harness.advance(ms)

    def member(self, name: str = "m", **kinds: Any) -> Member:
        return Member(self, name, **kinds)

    def stable(self, *names: str, **kinds: Any) -> list[Member]:
        """A stable group of dynamic members; the first leads. Needs AT_ONCE."""
        members: list[Member] = []
        for name in names:
            new = self.member(name, **kinds)
            waiting = [(each, each.join()) for each in (new, *members)]
            self.advance(0)
            for each, heard in waiting:
                each.take(heard)
            members.append(new)
            self.assign(*members)
        return members

    def stable_static(self, *names: str, **kinds: Any) -> list[Member]:
        """A stable group of static members, whose instances are their names; the first leads. Needs AT_ONCE."""
        members = [self.member(name, instance=name, **kinds) for name in names]
        heard = [(member, member.join()) for member in members]
        self.advance(0)
        for member, said in heard:
            member.take(said)
        self.assign(*members)
        return members

    def assign(self, *members: Member) -> None:
        """All members sync; the first one leads and assigns each its name."""
        leader, *others = members
        heard = [each.sync() for each in others]
        heard.append(leader.sync({each.id: each.name.encode() for each in members}))
        for sync in heard:
            assert sync.code is ErrorCode.NONE


class Member:
    """A member of a group, with its requests.

    `id` and `generation` are those of its last response.
    """

    def __init__(
        self,
        harness: ClassicHarness,
        name: str = "m",
        *,
        group: str = "g",
        instance: str | None = None,
        protocols: Protocols = RANGE,
        kind: str = "consumer",
        version: int = 9,
        session_ms: int = SESSION_MS,
        rebalance_ms: int = REBALANCE_MS,
    ) -> None:
        self.harness = harness
        self.name = name
        self.group = group
        self.instance = instance
        self.protocols = protocols
        self.kind = kind
        self.version = version
        self.session_ms = session_ms
        self.rebalance_ms = rebalance_ms
        self.id = ""
        self.generation = -1

    @property
    def context(self) -> RequestContext:
        connection = ConnectionInfo(
            connection_id=1,
            listener_name="PLAINTEXT",
            client_host="127.0.0.1",
            client_port=1,
            local_host="127.0.0.1",
            local_port=9092,
        )
        return RequestContext(connection, ApiKey.JOIN_GROUP, self.version, client_id=self.name)

    def join_request(self) -> JoinGroupRequest:
        return JoinGroupRequest(
            group_id=self.group,
            session_timeout_ms=self.session_ms,
            rebalance_timeout_ms=self.rebalance_ms,
            member_id=self.id,
            group_instance_id=self.instance,
            protocol_type=self.kind,
            protocols=[
                JoinGroupRequest.JoinGroupRequestProtocol(name=name, metadata=metadata)
                for name, metadata in self.protocols
            ],
        )

    def join_once(self) -> Heard[JoinGroupResponse]:
        """One JoinGroup, with any result."""
        request = self.join_request()
        return self._heard(
            lambda shard: shard.joining.join(self.context, request),
            lambda error: JoinGroupResponse(error_code=error.code),
        )

    def join(self) -> Heard[JoinGroupResponse]:
        """JoinGroup, once more with the id that is asked for."""
        heard = self.join_once()
        if not heard.waits and heard.code is ErrorCode.MEMBER_ID_REQUIRED:
            self.id = heard.said.member_id
            heard = self.join_once()
        return heard

    def take(self, heard: Heard[JoinGroupResponse]) -> JoinGroupResponse:
        """Takes over the id and generation of a JoinGroup response."""
        assert heard.code is ErrorCode.NONE
        self.id, self.generation = heard.said.member_id, heard.said.generation_id
        return heard.said

    def joined(self) -> JoinGroupResponse:
        """Joins, alone or as the last."""
        heard = self.join()
        self.harness.advance(0)
        return self.take(heard)

    def sync(
        self, assignments: Mapping[str, bytes] | None = None, **changes: Any
    ) -> Heard[SyncGroupResponse]:
        request = SyncGroupRequest(
            group_id=self.group,
            generation_id=self.generation,
            member_id=self.id,
            group_instance_id=self.instance,
            assignments=[
                SyncGroupRequest.SyncGroupRequestAssignment(member_id=member_id, assignment=assignment)
                for member_id, assignment in (assignments or {}).items()
            ],
        )
        for name, value in changes.items():
            setattr(request, name, value)
        return self._heard(
            lambda shard: shard.syncing.sync(request),
            lambda error: SyncGroupResponse(error_code=error.code),
        )

    def heartbeat(self) -> ErrorCode:
        """The error code of a Heartbeat, without waiting for its commit."""
        request = HeartbeatRequest(
            group_id=self.group,
            generation_id=self.generation,
            member_id=self.id,
            group_instance_id=self.instance,
        )
        try:
            response = self.harness.shard.leaving.heartbeat(request).response
        except ApiError as error:
            return error.code
        assert not isinstance(response, Pending)
        return ErrorCode(response.error_code)

    def leave(self) -> Heard[LeaveGroupResponse]:
        identity = LeaveGroupRequest.MemberIdentity(member_id=self.id, group_instance_id=self.instance)
        return self.leave_all(identity)

    def leave_all(self, *members: LeaveGroupRequest.MemberIdentity) -> Heard[LeaveGroupResponse]:
        request = LeaveGroupRequest(group_id=self.group, members=list(members))
        return self._heard(
            lambda shard: shard.leaving.leave(request),
            lambda error: LeaveGroupResponse(error_code=error.code),
        )

    def _heard(self, operation: Any, failed: Any) -> Heard[Any]:
        try:
            return Heard(self.harness.shard_harness.run(operation))
        except ApiError as error:
            return Heard(failed(error))
