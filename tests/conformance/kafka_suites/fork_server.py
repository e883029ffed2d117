"""Starts `barnabas serve` for the tests of Kafka's suites by forks of one process, which spares each start the imports.

Each line of standard input is a JSON object: `properties` (a server.properties), `output` (a file for both streams of
the broker), `environment` (more variables) and `formatting` (options with which the directory is formatted first). The
answer is a line with the id of the new process. At the end of the input this process ends, and the brokers with it.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import signal
import sys
from types import FrameType
from typing import Any, Final

from barnabas.cli import serve

IMPORTED_LATE: Final = ("barnabas.broker.startup.serving", "barnabas.broker.startup.server", "uvloop", "ssl")


_running: Final[set[int]] = set()


def main() -> None:
    """Serves until the end of the input."""
    for name in IMPORTED_LATE:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    signal.signal(signal.SIGCHLD, _reap)
    for line in sys.stdin:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
        pid = os.fork()
        if pid == 0:
            _become_broker(json.loads(line))
        _running.add(pid)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
        print(pid, flush=True)
    for pid in tuple(_running):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _become_broker(wanted: dict[str, Any]) -> None:
    status = 1
    try:
        output = os.open(wanted["output"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        nothing = os.open(os.devnull, os.O_RDONLY)
        for source, target in ((nothing, 0), (output, 1), (output, 2)):
            os.dup2(source, target)
        os.environ.update(wanted["environment"])
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
        if wanted["formatting"]:
            _format(wanted["properties"], wanted["formatting"])
        status = serve.main([wanted["properties"]])
    except SystemExit as ended:
        status = ended.code if isinstance(ended.code, int) else 1
    finally:
        sys.stdout.flush()
        os._exit(status)


def _format(properties: str, options: list[str]) -> None:
    from barnabas.cli.main import main as command_line

    words = ["storage", "format", "--config", properties, "--cluster-id", "4L6g3nShT-eMCtK--X86sw", "-g"]
    command_line([*words, *options], standalone_mode=False)


def _reap(number: int, frame: FrameType | None) -> None:
    with contextlib.suppress(ChildProcessError):
        while (pid := os.waitpid(-1, os.WNOHANG)[0]) != 0:
            _running.discard(pid)


if __name__ == "__main__":
    main()
