"""Ends of failed logins, held back by one timer."""

from __future__ import annotations

from functools import partial

from barnabas.broker.network.failure_delay import FailureDelay
from tests.broker.fakes import ManualTimer


def test_each_end_comes_after_the_delay_in_order() -> None:
    timer, ended = ManualTimer(), list[str]()
    delay = FailureDelay(timer, 100)
    delay.after(partial(ended.append, "one"))
    timer.advance(0.05)
    delay.after(partial(ended.append, "two"))
    assert (len(delay), timer.scheduled) == (2, 1)
    timer.advance(0.051)
    assert ended == ["one"]
    assert timer.scheduled == 1
    timer.advance(0.051)
    assert ended == ["one", "two"]
    assert (len(delay), timer.scheduled) == (0, 0)
    delay.after(partial(ended.append, "three"))
    timer.advance(0.11)
    assert ended[-1] == "three"


def test_without_a_delay_the_end_comes_at_once() -> None:
    timer, ended = ManualTimer(), list[str]()
    FailureDelay(timer, 0).after(partial(ended.append, "one"))
    assert ended == ["one"]
    assert timer.scheduled == 0


def test_a_timer_that_ends_a_moment_early_is_enough() -> None:
    timer, ended = ManualTimer(), list[str]()
    delay = FailureDelay(timer, 100)
    delay.after(partial(ended.append, "one"))
    timer.now += 0.0995
    delay._run()
    assert ended == ["one"]
