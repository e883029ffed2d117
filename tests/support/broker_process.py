"""Runs `barnabas serve` as a subprocess: starts, stops, kills and restarts it on the same directory.

Every start of the same object uses the same port, as a restarted broker does.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import IO

from tests.support.ports import held_ports

ROOT = Path(__file__).resolve().parents[2]
READY = re.compile(r"ready on (\S+):(\d+)")
START_LIMIT_S = 60.0
STOP_LIMIT_S = 60.0

DEFAULT_OVERRIDES = {"barnabas.http.port": "-1"}


class BrokerDidNotStartError(Exception):
    """The process ended, or timed out, before its ready line; the text is its output."""


class BrokerProcess:
    """One broker on one data directory, at most one process at a time."""

    clean_status = 0

    def __init__(
        self, data_dir: Path, overrides: Mapping[str, str] | None = None, *, host: str = "127.0.0.1"
    ) -> None:
        self.data_dir = data_dir
        self.host = host
        self.port = held_ports(1)[0] if host == "127.0.0.1" else 0
        """0: the broker chooses one at the first start, and its ready line has it."""
        self.overrides = {**DEFAULT_OVERRIDES, **(overrides or {})}
        self.environment: dict[str, str] = {}
        """Variables besides those of the tests, without KAFKA_* ones."""
        self.properties: Path | None = None
        """A server.properties to start from."""
        self._process: subprocess.Popen[str] | None = None
        self._output: Output | None = None

    @property
    def bootstrap(self) -> str:
        """host:port for a client's bootstrap.servers."""
        return f"{self.host}:{self.port}"

    @property
    def pid(self) -> int:
        """The id of the running process."""
        return self._running().pid

    @property
    def output(self) -> str:
        """The output of the process so far, both streams."""
        return "" if self._output is None else self._output.text

    @property
    def returncode(self) -> int | None:
        """The exit status of the last process; None while it runs."""
        return None if self._process is None else self._process.poll()

    def command(self) -> list[str]:
        """The command line of the next start."""
        settings = {
            "listeners": f"PLAINTEXT://{self.host}:{self.port}",
            "log.dirs": str(self.data_dir),
            **self.overrides,
        }
        words = [sys.executable, "-m", "barnabas.cli", "serve"]
        if self.properties is not None:
            words.append(str(self.properties))
        for key, value in settings.items():
            words += ["--override", f"{key}={value}"]
        return words

    def start(self, limit_s: float = START_LIMIT_S) -> BrokerProcess:
        """Starts the broker and waits for its ready line. Raises BrokerDidNotStartError without one."""
        assert self._process is None or self._process.poll() is not None, "it is already running"
        self.spawn()
        output = self._output
        assert output is not None
        ready = output.wait_for(READY, limit_s)
        if ready is None:
            self.kill()
            raise BrokerDidNotStartError(f"exit status {self.returncode}, output:\n{output.text}")
        self.host, self.port = ready[1], int(ready[2])
        return self

    def spawn(self) -> None:
        """Starts the process, in a session of its own, without waiting for it to be ready.

        Linux gives each session the same share of the processor: what is measured beside another is launched alike.
        """
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("KAFKA_")}
        self._process = subprocess.Popen(
            self.command(),
            cwd=ROOT,
            env={**inherited, **self.environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        assert self._process.stdout is not None
        self._output = Output(self._process.stdout)

    def signal(self, number: signal.Signals) -> None:
        """Sends a signal to the running process."""
        self._running().send_signal(number)

    def wait(self, limit_s: float = STOP_LIMIT_S) -> int:
        """Waits for the end of the process; returns its exit status. Raises subprocess.TimeoutExpired."""
        assert self._process is not None
        status = self._process.wait(limit_s)
        if self._output is not None:
            self._output.join()
        return status

    def stop(self, limit_s: float = STOP_LIMIT_S) -> int:
        """Sends SIGTERM and waits; returns the exit status."""
        self.signal(signal.SIGTERM)
        return self.wait(limit_s)

    def kill(self) -> None:
        """Kills the process (kill -9) if it still runs."""
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
        if self._process is not None:
            self.wait()

    def rss_bytes(self) -> int:
        """Resident memory of the process now."""
        return rss_bytes(self.pid)

    def _running(self) -> subprocess.Popen[str]:
        assert self._process is not None, "it was never started"
        assert self._process.poll() is None, f"it ended with {self._process.returncode}:\n{self.output}"
        return self._process

    def __enter__(self) -> BrokerProcess:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()


class Output:
    """Reads a process's output to its end in a thread, so that the pipe never fills up."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream
        self._lines: list[str] = []
        self._changed = threading.Condition()
        self._ended = False
        self._thread = threading.Thread(target=self._read, name="broker output", daemon=True)
        self._thread.start()

    @property
    def text(self) -> str:
        with self._changed:
            return "".join(self._lines)

    def wait_for(self, pattern: re.Pattern[str], limit_s: float) -> re.Match[str] | None:
        """Waits for a line with the pattern; None if the output ends or after `limit_s`."""
        seen = 0

        def found() -> re.Match[str] | bool:
            nonlocal seen
            for line in self._lines[seen:]:
                seen += 1
                if match := pattern.search(line):
                    return match
            return self._ended

        with self._changed:
            answer = self._changed.wait_for(found, limit_s)
        return answer if isinstance(answer, re.Match) else None

    def join(self) -> None:
        """Waits for the end of the output of a process that has ended."""
        self._thread.join(5)

    def _read(self) -> None:
        with self._stream:
            for line in self._stream:
                with self._changed:
                    self._lines.append(line)
                    self._changed.notify_all()
        with self._changed:
            self._ended = True
            self._changed.notify_all()


def rss_bytes(pid: int) -> int:
    """Resident memory of a process."""
    if sys.platform == "darwin":
        return int(subprocess.check_output(["ps", "-o", "rss=", "-p", str(pid)])) * 1024
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise ProcessLookupError(pid)
