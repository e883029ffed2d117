"""Tests run on what is compiled, where it is; with BARNABAS_INTERPRETED=1 on the same source as plain Python.

None runs where something compiled is older than its source, which it hides: that would prove nothing.

Only in the process of the tests: a broker that they start is compiled if anything is.
"""

from __future__ import annotations

import os

import pytest

from bench.interpreted import hide_compiled

if os.environ.get("BARNABAS_INTERPRETED"):
    hide_compiled()  # before any of our modules is imported

from broker import compiled  # after what hides others


def pytest_sessionstart() -> None:
    """Refuses a stale build."""
    sources = [] if os.environ.get("BARNABAS_INTERPRETED") else compiled.stale()
    if sources:
        pytest.exit(
            f"changed since they were compiled: {', '.join(sources)}. `make test` compiles them.",
            returncode=2,
        )
