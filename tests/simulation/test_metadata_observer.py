"""Lives of an observer of the metadata log; see tests.simulation.metadata_observer."""

from __future__ import annotations

import pytest

from tests.simulation.metadata_observer import live
from tests.support.chance import seeds

pytestmark = pytest.mark.explores


@pytest.mark.parametrize("seed", seeds(60, fixed=24))
def test_an_observer_publishes_what_the_quorum_has_committed(seed: int) -> None:
    live(seed)
