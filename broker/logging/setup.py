"""Sets up log lines: text on a terminal, JSON elsewhere; structlog over the standard library.

Modules log with `logging.getLogger("barnabas.<part>")`; `extra` becomes fields. By default no request logs a line.
"""

from __future__ import annotations

import copy
import logging
import os
import sys
import time
from collections.abc import Callable
from typing import Final, TextIO

ROOT_LOGGER = "barnabas"
"""Users set the level of this logger; libraries log from WARNING on."""

AUDIT_LOGGER = "kafka.authorizer.logger"
"""Kafka's name of the logger of what the authorizer refuses (INFO) and grants (DEBUG); its level is its own."""

LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")

RATE_LIMIT_S = 10.0
_MAX_REMEMBERED_KEYS = 1000

START_LINES_WAIT_S: Final = 0.5
"""A start that takes longer writes its lines as they come."""


def configure(level: str = "INFO", stream: TextIO | None = None, *, as_json: bool | None = None) -> None:
    """Sends log lines from `level` on to `stream` (standard output).

    As text if the stream is a terminal, with colours unless NO_COLOR is set, else as JSON; `as_json` overrides that.
    structlog is imported with the first line that is written.
    """
    stream = stream if stream is not None else sys.stdout
    terminal = stream.isatty()
    handler = LogHandler(
        stream,
        as_json=not terminal if as_json is None else as_json,
        colours=terminal and not os.environ.get("NO_COLOR"),
    )
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    logging.getLogger(ROOT_LOGGER).setLevel(level.upper())
    logging.getLogger(AUDIT_LOGGER).setLevel(logging.INFO)


class LogHandler(logging.StreamHandler[TextIO]):
    """Writes lines as structlog formats them."""

    def __init__(self, stream: TextIO, *, as_json: bool, colours: bool) -> None:
        super().__init__(stream)
        self._as_json = as_json
        self._colours = colours
        self._structlog: logging.Formatter | None = None

    def format(self, record: logging.LogRecord) -> str:
        if self._structlog is None:
            from barnabas.broker.logging.formatter import (
                formatter,  # not before there is a line: it costs 20 ms
            )

            self._structlog = formatter(as_json=self._as_json, colours=self._colours)
        return self._structlog.format(record if self._as_json else _with_escapes(record))


def _with_escapes(record: logging.LogRecord) -> logging.LogRecord:
    """The record for a terminal: names that clients have chosen neither begin lines of their own nor control it.

    Only arguments are escaped, since the line itself is ours. JSON has escapes of its own.
    """
    args = record.args
    if not isinstance(args, tuple) or all(isinstance(arg, int | float) for arg in args):
        return record
    shown = tuple(arg if isinstance(arg, int | float) else _Escaped(arg) for arg in args)
    copied = copy.copy(record)
    copied.args = shown
    return copied


class _Escaped:
    """An argument of a log line without line breaks and control characters."""

    def __init__(self, value: object) -> None:
        self._value = value

    def __str__(self) -> str:
        return escaped(str(self._value))

    def __repr__(self) -> str:
        return escaped(repr(self._value))


def escaped(text: str) -> str:
    """The text with escapes (\\n, \\x1b, \\u2028) in place of what is not to be printed."""
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode("ascii") for one in text)


class StartLines(logging.Handler):
    """Keeps the lines of a start until it is over, so that no client of a quick start waits for structlog.

    Warnings are written at once, with the lines before them; so are all lines of a slow start. end(), or the end of
    the process, writes the rest.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        """Puts itself before the present handler of the root logger."""
        super().__init__()
        (self._target,) = logging.root.handlers
        self._kept: list[logging.LogRecord] = []
        self._now = now
        self._until_s = now() + START_LINES_WAIT_S
        logging.root.handlers[:] = [self]

    def emit(self, record: logging.LogRecord) -> None:
        """Keeps the line, or writes all lines kept."""
        self._kept.append(record)
        if record.levelno >= logging.WARNING or self._now() >= self._until_s:
            self.flush()

    def flush(self) -> None:
        kept, self._kept = self._kept, []
        for record in kept:
            self._target.handle(record)

    def end(self) -> None:
        """Ends the start: from here on each line is written when it comes."""
        self.flush()
        if logging.root.handlers == [self]:
            logging.root.handlers[:] = [self._target]
        self.close()


class RateLimit:
    """Limits repeated lines: one in `interval_s` for each key, with a count of those left out."""

    def __init__(self, interval_s: float = RATE_LIMIT_S, now: Callable[[], float] = time.monotonic) -> None:
        self._interval_s = interval_s
        self._now = now
        self._seen: dict[object, tuple[float, int]] = {}

    def warning(self, logger: logging.Logger, key: object, message: str, *args: object) -> None:
        """Logs a warning unless one with this key was logged a moment ago."""
        left_out = self.admit(key)
        if left_out == 0:
            logger.warning(message, *args)
        elif left_out is not None:
            logger.warning(message + " (and %d times more since the last such line)", *args, left_out)

    def admit(self, key: object) -> int | None:
        """None: do not log. Otherwise log; the number is how many lines were left out since the last one."""
        now = self._now()
        since, count = self._seen.pop(key, (-self._interval_s, 0))
        if now - since < self._interval_s:
            self._seen[key] = (since, count + 1)
            return None
        self._seen[key] = (now, 0)
        if len(self._seen) > _MAX_REMEMBERED_KEYS:
            del self._seen[next(iter(self._seen))]
        return count
