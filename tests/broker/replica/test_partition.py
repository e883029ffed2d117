"""One partition: permissions of appends and reads, and the high watermark under its replicas."""

from __future__ import annotations

from pathlib import Path

import pytest

from barnabas.broker.metadata.topics import PartitionImage
from barnabas.broker.replica.partition import ACKS_ALL, NO_EPOCH, Partition
from barnabas.config.log_config import LogConfig
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.storage.errors import OffsetOutOfRangeError
from barnabas.storage.offsets import EpochEndOffset, FetchIsolation, LogStartOffsetIncrementReason
from tests.broker.logs import batch, log, partition_image
from tests.broker.replica.isr_harness import LAG_MAX_MS, Cluster

HERE, ELSEWHERE, THIRD = 1, 2, 3


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path


def partition(
    directory: Path,
    image: PartitionImage | None = None,
    config: LogConfig | None = None,
    cluster: Cluster | None = None,
) -> Partition:
    context = None if cluster is None else cluster.context
    moved = None if cluster is None else cluster.moved.append
    return Partition(
        "t",
        b"t" * 16,
        image or partition_image(),
        log(directory, config=config),
        HERE,
        context=context,
        moved=moved,
    )


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
    assert not leader.follower_fetched(ELSEWHERE, 2, 0)
    assert offsets(leader) == (0, 3)
    assert leader.follower_fetched(THIRD, 3, 0)
    assert offsets(leader) == (2, 3)
    assert not leader.follower_fetched(THIRD, 3, 0)
    assert leader.follower_fetched(ELSEWHERE, 3, 0)
    assert offsets(leader) == (3, 3)


def test_a_replica_outside_the_isr_does_not_hold_back_the_high_watermark(directory: Path) -> None:
    leader = partition(directory, partition_image(replicas=(HERE, ELSEWHERE)))
    leader.append_as_leader(batch("a"), 1)
    assert offsets(leader) == (0, 1)
    leader.update(partition_image(replicas=(HERE, ELSEWHERE), isr=(HERE,), partition_epoch=1))
    assert offsets(leader) == (1, 1)


def test_a_follower_is_settled_while_all_is_committed_and_the_disk_works(directory: Path) -> None:
    leader = partition(directory, partition_image(replicas=(HERE, ELSEWHERE)))
    leader.append_as_leader(batch("a"), 1)
    assert leader.settled_replica(ELSEWHERE, NO_EPOCH) is None
    leader.follower_fetched(ELSEWHERE, leader.log_end_offset, 0)
    assert [leader.settled_replica(ELSEWHERE, NO_EPOCH)] == list(leader.remote_replicas)
    leader.offline = True
    assert leader.settled_replica(ELSEWHERE, NO_EPOCH) is None


def test_follower_state_survives_an_update(directory: Path) -> None:
    image = partition_image(replicas=(HERE, ELSEWHERE))
    leader = partition(directory, image)
    leader.append_as_leader(batch("a", "b"), 1)
    leader.follower_fetched(ELSEWHERE, 1, 0)
    leader.update(image)
    assert offsets(leader) == (1, 2)


def test_in_a_new_epoch_follower_offsets_are_unknown(directory: Path) -> None:
    leader = partition(directory, partition_image(replicas=(HERE, ELSEWHERE)))
    leader.append_as_leader(batch("a", "b"), 1)
    leader.follower_fetched(ELSEWHERE, 1, 0)
    leader.update(partition_image(replicas=(HERE, ELSEWHERE), leader_epoch=1))
    leader.append_as_leader(batch("c"), 1)
    assert offsets(leader) == (1, 3)
    leader.follower_fetched(ELSEWHERE, 3, 0)
    assert offsets(leader) == (3, 3)


def test_a_node_without_a_replica_is_no_follower(directory: Path) -> None:
    leader = partition(directory)
    with pytest.raises(ApiError) as caught:
        leader.follower_fetched(ELSEWHERE, 0, 0)
    assert code_of(caught) is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_reader_sees_records_up_to_its_isolation_level(directory: Path) -> None:
    leader = partition(directory, partition_image(replicas=(HERE, ELSEWHERE)))
    leader.append_as_leader(batch("a"), 1)
    committed = leader.log.read(0, 1000, FetchIsolation.HIGH_WATERMARK, min_one_message=True)
    everything = leader.log.read(0, 1000, FetchIsolation.LOG_END, min_one_message=True)
    assert (committed.records.size, everything.records.size > 0) == (0, True)


# ---- a member of a cluster


ALL = (HERE, ELSEWHERE, THIRD)


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


def led(directory: Path, cluster: Cluster, *isr: int, min_isr: int = 1) -> Partition:
    """One of three replicas, in leader epoch 5 and partition epoch 7."""
    image = partition_image(replicas=ALL, isr=isr, leader_epoch=5, partition_epoch=7)
    return partition(directory, image, LogConfig(min_insync_replicas=min_isr), cluster)


def test_a_follower_that_caught_up_joins_the_isr_when_the_controller_says_so(
    directory: Path, cluster: Cluster
) -> None:
    leader = led(directory, cluster, HERE)
    leader.append_as_leader(batch("a", "b"), 1)
    assert not leader.follower_fetched(ELSEWHERE, 2, 0, broker_epoch=20)
    leader.append_as_leader(batch("c"), 1)
    assert offsets(leader) == (2, 3)  # held back: it may have joined
    cluster.changes.commit()
    assert (leader.isr, leader.partition_epoch, cluster.moved) == ((HERE, ELSEWHERE), 8, [("t", 0)])
    assert leader.follower_fetched(ELSEWHERE, 3, 0, broker_epoch=20)
    assert offsets(leader) == (3, 3)


def test_a_committed_shrink_frees_the_high_watermark(directory: Path, cluster: Cluster) -> None:
    leader = led(directory, cluster, HERE, ELSEWHERE)
    leader.append_as_leader(batch("a"), 1)
    cluster.ms = LAG_MAX_MS + 1
    assert not leader.maybe_shrink_isr()
    assert (cluster.changes.isrs, offsets(leader)) == ([(HERE,)], (0, 1))
    cluster.changes.commit()
    assert (leader.isr, offsets(leader), cluster.moved) == ((HERE,), (1, 1), [("t", 0)])


def test_a_lagging_outsider_frees_the_high_watermark_at_the_next_check(
    directory: Path, cluster: Cluster
) -> None:
    leader = led(directory, cluster, HERE)
    leader.follower_fetched(ELSEWHERE, 0, 0, broker_epoch=20)
    cluster.changes.fail(ErrorCode.INELIGIBLE_REPLICA)
    leader.append_as_leader(batch("a"), 1)
    assert offsets(leader) == (0, 1)
    cluster.ms = LAG_MAX_MS + 1
    assert leader.maybe_shrink_isr()
    assert offsets(leader) == (1, 1)


def test_the_high_watermark_stands_still_while_too_few_are_in_sync(directory: Path, cluster: Cluster) -> None:
    leader = led(directory, cluster, HERE, min_isr=2)
    leader.append_as_leader(batch("a"), 1)
    assert offsets(leader) == (0, 1)
    before = leader.has_enough_in_sync
    leader.follower_fetched(ELSEWHERE, 1, 0, broker_epoch=20)
    assert (before, leader.has_enough_in_sync) == (False, True)  # as far as the leader can know
    assert offsets(leader) == (0, 1)
    cluster.changes.commit()
    assert offsets(leader) == (1, 1)


def test_an_older_image_is_ignored_in_either_role(directory: Path, cluster: Cluster) -> None:
    leader = led(directory, cluster, HERE)
    leader.follower_fetched(ELSEWHERE, 0, 0, broker_epoch=20)
    cluster.changes.commit()
    assert not leader.update(partition_image(replicas=ALL, isr=(HERE,), leader_epoch=5, partition_epoch=7))
    assert leader.isr == (HERE, ELSEWHERE)
    assert not leader.update(partition_image(replicas=ALL, leader=THIRD, leader_epoch=4, partition_epoch=6))
    assert leader.is_leader


def test_a_leader_that_follows_forgets_and_leads_again_without_old_offsets(
    directory: Path, cluster: Cluster
) -> None:
    one = led(directory, cluster, *ALL)
    one.append_as_leader(batch("a"), 1)
    one.follower_fetched(ELSEWHERE, 1, 0, broker_epoch=20)
    assert one.update(
        partition_image(replicas=ALL, isr=(ELSEWHERE,), leader=ELSEWHERE, leader_epoch=6, partition_epoch=8)
    )
    assert (one.is_leader, one.isr, list(one.remote_replicas)) == (False, (), [])
    assert one.update(partition_image(replicas=ALL, leader_epoch=7, partition_epoch=9))
    assert [(it.log_end_offset, it.broker_epoch) for it in one.remote_replicas] == [(-1, None)] * 2
    assert (one.epoch_start, one.log.latest_epoch) == (1, 7)
    assert offsets(one) == (0, 1)


def test_the_same_leader_in_the_same_epoch_keeps_the_followers_of_a_new_image(
    directory: Path, cluster: Cluster
) -> None:
    leader = led(directory, cluster, *ALL)
    leader.append_as_leader(batch("a", "b"), 1)
    leader.follower_fetched(ELSEWHERE, 2, 0, broker_epoch=20)
    image = partition_image(replicas=ALL, isr=(HERE, ELSEWHERE), leader_epoch=5, partition_epoch=8)
    assert not leader.update(image)
    assert offsets(leader) == (2, 2)


def test_an_unassigned_node_in_our_epoch_has_to_ask_again(directory: Path, cluster: Cluster) -> None:
    leader = led(directory, cluster, *ALL)
    leader.check_follower(THIRD, 5)
    for epoch, code in ((5, ErrorCode.UNKNOWN_LEADER_EPOCH), (-1, ErrorCode.NOT_LEADER_OR_FOLLOWER)):
        with pytest.raises(ApiError) as caught:
            leader.check_follower(9, epoch)
        assert code_of(caught) is code


def test_fetches_of_a_process_that_was_restarted_are_rejected(directory: Path, cluster: Cluster) -> None:
    leader = led(directory, cluster, HERE)
    with pytest.raises(ApiError) as caught:
        leader.follower_fetched(ELSEWHERE, 0, 0, broker_epoch=19)
    assert code_of(caught) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (cluster.changes.proposals, [it.log_end_offset for it in leader.remote_replicas]) == ([], [-1, -1])
    leader.follower_fetched(ELSEWHERE, 0, 0, broker_epoch=21)  # the metadata are behind; not eligible yet
    assert cluster.changes.proposals == []


def test_the_low_watermark_leaves_out_brokers_that_are_dead(directory: Path, cluster: Cluster) -> None:
    leader = led(directory, cluster, *ALL)
    leader.append_as_leader(batch("a", "b"), 1)
    leader.follower_fetched(ELSEWHERE, 2, 0, broker_epoch=20)
    leader.follower_fetched(THIRD, 2, 0, broker_epoch=30)
    assert leader.delete_records_on_leader(2) == (2, 0)
    assert leader.follower_fetched(ELSEWHERE, 2, 2, broker_epoch=20) is False
    cluster.change(THIRD, fenced=True)
    assert leader.low_watermark == 2


def test_a_fetch_that_moves_the_low_watermark_says_so(directory: Path, cluster: Cluster) -> None:
    leader = led(directory, cluster, HERE, ELSEWHERE)
    leader.append_as_leader(batch("a", "b"), 1)
    cluster.change(THIRD, fenced=True)
    leader.follower_fetched(ELSEWHERE, 2, 0, broker_epoch=20)
    leader.delete_records_on_leader(1)
    assert not leader.follower_fetched(ELSEWHERE, 2, 0, broker_epoch=20)
    assert leader.follower_fetched(ELSEWHERE, 2, 1, broker_epoch=20)
    assert not leader.follower_fetched(ELSEWHERE, 2, 2, broker_epoch=20)  # ours is at 1


def test_a_partition_that_lost_its_other_replicas_is_as_one_that_never_had_them(
    directory: Path, cluster: Cluster
) -> None:
    leader = led(directory, cluster, HERE, ELSEWHERE)
    leader.append_as_leader(batch("a"), 1)
    leader.update(partition_image(leader_epoch=5, partition_epoch=8))
    assert (leader.isr, offsets(leader), list(leader.remote_replicas)) == ((HERE,), (1, 1), [])


# ---- as a follower


@pytest.fixture
def follower(directory: Path, cluster: Cluster) -> Partition:
    image = partition_image(replicas=ALL, leader=ELSEWHERE, leader_epoch=5, partition_epoch=7)
    return partition(directory, image, None, cluster)


def of_leader(directory: Path, *values: str) -> bytes:
    """Records as a leader of epoch 5 has them."""
    leader = partition(directory, partition_image(leader_epoch=5))
    leader.append_as_leader(batch(*values), 1)
    return leader.log.read(0, 100_000, FetchIsolation.LOG_END, min_one_message=True).records.read()


def test_a_follower_appends_what_its_leader_has_and_takes_the_high_watermark(
    directory: Path, follower: Partition
) -> None:
    appended: list[str] = []
    follower.mirror = lambda: appended.append("future log")
    follower.append_as_follower(of_leader(directory / "leader", "a", "b"), 5)
    assert (follower.log_end_offset, follower.latest_epoch, appended) == (2, 5, ["future log"])
    assert follower.update_follower_high_watermark(9)
    assert (follower.high_watermark, follower.update_follower_high_watermark(1)) == (2, False)
    assert follower.maybe_increment_log_start_offset(1)
    assert follower.log_start_offset == 1


def test_a_follower_is_read_by_those_who_may_and_never_by_others(follower: Partition) -> None:
    follower.check_readable(5)
    for epoch, code in ((4, ErrorCode.FENCED_LEADER_EPOCH), (6, ErrorCode.UNKNOWN_LEADER_EPOCH)):
        with pytest.raises(ApiError) as caught:
            follower.check_readable(epoch)
        assert code_of(caught) is code
    follower.is_truncating = True
    with pytest.raises(ApiError) as caught:
        follower.check_readable(5)
    assert code_of(caught) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    follower.offline = True
    with pytest.raises(ApiError) as caught:
        follower.check_readable(5)
    assert code_of(caught) is ErrorCode.KAFKA_STORAGE_ERROR


def test_a_follower_whose_disk_failed_appends_nothing(follower: Partition) -> None:
    follower.offline = True
    with pytest.raises(ApiError) as caught:
        follower.append_as_follower(b"", 5)
    assert code_of(caught) is ErrorCode.KAFKA_STORAGE_ERROR


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
