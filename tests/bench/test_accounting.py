"""Tests processor time and memory of known processes."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from bench import accounting

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

_BURN = "import time\nwhile time.process_time() < 0.3: pass\nprint('done', flush=True)\ninput()"


def burning(code: str) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "done\n"
    return process


def end(process: subprocess.Popen[str]) -> None:
    process.communicate("\n", timeout=60)


def test_the_clock_of_this_process_agrees_with_process_time() -> None:
    before = time.process_time()
    measured = accounting.clock_s(os.getpid())
    assert before <= measured <= time.process_time()


def test_a_process_that_burned_three_tenths_of_a_second_is_charged_them() -> None:
    process = burning(_BURN)
    try:
        used = accounting.cpu_s(process.pid)
        assert 0.3 <= used < 0.6
        assert accounting.cpu_s(process.pid) - used < 0.05, "it waits"
    finally:
        end(process)


def test_children_are_charged_while_they_run_and_when_they_have_ended() -> None:
    child = "import time\nwhile time.process_time() < 0.3: pass"
    process = burning(
        f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {child!r}])\nprint('done', flush=True)\ninput()"
    )
    try:
        assert accounting.cpu_s(process.pid) >= 0.29  # what has ended is known in ticks of 10 ms
    finally:
        end(process)


def test_the_tree_has_children_of_children() -> None:
    inner = "print('done', flush=True); input()"
    process = burning(f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {inner!r}])")
    try:
        assert len(accounting.tree(process.pid)) == 2
        assert accounting.rss_mib(process.pid) > 5
    finally:
        end(process)


def test_shared_memory_is_divided_among_the_processes_that_share_it() -> None:
    """A forked child shares what its parent holds: the two together have it once."""
    code = (
        "import os\nheld = bytearray(bytes(range(256)) * (1 << 18))\nends, kept = os.pipe()\n"
        "if os.fork():\n print('done', flush=True)\n input()\nelse:\n os.close(kept)\n os.read(ends, 1)"
    )
    process = burning(code)
    try:
        assert 64 < accounting.pss_mib(process.pid) < 128
        assert accounting.rss_mib(process.pid) > 128
    finally:
        end(process)


def test_the_peak_is_that_since_the_last_reset() -> None:
    code = "held = bytearray(64 << 20)\nheld = None\nprint('done', flush=True)\ninput()"
    process = burning(code)
    try:
        assert accounting.peak_mib(process.pid) > 64
        accounting.reset_peaks(process.pid)
        assert accounting.peak_mib(process.pid) < 64
    finally:
        end(process)


def test_the_machine_is_busy() -> None:
    before = accounting.machine_busy_s()
    assert before > 0
    assert accounting.machine_busy_s() >= before
