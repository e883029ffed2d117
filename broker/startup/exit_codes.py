"""The exit codes of `barnabas serve`, and why a broker does not start."""

from __future__ import annotations

from typing import Final

EXIT_STOPPED: Final = 0
"""The broker stopped in order, or gave its start up in order, as it was asked to."""

EXIT_FAILED: Final = 1
"""The broker did not start, or a failure stopped it."""

EXIT_USAGE: Final = 2
"""The command line or the configuration is wrong."""


class StartFailedError(Exception):
    """The broker cannot start, or not go on starting; the message is for the operator."""


class StartInterruptedError(Exception):
    """The broker was asked to stop while it waited for others in its start; its directories are in order."""
