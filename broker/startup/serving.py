"""Runs a broker from a command line; without click, which would slow the start of `barnabas serve`."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from barnabas.broker.startup.exit_codes import EXIT_USAGE

if TYPE_CHECKING:
    from barnabas.config.broker_config import BrokerConfig

STANDARD_STREAMS: Final = (0, 1, 2)


def serve(properties: str | None, overrides: Sequence[str]) -> int:
    """Runs a broker until a stop signal; returns the exit code.

    The garbage collector is off until clients are served (process.py turns it on again): a start makes
    60,000 objects, of which 1 in 100 is garbage, and collections take a tenth of it.
    """
    open_closed_streams()
    gc.disable()
    try:
        from barnabas.broker.startup.process import run

        return run(load_config(properties, overrides))
    finally:
        gc.enable()


def open_closed_streams() -> None:
    """Opens standard streams that the process was started without (`<&-`, `>&-`, `2>&-`) on /dev/null.

    Else the next files and sockets get these numbers: writes to standard error go into one of them, and libuv
    aborts the process, in the middle of a stop, when it closes a socket with such a number.
    """
    for number in STANDARD_STREAMS:
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest number that is free, which is this one
    # Python has no object for a stream that was closed when it started. The numbers stay open.
    sys.stdout = sys.stdout or open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = sys.stderr or open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115


def load_config(properties: str | None, overrides: Sequence[str]) -> BrokerConfig:
    """The configuration from all its sources. Ends the process with EXIT_USAGE, having named every error."""
    from barnabas.config.broker_config import BrokerConfig
    from barnabas.config.layers import InvalidConfigError

    try:
        return BrokerConfig.load(properties, environ=os.environ, overrides=overrides)
    except InvalidConfigError as errors:
        print(errors, file=sys.stderr)
        sys.exit(EXIT_USAGE)
