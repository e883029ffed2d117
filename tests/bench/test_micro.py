"""Tests that the micro-benchmarks run and report figures of any size."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from bench import micro
from bench.document import render_section
from bench.micro import GROUPS, Both, section, taken_together
from bench.micro_cases import CASES
from bench.micro_run import PLAIN
from bench.micro_timing import LEAST_ROUNDS, Figure, timed, timed_each

FOUND = {"Fetch": Figure(2.0, 3.0)}


def test_a_call_is_made_in_rounds_and_no_more_often_than_it_may() -> None:
    calls: list[None] = []
    figure = timed(lambda: calls.append(None), 0.0, most_calls=100)
    assert 0 < figure.best_us <= figure.median_us
    assert LEAST_ROUNDS <= len(calls) <= 200


def test_arguments_are_prepared_for_each_round() -> None:
    made = iter(range(100))
    called: list[int] = []
    figure = timed_each(lambda: [next(made), next(made)], called.append, rounds=3)
    assert called == list(range(6))
    assert 0 < figure.best_us <= figure.median_us


def test_processes_are_combined_by_the_best_and_the_median() -> None:
    found = [{"a": Figure(best, median)} for best, median in ((3.0, 9.0), (2.0, 7.0), (4.0, 8.0))]
    assert taken_together(found) == {"a": Figure(2.0, 8.0)}


def test_each_group_has_cases() -> None:
    assert set(GROUPS) == set(CASES)


def test_the_section_has_both_kinds_beside_each_other() -> None:
    text = render_section(section({"dispatch": Both(FOUND, {"Fetch": Figure(20.0, 30.0)})}))
    assert "| Fetch | 2.00 | 3.00 | 20.0 | 30.0 |" in text
    assert "| Fetch | - | - | 2.00 | 3.00 |" in render_section(section({"dispatch": Both(None, FOUND)}))


@pytest.mark.parametrize("group", ["codec", "dispatch", "fetch"])
def test_a_group_runs_in_a_process_of_its_own(group: str) -> None:
    found = micro.in_a_process(group, 0.0, plain=False)
    assert found
    assert all(figure.best_us > 0 for figure in found.values())


def test_plain_means_that_nothing_compiled_is_imported() -> None:
    code = (
        "import json, sys; from barnabas.interpreted import hide_compiled; hide_compiled();"
        "import bench.micro_cases;"
        "packages = ('barnabas.',);"
        "ours = {name: module for name, module in sys.modules.items() if name.startswith(packages)};"
        "print(json.dumps({name: getattr(module, '__file__', None) for name, module in ours.items()}))"
    )
    ran = subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.PIPE, text=True)
    files = json.loads(ran.stdout)
    assert files["barnabas.protocol.records.record"].endswith(".py")
    assert all(file is None or file.endswith(".py") for file in files.values())
    assert PLAIN == "--plain"
