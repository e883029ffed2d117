"""`barnabas serve` that kills itself with -9 at one of the operations by which it changes files.

BARNABAS_TEST_KILL_AT is the number of the operation, counted from 0 after the ready line, or, if negative, from the
start of the process (-1 is the first). The page cache survives: what an earlier operation wrote is there.
"""

from __future__ import annotations

import os
from random import SystemRandom
from typing import Final

from barnabas.storage.env import RealEnv
from tests.faults.storage_child import KillingEnv

KILL_AT: Final = "BARNABAS_TEST_KILL_AT"
_dice: Final = SystemRandom()


class BrokerEnv(KillingEnv):
    """The real file system, with a kill at one operation."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(0, 0)
        at = int(os.environ[KILL_AT])
        self.kill_at = -1 - at if at < 0 else -1
        if at >= 0:
            _begin_when_ready(self, at)

    def now_ms(self) -> int:
        return RealEnv.now_ms(self)

    def random_bytes(self, length: int) -> bytes:
        return _dice.randbytes(length)


def _begin_when_ready(env: BrokerEnv, at: int) -> None:
    from barnabas.broker.startup import process

    say = vars(process)["_say_it_is_ready"]

    def say_it_is_ready(line: str) -> None:
        say(
            line
        )  # first: what threads still do since the start must not end the process before anybody can connect
        env.operations, env.kill_at = 0, at

    setattr(process, "_say_it_is_ready", say_it_is_ready)  # noqa: B010


def run() -> None:
    from barnabas.broker.startup import process
    from barnabas.cli import main as cli

    setattr(process, "RealEnv", BrokerEnv)  # noqa: B010
    cli.main()


if __name__ == "__main__":
    run()
