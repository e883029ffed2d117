"""One group of bench/micro_cases.py in this process, as JSON: `python -m bench.micro_run GROUP SECONDS [--plain]`."""

from __future__ import annotations

import gc
import json
import sys
import tempfile
from collections.abc import Sequence
from importlib.machinery import SOURCE_SUFFIXES, FileFinder, ModuleSpec, SourceFileLoader
from pathlib import Path

PLAIN = "--plain"


class PlainModules:
    """Finds our modules as Python source, whatever is built beside it."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: object = None) -> ModuleSpec | None:
        """As the import system calls it."""
        if path is None or name.partition(".")[0] != "protocol":
            return None
        return FileFinder(path[0], (SourceFileLoader, SOURCE_SUFFIXES)).find_spec(name)


def main(argv: Sequence[str]) -> None:
    """Imports what is measured only when it is clear in which form."""
    group, seconds = argv[0], float(argv[1])
    if PLAIN in argv:
        sys.meta_path.insert(0, PlainModules)
    from bench.micro_cases import CASES

    with tempfile.TemporaryDirectory(prefix="bench-") as directory:
        gc.freeze()
        figures = CASES[group](Path(directory), seconds)
    print(json.dumps(figures))


if __name__ == "__main__":
    main(sys.argv[1:])
