"""ShardHarness: one shard without a runtime, a disk or a loop, with a manual clock.

harness = ShardHarness(GroupCoordinatorShard)
answer = harness.run(lambda shard: shard.offsets.commit(...))   the response, its records replayed
harness.records                                        all records so far
harness.advance(45_000)                                         time passes, timers expire
again = harness.reloaded()                                      another harness, whose shard has replayed the records
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from itertools import count
from typing import Any, Generic, TypeVar, cast
from uuid import UUID

from barnabas.broker.coordinator.record_queue import Committed
from barnabas.broker.coordinator.records import CoordinatorRecord
from barnabas.broker.coordinator.shard import (
    CoordinatorResult,
    CoordinatorShard,
    ShardContext,
    TimedOperation,
)
from barnabas.broker.coordinator.timers import RETRY_BACKOFF_MS, ShardTimers
from barnabas.broker.metadata.image import MetadataDelta, MetadataImage
from barnabas.broker.metadata.replay import replayed
from barnabas.broker.pending import Pending
from barnabas.config.broker_config import BrokerConfig
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.records.layout import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from barnabas.protocol.schema import Message
from tests.broker.fakes import ManualTimer
from tests.broker.logs import START_MS

S = TypeVar("S", bound=CoordinatorShard)
R = TypeVar("R")


class Logged:
    """One entry of the log: a record with its producer, or the end of a transaction (`committed` is not None)."""

    __slots__ = ("committed", "producer_epoch", "producer_id", "record")

    def __init__(
        self,
        record: CoordinatorRecord | None,
        producer_id: int = NO_PRODUCER_ID,
        producer_epoch: int = NO_PRODUCER_EPOCH,
        committed: bool | None = None,
    ) -> None:
        self.record = record
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.committed = committed


class ShardHarness(Generic[S]):
    """A shard of partition 0 in epoch 0, active from the beginning. `settings` are broker keys.

    `log` has everything that was written, `fails` is the error with which records are rejected, and more
    than `max_records` at a time are too large.
    """

    def __init__(
        self,
        new_shard: Callable[[ShardContext], S],
        settings: Mapping[str, str] | None = None,
        *,
        image: MetadataImage | None = None,
        log: list[Logged] | None = None,
        now_ms: int = START_MS,
        when_committed: Callable[[Committed], None] = lambda callback: callback(None),
    ) -> None:
        self.settings = dict(settings or {})
        overrides = [f"{key}={value}" for key, value in self.settings.items()]
        self.config = BrokerConfig.of(None, overrides=overrides)
        self.image = image or MetadataImage.empty()
        self.clock = ManualTimer(now_ms / 1000)
        self.timers = ShardTimers(self.clock, self._due)
        self.fails: ApiError | None = None
        self.max_records: int | None = None
        self.log = list(log or ())
        self.uuids = count(1)
        self._new_shard = new_shard
        self.shard = new_shard(
            ShardContext(
                partition=0,
                epoch=0,
                config=self.config,
                timer=self.timers,
                now_ms=lambda: self.now_ms,
                image=lambda: self.image,
                new_uuid=lambda: UUID(int=next(self.uuids)),
                when_committed=when_committed,
            )
        )
        for offset, logged in enumerate(self.log):
            self._replay(offset, logged)
        self.shard.on_loaded()

    @property
    def now_ms(self) -> int:
        return round(self.clock.now * 1000)

    @property
    def records(self) -> list[CoordinatorRecord]:
        """The records in the log, without the ends of transactions."""
        return [logged.record for logged in self.log if logged.record is not None]

    def state(self) -> dict[tuple[int | None, str], Message]:
        """The last value of each key, as compaction leaves them."""
        left: dict[tuple[int | None, str], Message] = {}
        for record in self.records:
            key = (record.key.api_key, repr(record.key))
            left.pop(key, None)
            if record.value is not None:
                left[key] = record.value
        return left

    def run(
        self,
        operation: Callable[[S], CoordinatorResult[R]],
        *,
        producer_id: int = NO_PRODUCER_ID,
        producer_epoch: int = NO_PRODUCER_EPOCH,
    ) -> R | Pending[R]:
        """Runs an operation, replays and logs its records, and returns its response (a Pending where that waits).

        Raises what the operation raises, and `fails` where it has records and those are rejected.
        """
        result = operation(self.shard)
        self._write(result, producer_id, producer_epoch)
        response = result.response
        if isinstance(response, Pending) and response.done:
            given: list[R] = []
            cast("Pending[R]", response).add_done_callback(given.append)
            return given[0]
        return response

    def end_transaction(self, producer_id: int, producer_epoch: int = 0, *, committed: bool) -> None:
        """Writes a marker."""
        self._append(Logged(None, producer_id, producer_epoch, committed))

    def advance(self, ms: int) -> None:
        """Advances the clock; timers that expire run."""
        self.clock.advance(ms / 1000)

    def metadata_changes(self, *records: Message) -> None:
        """Applies metadata records, and passes the new image to the shard."""
        offset = self.image.offset + len(records)
        self.image, delta = replayed(self.image, records, offset=offset)
        self.shard.on_new_metadata_image(self.image, delta)

    def take_image(self, image: MetadataImage, delta: MetadataDelta) -> None:
        self.image = image
        self.shard.on_new_metadata_image(image, delta)

    def reloaded(self) -> ShardHarness[S]:
        """A harness whose shard was loaded from the same log, at the same time; this one stays as it is."""
        return ShardHarness(
            self._new_shard, self.settings, image=self.image, log=self.log, now_ms=self.now_ms
        )

    def compacted(self) -> ShardHarness[S]:
        """The same after compaction: of each key the last record only (only for logs without transactions)."""
        last = {
            (logged.record.key.api_key, repr(logged.record.key)): at
            for at, logged in enumerate(self.log)
            if logged.record is not None
        }
        kept = [self.log[at] for at in sorted(last.values())]
        return ShardHarness(self._new_shard, self.settings, image=self.image, log=kept, now_ms=self.now_ms)

    # ---- inside

    def _write(self, result: CoordinatorResult[Any], producer_id: int, producer_epoch: int) -> None:
        failure = self.fails if result.records else None
        if self.max_records is not None and len(result.records) > self.max_records:
            failure = ApiError(ErrorCode.UNKNOWN_SERVER_ERROR)
        if failure is None:
            for record in result.records:
                self._append(Logged(record, producer_id, producer_epoch), replays=result.replays)
        if result.on_committed is not None:
            result.on_committed(failure)
        if failure is not None:
            raise failure

    def _append(self, logged: Logged, *, replays: bool = True) -> None:
        self.log.append(logged)
        if replays:
            self._replay(len(self.log) - 1, logged)

    def _replay(self, offset: int, logged: Logged) -> None:
        if logged.record is not None:
            self.shard.replay(offset, logged.producer_id, logged.producer_epoch, logged.record)
        else:
            self.shard.replay_end_transaction_marker(
                logged.producer_id, logged.producer_epoch, committed=bool(logged.committed)
            )

    def _due(self, key: Hashable, operation: TimedOperation, retry: bool) -> None:
        try:
            self._write(operation(), NO_PRODUCER_ID, NO_PRODUCER_EPOCH)
        except ApiError:
            if retry and not self.timers.is_scheduled(key):
                self.timers.schedule(key, RETRY_BACKOFF_MS, operation, retry=True)
