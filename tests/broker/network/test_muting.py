"""Mute. What a connection does meanwhile is in test_connection."""

from __future__ import annotations

from barnabas.broker.network.muting import Mute
from barnabas.broker.waiting.timer import DeadlineQueue
from tests.broker.fakes import ManualTimer
from tests.broker.scripted import FakeMeter


def test_its_time_ends_it_once() -> None:
    timer, meter, over = ManualTimer(), FakeMeter(), list[bool]()
    queue = DeadlineQueue(timer)
    mute = Mute(meter, lambda: over.append(True))
    queue.add(500, mute)
    timer.advance(0.25)
    assert (over, meter.unmuted_count) == ([], 0)
    timer.advance(0.25)
    mute.expire()
    mute.end()
    assert (over, meter.unmuted_count) == ([True], 1)


def test_a_mute_ends_once() -> None:
    meter, over = FakeMeter(), list[bool]()
    mute = Mute(meter, lambda: over.append(True))
    mute.end()
    mute.expire()
    assert (over, meter.unmuted_count) == ([], 1)
