"""LogOffsets: how far readers of one log may see, and the order of its offsets.

log start offset <= last stable offset <= high watermark <= log end offset
"""

from typing import Final

from barnabas.storage.log.local_log import LocalLog
from barnabas.storage.log.producer_state import ProducerStateManager
from barnabas.storage.offsets import FetchIsolation, LogOffsetMetadata

_LOG_END: Final = FetchIsolation.LOG_END
_TXN_COMMITTED: Final = FetchIsolation.TXN_COMMITTED


class LogOffsets:
    """The log start offset, the high watermark and the last stable offset of one log; its segments know the end."""

    __slots__ = (
        "_high_watermark_metadata",
        "_last_stable_metadata",
        "_local",
        "_producers",
        "first_unstable_offset",
        "high_watermark",
        "log_start_offset",
    )

    def __init__(self, local: LocalLog, producers: ProducerStateManager, log_start_offset: int) -> None:
        self._local = local
        self._producers = producers
        self.log_start_offset = log_start_offset
        self.high_watermark = log_start_offset
        self.first_unstable_offset: int | None = None
        self._high_watermark_metadata = LogOffsetMetadata(-1)
        self._last_stable_metadata = LogOffsetMetadata(-1)
        self.update_first_unstable_offset()
        self.check_order()

    def check_order(self) -> None:
        """Asserts the order of the offsets."""
        stable = self.last_stable_offset
        assert self.log_start_offset <= stable <= self.high_watermark <= self._local.log_end_offset, repr(
            self
        )

    @property
    def last_stable_offset(self) -> int:
        """Where read_committed ends: the first offset of an undecided transaction, at most the high watermark."""
        unstable = self.first_unstable_offset
        return self.high_watermark if unstable is None or unstable > self.high_watermark else unstable

    def limit(self, isolation: FetchIsolation) -> LogOffsetMetadata:
        """Where a read with an isolation level ends, exclusive."""
        if isolation is _LOG_END:
            return self._local.log_end_offset_metadata
        if isolation is _TXN_COMMITTED:
            return self.last_stable_offset_metadata
        return self.high_watermark_metadata

    @property
    def last_stable_offset_metadata(self) -> LogOffsetMetadata:
        """The last stable offset with its position, which is searched once for each offset."""
        offset = self.last_stable_offset
        if offset == self.high_watermark:
            return self.high_watermark_metadata
        if self._last_stable_metadata.message_offset != offset:
            self._last_stable_metadata = self._local.offset_metadata(offset)
        return self._last_stable_metadata

    @property
    def high_watermark_metadata(self) -> LogOffsetMetadata:
        """The high watermark with its position, which is searched once for each offset before the log end."""
        offset = self.high_watermark
        if offset == self._local.log_end_offset:
            return self._local.log_end_offset_metadata
        if self._high_watermark_metadata.message_offset != offset:
            self._high_watermark_metadata = self._local.offset_metadata(offset)
        return self._high_watermark_metadata

    def forget_positions(self) -> None:
        """To be called when batches below the end of the log may have moved."""
        self._high_watermark_metadata = self._last_stable_metadata = LogOffsetMetadata(-1)

    def update_high_watermark(self, offset: int) -> int:
        """Moves the high watermark, within the log start and end offset; returns the new one."""
        end = self._local.log_end_offset
        if offset >= end:
            offset = end
        elif offset != self.high_watermark:
            offset = max(offset, self.log_start_offset)
        self.high_watermark = offset
        if self.first_unstable_offset is not None:
            if self._producers.on_high_watermark_updated(offset):
                self.update_first_unstable_offset()
            self.check_order()
        assert self.log_start_offset <= offset, repr(self)  # the rest of the order follows from above
        return offset

    def update_first_unstable_offset(self) -> None:
        """To be called when a transaction may have begun or ended."""
        first = self._producers.first_unstable_offset
        self.first_unstable_offset = None if first is None else max(first, self.log_start_offset)

    def reset(self, log_start_offset: int) -> None:
        """Restores the order after a truncation; the first unstable offset is unknown until producers are rebuilt."""
        self.first_unstable_offset = None
        self.log_start_offset = log_start_offset
        end = self._local.log_end_offset
        if self.high_watermark >= end or self.high_watermark < log_start_offset:
            self.high_watermark = end
        self.forget_positions()
        self.check_order()

    def __repr__(self) -> str:
        return (
            f"{self._local.directory}, start={self.log_start_offset}, stable={self.last_stable_offset}, "
            f"hw={self.high_watermark}, end={self._local.log_end_offset}"
        )
