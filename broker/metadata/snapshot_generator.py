"""SnapshotGenerator: writes snapshots of the metadata when they are due, and deletes old ones and old segments.

It gets each image on the event loop and writes that immutable image in a thread, while the controller keeps
appending. Source: org.apache.kafka.image.publisher.SnapshotGenerator,
org.apache.kafka.raft.KafkaRaftClient (RaftMetadataLogCleanerManager).
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from barnabas.broker.metadata.image import MetadataDelta, MetadataImage

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.broker.metadata.raft_log import RaftLog
    from barnabas.broker.waiting.blocking import BlockingRunner
    from barnabas.broker.waiting.timer import Timer, TimerHandle

ROUND_INTERVAL_MS: Final = 60_000
"""Kafka deletes old snapshots every minute. An idle controller also checks then whether a snapshot is due."""

logger = logging.getLogger("barnabas.metadata")


class SnapshotGenerator:
    """The generator of one metadata log. Runs one snapshot, or one round of deletions, at a time."""

    def __init__(
        self,
        log: RaftLog,
        runner: BlockingRunner,
        timer: Timer,
        image: MetadataImage,
        before_cleaning: Callable[[], None] = lambda: None,
    ) -> None:
        """`before_cleaning` is blocking work of the log's owner, before each round of deletions."""
        self._log = log
        self._before_cleaning = before_cleaning
        self._runner = runner
        self._timer = timer
        self._image = image
        self._is_busy = False
        self._is_stopped = False
        self._handle: TimerHandle | None = None

    def start(self) -> None:
        interval_ms = min(ROUND_INTERVAL_MS, self._log.settings.snapshot_interval_ms or ROUND_INTERVAL_MS)
        interval_s = max(interval_ms, 1) / 1000

        def run() -> None:
            self._handle = self._timer.call_at(self._timer.time() + interval_s, run)
            self.round()

        self._handle = self._timer.call_at(self._timer.time() + interval_s, run)
        self._maybe_write()

    def stop(self) -> None:
        """Begins no more work; work that runs is finished."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None
        self._is_stopped = True

    def apply(self, image: MetadataImage, _delta: MetadataDelta) -> None:
        self._image = image
        self._maybe_write()

    def round(self) -> None:
        """Writes a snapshot where it is due by time, and runs deletions."""
        self._maybe_write()
        self._in_background("deleting old metadata", self._clean)

    def _maybe_write(self) -> None:
        image = self._image
        if not self._is_busy and self._log.snapshot_is_due(image):
            self._in_background("writing a snapshot of the metadata", lambda: self._write(image))

    def _write(self, image: MetadataImage) -> None:
        self._log.write_snapshot(image)
        self._log.run_deletions()

    def _clean(self) -> None:
        self._before_cleaning()
        self._log.clean()
        self._log.run_deletions()

    def _in_background(self, what: str, work: Callable[[], None]) -> None:
        if self._is_busy or self._is_stopped:
            return
        self._is_busy = True

        def done(error: BaseException | None) -> None:
            self._is_busy = False
            if error is not None:
                logger.error("%s failed: %s", what, error)

        self._runner.submit(work, done)
