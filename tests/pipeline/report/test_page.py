"""Tests the page: complete, self-contained, and with escaped data."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from barnabas.pipeline.report.figures import BLUE, Series, stacked_bars
from barnabas.pipeline.report.page import Page, Section, Table, cell, write
from tests.pipeline.report.reading import read

NASTY = "<script>alert(1)</script> & 'quoted' \"twice\""


def page(*sections: Section) -> Page:
    return Page("A <report>", NASTY, NASTY, "good", [(NASTY, "1,234")], sections)


def test_data_is_escaped() -> None:
    figure = stacked_bars(
        NASTY, NASTY, [NASTY], [Series(NASTY, [1], BLUE), Series("b", [2], BLUE)], unit="records"
    )
    table = Table((NASTY,), [(NASTY,)], title=NASTY, note=NASTY)
    found = read(page(Section(NASTY, NASTY, [figure], [table])))
    assert "<script" not in found.html
    assert found.texts.count(NASTY) >= 8


def test_numbers_stand_to_the_right() -> None:
    rows = [("a", 1, "1.5 KiB", None, "2026-01-01 00:00:00"), ("b", 2.5, "900 B", 3, "2026-01-01 00:00:00")]
    table = Table(("name", "n", "size", "maybe", "time"), rows)
    assert [table.numeric(column) for column in range(5)] == [False, True, True, True, False]
    found = read(page(Section("s", tables=[table])))
    assert {"2.50", "1.5 KiB", "–", "900 B"} <= set(found.texts)


def test_long_tables_are_folded() -> None:
    found = read(
        page(Section("s", tables=[Table(("a",), [(at,) for at in range(300)], title="All", is_long=True)]))
    )
    assert "<details><summary>All (300 rows)</summary>" in found.html
    assert "299" in found.texts


def test_an_empty_page() -> None:
    assert "A <report>" in read(page()).texts


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "–"),
        (True, "yes"),
        (1234567, "1,234,567"),
        (0.126, "0.13"),
        (datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC), "2026-01-02 03:04:05"),
        ("orders", "orders"),
    ],
)
def test_cells(value: object, text: str) -> None:
    assert cell(value) == text


def test_it_is_written_as_a_whole(tmp_path: Path) -> None:
    path = write(page(), tmp_path / "new" / "report.html")
    assert path.read_text().endswith("</html>")
    assert [each.name for each in path.parent.iterdir()] == ["report.html"]


def test_files_beside_the_page_stay(tmp_path: Path) -> None:
    other = tmp_path / "report.tmp"
    other.write_text("somebody's")
    write(page(), tmp_path / "report.html")
    assert other.read_text() == "somebody's"
    assert sorted(each.name for each in tmp_path.iterdir()) == ["report.html", "report.tmp"]


def test_columns_are_checked_once_and_not_for_each_cell(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[int] = []
    numeric = Table.numeric

    def counting(table: Table, column: int) -> bool:
        looked.append(column)
        return numeric(table, column)

    monkeypatch.setattr(Table, "numeric", counting)
    read(page(Section("s", tables=[Table(("a", "b"), [(at, "x") for at in range(500)])])))
    assert looked == [0, 1]
