from __future__ import annotations

import pytest

from barnabas.cli.admin.times import parse_datetime, parse_duration


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("1970-01-01T00:00:00.000", 0),
        ("1970-01-01T00:00:01.5Z", 1005),  # as in Java: five milliseconds
        ("2023-11-14T22:13:25.001", 1_700_000_005_001),
        ("2023-11-14T22:13:25.001Z", 1_700_000_005_001),
        ("2023-11-14T23:13:25.001+01:00", 1_700_000_005_001),
        ("2023-11-14T23:13:25.001+0100", 1_700_000_005_001),
        ("2023-11-14T20:13:25.001-02", 1_700_000_005_001),
    ],
)
def test_dates(text: str, milliseconds: int) -> None:
    assert parse_datetime(text) == milliseconds


@pytest.mark.parametrize(
    "text", ["", "now", "2023-11-14", "2023-11-14T22:13:25", "2023-13-14T22:13:25.000", "T"]
)
def test_invalid_dates_are_rejected(text: str) -> None:
    with pytest.raises(ValueError, match="is not YYYY-MM-DD"):
        parse_datetime(text)


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("PT0S", 0),
        ("P1D", 86_400_000),
        ("P1DT2H3M4S", 93_784_000),
        ("pt1.5s", 1500),
        ("PT-1.5S", -1500),
        ("-PT1M", -60_000),
        ("P-1D", -86_400_000),
        ("PT1M-1S", 59_000),
    ],
)
def test_durations(text: str, milliseconds: int) -> None:
    assert parse_duration(text) == milliseconds


@pytest.mark.parametrize("text", ["", "P", "PT", "P1DT", "1D", "PX", "P1H", "P1Y", "PT1S1M"])
def test_invalid_durations_are_rejected(text: str) -> None:
    with pytest.raises(ValueError, match="is not a duration"):
        parse_duration(text)
