"""Programs in Go, each built once by a process of tests."""

from __future__ import annotations

import shutil
import subprocess
from functools import cache
from pathlib import Path

import pytest

from tests.conformance.kafka_jars import BUILD, WORKER

SOURCE = Path(__file__).parents[1] / "go"
BUILD_LIMIT_S = 600


@cache
def build_go(package: str) -> Path:
    """Builds a package of ../go, "" for the one at its root; skips the test where it cannot be built."""
    if shutil.which("go") is None:
        pytest.skip("there is no go")
    made = BUILD / WORKER / f"go-{package or 'roundtrip'}"
    made.parent.mkdir(parents=True, exist_ok=True)
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
