"""Members of classic groups, each with its own connection to one broker."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from barnabas.protocol.messages.groups import (
    DescribeGroupsRequest,
    FindCoordinatorRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    SyncGroupRequest,
)
from barnabas.protocol.schema import Message
from tests.conformance.broker_connection import BrokerConnection
from tests.conformance.dialogue_client import DialogueClient

JOIN, SYNC, HEARTBEAT, LEAVE, DESCRIBE = 9, 5, 4, 5, 6
"""The newest versions, for requests that a dialogue does not vary."""

MEMBER_ID_REQUIRED: Final = 79
SUBSCRIBED: Final = b"\0\0\0\0\0\1\0\1t\xff\xff\xff\xff"
"""A subscription: version 0, the topic t, no user data."""

Protocols = Sequence[tuple[str, bytes]]


def protocols_of(protocols: Protocols) -> list[JoinGroupRequest.JoinGroupRequestProtocol]:
    return [
        JoinGroupRequest.JoinGroupRequestProtocol(name=name, metadata=metadata)
        for name, metadata in protocols
    ]


def by_id(member: Any) -> str:
    """A sort key: a member id begins with the client id, or with the instance id."""
    return str(member.member_id)


def in_order(answer: Any) -> Any:
    """The response with members in an order that is the same for every broker."""
    answer.members.sort(key=by_id)
    return answer


def a_group(client: DialogueClient, word: str) -> str:
    """A group id that no other dialogue uses, once its coordinator has loaded."""
    group = client.topic(word)
    client.request_until(FindCoordinatorRequest(key=group), lambda answer: answer.error_code == 0, 3)
    heartbeat = HeartbeatRequest(group_id=group, generation_id=1, member_id="x")
    client.request_until(heartbeat, lambda answer: answer.error_code == 25, HEARTBEAT)
    return group


class Member:
    """A member of `group`; `id` and `generation` come from its last JoinGroup response."""

    def __init__(
        self,
        client: DialogueClient,
        group: str,
        *,
        instance: str | None = None,
        protocols: Protocols = (("range", SUBSCRIBED),),
        kind: str = "consumer",
        join_version: int = JOIN,
        session_ms: int = 10_000,
        rebalance_ms: int = 30_000,
    ) -> None:
        self._client = client
        self._connection = BrokerConnection(
            *client.connection.address, client_id=f"member-{next(client.numbers)}"
        )
        self._sent: tuple[Message, int] | None = None
        self.group = group
        self.instance = instance
        self.protocols = protocols
        self.kind = kind
        self.join_version = join_version
        self.session_ms = session_ms
        self.rebalance_ms = rebalance_ms
        self.id = ""
        self.generation = -1

    def __enter__(self) -> Member:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    # ---- joining

    def join_request(self) -> JoinGroupRequest:
        return JoinGroupRequest(
            group_id=self.group,
            session_timeout_ms=self.session_ms,
            rebalance_timeout_ms=self.rebalance_ms,
            member_id=self.id,
            group_instance_id=self.instance,
            protocol_type=self.kind,
            protocols=protocols_of(self.protocols),
        )

    def begin_to_join(self) -> None:
        """Sends JoinGroup, after it got a member id where one is required."""
        needs_id = self.join_version >= 4 and self.instance is None and not self.id
        if needs_id:
            self.id = self.request(self.join_request(), self.join_version).member_id
        self._send(self.join_request(), self.join_version)

    def joined(self) -> Any:
        """Receives and notes the response to `begin_to_join`."""
        answer = in_order(self._receive())
        self.id, self.generation = answer.member_id, answer.generation_id
        self._client.note(answer)
        return answer

    def join(self) -> Any:
        self.begin_to_join()
        return self.joined()

    # ---- SyncGroup, Heartbeat and LeaveGroup

    def begin_to_sync(self, assignments: Mapping[str, bytes] | None = None, version: int = SYNC) -> None:
        self._send(self.sync_request(assignments, version), version)

    def synced(self) -> Any:
        """Receives and notes the response to `begin_to_sync`."""
        answer = self._receive()
        self._client.note(answer)
        return answer

    def sync(self, assignments: Mapping[str, bytes] | None = None, version: int = SYNC) -> Any:
        self.begin_to_sync(assignments, version)
        return self.synced()

    def sync_request(
        self, assignments: Mapping[str, bytes] | None = None, version: int = SYNC
    ) -> SyncGroupRequest:
        return SyncGroupRequest(
            group_id=self.group,
            generation_id=self.generation,
            member_id=self.id,
            group_instance_id=self.instance if version >= 3 else None,
            protocol_type=self.kind,
            protocol_name=self.protocols[0][0],
            assignments=[
                SyncGroupRequest.SyncGroupRequestAssignment(member_id=member_id, assignment=assignment)
                for member_id, assignment in (assignments or {}).items()
            ],
        )

    def heartbeat(self, version: int = HEARTBEAT) -> Any:
        return self.request(
            HeartbeatRequest(
                group_id=self.group,
                generation_id=self.generation,
                member_id=self.id,
                group_instance_id=self.instance if version >= 3 else None,
            ),
            version,
        )

    def leave(self, version: int = LEAVE) -> Any:
        identity = LeaveGroupRequest.MemberIdentity(
            member_id=self.id, group_instance_id=self.instance, reason="done"
        )
        if version < 3:
            return self.request(LeaveGroupRequest(group_id=self.group, member_id=self.id), version)
        return self.request(LeaveGroupRequest(group_id=self.group, members=[identity]), version)

    def request(self, request: Message, version: int) -> Any:
        """Sends a request; notes and returns the response."""
        self._send(request, version)
        answer = self._receive()
        self._client.note(answer)
        return answer

    def _send(self, request: Message, version: int) -> None:
        self._sent = (request, version)
        self._connection.send(request, version)

    def _receive(self) -> Any:
        assert self._sent is not None
        return self._connection.receive(*self._sent)


def described(client: DialogueClient, group: str, version: int = DESCRIBE, *, exists: bool = True) -> Any:
    """Notes DescribeGroups of one group with its members sorted.

    Kafka returns the id of a new member before the first record of the group is committed; until then it is hidden.
    """
    if exists:
        seen = DescribeGroupsRequest(groups=[group])
        client.request_until(seen, lambda answer: answer.groups[0].group_state != "Dead", 5)

    def in_their_order(answer: Any) -> Any:
        answer.groups[0].members.sort(key=lambda member: (member.client_id, by_id(member)))
        return answer

    return client.request(DescribeGroupsRequest(groups=[group]), version, noting=in_their_order)


def awaits_state(client: DialogueClient, group: str, state: str) -> None:
    """Waits until the group is in `state`: the broker has received what other members sent."""
    client.request_until(
        DescribeGroupsRequest(groups=[group]), lambda answer: answer.groups[0].group_state == state, 5
    )


def awaits_members(client: DialogueClient, group: str, count: int) -> None:
    """Waits until the group has `count` members."""
    client.request_until(
        DescribeGroupsRequest(groups=[group]), lambda answer: len(answer.groups[0].members) == count, 5
    )
