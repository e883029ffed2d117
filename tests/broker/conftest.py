"""The broker that the tests of this package talk to."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.broker.broker_fixture import InProcessBroker


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[InProcessBroker]:
    """A broker on a new directory, gone at the end of the test."""
    from tests.broker.broker_fixture import InProcessBroker  # the whole broker, which most tests do without

    running = InProcessBroker(tmp_path)
    yield running
    running.kill()
