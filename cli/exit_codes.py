"""The exit codes of the commands; 0 is success."""

from __future__ import annotations

from typing import Final

EXIT_FAILED: Final = 1
"""The command was understood and could not be carried out, or not wholly, or found what it looks for."""

EXIT_USAGE: Final = 2
"""The command line or the configuration is wrong, or what is to be read is not there."""
