"""The command line of `barnabas serve`, from both entry points."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from barnabas.broker.startup import serving
from barnabas.cli import __main__ as command
from barnabas.cli import main as cli

FILE = __file__
"""An existing file."""


@pytest.mark.parametrize("enter", [command.main, cli.main])
@pytest.mark.parametrize(
    ("words", "line"),
    [
        ([], (None, [])),
        ([FILE], (FILE, [])),
        (["--override", "a=b", FILE, "--override=c=d"], (FILE, ["a=b", "c=d"])),
        (["--override="], (None, [""])),
    ],
)
def test_both_entry_points_parse_a_command_line_alike(
    words: list[str], line: Any, enter: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    called: list[Any] = []

    def serve(*line: object) -> int:
        called.append(line)
        return 7

    monkeypatch.setattr(serving, "serve", serve)
    monkeypatch.setattr(sys, "argv", ["barnabas", "serve", *words])
    with pytest.raises(SystemExit) as ended:
        enter()
    assert (ended.value.code, called) == (7, [line])


def test_an_interrupt_before_the_brokers_handler_exits_quietly(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(serving, "serve", interrupted)
    monkeypatch.setattr(sys, "argv", ["barnabas", "serve"])
    with pytest.raises(SystemExit) as ended:
        command.main()
    assert (ended.value.code, capsys.readouterr().err) == (1, "Aborted!\n")


def test_serve_imports_no_heavy_modules() -> None:
    code = (
        "import sys, barnabas.cli.__main__, barnabas.cli.serve, "
        "barnabas.broker.startup.serving, barnabas.broker.startup.server; "
        "barnabas.broker.kafka_apis.handlers.register_all(); print(*sys.modules)"
    )
    ended = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    heavy = {"click", "rich", "structlog", "prometheus_client", "google.protobuf", "logging.handlers", "uuid"}
    heavy |= {"hashlib", "ipaddress", "random", "barnabas.protocol.records.cleaning"}
    assert not heavy & set(ended.stdout.split())
