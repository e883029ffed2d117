"""OffsetRemoval: expiration, deletion with the topic, and the log lines."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from barnabas.broker.coordinator.group.group import GroupType
from barnabas.broker.coordinator.group.offsets import removal
from barnabas.broker.coordinator.group.offsets.store import CommittedOffset
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages.topic_records import PartitionRecord, RemoveTopicRecord, TopicRecord
from barnabas.protocol.wire import ZERO_UUID
from tests.broker.coordinator.group.offsets.offset_harness import (
    OffsetShard,
    commit,
    commit_in_transaction,
    group_of,
    new_harness,
    offsets_in,
    tombstones,
    topic_of,
)
from tests.broker.coordinator.shard_harness import ShardHarness

MINUTE_MS = 60_000
SETTINGS = {"offsets.retention.minutes": "10", "offsets.retention.check.interval.ms": str(MINUTE_MS)}
TOPIC_ID, OTHER_ID = b"topic".ljust(16), b"other".ljust(16)


@pytest.fixture
def harness() -> ShardHarness[OffsetShard]:
    return new_harness(SETTINGS)


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO, logger="barnabas.groups")
    return caplog


class TestExpiration:
    def test_an_offset_expires_once_its_retention_is_over(
        self, harness: ShardHarness[OffsetShard], lines: pytest.LogCaptureFixture
    ) -> None:
        commit(harness, topic_of("t", {0: 5}))
        harness.advance(5 * MINUTE_MS)
        commit(harness, topic_of("t", {1: 6}))
        harness.advance(5 * MINUTE_MS - 1)
        assert offsets_in(harness) == {("t", 0): 5, ("t", 1): 6}
        harness.advance(MINUTE_MS)
        assert offsets_in(harness) == {("t", 1): 6}
        assert tombstones(harness) == [("g", "t", 0)]
        assert harness.shard.offsets.expired_count == 1
        message = lines.messages[-1]
        assert message.startswith("[GroupId g] Removed offsets: t-0 at 5 (of ")
        assert message.endswith("Reason: offsets.retention.minutes=10 since it was committed.")

    def test_the_last_expired_offset_removes_the_group(
        self, harness: ShardHarness[OffsetShard], lines: pytest.LogCaptureFixture
    ) -> None:
        commit(harness, topic_of("t", {0: 5}))
        harness.advance(11 * MINUTE_MS)
        assert harness.shard.groups.find("g") is None
        assert "[GroupId g] Removed the group: it has neither members nor offsets." in lines.messages

    def test_a_group_with_members_stays_without_offsets(self, harness: ShardHarness[OffsetShard]) -> None:
        commit(harness, topic_of("t", {0: 5}))
        group_of(harness).is_empty = False
        harness.advance(11 * MINUTE_MS)
        assert offsets_in(harness) == {}
        assert harness.shard.groups.find("g") is not None

    def test_an_empty_group_without_offsets_is_removed_at_once(
        self, harness: ShardHarness[OffsetShard]
    ) -> None:
        group_of(harness)
        harness.advance(MINUTE_MS)
        assert harness.shard.groups.find("g") is None

    def test_a_share_group_is_left_alone(self, harness: ShardHarness[OffsetShard]) -> None:
        group_of(harness).type = GroupType.SHARE
        harness.advance(MINUTE_MS)
        assert harness.shard.groups.find("g") is not None

    def test_nothing_expires_while_the_group_is_in_use(self, harness: ShardHarness[OffsetShard]) -> None:
        commit(harness, topic_of("t", {0: 5}))
        commit(harness, topic_of("t", {1: 5}), retention_ms=1)
        group_of(harness).in_use = True
        harness.advance(20 * MINUTE_MS)
        assert offsets_in(harness) == {("t", 0): 5, ("t", 1): 5}

    def test_retention_counts_from_when_the_last_member_left_the_group(
        self, harness: ShardHarness[OffsetShard], lines: pytest.LogCaptureFixture
    ) -> None:
        commit(harness, topic_of("t", {0: 5}))
        group_of(harness).expires_from = harness.now_ms + 5 * MINUTE_MS
        harness.advance(14 * MINUTE_MS)
        assert offsets_in(harness) == {("t", 0): 5}
        harness.advance(MINUTE_MS)
        assert offsets_in(harness) == {}
        assert "since the group lost its last member (" in lines.text

    def test_a_topic_that_members_read_keeps_its_offsets(self, harness: ShardHarness[OffsetShard]) -> None:
        commit(harness, topic_of("t", {0: 5}), topic_of("u", {0: 6}))
        group_of(harness).subscribed = {"t"}
        harness.advance(11 * MINUTE_MS)
        assert offsets_in(harness) == {("t", 0): 5}
        assert harness.shard.groups.find("g") is not None

    def test_an_explicit_retention_overrides_the_default(
        self, harness: ShardHarness[OffsetShard], lines: pytest.LogCaptureFixture
    ) -> None:
        commit(harness, topic_of("t", {0: 5}), retention_ms=2 * MINUTE_MS)
        commit(harness, topic_of("t", {1: 6}), retention_ms=20 * MINUTE_MS)
        harness.advance(2 * MINUTE_MS)
        assert offsets_in(harness) == {("t", 1): 6}
        assert lines.messages[-1].endswith("Reason: the retention that it was committed with.")
        harness.advance(17 * MINUTE_MS)
        assert offsets_in(harness) == {("t", 1): 6}
        harness.advance(MINUTE_MS)
        assert offsets_in(harness) == {}

    def test_offsets_and_groups_of_open_transactions_stay(self, harness: ShardHarness[OffsetShard]) -> None:
        commit(harness, topic_of("t", {0: 5, 1: 6}))
        commit_in_transaction(harness, 9, topic_of("t", {0: 8}))
        harness.advance(11 * MINUTE_MS)
        assert offsets_in(harness) == {("t", 0): 5}
        harness.end_transaction(9, committed=False)
        harness.advance(MINUTE_MS)
        assert harness.shard.groups.find("g") is None

    def test_a_group_with_an_open_transaction_stays(self, harness: ShardHarness[OffsetShard]) -> None:
        commit_in_transaction(harness, 9, topic_of("t", {0: 8}))
        harness.advance(MINUTE_MS)
        assert harness.shard.groups.find("g") is not None

    def test_a_failed_removal_is_retried_and_logged_once(
        self, harness: ShardHarness[OffsetShard], lines: pytest.LogCaptureFixture
    ) -> None:
        commit(harness, topic_of("t", {0: 5}))
        harness.advance(9 * MINUTE_MS)
        lines.clear()
        harness.fails = ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        harness.advance(2 * MINUTE_MS)
        assert offsets_in(harness) == {("t", 0): 5}
        assert lines.messages == []
        harness.fails = None
        harness.advance(MINUTE_MS)
        assert offsets_in(harness) == {}
        assert len(lines.messages) == 2  # the offset, the group

    def test_many_are_removed_piece_by_piece(
        self, harness: ShardHarness[OffsetShard], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(removal, "_RECORDS_AT_ONCE", 7)
        sizes: list[int] = []
        result_of = removal._Slice.result

        def counted(work: removal._Slice) -> object:
            sizes.append(len(work.records))
            return result_of(work)

        monkeypatch.setattr(removal._Slice, "result", counted)
        for name in ("a", "b", "c"):
            commit(harness, topic_of("t", dict.fromkeys(range(10), 5)), group_id=name)
        harness.advance(10 * MINUTE_MS)
        harness.advance(1)
        assert [len(offsets_in(harness, name)) for name in ("a", "b", "c")] == [0, 0, 0]
        assert len(harness.shard.groups) == 0
        assert max(sizes) <= 8  # the last one together with its group
        assert len(tombstones(harness)) == 30

    def test_scans_are_split_too(
        self, harness: ShardHarness[OffsetShard], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(removal, "_CHECKS_AT_ONCE", 2)
        for index in range(10):
            commit(harness, topic_of("t", {0: 5}), group_id=f"g{index}")
        harness.advance(10 * MINUTE_MS)
        harness.advance(1)
        assert len(harness.shard.groups) == 0

    def test_changed_configuration_takes_effect(self, harness: ShardHarness[OffsetShard]) -> None:
        commit(harness, topic_of("t", {0: 5}))
        harness.config.adopt(new_harness({**SETTINGS, "offsets.retention.minutes": "2"}).config)
        harness.advance(2 * MINUTE_MS)
        assert offsets_in(harness) == {}


class TestDeletedTopics:
    def _with_topic(self, harness: ShardHarness[OffsetShard]) -> None:
        harness.metadata_changes(
            TopicRecord(name="t", topic_id=TOPIC_ID),
            PartitionRecord(topic_id=TOPIC_ID, partition_id=0, replicas=[1], isr=[1], leader=1),
        )

    def test_offsets_are_deleted_with_their_topic(
        self, harness: ShardHarness[OffsetShard], lines: pytest.LogCaptureFixture
    ) -> None:
        self._with_topic(harness)
        commit(harness, topic_of("t", {0: 5}, TOPIC_ID), topic_of("u", {0: 6}))
        commit(harness, topic_of("t", {1: 7}, ZERO_UUID), group_id="h")
        harness.metadata_changes(RemoveTopicRecord(topic_id=TOPIC_ID))
        harness.advance(0)
        assert (offsets_in(harness), offsets_in(harness, "h")) == ({("u", 0): 6}, {})
        assert "[GroupId g] Removed offsets: t-0 at 5" in lines.text
        assert lines.messages[-1].endswith("Reason: its topic is deleted.")

    def test_offsets_of_another_topic_of_the_same_name_stay(self, harness: ShardHarness[OffsetShard]) -> None:
        self._with_topic(harness)
        commit(harness, topic_of("t", {0: 5}, OTHER_ID))
        harness.metadata_changes(RemoveTopicRecord(topic_id=TOPIC_ID))
        harness.advance(0)
        assert offsets_in(harness) == {("t", 0): 5}

    def test_offsets_of_open_transactions_are_removed_too(self, harness: ShardHarness[OffsetShard]) -> None:
        self._with_topic(harness)
        commit_in_transaction(harness, 9, topic_of("t", {0: 8}, TOPIC_ID))
        harness.metadata_changes(RemoveTopicRecord(topic_id=TOPIC_ID))
        harness.advance(0)
        harness.end_transaction(9, committed=True)
        assert offsets_in(harness) == {}

    def test_a_group_is_not_checked_once_for_each_topic_deleted_together(
        self, harness: ShardHarness[OffsetShard]
    ) -> None:
        """A thousand topics and as many groups would be a million checks in one turn of the loop."""
        asked: list[str] = []

        class Asked(dict[str, dict[int, CommittedOffset]]):
            def get(self, topic: str, *default: Any) -> Any:
                asked.append(topic)
                return super().get(topic, *default)

        ids = [f"gone{number}".encode().ljust(16) for number in range(100)]
        harness.metadata_changes(
            *(TopicRecord(name=f"gone{number}", topic_id=topic_id) for number, topic_id in enumerate(ids))
        )
        commit(harness, topic_of("t", {0: 5}), topic_of("gone7", {0: 6}))
        groups = harness.shard.offsets.committed._groups
        groups["g"] = Asked(groups["g"])
        harness.metadata_changes(*(RemoveTopicRecord(topic_id=topic_id) for topic_id in ids))
        harness.advance(0)
        assert len(asked) < 10
        assert offsets_in(harness) == {("t", 0): 5}

    def test_many_are_removed_piece_by_piece(
        self, harness: ShardHarness[OffsetShard], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(removal, "_RECORDS_AT_ONCE", 3)
        self._with_topic(harness)
        commit(harness, topic_of("t", dict.fromkeys(range(10), 5), TOPIC_ID))
        harness.metadata_changes(RemoveTopicRecord(topic_id=TOPIC_ID))
        harness.advance(0)
        harness.advance(1)
        assert offsets_in(harness) == {}
        assert len(tombstones(harness)) == 10


def test_an_invalid_timestamp_is_logged_as_a_number() -> None:
    assert removal._time(0) == "1970-01-01T00:00:00+00:00"
    assert removal._time(1 << 62) == f"{1 << 62} ms"


def test_log_lines_have_a_readable_length() -> None:
    assert [line.count("t-") for line in removal._lines([f"t-{n}" for n in range(45)])] == [20, 20, 5]
