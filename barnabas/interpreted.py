"""Loads the source of our modules where Python would load what it was compiled to (see BARNABAS_INTERPRETED)."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib.machinery import EXTENSION_SUFFIXES, ModuleSpec, PathFinder
from types import ModuleType

PLAIN = {"BARNABAS_INTERPRETED": "1"}
"""The environment of a process that is to run as plain Python."""


class SourceFinder(PathFinder):
    """Finds the source beside a compiled module."""

    @classmethod
    def find_spec(
        cls, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """As PathFinder does it, but for extension modules of ours."""
        if not fullname.startswith("barnabas."):
            return None
        spec = super().find_spec(fullname, path, target)
        if spec is None or spec.origin is None or not spec.origin.endswith(tuple(EXTENSION_SUFFIXES)):
            return spec
        from importlib.util import spec_from_file_location  # where nothing is built a start does without

        directory = os.path.dirname(spec.origin)
        return spec_from_file_location(fullname, os.path.join(directory, f"{fullname.rpartition('.')[2]}.py"))


def hide_compiled() -> None:
    """From now on each of our modules that is imported runs as Python."""
    if SourceFinder not in sys.meta_path:
        sys.meta_path.insert(0, SourceFinder)
