"""Tests storing, reading and rendering of sections."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench import document, results
from bench.section import Section, Table, number


def section(name: str = "lookup", **changes: object) -> Section:
    values: dict[str, object] = {
        "name": name,
        "title": "Lookups",
        "prose": ["What it is."],
        "tables": [Table(["us", "Barnabas"], [["by time | offset", "84"]])],
        "figures": {"by time us": 84.2},
        "options": {"segments": "100"},
        "facts": {"date": "2026-11-22", "barnabas": "0.1.0", "command": "python -m bench lookup"},
        "remarks": ["One at a time."],
    }
    return Section(**{**values, **changes})  # type: ignore[arg-type]


def test_stored_sections_are_the_published_ones(tmp_path: Path) -> None:
    results.store(section(), tmp_path)
    assert results.load("lookup", tmp_path) == section()


def test_a_section_has_heading_prose_table_remarks_and_facts() -> None:
    assert document.render_section(section()) == (
        "## Lookups\n\nWhat it is.\n\n"
        "| us | Barnabas |\n| --- | ---: |\n| by time \\| offset | 84 |\n\n"
        "One at a time.\n\n"
        "*Measured 2026-11-22; Barnabas 0.1.0; `python -m bench lookup`; segments: 100.*\n"
    )


def test_sections_come_in_the_order_of_the_document_and_unknown_ones_at_the_end() -> None:
    text = document.render(section(name, title=name) for name in ("zebra", "codec", "ant", "recovery"))
    titles = [line[3:] for line in text.splitlines() if line.startswith("## ")]
    assert titles == ["recovery", "codec", "ant", "zebra"]


def test_a_row_has_as_many_cells_as_there_are_heads() -> None:
    with pytest.raises(AssertionError, match="1 cells under 2 heads"):
        Table(["a", "b"], [["1"]])


@pytest.mark.parametrize(
    ("value", "text"),
    [(1234567.0, "1,234,567"), (123.4, "123"), (12.34, "12.3"), (1.234, "1.23"), (0.0123, "0.012")],
)
def test_numbers_keep_about_three_digits(value: float, text: str) -> None:
    assert number(value) == text


def test_a_missing_number_is_a_dash() -> None:
    assert number(None) == number(float("nan")) == "-"
    assert number(3.14159, 1) == "3.1"


def test_publishing_stores_with_facts_and_renders(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = results.arguments("").parse_args(["--results", str(tmp_path / "performance")])
    published = results.publish(section(facts={}), options)
    assert published.facts["date"]
    assert published == results.load("lookup", tmp_path / "performance")
    assert "## Lookups" in (tmp_path / "performance.md").read_text()
    assert "84" in capsys.readouterr().out


def test_quick_runs_do_not_touch_the_document() -> None:
    parser = results.arguments("")
    assert results.store_of(parser.parse_args(["--quick"])) == results.QUICK_STORE
    assert results.store_of(parser.parse_args([])) == results.STORE


def test_everything_that_is_committed_can_be_read_and_has_a_date() -> None:
    found = results.load_all()
    assert found
    for one in found:
        assert one.facts["date"], one.name
        assert json.loads((results.STORE / f"{one.name}.json").read_text())["name"] == one.name


def test_rendered_documents_are_up_to_date() -> None:
    assert results.STORE.with_suffix(".md").read_text() == results.render()
    assert results.targets_path().read_text() == results.render_targets()


def test_targets_have_a_document_of_their_own(tmp_path: Path) -> None:
    store = tmp_path / "performance"
    results.store(section(), store)
    results.write_document(store)
    assert not results.targets_path(store).exists(), "none was measured"
    results.store(section(document.TARGETS, title="Targets"), store)
    users = results.write_document(store).read_text()
    assert "## Lookups" in users
    assert "## Targets" not in users
    makers = results.targets_path(store).read_text()
    assert makers.startswith("# The targets of the benchmarks\n")
    assert "## Targets" in makers
    assert "## Lookups" not in makers
