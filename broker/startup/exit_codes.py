"""The exit codes of `barnabas serve`."""

from __future__ import annotations

from typing import Final

EXIT_STOPPED: Final = 0
"""The broker stopped in order."""

EXIT_FAILED: Final = 1
"""The broker did not start, or a failure stopped it."""

EXIT_USAGE: Final = 2
"""The command line or the configuration is wrong."""
