"""Finds the partitions under the given paths, and the segments that each of them has at one moment.

A partition's directory changes while it is listed: segments are rolled, renamed to .deleted and removed, and those
of a compaction come in through .cleaned and .swap. `list_segments` answers with a set of segments that was there
together at some instant; where one is gone when it is opened, the caller lists again.
"""

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from barnabas.pipeline.log_reading.errors import BusyDirectoryError, LogReadingError, NoSuchLogError
from barnabas.pipeline.log_reading.segments import ListedSegment, open_segment
from barnabas.storage.env import Env
from barnabas.storage.errors import CorruptCheckpointError
from barnabas.storage.log.checkpoints import (
    LOG_START_OFFSET_CHECKPOINT,
    PARTITION_METADATA,
    PartitionMetadataFile,
    parse_offset_checkpoint,
)
from barnabas.storage.log.segment_swap import CLEANED_SUFFIX, SWAP_SUFFIX
from barnabas.storage.manager.loading import parse_partition_dir
from barnabas.storage.offsets import TopicPartition

MAX_LISTINGS: Final = 1000
_SEGMENT: Final = re.compile(r"\d{20}\.log")
_RELEVANT: Final = re.compile(r"\d{20}\.log(\.swap|\.cleaned)?")


_URI: Final = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://(?P<host>[^/]*)(?P<path>.*)", re.DOTALL)
_FILE_URI: Final = re.compile(r"file:(?=/)", re.IGNORECASE)


def absolute_path(given: str) -> str:
    """The absolute path of a directory that a user names by a path or by a `file:` URI.

    The one place where paths of log directories are made absolute. It runs on the driver, whose working directory is
    the user's: the tasks of a cluster have others. As in Hadoop's paths, % in a URI stands for itself. Raises
    ValueError for a URI with another scheme or a host, because tasks open files by the operating system alone.
    """
    uri = _URI.fullmatch(given)
    if uri is None:
        return os.path.abspath(_FILE_URI.sub("", given))
    if uri["scheme"].lower() != "file" or uri["host"] not in ("", "localhost") or not uri["path"]:
        raise ValueError(
            f"{given} is not a path: log directories are read from file systems that are mounted"
        )
    return os.path.abspath(uri["path"])


class PartitionDirectory(NamedTuple):
    """The directory of one partition's log."""

    topic: str
    partition: int
    path: str

    @property
    def name(self) -> str:
        """topic-partition."""
        return f"{self.topic}-{self.partition}"


def find_partitions(
    env: Env, paths: Iterable[str], wants: Callable[[str, int], bool] | None = None
) -> list[PartitionDirectory]:
    """The partitions in log directories, or those that the paths are themselves; sorted by topic and number.

    With `wants` only those that it accepts. Partitions that are being deleted or moved here are left out. Raises
    NoSuchLogError where a path is neither, and LogReadingError where two paths hold the same partition: its records
    would come twice. A partition that is not wanted may occur twice, as __cluster_metadata-0 does in the directories of
    any two brokers.
    """
    found: dict[tuple[str, int], PartitionDirectory] = {}
    for path in paths:
        for partition in _partitions_at(env, path.rstrip("/") or "/"):
            if wants is not None and not wants(partition.topic, partition.partition):
                continue
            other = found.setdefault((partition.topic, partition.partition), partition)
            if other != partition:
                raise LogReadingError(
                    f"{partition.name} is in {other.path} and in {partition.path}: name the log directories of one "
                    "broker, or its records come twice"
                )
    return [found[key] for key in sorted(found)]


def _partitions_at(env: Env, path: str) -> list[PartitionDirectory]:
    if not env.is_dir(path):
        raise NoSuchLogError(f"{path} is not a directory")
    entries = env.scan_dir(path)
    if any(name == PARTITION_METADATA or _SEGMENT.fullmatch(name) for name, _ in entries):
        own = parse_partition_dir(path.rpartition("/")[2])
        if own is None or own.suffix:
            raise NoSuchLogError(
                f"{path} has segments, and its name is not that of a partition, such as orders-0"
            )
        return [PartitionDirectory(own.topic, own.partition, path)]
    named = [(parse_partition_dir(name), name) for name, is_dir in entries if is_dir]
    found = [
        PartitionDirectory(parsed.topic, parsed.partition, f"{path}/{name}")
        for parsed, name in named
        if parsed is not None and not parsed.suffix
    ]
    if not found and not any(name == LOG_START_OFFSET_CHECKPOINT for name, _ in entries):
        raise NoSuchLogError(f"{path} is not a log directory: it has no partitions")
    return found


def checkpointed_start(env: Env, partition: PartitionDirectory) -> int:
    """The log start offset in the checkpoint file, which brokers write once a minute; 0 without an entry."""
    parent = partition.path.rpartition("/")[0] or "."
    path = f"{parent}/{LOG_START_OFFSET_CHECKPOINT}"
    try:
        starts = _parsed_starts(path, env.read_file(path))
    except (FileNotFoundError, CorruptCheckpointError):
        return 0  # as a broker treats it at its start
    return starts.get((partition.topic, partition.partition), 0)


@lru_cache(maxsize=16)
def _parsed_starts(path: str, data: bytes) -> Mapping[TopicPartition, int]:
    """Caches the parsed file, which each partition of a log directory asks for."""
    return parse_offset_checkpoint(path, data)


def topic_id_of(env: Env, directory: str) -> bytes:
    """The topic id of the directory, which tells topics of one name apart; empty where it has none."""
    try:
        found = PartitionMetadataFile(env, f"{directory}/{PARTITION_METADATA}").read()
    except (CorruptCheckpointError, OSError):
        return b""
    return found or b""


def list_segments(env: Env, directory: str) -> list[ListedSegment]:
    """The segments of a partition, oldest first, as they were at one instant. Raises NoSuchLogError where it is gone.

    Two listings in a row with the same names are both correct for the time between: a name appears once and disappears
    once.
    """
    before: frozenset[str] | None = None
    for _ in range(MAX_LISTINGS):
        try:
            names = frozenset(name for name, _ in env.scan_dir(directory) if _RELEVANT.fullmatch(name))
            if names == before:
                return _resolved(env, directory, sorted(names))
        except FileNotFoundError:
            if not env.is_dir(directory):
                raise NoSuchLogError(f"{directory} is gone: the topic was deleted, or moved") from None
            names = frozenset()  # a .swap has got its own name meanwhile
        before = names
    raise BusyDirectoryError(f"{directory} changed during each of {MAX_LISTINGS} attempts to list it")


def _resolved(env: Env, directory: str, names: Sequence[str]) -> list[ListedSegment]:
    """The segments after a broker's recovery of these names (`segment_swap.complete_swaps`), which is not carried
    out."""
    segments = {int(name[:20]): ListedSegment(directory, int(name[:20])) for name in names if len(name) == 24}
    swaps = [int(name[:20]) for name in names if name.endswith(SWAP_SUFFIX)]
    if swaps:
        cleaned = [int(name[:20]) for name in names if name.endswith(CLEANED_SUFFIX)]
        limit = min(cleaned, default=1 << 63)
        for base_offset in swaps:
            if base_offset < limit:
                _take_place(env, segments, ListedSegment(directory, base_offset, SWAP_SUFFIX))
    return [segments[base_offset] for base_offset in sorted(segments)]


def _take_place(env: Env, segments: dict[int, ListedSegment], swap: ListedSegment) -> None:
    """Replaces the segments whose offsets lie within those of a segment that is being swapped in."""
    end = max(open_segment(env, swap).find_end(check_crc=False).offset, swap.base_offset + 1)
    for base_offset in [base for base in segments if swap.base_offset <= base < end]:
        del segments[base_offset]
    segments[swap.base_offset] = swap
