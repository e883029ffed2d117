"""CoordinatorShard: a coordinator's state machine for one partition of its topic.

An operation reads the state and returns a response with the records that make the change; it changes nothing itself.
The runtime replays the records, appends them in one batch, and completes the response when they are committed. Loading
a partition is the same replay. So the state of a shard is a function of its partition's records, except for what its
class documents as lost in a load (JoinGroup requests that wait in a classic group).

A shard has no event loop, sockets or files: its clock and timers are passed in.
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
    """A random (version 4) UUID. uuid is imported here: its import queries the system, and few brokers need it."""
    from uuid import uuid4

    return uuid4()


@dataclass(slots=True, eq=False, repr=False)
class CoordinatorResult(Generic[R_co]):
    """The result of an operation.

    `records` are appended as one batch, all or none. `response` is sent when they are committed; a Pending (a member
    that waits for the others) has to be complete as well. `on_committed` is called before that, with None when the
    records are committed and with the error when they are not. `replays` False: the state contains the change already
    (a classic group's members).
    """

    response: R_co | Pending[R_co]
    records: Sequence[CoordinatorRecord] = ()
    on_committed: Callable[[ApiError | None], None] | None = field(default=None, kw_only=True)
    replays: bool = field(default=True, kw_only=True)


TimedOperation = Callable[[], CoordinatorResult[Any]]
"""A write operation that a timer runs; its response is dropped."""


class CoordinatorTimer(Protocol):
    """The timers of one shard, by key; cancelled with the shard."""

    def schedule(
        self, key: Hashable, delay_ms: int, operation: TimedOperation, *, retry: bool = True
    ) -> None:
        """Runs `operation` once `delay_ms` have passed, in place of an earlier timer of `key`.

        Where its records cannot be written and `retry` is set, it is retried 500 ms later.
        """

    def cancel(self, key: Hashable) -> None:
        """Cancels the timer of `key`, if there is one."""

    def is_scheduled(self, key: Hashable) -> bool: ...


@dataclass(slots=True, kw_only=True, eq=False, repr=False)
class ShardContext:
    """What a shard is given at its creation.

    `partition` is its partition's index, `epoch` the leader epoch in which it coordinates, `now_ms` the time of day in
    ms, `image` the newest metadata; `new_uuid` makes the random part of member ids. `when_committed` calls back with
    None once all records so far are committed, or with an error where that takes too long or another broker leads.
    """

    partition: int
    epoch: int
    config: BrokerConfig
    timer: CoordinatorTimer
    now_ms: Callable[[], int]
    image: Callable[[], MetadataImage]
    new_uuid: Callable[[], UUID] = random_uuid
    when_committed: Callable[[Callable[[ApiError | None], None]], None] = lambda callback: callback(None)


class CoordinatorShard(Protocol):
    """The state machine of one partition. `replay` may run on a thread while it is loaded, all else on the loop."""

    def replay(self, offset: int, producer_id: int, producer_epoch: int, record: CoordinatorRecord) -> None:
        """Applies a record at `offset` in the log; `producer_id` is -1 except in a transaction that is still open.

        Must accept every log that compaction leaves: the last record of each key, in the order of their offsets.
        """

    def replay_end_transaction_marker(
        self, producer_id: int, producer_epoch: int, *, committed: bool
    ) -> None:
        """Ends a producer's transaction: its records here count from now on, or never."""

    def on_loaded(self) -> None:
        """Called after the load and before the first operation, to schedule timers."""

    def on_unloaded(self) -> None:
        """Called when this broker stops coordinating: pending responses fail with NOT_COORDINATOR."""

    def on_new_epoch(self) -> None:
        """Called when this broker continues to coordinate in a new leader epoch, which `context.epoch` has."""

    def on_new_metadata_image(self, image: MetadataImage, delta: MetadataDelta) -> None:
        """Called with each new image."""
