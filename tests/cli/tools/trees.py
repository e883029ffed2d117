"""A description of a directory's contents, to check that no file changed."""

from __future__ import annotations

import hashlib
from pathlib import Path


def tree(directory: Path) -> dict[str, tuple[int, int, str]]:
    """For each file and directory: mode, modification time in ns, hash of the contents."""
    found = {}
    for path in sorted([directory, *directory.rglob("*")]):
        status = path.stat()
        content = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
        found[str(path.relative_to(directory))] = (status.st_mode, status.st_mtime_ns, content)
    return found


def make_read_only(directory: Path) -> None:
    """Removes the write permission of everything in it."""
    for path in [directory, *directory.rglob("*")]:
        path.chmod(0o555 if path.is_dir() else 0o444)
