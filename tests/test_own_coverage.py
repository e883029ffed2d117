"""What counts as run by a module's own tests, and when a module has fallen."""

from __future__ import annotations

import pytest

from tests.support.own_coverage import (
    LIST,
    fallen,
    kept,
    lines_of_functions,
    measure_all,
    modules_with_tests,
    parse,
    percent,
    render,
)

SOURCE = """
import os

SIZE = 1

class Thing:
    size = 2

    def grow(self) -> None:
        self.size += 1

def outer():
    if SIZE:
        def inner():
            return 1
    return inner
"""


def test_statements_of_functions_count() -> None:
    assert sorted(lines_of_functions(SOURCE)) == [10, 13, 14, 15, 16]
    assert percent([1, 2, 3], [3]) == 66
    assert percent([], []) == 100


def test_a_module_falls_by_more_than_chance() -> None:
    before = {"a.py": 90, "b.py": 50, "gone.py": 100}
    now = {"a.py": 87, "b.py": 46, "new.py": 0}
    assert fallen(before, now) == ["b.py: 46 %, was 50 %"]
    assert kept(before, now) == {"a.py": 90, "b.py": 46, "new.py": 0}


def test_what_is_written_is_read() -> None:
    shares = {"broker/a.py": 7, "broker/b.py": 100}
    assert render(shares) == "  7 broker/a.py\n100 broker/b.py\n"
    assert parse(render(shares)) == shares
    assert render(parse(LIST.read_text())) == LIST.read_text()


def test_each_module_is_measured_by_its_own_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BARNABAS_INTERPRETED", "1")
    assert "broker/waiting/timer.py" in modules_with_tests()
    (timer,) = measure_all(["broker/waiting/timer.py"], workers=1)
    assert timer.failed == ""
    assert timer.percent > 90
