"""Share groups and streams groups on disk: they are listed, keep their offsets, and accept no members."""

from __future__ import annotations

import pytest

from barnabas.broker.coordinator.group.classic.classic_service import list_groups
from barnabas.broker.coordinator.group.foreign import ShareGroup, StreamsGroup
from barnabas.broker.coordinator.group.group import GroupType
from barnabas.broker.coordinator.group.offsets.commit import OffsetCommit
from barnabas.broker.coordinator.group.shard import GroupCoordinatorShard
from barnabas.broker.coordinator.records import CoordinatorRecord, tombstone
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages import share_group_state as share
from barnabas.protocol.messages import streams_group_state as streams
from barnabas.protocol.schema import Message
from tests.broker.coordinator.shard_harness import Logged, ShardHarness

RuntimeHarness = ShardHarness[GroupCoordinatorShard]


def loaded(*records: tuple[Message, Message | None]) -> RuntimeHarness:
    """A shard that has loaded these records, keys and values."""
    log = [Logged(CoordinatorRecord(key, value)) for key, value in records]
    return ShardHarness(GroupCoordinatorShard, log=log)


MEMBER = (
    streams.StreamsGroupMemberMetadataKey(group_id="g", member_id="m"),
    streams.StreamsGroupMemberMetadataValue(
        instance_id=None, rack_id=None, client_id="c", client_host="/1", process_id="p"
    ),
)
TOPOLOGY = (
    streams.StreamsGroupTopologyKey(group_id="g"),
    streams.StreamsGroupTopologyValue(
        epoch=2,
        subtopologies=[
            streams.StreamsGroupTopologyValue.Subtopology(
                subtopology_id="0",
                source_topics=["in"],
                repartition_source_topics=[streams.StreamsGroupTopologyValue.TopicInfo(name="between")],
            )
        ],
    ),
)


def whole(epoch: int, topology_epoch: int = 2) -> tuple[Message, Message]:
    return (
        streams.StreamsGroupMetadataKey(group_id="g"),
        streams.StreamsGroupMetadataValue(epoch=epoch, validated_topology_epoch=topology_epoch),
    )


def target(epoch: int) -> tuple[Message, Message]:
    return (
        streams.StreamsGroupTargetAssignmentMetadataKey(group_id="g"),
        streams.StreamsGroupTargetAssignmentMetadataValue(assignment_epoch=epoch),
    )


def current(epoch: int, state: int = 0) -> tuple[Message, Message]:
    return (
        streams.StreamsGroupCurrentMemberAssignmentKey(group_id="g", member_id="m"),
        streams.StreamsGroupCurrentMemberAssignmentValue(member_epoch=epoch, state=state),
    )


STREAMS = (whole(3), MEMBER, TOPOLOGY, target(3), current(3))


def streams_group(*records: tuple[Message, Message | None]) -> StreamsGroup:
    group = loaded(*records).shard.groups.get("g")
    assert isinstance(group, StreamsGroup)
    return group


def code_of(action: object, *arguments: object, **named: object) -> ErrorCode:
    try:
        action(*arguments, **named)  # type: ignore[operator]
    except ApiError as error:
        return error.code
    return ErrorCode.NONE


@pytest.mark.parametrize(
    ("records", "state"),
    [
        ((whole(3), TOPOLOGY), "Empty"),
        ((whole(3), MEMBER), "NotReady"),
        ((whole(3, 1), MEMBER, TOPOLOGY), "NotReady"),
        ((whole(3), MEMBER, TOPOLOGY, target(2)), "Assigning"),
        ((whole(3), MEMBER, TOPOLOGY, target(3)), "Reconciling"),
        ((whole(3), MEMBER, TOPOLOGY, target(3), current(2)), "Reconciling"),
        ((whole(3), MEMBER, TOPOLOGY, target(3), current(3, 1)), "Reconciling"),
        (STREAMS, "Stable"),
    ],
)
def test_the_state_of_a_streams_group(records: tuple[tuple[Message, Message]], state: str) -> None:
    group = streams_group(*records)
    assert group.state_name == state
    assert group.is_empty == (state == "Empty")
    (listed,) = list_groups(loaded(*records).shard.groups, [], [])
    assert (listed.group_type, listed.protocol_type, listed.group_state) == ("streams", "streams", state)


def test_members_of_a_streams_group_commit_in_their_epoch() -> None:
    group = streams_group(*STREAMS)

    def code(member_id: str, epoch: int, *, transactional: bool = False, version: int = 9) -> ErrorCode:
        commit = OffsetCommit("g", member_id, None, epoch, version, ())
        return code_of(group.check_offset_commit, commit, is_transactional=transactional)

    assert code("m", 3) is ErrorCode.NONE
    assert code("m", 2) is code("m", 4) is ErrorCode.STALE_MEMBER_EPOCH
    assert code("other", 3) is code("", -1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert code("m", 3, version=8) is ErrorCode.UNSUPPORTED_VERSION
    assert code("m", 3, version=3, transactional=True) is ErrorCode.NONE
    assert code("", -1, transactional=True) is ErrorCode.NONE
    assert code_of(group.check_offset_fetch, None, -1) is ErrorCode.NONE
    assert code_of(group.check_offset_fetch, "m", 3) is ErrorCode.NONE
    assert code_of(group.check_offset_fetch, "m", 2) is ErrorCode.STALE_MEMBER_EPOCH
    assert code_of(group.check_offset_fetch, "other", 2) is ErrorCode.UNKNOWN_MEMBER_ID
    group.offset_committed_by("m")
    empty = streams_group(whole(3))
    commit = OffsetCommit("g", "", None, -1, 9, ())
    assert code_of(empty.check_offset_commit, commit, is_transactional=False) is ErrorCode.NONE


def test_offsets_of_topics_that_a_streams_group_reads_stay() -> None:
    group = streams_group(*STREAMS)
    assert [group.is_subscribed_to(topic) for topic in ("in", "between", "out")] == [True, True, False]
    assert group.offset_expires_from(5, 100) == 5
    assert code_of(group.check_offset_delete) is ErrorCode.NONE
    assert not streams_group(whole(3), TOPOLOGY).is_subscribed_to("in")


def test_a_streams_group_without_members_is_deleted_with_all_its_records() -> None:
    assert code_of(streams_group(*STREAMS).check_delete) is ErrorCode.NON_EMPTY_GROUP
    harness = loaded(whole(3), TOPOLOGY, target(3))
    harness.run(lambda shard: shard.delete_group("g"))
    assert harness.shard.groups.find("g") is None
    assert not harness.state()


def test_tombstones_of_unknown_records_have_no_effect() -> None:
    harness = loaded((MEMBER[0], None), whole(3), (whole(3)[0], None), (TOPOLOGY[0], None))
    assert harness.shard.groups.find("g") is None
    group = streams_group(whole(3), MEMBER, (MEMBER[0], None))
    assert group.is_empty


SHARE_MEMBER = (
    share.ShareGroupMemberMetadataKey(group_id="g", member_id="m"),
    share.ShareGroupMemberMetadataValue(
        rack_id=None, client_id="c", client_host="/1", subscribed_topic_names=["t"]
    ),
)
SHARE = (share.ShareGroupMetadataKey(group_id="g"), share.ShareGroupMetadataValue(epoch=1))


def share_state(topics: int) -> tuple[Message, Message]:
    info = share.ShareGroupStatePartitionMetadataValue.TopicPartitionsInfo(topic_name="t", partitions=[0])
    return (
        share.ShareGroupStatePartitionMetadataKey(group_id="g"),
        share.ShareGroupStatePartitionMetadataValue(initialized_topics=[info] * topics),
    )


def share_group(*records: tuple[Message, Message | None]) -> ShareGroup:
    group = loaded(*records).shard.groups.get("g")
    assert isinstance(group, ShareGroup)
    return group


def test_a_share_group_has_no_committed_offsets() -> None:
    group = share_group(SHARE, SHARE_MEMBER)
    assert (group.type, group.state_name, group.protocol_type) == (GroupType.SHARE, "Stable", "share")
    commit = OffsetCommit("g", "m", None, 1, 9, ())
    code = code_of(group.check_offset_commit, commit, is_transactional=False)
    assert code is ErrorCode.GROUP_ID_NOT_FOUND
    assert code_of(group.check_offset_fetch, None, -1) is ErrorCode.GROUP_ID_NOT_FOUND
    assert code_of(group.check_offset_delete) is ErrorCode.GROUP_ID_NOT_FOUND
    assert group.is_subscribed_to("t")
    assert not group.is_subscribed_to("u")
    assert group.offset_expires_from(5, 100) is None


def test_a_share_group_without_members_and_state_is_deleted() -> None:
    assert code_of(share_group(SHARE, SHARE_MEMBER).check_delete) is ErrorCode.NON_EMPTY_GROUP
    assert code_of(share_group(SHARE, share_state(1)).check_delete) is ErrorCode.UNSUPPORTED_VERSION
    group = share_group(SHARE, share_state(0))
    assert group.state_name == "Empty"
    assert code_of(group.check_delete) is ErrorCode.NONE
    assert group.tombstones() == [tombstone(SHARE[0]), tombstone(share_state(0)[0])]


def test_a_group_replaced_by_another_kind_with_the_same_id() -> None:
    assert share_group(*STREAMS, SHARE).type is GroupType.SHARE
