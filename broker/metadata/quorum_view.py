"""QuorumView: what an observer knows of the quorum, and how a response changes that.

    state               | epoch and leader         | fetches from
    --------------------+--------------------------+----------------------------------------------------------
    Unattached(epoch)   | the leader is not known  | any bootstrap server, each of which names the leader
    Follower(epoch, id) | known                    | the leader; while that is silent, any bootstrap server

Source: org.apache.kafka.raft.KafkaRaftClient.maybeHandleCommonResponse, UnattachedState, FollowerState.
"""

from __future__ import annotations

from enum import Enum
from typing import Final, NamedTuple

from barnabas.broker.metadata.log import MetadataLogError
from barnabas.broker.metadata.quorum_state import NO_NODE
from barnabas.protocol.errors import ErrorCode


class QuorumView(NamedTuple):
    """The newest epoch, and its leader (NO_NODE: not known). Epochs never fall, and an epoch has one leader."""

    epoch: int = 0
    leader_id: int = NO_NODE

    @property
    def has_leader(self) -> bool:
        return self.leader_id != NO_NODE


class Verdict(Enum):
    """What a response means for the quorum."""

    PROCEED = 1
    """The leader of the epoch has answered: the rest of the response holds."""
    IGNORE = 2
    """It is of an older epoch, or of a node that lags behind."""
    CHANGE = 3
    """It names a newer epoch, or the leader of this one."""
    UNAVAILABLE = 4
    """The node has nothing to say now."""


_LEADS_ELSEWHERE: Final = (ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.NOT_LEADER_OR_FOLLOWER)


def judge(view: QuorumView, error: int, named: QuorumView) -> tuple[Verdict, QuorumView]:
    """What a response with this error means that names an epoch and perhaps its leader, and the view after it.

    response                                                  | verdict
    ----------------------------------------------------------+------------
    an older epoch, or UNKNOWN_LEADER_EPOCH                   | IGNORE
    a newer epoch, FENCED_LEADER_EPOCH, NOT_LEADER_OR_FOLLOWER | CHANGE
    our epoch, whose leader was not known                     | CHANGE
    BROKER_NOT_AVAILABLE                                      | UNAVAILABLE
    any other                                                 | PROCEED

    Raises MetadataLogError where an epoch has two leaders.
    """
    if named.epoch < view.epoch or error == ErrorCode.UNKNOWN_LEADER_EPOCH:
        return Verdict.IGNORE, view
    if named.epoch == view.epoch:
        if view.has_leader and named.has_leader and named.leader_id != view.leader_id:
            raise MetadataLogError(
                f"two controllers lead the metadata quorum in epoch {view.epoch}: "
                f"{view.leader_id} and {named.leader_id}"
            )
        named = named if named.has_leader else view
    if named != view or error in _LEADS_ELSEWHERE:
        return Verdict.CHANGE, named
    return (Verdict.UNAVAILABLE if error == ErrorCode.BROKER_NOT_AVAILABLE else Verdict.PROCEED), view
