"""Tests that `make test` works on a machine without PySpark, which it does not install."""

from __future__ import annotations

import subprocess
import sys

from tests.support.broker_process import ROOT

HIDDEN = """
import sys, pytest
sys.modules["pyspark"] = None
sys.exit(pytest.main(["--collect-only", "-q", "-p", "no:cacheprovider", "tests/pipeline"]))
"""


def test_tests_are_collected_without_pyspark() -> None:
    found = subprocess.run(
        [sys.executable, "-c", HIDDEN], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert found.returncode == 0, found.stdout[-4000:]
