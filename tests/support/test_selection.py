"""Files whose tests are all deselected by their marks are not imported."""

from __future__ import annotations

import pytest

from tests.support.selection import excluded, marks_of_all


@pytest.mark.parametrize(
    ("expression", "marks"),
    [
        ("", set()),
        ("slow", set()),
        ("not slow", {"slow"}),
        ("explores and not slow and not spark", {"slow", "spark"}),
        ("(slow or conformance) and not cluster", {"cluster"}),
        ("not slow or conformance", set()),
        ("not (slow and conformance)", set()),
        ("not slow(reason='x')", set()),
        ("not slow and (not spark and explores)", {"slow", "spark"}),
        ("and not", set()),
    ],
)
def test_only_what_no_selected_test_can_have_is_excluded(expression: str, marks: set[str]) -> None:
    assert excluded(expression) == marks


@pytest.mark.parametrize(
    ("source", "marks"),
    [
        ("import pytest\n", set()),
        ("import pytest\n\npytestmark = pytest.mark.slow\n\ndef test() -> None: ...\n", {"slow"}),
        ("pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]\n", {"slow", "timeout"}),
        ("pytestmark = [\n    pytest.mark.slow,\n    pytest.mark.spark,\n]\n", {"slow", "spark"}),
        ("class TestIt:\n    pytestmark = pytest.mark.slow\n", set()),
        ("@pytest.mark.slow\ndef test() -> None: ...\n", set()),
    ],
)
def test_the_marks_of_a_whole_file_are_read_from_its_source(source: str, marks: set[str]) -> None:
    assert marks_of_all(source) == marks
