"""Tests what is shown and aimed at."""

from __future__ import annotations

from bench.cluster.figures import SHOWN, Figure, Group
from bench.cluster.rounds import ROWS


def test_every_table_has_figures_and_a_row() -> None:
    assert list(SHOWN) == list(Group)
    assert {row.group for row in ROWS} == set(Group)


def test_the_aims_are_those_of_the_issue() -> None:
    aims = {(group, figure.name): figure.aim for group, shown in SHOWN.items() for figure in shown}
    assert aims[Group.CPU, "leader_us"] == aims[Group.CPU, "follower_us"] == 0.6
    assert aims[Group.CATCH_UP, "mb_s"] == 1.5
    assert {aim for (group, _), aim in aims.items() if group is Group.MEMORY} == {0.2}
    assert aims[Group.PRODUCE, "rate"] == aims[Group.LATENCY, "p99_ms"] == 1.0, "no row behind"


def test_a_figure_that_explains_others_is_not_judged() -> None:
    assert Figure("mb_s", "MB/s", aim=None).target("x") is None
    target = Figure("mb_s", "MB/s", aim=1.5).target("x")
    assert target is not None
    assert target.is_kept(1.5)
    assert not target.is_kept(1.4)
