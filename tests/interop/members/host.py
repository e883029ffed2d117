"""Starts, commands and kills the programs that run members."""

from __future__ import annotations

import contextlib
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from types import TracebackType

import pytest

from tests.interop.members.ledger import Ledger
from tests.support.broker_process import ROOT

END_LIMIT_S = 60.0


class Programs:
    """Programs of one kind; the output of all goes into one ledger."""

    def __init__(self, command: Sequence[str]) -> None:
        self.ledger = Ledger()
        self._command = list(command)
        self._changed = threading.Condition()
        self._running: list[Program] = []

    def start(self) -> Program:
        """Starts another program."""
        program = Program(self._command, self._add_line)
        self._running.append(program)
        return program

    def wait(self, condition: Callable[[Ledger], object], what: str, limit_s: float = 60.0) -> None:
        """Waits until the ledger meets a condition; fails the test on a timeout, or when a member has failed."""
        deadline = time.monotonic() + limit_s
        with self._changed:
            while not condition(self.ledger):
                assert not self.ledger.failures, self.ledger.failures
                left_s = deadline - time.monotonic()
                if left_s <= 0:
                    pytest.fail(f"not within {limit_s:g} s: {what}; {self._state()}")
                self._changed.wait(left_s)

    def kill(self, program: Program) -> None:
        """Kills a program (kill -9): its members do not leave."""
        program.kill()
        with self._changed:
            for name in program.members:
                self.ledger.remove_member(name)

    def _state(self) -> str:
        ends = {number: self.ledger.end(number) for number in sorted(self.ledger.events)}
        return f"owned: {self.ledger.owned}, committed: {ends}, rejected: {self.ledger.rejections[-5:]}"

    def _add_line(self, line: str) -> None:
        with self._changed:
            self.ledger.add_line(line)
            self._changed.notify_all()

    def __enter__(self) -> Programs:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for program in self._running:
            if kind is None:
                program.end()
            program.kill()


class Program:
    """One process with its members."""

    def __init__(self, command: list[str], add_line: Callable[[str], None]) -> None:
        self.members: list[str] = []
        self._add_line = add_line
        # The output of their loggers is ignored.
        self._process = subprocess.Popen(
            command,
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            encoding="utf-8",
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def join(self, name: str, topic: str, group: str, protocol: str, *, instance: str = "") -> None:
        """Adds a member that reads."""
        self._start(name, "join", name, topic, group, protocol, *filter(None, [instance]))

    def chain(
        self, name: str, source: str, target: str, group: str, protocol: str, *, abort_every: int = 0
    ) -> None:
        """Adds a member that copies in transactions."""
        self._start(name, "chain", name, source, target, group, protocol, str(abort_every))

    def leave(self, name: str) -> None:
        """Closes the member cleanly, which the ledger records."""
        self._send("leave", name)

    def end(self) -> None:
        """Has all members leave, and ends the program."""
        if self._process.poll() is None:
            assert self._process.stdin is not None
            self._process.stdin.close()
            self._process.wait(END_LIMIT_S)
        self._reader.join(END_LIMIT_S)

    def kill(self) -> None:
        """kill -9, if it still runs."""
        self._process.kill()
        self._process.wait()
        self._reader.join(END_LIMIT_S)
        if self._process.stdin is not None and not self._process.stdin.closed:
            with contextlib.suppress(BrokenPipeError):
                self._process.stdin.close()

    def _start(self, name: str, *words: str) -> None:
        self.members.append(name)
        self._send(*words)

    def _send(self, *words: str) -> None:
        stdin = self._process.stdin
        assert stdin is not None
        stdin.write(" ".join(words) + "\n")
        stdin.flush()

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as stream:
            for line in stream:
                # The incomplete last line of a killed program.
                if line.endswith("\n"):
                    self._add_line(line)
