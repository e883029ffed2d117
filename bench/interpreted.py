"""Runs a module with everything that is compiled hidden: python -m bench.interpreted MODULE [ARGUMENT ...]"""

from __future__ import annotations

import runpy
import sys
from collections.abc import Sequence
from importlib.machinery import EXTENSION_SUFFIXES, ModuleSpec, PathFinder
from importlib.util import spec_from_file_location
from pathlib import Path
from types import ModuleType

OURS = ("barnabas.protocol.", "barnabas.storage.", "barnabas.broker.", "barnabas.config.")


class SourceFinder(PathFinder):
    """Finds the source of our modules where others find what it was compiled to."""

    @classmethod
    def find_spec(
        cls, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """As PathFinder does it, but for extension modules of ours."""
        spec = super().find_spec(fullname, path, target)
        if spec is None or spec.origin is None or not fullname.startswith(OURS):
            return spec
        if not spec.origin.endswith(tuple(EXTENSION_SUFFIXES)):
            return spec
        source = Path(spec.origin).with_name(f"{fullname.rpartition('.')[2]}.py")
        return spec_from_file_location(fullname, source)


def hide_compiled() -> None:
    """From now on whatever is imported of ours runs as Python."""
    sys.meta_path.insert(0, SourceFinder)


def command_of(command: Sequence[str]) -> list[str]:
    """The command line `PYTHON -m MODULE [ARGUMENT ...]`, for the same with everything that is compiled hidden."""
    python, option, *words = command
    assert option == "-m", f"not a module: {command}"
    return [python, option, "bench.interpreted", *words]


def main(argv: Sequence[str]) -> None:
    """Runs the module as its own program would run."""
    hide_compiled()
    sys.argv = list(argv)
    runpy.run_module(argv[0], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main(sys.argv[1:])
