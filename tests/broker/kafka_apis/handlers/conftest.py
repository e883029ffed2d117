"""A broker with an authorizer."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.broker.guarded_broker import GuardedBroker

ONE_PARTITION_EACH = {"offsets.topic.num.partitions": "1", "transaction.state.log.num.partitions": "1"}


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[GuardedBroker]:
    """Its clients may do nothing that a test does not allow."""
    running = GuardedBroker(tmp_path / "guarded", ONE_PARTITION_EACH)
    yield running
    running.kill()
