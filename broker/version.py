"""This broker's own version, from the installed distribution, so that it is written down in one place only."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version


def broker_version() -> str:
    """As in pyproject.toml; "unknown" when run from a tree that was never installed."""
    try:
        return version("barnabas")
    except PackageNotFoundError:
        return "unknown"
