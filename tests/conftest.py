"""What holds for all tests: the order of the long ones, and that Apache Kafka starts quickly."""

from __future__ import annotations

from pathlib import Path

import pytest

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


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if WORKER == "alone":
        return
    ranks = {Path(__file__).parent / name: rank for rank, name in enumerate(LONG)}
    items.sort(key=lambda item: ranks.get(item.path, len(LONG)))
