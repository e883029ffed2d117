"""Verification of the checkpoints of a log directory against the start and end offsets of its logs."""

from typing import Final

from barnabas.storage.env import Env
from barnabas.storage.errors import CorruptCheckpointError
from barnabas.storage.log.checkpoints import (
    CLEAN_SHUTDOWN,
    CLEANER_OFFSET_CHECKPOINT,
    HIGH_WATERMARK_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    OffsetCheckpointFile,
)
from barnabas.storage.offsets import TopicPartition
from barnabas.storage.verify.partition import LogRange
from barnabas.storage.verify.verifier import Findings, Severity, Situation, without_path

CHECKPOINTS: Final = (
    RECOVERY_POINT_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    HIGH_WATERMARK_CHECKPOINT,
    CLEANER_OFFSET_CHECKPOINT,
)


class Checkpoints:
    """The checkpoints of a log directory, read before the logs, which only grow."""

    def __init__(self, env: Env, path: str, findings: Findings) -> None:
        """Adds unreadable checkpoints to `findings`."""
        self._env = env
        self._path = path
        self._findings = findings
        self._files = {name: OffsetCheckpointFile(env, f"{path}/{name}") for name in CHECKPOINTS}
        self.is_clean = env.exists(f"{path}/{CLEAN_SHUTDOWN}")
        self._offsets = {name: self._read(name) for name in CHECKPOINTS}

    def _read(self, name: str) -> dict[TopicPartition, int]:
        path = f"{self._path}/{name}"
        try:
            offsets = self._files[name].read()
        except CorruptCheckpointError as error:
            self._findings.error(
                path,
                without_path(path, error),
                "a version, the number of entries, and topic, partition and offset of each",
                "a start goes on without it, which costs time and no data",
            )
            return {}
        except OSError as error:
            self._findings.unreadable(error, path)
            return {}
        self._findings.counts.files += self._env.exists(path)
        for (topic, partition), offset in offsets.items():
            if offset < 0 or partition < 0:
                self._findings.error(path, f"{topic} {partition} {offset}", "no negative numbers")
        return offsets

    def again(self) -> "Checkpoints":
        """Reads them again, since a running broker writes them."""
        return Checkpoints(self._env, self._path, Findings(self._path))

    def situation(self, key: TopicPartition) -> Situation:
        """The entries of one partition."""
        has_any = self._env.exists(f"{self._path}/{RECOVERY_POINT_CHECKPOINT}")
        return Situation(
            self.is_clean,
            self._offsets[RECOVERY_POINT_CHECKPOINT].get(key, 0 if has_any else None),
            self._offsets[LOG_START_OFFSET_CHECKPOINT].get(key),
            self._offsets[CLEANER_OFFSET_CHECKPOINT].get(key),
        )

    def check(self, ranges: dict[TopicPartition, LogRange]) -> Findings:
        """Checks each entry against its log; `ranges` has the start and end offset of each log."""
        findings = Findings(self._path)
        for name in CHECKPOINTS:
            now: dict[TopicPartition, int] | None = None
            for key, offset in self._offsets[name].items():
                found = self._contradiction(name, offset, ranges.get(key))
                if found is None:
                    continue
                now = self._now(name) if now is None else now
                if now.get(key) == offset:  # otherwise it was truncated, or deleted, meanwhile
                    severity, problem, expected, remedy = found
                    text = f"{key[0]} {key[1]} {offset}: {problem}"
                    findings.add(severity, f"{self._path}/{name}", text, expected, remedy, offset=offset)
        return findings

    def _now(self, name: str) -> dict[TopicPartition, int]:
        try:
            return self._files[name].read()
        except (CorruptCheckpointError, OSError):
            return {}

    def _contradiction(self, name: str, offset: int, log: LogRange | None) -> "_Contradiction | None":
        if log is None:
            return Severity.WARNING, "there is no such partition here", "", "a start drops the entry"
        start, end, has_gaps = log
        if offset <= end or end < 0:
            return None
        # After anything but a stop in order a power cut may have taken what is between the two.
        severity = Severity.ERROR if self.is_clean else Severity.WARNING
        text = f"the log ends at {end}"
        match name:
            case "recovery-point-offset-checkpoint":
                # What was flushed is missing, unless compaction took the last records.
                problem = f"{text}: what was on stable storage is missing"
                return (
                    Severity.WARNING if has_gaps else Severity.ERROR,
                    problem,
                    f"at most {end}",
                    _AT_END,
                )
            case "log-start-offset-checkpoint":
                return severity, text, f"{start} to {end}", "a start empties the log and goes on from there"
            case "replication-offset-checkpoint":
                problem = f"{text}: what was replicated, and not flushed, is missing"
                return severity, problem, f"at most {end}", _AT_END
        return Severity.WARNING, text, f"at most {end}", "the cleaner begins at the log's start again"


_Contradiction = tuple[Severity, str, str, str]
"""(severity, what is wrong, what would be right, what a start does)."""

_AT_END: Final = "a start takes the log's end instead"
