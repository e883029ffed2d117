"""Compares the replicas of partitions where they lie: in the log directories of their brokers.

What clients see is one replica's view, and a record that only the others lack shows after the next election only. So
the batches of all replicas are compared byte by byte, CRC, epochs and all, up to the high watermark, and the files of
leader epochs with the batches.
"""

from __future__ import annotations

import struct
from collections.abc import Container, Iterable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple

from barnabas.storage.env import RealEnv
from barnabas.storage.log.checkpoints import LEADER_EPOCH_CHECKPOINT, LeaderEpochCheckpointFile
from barnabas.storage.verify.directory import Verification
from barnabas.storage.verify.verifier import Severity

_HEAD: Final = struct.Struct(">qiib")
"""Base offset, length, partition leader epoch, magic."""
_LENGTH_END: Final = 12
_LAST_OFFSET_DELTA: Final = struct.Struct(">i")
_DELTA_AT: Final = 23


class Batch(NamedTuple):
    """One batch as it lies in a segment."""

    base_offset: int
    last_offset: int
    epoch: int
    data: bytes


def batches_in(directory: Path) -> list[Batch]:
    """The batches of a partition's directory, in order; what a broker is just writing at the end is left out."""
    return [batch for path in sorted(directory.glob("*.log")) for batch in _batches_of(path.read_bytes())]


def _batches_of(data: bytes) -> Iterable[Batch]:
    at = 0
    while at + _DELTA_AT + 4 <= len(data):
        base, length, epoch, magic = _HEAD.unpack_from(data, at)
        assert magic == 2, f"magic {magic} at {at}"
        end = at + _LENGTH_END + length
        if end > len(data):
            return
        (delta,) = _LAST_OFFSET_DELTA.unpack_from(data, at + _DELTA_AT)
        yield Batch(base, base + delta, epoch, data[at:end])
        at = end


def differences(
    directories: Mapping[int, Path], high_watermark: int, log_start: int = 0, lagging: Container[int] = ()
) -> list[str]:
    """What the replicas of one partition do not have in common below the high watermark; the keys are the brokers.

    `log_start` is that of the leader: batches below it may still be there, epochs not. `lagging` are running brokers
    whose file of epochs may lack the newest ones: Barnabas writes it with the next flush.

    Retention works on each by itself: they are compared from the highest of their starts on. Each replica must
    reach the high watermark, and one batch must follow the other.
    """
    replicas = {node: batches_in(directory) for node, directory in directories.items()}
    found = [text for node, batches in replicas.items() for text in _disorder(node, batches, high_watermark)]
    starts = [batches[0].base_offset for batches in replicas.values() if batches]
    start = max(starts, default=0)
    below = {
        node: {each.base_offset: each for each in batches if start <= each.base_offset < high_watermark}
        for node, batches in replicas.items()
    }
    first, *others = below
    for node in others:
        for offset in sorted(below[first].keys() | below[node].keys()):
            one, other = below[first].get(offset), below[node].get(offset)
            if one != other:
                found.append(f"at {offset}: broker {first} has {_shown(one)}, broker {node} {_shown(other)}")
    for node, directory in directories.items():
        found += _epoch_differences(
            node, epochs_in(directory), replicas[node], high_watermark, log_start, may_lag=node in lagging
        )
    return found


def _disorder(node: int, batches: list[Batch], high_watermark: int) -> Iterable[str]:
    for one, following in pairwise(batches):
        if following.base_offset <= one.last_offset:
            yield f"broker {node}: a batch at {following.base_offset} follows one that ends at {one.last_offset}"
        if following.epoch < one.epoch:
            yield f"broker {node}: epoch {following.epoch} at {following.base_offset} follows epoch {one.epoch}"
    end = batches[-1].last_offset + 1 if batches else 0
    if end < high_watermark:
        yield f"broker {node} ends at {end}, below the high watermark {high_watermark}"


def _shown(batch: Batch | None) -> str:
    if batch is None:
        return "no batch"
    return f"{batch.base_offset}-{batch.last_offset} of epoch {batch.epoch}, {len(batch.data)} bytes"


def _epoch_differences(
    node: int,
    entries: list[tuple[int, int]],
    batches: list[Batch],
    high_watermark: int,
    log_start: int,
    *,
    may_lag: bool,
) -> Iterable[str]:
    if not batches:
        return
    start = max(log_start, batches[0].base_offset)
    if entries and entries[0][1] > start:
        yield f"broker {node}: the first epoch in the file begins at {entries[0][1]}, the log at {start}"
    start = entries[0][1] if entries else start
    live = [batch for batch in batches if start <= batch.last_offset and batch.base_offset < high_watermark]
    from_batches, in_file = epochs_of(live), _written(entries, live)
    if may_lag and live:  # retention moves the start of the first one with the next write, too
        in_file = [(epoch, max(offset, live[0].base_offset)) for epoch, offset in in_file]
        from_batches = from_batches[: len(in_file)]
    if in_file != from_batches:
        yield f"broker {node}: the epochs in the file are {in_file}, those of the batches {from_batches}"


def epochs_of(batches: Iterable[Batch]) -> list[tuple[int, int]]:
    """(epoch, first offset) by the batches."""
    found: dict[int, int] = {}
    for batch in batches:
        found.setdefault(batch.epoch, batch.base_offset)
    return sorted(found.items())


def epochs_in(directory: Path) -> list[tuple[int, int]]:
    """(epoch, start offset) by the file."""
    return LeaderEpochCheckpointFile(RealEnv(), str(directory / LEADER_EPOCH_CHECKPOINT)).read()


def _written(entries: list[tuple[int, int]], batches: list[Batch]) -> list[tuple[int, int]]:
    """The entries of epochs that have batches: others may differ between replicas.

    The first one may begin inside the first batch, after a deletion of records.
    """
    written = {batch.epoch for batch in batches}
    kept = [(epoch, offset) for epoch, offset in entries if epoch in written]
    if kept and batches[0].base_offset <= kept[0][1] <= batches[0].last_offset:
        kept[0] = (kept[0][0], batches[0].base_offset)
    return kept


def findings(directory: Path, *, is_live: bool) -> list[str]:
    """What `barnabas log verify` finds: in a directory at which a broker is at work only errors count."""
    least = {Severity.ERROR} if is_live else {Severity.ERROR, Severity.WARNING}
    return [
        f"{finding.path}: {finding.problem} (expected {finding.expected})"
        for finding in Verification(RealEnv()).run([str(directory)])
        if finding.severity in least
    ]
