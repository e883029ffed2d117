"""What a coordinator is to its runtime: a plain state machine for each partition of its topic.

An operation looks at the state and returns a response with the records that bring about what was asked; it changes
nothing itself. The runtime has the records replayed and appended, in one batch, and gives the response when they are
committed. Loading a partition is the same replay. So what a shard knows is a function of its partition's records,
apart from what it says of itself that it forgets (members of a classic group who wait for others).

A shard knows no event loop, no sockets and no files: its clock and timers are handed to it.
Source: org.apache.kafka.coordinator.common.runtime: CoordinatorShard, CoordinatorResult, CoordinatorTimer.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from barnabas.broker.coordinator.records import CoordinatorRecord
from barnabas.broker.metadata.image import MetadataDelta, MetadataImage
from barnabas.broker.pending import Pending
from barnabas.config.broker_config import BrokerConfig
from barnabas.protocol.errors import ApiError

if TYPE_CHECKING:
    from uuid import UUID

R_co = TypeVar("R_co", covariant=True)


def random_uuid() -> UUID:
    """A version 4 one. uuid is imported here, since it asks the system what it is, and few brokers need one."""
    from uuid import uuid4

    return uuid4()


@dataclass(slots=True, eq=False)
class CoordinatorResult(Generic[R_co]):
    """What an operation decided.

    `records` are appended as one batch, all or none. `response` is given when they are committed; where it is a Pending
    (a member that waits for the others), it is given when that is complete as well. `on_committed`, if there is one, is
    called with None when the records are committed and with the error when they are not, before the response is given.
    `replays` False: the state has what the records say already (a classic group's members).
    """

    response: R_co | Pending[R_co]
    records: Sequence[CoordinatorRecord] = ()
    on_committed: Callable[[ApiError | None], None] | None = field(default=None, kw_only=True)
    replays: bool = field(default=True, kw_only=True)


TimedOperation = Callable[[], CoordinatorResult[Any]]
"""What a shard does when a time has come: a write operation like any other, whose response nobody waits for."""


class CoordinatorTimer(Protocol):
    """Timers of one shard, by key; gone with the shard."""

    def schedule(
        self, key: Hashable, delay_ms: int, operation: TimedOperation, *, retry: bool = True
    ) -> None:
        """Runs `operation` once `delay_ms` have passed, in place of what was scheduled under `key`.

        Where its records cannot be written and `retry` is set, it is tried again 500 ms later.
        """

    def cancel(self, key: Hashable) -> None:
        """Forgets what was scheduled under `key`; does nothing where there is none."""

    def is_scheduled(self, key: Hashable) -> bool: ...


@dataclass(slots=True, kw_only=True, eq=False)
class ShardContext:
    """What a shard is given when it is made.

    `partition` is its partition's index, `epoch` the leader epoch in which it coordinates, `now_ms` the time of day in
    ms, `image` the newest metadata; `new_uuid` draws what the ids of members are made of.
    """

    partition: int
    epoch: int
    config: BrokerConfig
    timer: CoordinatorTimer
    now_ms: Callable[[], int]
    image: Callable[[], MetadataImage]
    new_uuid: Callable[[], UUID] = random_uuid


class CoordinatorShard(Protocol):
    """The state machine of one partition. `replay` may run on a thread while it is loaded, all else on the loop."""

    def replay(self, offset: int, producer_id: int, producer_epoch: int, record: CoordinatorRecord) -> None:
        """Takes in a record, at `offset` in the log; `producer_id` is -1 but in a transaction that is not decided yet.

        Must take whatever compaction leaves: the last record of each key, in the order of their offsets.
        """

    def replay_end_transaction_marker(
        self, producer_id: int, producer_epoch: int, *, committed: bool
    ) -> None:
        """A producer's transaction is decided: what it wrote here counts from now on, or never."""

    def on_loaded(self) -> None:
        """Everything is replayed, operations begin: time to schedule timers."""

    def on_unloaded(self) -> None:
        """Another broker coordinates from now on, or nobody: who waits has to hear of it (NOT_COORDINATOR)."""

    def on_new_metadata_image(self, image: MetadataImage, delta: MetadataDelta) -> None:
        """The metadata have changed."""
