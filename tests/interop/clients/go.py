"""Programs in Go, built once for a module of tests."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "go"
BUILD_LIMIT_S = 600


def build_go(package: str, folder: Path, name: str = "program") -> Path:
    """Builds a package in ../go, "." for the one at its root; skips the test where it cannot be built."""
    if shutil.which("go") is None:
        pytest.skip("there is no go")
    made = folder / name
    built = subprocess.run(
        ["go", "build", "-o", str(made), f"./{package}"],
        cwd=SOURCE,
        capture_output=True,
        text=True,
        timeout=BUILD_LIMIT_S,
        check=False,
    )
    if built.returncode != 0:
        # Go is too old for the module, or its dependencies are not available.
        pytest.skip(f"go build: {built.stderr.strip().splitlines()[-1:]}")
    return made
