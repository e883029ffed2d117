"""One partition: permissions of appends and reads, and the high watermark under its replicas."""

from __future__ import annotations

from pathlib import Path

import pytest

from barnabas.broker.metadata.topics import PartitionImage
from barnabas.broker.replica.partition import ACKS_ALL, Partition
from barnabas.config.log_config import LogConfig
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.storage.errors import OffsetOutOfRangeError
from barnabas.storage.offsets import EpochEndOffset, FetchIsolation, LogStartOffsetIncrementReason
from tests.broker.logs import batch, log, partition_image

HERE, ELSEWHERE, THIRD = 1, 2, 3


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path


def partition(
    directory: Path, image: PartitionImage | None = None, config: LogConfig | None = None
) -> Partition:
    return Partition("t", b"t" * 16, image or partition_image(), log(directory, config=config), HERE)


def offsets(partition: Partition) -> tuple[int, int]:
    """The high watermark and the log end offset."""
    return partition.log.high_watermark, partition.log.log_end_offset


def code_of(error: pytest.ExceptionInfo[ApiError]) -> ErrorCode:
    assert error.value.message
    return error.value.code


# ---- a single replica


def test_a_single_replica_commits_appends_at_once(directory: Path) -> None:
    alone = partition(directory)
    info = alone.append_as_leader(batch("a", "b"), ACKS_ALL)
    assert (info.first_offset, info.last_offset) == (0, 1)
    assert offsets(alone) == (2, 2)
    data = alone.log.read(0, 1000, FetchIsolation.HIGH_WATERMARK, min_one_message=True)
    assert len(data.records.read()) == data.records.size > 0


def test_a_rejected_deletion_of_records_changes_nothing(directory: Path) -> None:
    alone = partition(directory)
    with pytest.raises(OffsetOutOfRangeError):
        alone.delete_records_on_leader(1)
    assert offsets(alone) == (0, 0)
    assert alone.low_watermark == 0


def test_a_new_leader_begins_its_epoch_at_the_log_end(directory: Path) -> None:
    alone = partition(directory)
    alone.append_as_leader(batch("a", "b", "c"), 1)
    alone.update(partition_image(leader_epoch=4, partition_epoch=1))
    alone.append_as_leader(batch("d"), 1)
    assert (alone.leader_epoch, alone.partition_epoch) == (4, 1)
    assert alone.end_offset_for_epoch(0) == EpochEndOffset(0, 3)
    assert alone.end_offset_for_epoch(3) == EpochEndOffset(0, 3)
    assert alone.end_offset_for_epoch(4) == EpochEndOffset(4, 4)


def test_the_text_form_is_the_name(directory: Path) -> None:
    assert str(partition(directory)) == "t-0"


# ---- checks of the leader and its epoch


@pytest.mark.parametrize(
    ("epoch", "code"),
    [(-1, None), (5, None), (4, ErrorCode.FENCED_LEADER_EPOCH), (6, ErrorCode.UNKNOWN_LEADER_EPOCH)],
)
def test_a_reader_that_names_an_epoch_must_name_the_current_one(
    directory: Path, epoch: int, code: ErrorCode | None
) -> None:
    leader = partition(directory, partition_image(leader_epoch=5))
    if code is None:
        leader.check_leader(epoch)
        return
    with pytest.raises(ApiError) as caught:
        leader.check_leader(epoch)
    assert code_of(caught) is code


def test_only_the_leader_appends(directory: Path) -> None:
    follower = partition(directory, partition_image(replicas=(HERE, ELSEWHERE), leader=ELSEWHERE))
    assert not follower.is_leader
    with pytest.raises(ApiError) as caught:
        follower.append_as_leader(batch("a"), 1)
    assert code_of(caught) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert offsets(follower) == (0, 0)


def test_a_failed_disk_is_reported_first(directory: Path) -> None:
    leader = partition(directory)
    leader.offline = True
    with pytest.raises(ApiError) as caught:
        leader.check_leader(99)
    assert code_of(caught) is ErrorCode.KAFKA_STORAGE_ERROR


# ---- several replicas


def test_the_high_watermark_is_the_lowest_log_end_in_the_isr(directory: Path) -> None:
    leader = partition(directory, partition_image(replicas=(HERE, ELSEWHERE, THIRD)))
    leader.append_as_leader(batch("a", "b", "c"), ACKS_ALL)
    assert offsets(leader) == (0, 3)
    assert not leader.follower_fetched(ELSEWHERE, 2, 0, 1000)
    assert offsets(leader) == (0, 3)
    assert leader.follower_fetched(THIRD, 3, 0, 1000)
    assert offsets(leader) == (2, 3)
    assert not leader.follower_fetched(THIRD, 3, 0, 1000)
    assert leader.follower_fetched(ELSEWHERE, 3, 0, 1000)
    assert offsets(leader) == (3, 3)


def test_a_replica_outside_the_isr_does_not_hold_back_the_high_watermark(directory: Path) -> None:
    leader = partition(directory, partition_image(replicas=(HERE, ELSEWHERE)))
    leader.append_as_leader(batch("a"), 1)
    assert offsets(leader) == (0, 1)
    leader.update(partition_image(replicas=(HERE, ELSEWHERE), isr=(HERE,), partition_epoch=1))
    assert offsets(leader) == (1, 1)


def test_follower_state_survives_an_update(directory: Path) -> None:
    image = partition_image(replicas=(HERE, ELSEWHERE))
    leader = partition(directory, image)
    leader.append_as_leader(batch("a", "b"), 1)
    leader.follower_fetched(ELSEWHERE, 1, 0, 1000)
    leader.update(image)
    assert offsets(leader) == (1, 2)


def test_in_a_new_epoch_follower_offsets_are_unknown(directory: Path) -> None:
    leader = partition(directory, partition_image(replicas=(HERE, ELSEWHERE)))
    leader.append_as_leader(batch("a", "b"), 1)
    leader.follower_fetched(ELSEWHERE, 1, 0, 1000)
    leader.update(partition_image(replicas=(HERE, ELSEWHERE), leader_epoch=1))
    leader.append_as_leader(batch("c"), 1)
    assert offsets(leader) == (1, 3)
    leader.follower_fetched(ELSEWHERE, 3, 0, 1000)
    assert offsets(leader) == (3, 3)


def test_a_node_without_a_replica_is_no_follower(directory: Path) -> None:
    leader = partition(directory)
    with pytest.raises(ApiError) as caught:
        leader.follower_fetched(ELSEWHERE, 0, 0, 1000)
    assert code_of(caught) is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_reader_sees_records_up_to_its_isolation_level(directory: Path) -> None:
    leader = partition(directory, partition_image(replicas=(HERE, ELSEWHERE)))
    leader.append_as_leader(batch("a"), 1)
    committed = leader.log.read(0, 1000, FetchIsolation.HIGH_WATERMARK, min_one_message=True)
    everything = leader.log.read(0, 1000, FetchIsolation.LOG_END, min_one_message=True)
    assert (committed.records.size, everything.records.size > 0) == (0, True)


# ---- min.insync.replicas


@pytest.mark.parametrize(
    ("replicas", "isr", "required", "enough"),
    [
        ((1,), (1,), 1, True),
        ((1,), (1,), 2, True),  # never more than there are replicas
        ((1, 2), (1,), 2, False),
        ((1, 2), (1, 2), 2, True),
        ((1, 2, 3), (1, 2), 2, True),
    ],
)
def test_acks_all_requires_min_insync_replicas(
    directory: Path, replicas: tuple[int, ...], isr: tuple[int, ...], required: int, enough: bool
) -> None:
    image = partition_image(replicas=replicas, isr=isr)
    leader = partition(directory, image, LogConfig(min_insync_replicas=required))
    if enough:
        leader.append_as_leader(batch("a"), ACKS_ALL)
        return
    with pytest.raises(ApiError) as caught:
        leader.append_as_leader(batch("a"), ACKS_ALL)
    assert code_of(caught) is ErrorCode.NOT_ENOUGH_REPLICAS
    leader.append_as_leader(batch("a"), 1)
    assert leader.log.log_end_offset == 1


# ---- divergence of a reader's log


@pytest.fixture
def two_epochs(directory: Path) -> Partition:
    """Epoch 1 has offsets 0..2, epoch 3 has 3..4."""
    leader = partition(directory, partition_image(leader_epoch=1))
    leader.append_as_leader(batch("a", "b", "c"), 1)
    leader.update(partition_image(leader_epoch=3))
    leader.append_as_leader(batch("d", "e"), 1)
    return leader


@pytest.mark.parametrize(
    ("epoch", "offset", "expected"),
    [
        (3, 5, None),
        (3, 3, None),
        (1, 3, None),
        (1, 4, EpochEndOffset(1, 3)),
        (2, 3, EpochEndOffset(1, 3)),
        (3, 6, EpochEndOffset(3, 5)),
        (0, 0, None),
        (0, 1, EpochEndOffset(0, 0)),
    ],
)
def test_the_diverging_epoch(
    two_epochs: Partition, epoch: int, offset: int, expected: EpochEndOffset | None
) -> None:
    assert two_epochs.diverging_epoch(epoch, offset) == expected


@pytest.mark.parametrize(("epoch", "offset"), [(4, 5), (3, 1), (0, 0)])
def test_an_unknown_epoch_or_offset(two_epochs: Partition, epoch: int, offset: int) -> None:
    two_epochs.log.maybe_increment_log_start_offset(2, LogStartOffsetIncrementReason.CLIENT_RECORD_DELETION)
    with pytest.raises(ApiError) as caught:
        two_epochs.diverging_epoch(epoch, offset)
    assert code_of(caught) is ErrorCode.OFFSET_OUT_OF_RANGE
