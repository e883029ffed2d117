"""The findings of the tools in a log directory."""

from __future__ import annotations

from pathlib import Path

from barnabas.storage.env import RealEnv
from barnabas.storage.verify.directory import Verification
from barnabas.storage.verify.verifier import Severity


def findings(directory: Path) -> list[str]:
    """The findings of `barnabas log verify`, without notes."""
    return [
        f"{finding.path}: {finding.problem} (expected {finding.expected})"
        for finding in Verification(RealEnv()).run([str(directory)])
        if finding.severity is not Severity.NOTE
    ]
