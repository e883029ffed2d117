# cython: annotation_typing=False, wraparound=False, boundscheck=False, initializedcheck=False
"""The loop of recovery over the batches of a segment: checks each batch and collects the state that follows from it.

A segment is read in pieces, from its start to its end. Length, magic, checksum and offsets of every batch are checked,
and the state of the log is collected without an object for each batch: entries for the offset and the time index, the
youngest timestamp, new leader epochs, and of every producer its last five batches (`ProducerRun`). Other cases are for
the caller: `stop` says why `scan` returned.

This module runs as Python, or compiled by Cython with the types of scanning.pxd (`COMPILED`). Compiled, it verifies
several checksums at a time with the processor's instruction, if it has one, and without the interpreter lock, so that
several logs are recovered in parallel.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

from barnabas.protocol.records.checksum import crc32c
from barnabas.protocol.records.layout import (
    ATTRIBUTES_LOW_POSITION,
    BASE_SEQUENCE_POSITION,
    CONTROL_MASK,
    CRC_POSITION,
    CRC_START,
    LAST_OFFSET_DELTA_POSITION,
    LEADER_EPOCH_POSITION,
    LEGACY_OVERHEAD_V0,
    LENGTH_POSITION,
    LOG_OVERHEAD,
    MAGIC_POSITION,
    MAX_TIMESTAMP_POSITION,
    PRODUCER_EPOCH_POSITION,
    PRODUCER_ID_POSITION,
    RECORD_BATCH_OVERHEAD,
    TRANSACTIONAL_MASK,
)

if TYPE_CHECKING:
    from typing import TypeAlias

    Bytes: TypeAlias = bytes | bytearray  # not memoryview: the compiled module reads them by address

COMPILED: bool = not __file__.endswith((".py", ".pyc"))

AT_END = 0
"""The rest of the piece is not a complete batch: the next piece is needed."""
DAMAGED = 1
"""The batch at `position` is damaged; `damage` says why."""
LEGACY = 2
"""The entry at `position` is one of an older message set: the caller checks it and passes it to `add_entry`."""
CONTROL = 3
"""The batch at `control_at` in the piece ends a transaction. It is applied except to the producers: `runs` first."""
_MORE = 4

RETAINED = 5
"""The number of batches that are kept of a producer."""
FOLLOW_NONE = (1 << 63) - 1
"""A `follow_from` that follows no producer."""

_FRAMES = 2048
_RING = RETAINED
_MAX_INT32 = (1 << 31) - 1
_LOW_32 = (1 << 32) - 1


class ProducerRun:
    """A sequence of a producer's batches: its epoch and the last batches, at most five, oldest first.

    `restarted`: the epoch changed within, which voids earlier batches. `txn_first_offset` is the first offset of the
    first transactional batch, -1 for none.
    """

    __slots__ = ("_count", "_ring", "epoch", "last_timestamp", "producer_id", "restarted", "txn_first_offset")

    def __init__(self, producer_id: int, epoch: int) -> None:
        self.producer_id = producer_id
        self.epoch = epoch
        self.restarted = False
        self.txn_first_offset = -1
        self.last_timestamp = -1
        self._count = 0
        self._ring = array("q", bytes(8 * 4 * RETAINED))

    def batches(self) -> list[tuple[int, int, int, int]]:
        """(last sequence, last offset, offset delta, max timestamp) of each."""
        ring = list(self._ring)
        first = max(self._count - RETAINED, 0)
        slots = [4 * (number % RETAINED) for number in range(first, self._count)]
        return [(ring[slot], ring[slot + 1], ring[slot + 2], ring[slot + 3]) for slot in slots]

    def _add(  # noqa: PLR0917
        self, epoch: int, last_sequence: int, last_offset: int, delta: int, timestamp: int, transactional: int
    ) -> None:
        if epoch != self.epoch:
            self.epoch = epoch
            self.restarted = True
            self._count = 0
        slot = self._count % _RING * 4
        self._ring[slot] = last_sequence
        self._ring[slot + 1] = last_offset
        self._ring[slot + 2] = delta
        self._ring[slot + 3] = timestamp
        self._count += 1
        self.last_timestamp = timestamp
        if transactional and self.txn_first_offset < 0:
            self.txn_first_offset = last_offset - delta


class SegmentScanner:
    """One pass over one segment.

    `position` is where in the .log the next batch begins, `next_offset` the least offset that it may have. `epochs` are
    (leader epoch, first offset) of the epochs above `latest_epoch`, in order, and `runs` the producers since they were
    last taken. The caller may take `epochs` and `runs` at any time.
    """

    def __init__(
        self,
        base_offset: int,
        *,
        size: int,
        index_interval_bytes: int,
        index_bytes: int,
        check_crc: bool = True,
        latest_epoch: int = -1,
        follow_from: int = FOLLOW_NONE,
    ) -> None:
        """For the segment at `base_offset` of `size` bytes, whose indexes may have `index_bytes` each.

        Producers are followed through the batches that end at `follow_from` or after.
        """
        self._base_offset = base_offset
        self._index_interval_bytes = index_interval_bytes
        self._check_crc = check_crc
        self._follow_from = follow_from
        # One more entry takes more than the interval, and no batch is smaller than its header.
        possible = size // max(index_interval_bytes, LOG_OVERHEAD + LEGACY_OVERHEAD_V0) + 1
        self._max_entries = min(max(index_bytes // 8, 1), possible)
        self._max_time_entries = min(max(index_bytes // 12, 1) - 1, possible)
        self._offset_entries = bytearray(8 * self._max_entries)
        self._time_entries = bytearray(12 * self._max_time_entries)
        self._starts = array("q", bytes(8 * (_FRAMES + 1)))
        self._why = AT_END
        self._last_time_entry = -1
        self._last_run: ProducerRun | None = None
        self.offset_entry_count = 0
        self.time_entry_count = 0
        self.position = 0
        self.next_offset = base_offset
        self.max_timestamp = -1
        self.offset_of_max_timestamp = base_offset
        self.bytes_since_index_entry = 0
        self.latest_epoch = latest_epoch
        self.stop = AT_END
        self.control_at = 0
        self.damage = ""
        self.epochs: list[tuple[int, int]] = []
        self.runs: dict[int, ProducerRun] = {}

    @property
    def offset_index(self) -> bytes:
        """The entries of the .index so far, as they lie in the file."""
        return bytes(self._offset_entries[: 8 * self.offset_entry_count])

    @property
    def time_index(self) -> bytes:
        """Those of the .timeindex, without the one that roll and close add."""
        return bytes(self._time_entries[: 12 * self.time_entry_count])

    def take_runs(self) -> list[ProducerRun]:
        """Hands over the producers met since the last time; they are forgotten here."""
        runs = list(self.runs.values())
        self.runs = {}
        self._last_run = None
        return runs

    def take_epochs(self) -> list[tuple[int, int]]:
        """Returns the epochs since the last call."""
        epochs, self.epochs = self.epochs, []
        return epochs

    def scan(self, piece: Bytes, at: int, length: int, end: int) -> int:
        """Scans the batches that begin at `at` in the first `length` bytes of `piece`, at `position` in the .log.

        Returns where in the piece it stopped; `stop` says why. No batch may extend beyond `end`, the end of the .log.
        """
        if not 0 <= at <= length <= len(piece):
            raise ValueError(f"bytes {at} to {length} of {len(piece)}")
        self.stop = _MORE
        while self.stop == _MORE:
            start = at
            count = self._frame(piece, at, length, end)
            whole = self._whole(piece, piece, count) if self._check_crc else count
            taken = self._apply_headers(piece, whole)
            at = self._starts[taken]
            self.position += at - start
            if self.stop != _MORE:
                break
            if taken < count:
                self.stop = DAMAGED
                self.damage = "its checksum does not match its bytes"
            elif count < _FRAMES:
                self.stop = self._why
        return at

    def add_header(self, header: Bytes, size: int) -> bool:
        """Adds a v2 batch of `size` bytes whose checksum the caller has verified, from its first 61 bytes.

        For a batch that is larger than a piece. False if its offsets are invalid: `stop` and `damage` are then set.
        """
        if len(header) < RECORD_BATCH_OVERHEAD:
            raise ValueError(f"{len(header)} bytes are not a header")
        self._starts[0] = 0
        self._starts[1] = size
        self.stop = _MORE
        taken = self._apply_headers(header, 1)
        self.position += size * taken
        return taken == 1

    def reject(self, why: str) -> None:
        """Ends the scan before the batch at `position`, which the caller found damaged."""
        self.stop = DAMAGED
        self.damage = why

    def add_entry(self, offset: int, size: int, max_timestamp: int) -> bool:
        """Adds an entry of an older message set, which the caller has checked. False if its offset is invalid."""
        if not self._offsets_fit(offset, offset):
            self.stop = DAMAGED
            return False
        self._index(offset, size, max_timestamp, self.position)
        self.next_offset = offset + 1
        self.position += size
        return True

    # -- the hot loops --

    def _frame(self, data: Bytes, at: int, length: int, end: int) -> int:
        """Finds the bounds of up to `_FRAMES` batches by their lengths; `_why` says what follows them."""
        self._why = AT_END
        left_in_log = end - self.position
        count = 0
        self._starts[0] = at
        origin = at
        while count < _FRAMES and length - at > MAGIC_POSITION:
            size = _int32(data, at + LENGTH_POSITION) + LOG_OVERHEAD
            magic = data[at + MAGIC_POSITION]
            if magic > 2:
                self._why = DAMAGED
                self.damage = f"there is no record format {magic}"
                break
            least = RECORD_BATCH_OVERHEAD if magic == 2 else LOG_OVERHEAD + LEGACY_OVERHEAD_V0 + 8 * magic
            if size < least or size > left_in_log - (at - origin):
                self._why = DAMAGED
                self.damage = f"it claims {size} bytes of {left_in_log - (at - origin)}"
                break
            if magic < 2:
                self._why = LEGACY
                break
            if size > length - at:
                break
            at += size
            count += 1
            self._starts[count] = at
        return count

    def _whole(self, piece: Bytes, data: Bytes, count: int) -> int:
        """The number of leading batches, of `count`, whose checksums are right."""
        if COMPILED:
            known = count_whole(data, self._starts, count)  # type: ignore[name-defined]  # noqa: F821
            if known >= 0:
                return known  # type: ignore[no-any-return]
        view = memoryview(piece)
        for number in range(count):
            start = self._starts[number]
            if (
                crc32c(view[start + CRC_START : self._starts[number + 1]])
                != _int32(data, start + CRC_POSITION) & _LOW_32
            ):
                return number
        return count

    def _apply_headers(self, data: Bytes, count: int) -> int:
        """Applies the headers of `count` framed batches until one stops the scan; returns how many."""
        for number in range(count):
            at = self._starts[number]
            size = self._starts[number + 1] - at
            first = _int64(data, at)
            delta = _int32(data, at + LAST_OFFSET_DELTA_POSITION)
            last = first + delta
            if not self._offsets_fit(first, last):
                self.stop = DAMAGED
                return number
            self._index(
                last, size, _int64(data, at + MAX_TIMESTAMP_POSITION), self.position + at - self._starts[0]
            )
            self.next_offset = last + 1
            epoch = _int32(data, at + LEADER_EPOCH_POSITION)
            if epoch > self.latest_epoch:
                self.latest_epoch = epoch
                self.epochs.append((epoch, first))
            if last >= self._follow_from and _int64(data, at + PRODUCER_ID_POSITION) >= 0:
                attributes = data[at + ATTRIBUTES_LOW_POSITION]
                if attributes & CONTROL_MASK:
                    self.stop = CONTROL
                    self.control_at = at
                    return number + 1
                self._follow(data, at, last, delta, attributes & TRANSACTIONAL_MASK)
        return count

    def _offsets_fit(self, first: int, last: int) -> bool:
        """Whether a batch of these offsets may stand here; leaves `damage` where not."""
        if self.next_offset <= first <= last and last - self._base_offset <= _MAX_INT32:
            return True
        self.damage = f"offsets {first}..{last} where {self.next_offset} or a later one is due"
        return False

    def _index(self, last_offset: int, size: int, timestamp: int, position: int) -> None:
        """The youngest timestamp, and an index entry when the interval is over."""
        if timestamp > self.max_timestamp:
            self.max_timestamp = timestamp
            self.offset_of_max_timestamp = last_offset
        if (
            self.bytes_since_index_entry > self._index_interval_bytes
            and self.offset_entry_count < self._max_entries
        ):
            at = 8 * self.offset_entry_count
            _put32(self._offset_entries, at, last_offset - self._base_offset)
            _put32(self._offset_entries, at + 4, position)
            self.offset_entry_count += 1
            self._index_time()
            self.bytes_since_index_entry = 0
        self.bytes_since_index_entry += size

    def _index_time(self) -> None:
        if self.max_timestamp > self._last_time_entry and self.time_entry_count < self._max_time_entries:
            at = 12 * self.time_entry_count
            _put32(self._time_entries, at, self.max_timestamp >> 32)
            _put32(self._time_entries, at + 4, self.max_timestamp)
            _put32(self._time_entries, at + 8, self.offset_of_max_timestamp - self._base_offset)
            self.time_entry_count += 1
            self._last_time_entry = self.max_timestamp

    def _follow(self, data: Bytes, at: int, last_offset: int, delta: int, transactional: int) -> None:
        """Adds a producer's batch to its run."""
        producer_id = _int64(data, at + PRODUCER_ID_POSITION)
        epoch = _int16(data, at + PRODUCER_EPOCH_POSITION)
        run = self._last_run
        if run is None or run.producer_id != producer_id:
            run = self.runs.get(producer_id)
            if run is None:
                run = ProducerRun(producer_id, epoch)
                self.runs[producer_id] = run
            self._last_run = run
        sequence = _int32(data, at + BASE_SEQUENCE_POSITION)
        if sequence != -1:
            sequence = (sequence + delta) & _MAX_INT32
        run._add(
            epoch, sequence, last_offset, delta, _int64(data, at + MAX_TIMESTAMP_POSITION), transactional
        )


def _int32(data: Bytes, at: int) -> int:
    raw = data[at] << 24 | data[at + 1] << 16 | data[at + 2] << 8 | data[at + 3]
    return raw - _LOW_32 - 1 if raw > _MAX_INT32 else raw


def _int16(data: Bytes, at: int) -> int:
    raw = data[at] << 8 | data[at + 1]
    return raw - 0x10000 if raw >= 0x8000 else raw


def _int64(data: Bytes, at: int) -> int:
    return _int32(data, at) << 32 | _int32(data, at + 4) & _LOW_32


def _put32(out: bytearray, at: int, number: int) -> None:
    out[at] = number >> 24 & 0xFF
    out[at + 1] = number >> 16 & 0xFF
    out[at + 2] = number >> 8 & 0xFF
    out[at + 3] = number & 0xFF
