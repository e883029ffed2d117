"""Pending results complete once."""

from __future__ import annotations

import pytest

from barnabas.broker.pending import Pending, all_of


def test_a_result_reaches_callbacks_added_before_and_after() -> None:
    pending: Pending[str] = Pending()
    heard: list[str] = []
    pending.add_done_callback(heard.append)
    pending.add_done_callback(heard.append)
    before = pending.done, [*heard]

    pending.complete("x")

    assert before == (False, [])
    assert pending.done
    assert heard == ["x", "x"]
    pending.add_done_callback(heard.append)
    assert heard == ["x", "x", "x"]


def test_a_pending_result_may_be_none() -> None:
    pending: Pending[None] = Pending()
    heard: list[None] = []
    pending.complete(None)
    pending.add_done_callback(heard.append)
    assert heard == [None]


def test_a_second_completion_raises_an_error() -> None:
    pending: Pending[int] = Pending()
    pending.complete(1)
    with pytest.raises(AssertionError, match="twice"):
        pending.complete(2)


def test_combined_results_complete_with_the_last_of_them_and_in_order() -> None:
    parts: list[Pending[str]] = [Pending(), Pending(), Pending()]
    parts[1].complete("b")
    whole = all_of(parts)
    parts[2].complete("c")
    assert not whole.done
    parts[0].complete("a")
    heard: list[list[str]] = []
    whole.add_done_callback(heard.append)
    all_of([]).add_done_callback(heard.append)
    assert heard == [["a", "b", "c"], []]


def test_then_maps_the_result_whenever_it_completes() -> None:
    early: Pending[int] = Pending()
    doubled = early.then(lambda number: number * 2)
    early.complete(21)

    late: Pending[int] = Pending()
    late.complete(4)
    as_text = late.then(str)

    heard: list[object] = []
    doubled.add_done_callback(heard.append)
    as_text.add_done_callback(heard.append)
    assert heard == [42, "4"]
