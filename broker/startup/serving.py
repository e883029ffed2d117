"""From a command line to a broker that serves; without click, which `barnabas serve` does not wait for."""

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
    """Runs a broker until it is told to stop; returns the exit code.

    The garbage collector rests until clients are served (server.py turns it on again): a start makes
    60,000 objects, of which 1 in 100 is garbage, and looking through them again and again takes a tenth of it.
    """
    open_closed_streams()
    gc.disable()
    try:
        from barnabas.broker.startup.process import run

        return run(load_config(properties, overrides))
    finally:
        gc.enable()


def open_closed_streams() -> None:
    """Opens on /dev/null what the process was started without (`<&-`, `>&-`, `2>&-`).

    Else the next files and sockets get these numbers: who writes to standard error writes into one of them, and libuv
    aborts the process when it is to close a socket with such a number, which is in the middle of a stop.
    """
    for number in STANDARD_STREAMS:
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest number that is free, which is this one
    # Python has none for a stream that was closed when it started. What they write to is never closed.
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
