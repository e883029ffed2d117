"""One Spark session for all tests of a process that need one: it takes longer to start than most of them to run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CORES = 2


def shared_session() -> SparkSession:
    """With the connector and with Delta tables; skips where there is no Spark."""
    pytest.importorskip("pyspark")
    from pipeline.session import SparkMissingError, session

    try:
        return session("tests", master=f"local[{CORES}]", connector=True, table=True)
    except SparkMissingError as error:
        pytest.skip(str(error))
