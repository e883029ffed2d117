"""The installed command: click parses every command but `serve`."""

from __future__ import annotations

import subprocess
import sys

from barnabas.broker.startup.exit_codes import EXIT_USAGE


def test_everything_else_is_left_to_the_command_line() -> None:
    words = [sys.executable, "-m", "barnabas.cli"]
    version = subprocess.run([*words, "--version"], check=True, capture_output=True, text=True)
    assert version.stdout.startswith("barnabas ")
    wrong = subprocess.run([*words, "serve", "/nowhere"], check=False, capture_output=True, text=True)
    assert wrong.returncode == EXIT_USAGE
    assert "usage: " in wrong.stderr
