"""The state of a partition at its fetcher. Source: kafka.server.PartitionFetchState, InitialFetchState.

    phase       | is fetched         | entered                                          | ended by
    ------------+--------------------+--------------------------------------------------+------------------------------
    FETCHING    | unless delayed     | when the log ends where the next fetch begins    | a divergence, an offset error
    TRUNCATING  | no                 | when the log diverges from the leader's          | the end of the truncation
    RESETTING   | no                 | when the leader has not the offset               | the leader's offsets

Each of them may be delayed after an error (replica.fetch.backoff.ms).
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Final, NamedTuple

from barnabas.broker.node_client.address import NodeAddress
from barnabas.broker.replica.fetcher.ports import FollowedLog
from barnabas.storage.offsets import TopicPartition

NO_OFFSET: Final = -1
"""An initial offset that the leader has to be asked for."""


class InitialFetchState(NamedTuple):
    """Where and from where on to fetch a partition: `offset` is the log end offset.

    It is the high watermark for a log that has records but no leader epochs (records of old formats only), and
    NO_OFFSET to begin with the offsets of the leader.
    """

    leader_id: int
    address: NodeAddress
    leader_epoch: int
    offset: int


class FetchPhase(Enum):
    """What is done with a partition; the table is in the module's docstring."""

    FETCHING = "Fetching"
    TRUNCATING = "Truncating"
    RESETTING = "Resetting"


def _forgotten(state: PartitionFetchState, error: Exception | None) -> None:
    """No fetcher has the partition."""


class PartitionFetchState:
    """A partition that a fetcher fetches. Times are those of the timer, in seconds."""

    __slots__ = (
        "delayed_until",
        "fetch_offset",
        "initial_offset",
        "key",
        "lag",
        "last_fetched_epoch",
        "leader_end_offset",
        "leader_epoch",
        "log",
        "phase",
        "truncated",
    )

    def __init__(self, log: FollowedLog, leader_epoch: int, fetch_offset: int) -> None:
        self.log = log
        self.key: TopicPartition = log.key
        self.leader_epoch = leader_epoch
        self.fetch_offset = fetch_offset
        self.initial_offset = fetch_offset
        self.last_fetched_epoch = log.latest_epoch
        self.lag: int | None = None
        """Records that the leader's high watermark is ahead; None until an answer has said it."""
        self.phase = FetchPhase.RESETTING if fetch_offset < 0 else FetchPhase.FETCHING
        self.delayed_until = 0.0
        self.leader_end_offset: int | None = None
        """While RESETTING: known after the first of the two questions."""
        self.truncated: Callable[[PartitionFetchState, Exception | None], None] = _forgotten
        """Called when a truncation has ended; the fetcher that has the partition then."""

    @property
    def is_in_sync(self) -> bool:
        """Whether the replica had everything committed at the last answer; it is not throttled then."""
        return self.lag is not None and self.lag <= 0

    def is_delayed(self, now: float) -> bool:
        return self.delayed_until > now

    def is_ready(self, now: float) -> bool:
        return self.phase is FetchPhase.FETCHING and self.delayed_until <= now

    def resume(self) -> None:
        """Fetches on from where the log ends now."""
        self.phase = FetchPhase.FETCHING
        self.fetch_offset = self.log.log_end_offset
        self.last_fetched_epoch = self.log.latest_epoch
        self.leader_end_offset = None

    def __repr__(self) -> str:
        topic, index = self.key
        return (
            f"{topic}-{index}({self.phase.value} from {self.fetch_offset}, epoch {self.leader_epoch}, "
            f"last fetched epoch {self.last_fetched_epoch})"
        )
