"""What holds for all tests: what they run on, the order of the long ones, and that Apache Kafka starts quickly.

They run on what is compiled, where it is; with BARNABAS_INTERPRETED=1 on the same source as plain Python, in the
process of the tests only: a broker that they start is compiled if anything is. None runs where something compiled is
older than its source, which it hides: that would prove nothing.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bench.interpreted import hide_compiled

if os.environ.get("BARNABAS_INTERPRETED"):
    hide_compiled()  # before any of our modules is imported

from broker import compiled  # after what hides others
from tests.conformance.kafka_jars import WORKER
from tests.support.apache_kafka import QUICK_JVM, ApacheKafka

LONG = (
    "conformance/test_storage_handover.py",
    "conformance/test_metadata_handover.py",
    "faults/test_kill.py",
    "conformance/test_storage_legacy.py",
    "faults/test_kill_compaction.py",
    "conformance/test_storage_kills.py",
    "simulation/test_simulation.py",
    "conformance/test_compaction.py",
    "interop/test_connect.py",
)
"""Modules that take minutes, the longest first: side by side, none of them is to be what the others wait for."""


def pytest_configure() -> None:
    ApacheKafka.usual_jvm = QUICK_JVM


def pytest_sessionstart() -> None:
    """Refuses a stale build."""
    sources = [] if os.environ.get("BARNABAS_INTERPRETED") else compiled.stale()
    if sources:
        pytest.exit(
            f"changed since they were compiled: {', '.join(sources)}. `make test` compiles them.",
            returncode=2,
        )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if WORKER == "alone":
        return
    ranks = {Path(__file__).parent / name: rank for rank, name in enumerate(LONG)}
    items.sort(key=lambda item: ranks.get(item.path, len(LONG)))
