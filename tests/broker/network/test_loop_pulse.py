"""Pauses of the event loop, by a clock that the test turns and ticks that it makes late."""

from __future__ import annotations

import pytest

from barnabas.broker.network.loop_pulse import BUSY_S, FAST_INTERVAL_S, FAST_TICKS, LoopPulse
from barnabas.broker.probes import LongestPause
from tests.broker.fakes import ManualTimer


class Loop:
    """A loop whose sweep comes every second. `works` is the CPU time of its thread in each second from now on."""

    def __init__(self) -> None:
        self.timer = ManualTimer()
        self.pause = LongestPause()
        self.works = 0.0
        self.worked = 0.0
        self.pulse = LoopPulse(self.timer, self.pause, lambda: self.worked)

    def second(self) -> None:
        """The loop runs for a second, at the end of which the sweep comes."""
        due = self.timer.now + 1
        self.timer.advance(1)
        self.worked += self.works
        self.pulse.ticked(due, self.timer.now)

    def hang(self, seconds: float) -> None:
        """Nothing runs for a while; then what is due does."""
        self.timer.now += seconds
        self.timer.advance(0)


def test_an_idle_loop_has_no_ticks_of_its_own() -> None:
    loop = Loop()
    loop.works = BUSY_S / 2
    for _ in range(3):
        loop.second()
        assert loop.timer.scheduled == 0
    assert loop.pause.seconds == 0


def test_an_idle_loop_shows_a_pause_by_the_sweep() -> None:
    loop = Loop()
    due = loop.timer.now + 1
    loop.hang(3.5)
    loop.pulse.ticked(due, loop.timer.now)
    assert loop.pause.seconds == pytest.approx(2.5)


def test_a_busy_loop_has_ticks_until_it_is_idle() -> None:
    loop = Loop()
    loop.works = 2 * BUSY_S
    for _ in range(3):
        loop.second()
        assert loop.timer.scheduled == 1
    loop.works = 0.0
    loop.second()
    loop.timer.advance(FAST_INTERVAL_S)
    assert loop.timer.scheduled == 0
    assert loop.pause.seconds == pytest.approx(0, abs=1e-6)


def test_a_busy_loop_shows_short_pauses() -> None:
    loop = Loop()
    loop.works = 2 * BUSY_S
    loop.second()
    loop.timer.advance(0.05)
    loop.hang(0.3)
    assert loop.pause.seconds == pytest.approx(0.25)
    loop.hang(0.05)
    assert loop.pause.seconds == pytest.approx(0.25)


def test_the_ticks_end_without_a_sweep() -> None:
    loop = Loop()
    loop.works = 2 * BUSY_S
    loop.second()
    loop.timer.advance(FAST_INTERVAL_S * (FAST_TICKS - 1) + FAST_INTERVAL_S / 2)
    assert loop.timer.scheduled == 1
    loop.timer.advance(FAST_INTERVAL_S)
    assert loop.timer.scheduled == 0


def test_it_stops() -> None:
    loop = Loop()
    loop.pulse.stop()
    loop.works = 2 * BUSY_S
    loop.second()
    assert loop.timer.scheduled == 1
    loop.pulse.stop()
    assert loop.timer.scheduled == 0
