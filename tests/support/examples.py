"""Examples in documentation, so that tests can run them as they stand there."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from textwrap import dedent


def indented_after(text: str, words: str) -> str:
    """The indented block that comes after these words, without its indentation."""
    assert words in text, f"no {words!r} in the documentation"
    lines = text.partition(words)[2].partition("\n")[2].splitlines()
    block: list[str] = []
    for line in lines:
        if line and not line.startswith(" ") and block:
            break
        if line.startswith(" ") or block:
            block.append(line)
    return dedent("\n".join(block)).strip() + "\n"


@contextmanager
def importable(code: str, name: str, directory: Path) -> Iterator[None]:
    """Makes the code a module of this name, and forgets it afterwards."""
    (directory / f"{name}.py").write_text(code)
    sys.path.insert(0, str(directory))
    try:
        yield
    finally:
        sys.path.remove(str(directory))
        sys.modules.pop(name, None)
