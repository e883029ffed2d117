"""Shared fixtures: directories that Apache Kafka has written, its tools, both brokers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.conformance.admin_cli import Tools
from tests.conformance.handover import kafka_side
from tests.conformance.java_admin import JavaAdmin
from tests.conformance.kafka_jars import KAFKA_39, KAFKA_VERSION, WORKER, require_classpath
from tests.support.apache_kafka import ApacheKafka
from tests.support.broker_process import BrokerProcess


@pytest.fixture(scope="session", params=[KAFKA_VERSION, KAFKA_39])
def written(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> kafka_side.Written:
    """Directories of Apache Kafka, written once for each version and all workers; copy one before changing it."""
    base = tmp_path_factory.getbasetemp()
    place = (base if WORKER == "alone" else base.parent) / f"kafka-{request.param}"
    return kafka_side.write_once(place, request.param)


@pytest.fixture(scope="module")
def java() -> Iterator[JavaAdmin]:
    """One JVM with Kafka's clients and tools, for all brokers of a module."""
    running = JavaAdmin()
    yield running
    running.close()


@pytest.fixture(scope="module", params=["kafka", "barnabas"])
def tools(
    request: pytest.FixtureRequest, java: JavaAdmin, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Tools]:
    """Both sets of tools on each broker, which has the OVERRIDES of the requesting module."""
    directory, overrides = tmp_path_factory.mktemp(request.param), request.module.OVERRIDES
    if request.param == "kafka":
        with ApacheKafka(directory, require_classpath(), overrides) as broker:
            yield Tools(java, broker.bootstrap)
    else:
        with BrokerProcess(directory, overrides) as broker:
            yield Tools(java, broker.bootstrap)
