"""Tests the source's options; the error of an invalid one has its value and the requirement."""

from __future__ import annotations

from pathlib import Path

import pytest

from barnabas.pipeline.log_reading.arrow_columns import COLUMNS, DEFAULT_COLUMNS
from barnabas.pipeline.log_reading.log_view import Isolation
from barnabas.pipeline.spark.options import EARLIEST, LATEST, Bound, OptionError, SourceOptions, parse_options


def parse(**options: str) -> SourceOptions:
    return parse_options({"path": "/x", **options})


def test_options_by_default() -> None:
    assert parse() == SourceOptions(("/x",))
    assert parse().columns == DEFAULT_COLUMNS
    assert parse().isolation is Isolation.READ_UNCOMMITTED


def test_paths() -> None:
    assert parse_options({"path": "/x, file:///y"}).paths == ("/x", "/y")
    assert parse_options({"paths": '["/x", "/y"]'}).paths == ("/x", "/y")


def test_relative_paths_start_where_the_driver_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Tasks on a cluster have working directories of their own."""
    monkeypatch.chdir(tmp_path)
    here = str(tmp_path)
    assert parse_options({"path": "a, ./b/, ., file:/c"}).paths == (f"{here}/a", f"{here}/b", here, "/c")
    assert parse_options({"paths": '["a", "b/../a"]'}).paths == (f"{here}/a",), "each once"


@pytest.mark.parametrize("path", ["hdfs:///logs", "s3a://bucket/logs", "file://host/logs", "file://logs"])
def test_uris_of_other_file_systems_are_rejected(path: str) -> None:
    with pytest.raises(OptionError, match=rf"option path='{path}': {path} is not a path"):
        parse_options({"path": path})


def test_option_names_ignore_case() -> None:
    given = {"PATH": "/x", "StartingOffsets": "EARLIEST", "KAFKA.isolation.level": "read_committed"}
    found = parse_options(given)
    assert found.starting == Bound(offset=EARLIEST, option="startingOffsets")
    assert found.isolation is Isolation.READ_COMMITTED


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({}, ["a-0", "a-1", "ab-0"]),
        ({"subscribe": "a"}, ["a-0", "a-1"]),
        ({"subscribe": "a, __consumer_offsets"}, ["__consumer_offsets-0", "a-0", "a-1"]),
        ({"subscribePattern": "a."}, ["ab-0"]),
        ({"subscribePattern": ".*"}, ["a-0", "a-1", "ab-0"]),
        ({"assign": '{"a": [1], "ab": [0, 7]}'}, ["a-1", "ab-0"]),
    ],
)
def test_which_partitions(options: dict[str, str], wanted: list[str]) -> None:
    there = [("__consumer_offsets", 0), ("a", 0), ("a", 1), ("ab", 0)]
    assert [f"{topic}-{number}" for topic, number in there if parse(**options).wants(topic, number)] == wanted


def test_bounds() -> None:
    assert parse(startingOffsets='{"a": {"0": 23, "1": -2}}').starting == Bound(
        offsets={"a": {0: 23, 1: -2}}, option="startingOffsets"
    )
    assert parse(endingOffsets="latest").ending == Bound(offset=LATEST, option="endingOffsets")
    by_time = parse(startingOffsetsByTimestamp='{"a": {"0": 7}}', startingOffsets="earliest").starting
    assert by_time == Bound(timestamps_ms={"a": {0: 7}}, option="startingOffsetsByTimestamp")
    everywhere = parse(endingTimestamp="9", endingOffsetsByTimestamp='{"a": {"0": 7}}').ending
    assert everywhere == Bound(timestamp_ms=9, option="endingTimestamp")


def test_other_options() -> None:
    found = parse(
        startingOffsetsByTimestampStrategy="latest",
        failOnDataLoss="False",
        maxOffsetsPerTrigger="10",
        minOffsetsPerTrigger="5",
        maxTriggerDelay="2 min",
        minPartitions="4",
        rangeBytes="8MB",
        checkCrcs="false",
        timestampDisorder="60000",
        includeHeaders="true",
    )
    assert found.latest_when_too_young
    assert not found.fail_on_data_loss
    assert (found.max_offsets_per_trigger, found.min_partitions, found.range_bytes) == (10, 4, 8 << 20)
    assert (found.min_offsets_per_trigger, found.max_trigger_delay_ms) == (5, 120_000)
    assert parse(maxTriggerDelay="250").max_trigger_delay_ms == 250
    assert parse().max_trigger_delay_ms == 900_000
    assert not found.check_crc
    assert found.disorder_ms == 60_000
    assert found.columns == COLUMNS
    assert parse(columns="Offset, value").columns == ("offset", "value")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            {"startingOffset": "1"},
            "option startingOffset='1': there is no such option; the nearest is startingOffsets",
        ),
        ({"frobnicate": "1"}, "option frobnicate='1': there is no such option"),
        ({"subscribe": "a", "assign": "{}"}, "option assign='{}': there is subscribe already, one is enough"),
        ({"subscribe": " , "}, "names, with commas between them"),
        ({"subscribePattern": "("}, "a regular expression, and missing"),
        ({"assign": '{"a": 1}'}, 'JSON such as {"orders": [0, 1]}'),
        ({"assign": "x"}, 'JSON such as {"orders": [0, 1]}'),
        ({"startingOffsets": "soon"}, 'earliest, latest, or JSON such as {"orders": {"0": 23}}'),
        ({"startingOffsets": "latest"}, "a batch starts at earliest, at offsets or at a time"),
        ({"startingOffsets": '{"a": {"0": -3}}'}, 'JSON such as {"orders": {"0": 23}}'),
        ({"startingOffsets": '{"a": 1}'}, 'JSON such as {"orders": {"0": 23}}'),
        ({"endingOffsets": "earliest"}, 'latest, or JSON such as {"orders": {"0": 50}}'),
        ({"endingOffsets": '{"a": {"0": -2}}'}, 'latest, or JSON such as {"orders": {"0": 50}}'),
        ({"startingTimestamp": "yesterday"}, "a whole number, 0 or more"),
        ({"isolationLevel": "serializable"}, "read_uncommitted or read_committed"),
        ({"failOnDataLoss": "maybe"}, "true or false"),
        ({"maxOffsetsPerTrigger": "0"}, "a whole number, 1 or more"),
        ({"maxTriggerDelay": "soon"}, "a time such as 500ms, 30s or 15m"),
        ({"minOffsetsPerTrigger": "7", "maxOffsetsPerTrigger": "6"}, "no more than maxOffsetsPerTrigger, 6"),
        ({"rangeBytes": "64q"}, "bytes, such as 67108864 or 64m"),
        ({"columns": "value,value"}, "some of key, value, topic"),
        ({"columns": "velue"}, "some of key, value, topic"),
        ({"paths": "/x"}, "a JSON list of directories"),
    ],
)
def test_invalid_options(options: dict[str, str], said: str) -> None:
    with pytest.raises(OptionError) as caught:
        parse(**options)
    assert said in str(caught.value)


def test_a_path_is_needed() -> None:
    with pytest.raises(OptionError, match="option path='': the log directory to read"):
        parse_options({"subscribe": "a"})


def test_a_stream_may_start_at_the_end_and_has_none() -> None:
    given = {"path": "/x", "startingOffsets": "latest"}
    assert parse_options(given, is_stream=True).starting == Bound(offset=LATEST, option="startingOffsets")
    with pytest.raises(OptionError, match="a stream has no end; leave it out"):
        parse_options({"path": "/x", "endingTimestamp": "5"}, is_stream=True)
    parse_options({"path": "/x", "endingTimestamp": "5", **given}, is_stream=True, is_schema=True)
