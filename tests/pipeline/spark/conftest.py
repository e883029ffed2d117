"""A Spark session for all tests of this run, where there can be one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

from pipeline.session import SparkMissingError, session


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """Skips with the one sentence where PySpark or Java are missing; with BARNABAS_REQUIRE_CONFORMANCE=1 it fails."""
    try:
        made = session(
            "tests", master="local[2]", conf={"spark.driver.memory": "1g", "spark.log.level": "ERROR"}
        )
    except SparkMissingError as error:
        if os.environ.get("BARNABAS_REQUIRE_CONFORMANCE") == "1":
            pytest.fail(str(error))
        pytest.skip(str(error))
    yield made
    made.stop()
