"""VerificationStates: the guard that a transaction's first batch needs, and when states are removed."""

import pytest

from barnabas.storage.log.txn_verification import VerificationGuard, VerificationStates
from tests.storage.helpers import T0

PID = 9


def start(
    states: VerificationStates, sequence: int = 0, epoch: int = 0, now_ms: int = T0, *, bumps: bool = False
) -> VerificationGuard:
    return states.start(PID, sequence, epoch, supports_epoch_bump=bumps, now_ms=now_ms)


def test_a_guard_lasts_until_it_is_cleared() -> None:
    states = VerificationStates()
    first = start(states)
    assert start(states) is first  # a second request while the coordinator verifies
    assert states.allows(PID, first)
    assert not states.allows(PID, None)
    assert not states.allows(PID + 1, first)
    states.clear_after(PID + 1, 0, is_marker=False)
    assert states.allows(PID, first)
    states.clear_after(PID, 0, is_marker=False)
    assert not states.allows(PID, first)
    assert start(states) is not first  # the answer for the old one verifies nothing
    assert not states.allows(PID, first)


@pytest.mark.parametrize(
    ("bumps", "epoch", "is_marker", "stays"),
    [
        (False, 4, True, False),
        (True, 4, True, True),
        (True, 4, False, False),
        (True, 3, True, False),
        (True, 5, True, False),
    ],
)
def test_a_marker_keeps_a_verification_of_its_own_epoch(
    bumps: bool, epoch: int, is_marker: bool, stays: bool
) -> None:
    states = VerificationStates()
    held = start(states, epoch=4, bumps=bumps)
    states.clear_after(PID, epoch, is_marker=is_marker)
    assert states.allows(PID, held) is stays


def test_the_lowest_sequence_of_the_newest_epoch_is_kept() -> None:
    states = VerificationStates()
    seen = []
    for sequence, epoch in [(5, 1), (7, 1), (3, 1), (9, 2), (1, 1), (12, 2)]:
        start(states, sequence, epoch)
        entry = states.get(PID)
        assert entry is not None
        seen.append((entry.lowest_sequence, entry.epoch))
    assert seen == [(5, 1), (5, 1), (3, 1), (9, 2), (9, 2), (9, 2)]


def test_a_verification_without_an_answer_expires() -> None:
    states = VerificationStates()
    start(states)
    states.remove_expired(T0 + 999, 1000)
    assert len(states) == 1
    states.remove_expired(T0 + 1000, 1000)
    assert len(states) == 0
