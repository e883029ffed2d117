"""The interface of a client under test: send a workload and read a topic back, both as digests."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from typing import ClassVar

from tests.interop.workload import BIG_VALUE_BYTES, CODECS, Digests, Workload

SILENCE_S = 30.0
"""A client that receives no record for this long has lost some."""


class StockClient(ABC):
    """One client library or tool at its defaults; a call sets only its arguments."""

    name: ClassVar[str]
    codecs: ClassVar[tuple[str, ...]] = CODECS
    null_headers: ClassVar[bool] = True
    bare: ClassVar[bool] = True
    big_value_bytes: ClassVar[int] = BIG_VALUE_BYTES

    def workload(self, count: int, partitions: int) -> Workload:
        """Records of every kind that this client can send."""
        return Workload(
            count,
            partitions,
            big_value_bytes=self.big_value_bytes,
            null_headers=self.null_headers,
            bare=self.bare,
        )

    def missing(self) -> str | None:
        """The reason why this client cannot run here, or None."""
        return None

    @abstractmethod
    def produce(self, bootstrap: str, topic: str, workload: Workload, codec: str) -> Digests:
        """Sends the workload and waits until it is acknowledged; returns the digests."""

    @abstractmethod
    def consume(self, bootstrap: str, topic: str, partitions: int, count: int) -> Digests:
        """Reads `count` records from the beginning of all partitions; returns the digests."""

    def __repr__(self) -> str:
        return self.name


class SilenceTimer:
    """Fails a reader that gets nothing for too long; call `received()` on every arrival."""

    def __init__(self, silence_s: float = SILENCE_S) -> None:
        self._silence_s = silence_s
        self._deadline = time.monotonic() + silence_s

    def received(self) -> None:
        """Restarts the timer."""
        self._deadline = time.monotonic() + self._silence_s

    def check(self, digests: Digests, count: int) -> None:
        """Raises AssertionError once the silence is too long."""
        assert time.monotonic() < self._deadline, (
            f"{digests.count} of {count} records, then nothing for {self._silence_s:g} s"
        )
