"""What is in a directory, so that a test can say that nothing in it has changed."""

from __future__ import annotations

import hashlib
from pathlib import Path


def tree(directory: Path) -> dict[str, tuple[int, int, str]]:
    """Of each file and directory in it: mode, time of the last change in ns, hash of the contents."""
    found = {}
    for path in sorted([directory, *directory.rglob("*")]):
        status = path.stat()
        content = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
        found[str(path.relative_to(directory))] = (status.st_mode, status.st_mtime_ns, content)
    return found


def make_read_only(directory: Path) -> None:
    """Takes the right to write away from everything in it."""
    for path in [directory, *directory.rglob("*")]:
        path.chmod(0o555 if path.is_dir() else 0o444)
