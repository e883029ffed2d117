"""OffsetManager: commits and fetches, with and without transactions."""

from __future__ import annotations

import logging

import pytest

from barnabas.broker.coordinator.group.group import GroupType
from barnabas.broker.coordinator.group.offsets.commit import FetchedOffset, FetchedTopic
from barnabas.broker.coordinator.group.shard import GroupCoordinatorShard
from barnabas.broker.coordinator.records import GROUP_RECORDS, CoordinatorRecord, RecordSerde
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages.group_state import (
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    GroupMetadataKey,
    GroupMetadataValue,
    LegacyOffsetCommitKey,
    LegacyOffsetCommitValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from barnabas.protocol.wire import ZERO_UUID
from tests.broker.coordinator.group.offsets.offset_harness import (
    OffsetShard,
    commit,
    commit_in_transaction,
    commit_of,
    fetch_of,
    group_of,
    new_harness,
    offsets_in,
    tombstones,
    topic_of,
)
from tests.broker.coordinator.shard_harness import Logged, ShardHarness

NONE, TOO_LARGE = ErrorCode.NONE, ErrorCode.OFFSET_METADATA_TOO_LARGE
TOPIC_ID, OTHER_ID = b"topic".ljust(16), b"other".ljust(16)


def codes_of(error: pytest.ExceptionInfo[ApiError]) -> ErrorCode:
    return error.value.code


class TestCommit:
    def test_a_commit_writes_a_record_for_each_partition_and_is_fetched_afterwards(self) -> None:
        harness = new_harness()
        topic = topic_of("t", {0: 5, 2: 7}, TOPIC_ID, committed_leader_epoch=3, committed_metadata="here")
        assert commit(harness, topic) == [NONE, NONE]
        first, second = harness.records
        assert first == CoordinatorRecord(
            OffsetCommitKey(group="g", topic="t", partition=0),
            OffsetCommitValue(
                offset=5,
                leader_epoch=3,
                metadata="here",
                commit_timestamp=harness.now_ms,
                expire_timestamp=-1,
                topic_id=TOPIC_ID,
            ),
            version=4,
        )
        assert second.key == OffsetCommitKey(group="g", topic="t", partition=2)
        assert harness.shard.offsets.fetch(fetch_of([("t", ZERO_UUID, [0, 1, 2])])) == [
            FetchedTopic(
                "t",
                ZERO_UUID,
                [
                    FetchedOffset(0, 5, 3, "here"),
                    FetchedOffset(1, -1, -1, ""),
                    FetchedOffset(2, 7, 3, "here"),
                ],
            )
        ]

    def test_an_explicit_retention_is_written_in_version_1(self) -> None:
        harness = new_harness()
        commit(harness, topic_of("t", {0: 5}), retention_ms=1000)
        (record,) = harness.records
        assert isinstance(record.value, OffsetCommitValue)
        assert (record.version, record.value.expire_timestamp) == (1, harness.now_ms + 1000)

    def test_an_excessive_retention_is_written_as_the_greatest_timestamp(self) -> None:
        harness = new_harness()
        commit(harness, topic_of("t", {0: 5}), retention_ms=(1 << 63) - 1)
        (record,) = harness.records
        RecordSerde(GROUP_RECORDS).encode(record)
        assert isinstance(record.value, OffsetCommitValue)
        assert record.value.expire_timestamp == (1 << 63) - 1

    def test_no_metadata_is_written_as_empty_text(self) -> None:
        harness = new_harness()
        commit(harness, topic_of("t", {0: 5}, committed_metadata=None))
        (record,) = harness.records
        assert isinstance(record.value, OffsetCommitValue)
        assert record.value.metadata == ""

    @pytest.mark.parametrize(
        ("metadata", "code"),
        [("x" * 10, NONE), ("x" * 11, TOO_LARGE), ("é" * 10, NONE), ("😀" * 5, NONE), ("😀" * 6, TOO_LARGE)],
    )
    def test_metadata_is_measured_in_the_units_of_java(self, metadata: str, code: ErrorCode) -> None:
        harness = new_harness({"offset.metadata.max.bytes": "10"})
        assert commit(harness, topic_of("t", {0: 5}, committed_metadata=metadata)) == [code]
        assert len(harness.records) == (code is NONE)

    def test_a_partition_with_too_much_metadata_does_not_fail_the_others(self) -> None:
        harness = new_harness({"offset.metadata.max.bytes": "1"})
        wrong = topic_of("t", {0: 5}, committed_metadata="xx")
        assert commit(harness, wrong, topic_of("u", {0: 6})) == [TOO_LARGE, NONE]
        assert offsets_in(harness) == {("u", 0): 6}

    def test_commits_without_a_member_create_a_group(self, caplog: pytest.LogCaptureFixture) -> None:
        harness = new_harness()
        with caplog.at_level(logging.INFO, logger="barnabas.groups"):
            commit(harness, topic_of("t", {0: 5}), group_id="alone")
        assert harness.shard.groups.find("alone") is not None
        assert "[GroupId alone]" in caplog.text

    @pytest.mark.parametrize(
        ("version", "code"), [(8, ErrorCode.ILLEGAL_GENERATION), (9, ErrorCode.GROUP_ID_NOT_FOUND)]
    )
    def test_a_generation_of_an_unknown_group(self, version: int, code: ErrorCode) -> None:
        harness = new_harness()
        with pytest.raises(ApiError) as error:
            commit(harness, topic_of("t", {0: 5}), epoch=1, member_id="m", api_version=version)
        assert codes_of(error) is code
        assert harness.records == []

    def test_the_group_checks_the_commit_and_renews_the_session(self) -> None:
        harness = new_harness()
        group = group_of(harness)
        commit(harness, topic_of("t", {0: 5}), member_id="m", group_instance_id="i", epoch=3, api_version=7)
        assert group.commits == [("m", "i", 3, False, 7)]
        assert group.heartbeats == ["m"]

    def test_a_rejection_by_the_group_rejects_all_partitions(self) -> None:
        harness = new_harness()
        group = group_of(harness)
        group.refuses = ApiError(ErrorCode.REBALANCE_IN_PROGRESS)
        with pytest.raises(ApiError) as error:
            commit(harness, topic_of("t", {0: 5}))
        assert codes_of(error) is ErrorCode.REBALANCE_IN_PROGRESS
        assert (group.heartbeats, harness.records) == ([], [])

    def test_an_old_member_epoch_is_checked_for_each_partition(self) -> None:
        harness = new_harness()
        group = group_of(harness)
        asked: list[object] = []

        def check(*partition: object) -> None:
            asked.append(partition)
            if partition[2] == 1:
                raise ApiError(ErrorCode.STALE_MEMBER_EPOCH)

        group.partition_check = check
        with pytest.raises(ApiError) as error:
            commit(harness, topic_of("t", {0: 5, 1: 6}, TOPIC_ID), member_id="m", epoch=1)
        assert codes_of(error) is ErrorCode.STALE_MEMBER_EPOCH
        assert asked == [("t", TOPIC_ID, 0), ("t", TOPIC_ID, 1)]
        assert harness.records == []

    def test_commits_are_counted(self) -> None:
        harness = new_harness()
        commit(harness, topic_of("t", {0: 5, 1: 6}))
        assert (harness.shard.offsets.committed_count, harness.shard.offsets.committed.count) == (2, 2)


class TestFetch:
    def test_an_unknown_group_has_committed_nothing(self) -> None:
        harness = new_harness()
        assert harness.shard.offsets.fetch(fetch_of([("t", ZERO_UUID, [0])])) == [
            FetchedTopic("t", ZERO_UUID, [FetchedOffset(0)])
        ]
        assert harness.shard.offsets.fetch(fetch_of()) == []

    def test_a_dead_group_has_committed_nothing(self) -> None:
        harness = new_harness()
        commit(harness, topic_of("t", {0: 5}))
        group_of(harness).refuses = ApiError(ErrorCode.GROUP_ID_NOT_FOUND)
        assert harness.shard.offsets.fetch(fetch_of([("t", ZERO_UUID, [0])])) == [
            FetchedTopic("t", ZERO_UUID, [FetchedOffset(0)])
        ]

    def test_an_unknown_member_is_rejected(self) -> None:
        harness = new_harness()
        group_of(harness).refuses = ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
        with pytest.raises(ApiError) as error:
            harness.shard.offsets.fetch(fetch_of())
        assert codes_of(error) is ErrorCode.UNKNOWN_MEMBER_ID

    @pytest.mark.parametrize(
        ("asked", "offset"), [(TOPIC_ID, 5), (ZERO_UUID, 5), (OTHER_ID, -1)], ids=["same", "any", "another"]
    )
    def test_offsets_of_a_deleted_topic_do_not_apply_to_its_successor(
        self, asked: bytes, offset: int
    ) -> None:
        harness = new_harness()
        commit(harness, topic_of("t", {0: 5}, TOPIC_ID))
        (topic,) = harness.shard.offsets.fetch(fetch_of([("t", asked, [0])]))
        assert topic.partitions[0].offset == offset

    def test_an_offset_without_a_topic_id_applies_to_any(self) -> None:
        harness = new_harness()
        commit(harness, topic_of("t", {0: 5}))
        (topic,) = harness.shard.offsets.fetch(fetch_of([("t", TOPIC_ID, [0])]))
        assert topic.partitions[0].offset == 5


class TestTransactions:
    def test_offsets_of_a_transaction_count_once_it_is_committed(self) -> None:
        harness = new_harness()
        commit(harness, topic_of("t", {0: 5}))
        assert commit_in_transaction(harness, 9, topic_of("t", {0: 8, 1: 3}, TOPIC_ID)) == [NONE, NONE]
        assert offsets_in(harness) == {("t", 0): 5}
        harness.end_transaction(9, committed=True)
        assert offsets_in(harness) == {("t", 0): 8, ("t", 1): 3}

    def test_transactional_records_have_no_topic_id(self) -> None:
        harness = new_harness()
        commit_in_transaction(harness, 9, topic_of("t", {0: 8}, TOPIC_ID))
        (record,) = harness.records
        assert isinstance(record.value, OffsetCommitValue)
        assert (record.value.topic_id, record.version) == (ZERO_UUID, 4)

    def test_offsets_of_an_aborted_transaction_never_count(self) -> None:
        harness = new_harness()
        commit(harness, topic_of("t", {0: 5}))
        commit_in_transaction(harness, 9, topic_of("t", {0: 8}))
        harness.end_transaction(9, committed=False)
        assert offsets_in(harness) == {("t", 0): 5}
        assert not harness.shard.offsets.pending.has_open("g")

    def test_a_stable_fetch_reports_open_transactions(self) -> None:
        harness = new_harness()
        commit(harness, topic_of("t", {0: 5, 1: 6}))
        commit_in_transaction(harness, 9, topic_of("t", {0: 8}))
        unstable = FetchedOffset(0, error=ErrorCode.UNSTABLE_OFFSET_COMMIT)
        asked = fetch_of([("t", ZERO_UUID, [0, 1])], require_stable=True)
        assert harness.shard.offsets.fetch(asked)[0].partitions == [unstable, FetchedOffset(1, 6)]
        assert harness.shard.offsets.fetch(fetch_of(require_stable=True))[0].partitions[0] == unstable
        assert harness.shard.offsets.fetch(fetch_of())[0].partitions[0] == FetchedOffset(0, 5)

    def test_a_later_commit_outside_a_transaction_overrides_an_earlier_one_inside(self) -> None:
        """The last record of a key is what compaction leaves."""
        harness = new_harness()
        commit_in_transaction(harness, 9, topic_of("t", {0: 8}))
        commit(harness, topic_of("t", {0: 5}))
        harness.end_transaction(9, committed=True)
        assert offsets_in(harness) == {("t", 0): 5}

    def test_two_transactions_of_one_group(self) -> None:
        harness = new_harness()
        commit_in_transaction(harness, 9, topic_of("t", {0: 8}))
        commit_in_transaction(harness, 10, topic_of("t", {0: 12}))
        harness.end_transaction(10, committed=True)
        assert harness.shard.offsets.pending.is_open("g", "t", 0)
        harness.end_transaction(9, committed=True)
        assert offsets_in(harness) == {("t", 0): 12}
        assert not harness.shard.offsets.pending.has_open("g")

    def test_a_marker_for_an_unknown_transaction_has_no_effect(self) -> None:
        harness = new_harness()
        harness.end_transaction(9, committed=True)
        assert offsets_in(harness) == {}

    @pytest.mark.parametrize("code", [ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.ILLEGAL_GENERATION])
    def test_a_stale_epoch_is_an_illegal_generation(self, code: ErrorCode) -> None:
        harness = new_harness()
        group_of(harness).refuses = ApiError(code)
        with pytest.raises(ApiError) as error:
            commit_in_transaction(harness, 9, topic_of("t", {0: 8}))
        assert codes_of(error) is ErrorCode.ILLEGAL_GENERATION

    def test_a_generation_of_an_unknown_group_is_illegal(self) -> None:
        harness = new_harness()
        asked = commit_of(topic_of("t", {0: 8}), epoch=1)
        with pytest.raises(ApiError) as error:
            harness.run(lambda shard: shard.offsets.commit_in_transaction(asked))
        assert codes_of(error) is ErrorCode.ILLEGAL_GENERATION

    def test_an_old_member_epoch_requires_a_known_topic(self) -> None:
        harness = new_harness()
        group_of(harness).partition_check = lambda *_: None
        with pytest.raises(ApiError) as error:
            commit_in_transaction(harness, 9, topic_of("t", {0: 8}, ZERO_UUID))
        assert codes_of(error) is ErrorCode.ILLEGAL_GENERATION

    def test_a_transactional_commit_is_no_heartbeat(self) -> None:
        harness = new_harness()
        group = group_of(harness)
        commit_in_transaction(harness, 9, topic_of("t", {0: 8}))
        assert (group.commits, group.heartbeats) == ([("", None, -1, True, 9)], [])


class TestDelete:
    def test_a_deletion_logs_the_client(self, caplog: pytest.LogCaptureFixture) -> None:
        harness = new_harness()
        commit(harness, topic_of("t", {0: 5, 1: 6}))
        with caplog.at_level(logging.INFO, logger="barnabas.groups"):
            codes = harness.run(lambda shard: shard.offsets.delete("g", [("t", [0, 3])], "somebody"))
        assert codes == [NONE, NONE]
        assert offsets_in(harness) == {("t", 1): 6}
        assert tombstones(harness) == [("g", "t", 0)]
        assert caplog.messages[-1] == "[GroupId g] Removed offsets: t-0. Reason: somebody asked for it."

    def test_a_topic_that_members_read_keeps_its_offsets(self) -> None:
        harness = new_harness()
        commit(harness, topic_of("t", {0: 5}))
        group_of(harness).subscribed = {"t"}
        codes = harness.run(lambda shard: shard.offsets.delete("g", [("t", [0]), ("u", [0])], "somebody"))
        assert codes == [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, NONE]
        assert offsets_in(harness) == {("t", 0): 5}

    def test_an_unknown_group(self) -> None:
        harness = new_harness()
        with pytest.raises(ApiError) as error:
            harness.run(lambda shard: shard.offsets.delete("g", [], "somebody"))
        assert codes_of(error) is ErrorCode.GROUP_ID_NOT_FOUND

    def test_offsets_of_open_transactions_are_deleted_too(self) -> None:
        harness = new_harness()
        commit_in_transaction(harness, 9, topic_of("t", {0: 8}))
        harness.run(lambda shard: shard.offsets.delete("g", [("t", [0])], "somebody"))
        harness.end_transaction(9, committed=True)
        assert offsets_in(harness) == {}
        assert not harness.shard.offsets.pending.has_open("g")

    def test_all_offsets_of_a_group_are_deleted_once_each(self) -> None:
        harness = new_harness()
        commit(harness, topic_of("t", {0: 5, 1: 6}))
        commit_in_transaction(harness, 9, topic_of("t", {1: 8, 2: 9}))
        records = harness.shard.offsets.delete_all("g")
        assert [record.key.partition for record in records] == [0, 1, 2]  # type: ignore[attr-defined]
        assert all(record.value is None for record in records)
        assert harness.shard.offsets.committed.group("g") is not None


class TestLoading:
    def test_loading_is_replaying(self) -> None:
        harness = new_harness()
        commit(harness, topic_of("t", {0: 5}), group_id="a")
        commit_in_transaction(harness, 9, topic_of("t", {0: 8}), group_id="a")
        commit_in_transaction(harness, 10, topic_of("t", {1: 8}), group_id="a")
        harness.end_transaction(9, committed=True)
        again = harness.reloaded()
        assert offsets_in(again, "a") == offsets_in(harness, "a") == {("t", 0): 8}
        assert again.shard.offsets.pending.has_open("a")

    def test_records_of_brokers_before_0_9(self) -> None:
        key = LegacyOffsetCommitKey(group="g", topic="t", partition=0)
        value = LegacyOffsetCommitValue(offset=5, metadata="old", commit_timestamp=1)
        harness: ShardHarness[OffsetShard] = ShardHarness(
            OffsetShard, log=[Logged(CoordinatorRecord(key, value))]
        )
        assert harness.shard.offsets.fetch(fetch_of())[0].partitions == [FetchedOffset(0, 5, -1, "old")]
        gone = ShardHarness(OffsetShard, log=[*harness.log, Logged(CoordinatorRecord(key, None))])
        assert offsets_in(gone) == {}

    def test_offsets_may_precede_their_group(self) -> None:
        """Compaction leaves the last record of each key, and a group's own is often newer than its offsets."""
        value = OffsetCommitValue(offset=5, metadata="", commit_timestamp=1)
        records = [
            CoordinatorRecord(OffsetCommitKey(group="new", topic="t", partition=0), value, 4),
            CoordinatorRecord(
                ConsumerGroupMetadataKey(group_id="new"), ConsumerGroupMetadataValue(epoch=3), 0
            ),
            CoordinatorRecord(OffsetCommitKey(group="old", topic="t", partition=0), value, 4),
            CoordinatorRecord(
                GroupMetadataKey(group="old"), GroupMetadataValue(protocol_type="consumer", generation=3), 3
            ),
        ]
        harness = ShardHarness(GroupCoordinatorShard, log=[Logged(record) for record in records])
        kinds = {group.group_id: (group.type, group.protocol_type) for group in harness.shard.groups}
        assert kinds == {"new": (GroupType.CONSUMER, "consumer"), "old": (GroupType.CLASSIC, "consumer")}
        for name in kinds:
            assert harness.shard.offsets.offsets_of(name)["t"][0].offset == 5
