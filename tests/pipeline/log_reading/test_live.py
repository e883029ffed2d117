"""Reads beside a process that appends, rolls, retains and compacts: no record is missing, doubled or torn.

BARNABAS_LIVE_READS: how often each log is read (60 by default).
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from barnabas.pipeline.log_reading.directories import PartitionDirectory
from barnabas.pipeline.log_reading.errors import DataLossError
from barnabas.pipeline.log_reading.log_view import Isolation, LogView, look_at
from barnabas.pipeline.log_reading.planning import plan_ranges
from barnabas.storage.env import RealEnv
from tests.pipeline.log_reading.busy_log import KEYS, aborts, value
from tests.pipeline.log_reading.reading import COMMITTED, UNCOMMITTED, rows_in

READS = int(os.environ.get("BARNABAS_LIVE_READS", "60"))
ENV = RealEnv()

pytestmark = pytest.mark.timeout(300 + READS)


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Path]:
    command = [sys.executable, "-m", "tests.pipeline.log_reading.busy_log", str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        assert process.stdout.readline() == "ready\n"
        yield tmp_path
        process.stdin.close()
        assert process.wait(60) == 0


Check = Callable[[LogView, int, list[dict[str, Any]]], None]


def read_again_and_again(
    path: Path,
    topic: str,
    isolation: Isolation,
    check: Check,
) -> None:
    """Reads the log repeatedly from its start, or from an offset; a reading that loses offsets to retention is not
    counted."""
    rng, seen = Random(3), Counter[str]()
    partition = PartitionDirectory(topic, 0, f"{path}/{topic}-0")
    while seen["read"] < READS:
        try:
            view = look_at(ENV, partition, isolation)
            first = rng.choice((view.log_start_offset, rng.randint(view.log_start_offset, view.end_offset)))
            ranges = plan_ranges(
                ENV, view, first, view.end_offset, range_bytes=rng.choice((1000, 20_000, 1 << 30))
            )
            rows = rows_in(ENV, ranges)
        except FileNotFoundError:
            seen["planned again"] += 1
            continue
        except DataLossError:
            seen["lost"] += 1
            assert look_at(ENV, partition, isolation).log_start_offset > first
            continue
        offsets = [row["offset"] for row in rows]
        assert offsets == sorted(set(offsets))
        assert all(row["value"] == value(row["offset"]) for row in rows)
        check(view, first, rows)
        seen["read"] += 1
        seen["rows"] += len(rows)
    print(topic, dict(seen))
    assert seen["rows"] > 10 * READS


def test_under_retention(directory: Path) -> None:
    def check(view: LogView, first: int, rows: list[dict[str, Any]]) -> None:
        assert [row["offset"] for row in rows] == list(range(first, view.end_offset))

    read_again_and_again(directory / "logs", "plain", UNCOMMITTED, check)


def test_only_what_is_committed(directory: Path) -> None:
    def check(view: LogView, first: int, rows: list[dict[str, Any]]) -> None:
        number, rest = divmod(view.end_offset, 6)
        assert rest in (0, 2), "transactions begin at these offsets of a round"
        expected = [
            offset
            for offset in range(first, view.end_offset)
            if offset % 6 < 4 and not aborts(offset % 6 // 2, offset // 6)
        ]
        assert [row["offset"] for row in rows] == expected, (number, view)

    read_again_and_again(directory / "logs", "txn", COMMITTED, check)


def test_under_compaction(directory: Path) -> None:
    """The last record of each key is read, unless a later one was appended before its turn."""
    path = directory / "compacted"

    def check(view: LogView, first: int, rows: list[dict[str, Any]]) -> None:
        found = {row["offset"] for row in rows}
        now = look_at(ENV, view.partition, UNCOMMITTED).end_offset
        for offset in range(max(first, view.end_offset - KEYS), view.end_offset):
            assert offset in found or now > offset + KEYS, (offset, view, now)

    read_again_and_again(path, "t", UNCOMMITTED, check)
