"""The module with the hot loop exists twice, as Python and compiled; its tests run on both."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from protocol.records import record


def plain_record_module() -> ModuleType:
    """record.py run as Python, whatever is built beside it."""
    name = "tests.protocol.records.plain_record"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, Path(record.__file__).parent / "record.py")
        assert spec is not None
        assert spec.loader is not None
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


@pytest.fixture(params=["plain", "compiled"], scope="session")
def records(request: pytest.FixtureRequest) -> Any:
    """The record module: plain Python, and compiled where it has been built."""
    if request.param == "plain":
        return plain_record_module()
    if not record.COMPILED:
        pytest.skip("record.py is not compiled here")
    return record
