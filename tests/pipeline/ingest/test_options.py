"""Tests the options that an ingest rejects before Spark starts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from barnabas.pipeline.ingest.options import DecodeOptions, IngestOptions, starting_offsets


def options(**changes: Any) -> IngestOptions:
    """Valid options with these changes."""
    usual: dict[str, Any] = {"bootstrap": "h:9092", "table": "/t/", "checkpoint": "/c", "topics": ("a",)}
    return IngestOptions(**{**usual, **changes})


def test_default_options() -> None:
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
        ({"late_after_s": float("nan")}, "late_after_s is nan"),
        ({"every_s": float("inf")}, "every_s is inf"),
        ({"metrics_port": -1}, "metrics_port is -1, and ports are 0 to 65535"),
        ({"quarantine": "/t/bad"}, "the quarantine /t/bad lies in the table /t/"),
        ({"checkpoint": "/t/checkpoint"}, "the checkpoint /t/checkpoint lies in the table /t/"),
        ({"checkpoint": "/t"}, "the checkpoint /t lies in the table /t/"),
        ({"quarantine": "/", "table": "/t"}, "the table /t lies in the quarantine /"),
        ({"trigger": "once", "max_offsets_per_trigger": 5}, "available-now observes it"),
        ({"kafka": {"security.protocol": "SSL"}}, "given as kafka.security.protocol"),
        ({"kafka": {"includeHeaders": "false"}}, "has its own options"),
    ],
)
def test_what_does_not_go_together(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        options(**changes)


def test_hidden_places_may_lie_in_a_table() -> None:
    assert options(checkpoint="/t/_checkpoint", quarantine="/t/.bad").checkpoint == "/t/_checkpoint"


def test_options_for_the_connector() -> None:
    given = {"kafka.security.protocol": "SSL", "groupIdPrefix": "x", "maxtriggerdelay": "5m"}
    assert options(kafka=given).kafka == given


def test_decoding_needs_a_format_and_a_schema() -> None:
    with pytest.raises(ValueError, match="a schema file or by a registry"):
        DecodeOptions("json")
    with pytest.raises(ValueError, match="name the format of the schema file"):
        DecodeOptions(schema_file=Path("x"))
    with pytest.raises(ValueError, match="'xml' is not known"):
        DecodeOptions("xml", Path("x"))  # type: ignore[arg-type]


def test_options_that_decoding_would_ignore_are_rejected() -> None:
    with pytest.raises(ValueError, match=r"the subject 's' is for a registry .*: leave it or x out"):
        DecodeOptions("json", Path("x"), "http://r", subject="s")
    with pytest.raises(ValueError, match="the message 'm' is for Protobuf, and the values are avro"):
        DecodeOptions("avro", Path("x"), message="m")


def test_several_topics_leave_the_subject_open() -> None:
    with pytest.raises(ValueError, match="which subject"):
        _ = options(topics=("a", "b")).subject


def test_starting_offsets() -> None:
    assert starting_offsets("latest") == {"startingOffsets": "latest"}
    assert starting_offsets('{"a": {"0": 7}}') == {"startingOffsets": '{"a": {"0": 7}}'}
    by_time = {"startingTimestamp": "1769860800000", "startingOffsetsByTimestampStrategy": "latest"}
    assert starting_offsets("2026-01-31T12:00:00Z") == by_time
    assert starting_offsets("2026-01-31T12:00:00") == by_time
    assert starting_offsets("2026-01-31T13:00:00+01:00") == by_time
