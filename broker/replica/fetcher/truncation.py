"""Where a follower's log that diverges from its leader's has to be cut.

The leader answers a fetch with the largest epoch at or below the one of the follower's last record, and the end of
that epoch in the leader's log. Source: AbstractFetcherThread.getOffsetTruncationState, KIP-279, KIP-595.

    the leader's answer      | the follower's end for that epoch   | truncate to
    -------------------------+-------------------------------------+----------------------------------------------
    no offset                | any                                 | the offset at which fetching began
    no epoch                 | any                                 | the leader's end
    an epoch and its end     | the same epoch                      | the lower of both ends
    an epoch and its end     | of an epoch before it               | the follower's end; the next fetch goes on
    an epoch and its end     | unknown                             | the leader's end

and never beyond the log's end.

Of an epoch whose records it has deleted, the leader says that it ended at its log start: what the follower has before
may be records that were never committed. So where the log would be cut at the leader's log start, or before, it is
emptied instead. Kafka keeps them, and serves them if the follower is elected before its log start follows the leader's.
"""

from __future__ import annotations

from barnabas.broker.replica.fetcher.ports import FollowedLog
from barnabas.storage.offsets import NO_LEADER_EPOCH, UNKNOWN_OFFSET, EpochEndOffset


def truncation_offset(log: FollowedLog, leader: EpochEndOffset, initial_offset: int) -> int:
    """The offset at which the follower's log has to end, after the leader has named `leader` as the divergence."""
    end = log.log_end_offset
    if leader.end_offset == UNKNOWN_OFFSET:
        return min(initial_offset, end)
    if leader.epoch == NO_LEADER_EPOCH:
        return min(leader.end_offset, end)
    own = log.end_offset_for_epoch(leader.epoch)
    if own is None:
        # The log begins after that epoch, or knows of no epochs: the leader has said that its own is lower.
        return min(leader.end_offset, end)
    if own.epoch != leader.epoch:
        return min(own.end_offset, end)
    return min(own.end_offset, leader.end_offset, end)
