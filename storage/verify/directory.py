"""Verification of an entry of log.dirs: its identity, its checkpoints, and every partition in it."""

import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Final, NamedTuple

from barnabas.protocol.wire import uuid_from_string
from barnabas.storage.env import Env
from barnabas.storage.errors import InconsistentMetadataError
from barnabas.storage.log.checkpoints import (
    CLEAN_SHUTDOWN,
    LOCK,
    META_PROPERTIES,
    PARTITION_METADATA,
    MetaProperties,
)
from barnabas.storage.log.disk_space import RESERVE_FILE
from barnabas.storage.offsets import TopicPartition
from barnabas.storage.segment.names import LOG_SUFFIX
from barnabas.storage.verify.batches import SNAPSHOT_FILE, verify_batches
from barnabas.storage.verify.checkpoints import CHECKPOINTS, Checkpoints
from barnabas.storage.verify.partition import LogRange, unreadable, verify_partition
from barnabas.storage.verify.verifier import LEFT_ALONE, REMOVED, Counts, Finding, Findings, Situation

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
    """A path is neither an entry of log.dirs nor a partition's directory; the message names it."""


class Progress(NamedTuple):
    """The progress of a verification: the bytes of .log files read and in total, and the current path."""

    done_bytes: int
    total_bytes: int
    path: str


class PartitionToVerify(NamedTuple):
    """A partition's directory, the log directory with its checkpoints, and their first content."""

    path: str
    log_dir: str
    key: TopicPartition
    situation: Situation

    def situation_now(self, env: Env) -> Situation:
        """Their current content, which a running broker writes."""
        return Checkpoints(env, self.log_dir, Findings(self.log_dir)).situation(self.key)


Verified = tuple[Findings, LogRange] | None
"""The findings in a partition, and the range of its log; None if it was deleted meanwhile."""

VerifyPartitions = Callable[[Sequence[PartitionToVerify]], Iterator[Verified]]
"""Verifies partitions, and returns the results in their order."""


class _LogDir:
    """A directory to verify: one of log.dirs, or a single partition."""

    def __init__(self, env: Env, path: str, names: list[str] | None) -> None:
        """`names` are those of its partitions, None for a single partition."""
        self.path = path
        self.is_partition = names is None
        parent, _, name = path.rstrip("/").rpartition("/")
        log_dir = (parent or ".") if names is None else path
        self.findings = Findings(log_dir)
        self.checkpoints = Checkpoints(env, log_dir, self.findings)
        inside = [(path, name)] if names is None else [(f"{path}/{each}", each) for each in names]
        keys = [(each, _key_of(name) or (name, -1)) for each, name in inside]
        self.partitions = [
            PartitionToVerify(each, log_dir, key, self.checkpoints.situation(key)) for each, key in keys
        ]


class Verification:
    """Verifies directories one after the other, and adds to `findings` and `counts`."""

    def __init__(
        self,
        env: Env,
        *,
        is_deep: bool = True,
        is_of_one_broker: bool = True,
        on_progress: Callable[[Progress], None] = lambda _: None,
        verify_partitions: VerifyPartitions | None = None,
    ) -> None:
        """`is_deep`: also decompresses batches and checks their records.

        `is_of_one_broker`: the directories are the log.dirs of one. Otherwise there may be replicas among them, and
        only those of the same node are held against each other.

        `verify_partitions`: who does the work, if it is not to be done here; `is_deep` and progress are his then.
        """
        self._env = env
        self._is_deep = is_deep
        self._is_of_one_broker = is_of_one_broker
        self._on_progress = on_progress
        self._verify_partitions = verify_partitions or self._one_after_the_other
        self._known_as: dict[tuple[str, TopicPartition], str] = {}
        self._done_bytes = self._total_bytes = 0
        self.findings: list[Finding] = []
        self.counts = Counts()

    def run(self, paths: Sequence[str]) -> Iterator[Finding]:
        """Yields the findings in the directories.

        Raises OSError, and NotALogDirectoryError before anything is read.
        """
        for path in paths:
            if not self._env.is_dir(path):
                raise NotALogDirectoryError(f"{path} is no directory")
            if not (self._is_partition(path) or self._is_log_dir(path)):
                raise NotALogDirectoryError(
                    f"{path} has no meta.properties, no partitions and no segments in it"
                )
        log_dirs = [
            _LogDir(self._env, path, None if self._is_partition(path) else self._partitions(path))
            for path in paths
        ]
        partitions = [partition for log_dir in log_dirs for partition in log_dir.partitions]
        self._total_bytes = sum(self._log_bytes(partition.path) for partition in partitions)
        verified = self._verify_partitions(partitions)
        for log_dir in log_dirs:
            yield from self._log_dir(log_dir, verified)
        yield from self._tell(self._check_identities([one.path for one in log_dirs if not one.is_partition]))

    # -- what is where --

    def _is_partition(self, path: str) -> bool:
        names = self._env.listdir(path)
        return PARTITION_METADATA in names or any(_SEGMENT.fullmatch(name) for name in names)

    def _is_log_dir(self, path: str) -> bool:
        names = self._env.listdir(path)
        return bool({META_PROPERTIES, *CHECKPOINTS}.intersection(names)) or bool(self._partitions(path))

    def _partitions(self, path: str) -> list[str]:
        """The partitions in a log directory, with future logs, since the checkpoints have both."""
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
        except OSError:
            pass  # deleted since, or reported later; only the progress bar is not exact
        return total

    # -- looking --

    def _tell(self, findings: Findings) -> Iterator[Finding]:
        self.findings += findings.all
        self.counts.add(findings.counts)
        yield from findings.all

    def _one_after_the_other(self, partitions: Sequence["PartitionToVerify"]) -> Iterator[Verified]:
        """Verifies in the calling process."""
        for partition in partitions:

            def on_progress(read: int, path: str = partition.path) -> None:
                self._done_bytes += read
                self._on_progress(Progress(self._done_bytes, self._total_bytes, path))

            try:
                looked: Verified = verify_partition(
                    self._env,
                    partition.path,
                    partition.situation,
                    partial(partition.situation_now, self._env),
                    is_deep=self._is_deep,
                    on_progress=on_progress,
                )
            except OSError as error:
                is_gone = isinstance(error, FileNotFoundError) and not self._env.exists(partition.path)
                looked = None if is_gone else unreadable(partition.path, error)
            yield looked

    def _log_dir(self, log_dir: "_LogDir", verified: Iterator[Verified]) -> Iterator[Finding]:
        path, findings = log_dir.path, log_dir.findings
        if not log_dir.is_partition:
            findings.counts.directories += 1
            self._check_names(path, findings)
            if self._env.exists(f"{path}/{BOOTSTRAP_FILE}"):
                findings.all += verify_batches(self._env, f"{path}/{BOOTSTRAP_FILE}", findings.counts)
            yield from self._tell(findings)
        ranges: dict[TopicPartition, LogRange] = {}
        owner = self._owner(path)
        for partition in log_dir.partitions:
            looked = next(verified)
            if looked is None:
                continue  # its topic was deleted meanwhile
            found, ranges[partition.key] = looked
            if not log_dir.is_partition:
                found.all += self._kraft_snapshots(partition.path, found.counts)
                if not _ODD.fullmatch(partition.path.rpartition("/")[2]):
                    self._check_twice(owner, partition.key, partition.path, found)
            yield from self._tell(found)
        if not log_dir.is_partition:
            yield from self._tell(log_dir.checkpoints.check(ranges))

    def _kraft_snapshots(self, path: str, counts: Counts) -> Iterator[Finding]:
        try:
            names = sorted(self._env.listdir(path))
        except OSError:
            return  # deleted meanwhile, or reported already
        for name in names:
            if SNAPSHOT_FILE.fullmatch(name):
                yield from verify_batches(self._env, f"{path}/{name}", counts)

    def _owner(self, path: str) -> str:
        """The broker of a log directory that may be one of several; the directory itself if unknown."""
        if self._is_of_one_broker:
            return ""
        try:
            properties = MetaProperties.read(self._env, path)
        except (InconsistentMetadataError, OSError):
            properties = None  # which is reported with the identities
        return path if properties is None else f"{properties.cluster_id} {properties.node_id}"

    def _check_twice(self, owner: str, key: TopicPartition, path: str, findings: Findings) -> None:
        other = self._known_as.setdefault((owner, key), path)
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
        """Checks meta.properties of each directory, and their agreement."""
        findings = Findings("")
        known: list[tuple[str, MetaProperties]] = []
        for path in paths:
            file = f"{path}/{META_PROPERTIES}"
            properties = self._read_identity(path, file, findings)
            if properties is None:
                continue
            for other, others in known:
                is_same = (properties.cluster_id, properties.node_id) == (others.cluster_id, others.node_id)
                if self._is_of_one_broker and not is_same:
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
        except OSError as error:
            findings.unreadable(error, file)
            return None
        if properties is None:
            findings.warning(file, "there is no such file", "", "a start takes the directory for a new one")
            return None
        findings.counts.files += 1
        for problem, expected in _identity_problems(properties):
            findings.error(file, problem, expected, "the broker does not start, or takes it for another's")
        return properties


def _key_of(name: str) -> TopicPartition | None:
    """The partition of a directory name; None for a stray or deleted log, and for other names."""
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
