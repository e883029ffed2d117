"""JoinGroup, SyncGroup, Heartbeat and LeaveGroup; ListGroups, DescribeGroups and DeleteGroups."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from barnabas.broker.metadata.internal_topics import CONSUMER_OFFSETS, partition_for
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.codec import decode, encode
from barnabas.protocol.messages.fetch import FetchRequest
from barnabas.protocol.messages.group_state import GroupMetadataKey, GroupMetadataValue
from barnabas.protocol.messages.groups import (
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    ListGroupsRequest,
    SyncGroupRequest,
)
from barnabas.protocol.records.batch import RecordBatch
from barnabas.protocol.records.entries import batches
from tests.conformance.dialogue_client import DialogueClient
from tests.conformance.dialogues import dialogue
from tests.conformance.dialogues.members import (
    SUBSCRIBED,
    Member,
    a_group,
    awaits_members,
    awaits_state,
    by_id,
    described,
)

STATIC_SINCE = 5
BOTH = (("range", SUBSCRIBED), ("roundrobin", SUBSCRIBED))
BOTH_TURNED = (("roundrobin", SUBSCRIBED), ("range", SUBSCRIBED))
OTHER = (("range", SUBSCRIBED + b"\0"),)


@contextmanager
def pair(client: DialogueClient, group: str, **kinds: Any) -> Iterator[tuple[Member, Member]]:
    """Two members of a stable group; the first is the leader."""
    with ExitStack() as stack:
        first = stack.enter_context(Member(client, group, **kinds))
        second = stack.enter_context(Member(client, group, **kinds))
        first.join()
        first.sync({first.id: b"1"})
        bring_in(client, first, second)
        second.begin_to_sync()
        first.sync({first.id: b"1", second.id: b"2"})
        second.synced()
        yield first, second


def bring_in(client: DialogueClient, existing: Member, new: Member) -> None:
    """Joins `new` to the group of `existing`."""
    new.begin_to_join()
    awaits_state(client, existing.group, "PreparingRebalance")
    existing.begin_to_join()
    existing.joined()
    new.joined()


# ---- JoinGroup


@dialogue(ApiKey.JOIN_GROUP, 0, 9)
def a_single_member(client: DialogueClient) -> None:
    group = a_group(client, "g")
    with Member(client, group, join_version=client.version) as member:
        member.join()
        described(client, group)
        member.join()  # the leader, before the assignment
        member.sync({member.id: b"all"})
        member.heartbeat()
        described(client, group)
        member.join()  # the leader of a stable group
        member.sync({member.id: b"all"})
        member.leave()
        member.join()
        described(client, group)


@dialogue(ApiKey.JOIN_GROUP, 0, 9)
def two_members(client: DialogueClient) -> None:
    group = a_group(client, "g")
    with pair(client, group, join_version=client.version) as (first, second):
        described(client, group)
        second.join()  # unchanged: the generation stays
        second.sync()
        second.protocols = OTHER
        second.begin_to_join()
        awaits_state(client, group, "PreparingRebalance")
        first.heartbeat()
        second_sync = second.sync_request()
        client.request(second_sync, 5)
        first.join()
        second.joined()
        first.sync({first.id: b"1"})
        second.sync()
        first.leave()
        second.heartbeat()
        second.join()
        second.sync({second.id: b"2", "nobody": b"3"})
        described(client, group)


@dialogue(ApiKey.JOIN_GROUP, 0, 9)
def joins_while_members_wait_for_assignments(client: DialogueClient) -> None:
    group = a_group(client, "g")
    with pair(client, group, join_version=client.version) as (first, second):
        second.protocols = OTHER
        second.begin_to_join()
        awaits_state(client, group, "PreparingRebalance")
        first.join()
        second.joined()
        second.begin_to_sync()
        awaits_state(client, group, "CompletingRebalance")
        first.join()  # the leader, unchanged: the same response again
        with Member(client, group, join_version=client.version) as third:
            third.begin_to_join()
            second.synced()  # REBALANCE_IN_PROGRESS
            first.begin_to_join()
            second.begin_to_join()
            first.joined()
            second.joined()
            third.joined()


@dialogue(ApiKey.JOIN_GROUP, 0, 9)
def rejected_joins(client: DialogueClient) -> None:
    group = a_group(client, "g")
    with Member(client, group, join_version=client.version) as member:

        def request_with(**changes: Any) -> None:
            request = member.join_request()
            for name, value in changes.items():
                setattr(request, name, value)
            member.request(request, client.version)

        request_with(group_id="")
        request_with(session_timeout_ms=5_999)
        request_with(session_timeout_ms=1_800_001)
        request_with(member_id="nobody")
        request_with(protocols=[])
        request_with(protocol_type="")
        described(client, group)
        member.join()
        request_with(protocols=[])
        request_with(protocol_type="connect")
        request_with(protocols=[JoinGroupRequest.JoinGroupRequestProtocol(name="other", metadata=b"")])
        request_with(member_id="nobody")
        request_with(member_id="", protocol_type="connect")
        described(client, group)


@dialogue(ApiKey.JOIN_GROUP, 0, 9)
def the_protocol_with_most_votes(client: DialogueClient) -> None:
    for word, first_likes, second_likes in (
        ("even", BOTH, BOTH_TURNED),
        ("turned", BOTH_TURNED, BOTH),
        ("common", BOTH_TURNED, (("range", SUBSCRIBED),)),
    ):
        group = a_group(client, word)
        with ExitStack() as stack:
            first = stack.enter_context(Member(client, group, join_version=client.version))
            second = stack.enter_context(Member(client, group, join_version=client.version))
            first.protocols, second.protocols = first_likes, second_likes
            first.join()
            bring_in(client, first, second)
            with Member(client, group, join_version=client.version) as third:
                third.protocols = BOTH_TURNED
                third.begin_to_join()
                awaits_members(client, group, 3)
                first.begin_to_join()
                second.begin_to_join()
                first.joined()
                second.joined()
                third.joined()


@dialogue(ApiKey.JOIN_GROUP, 8, 9)
def with_a_reason(client: DialogueClient) -> None:
    group = a_group(client, "g")
    with Member(client, group, join_version=client.version) as member:
        request = member.join_request()
        for reason in ("", "because", None):
            request.reason = reason
            member.request(request, client.version)


@dialogue(ApiKey.JOIN_GROUP, 4, 9)
def a_member_id_from_an_earlier_response(client: DialogueClient) -> None:
    group = a_group(client, "g")
    with Member(client, group, join_version=client.version) as member:
        first = member.request(member.join_request(), client.version).member_id
        client.note(first.startswith("member-1-"))
        client.request(HeartbeatRequest(group_id=group, generation_id=0, member_id=first), 4)
        described(client, group)
        member.id = first
        member.begin_to_join()
        member.joined()
        with Member(client, group, join_version=client.version) as second:
            second.request(second.join_request(), client.version)
            member.begin_to_join()  # the leader: a rebalance that waits for the member with the pending id
            awaits_state(client, group, "CompletingRebalance")
            member.joined()


@dialogue(ApiKey.JOIN_GROUP, STATIC_SINCE, 9)
def a_static_member_rejoins(client: DialogueClient) -> None:
    group = a_group(client, "g")
    with ExitStack() as stack:
        member, again, third = (
            stack.enter_context(Member(client, group, instance="i", join_version=client.version))
            for _ in range(3)
        )
        member.join()
        client.note(member.id.startswith("i-"))
        again.join()  # before the assignment: a new generation
        member.heartbeat()
        again.sync({again.id: b"all"})
        third.join()  # in a stable group: the generation stays
        described(client, group)
        member.generation = again.generation
        member.heartbeat()
        again.heartbeat()
        again.sync()
        again.join()
        third.heartbeat()
        third.sync({third.id: b"new"})
        third.sync()
        fourth = stack.enter_context(Member(client, group, instance="i", join_version=client.version))
        fourth.protocols = OTHER
        fourth.join()
        fourth.sync({fourth.id: b"x"})
        fifth = stack.enter_context(Member(client, group, instance="i", join_version=client.version))
        fifth.protocols = (("other", b""),)
        fifth.join()
        fifth.protocols = (("roundrobin", b""), ("range", b""))
        fifth.id = ""
        fifth.join()
        described(client, group)


@dialogue(ApiKey.JOIN_GROUP, STATIC_SINCE, 9)
def two_static_members_rejoin(client: DialogueClient) -> None:
    group = a_group(client, "g")
    with ExitStack() as stack:
        leader = stack.enter_context(Member(client, group, instance="a", join_version=client.version))
        follower = stack.enter_context(Member(client, group, instance="b", join_version=client.version))
        leader.join()
        bring_in(client, leader, follower)
        follower.begin_to_sync()
        leader.sync({leader.id: b"1", follower.id: b"2"})
        follower.synced()
        again = stack.enter_context(Member(client, group, instance="b", join_version=client.version))
        again.join()
        again.sync()
        first_again = stack.enter_context(Member(client, group, instance="a", join_version=client.version))
        first_again.join()
        first_again.sync()
        described(client, group)
        again.begin_to_join()
        again.joined()
        first_again.begin_to_join()
        awaits_state(client, group, "PreparingRebalance")
        last = stack.enter_context(Member(client, group, instance="a", join_version=client.version))
        last.begin_to_join()
        first_again.joined()  # fenced while it waits
        again.join()
        last.joined()


@dialogue(ApiKey.JOIN_GROUP, STATIC_SINCE, 9)
def an_instance_id_with_a_dynamic_member_id(client: DialogueClient) -> None:
    group = a_group(client, "g")
    with Member(client, group, join_version=client.version) as member:
        request = member.join_request()
        request.member_id = member.request(request, client.version).member_id
        request.group_instance_id = "i"
        member.request(request, client.version)
        request.group_instance_id = "other"
        request.member_id = "nobody"
        member.request(request, client.version)


def rejoin_with_short_timeout(client: DialogueClient, first: Member, second: Member) -> None:
    """Both members rejoin, the leader first, with a rebalance timeout of one second."""
    first.rebalance_ms = second.rebalance_ms = 1_000
    first.begin_to_join()
    awaits_state(client, first.group, "PreparingRebalance")
    second.begin_to_join()
    first.joined()
    second.joined()


def assign_both(first: Member, second: Member) -> None:
    """The leader (`first`) gives an assignment to each member."""
    second.begin_to_sync()
    first.sync({first.id: b"1", second.id: b"2"})
    second.synced()


@dialogue(ApiKey.JOIN_GROUP, 9, 9)
def a_member_misses_the_rebalance_timeout(client: DialogueClient) -> None:
    group = a_group(client, "g")
    with pair(client, group) as (first, second):
        rejoin_with_short_timeout(client, first, second)
        assign_both(first, second)
        second.protocols = OTHER
        second.begin_to_join()
        second.joined()
        first.heartbeat()
        described(client, group)


@dialogue(ApiKey.JOIN_GROUP, 9, 9)
def a_static_leader_misses_the_rebalance_timeout(client: DialogueClient) -> None:
    group = a_group(client, "g")
    with Member(client, group, instance="a") as first, Member(client, group, instance="b") as second:
        first.join()
        bring_in(client, first, second)
        assign_both(first, second)
        rejoin_with_short_timeout(client, first, second)
        assign_both(first, second)
        second.protocols = OTHER
        second.begin_to_join()
        second.joined()
        second.sync({second.id: b"all"})
        first.heartbeat()
        first.generation = second.generation
        first.heartbeat()
        first.sync()
        described(client, group)


@dialogue(ApiKey.SYNC_GROUP, 5, 5)
def members_that_do_not_sync_in_time(client: DialogueClient) -> None:
    group = a_group(client, "g")
    with pair(client, group) as (first, second):
        rejoin_with_short_timeout(client, first, second)
        second.begin_to_sync()
        second.synced()  # the leader has not assigned anything
        described(client, group)
        first.heartbeat()
        second.join()
        second.sync({second.id: b"all"})
        described(client, group)


# ---- SyncGroup


@dialogue(ApiKey.SYNC_GROUP, 0, 5)
def two_members_sync(client: DialogueClient) -> None:
    group = a_group(client, "g")
    with pair(client, group) as (first, second):
        second.sync(version=client.version)
        first.sync({first.id: b"ignored"}, version=client.version)
        second.begin_to_join()
        second.joined()
        first.begin_to_join()
        awaits_state(client, group, "PreparingRebalance")
        second.sync(version=client.version)
        second.join()
        first.joined()
        second.begin_to_sync(version=client.version)
        first.sync({second.id: b"all", "nobody": b"x"}, version=client.version)
        second.synced()
        described(client, group)


@dialogue(ApiKey.SYNC_GROUP, 0, 5)
def rejected_syncs(client: DialogueClient) -> None:
    group = a_group(client, "g")
    version = client.version
    with Member(client, group) as member:

        def request_with(**changes: Any) -> None:
            request = member.sync_request(version=version)
            for name, value in changes.items():
                setattr(request, name, value)
            member.request(request, version)

        request_with(group_id="")
        request_with()
        member.join()
        request_with(member_id="nobody")
        request_with(generation_id=member.generation + 1)
        request_with(generation_id=-1)
        if version >= 3:
            request_with(group_instance_id="i")
        if version >= 5:
            request_with(protocol_type=None)
            request_with(protocol_name=None)
            request_with(protocol_type="connect")
            request_with(protocol_name="roundrobin")
        member.leave()
        request_with()


@dialogue(ApiKey.SYNC_GROUP, 3, 5)
def a_static_member_is_fenced(client: DialogueClient) -> None:
    group = a_group(client, "g")
    with Member(client, group, instance="i") as member, Member(client, group, instance="i") as again:
        member.join()
        member.sync({member.id: b"1"}, version=client.version)
        again.join()
        member.sync(version=client.version)
        again.sync(version=client.version)


# ---- Heartbeat


@dialogue(ApiKey.HEARTBEAT, 0, 4)
def heartbeats(client: DialogueClient) -> None:
    group = a_group(client, "g")
    version = client.version
    with Member(client, group) as member:
        member.heartbeat(version)
        member.join()
        member.heartbeat(version)
        member.sync({member.id: b""})
        member.heartbeat(version)
        for generation, member_id, instance in (
            (member.generation + 1, member.id, None),
            (-1, member.id, None),
            (member.generation, "nobody", None),
            (member.generation, "", None),
            (member.generation, member.id, "i"),
        ):
            if instance is None or version >= 3:
                member.request(
                    HeartbeatRequest(
                        group_id=group,
                        generation_id=generation,
                        member_id=member_id,
                        group_instance_id=instance,
                    ),
                    version,
                )
        member.request(HeartbeatRequest(group_id="", generation_id=1, member_id=member.id), version)
        with Member(client, group) as other:
            other.begin_to_join()
            awaits_state(client, group, "PreparingRebalance")
            member.heartbeat(version)
            member.leave()
            member.heartbeat(version)
            other.joined()


@dialogue(ApiKey.HEARTBEAT, 3, 4)
def heartbeats_of_a_static_member(client: DialogueClient) -> None:
    group = a_group(client, "g")
    with Member(client, group, instance="i") as member, Member(client, group, instance="i") as again:
        member.join()
        member.sync({member.id: b"1"})
        member.heartbeat(client.version)
        again.join()
        member.heartbeat(client.version)
        again.heartbeat(client.version)


# ---- LeaveGroup


@dialogue(ApiKey.LEAVE_GROUP, 0, 5)
def leaving(client: DialogueClient) -> None:
    group = a_group(client, "g")
    version = client.version
    with pair(client, group) as (first, second):
        first.leave(version)
        first.leave(version)
        second.heartbeat()
        second.leave(version)
        described(client, group)
        second.leave(version)
        second.group = ""
        second.leave(version)
        second.group = client.topic("no such group")
        second.leave(version)


@dialogue(ApiKey.LEAVE_GROUP, 0, 5)
def leaving_while_others_wait(client: DialogueClient) -> None:
    group = a_group(client, "g")
    with pair(client, group) as (first, second):
        second.protocols = OTHER
        second.begin_to_join()
        awaits_state(client, group, "PreparingRebalance")
        first.leave(client.version)
        second.joined()
        second.sync({second.id: b"all"})
        with Member(client, group) as third:
            third.begin_to_join()
            awaits_state(client, group, "PreparingRebalance")
            identity = LeaveGroupRequest.MemberIdentity(member_id=third.id)
            request = LeaveGroupRequest(group_id=group, members=[identity])
            if client.version < 3:
                request = LeaveGroupRequest(group_id=group, member_id=third.id)
            client.request(request)
            third.joined()
            second.join()


@dialogue(ApiKey.LEAVE_GROUP, 3, 5)
def many_leave_at_once(client: DialogueClient) -> None:
    group = a_group(client, "g")
    given = Member(client, group)
    with ExitStack() as stack:
        stack.enter_context(given)
        member = stack.enter_context(Member(client, group, instance="i"))
        member.join()
        member.sync({member.id: b"all"})
        pending = given.request(given.join_request(), 9).member_id
        client.request(LeaveGroupRequest(group_id=group, members=[]))
        named = LeaveGroupRequest.MemberIdentity
        leaving = [
            named(member_id="nobody"),
            named(member_id=member.id, group_instance_id="other"),
            named(member_id="other", group_instance_id="i"),
            named(member_id="", group_instance_id="other"),
            named(member_id="", group_instance_id=None),
            named(member_id=pending),
            named(member_id="", group_instance_id="i"),
            named(member_id=member.id, group_instance_id="i"),
        ]
        client.request(LeaveGroupRequest(group_id=group, members=leaving))
        described(client, group)
        client.request(LeaveGroupRequest(group_id=group, members=leaving[:2]))
        client.request(LeaveGroupRequest(group_id=client.topic("no such group"), members=leaving[:3]))


# ---- ListGroups, DescribeGroups, DeleteGroups


def own_groups(client: DialogueClient) -> Any:
    """A function that notes only the groups of this dialogue."""

    def noted(answer: Any) -> object:
        own = [group for group in answer.groups if group.group_id.startswith(client.topic(""))]
        return answer.error_code, sorted(own, key=lambda group: str(group.group_id))

    return noted


@dialogue(ApiKey.LIST_GROUPS, 0, 5)
def groups_by_state_and_type(client: DialogueClient) -> None:
    group, empty, connect = (a_group(client, word) for word in ("g", "empty", "connect"))
    noted = own_groups(client)
    with Member(client, group) as member, Member(client, empty) as gone, Member(client, connect) as worker:
        worker.kind = "connect"
        worker.protocols = (("compatible", b"x"),)
        for each in (member, gone, worker):
            each.join()
        client.request(ListGroupsRequest(), noting=noted)
        member.sync({member.id: b"all"})
        gone.leave()
        client.request(ListGroupsRequest(), noting=noted)
        for states in ([" stable "], ["EMPTY", "CompletingRebalance"], ["nothing"], ["preparingrebalance"]):
            if client.version >= 4:
                client.request(ListGroupsRequest(states_filter=states), noting=noted)
        for types in (["Classic"], ["consumer"], ["nothing"], ["share", "classic"], [""]):
            if client.version >= 5:
                client.request(ListGroupsRequest(types_filter=types), noting=noted)
        if client.version >= 5:
            both = ListGroupsRequest(states_filter=["Empty"], types_filter=["classic"])
            client.request(both, noting=noted)


@dialogue(ApiKey.DESCRIBE_GROUPS, 0, 6)
def described_in_each_state(client: DialogueClient) -> None:
    group = a_group(client, "g")
    version = client.version
    described(client, group, version, exists=False)
    with Member(client, group) as member, Member(client, group) as other:
        member.id = member.request(member.join_request(), 9).member_id
        described(client, group, version)
        member.join()
        described(client, group, version)
        member.sync({member.id: b"all"})
        described(client, group, version)
        other.begin_to_join()
        awaits_members(client, group, 2)
        described(client, group, version)
        member.leave()
        other.joined()
        other.leave()
        described(client, group, version)
    client.request(DescribeGroupsRequest(groups=[]))
    client.request(DescribeGroupsRequest(groups=[""]))


@dialogue(ApiKey.DESCRIBE_GROUPS, 3, 6)
def authorized_operations(client: DialogueClient) -> None:
    group = a_group(client, "g")
    with Member(client, group, instance="i" if client.version >= 4 else None) as member:
        member.join()
        for name in (group, client.topic("none")):
            client.request(DescribeGroupsRequest(groups=[name], include_authorized_operations=True))


@dialogue(ApiKey.DELETE_GROUPS, 0, 2)
def deletion_in_each_state(client: DialogueClient) -> None:
    group, other = a_group(client, "g"), a_group(client, "other")
    request = DeleteGroupsRequest(groups_names=[group])
    client.request(request)
    with Member(client, group) as member, Member(client, other) as second:
        member.join()
        client.request(request)
        member.sync({member.id: b"all"})
        client.request(request)
        member.leave()
        client.request(DeleteGroupsRequest(groups_names=[group, group]))
        described(client, group, exists=False)
        client.request(request)
        member.id = ""
        member.join()
        second.join()
        second.leave()
        both = DeleteGroupsRequest(groups_names=[group, other])
        client.request(both, noting=lambda it: sorted((r.group_id, r.error_code) for r in it.results))
    client.request(DeleteGroupsRequest(groups_names=[]))
    client.request(DeleteGroupsRequest(groups_names=[""]))


# ---- records in __consumer_offsets


def group_records(client: DialogueClient, group: str) -> None:
    """Notes the records of the group, without ids and times; asserts that they encode to the same bytes."""
    partition = FetchRequest.FetchPartition(
        partition=partition_for(group, 50), fetch_offset=0, partition_max_bytes=1 << 24
    )
    topic = FetchRequest.FetchTopic(topic=CONSUMER_OFFSETS, partitions=[partition])
    request = FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=1 << 24, topics=[topic])
    answer: Any = client.connection.request(request, 11)
    data = bytes(answer.responses[0].partitions[0].records or b"")
    for batch in batches(data):
        assert isinstance(batch, RecordBatch)
        for record in batch.records():
            key, value = bytes(record.key or b""), record.value
            if key[:2] != b"\0\2" or decode(GroupMetadataKey, 0, key[2:]).group != group:
                continue
            if value is None:
                client.note("tombstone")
                continue
            version = int.from_bytes(value[:2], "big")
            decoded = decode(GroupMetadataValue, version, value[2:])
            assert encode(decoded, version) == bytes(value[2:])
            decoded.members.sort(key=by_id)
            client.note((version, decoded))


@dialogue(ApiKey.SYNC_GROUP, 5, 5)
def records_of_a_groups_life(client: DialogueClient) -> None:
    group = a_group(client, "g")
    with Member(client, group, instance="i") as member, Member(client, group, instance="i") as again:
        member.join()
        member.sync({member.id: b"all"})
        again.join()
        again.leave()
        client.request(DeleteGroupsRequest(groups_names=[group]), 2)
    group_records(client, group)


@dialogue(ApiKey.SYNC_GROUP, 5, 5)
def records_of_a_group_with_two_members(client: DialogueClient) -> None:
    group = a_group(client, "g")
    with pair(client, group) as (first, second):
        second.leave()
        first.join()
        first.sync({})
        first.leave()
    group_records(client, group)


@dialogue(ApiKey.SYNC_GROUP, 5, 5)
def the_leaders_second_assignment_comes_too_late(client: DialogueClient) -> None:
    group = a_group(client, "g")
    with Member(client, group) as member:
        member.join()
        member.sync({member.id: b"first"})
        member.sync({member.id: b"second"})
    request = SyncGroupRequest(
        group_id=group, generation_id=1, member_id="x", protocol_type="a", protocol_name="b"
    )
    client.request(request)
