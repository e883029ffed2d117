"""judge: the table of what a response means for the quorum."""

from __future__ import annotations

import pytest

from barnabas.broker.metadata.log import MetadataLogError
from barnabas.broker.metadata.quorum_view import QuorumView, Verdict, judge
from barnabas.protocol.errors import ErrorCode

OURS = QuorumView(5, 3000)
UNATTACHED = QuorumView(5)
NONE = ErrorCode.NONE


@pytest.mark.parametrize(
    ("view", "error", "named", "verdict", "after"),
    [
        (OURS, NONE, QuorumView(5, 3000), Verdict.PROCEED, OURS),
        (OURS, NONE, QuorumView(4, 3001), Verdict.IGNORE, OURS),
        (OURS, ErrorCode.FENCED_LEADER_EPOCH, QuorumView(4, 3001), Verdict.IGNORE, OURS),
        (OURS, ErrorCode.UNKNOWN_LEADER_EPOCH, QuorumView(5, 3000), Verdict.IGNORE, OURS),
        (OURS, ErrorCode.UNKNOWN_LEADER_EPOCH, QuorumView(9, 3001), Verdict.IGNORE, OURS),
        (OURS, ErrorCode.FENCED_LEADER_EPOCH, QuorumView(6, 3001), Verdict.CHANGE, QuorumView(6, 3001)),
        (OURS, NONE, QuorumView(6, 3001), Verdict.CHANGE, QuorumView(6, 3001)),
        (OURS, ErrorCode.NOT_LEADER_OR_FOLLOWER, QuorumView(6), Verdict.CHANGE, QuorumView(6)),
        (OURS, ErrorCode.NOT_LEADER_OR_FOLLOWER, QuorumView(5, 3000), Verdict.CHANGE, OURS),
        (OURS, ErrorCode.NOT_LEADER_OR_FOLLOWER, QuorumView(5), Verdict.CHANGE, OURS),
        (UNATTACHED, NONE, QuorumView(5, 3000), Verdict.CHANGE, OURS),
        (UNATTACHED, ErrorCode.NOT_LEADER_OR_FOLLOWER, QuorumView(5), Verdict.CHANGE, UNATTACHED),
        (OURS, ErrorCode.BROKER_NOT_AVAILABLE, QuorumView(5), Verdict.UNAVAILABLE, OURS),
        (OURS, ErrorCode.BROKER_NOT_AVAILABLE, QuorumView(6, 3001), Verdict.CHANGE, QuorumView(6, 3001)),
        (OURS, ErrorCode.SNAPSHOT_NOT_FOUND, QuorumView(5, 3000), Verdict.PROCEED, OURS),
    ],
)
def test_the_verdict(
    view: QuorumView, error: ErrorCode, named: QuorumView, verdict: Verdict, after: QuorumView
) -> None:
    assert judge(view, error, named) == (verdict, after)


def test_two_leaders_of_one_epoch_are_fatal() -> None:
    with pytest.raises(MetadataLogError, match="in epoch 5: 3000 and 3001"):
        judge(OURS, NONE, QuorumView(5, 3001))


def test_a_view_has_a_leader_or_not() -> None:
    assert OURS.has_leader
    assert not UNATTACHED.has_leader
