"""Starts the demonstration's broker by the `barnabas` command."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

READY: Final = re.compile(r"ready on (\S+):(\d+)")
START_LIMIT_S: Final = 60.0
STOP_LIMIT_S: Final = 60.0
POLL_S: Final = 0.05


class BrokerNotStartedError(Exception):
    """The broker did not become ready; the message quotes its output."""


def command() -> list[str]:
    """The command that belongs to this Python, or else the one on the path, or the module."""
    beside = Path(sys.executable).with_name("barnabas")
    found = str(beside) if beside.exists() else shutil.which("barnabas")
    return [found] if found else [sys.executable, "-m", "barnabas.cli"]


@contextmanager
def running(log_dir: Path, output: Path) -> Iterator[str]:
    """A broker on a free port of this machine; yields its bootstrap server, and stops it cleanly at the end. Its output
    goes to `output`. Raises BrokerNotStartedError.
    """
    settings = {
        "listeners": "PLAINTEXT://127.0.0.1:0",
        "log.dirs": str(log_dir),
        "barnabas.http.port": "-1",
        "auto.create.topics.enable": "false",
    }
    overrides = [word for key, value in settings.items() for word in ("--override", f"{key}={value}")]
    with output.open("w", encoding="utf-8") as writer:
        process = subprocess.Popen(
            [*command(), "serve", *overrides],
            stdin=subprocess.DEVNULL,
            stdout=writer,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # Ctrl-C reaches this process only, which stops the broker cleanly
        )
    try:
        yield _wait(process, output)
    finally:
        _stop(process)


def _wait(process: subprocess.Popen[bytes], output: Path) -> str:
    until = time.monotonic() + START_LIMIT_S
    while time.monotonic() < until and process.poll() is None:
        found = READY.search(output.read_text(errors="replace"))
        if found:
            return f"{found[1]}:{found[2]}"
        time.sleep(POLL_S)
    raise BrokerNotStartedError(
        f"the broker did not become ready in {START_LIMIT_S:.0f} s; {output} says: "
        f"{output.read_text(errors='replace')[-2000:]}"
    )


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(STOP_LIMIT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
