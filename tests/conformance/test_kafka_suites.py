"""Kafka's own tests against Barnabas: one test for each class that kafka_suites/suites.toml lists as running."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.conformance.kafka_jars import require_all_compiled, require_suites
from tests.conformance.kafka_suites.suites import LIMIT_S, MAIN, SEAMS, Run, Suite, failures, running, suites

pytestmark = [pytest.mark.conformance, pytest.mark.timeout(LIMIT_S)]

TABLE = running(suites())


@pytest.fixture(scope="module")
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """The JVM, which runs what is selected (-k) while its results are awaited."""
    selected = {item.name for item in request.session.items if item.path == request.path}
    table = [suite for suite in TABLE if any(f"[{suite.name}]" in name for name in selected)]
    classpath = require_all_compiled((MAIN, *SEAMS), MAIN.parents[2], jars=require_suites())
    going = Run(tmp_path_factory.mktemp("suites"), classpath, table)
    yield going
    going.close()


@pytest.mark.parametrize("suite", TABLE, ids=lambda suite: suite.name)
def test_kafkas_test_class_passes(run: Run, suite: Suite) -> None:
    found = failures(suite, run.cases(suite))
    assert not found, found
