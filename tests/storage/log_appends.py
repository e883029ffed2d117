"""The appends of `log_harness`: of all kinds of producers, of coordinators, of a follower.

Each updates the model; a rejected append must change nothing.
"""

from random import Random
from typing import Final, Protocol

import pytest

from barnabas.config.log_config import LogConfig
from barnabas.protocol.records.batch import (
    CompressionType,
    CorruptRecordError,
    InvalidRecordError,
    build_batch,
)
from barnabas.storage.env import Env
from barnabas.storage.errors import (
    InvalidProducerEpochError,
    InvalidTimestampError,
    InvalidTxnStateError,
    OffsetsOutOfOrderError,
    OutOfOrderSequenceError,
    RecordBatchTooLargeError,
    RecordTooLargeError,
    UnexpectedAppendOffsetError,
)
from barnabas.storage.log.unified_log import UnifiedLog
from barnabas.storage.offsets import AppendOrigin
from tests.storage.log_model import MAX_SEQUENCE, LogModel, ModelBatch, ModelProducer, ModelRecord

IDEMPOTENT: Final = (7, 8)
TRANSACTIONAL: Final = (20, 21, 22)
KEYS: Final = (b"a", b"b", b"c", b"d", b"e")
CODECS: Final = tuple(CompressionType)

Records = list[tuple[bytes | None, bytes | None, int, list[tuple[str, bytes | None]]]]


class SteeredEnv(Env, Protocol):
    """An Env with a manual clock, which counts its maps."""

    time_ms: int
    maps: int


class LogAppends:
    """Appends to a log and its model."""

    env: SteeredEnv
    model: LogModel
    log: UnifiedLog
    config: LogConfig
    epoch: int
    counter: int
    pending: list[ModelBatch]
    """The append in progress: if it fails, the log may or may not have it after a restart."""

    # -- appending as leader --

    def records(self, rng: Random, count: int) -> Records:
        timestamp = self.env.time_ms + rng.randint(-20, 20)
        found: Records = []
        for _ in range(count):
            self.counter += 1
            key = None if not self.config.compact and rng.random() < 0.1 else rng.choice(KEYS)
            value = (
                None if rng.random() < 0.1 else b"value %d " % self.counter + bytes(rng.choice((0, 50, 250)))
            )
            found.append((key, value, max(timestamp + rng.randint(-3, 3), 0), []))
        if not self.config.message_timestamp_before_max_ms < 1 << 40 and rng.random() < 0.02:
            return [(key, value, -1, headers) for key, value, _, headers in found]
        if self.config.message_timestamp_before_max_ms < 1 << 40:
            return [(key, value, self.env.time_ms, headers) for key, value, _, headers in found]
        return found

    def leader_append(
        self, rng: Random, *, producer: tuple[int, int, int] | None = None, transactional: bool = False
    ) -> None:
        records = self.records(rng, rng.choice((1, 1, 1, 2, 3)))
        producer_id, producer_epoch, sequence = producer or (-1, -1, -1)
        data = build_batch(
            records,
            compression=rng.choice(CODECS),
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=sequence,
            is_transactional=transactional,
        )
        limit = min(self.config.max_message_bytes, self.config.segment_bytes)
        if len(data) > limit or (self.config.compression_type != "producer" and len(data) > limit // 2):
            return
        self.plan(records, producer, transactional=transactional)
        info = self.log.append_as_leader(data, self.epoch)
        assert (info.first_offset, info.last_offset) == (self.model.end, self.model.end + len(records) - 1)
        assert not info.duplicate
        self.note()

    def plan(
        self,
        records: Records,
        producer: tuple[int, int, int] | None,
        *,
        transactional: bool = False,
        commit: bool | None = None,
    ) -> None:
        """Describes the next append of this leader."""
        if producer is not None:
            producer_id, epoch, _ = producer
            self.model.newest_epochs[producer_id] = max(
                epoch, self.model.newest_epochs.get(producer_id, epoch)
            )
        by_broker = self.config.message_timestamp_type == "LogAppendTime"
        planned = tuple(
            ModelRecord(self.model.end + delta, self.env.time_ms if by_broker else timestamp, key, value)
            for delta, (key, value, timestamp, _) in enumerate(records)
        )
        self.pending = [ModelBatch(planned, self.epoch, producer, transactional, commit)]
        self.report_state()

    def report_state(self) -> None:
        raise NotImplementedError

    def note(self) -> None:
        """Adds the append to the model."""
        for batch in self.pending:
            self.model.append(batch)
        self.pending = []

    def append(self, rng: Random) -> None:
        self.leader_append(rng)

    def producer(self, rng: Random, ids: tuple[int, ...]) -> tuple[int, ModelProducer | None]:
        """One of the producers, and its state; the model also removes producers that have expired."""
        producer_id = rng.choice(ids)
        while producer_id in self.model.given_up:
            producer_id += 100  # another replaces it
        known = self.model.producers.get(producer_id)
        found = self.log.producer_state_manager.producers.get(producer_id)
        if found is None and known is not None:
            assert known.doubtful, f"producer {producer_id} is forgotten"
            del self.model.producers[producer_id]
            return producer_id, None
        if found is not None and (known is None or known.doubtful):
            # A restart restored it, perhaps in an older state.
            assert producer_id in self.model.ever_expired
            self.model.given_up.add(producer_id)
            return self.producer(rng, ids)
        return producer_id, known

    def append_idempotent(self, rng: Random) -> None:
        producer_id, known = self.producer(rng, IDEMPOTENT)
        if known is None:
            start = rng.choice((0, 0, 5, MAX_SEQUENCE - 1))
            self.leader_append(rng, producer=(producer_id, rng.randint(0, 2), start))
        elif rng.random() < 0.1:
            self.leader_append(rng, producer=(producer_id, known.epoch + 1, 0))
        else:
            self.leader_append(rng, producer=(producer_id, known.epoch, known.next_sequence))

    def repeat_idempotent(self, rng: Random) -> None:
        """A repeat of the last batch returns its offsets, of earlier ones perhaps too; a gap is rejected."""
        _, known = self.producer(rng, IDEMPOTENT + TRANSACTIONAL)
        if known is None or not known.batches:
            return
        batch = rng.choice(known.batches) if rng.random() < 0.3 else known.batches[-1]
        assert batch.producer is not None
        if batch is not known.batches[-1] and batch.producer[2] == known.next_sequence:
            return  # from before the producer expired: the log would accept it as the next one
        again = self.rebuilt(batch, batch.producer)
        try:
            info = self.log.append_as_leader(again, self.epoch)
            assert info.duplicate
            assert (info.first_offset, info.last_offset) in {
                (known.base_offset, known.next_offset - 1)
                for known in self.model.batches
                if known.producer == batch.producer  # more than one if the producer expired in between
            }
        except OutOfOrderSequenceError:
            assert batch is not known.batches[-1]
        producer_id, epoch, _ = batch.producer
        after_gap = (known.next_sequence + rng.randint(1, 9)) & MAX_SEQUENCE
        for refused, error in (
            ((producer_id, epoch, after_gap), OutOfOrderSequenceError),
            ((producer_id, epoch + 1, 1), OutOfOrderSequenceError),
            ((producer_id, epoch - 1, 0), InvalidProducerEpochError),
        ):
            if refused[1] >= 0:
                self.assert_rejected(self.rebuilt(batch, refused), error)

    def rebuilt(self, batch: ModelBatch, producer: tuple[int, int, int]) -> bytes:
        records: Records = [(record.key or b"k", b"again", self.env.time_ms, []) for record in batch.records]
        return build_batch(
            records,
            producer_id=producer[0],
            producer_epoch=producer[1],
            base_sequence=producer[2],
            is_transactional=batch.transactional,
        )

    def append_transactional(self, rng: Random) -> None:
        """A producer that expired begins again in a new epoch, as InitProducerId gives it one: in the old epoch a
        restart that restores its old batches would make repeats of new ones."""
        producer_id, known = self.producer(rng, TRANSACTIONAL)
        new = (self.model.newest_epochs.get(producer_id, -1) + 1, 0)
        epoch, sequence = (known.epoch, known.next_sequence) if known else new
        self.leader_append(rng, producer=(producer_id, epoch, sequence), transactional=True)
        if producer_id in self.model.producers and self.model.producers[producer_id].open_batches:
            plain = build_batch(
                [(b"k", b"not in the transaction", self.env.time_ms, [])],
                producer_id=producer_id,
                producer_epoch=epoch,
                base_sequence=self.model.producers[producer_id].next_sequence,
            )
            self.assert_rejected(plain, InvalidTxnStateError)

    def end_transaction(self, rng: Random) -> None:
        """Mostly an open one; sometimes in a new epoch, which fences the producer."""
        producer_id, known = self.producer(rng, TRANSACTIONAL)
        if known is None or (not known.open_batches and rng.random() < 0.9):
            return
        epoch, commit = known.epoch + (rng.random() < 0.2), rng.random() < 0.5
        self.append_marker(producer_id, epoch, commit=commit)

    def append_marker(self, producer_id: int, epoch: int, *, commit: bool) -> None:
        records: Records = [(b"\0\0" + (b"\0\1" if commit else b"\0\0"), bytes(6), self.env.time_ms, [])]
        data = build_batch(
            records, producer_id=producer_id, producer_epoch=epoch, is_transactional=True, is_control=True
        )
        self.assert_rejected(data, InvalidRecordError)  # not allowed to clients
        self.plan(records, (producer_id, epoch, -1), transactional=True, commit=commit)
        info = self.log.append_as_leader(data, self.epoch, AppendOrigin.COORDINATOR)
        assert info.first_offset == self.model.end
        self.note()

    def assert_rejected(self, data: bytes, error: type[Exception]) -> None:
        with pytest.raises(error):
            self.log.append_as_leader(data, self.epoch)

    def append_what_is_refused(self, rng: Random) -> None:
        good = build_batch([(b"k", b"v" * 10, self.env.time_ms, [])])
        damaged = bytearray(good)
        damaged[rng.randrange(17, len(good))] ^= 1 << rng.randrange(8)
        self.assert_rejected(bytes(damaged), (CorruptRecordError, InvalidRecordError))  # type: ignore[arg-type]
        too_large = build_batch([(b"k", rng.randbytes(5000), self.env.time_ms, [])])
        self.assert_rejected(too_large, (RecordTooLargeError, RecordBatchTooLargeError))  # type: ignore[arg-type]
        if self.config.compact:
            self.assert_rejected(build_batch([(None, b"v", self.env.time_ms, [])]), InvalidRecordError)
        if self.config.message_timestamp_before_max_ms < 1 << 40:
            for age in (-20, 20):
                self.assert_rejected(
                    build_batch([(b"k", b"v", self.env.time_ms + age, [])]), InvalidTimestampError
                )

    def next_epoch(self, rng: Random) -> None:
        self.epoch += rng.randint(1, 3)
        if rng.random() < 0.5:
            self.log.assign_epoch_start_offset(self.epoch, self.model.end)
            self.model.assign_epoch(self.epoch, self.model.end)

    # -- appending as follower --

    def append_as_follower(self, rng: Random) -> None:
        """Several batches, perhaps with gaps as in a compacted log, perhaps ending with batches of a later epoch."""
        offset, parts, noted = self.model.end, [], []
        for _ in range(rng.randint(1, 3)):
            offset += rng.choice((0, 0, 0, 1, 10))
            records = self.records(rng, rng.randint(1, 3))
            parts.append(
                build_batch(
                    records,
                    base_offset=offset,
                    partition_leader_epoch=self.epoch,
                    compression=rng.choice(CODECS),
                )
            )
            noted.append([ModelRecord(offset + at, r[2], r[0], r[1]) for at, r in enumerate(records)])
            offset += len(records)
        if sum(map(len, parts)) > self.config.segment_bytes:
            return
        late = build_batch([(b"k", b"v", 1, [])], base_offset=offset, partition_leader_epoch=self.epoch + 1)
        self.pending = [ModelBatch(tuple(batch), self.epoch) for batch in noted]
        self.report_state()
        info = self.log.append_as_follower(b"".join([*parts, late]), self.epoch)
        assert (info.first_offset, info.last_offset) == (noted[0][0].offset, offset - 1)
        self.note()
        with pytest.raises(UnexpectedAppendOffsetError):
            self.log.append_as_follower(parts[0], self.epoch)
        if len(parts) > 1:
            with pytest.raises(OffsetsOutOfOrderError):
                self.log.append_as_follower(parts[1] + parts[0], self.epoch)
        assert self.log.append_as_follower(late, self.epoch).first_offset == -1
