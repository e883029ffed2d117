"""Fixtures: brokers under fault and abuse tests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.conformance.kafka_jars import require_classpath
from tests.support.apache_kafka import ApacheKafka
from tests.support.broker_process import BrokerProcess

BROKERS = ("barnabas", pytest.param("apache-kafka", marks=pytest.mark.conformance))


def make(kind: str, directory: Path, overrides: Mapping[str, str]) -> BrokerProcess | ApacheKafka:
    """A broker of either kind, not started yet."""
    if kind == "barnabas":
        return BrokerProcess(directory / "data", overrides)
    return ApacheKafka(directory, require_classpath(), overrides)


def assert_no_traceback(broker: BrokerProcess) -> None:
    """Fails with the first exception in the broker's output."""
    _, found, rest = broker.output.partition("Traceback")
    if found:
        pytest.fail((found + rest[:4000]).replace("\\n", "\n"))


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """One Barnabas for all tests of a module; at the end it still runs, has logged no exception, and stops cleanly."""
    with BrokerProcess(tmp_path_factory.mktemp("faults") / "data") as process:
        yield process
        assert process.stop() == 0, process.output[-4000:]
        assert_no_traceback(process)


@pytest.fixture(scope="module", params=BROKERS)
def either(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[BrokerProcess | ApacheKafka]:
    """Barnabas, then Apache Kafka, for the same tests; the module's OVERRIDES configure both."""
    overrides = getattr(request.module, "OVERRIDES", {})
    with make(request.param, tmp_path_factory.mktemp("either"), overrides) as process:
        yield process
        assert process.stop() == process.clean_status
        if isinstance(process, BrokerProcess):
            assert_no_traceback(process)
