"""ClassicGroupService: passes requests to the right shard and kind of group, or fails with an error code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import pytest

from barnabas.broker.coordinator.group.classic.classic_service import ClassicGroupService
from barnabas.broker.coordinator.group.foreign import ShareGroup, StreamsGroup
from barnabas.broker.coordinator.group.group import Group, GroupType
from barnabas.broker.coordinator.group.shard import GroupCoordinatorShard
from barnabas.broker.coordinator.runtime import CoordinatorRuntime
from barnabas.broker.coordinator.shard import CoordinatorResult
from barnabas.broker.pending import Pending
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages import share_group_state as share
from barnabas.protocol.messages import streams_group_state as streams
from barnabas.protocol.messages.groups import (
    HeartbeatRequest,
    LeaveGroupRequest,
    ListGroupsRequest,
    SyncGroupRequest,
)
from barnabas.protocol.schema import Message
from tests.broker.coordinator.group.classic.classic_harness import AT_ONCE, ClassicHarness, Heard, Member

LOADING = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


R = TypeVar("R")


def heard(answer: Pending[R]) -> Heard[R]:
    return Heard[R](answer)


class OneShard:
    """A runtime of one shard, or one that answers with an error."""

    def __init__(self, harness: ClassicHarness) -> None:
        self.harness = harness
        self.fails: ErrorCode | None = None

    def write(self, key: str, operation: Callable[[Any], Any], failed: Callable[[ApiError], Any]) -> Any:
        return self._answer(lambda: self.harness.shard_harness.run(operation), failed)

    def read(self, key: str, operation: Callable[[Any], Any], failed: Callable[[ApiError], Any]) -> Any:
        return self._answer(lambda: operation(self.harness.shard), failed)

    def read_all(self, operation: Callable[[Any], Any], failed: Callable[[ApiError], Any]) -> list[Any]:
        return [self.read("", operation, failed)]

    def _answer(self, run: Callable[[], Any], failed: Callable[[ApiError], Any]) -> Any:
        answer: Pending[Any] = Pending()
        try:
            if self.fails is not None:
                raise ApiError(self.fails)
            response = run()
        except ApiError as error:
            response = failed(error)
        if isinstance(response, Pending):
            return response
        answer.complete(response)
        return answer


class Spoken:
    """A service over one shard."""

    def __init__(self) -> None:
        self.harness = ClassicHarness(AT_ONCE)
        self.runtime = OneShard(self.harness)
        runtime = cast("CoordinatorRuntime[GroupCoordinatorShard]", self.runtime)
        self.service = ClassicGroupService(runtime, self.harness.shard_harness.config)
        self.member: Member = self.harness.member("m")
        self.member.id, self.member.generation = "m", 1

    def say_all(self) -> list[Any]:
        """Sends a join, a sync, a heartbeat and a leave of the member; returns their responses."""
        context, service = self.member.context, self.service
        identity = LeaveGroupRequest.MemberIdentity(member_id="m")
        sync = SyncGroupRequest(group_id="g", generation_id=1, member_id="m")
        heartbeat = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
        leave = LeaveGroupRequest(group_id="g", members=[identity])
        answers: list[Heard[Any]] = [
            heard(service.join(context, self.member.join_request())),
            heard(service.sync(sync)),
            heard(service.heartbeat(heartbeat)),
            heard(service.leave(leave)),
        ]
        return [each.said for each in answers]

    def codes(self) -> list[ErrorCode]:
        return [ErrorCode(said.error_code) for said in self.say_all()]


class ConsumerLike:
    """A group of the consumer protocol, as far as the service uses it."""

    type = GroupType.CONSUMER
    group_id = "g"

    def __init__(self, *, is_empty: bool) -> None:
        self.is_empty = is_empty

    def tombstones(self) -> list[Any]:
        return []


def test_while_a_group_is_loaded_heartbeats_succeed_and_other_requests_fail() -> None:
    spoken = Spoken()
    spoken.runtime.fails = LOADING
    assert spoken.codes() == [LOADING, LOADING, ErrorCode.NONE, LOADING]


@pytest.mark.parametrize("code", [ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE])
def test_errors_of_the_runtime_are_returned_to_all_requests(code: ErrorCode) -> None:
    spoken = Spoken()
    spoken.runtime.fails = code
    assert spoken.codes() == [code] * 4


def test_a_consumer_group_with_members_answers_its_classic_members() -> None:
    spoken = Spoken()
    shard = spoken.harness.shard
    shard.groups.put(cast("Group", ConsumerLike(is_empty=False)))
    asked: list[type[Message]] = []

    def answers(*arguments: Any) -> CoordinatorResult[Any]:
        asked.append(type(arguments[-1]))
        raise ApiError(ErrorCode.REBALANCE_IN_PROGRESS)

    for name in ("join", "sync", "heartbeat", "leave"):
        setattr(shard.classic_members, name, answers)
    assert spoken.codes() == [ErrorCode.REBALANCE_IN_PROGRESS] * 4
    assert [each.__name__ for each in asked] == [
        "JoinGroupRequest",
        "SyncGroupRequest",
        "HeartbeatRequest",
        "LeaveGroupRequest",
    ]


def test_an_empty_group_of_another_kind_becomes_classic_with_its_first_member() -> None:
    spoken = Spoken()
    shard = spoken.harness.shard
    streams_group = StreamsGroup("g")
    epoch = streams.StreamsGroupMetadataKey(group_id="g"), streams.StreamsGroupMetadataValue()
    streams_group.apply(*epoch)
    for group in (cast("Group", ConsumerLike(is_empty=True)), streams_group):
        shard.groups.put(group)
        stranger = spoken.service.join(spoken.member.context, spoken.member.join_request())
        assert heard(stranger).code is ErrorCode.UNKNOWN_MEMBER_ID
        assert shard.groups.find("g") is group
        new = spoken.harness.member("n")
        joined = heard(spoken.service.join(new.context, new.join_request()))
        assert joined.code is ErrorCode.MEMBER_ID_REQUIRED
        assert shard.groups.get("g").type is GroupType.CLASSIC
    kinds = [record.key.api_key for record in spoken.harness.shard_harness.records]
    assert kinds == [2, 17, 2], "what the group was is deleted in the same breath"


def test_a_conversion_that_cannot_be_written_is_undone() -> None:
    spoken = Spoken()
    group = cast("Group", ConsumerLike(is_empty=True))
    spoken.harness.shard.groups.put(group)
    spoken.harness.shard_harness.fails = ApiError(ErrorCode.NOT_COORDINATOR)
    new = spoken.harness.member("n")
    said = heard(spoken.service.join(new.context, new.join_request()))
    assert said.code is ErrorCode.NOT_COORDINATOR
    assert spoken.harness.shard.groups.find("g") is group


@pytest.mark.parametrize("kind", ["share", "streams"])
def test_groups_of_other_protocols_reject_classic_members(kind: str) -> None:
    spoken = Spoken()
    group: ShareGroup | StreamsGroup = ShareGroup("g")
    if kind == "streams":
        group = StreamsGroup("g")
        key = streams.StreamsGroupMemberMetadataKey(group_id="g", member_id="x")
        group.apply(key, streams.StreamsGroupMemberMetadataValue(instance_id=None, rack_id=None))
    else:
        member = share.ShareGroupMemberMetadataKey(group_id="g", member_id="x")
        group.apply(member, share.ShareGroupMemberMetadataValue(rack_id=None))
    spoken.harness.shard.groups.put(group)
    join, sync, heartbeat, leave = spoken.say_all()
    assert (join.error_code, join.member_id) == (ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "")
    assert sync.error_code == heartbeat.error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert (leave.error_code, leave.members[0].error_code) == (0, ErrorCode.UNKNOWN_MEMBER_ID)


def test_a_list_is_complete_or_an_error() -> None:
    spoken = Spoken()
    spoken.harness.stable("a")
    listed = heard(spoken.service.listed(ListGroupsRequest())).said
    assert [group.group_id for group in listed.groups] == ["g"]
    spoken.runtime.fails = LOADING
    assert heard(spoken.service.listed(ListGroupsRequest())).code is LOADING
    spoken.runtime.fails = ErrorCode.NOT_COORDINATOR
    listed = heard(spoken.service.listed(ListGroupsRequest())).said
    assert (listed.error_code, listed.groups) == (0, [])


def test_descriptions_and_deletions_fail_for_each_group() -> None:
    spoken = Spoken()
    spoken.runtime.fails = LOADING
    described = heard(spoken.service.describe(["g", "h"], 6)).said
    assert [(each.group_id, each.error_code) for each in described] == [("g", LOADING), ("h", LOADING)]
    deleted = heard(spoken.service.delete(["g", "h", "g"])).said
    assert [(each.group_id, each.error_code) for each in deleted] == [("g", LOADING), ("h", LOADING)]
