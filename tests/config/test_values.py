"""Text to value and back."""

from __future__ import annotations

import contextlib
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.config.values import ConfigType, format_value, parse_value


@pytest.mark.parametrize(
    ("config_type", "text", "value"),
    [
        (ConfigType.BOOLEAN, " TRUE ", True),
        (ConfigType.BOOLEAN, "false", False),
        (ConfigType.INT, "+7", 7),
        (ConfigType.INT, "-2147483648", -(1 << 31)),
        (ConfigType.SHORT, "32767", 32767),
        (ConfigType.LONG, "9223372036854775807", (1 << 63) - 1),
        (ConfigType.DOUBLE, "1e-3", 0.001),
        (ConfigType.DOUBLE, "-.5f", -0.5),
        (ConfigType.DOUBLE, "Infinity", math.inf),
        (ConfigType.LIST, "", ()),
        (ConfigType.LIST, " a , b,", ("a", "b", "")),
        (ConfigType.STRING, " a b ", "a b"),
        (ConfigType.CLASS, "a.B", "a.B"),
        (ConfigType.PASSWORD, "x=y", "x=y"),
    ],
)
def test_a_text_stands_for_a_value(config_type: ConfigType, text: str, value: Any) -> None:
    assert parse_value(config_type, text) == value


@pytest.mark.parametrize(
    ("config_type", "text"),
    [
        (ConfigType.BOOLEAN, "yes"),
        (ConfigType.INT, "2147483648"),
        (ConfigType.INT, "1_000"),
        (ConfigType.INT, "1 000"),
        (ConfigType.INT, "0x10"),
        (ConfigType.INT, ""),
        (ConfigType.INT, "-"),
        (ConfigType.SHORT, "32768"),
        (ConfigType.LONG, "9223372036854775808"),
        (ConfigType.DOUBLE, "inf"),
        (ConfigType.DOUBLE, "1_0"),
        (ConfigType.DOUBLE, ""),
        (ConfigType.DOUBLE, "d"),
    ],
)
def test_values_that_java_rejects_are_rejected(config_type: ConfigType, text: str) -> None:
    with pytest.raises(ValueError):
        parse_value(config_type, text)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.5, "0.5"),
        (0.0, "0.0"),
        (1.0, "1.0"),
        (-0.001, "-0.001"),
        (0.00099, "9.9E-4"),
        (1e7, "1.0E7"),
        (9999999.0, "9999999.0"),
        (-123456789.125, "-1.23456789125E8"),
        (1e22, "1.0E22"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
        (math.inf, "Infinity"),
        (-math.inf, "-Infinity"),
        (math.nan, "NaN"),
    ],
)
def test_a_double_is_written_as_by_java(value: float, text: str) -> None:
    assert format_value(ConfigType.DOUBLE, value) == text


def test_the_other_types_are_written_as_kafka_does() -> None:
    assert format_value(ConfigType.BOOLEAN, True) == "true"
    assert format_value(ConfigType.BOOLEAN, False) == "false"
    assert format_value(ConfigType.LIST, ("a", "b")) == "a,b"
    assert format_value(ConfigType.LIST, ()) == ""
    assert format_value(ConfigType.INT, -1) == "-1"
    assert format_value(ConfigType.STRING, None) is None


@given(st.floats(allow_nan=False))
def test_a_double_survives_writing_and_reading(value: float) -> None:
    text = format_value(ConfigType.DOUBLE, value)
    assert text is not None
    assert parse_value(ConfigType.DOUBLE, text) == value


@given(st.sampled_from(ConfigType), st.text())
def test_any_text_is_a_value_or_a_value_error(config_type: ConfigType, text: str) -> None:
    with contextlib.suppress(ValueError):
        parse_value(config_type, text)
