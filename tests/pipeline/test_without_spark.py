"""What `make test` meets on a machine that has no PySpark: it brings none itself."""

from __future__ import annotations

import subprocess
import sys

from tests.support.broker_process import ROOT

HIDDEN = """
import sys, pytest
sys.modules["pyspark"] = None
sys.exit(pytest.main(["--collect-only", "-q", "-p", "no:cacheprovider", "tests/pipeline"]))
"""


def test_tests_are_collected_all_the_same() -> None:
    found = subprocess.run(
        [sys.executable, "-c", HIDDEN], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert found.returncode == 0, found.stdout[-4000:]
