"""What an ingest refuses before Spark starts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pipeline.ingest.options import DecodeOptions, IngestOptions, starting_offsets


def options(**changes: Any) -> IngestOptions:
    """Options that are fine, but for the changes."""
    usual: dict[str, Any] = {"bootstrap": "h:9092", "table": "/t/", "checkpoint": "/c", "topics": ("a",)}
    return IngestOptions(**{**usual, **changes})


def test_the_usual() -> None:
    assert options().quarantine_table == "/t-quarantine"
    assert options(quarantine="/q").quarantine_table == "/q"
    assert options().subject == "a-value"
    assert options(topics=("a", "b"), decode=DecodeOptions(registry="http://r", subject="s")).subject == "s"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"topics": ()}, "name one of the two"),
        ({"topic_pattern": "x.*"}, "name one of the two"),
        ({"bootstrap": ""}, "bootstrap is missing"),
        ({"table_format": "csv"}, "table_format is 'csv': parquet, delta are known"),
        ({"trigger": "never"}, "once, available-now, continuous are known"),
        ({"late_after_s": 0}, "late_after_s is 0"),
        ({"keep_value": False}, "lost"),
        ({"quarantine": "/t"}, "cannot be the table itself"),
        ({"starting": "yesterday"}, "starting is 'yesterday'"),
    ],
)
def test_what_does_not_go_together(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        options(**changes)


def test_decoding_needs_to_know_what_and_by_what() -> None:
    with pytest.raises(ValueError, match="a schema file or by a registry"):
        DecodeOptions("json")
    with pytest.raises(ValueError, match="say what the schema file is of"):
        DecodeOptions(schema_file=Path("x"))
    with pytest.raises(ValueError, match="'xml' is not known"):
        DecodeOptions("xml", Path("x"))  # type: ignore[arg-type]


def test_several_topics_leave_the_subject_open() -> None:
    with pytest.raises(ValueError, match="which subject"):
        _ = options(topics=("a", "b")).subject


def test_where_to_begin() -> None:
    assert starting_offsets("latest") == {"startingOffsets": "latest"}
    assert starting_offsets('{"a": {"0": 7}}') == {"startingOffsets": '{"a": {"0": 7}}'}
    by_time = {"startingTimestamp": "1769860800000", "startingOffsetsByTimestampStrategy": "latest"}
    assert starting_offsets("2026-01-31T12:00:00Z") == by_time
    assert starting_offsets("2026-01-31T12:00:00") == by_time
    assert starting_offsets("2026-01-31T13:00:00+01:00") == by_time
