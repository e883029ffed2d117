"""What holds for all tests: what they run on, what is left to chance, their order, and that Kafka starts quickly.

They run on what is compiled, where it is; with BARNABAS_INTERPRETED=1 on the same source as plain Python, as do brokers
that they start. None runs where a source has changed since it was compiled: that would prove nothing.

They do the same each time: Hypothesis derives its examples from each test alone. With BARNABAS_SEED set it draws them
from there, as do the others that know chance (tests/support/chance.py); `-m explores` selects all of these.
"""

from __future__ import annotations

import os
import random
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import HealthCheck, is_hypothesis_test, settings

from barnabas.broker import compiled
from tests.conformance.kafka_jars import WORKER
from tests.support import chance, skips
from tests.support.apache_kafka import QUICK_JVM, ApacheKafka
from tests.support.selection import excluded, marks_of_all

# How long an example takes says how busy the machine is: nothing fails for that.
settings.register_profile(
    "explore", database=None, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("fixed", settings.get_profile("explore"), derandomize=True)
# Before any test is imported, which makes its own settings from these.
settings.load_profile("fixed" if chance.run_seed() is None else "explore")

LONGEST_FIRST = (
    "conformance/test_storage_handover.py",
    "conformance/test_metadata_handover.py",
    "faults/test_kill.py",
    "conformance/test_storage_legacy.py",
    "conformance/cluster/test_replication.py",
    "faults/test_kill_compaction.py",
    "conformance/test_differential.py",
    "conformance/test_storage_kills.py",
    "simulation/test_simulation.py",
    "conformance/test_compaction.py",
    "interop/test_connect.py",
    "interop/test_round_trip.py",
    "faults/test_disk_full.py",
    "interop/test_producing.py",
    "faults/test_hostile.py",
    "protocol/test_codec.py",
    "faults/test_log_dirs.py",
    "faults/test_stop.py",
    "interop/test_group_churn.py",
    "storage/test_log_model.py",
    "faults/test_kill_storage.py",
    "faults/test_kill_moves.py",
    "pipeline/export/test_transactions.py",
    "broker/kafka_apis/test_garbage.py",
    "faults/test_kill_transactions.py",
    "storage/log/test_segment_swap.py",
    "storage/test_faults.py",
    "interop/test_transactions.py",
    "broker/fetch/test_resting_partitions.py",
    "pipeline/report/test_audit_report.py",
    "conformance/differential/test_tester.py",
    "faults/test_kill_metadata.py",
    "faults/test_kill.py",
    "interop/test_registry.py",
    "faults/test_limits.py",
    "broker/coordinator/transaction/test_appends_properties.py",
    "interop/test_exactly_once.py",
)
"""Test files that take longer than five seconds, the longest first: pytest's workers take whole files, in this order.

The first ones take minutes and belong to `make conformance`; those from test_round_trip.py on to `make test`.
"""


@pytest.hookimpl(tryfirst=True)  # before the one of Hypothesis, which takes its seed from the option
def pytest_configure(config: pytest.Config) -> None:
    ApacheKafka.usual_jvm = QUICK_JVM
    skips.register(config)
    if chance.run_seed() is not None:
        config.option.hypothesis_seed = str(chance.run_seed())


def pytest_report_header() -> str:
    seed = chance.run_seed()
    return f"{chance.VARIABLE}: " + ("not set, nothing is left to chance" if seed is None else str(seed))


def pytest_sessionstart() -> None:
    """Refuses a stale build."""
    sources = [] if os.environ.get("BARNABAS_INTERPRETED") else compiled.stale()
    if sources:
        pytest.exit(
            f"{len(sources)} sources changed since they were compiled ({', '.join(sources[:5])}"
            f"{', ...' if len(sources) > 5 else ''}). `make test` compiles them,"
            " BARNABAS_INTERPRETED=1 runs the sources.",
            returncode=2,
        )


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Passes over a file whose tests `-m` excludes, all of them."""
    if collection_path.suffix != ".py":
        return None
    marks = excluded(config.option.markexpr)
    return bool(marks and marks & marks_of_all(collection_path.read_text(encoding="utf-8"))) or None


def pytest_itemcollected(item: pytest.Item) -> None:
    """Marks what follows from BARNABAS_SEED."""
    if isinstance(item, pytest.Function) and (is_hypothesis_test(item.obj) or "seed" in parameters_of(item)):
        item.add_marker("explores")


@pytest.hookimpl(tryfirst=True)  # before fixtures draw from it
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Seeds what the product draws itself (the jitter of a backoff), by the test's name."""
    random.seed(f"{chance.run_seed()} {item.nodeid}")


def parameters_of(item: pytest.Function) -> Mapping[str, object]:
    """The parameters of a test, by name."""
    return item.callspec.params if hasattr(item, "callspec") else {}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if WORKER == "alone":
        return
    ranks = {Path(__file__).parent / name: rank for rank, name in enumerate(LONGEST_FIRST)}
    items.sort(key=lambda item: ranks.get(item.path, len(ranks)))
