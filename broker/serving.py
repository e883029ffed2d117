"""From a command line to a broker that serves; without click, which `barnabas serve` does not wait for."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from config.broker_config import BrokerConfig

EXIT_USAGE: Final = 2


def serve(properties: str | None, overrides: Sequence[str]) -> int:
    """Runs a broker until it is told to stop; returns the exit code.

    The garbage collector rests until clients are served (server.py turns it on again): a start makes
    60,000 objects, of which 1 in 100 is garbage, and looking through them again and again takes a tenth of it.
    """
    gc.disable()
    try:
        from broker.server import run

        return run(load_config(properties, overrides))
    finally:
        gc.enable()


def load_config(properties: str | None, overrides: Sequence[str]) -> BrokerConfig:
    """The configuration from all its sources. Ends the process with EXIT_USAGE, having named every error."""
    from config.broker_config import BrokerConfig
    from config.layers import InvalidConfigError

    try:
        return BrokerConfig.load(properties, environ=os.environ, overrides=overrides)
    except InvalidConfigError as errors:
        print(errors, file=sys.stderr)
        sys.exit(EXIT_USAGE)
