"""What several modules hold against Apache Kafka: one directory that each of its versions has written."""

from __future__ import annotations

import pytest

from tests.conformance.handover import kafka_side
from tests.conformance.kafka_jars import KAFKA_39, KAFKA_VERSION


@pytest.fixture(scope="session", params=[KAFKA_VERSION, KAFKA_39])
def written(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> kafka_side.Written:
    """Written by Apache Kafka, once for each version; copy a directory before you change it."""
    return kafka_side.write(tmp_path_factory.mktemp(f"kafka-{request.param}"), request.param)
