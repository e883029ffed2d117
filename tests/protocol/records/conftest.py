"""The module with the hot loop, interpreted and compiled; its tests run on both forms."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.protocol.records import record
from tests.support.loops import FORMS, in_form


@pytest.fixture(params=FORMS, scope="session")
def records(request: pytest.FixtureRequest) -> Any:
    """The record module: interpreted, and compiled where it has been built."""
    return in_form(record, request.param)
