"""ConsumerGroup: checks of commits, fetches and deletions; the hash of its topics."""

from __future__ import annotations

import pytest

from barnabas.broker.coordinator.group.consumer.metadata_hash import TopicHashes, topic_hash
from barnabas.broker.coordinator.group.group import GroupType, PartitionCheck
from barnabas.broker.coordinator.group.offsets.commit import OffsetCommit
from barnabas.protocol.errors import ApiError, ErrorCode
from tests.broker.coordinator.group.consumer.consumer_harness import ClassicConsumer, ConsumerHarness, id_of

HASH_OF_T = -6549748494807795269
HASH_OF_BOTH = 8225684860879486945


@pytest.fixture
def harness() -> ConsumerHarness:
    """A group of two members in epoch 3; the first has had its partitions since epoch 2."""
    harness = ConsumerHarness(t=4)
    first, second = harness.join("g", "a", "t"), harness.join("g", "b", "t")
    for member in (first, first, second):
        member.beat()
    return harness


def check(
    harness: ConsumerHarness, member_id: str, epoch: int, *, version: int = 9, is_transactional: bool = False
) -> PartitionCheck | None:
    commit = OffsetCommit("g", member_id, None, epoch, version, ())
    return harness.group().check_offset_commit(commit, is_transactional=is_transactional)


def test_a_member_commits_in_its_epoch(harness: ConsumerHarness) -> None:
    assert check(harness, "a", 3) is None
    harness.group().check_offset_fetch("a", 3)


def test_a_member_in_the_previous_epoch_commits_for_its_previous_partitions(
    harness: ConsumerHarness,
) -> None:
    may_commit = check(harness, "a", 2)
    assert may_commit is not None
    may_commit("t", id_of("t"), 0)
    for partition in (2, 9):
        with pytest.raises(ApiError, match="STALE_MEMBER_EPOCH"):
            may_commit("t", id_of("t"), partition)
    with pytest.raises(ApiError, match="STALE_MEMBER_EPOCH"):
        may_commit("u", id_of("u"), 0)
    too_old = check(harness, "a", 1)
    assert too_old is not None
    with pytest.raises(ApiError, match="STALE_MEMBER_EPOCH"):
        too_old("t", id_of("t"), 0)


def test_a_member_may_commit_for_partitions_that_it_has_to_revoke() -> None:
    harness = ConsumerHarness(t=4)
    first = harness.join("g", "a", "t")
    harness.join("g", "b", "t")
    first.beat()
    may_commit = check(harness, "a", 2)
    assert may_commit is None, "it stays in its epoch until it has given up"


@pytest.mark.parametrize(
    ("member_id", "epoch", "version", "code"),
    [
        ("a", 4, 9, ErrorCode.STALE_MEMBER_EPOCH),
        ("x", 3, 9, ErrorCode.UNKNOWN_MEMBER_ID),
        ("", -1, 9, ErrorCode.UNKNOWN_MEMBER_ID),
        ("a", 3, 8, ErrorCode.UNSUPPORTED_VERSION),
    ],
)
def test_rejected_commits(
    harness: ConsumerHarness, member_id: str, epoch: int, version: int, code: ErrorCode
) -> None:
    with pytest.raises(ApiError) as refused:
        check(harness, member_id, epoch, version=version)
    assert refused.value.code is code


def test_an_administrator_commits_to_a_group_without_members() -> None:
    harness = ConsumerHarness(t=1)
    harness.join("g", "a", "t").leave()
    assert check(harness, "", -1) is None
    with pytest.raises(ApiError, match="UNKNOWN_MEMBER_ID"):
        check(harness, "a", 3)


def test_transactions_of_old_producers_have_no_member(harness: ConsumerHarness) -> None:
    assert check(harness, "", -1, is_transactional=True) is None
    assert check(harness, "a", 3, is_transactional=True, version=3) is None


def test_classic_members_get_illegal_generation(harness: ConsumerHarness) -> None:
    old = ClassicConsumer(harness, "g", "t")
    old.join()
    with pytest.raises(ApiError, match="ILLEGAL_GENERATION"):
        check(harness, old.id, old.generation + 1, version=2)
    with pytest.raises(ApiError, match="ILLEGAL_GENERATION"):
        harness.group().check_offset_fetch(old.id, old.generation - 1)
    assert check(harness, old.id, old.generation, version=2) is None


@pytest.mark.parametrize(
    ("member_id", "epoch", "code"),
    [
        ("a", 2, ErrorCode.STALE_MEMBER_EPOCH),
        ("x", 3, ErrorCode.UNKNOWN_MEMBER_ID),
        (None, 3, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_rejected_fetches(
    harness: ConsumerHarness, member_id: str | None, epoch: int, code: ErrorCode
) -> None:
    harness.group().check_offset_fetch(None, -1)
    with pytest.raises(ApiError) as refused:
        harness.group().check_offset_fetch(member_id, epoch)
    assert refused.value.code is code


def test_a_group_with_members_cannot_be_deleted(harness: ConsumerHarness) -> None:
    group = harness.group()
    assert (group.type, group.protocol_type) == (GroupType.CONSUMER, "consumer")
    assert group.is_subscribed_to("t")
    assert not group.is_subscribed_to("u")
    assert group.offset_expires_from(5, 9) == 5
    group.check_offset_delete()
    group.offset_committed_by("a")
    with pytest.raises(ApiError, match="NON_EMPTY_GROUP"):
        group.check_delete()


# ---- the hash; tests/conformance/test_consumer_groups.py compares it with Kafka's


def test_the_hash_equals_kafkas() -> None:
    """Values of Utils.computeTopicHash and computeGroupHash of Kafka 4.3.1."""
    harness = ConsumerHarness(t=2, u=1)
    image = harness.shard_harness.image
    assert topic_hash(image.topics["t"], image.brokers) == HASH_OF_T
    assert TopicHashes().group_hash(["u", "t", "gone"], image) == HASH_OF_BOTH
    assert TopicHashes().group_hash([], image) == 0


def test_a_hash_is_computed_again_when_the_topic_has_changed() -> None:
    harness = ConsumerHarness(t=2)
    hashes = TopicHashes()
    before = hashes.group_hash(["t"], harness.shard_harness.image)
    harness.grow("t", 3)
    assert hashes.group_hash(["t"], harness.shard_harness.image) == before
    hashes.forget("t")
    assert hashes.group_hash(["t"], harness.shard_harness.image) != before
