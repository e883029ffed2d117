"""Verification of an entry of log.dirs: whose it is, its checkpoints, and every partition in it."""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from protocol.wire import uuid_from_string
from storage.checkpoints import (
    CLEAN_SHUTDOWN,
    CLEANER_OFFSET_CHECKPOINT,
    HIGH_WATERMARK_CHECKPOINT,
    LOCK,
    LOG_START_OFFSET_CHECKPOINT,
    META_PROPERTIES,
    PARTITION_METADATA,
    RECOVERY_POINT_CHECKPOINT,
    MetaProperties,
    OffsetCheckpointFile,
    TopicPartition,
)
from storage.disk_space import RESERVE_FILE
from storage.env import Env
from storage.errors import CorruptCheckpointError, InconsistentMetadataError
from storage.segment_files import LOG_SUFFIX
from storage.verify import LEFT_ALONE, REMOVED, Counts, Finding, Findings, Severity, Situation
from storage.verify_batches import SNAPSHOT_FILE, verify_batches
from storage.verify_partition import LogRange, verify_partition

CHECKPOINTS: Final = (
    RECOVERY_POINT_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    HIGH_WATERMARK_CHECKPOINT,
    CLEANER_OFFSET_CHECKPOINT,
)
BOOTSTRAP_FILE: Final = "bootstrap.checkpoint"
_KNOWN: Final = frozenset({*CHECKPOINTS, META_PROPERTIES, CLEAN_SHUTDOWN, LOCK, RESERVE_FILE})
_PARTITION: Final = re.compile(r"(.+)-(\d+)")
_ODD: Final = re.compile(r"(.+-\d+)\.[0-9a-f]{32}-(delete|future|stray)")
_ODD_WORDS: Final = {
    "delete": ("a deleted partition, on its way out", REMOVED),
    "future": ("a partition on its way here from another directory", "a start goes on with it"),
    "stray": ("a partition that belonged to no topic", LEFT_ALONE),
}
_SEGMENT: Final = re.compile(r"\d{20}\.log")
_LOST_AND_FOUND: Final = "lost+found"
_UUID_CHARACTERS: Final = re.compile(r"[A-Za-z0-9_-]{22}")


class NotALogDirectoryError(Exception):
    """Neither an entry of log.dirs nor a partition's directory; the message says which path."""


class Progress(NamedTuple):
    """Where a verification is: the bytes of .log files read of those there were, and what is looked at."""

    done_bytes: int
    total_bytes: int
    path: str


class Verification:
    """Looks at directories one after the other; `findings` and `counts` grow as it goes."""

    __slots__ = (
        "_done_bytes",
        "_env",
        "_is_deep",
        "_known_as",
        "_on_progress",
        "_total_bytes",
        "counts",
        "findings",
    )

    def __init__(
        self, env: Env, *, is_deep: bool = True, on_progress: Callable[[Progress], None] = lambda _: None
    ) -> None:
        """`is_deep`: batches are unpacked and their records checked, too."""
        self._env = env
        self._is_deep = is_deep
        self._on_progress = on_progress
        self._known_as: dict[TopicPartition, str] = {}
        self._done_bytes = self._total_bytes = 0
        self.findings: list[Finding] = []
        self.counts = Counts()

    def run(self, paths: Sequence[str]) -> Iterator[Finding]:
        """The findings in each of the directories, as they are made.

        Raises OSError, and NotALogDirectoryError before anything is looked at.
        """
        for path in paths:
            if not self._env.is_dir(path):
                raise NotALogDirectoryError(f"{path} is no directory")
            if not (self._is_partition(path) or self._is_log_dir(path)):
                raise NotALogDirectoryError(
                    f"{path} has no meta.properties, no partitions and no segments in it"
                )
        partitions = {path: self._partitions(path) for path in paths if not self._is_partition(path)}
        all_partitions = [path for path in paths if path not in partitions]
        all_partitions += [f"{path}/{name}" for path, names in partitions.items() for name in names]
        self._total_bytes = sum(map(self._log_bytes, all_partitions))
        for path in paths:
            if path in partitions:
                yield from self._log_dir(path, partitions[path])
            else:
                yield from self._lone_partition(path)
        yield from self._tell(self._check_identities(list(partitions)))

    # -- what is where --

    def _is_partition(self, path: str) -> bool:
        names = self._env.listdir(path)
        return PARTITION_METADATA in names or any(_SEGMENT.fullmatch(name) for name in names)

    def _is_log_dir(self, path: str) -> bool:
        names = self._env.listdir(path)
        return bool({META_PROPERTIES, *CHECKPOINTS}.intersection(names)) or bool(self._partitions(path))

    def _partitions(self, path: str) -> list[str]:
        """Those in a log directory, with those that are on their way into it: the checkpoints speak of both."""
        return [
            name
            for name in sorted(self._env.listdir(path))
            if _key_of(name) is not None and self._env.is_dir(f"{path}/{name}")
        ]

    def _log_bytes(self, directory: str) -> int:
        total = 0
        try:
            for name in self._env.listdir(directory):
                if name.endswith(LOG_SUFFIX):
                    total += self._env.size(f"{directory}/{name}")
        except FileNotFoundError:
            pass  # deleted since; it only means that the progress bar is not quite right
        return total

    # -- looking --

    def _tell(self, findings: Findings) -> Iterator[Finding]:
        self.findings += findings.all
        self.counts.add(findings.counts)
        yield from findings.all

    def _lone_partition(self, path: str) -> Iterator[Finding]:
        parent, _, name = path.rstrip("/").rpartition("/")
        key = _key_of(name) or (name, -1)
        checkpoints = Checkpoints(self._env, parent or ".", Findings(parent))
        findings, _ = self._look_at(path, checkpoints, key)
        yield from self._tell(findings)

    def _look_at(
        self, path: str, checkpoints: "Checkpoints", key: TopicPartition
    ) -> tuple[Findings, LogRange]:
        """The findings in a partition, and where its log begins and ends."""

        def on_progress(read: int) -> None:
            self._done_bytes += read
            self._on_progress(Progress(self._done_bytes, self._total_bytes, path))

        return verify_partition(
            self._env,
            path,
            checkpoints.situation(key),
            lambda: checkpoints.again().situation(key),
            is_deep=self._is_deep,
            on_progress=on_progress,
        )

    def _log_dir(self, path: str, names: list[str]) -> Iterator[Finding]:
        findings = Findings(path)
        findings.counts.directories += 1
        checkpoints = Checkpoints(self._env, path, findings)
        self._check_names(path, findings)
        if self._env.exists(f"{path}/{BOOTSTRAP_FILE}"):
            findings.all += verify_batches(self._env, f"{path}/{BOOTSTRAP_FILE}", findings.counts)
        yield from self._tell(findings)
        ranges: dict[TopicPartition, LogRange] = {}
        for name in names:
            key = _key_of(name)
            assert key is not None
            partition_path = f"{path}/{name}"
            try:
                found, ranges[key] = self._look_at(partition_path, checkpoints, key)
                found.all += self._kraft_snapshots(partition_path, found.counts)
            except FileNotFoundError:
                if self._env.exists(partition_path):
                    raise
                continue  # its topic was deleted meanwhile
            if not _ODD.fullmatch(name):
                self._check_twice(key, partition_path, found)
            yield from self._tell(found)
        yield from self._tell(checkpoints.check(ranges))

    def _kraft_snapshots(self, path: str, counts: Counts) -> Iterator[Finding]:
        for name in sorted(self._env.listdir(path)):
            if SNAPSHOT_FILE.fullmatch(name):
                yield from verify_batches(self._env, f"{path}/{name}", counts)

    def _check_twice(self, key: TopicPartition, path: str, findings: Findings) -> None:
        other = self._known_as.setdefault(key, path)
        if other != path:
            findings.error(path, f"{other} is the same partition", "", "the broker does not start")

    def _check_names(self, path: str, findings: Findings) -> None:
        for name in sorted(self._env.listdir(path)):
            full = f"{path}/{name}"
            odd = _ODD.fullmatch(name)
            if odd is not None:
                problem, remedy = _ODD_WORDS[odd[2]]
                findings.note(full, problem, "", remedy)
            elif self._env.is_dir(full):
                if not _PARTITION.fullmatch(name) and name != _LOST_AND_FOUND:
                    findings.warning(full, "no directory of a partition", "", LEFT_ALONE)
            elif name.endswith(".tmp"):
                findings.note(full, "about to replace another file", "", LEFT_ALONE)
            elif name not in _KNOWN and name != BOOTSTRAP_FILE:
                findings.warning(full, "no file of a log directory", "", LEFT_ALONE)

    # -- whose it is --

    def _check_identities(self, paths: list[str]) -> Findings:
        """meta.properties of each, and of all of them together."""
        findings = Findings("")
        known: list[tuple[str, MetaProperties]] = []
        for path in paths:
            file = f"{path}/{META_PROPERTIES}"
            properties = self._read_identity(path, file, findings)
            if properties is None:
                continue
            for other, others in known:
                if (properties.cluster_id, properties.node_id) != (others.cluster_id, others.node_id):
                    findings.error(
                        file,
                        f"cluster {properties.cluster_id}, node {properties.node_id}",
                        f"cluster {others.cluster_id}, node {others.node_id}, as in {other}",
                        "a broker does not start on both",
                    )
                if properties.directory_id and properties.directory_id == others.directory_id:
                    findings.error(
                        file, f"directory id {properties.directory_id} is that of {other}", "another one"
                    )
            known.append((path, properties))
        return findings

    def _read_identity(self, path: str, file: str, findings: Findings) -> MetaProperties | None:
        try:
            properties = MetaProperties.read(self._env, path)
        except InconsistentMetadataError as error:
            findings.error(
                file,
                str(error).removeprefix(file).lstrip(": "),
                "node.id, cluster.id and version",
                "the broker does not start",
            )
            return None
        if properties is None:
            findings.warning(file, "there is no such file", "", "a start takes the directory for a new one")
            return None
        findings.counts.files += 1
        for problem, expected in _identity_problems(properties):
            findings.error(file, problem, expected, "the broker does not start, or takes it for another's")
        return properties


def _key_of(name: str) -> TopicPartition | None:
    """The partition whose log a directory of this name holds; None for what was put aside or deleted, and the rest."""
    odd = _ODD.fullmatch(name)
    if odd is not None and odd[2] != "future":
        return None
    parsed = _PARTITION.fullmatch(name if odd is None else odd[1])
    return None if parsed is None else (parsed[1], int(parsed[2]))


def _identity_problems(properties: MetaProperties) -> Iterator[tuple[str, str]]:
    if not properties.cluster_id:
        yield "there is no cluster.id", "the cluster's"
    if properties.node_id < 0:
        yield "there is no node.id", "the broker's number"
    directory_id = properties.directory_id
    if directory_id and not _is_uuid(directory_id):
        yield f"directory.id={directory_id} is no UUID in base64", "22 characters of A-Z a-z 0-9 - _"
    if not directory_id:
        yield "there is no directory.id", "the directory's UUID"
    if properties.others:
        yield (
            f"there are unknown keys: {', '.join(sorted(properties.others))}",
            "node.id, directory.id, cluster.id",
        )


def _is_uuid(text: str) -> bool:
    if not _UUID_CHARACTERS.fullmatch(text):
        return False
    try:
        uuid_from_string(text)
    except ValueError:
        return False
    return True


class Checkpoints:
    """The checkpoints of a log directory, read before the logs are: these only grow."""

    __slots__ = ("_env", "_files", "_findings", "_offsets", "_path", "is_clean")

    def __init__(self, env: Env, path: str, findings: Findings) -> None:
        """What cannot be read goes into `findings`."""
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
                str(error).removeprefix(path).lstrip(": "),
                "a version, the number of entries, and topic, partition and offset of each",
                "a start goes on without it, which costs time and no data",
            )
            return {}
        self._findings.counts.files += self._env.exists(path)
        for (topic, partition), offset in offsets.items():
            if offset < 0 or partition < 0:
                self._findings.error(path, f"{topic} {partition} {offset}", "no negative numbers")
        return offsets

    def again(self) -> "Checkpoints":
        """As they are now: a broker at work writes them."""
        return Checkpoints(self._env, self._path, Findings(self._path))

    def situation(self, key: TopicPartition) -> Situation:
        """What they say of one partition."""
        has_any = self._env.exists(f"{self._path}/{RECOVERY_POINT_CHECKPOINT}")
        return Situation(
            self.is_clean,
            self._offsets[RECOVERY_POINT_CHECKPOINT].get(key, 0 if has_any else None),
            self._offsets[LOG_START_OFFSET_CHECKPOINT].get(key),
            self._offsets[CLEANER_OFFSET_CHECKPOINT].get(key),
        )

    def check(self, ranges: dict[TopicPartition, LogRange]) -> Findings:
        """Holds each entry against the log that it speaks of; `ranges` has where each log begins and ends."""
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
        except CorruptCheckpointError:
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
