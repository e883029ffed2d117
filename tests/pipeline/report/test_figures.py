"""Tests that figures show their data, as text and as shapes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from barnabas.pipeline.report.figures import (
    BLUE,
    GREEN,
    ORANGE,
    RED,
    Series,
    Span,
    binary_step,
    columns,
    in_bytes,
    in_unit,
    spans,
    stacked_bars,
)
from tests.pipeline.report.reading import shapes, texts

NOON = datetime(2026, 11, 22, 12, tzinfo=UTC)


def test_bars_have_a_row_for_each_name_and_a_shape_for_each_number() -> None:
    series = [
        Series("kept", [1000.0, 2000.0], BLUE),
        Series("gone", [500.0, 0.0], ORANGE),
        Series("none", [0, 0], RED),
    ]
    figure = stacked_bars("Bytes", "a caption", ["orders", "<clicks> & more"], series, unit="bytes")
    assert {"orders", "<clicks> & more", "kept", "gone"} <= set(texts(figure))
    assert "none" not in texts(figure), "what is zero everywhere has no colour"
    assert (shapes(figure, BLUE), shapes(figure, ORANGE), shapes(figure, RED)) == (3, 3, 0)
    assert any(text.endswith("KiB") for text in texts(figure))
    assert "orders: kept 1,000 B, gone 500 B" in figure.alt


def test_the_same_figure_is_the_same_text() -> None:
    def drawn() -> str:
        return stacked_bars("t", "", ["a"], [Series("n", [3], BLUE)], unit="records").svg

    assert drawn() == drawn()
    assert drawn().startswith("<svg")


def test_columns_over_time() -> None:
    times = [NOON + timedelta(hours=hour) for hour in range(5)]
    series = [Series("orders", [1, 2, 3, 4, 5], BLUE), Series("clicks", [9, 8, 7, 6, 5], GREEN)]
    figure = columns("Records", "", times, series, width=timedelta(hours=1), unit="records")
    assert (shapes(figure, BLUE), shapes(figure, GREEN)) == (6, 6)
    assert {"orders", "clicks", "records"} <= set(texts(figure))
    assert figure.alt == "Records: orders 15 records, clicks 35 records"


def test_spans_in_rows() -> None:
    found = [
        Span("orders-0", NOON, NOON + timedelta(hours=2), "whole"),
        Span("orders-0", NOON + timedelta(hours=2), NOON + timedelta(hours=3), "with errors"),
        Span("clicks-0", NOON, NOON, "whole"),
    ]
    figure = spans("Segments", "", found, {"whole": GREEN, "with errors": RED, "active": BLUE}, mark=NOON)
    assert (shapes(figure, GREEN), shapes(figure, RED), shapes(figure, BLUE)) == (3, 2, 0)
    assert {"orders-0", "clicks-0", "whole", "with errors"} <= set(texts(figure))


def test_one_moment_alone_can_be_drawn() -> None:
    assert texts(spans("t", "", [Span("a", NOON, NOON, "whole")], {"whole": GREEN}))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0 B"),
        (1023, "1,023 B"),
        (1536, "1.5 KiB"),
        (200 << 20, "200 MiB"),
        (5 << 40, "5.0 TiB"),
        (5 << 50, "5,120 TiB"),
    ],
)
def test_bytes_as_people_read_them(value: int, text: str) -> None:
    assert in_bytes(value) == text


@pytest.mark.parametrize(
    ("limit", "step"), [(0, 1), (6, 1), (1 << 20, 1 << 18), (6_000, 1024), (7_000, 2048)]
)
def test_bytes_are_cut_in_powers_of_two(limit: int, step: int) -> None:
    assert binary_step(limit) == step


def test_numbers_as_people_read_them() -> None:
    assert in_unit(1234567, "records") == "1,234,567 records"
    assert in_unit(2.5, "records", bare=True) == "2.50"
    assert in_unit(2048, "bytes") == "2.0 KiB"


def test_names_are_text_and_no_formulas() -> None:
    names = ["/mnt/$a$b^{/orders-0", r"$\nothing$", "100 $", "_hidden"]
    figure = stacked_bars("t", "", names, [Series("n", [1, 2, 3, 4], BLUE)], unit="records")
    assert set(names) <= set(texts(figure))
    spans_of = spans("t", "", [Span(name, NOON, NOON, "whole") for name in names], {"whole": GREEN})
    assert set(names) <= set(texts(spans_of))


def test_partitions_of_a_topic_with_a_long_name_are_distinguished() -> None:
    names = [f"com.example.department.service.something.happened.v1-{number}" for number in (1, 2, 12)]
    figure = stacked_bars("t", "", names, [Series("n", [1, 2, 3], BLUE)], unit="records")
    shown = [text for text in texts(figure) if text.startswith("com.example")]
    assert len(set(shown)) == len(names)
    assert all(len(text) == 42 for text in shown)
    assert {text.rpartition("-")[2] for text in shown} == {"1", "2", "12"}
