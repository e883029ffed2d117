"""The fixtures of this package: an in-process broker, and dialogues in an event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import uvloop

if TYPE_CHECKING:
    from tests.broker.broker_fixture import InProcessBroker
    from tests.broker.network.socket_harness import Run


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[InProcessBroker]:
    """A broker on a new directory, closed at the end of the test."""
    from tests.broker.broker_fixture import InProcessBroker  # the whole broker, which most tests do without

    running = InProcessBroker(tmp_path)
    yield running
    running.kill()


@pytest.fixture(params=["uvloop", "asyncio"])
def run(request: pytest.FixtureRequest) -> Run:
    """Runs a test's dialogue in an event loop, within a minute."""

    def run_it(dialogue: Coroutine[Any, Any, None]) -> None:
        factory = uvloop.new_event_loop if request.param == "uvloop" else asyncio.new_event_loop
        with asyncio.Runner(loop_factory=factory) as runner:
            runner.run(asyncio.wait_for(dialogue, 60))

    return run_it
