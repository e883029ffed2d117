"""Processor time and memory of processes with all their children, and the load of the whole machine.

The kernel's clock of a process is exact to the nanosecond; the figures in /proc/PID/stat are kept in ticks of ten
milliseconds. So the clock is read, and the ticks only for children that have ended, which no clock counts.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from pathlib import Path
from typing import Final

_TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")
_MIB: Final = 1 << 20
_CPUCLOCK_SCHED: Final = 2
_RESET_PEAK: Final = "5"


def tree(pid: int) -> list[int]:
    """A process and all its descendants."""
    pids = [pid]
    for one in pids:
        with contextlib.suppress(OSError):
            for task in Path(f"/proc/{one}/task").iterdir():
                pids += map(int, (task / "children").read_text().split())
    return pids


def cpu_s(pid: int) -> float:
    """Processor time that the tree has used so far, ended children included."""
    total = 0.0
    for one in tree(pid):
        with contextlib.suppress(OSError):  # the process has just ended
            total += clock_s(one) + _ended_children_s(one)
    return total


def clock_s(pid: int) -> float:
    """Processor time of one process, as the kernel keeps it."""
    # As clock_getcpuclockid(3) returns it: the complement of the process id, and three bits that select the clock.
    return time.clock_gettime(~pid << 3 | _CPUCLOCK_SCHED)


def _ended_children_s(pid: int) -> float:
    # The name in parentheses may hold blanks; cutime and cstime are the 14th and 15th word behind it.
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[13]) + int(words[14])) / _TICKS_PER_S


def own_rss_mib(pid: int) -> float:
    """Resident memory of one process now; 0 when it has just ended."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE / _MIB
    except OSError:
        return 0.0


def rss_mib(pid: int) -> float:
    """Resident memory of the tree now."""
    return sum(map(own_rss_mib, tree(pid)))


def pss_mib(pid: int) -> float:
    """Proportional set size of the tree now: memory that several processes share is divided among them."""
    return _sum_mib(pid, "smaps_rollup", "Pss")


def reset_peaks(pid: int) -> None:
    """Resets the peak to the memory that is resident now."""
    for one in tree(pid):
        with contextlib.suppress(OSError):
            Path(f"/proc/{one}/clear_refs").write_text(_RESET_PEAK)


def peak_mib(pid: int) -> float:
    """The peak of resident memory since the last reset, over all processes that exist now."""
    return _sum_mib(pid, "status", "VmHWM")


def _sum_mib(pid: int, name: str, field: str) -> float:
    """The sum over the tree of a field, in kB, of /proc/<pid>/<name>."""
    kib = 0
    for one in tree(pid):
        with contextlib.suppress(OSError):
            found = re.search(rf"^{field}:\s+(\d+)", Path(f"/proc/{one}/{name}").read_text(), re.MULTILINE)
            kib += int(found[1]) if found else 0
    return kib / 1024


def machine_busy_s() -> float:
    """Seconds that all processors were busy, with any process; time taken by a hypervisor included."""
    user, nice, system, _idle, _iowait, irq, softirq, steal = map(
        int, Path("/proc/stat").read_text().split(maxsplit=9)[1:9]
    )
    return (user + nice + system + irq + softirq + steal) / _TICKS_PER_S
