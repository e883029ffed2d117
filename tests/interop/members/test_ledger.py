"""Tests that the ledger finds contradictions."""

from __future__ import annotations

import pytest

from tests.interop.members.ledger import Ledger


def ledger_of(*lines: str) -> Ledger:
    ledger = Ledger()
    for line in lines:
        ledger.add_line(line)
    return ledger


def test_all_received_and_committed_once_has_no_problems() -> None:
    ledger = ledger_of(
        "got a 0 0-4", "committed a 0 5", "got b 0 5-6", "got b 0 8-9", "got c 0 7-7", "committed b 0 10"
    )
    assert list(ledger.problems({0: 10})) == []
    assert ledger.has_committed({0: 10})
    assert not ledger.has_committed({0: 11})


def test_uncommitted_records_may_be_received_again() -> None:
    ledger = ledger_of("got a 0 0-9", "got b 0 0-9", "committed b 0 10")
    assert list(ledger.problems({0: 10})) == []


def test_aborted_records_may_be_received_again() -> None:
    ledger = ledger_of(
        "got a 0 0-9",
        "uncommitted a fenced",
        "got a 0 0-4",
        "committed a 0 5",
        "got b 0 5-9",
        "committed b 0 10",
    )
    assert list(ledger.problems({0: 10})) == []
    assert ledger.rejections == ["a: fenced"]


def test_records_of_a_rejected_commit_are_not_covered_by_a_later_one() -> None:
    lines = [
        "got a 0 0-4",
        "uncommitted a not now",
        "got b 0 0-4",
        "committed b 0 5",
        "got a 0 5-9",
        "committed a 0 10",
    ]
    assert list(ledger_of(*lines).problems({0: 10})) == []


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        (["got a 0 0-4", "got a 0 6-9"], "1 of 10 were never received, the first is 5"),
        (
            ["got a 0 0-9", "committed a 0 10", "got b 0 9-9", "committed b 0 10"],
            "0@9: committed by a and by b",
        ),
        (
            ["got a 0 0-9", "committed a 0 10", "got a 0 3-9", "committed a 0 10"],
            "0@3: committed by a and by a",
        ),
        (["got a 0 0-9", "failed a ouch"], "failed: a: ouch"),
    ],
)
def test_contradictions_are_reported(lines: list[str], problem: str) -> None:
    assert any(problem in one for one in ledger_of(*lines).problems({0: 10}))


def test_a_group_is_balanced_when_each_partition_has_one_owner() -> None:
    ledger = ledger_of("assigned a 0,1", "assigned b 2")
    assert ledger.is_balanced(2, 3)
    assert not ledger.is_balanced(2, 4)
    ledger.add_line("assigned b 1,2")
    assert not ledger.is_balanced(2, 3)
    ledger.add_line("left b")
    assert not ledger.is_balanced(2, 3)
    ledger.add_line("assigned a 0,1,2")
    assert ledger.is_balanced(1, 3)
