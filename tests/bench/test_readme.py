"""Tests that README.md has the stored figures."""

from __future__ import annotations

from bench import readme, results
from bench.section import Section

PRODUCED = Section(
    "produce",
    "Produce",
    figures={"produce-1k.rate": 412345.6, "produce-1k.rate.kafka": 200000.0, "produce-1k.rate.ratio": 2.06},
    facts={"date": "2026-11-22", "machine": "a machine"},
)


def test_the_readme_has_the_stored_figures() -> None:
    text = results.README.read_text()
    assert readme.rewritten(text, results.load_all()) == text


def test_figures_come_with_those_of_apache_kafka_the_ratio_and_the_date() -> None:
    part = readme.part([PRODUCED])
    assert "| produce 1 KiB, messages a second | 412,346 | 200,000 | 2.06 x |" in part
    assert "(2026-11-22; a machine)" in part
    assert "memory when idle" not in part, "it was not measured"


def test_without_stored_figures_there_is_a_pointer() -> None:
    assert readme.part([]).startswith("[docs/performance.md]")


def test_the_text_around_the_figures_stays() -> None:
    text = f"a\n{readme.BEGIN}old\n{readme.END}b\n"
    assert readme.rewritten(text, [PRODUCED]) == f"a\n{readme.BEGIN}{readme.part([PRODUCED])}{readme.END}b\n"


def test_quoted_figures_exist_in_the_report() -> None:
    from bench.side_by_side.report import FIGURES, SHOWN
    from bench.side_by_side.workloads import WORKLOADS

    rows = {row.name: row for row in WORKLOADS}
    for one in readme.QUOTED:
        row, _, figure = one.figure.partition(".")
        assert figure in FIGURES
        if one.section != "processes":
            assert rows[row].part.value == one.section
            assert figure in SHOWN[rows[row].part]
