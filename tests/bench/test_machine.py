"""Tests what the benchmark does to the machine."""

from __future__ import annotations

import mmap
import os
import sys
from pathlib import Path

import pytest

from bench import machine


@pytest.mark.skipif(sys.platform != "linux", reason="touches memory on Linux only")
@pytest.mark.parametrize(("free_bytes", "touched_bytes"), [(1 << 22, 1 << 20), (1 << 20, 1 << 19)])
def test_half_of_the_free_memory_is_touched_at_most(
    free_bytes: int, touched_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    touched: list[int] = []

    class Map:
        def __init__(self, file: int, length: int, *, flags: int) -> None:
            assert file == -1
            assert flags & mmap.MAP_POPULATE
            touched.append(length)

        def close(self) -> None:
            touched.append(0)

    page = os.sysconf("SC_PAGE_SIZE")
    answers = {"SC_PAGE_SIZE": page, "SC_AVPHYS_PAGES": free_bytes // page}
    monkeypatch.setattr(os, "sysconf", answers.__getitem__)
    monkeypatch.setattr(mmap, "mmap", Map)
    machine.touch_free_memory(1 << 20)
    assert touched == [touched_bytes, 0]


def test_the_congestion_control_of_tcp_is_a_fact_where_it_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "tcp_congestion_control"
    monkeypatch.setattr(machine, "_TCP_CONGESTION_CONTROL", path)
    assert machine.tcp_congestion_control() == ""
    path.write_text("cubic\n")
    assert machine.tcp_congestion_control() == ", TCP cubic"
