"""The machine and versions of a benchmark: the facts beside its figures."""

from __future__ import annotations

import datetime
import mmap
import os
import platform
import re
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import confluent_kafka

from barnabas.broker import compiled
from barnabas.broker.version import VERSION
from tests.conformance.kafka_jars import BUILD, KAFKA_VERSION

_ROOT = Path(__file__).parents[1]
_TCP_CONGESTION_CONTROL = Path("/proc/sys/net/ipv4/tcp_congestion_control")


@cache
def facts() -> dict[str, str]:
    """Date, machine and versions, in the order in which they are shown."""
    found = {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "machine": f"{processor()}, {cores()} cores, {memory_gib()} GiB",
        "kernel": f"{platform.system()} {platform.release()}{tcp_congestion_control()}",
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "barnabas": f"{VERSION}{commit()}, {compiled.form()}",
        "clients": f"librdkafka {confluent_kafka.libversion()[0]}",
    }
    if (BUILD / f"apache-kafka-{KAFKA_VERSION}").is_dir() and (java := java_version()):
        found["kafka"] = f"Apache Kafka {KAFKA_VERSION} on Java {java}"
    return found


def processor() -> str:
    """The processor's name."""
    try:
        names = re.findall(r"^model name\s*: (.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    except OSError:
        names = []
    return names[0] if names else platform.machine()


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def memory_gib() -> int:
    """Memory of the machine, rounded."""
    return round(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / (1 << 30))


def tcp_congestion_control() -> str:
    """`, TCP cubic` on Linux, or nothing: it rules the connections of a benchmark, which go over loopback, too."""
    try:
        return f", TCP {_TCP_CONGESTION_CONTROL.read_text().strip()}"
    except OSError:
        return ""


def touch_free_memory(size_bytes: int) -> None:
    """Has the machine use so much of its free memory for a moment, half of it at most; does nothing but on Linux.

    The host of a virtual machine takes back what is free, and the first touch of such a page costs more than all that
    a broker does with it: a copy into a new page of the page cache has taken three times as long.
    """
    if sys.platform == "linux":
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | mmap.MAP_POPULATE
        free_bytes = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        mmap.mmap(-1, min(size_bytes, free_bytes // 2), flags=flags).close()


def file_system(path: Path) -> str:
    """The type of the file system of a path: ext4, tmpfs. Empty if unknown."""
    try:
        mounts = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
    except OSError:
        return ""
    around = {Path(mount[1]): mount[2] for mount in mounts}
    path = path.resolve()
    return next((around[place] for place in (path, *path.parents) if place in around), "")


def commit() -> str:
    """` at abc1234` where this is a checkout."""
    command = ["git", "-C", str(_ROOT), "rev-parse", "--short=7", "HEAD"]
    try:
        ran = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return f" at {ran.stdout.strip()}" if ran.returncode == 0 else ""


def java_version() -> str | None:
    """The output of `java -version`; None without Java."""
    if shutil.which("java") is None:
        return None
    ran = subprocess.run(["java", "-version"], capture_output=True, text=True, check=False)
    found = re.search(r'version "([^"]+)"', ran.stderr)
    return found[1] if found else None
