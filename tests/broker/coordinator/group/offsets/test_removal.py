"""OffsetRemoval: what expires and when, what goes with its topic, and what the log says of it."""

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
    new_bench,
    offsets_in,
    tombstones,
    topic_of,
)
from tests.broker.coordinator.shard_harness import ShardBench

MINUTE_MS = 60_000
SETTINGS = {"offsets.retention.minutes": "10", "offsets.retention.check.interval.ms": str(MINUTE_MS)}
TOPIC_ID, OTHER_ID = b"topic".ljust(16), b"other".ljust(16)


@pytest.fixture
def bench() -> ShardBench[OffsetShard]:
    return new_bench(SETTINGS)


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO, logger="barnabas.groups")
    return caplog


class TestExpiration:
    def test_an_offset_expires_once_its_retention_is_over(
        self, bench: ShardBench[OffsetShard], lines: pytest.LogCaptureFixture
    ) -> None:
        commit(bench, topic_of("t", {0: 5}))
        bench.advance(5 * MINUTE_MS)
        commit(bench, topic_of("t", {1: 6}))
        bench.advance(5 * MINUTE_MS - 1)
        assert offsets_in(bench) == {("t", 0): 5, ("t", 1): 6}
        bench.advance(MINUTE_MS)
        assert offsets_in(bench) == {("t", 1): 6}
        assert tombstones(bench) == [("g", "t", 0)]
        assert bench.shard.offsets.expired_count == 1
        message = lines.messages[-1]
        assert message.startswith("[GroupId g] Removed offsets: t-0 at 5 (of ")
        assert message.endswith("Reason: offsets.retention.minutes=10 since it was committed.")

    def test_the_last_one_takes_the_group_along(
        self, bench: ShardBench[OffsetShard], lines: pytest.LogCaptureFixture
    ) -> None:
        commit(bench, topic_of("t", {0: 5}))
        bench.advance(11 * MINUTE_MS)
        assert bench.shard.groups.find("g") is None
        assert "[GroupId g] Removed the group: it has neither members nor offsets." in lines.messages

    def test_a_group_with_members_stays_without_offsets(self, bench: ShardBench[OffsetShard]) -> None:
        commit(bench, topic_of("t", {0: 5}))
        group_of(bench).is_empty = False
        bench.advance(11 * MINUTE_MS)
        assert offsets_in(bench) == {}
        assert bench.shard.groups.find("g") is not None

    def test_an_empty_group_without_offsets_goes_at_once(self, bench: ShardBench[OffsetShard]) -> None:
        group_of(bench)
        bench.advance(MINUTE_MS)
        assert bench.shard.groups.find("g") is None

    def test_a_share_group_is_left_alone(self, bench: ShardBench[OffsetShard]) -> None:
        group_of(bench).type = GroupType.SHARE
        bench.advance(MINUTE_MS)
        assert bench.shard.groups.find("g") is not None

    def test_nothing_expires_while_the_group_is_in_use(self, bench: ShardBench[OffsetShard]) -> None:
        commit(bench, topic_of("t", {0: 5}))
        commit(bench, topic_of("t", {1: 5}), retention_ms=1)
        group_of(bench).in_use = True
        bench.advance(20 * MINUTE_MS)
        assert offsets_in(bench) == {("t", 0): 5, ("t", 1): 5}

    def test_retention_counts_from_when_the_last_member_left(
        self, bench: ShardBench[OffsetShard], lines: pytest.LogCaptureFixture
    ) -> None:
        commit(bench, topic_of("t", {0: 5}))
        group_of(bench).expires_from = bench.now_ms + 5 * MINUTE_MS
        bench.advance(14 * MINUTE_MS)
        assert offsets_in(bench) == {("t", 0): 5}
        bench.advance(MINUTE_MS)
        assert offsets_in(bench) == {}
        assert "since the group lost its last member (" in lines.text

    def test_a_topic_that_members_read_keeps_its_offsets(self, bench: ShardBench[OffsetShard]) -> None:
        commit(bench, topic_of("t", {0: 5}), topic_of("u", {0: 6}))
        group_of(bench).subscribed = {"t"}
        bench.advance(11 * MINUTE_MS)
        assert offsets_in(bench) == {("t", 0): 5}
        assert bench.shard.groups.find("g") is not None

    def test_a_retention_of_its_own_counts_alone(
        self, bench: ShardBench[OffsetShard], lines: pytest.LogCaptureFixture
    ) -> None:
        commit(bench, topic_of("t", {0: 5}), retention_ms=2 * MINUTE_MS)
        commit(bench, topic_of("t", {1: 6}), retention_ms=20 * MINUTE_MS)
        bench.advance(2 * MINUTE_MS)
        assert offsets_in(bench) == {("t", 1): 6}
        assert lines.messages[-1].endswith("Reason: the retention that it was committed with.")
        bench.advance(17 * MINUTE_MS)
        assert offsets_in(bench) == {("t", 1): 6}
        bench.advance(MINUTE_MS)
        assert offsets_in(bench) == {}

    def test_what_a_transaction_is_about_to_change_stays_and_so_does_its_group(
        self, bench: ShardBench[OffsetShard]
    ) -> None:
        commit(bench, topic_of("t", {0: 5, 1: 6}))
        commit_in_transaction(bench, 9, topic_of("t", {0: 8}))
        bench.advance(11 * MINUTE_MS)
        assert offsets_in(bench) == {("t", 0): 5}
        bench.end_transaction(9, committed=False)
        bench.advance(MINUTE_MS)
        assert bench.shard.groups.find("g") is None

    def test_a_group_with_an_open_transaction_stays(self, bench: ShardBench[OffsetShard]) -> None:
        commit_in_transaction(bench, 9, topic_of("t", {0: 8}))
        bench.advance(MINUTE_MS)
        assert bench.shard.groups.find("g") is not None

    def test_what_could_not_be_written_is_tried_again_and_told_once(
        self, bench: ShardBench[OffsetShard], lines: pytest.LogCaptureFixture
    ) -> None:
        commit(bench, topic_of("t", {0: 5}))
        bench.advance(9 * MINUTE_MS)
        lines.clear()
        bench.fails = ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        bench.advance(2 * MINUTE_MS)
        assert offsets_in(bench) == {("t", 0): 5}
        assert lines.messages == []
        bench.fails = None
        bench.advance(MINUTE_MS)
        assert offsets_in(bench) == {}
        assert len(lines.messages) == 2  # the offset, the group

    def test_many_are_removed_piece_by_piece(
        self, bench: ShardBench[OffsetShard], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(removal, "_RECORDS_AT_ONCE", 7)
        sizes: list[int] = []
        result_of = removal._Slice.result

        def counted(work: removal._Slice) -> object:
            sizes.append(len(work.records))
            return result_of(work)

        monkeypatch.setattr(removal._Slice, "result", counted)
        for name in ("a", "b", "c"):
            commit(bench, topic_of("t", dict.fromkeys(range(10), 5)), group_id=name)
        bench.advance(10 * MINUTE_MS)
        bench.advance(1)
        assert [len(offsets_in(bench, name)) for name in ("a", "b", "c")] == [0, 0, 0]
        assert len(bench.shard.groups) == 0
        assert max(sizes) <= 8  # the last one of a group with its own
        assert len(tombstones(bench)) == 30

    def test_looks_are_cut_too(self, bench: ShardBench[OffsetShard], monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(removal, "_LOOKS_AT_ONCE", 2)
        for index in range(10):
            commit(bench, topic_of("t", {0: 5}), group_id=f"g{index}")
        bench.advance(10 * MINUTE_MS)
        bench.advance(1)
        assert len(bench.shard.groups) == 0

    def test_changed_keys_act(self, bench: ShardBench[OffsetShard]) -> None:
        commit(bench, topic_of("t", {0: 5}))
        bench.config.adopt(new_bench({**SETTINGS, "offsets.retention.minutes": "2"}).config)
        bench.advance(2 * MINUTE_MS)
        assert offsets_in(bench) == {}


class TestDeletedTopics:
    def _with_topic(self, bench: ShardBench[OffsetShard]) -> None:
        bench.metadata_changes(
            TopicRecord(name="t", topic_id=TOPIC_ID),
            PartitionRecord(topic_id=TOPIC_ID, partition_id=0, replicas=[1], isr=[1], leader=1),
        )

    def test_offsets_go_with_their_topic(
        self, bench: ShardBench[OffsetShard], lines: pytest.LogCaptureFixture
    ) -> None:
        self._with_topic(bench)
        commit(bench, topic_of("t", {0: 5}, TOPIC_ID), topic_of("u", {0: 6}))
        commit(bench, topic_of("t", {1: 7}, ZERO_UUID), group_id="h")
        bench.metadata_changes(RemoveTopicRecord(topic_id=TOPIC_ID))
        bench.advance(0)
        assert (offsets_in(bench), offsets_in(bench, "h")) == ({("u", 0): 6}, {})
        assert "[GroupId g] Removed offsets: t-0 at 5" in lines.text
        assert lines.messages[-1].endswith("Reason: its topic is deleted.")

    def test_those_of_another_topic_of_the_same_name_stay(self, bench: ShardBench[OffsetShard]) -> None:
        self._with_topic(bench)
        commit(bench, topic_of("t", {0: 5}, OTHER_ID))
        bench.metadata_changes(RemoveTopicRecord(topic_id=TOPIC_ID))
        bench.advance(0)
        assert offsets_in(bench) == {("t", 0): 5}

    def test_what_transactions_have_committed_goes_too(self, bench: ShardBench[OffsetShard]) -> None:
        self._with_topic(bench)
        commit_in_transaction(bench, 9, topic_of("t", {0: 8}, TOPIC_ID))
        bench.metadata_changes(RemoveTopicRecord(topic_id=TOPIC_ID))
        bench.advance(0)
        bench.end_transaction(9, committed=True)
        assert offsets_in(bench) == {}

    def test_a_group_is_not_asked_for_each_of_the_topics_that_are_deleted_at_once(
        self, bench: ShardBench[OffsetShard]
    ) -> None:
        """A thousand topics and as many groups were a million questions in one turn of the loop."""
        asked: list[str] = []

        class Asked(dict[str, dict[int, CommittedOffset]]):
            def get(self, topic: str, *default: Any) -> Any:
                asked.append(topic)
                return super().get(topic, *default)

        ids = [f"gone{number}".encode().ljust(16) for number in range(100)]
        bench.metadata_changes(
            *(TopicRecord(name=f"gone{number}", topic_id=topic_id) for number, topic_id in enumerate(ids))
        )
        commit(bench, topic_of("t", {0: 5}), topic_of("gone7", {0: 6}))
        groups = bench.shard.offsets.committed._groups
        groups["g"] = Asked(groups["g"])
        bench.metadata_changes(*(RemoveTopicRecord(topic_id=topic_id) for topic_id in ids))
        bench.advance(0)
        assert len(asked) < 10
        assert offsets_in(bench) == {("t", 0): 5}

    def test_many_are_removed_piece_by_piece(
        self, bench: ShardBench[OffsetShard], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(removal, "_RECORDS_AT_ONCE", 3)
        self._with_topic(bench)
        commit(bench, topic_of("t", dict.fromkeys(range(10), 5), TOPIC_ID))
        bench.metadata_changes(RemoveTopicRecord(topic_id=TOPIC_ID))
        bench.advance(0)
        bench.advance(1)
        assert offsets_in(bench) == {}
        assert len(tombstones(bench)) == 10


def test_a_timestamp_that_is_no_time_is_told_as_a_number() -> None:
    assert removal._time(0) == "1970-01-01T00:00:00+00:00"
    assert removal._time(1 << 62) == f"{1 << 62} ms"


def test_lines_are_not_longer_than_one_can_read() -> None:
    assert [line.count("t-") for line in removal._lines([f"t-{n}" for n in range(45)])] == [20, 20, 5]
