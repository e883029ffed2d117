"""Log lines as JSON and for a terminal."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator

import pytest

from barnabas.broker.logging.setup import configure


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _restored_logging() -> Iterator[None]:
    root, ours = logging.getLogger(), logging.getLogger("barnabas")
    before = root.handlers[:], root.level, ours.level
    yield
    root.handlers[:], level, ours_level = before
    root.setLevel(level)
    ours.setLevel(ours_level)


def said(stream: io.StringIO) -> list[str]:
    return stream.getvalue().splitlines()


def test_without_a_terminal_lines_are_json() -> None:
    stream = io.StringIO()
    configure("INFO", stream)
    logging.getLogger("barnabas.storage").warning("log %s is damaged", "t-0", extra={"offset": 17})
    (line,) = said(stream)
    facts = json.loads(line)
    assert facts.pop("timestamp").endswith("Z")
    assert facts == {
        "message": "log t-0 is damaged",
        "level": "warning",
        "logger": "barnabas.storage",
        "offset": 17,
    }


def test_json_lines_contain_tracebacks() -> None:
    stream = io.StringIO()
    configure("INFO", stream)
    try:
        raise ZeroDivisionError("a bug")
    except ZeroDivisionError:
        logging.getLogger("barnabas.network").exception("closing")
    (line,) = said(stream)
    assert "ZeroDivisionError: a bug" in json.loads(line)["exception"]


def test_values_that_json_lacks_are_shown_as_text() -> None:
    stream = io.StringIO()
    configure("INFO", stream)
    logging.getLogger("barnabas").info("ready", extra={"topic_id": b"\0\1"})
    assert "\\x00" in json.loads(said(stream)[0])["topic_id"]


def test_lines_on_a_terminal_are_readable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    stream = Terminal()
    configure("INFO", stream)
    logging.getLogger("barnabas.network").warning("closing %s", "192.0.2.1", extra={"requests": 5})
    (line,) = said(stream)
    assert "\x1b[" in line
    assert "closing 192.0.2.1" in line
    assert "requests" in line


def test_colours_can_be_disabled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    stream = Terminal()
    configure("INFO", stream)
    logging.getLogger("barnabas.network").warning("closing %s", "192.0.2.1")
    (line,) = said(stream)
    assert "\x1b[" not in line
    assert line.endswith("[warning  ] closing 192.0.2.1 [barnabas.network]")


def test_tracebacks_on_a_terminal_are_plain() -> None:
    stream = Terminal()
    configure("INFO", stream)
    try:
        raise ZeroDivisionError("a bug")
    except ZeroDivisionError:
        logging.getLogger("barnabas.network").exception("closing")
    assert said(stream)[-1] == "ZeroDivisionError: a bug"
