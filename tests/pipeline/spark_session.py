"""One Spark session for all tests of a process that need one: it takes longer to start than most of them to run."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NoReturn

import pytest

from pipeline.session import SparkMissingError, session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CORES = 2


def shared_session() -> SparkSession:
    """With the connector and with Delta tables. Skips where there is no Spark; fails where it is required."""
    try:
        return session(
            "tests",
            master=f"local[{CORES}]",
            conf={"spark.log.level": "ERROR"},
            connector=True,
            table=True,
        )
    except SparkMissingError as error:
        _give_up(str(error))


def _give_up(reason: str) -> NoReturn:
    if os.environ.get("BARNABAS_REQUIRE_CONFORMANCE") == "1":
        pytest.fail(reason)
    pytest.skip(reason)
