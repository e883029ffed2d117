"""Creates log directories for benchmarks, and reads from both brokers' output how long they took to load them.

A directory is first made by the broker itself (so that it knows the topic), then its partitions are filled from here,
as fast as the disk takes it, and the traces of a clean stop are removed where a crash is wanted.
"""

from __future__ import annotations

import os
import re
import struct
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from barnabas.protocol.records.batch import build_batch
from barnabas.protocol.records.checksum import crc32c
from bench.brokers import Broker
from tests.support.apache_kafka import ApacheKafka
from tests.support.broker_process import BrokerProcess

MIB = 1 << 20
GIB = 1 << 30
START_MS = int(time.time()) * 1000 - 86_400_000  # yesterday: retention must not take it
_CHUNK_BYTES = 4 * MIB
_WORDS_LIMIT_S = 5.0
_HEADER = struct.Struct(">qiiB")
_BODY = struct.Struct(">hiqqqhii")
_LOADED_BY_KAFKA = re.compile(r"Loaded (\d+) logs in (\d+)ms")
_LOADED_BY_US = re.compile(r"(?:recovered|opened) (\d+) logs.* in ([0-9.]+) s")


class LogShape(NamedTuple):
    """The contents of a log. `producers` is how many idempotent producers take turns; 0 for none."""

    size: int
    batch_bytes: int
    producers: int = 0
    segment_bytes: int = GIB
    step_ms: int = 1
    """How much younger each batch is than the one before."""


def write_log(directory: Path, shape: LogShape) -> int:
    """Replaces the contents of a partition's directory by segments; returns the log end offset."""
    for old in directory.iterdir():
        if old.suffix in {".log", ".index", ".timeindex", ".snapshot", ".txnindex"}:
            old.unlink()
    offset = written = 0
    file = None
    for chunk, batches in _chunks(shape):
        if file is None or file.tell() + len(chunk) > shape.segment_bytes:
            if file is not None:
                file.close()
            file = (directory / f"{offset:020d}.log").open("wb")
        file.write(chunk)
        offset += batches
        written += len(chunk)
    assert file is not None
    file.close()
    return offset


def _chunks(shape: LogShape) -> Iterator[tuple[bytes, int]]:
    """Whole batches of one record each, some MiB at a time, and their number."""
    value = os.urandom(shape.batch_bytes - 72)
    batch = build_batch(
        [(None, value, START_MS, [])], partition_leader_epoch=0, producer_id=0, producer_epoch=0
    )
    chunk_bytes = min(_CHUNK_BYTES, shape.segment_bytes, shape.size)
    count = max(chunk_bytes // len(batch), 1)
    buffer = bytearray(batch * count)
    view = memoryview(buffer)
    offset = 0
    sequences = [0] * max(shape.producers, 1)
    while offset * len(batch) < shape.size:
        for number in range(count):
            at = number * len(batch)
            timestamp = START_MS + offset * shape.step_ms
            producer = offset % shape.producers if shape.producers else -1
            sequence = sequences[producer] if shape.producers else -1
            _HEADER.pack_into(buffer, at, offset, len(batch) - 12, 0, 2)
            epoch = 0 if shape.producers else -1
            _BODY.pack_into(buffer, at + 21, 0, 0, timestamp, timestamp, producer, epoch, sequence, 1)
            struct.pack_into(">I", buffer, at + 17, crc32c(view[at + 21 : at + len(batch)]))
            if shape.producers:
                sequences[producer] += 1
            offset += 1
        yield bytes(buffer), count


def make_unclean(data: Path) -> None:
    """Makes a directory look as after a crash before any flush: no marker, no recovery points."""
    (data / ".kafka_cleanshutdown").unlink(missing_ok=True)
    (data / "recovery-point-offset-checkpoint").write_text("0\n0\n")


def spoil_indexes(data: Path, topic: str) -> None:
    """Removes the indexes and snapshots that an earlier recovery left, so that the next one has the same to do."""
    for partition in data.glob(f"{topic}-*"):
        for suffix in ("index", "timeindex", "snapshot", "txnindex"):
            for path in partition.glob(f"*.{suffix}"):
                path.unlink()


def loading_seconds(broker: Broker) -> float:
    """The seconds that the broker reports for loading its logs at its last start."""
    if isinstance(broker, ApacheKafka):
        found = _LOADED_BY_KAFKA.findall((broker.directory / "server.log").read_text())
        return int(found[-1][1]) / 1000
    assert isinstance(broker, BrokerProcess)
    deadline = time.monotonic() + _WORDS_LIMIT_S
    while not (found := _LOADED_BY_US.findall(broker.output)):  # it may answer before its output is read
        assert time.monotonic() < deadline, broker.output
        time.sleep(0.02)
    return float(found[-1][1])
