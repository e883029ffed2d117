"""Names as parts of names of metrics."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.broker.quotas.sanitizer import desanitize, sanitize


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("alice-1.a_b", "alice-1.a_b"),
        ("CN=some, O=org", "CN%3Dsome%2C%20O%3Dorg"),
        ("*+~/\\?", "%2A%2B%7E%2F%5C%3F"),
        ("ä\n", "%C3%A4%0A"),
        ("\ud800", "%3F"),
        ("", ""),
    ],
)
def test_names_are_written_as_in_kafka(name: str, written: str) -> None:
    assert sanitize(name) == written


@given(st.text())
def test_names_are_read_back(name: str) -> None:
    assert desanitize(sanitize(name)) == name
