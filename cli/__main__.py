"""`barnabas`, also `python -m barnabas.cli`. A plain `serve` starts at once; all else is left to cli/main.py.

Reading a command line with click costs a tenth of a start, and `barnabas serve server.properties` needs no help.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import NamedTuple

OVERRIDE = "--override"


class ServeLine(NamedTuple):
    """What `barnabas serve` is told."""

    properties: str | None
    overrides: tuple[str, ...]


def plain_serve_line(words: Sequence[str]) -> ServeLine | None:
    """`serve [FILE] [--override KEY=VALUE ...]`; None for every other line, right or wrong: click looks at those."""
    if not words or words[0] != "serve":
        return None
    properties: str | None = None
    overrides = []
    rest = iter(words[1:])
    for word in rest:
        if word == OVERRIDE:
            override = next(rest, None)
            if override is None:
                return None
            overrides.append(override)
        elif word.startswith(f"{OVERRIDE}="):
            overrides.append(word[len(OVERRIDE) + 1 :])
        elif word.startswith("-") or properties is not None or not _is_readable_file(word):
            return None
        else:
            properties = word
    return ServeLine(properties, tuple(overrides))


def _is_readable_file(path: str) -> bool:
    return os.path.isfile(path) and os.access(path, os.R_OK)


def main() -> None:
    """The installed command."""
    line = plain_serve_line(sys.argv[1:])
    if line is None:
        from barnabas.cli.main import main as command_line

        command_line()
        return
    from barnabas.broker.startup.serving import serve

    try:
        sys.exit(serve(line.properties, line.overrides))
    except KeyboardInterrupt:  # before it listens to signals; as click does it
        print("Aborted!", file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
