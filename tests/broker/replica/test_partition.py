"""One partition: who may append and read, and how far the high watermark follows its replicas."""

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
    """The high watermark and the log's end."""
    return partition.log.high_watermark, partition.log.log_end_offset


def code_of(error: pytest.ExceptionInfo[ApiError]) -> ErrorCode:
    assert error.value.message
    return error.value.code


# ---- alone


def test_alone_what_is_appended_is_committed_at_once(directory: Path) -> None:
    alone = partition(directory)
    info = alone.append_as_leader(batch("a", "b"), ACKS_ALL)
    assert (info.first_offset, info.last_offset) == (0, 1)
    assert offsets(alone) == (2, 2)
    data = alone.log.read(0, 1000, FetchIsolation.HIGH_WATERMARK, min_one_message=True)
    assert len(data.records.read()) == data.records.size > 0


def test_what_the_log_refuses_moves_nothing(directory: Path) -> None:
    alone = partition(directory)
    with pytest.raises(OffsetOutOfRangeError):
        alone.delete_records_on_leader(1)
    assert offsets(alone) == (0, 0)
    assert alone.low_watermark == 0


def test_a_new_leader_opens_its_epoch_where_the_log_ends(directory: Path) -> None:
    alone = partition(directory)
    alone.append_as_leader(batch("a", "b", "c"), 1)
    alone.update(partition_image(leader_epoch=4, partition_epoch=1))
    alone.append_as_leader(batch("d"), 1)
    assert (alone.leader_epoch, alone.partition_epoch) == (4, 1)
    assert alone.end_offset_for_epoch(0) == EpochEndOffset(0, 3)
    assert alone.end_offset_for_epoch(3) == EpochEndOffset(0, 3)
    assert alone.end_offset_for_epoch(4) == EpochEndOffset(4, 4)


def test_it_goes_by_its_name(directory: Path) -> None:
    assert str(partition(directory)) == "t-0"


# ---- who may ask


@pytest.mark.parametrize(
    ("epoch", "code"),
    [(-1, None), (5, None), (4, ErrorCode.FENCED_LEADER_EPOCH), (6, ErrorCode.UNKNOWN_LEADER_EPOCH)],
)
def test_a_reader_that_names_an_epoch_has_to_name_ours(
    directory: Path, epoch: int, code: ErrorCode | None
) -> None:
    leader = partition(directory, partition_image(leader_epoch=5))
    if code is None:
        leader.check_leader(epoch)
        return
    with pytest.raises(ApiError) as caught:
        leader.check_leader(epoch)
    assert code_of(caught) is code


def test_what_another_leads_is_not_written_here(directory: Path) -> None:
    follower = partition(directory, partition_image(replicas=(HERE, ELSEWHERE), leader=ELSEWHERE))
    assert not follower.is_leader
    with pytest.raises(ApiError) as caught:
        follower.append_as_leader(batch("a"), 1)
    assert code_of(caught) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert offsets(follower) == (0, 0)


def test_a_failed_disk_is_told_before_anything_else(directory: Path) -> None:
    leader = partition(directory)
    leader.offline = True
    with pytest.raises(ApiError) as caught:
        leader.check_leader(99)
    assert code_of(caught) is ErrorCode.KAFKA_STORAGE_ERROR


# ---- with others


def test_the_high_watermark_is_the_lowest_end_in_the_isr(directory: Path) -> None:
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


def test_a_replica_that_left_the_isr_holds_nobody_back(directory: Path) -> None:
    leader = partition(directory, partition_image(replicas=(HERE, ELSEWHERE)))
    leader.append_as_leader(batch("a"), 1)
    assert offsets(leader) == (0, 1)
    leader.update(partition_image(replicas=(HERE, ELSEWHERE), isr=(HERE,), partition_epoch=1))
    assert offsets(leader) == (1, 1)


def test_what_is_known_of_a_follower_outlives_an_update(directory: Path) -> None:
    image = partition_image(replicas=(HERE, ELSEWHERE))
    leader = partition(directory, image)
    leader.append_as_leader(batch("a", "b"), 1)
    leader.follower_fetched(ELSEWHERE, 1, 0, 1000)
    leader.update(image)
    assert offsets(leader) == (1, 2)


def test_in_a_new_epoch_followers_have_to_say_anew_what_they_have(directory: Path) -> None:
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


def test_a_reader_sees_what_its_isolation_allows(directory: Path) -> None:
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
def test_acks_all_needs_so_many_replicas_in_sync(
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


# ---- where a reader's history parts from this one


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
def test_where_histories_part(
    two_epochs: Partition, epoch: int, offset: int, expected: EpochEndOffset | None
) -> None:
    assert two_epochs.diverging_epoch(epoch, offset) == expected


@pytest.mark.parametrize(("epoch", "offset"), [(4, 5), (3, 1), (0, 0)])
def test_an_epoch_or_an_offset_that_is_not_known_here(two_epochs: Partition, epoch: int, offset: int) -> None:
    two_epochs.log.maybe_increment_log_start_offset(2, LogStartOffsetIncrementReason.CLIENT_RECORD_DELETION)
    with pytest.raises(ApiError) as caught:
        two_epochs.diverging_epoch(epoch, offset)
    assert code_of(caught) is ErrorCode.OFFSET_OUT_OF_RANGE
