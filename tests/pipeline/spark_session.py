"""One Spark session for all tests of a process: starting one takes longer than most tests."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NoReturn

import pytest

from barnabas.pipeline.jars import JarsMissingError, bring
from barnabas.pipeline.session import SparkMissingError, check, session
from barnabas.pipeline.versions import DELTA_TABLES, KAFKA_CONNECTOR

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CORES = 2


def shared_session() -> SparkSession:
    """The session, with the connector and Delta tables. Skips without Spark; fails where it is required."""
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


def require_spark() -> None:
    """Skips or fails where Spark or a jar is missing, without a session in this process."""
    try:
        check()
        bring((*KAFKA_CONNECTOR, *DELTA_TABLES))
    except (SparkMissingError, JarsMissingError) as error:
        _give_up(str(error))


def _give_up(reason: str) -> NoReturn:
    if os.environ.get("BARNABAS_REQUIRE_CONFORMANCE") == "1":
        pytest.fail(reason)
    pytest.skip(reason)
