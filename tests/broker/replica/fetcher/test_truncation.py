"""Where a follower's log is cut: the cases of the table, and random histories of leaders."""

from __future__ import annotations

from random import Random

import pytest

from barnabas.broker.replica.fetcher.truncation import truncation_offset
from barnabas.storage.offsets import EpochEndOffset
from tests.broker.replica.fetcher.fetcher_harness import Disk, Follower, batch
from tests.support.chance import seeds

INITIAL = 2


def follower(*epochs: int) -> Follower:
    """A log with one record of each epoch."""
    log = Disk().follower()
    for epoch in epochs:
        log.append_as_follower(batch(log.log_end_offset, epoch=epoch), epoch)
    return log


@pytest.mark.parametrize(
    ("epochs", "answer", "expected"),
    [
        ((1, 1, 3, 3), (1, 1), 1),  # the same epoch, the leader's end is lower
        ((1, 1, 3, 3), (1, 7), 2),  # the follower's is lower
        ((1, 1, 3, 3), (2, 9), 2),  # the follower has no epoch 2: the end of its epoch 1
        ((1, 1, 3, 3), (3, 3), 3),
        ((1, 1, 3, 3), (3, 9), 4),  # never beyond the end
        ((3, 3), (1, 1), 0),  # of an epoch before all that the follower has
        ((), (1, 5), 0),
        ((1, 1, 3, 3), (-1, 3), 3),  # the leader knows of no epochs
        ((1, 1, 3, 3), (1, -1), INITIAL),  # nor of an offset
        ((1,), (1, -1), 1),
    ],
)
def test_the_table(epochs: tuple[int, ...], answer: tuple[int, int], expected: int) -> None:
    assert truncation_offset(follower(*epochs), EpochEndOffset(*answer), INITIAL) == expected


@pytest.mark.parametrize("seed", seeds(30))
def test_following_the_divergences_ends_with_a_prefix_of_the_leaders_log(seed: int) -> None:
    """Two logs with a common beginning, then epochs of their own: the exchange ends, and loses nothing common."""
    rng = Random(seed)
    common = sorted(rng.randrange(1, 4) for _ in range(rng.randrange(5)))
    first = (common[-1] if common else 0) + 1
    tails = [
        sorted(rng.choice(range(first + own, first + 10, 2)) for _ in range(rng.randrange(6)))
        for own in (0, 1)
    ]
    leader, log = (follower(*common, *tail) for tail in tails)
    leader.log.assign_epoch_start_offset(100, leader.log_end_offset)  # as every leader does first of all
    for _ in range(20):
        latest, end = log.latest_epoch, log.log_end_offset
        if latest < 0:
            break
        known = leader.end_offset_for_epoch(latest)
        assert known is not None
        if known.epoch >= latest and known.end_offset >= end:
            break
        log.truncate_to(truncation_offset(log, known, end))
    else:
        pytest.fail("the exchange does not end")
    assert log.log_end_offset == len(common)
