"""One group of bench/micro_cases.py in this process, as JSON: `python -m bench.micro_run GROUP SECONDS [--plain]`."""

from __future__ import annotations

import gc
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from barnabas.interpreted import hide_compiled

PLAIN = "--plain"


def main(argv: Sequence[str]) -> None:
    """Imports the measured modules only once their form is chosen."""
    group, seconds = argv[0], float(argv[1])
    if PLAIN in argv:
        hide_compiled()
    from bench.micro_cases import CASES

    with tempfile.TemporaryDirectory(prefix="bench-") as directory:
        gc.freeze()
        figures = CASES[group](Path(directory), seconds)
    print(json.dumps(figures))


if __name__ == "__main__":
    main(sys.argv[1:])
