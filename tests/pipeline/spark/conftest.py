"""The Spark session that all tests of a run share."""

from __future__ import annotations

from typing import Any

import pytest

from tests.pipeline.spark_session import shared_session


@pytest.fixture(scope="session")
def spark() -> Any:
    """A session, with the Kafka connector, too. Skips where Spark cannot run; with BARNABAS_REQUIRE_CONFORMANCE=1 it
    fails."""
    return shared_session()
