"""What the names of layouts mean; no cluster is started."""

from __future__ import annotations

import re

import pytest

from tests.conformance.cluster.layouts import VARIABLE, Layout, layouts
from tests.conformance.kafka_jars import KAFKA_39, KAFKA_41, KAFKA_VERSION


@pytest.mark.parametrize(
    ("text", "layout"),
    [
        ("jj", Layout("jj", 1, KAFKA_VERSION)),
        ("3*jbb", Layout("jbb", 3, KAFKA_VERSION)),
        ("bbbb@4.1", Layout("bbbb", 1, KAFKA_41)),
        ("3*jb@3.9", Layout("jb", 3, KAFKA_39)),
    ],
)
def test_a_layout_names_controllers_brokers_and_a_release(text: str, layout: Layout) -> None:
    assert Layout.of(text) == layout
    assert str(layout) == text


@pytest.mark.parametrize("text", ["", "j", "jx", "0*jb", "jb@2.8", "jb@", "3jb", "jb "])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=re.escape(f"{text!r} is no layout")):
        Layout.of(text)


def test_a_run_may_have_several(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "jj, 3*jbb")
    assert layouts() == [Layout("jj"), Layout("jbb", 3)]


def test_a_run_that_names_none_has_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    assert [str(layout) for layout in layouts()] == ["jb"]
