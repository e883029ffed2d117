"""The exit codes of the commands; 0 is success."""

from __future__ import annotations

from typing import Final

EXIT_FAILED: Final = 1
"""The command failed, or a part of it, or it found what it searches for."""

EXIT_USAGE: Final = 2
"""The command line or the configuration is wrong, or the input does not exist."""
