"""The set-up of logging: format, level, the lines of a start, and limits on repetition."""

from __future__ import annotations

import io
import json
import logging
import subprocess
import sys
from collections.abc import Iterator

import pytest

from barnabas.broker.logging.setup import (
    AUDIT_LOGGER,
    START_LINES_WAIT_S,
    RateLimit,
    StartLines,
    configure,
    escaped,
)
from tests.broker.fakes import ManualTimer


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _restored_logging() -> Iterator[None]:
    root, *loggers = (logging.getLogger(name) for name in ("", "barnabas", AUDIT_LOGGER))
    before = root.handlers[:], [one.level for one in (root, *loggers)]
    yield
    root.handlers[:], levels = before
    for one, level in zip((root, *loggers), levels, strict=True):
        one.setLevel(level)


def said(stream: io.StringIO) -> list[str]:
    return stream.getvalue().splitlines()


@pytest.mark.parametrize(("as_json", "stream"), [(True, Terminal()), (False, io.StringIO())])
def test_the_format_can_be_chosen(as_json: bool, stream: io.StringIO) -> None:
    configure("INFO", stream, as_json=as_json)
    logging.getLogger("barnabas").info("ready")
    assert said(stream)[0].startswith("{") is as_json


def test_the_level_applies_to_this_package_and_libraries_log_warnings() -> None:
    stream = io.StringIO()
    configure("debug", stream)
    logging.getLogger("barnabas.network").debug("shown")
    logging.getLogger("asyncio").info("not shown")
    logging.getLogger("asyncio").warning("shown")
    configure("WARNING", stream)
    logging.getLogger("barnabas.network").info("not shown")
    assert [json.loads(line)["message"] for line in said(stream)] == ["shown", "shown"]


def test_what_the_authorizer_refuses_is_written_whatever_the_level_of_the_broker() -> None:
    stream = io.StringIO()
    configure("ERROR", stream)
    logging.getLogger(AUDIT_LOGGER).info("refused")
    logging.getLogger(AUDIT_LOGGER).debug("granted")
    assert [json.loads(line)["message"] for line in said(stream)] == ["refused"]


def test_nothing_heavy_is_imported_before_the_first_line_and_rich_never() -> None:
    code = (
        "import io, logging, sys; from barnabas.broker.logging.setup import configure; stream = io.StringIO();"
        "configure('INFO', stream); assert 'structlog' not in sys.modules;"
        "logging.getLogger('barnabas').info('ready'); assert 'ready' in stream.getvalue();"
        "assert 'structlog' in sys.modules; assert 'rich' not in sys.modules;"
        "import rich; from rich.console import Console"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


# ---- log lines of a start


def start_lines(timer: ManualTimer) -> tuple[StartLines, io.StringIO]:
    stream = io.StringIO()
    configure("INFO", stream)
    return StartLines(timer.time), stream


def test_lines_of_a_start_are_held_back_until_its_end() -> None:
    lines, stream = start_lines(ManualTimer())
    logger = logging.getLogger("barnabas.config")
    logger.info("first")
    logger.info("second")
    assert not said(stream)
    lines.end()
    assert [json.loads(line)["message"] for line in said(stream)] == ["first", "second"]
    logger.info("third")
    assert len(said(stream)) == 3
    lines.end()
    assert len(said(stream)) == 3


def test_a_warning_is_written_at_once_with_the_lines_held_before_it() -> None:
    lines, stream = start_lines(ManualTimer())
    logging.getLogger("barnabas.config").info("first")
    logging.getLogger("barnabas.storage").warning("second")
    assert [json.loads(line)["message"] for line in said(stream)] == ["first", "second"]
    logging.getLogger("barnabas.config").info("third")
    assert len(said(stream)) == 2
    lines.end()
    assert len(said(stream)) == 3


def test_a_slow_start_writes_its_lines_meanwhile() -> None:
    timer = ManualTimer()
    _, stream = start_lines(timer)
    logging.getLogger("barnabas.storage").info("first")
    timer.advance(START_LINES_WAIT_S)
    logging.getLogger("barnabas.storage").info("second")
    assert len(said(stream)) == 2


def test_lines_held_at_the_end_of_the_process_are_written() -> None:
    code = (
        "import logging, sys; from barnabas.broker.logging.setup import StartLines, "
        "configure; configure(); StartLines();"
        "logging.getLogger('barnabas').info('ready'); sys.exit(1)"
    )
    ended = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert ended.returncode == 1
    assert "ready" in ended.stdout


# ---- repetition


def test_one_cause_gives_one_line_and_then_a_count(caplog: pytest.LogCaptureFixture) -> None:
    timer = ManualTimer()
    limit = RateLimit(interval_s=10, now=timer.time)
    logger = logging.getLogger("barnabas.network")
    for _ in range(5):
        limit.warning(logger, "192.0.2.1", "closing %s", "192.0.2.1")
    timer.advance(10)
    limit.warning(logger, "192.0.2.1", "closing %s", "192.0.2.1")
    limit.warning(logger, "192.0.2.2", "closing %s", "192.0.2.2")
    assert [record.getMessage() for record in caplog.records] == [
        "closing 192.0.2.1",
        "closing 192.0.2.1 (and 4 times more since the last such line)",
        "closing 192.0.2.2",
    ]


def test_remembered_causes_are_bounded() -> None:
    limit = RateLimit(now=ManualTimer().time)
    for key in range(5000):
        assert limit.admit(key) == 0
    assert len(limit._seen) == 1000
    assert limit.admit(4999) is None


def test_names_cannot_begin_a_line_or_control_the_terminal() -> None:
    stream = Terminal()
    configure("INFO", stream)
    logger = logging.getLogger("barnabas.groups")
    logger.info("Group %s: %d members, %r, %s", "g\nready\x1b[2K", 3, "m\n", ValueError("x\u2028y"))
    logger.info("%s and %s", 1, "plain")
    (first, second) = said(stream)
    assert "Group g\\nready\\x1b[2K: 3 members, 'm\\n', x\\u2028y" in first
    assert "1 and plain" in second


def test_lines_of_our_own_may_have_several_lines() -> None:
    stream = Terminal()
    configure("INFO", stream)
    logging.getLogger("barnabas").info("one\ntwo")
    assert len(said(stream)) == 2


def test_json_escapes_once() -> None:
    stream = io.StringIO()
    configure("INFO", stream)
    logging.getLogger("barnabas").info("Group %s", "g\nready")
    (line,) = said(stream)
    assert json.loads(line)["message"] == "Group g\nready"


def test_text_without_such_characters_is_unchanged() -> None:
    assert escaped("a\\n é") == "a\\n é"
