"""Compaction for users: requests to compact a topic, and its state. Runs on the event loop.

The results are plain dictionaries, which the HTTP port sends as JSON.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any, Final

from barnabas.broker.compaction.scheduler import Cleaning, LogCleaner
from barnabas.broker.metadata.image import MetadataImage
from barnabas.storage.errors import KafkaStorageError
from barnabas.storage.log.unified_log import UnifiedLog
from barnabas.storage.manager.log_manager import LogManager

QUEUED: Final = "queued"
IDLE: Final = "idle"
UNCLEANABLE: Final = "uncleanable"
OFFLINE: Final = "offline"

Report = dict[str, Any]


class RejectionReason(Enum):
    """Why a request to compact a topic is rejected."""

    UNKNOWN_TOPIC = "unknown topic"
    NOT_COMPACTED = "not a compacted topic"
    TURNED_OFF = "compaction is turned off"
    OFFLINE = "offline"


class CompactionRejectedError(Exception):
    """A request cannot be carried out; the text says why and what would help."""

    def __init__(self, reason: RejectionReason, text: str) -> None:
        super().__init__(text)
        self.reason = reason


class Compaction:
    """The requests and reports that users have of compaction."""

    def __init__(
        self, cleaner: LogCleaner, log_manager: LogManager, image: Callable[[], MetadataImage]
    ) -> None:
        self._cleaner = cleaner
        self._log_manager = log_manager
        self._image = image

    def request(self, topic: str) -> Report:
        """Has every partition of a topic compacted soon, whatever its ratio. Raises CompactionRejectedError.

        Active segments are rolled, so that everything written up to now can be compacted, as far as
        min.compaction.lag.ms and open transactions allow.
        """
        logs = self._logs(topic)
        if not self._cleaner.is_enabled:
            raise CompactionRejectedError(
                RejectionReason.TURNED_OFF,
                "Compaction is turned off: log.cleaner.enable or log.cleaner.threads.",
            )
        online = [log for log in logs if not log.is_failed]
        if not online:
            raise CompactionRejectedError(RejectionReason.OFFLINE, f"No partition of '{topic}' is online.")
        if not online[0].config.compact:
            raise CompactionRejectedError(
                RejectionReason.NOT_COMPACTED, f"The cleanup.policy of '{topic}' does not include compact."
            )
        try:
            for log in online:
                self._cleaner.request(log)
        except KafkaStorageError as error:
            raise CompactionRejectedError(RejectionReason.OFFLINE, str(error)) from error
        return self.state(topic)

    def state(self, topic: str) -> Report:
        """The state of each partition of a topic. Raises CompactionRejectedError."""
        return {"topic": topic, "partitions": [self._partition(log) for log in self._logs(topic)]}

    def overview(self) -> Report:
        """The running cleanings, and the partitions that are uncleanable."""
        manager = self._cleaner.manager
        return {
            "enabled": self._cleaner.is_enabled,
            "running": [self._running(cleaning) for cleaning in self._cleaner.running],
            "uncleanable": [
                {"topic": topic, "partition": partition}
                for directory in self._log_manager.dirs
                for topic, partition in manager.uncleanable_partitions(directory)
            ],
        }

    def _logs(self, topic: str) -> list[UnifiedLog]:
        known = self._image().topics.get(topic)
        if known is None:
            raise CompactionRejectedError(RejectionReason.UNKNOWN_TOPIC, f"There is no topic '{topic}'.")
        logs = (self._log_manager.get_log(topic, index) for index in sorted(known.partitions))
        return [log for log in logs if log is not None]

    def _running(self, cleaning: Cleaning) -> Report:
        return {"topic": cleaning.log.topic, **self._partition(cleaning.log)}

    def _partition(self, log: UnifiedLog) -> Report:
        key = (log.topic, log.partition)
        state, percent = self._state(log)
        directory = self._log_manager.directory_of(log)
        report: Report = {
            "partition": log.partition,
            "state": state,
            "percent": percent,
            "compacted_to": directory.cleaner_offsets.get(key, log.log_start_offset),
            "log_end_offset": log.log_end_offset,
            "bytes": log.size,
        }
        error = self._cleaner.last.failures.get(key)
        return report if error is None else {**report, "error": error}

    def _state(self, log: UnifiedLog) -> tuple[str, int]:
        key = (log.topic, log.partition)
        running = next((it for it in self._cleaner.running if it.found.key == key), None)
        if log.is_failed:
            return OFFLINE, 0
        if running is not None:
            return running.phase.value, int(100 * running.fraction)
        if self._cleaner.manager.is_uncleanable(key):
            return UNCLEANABLE, 0
        return (QUEUED, 0) if self._cleaner.manager.is_requested(key) else (IDLE, 100)
