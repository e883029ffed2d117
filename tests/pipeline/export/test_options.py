"""Tests the options that an export rejects before Spark starts, and the records of its rows."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from barnabas.pipeline.export.options import ExportOptions
from barnabas.pipeline.export.transactions import SlotWriter, records


def options(**changes: Any) -> ExportOptions:
    """Valid options with these changes."""
    return ExportOptions(
        **{"bootstrap": "h:9092", "table": "/t", "checkpoint": "/c", "topic": "a", **changes}
    )


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"bootstrap": ""}, "bootstrap is missing"),
        ({"delivery": "twice"}, "at-least-once, exactly-once are known"),
        ({"delivery": "exactly-once", "topic": ""}, "goes to one topic"),
        ({"max_files": 0}, "max_files is 0"),
        ({"every_s": float("inf")}, "every_s is inf"),
        ({"every_s": float("nan")}, "every_s is nan"),
        ({"metrics_port": 70000}, "metrics_port is 70000, and ports are 0 to 65535"),
        ({"trigger": "once", "max_files": 7}, "max_files is 7, and the trigger once takes all there is"),
    ],
)
def test_what_does_not_go_together(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        options(**changes)


def test_clients_settings_have_no_prefix() -> None:
    assert options(kafka={"kafka.acks": "all", "linger.ms": "5"}).client_settings() == {
        "acks": "all",
        "linger.ms": "5",
    }


def test_rows_become_records() -> None:
    full = {
        "key": bytearray(b"k"),
        "value": bytearray(b"v"),
        "headers": [{"key": "h", "value": bytearray(b"x")}],
        "timestamp_ms": 17,
        "partition": 3,
    }
    rows = [
        SimpleNamespace(asDict=lambda: full),
        SimpleNamespace(asDict=lambda: {"value": None, "timestamp_ms": -1}),
    ]
    assert list(records(rows[:1], keep_partitions=True)) == [
        {"key": b"k", "value": b"v", "headers": [("h", b"x")], "timestamp": 17, "partition": 3}
    ]
    assert list(records(rows[1:], keep_partitions=False)) == [{"key": None, "value": None}]
    untimed = [SimpleNamespace(asDict=lambda: {"value": b"v", "timestamp_ms": None})]
    assert list(records(untimed, keep_partitions=False)) == [{"key": None, "value": b"v"}]


def test_an_export_has_a_group_of_its_own() -> None:
    assert SlotWriter("h:9092", "t", "1f0c").group == "barnabas-export-1f0c"
