"""Tests which tables an export rejects; whole exports are in tests/pipeline/ingest/test_job.py."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("pyspark")

from barnabas.pipeline.export.job import source
from barnabas.pipeline.export.options import ExportOptions


class Reader:
    """A reader of a stream with these columns, whatever its options."""

    def __init__(self, *columns: str) -> None:
        self._columns = list(columns)

    def __getattr__(self, _: str) -> Any:
        return lambda *_: self

    def load(self, _: str) -> Any:
        return SimpleNamespace(columns=self._columns)


def spark(*columns: str) -> Any:
    """A session with that reader."""
    return SimpleNamespace(readStream=Reader(*columns))


OPTIONS: dict[str, Any] = {"bootstrap": "h:1", "table": "/t", "checkpoint": "/c", "table_format": "delta"}


@pytest.mark.parametrize(
    ("columns", "changes", "words"),
    [
        (("key",), {"topic": "a"}, "/t has no column value, and the columns key"),
        (("value",), {}, "/t has no column topic: say which"),
        (("value",), {"topic": "a", "keep_partitions": True}, "/t has no column partition"),
    ],
)
def test_a_table_without_what_the_options_need(
    columns: tuple[str, ...], changes: dict[str, Any], words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        source(spark(*columns), ExportOptions(**OPTIONS, **changes))


def test_a_table_with_all_of_it() -> None:
    options = ExportOptions(**OPTIONS, keep_partitions=True)
    assert source(spark("value", "topic", "partition"), options).columns == ["value", "topic", "partition"]
