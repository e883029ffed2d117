"""The command as it is installed: `serve` without click, everything else with it."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from barnabas.broker.startup import serving
from barnabas.cli import __main__ as command
from barnabas.cli import main as cli

FILE = __file__
"""Some file that is there."""


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
def test_both_ways_in_read_a_line_alike(
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


def test_an_interrupt_before_the_broker_listens_to_it_ends_quietly(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(serving, "serve", interrupted)
    monkeypatch.setattr(sys, "argv", ["barnabas", "serve"])
    with pytest.raises(SystemExit) as ended:
        command.main()
    assert (ended.value.code, capsys.readouterr().err) == (1, "Aborted!\n")


def test_everything_else_is_left_to_the_command_line() -> None:
    words = [sys.executable, "-m", "barnabas.cli"]
    version = subprocess.run([*words, "--version"], check=True, capture_output=True, text=True)
    assert version.stdout.startswith("barnabas ")
    wrong = subprocess.run([*words, "serve", "/nowhere"], check=False, capture_output=True, text=True)
    assert wrong.returncode == serving.EXIT_USAGE
    assert "usage: " in wrong.stderr


def test_what_is_wrong_with_the_configuration_is_named_and_the_collector_works_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "server.properties"
    file.write_text("num.partitions=0\n")
    with pytest.raises(SystemExit) as ended:
        serving.serve(str(file), ("fetch.max.bytes=1",))
    assert ended.value.code == serving.EXIT_USAGE
    said = capsys.readouterr().err
    assert f"{file} line 1: num.partitions" in said
    assert "fetch.max.bytes" in said
    assert gc.isenabled()


def test_serving_needs_nothing_heavy() -> None:
    code = (
        "import sys, barnabas.cli.__main__, barnabas.cli.serve, "
        "barnabas.broker.startup.serving, barnabas.broker.startup.server; print(*sys.modules)"
    )
    ended = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    heavy = {"click", "rich", "structlog", "prometheus_client", "google.protobuf", "logging.handlers", "uuid"}
    assert not heavy & set(ended.stdout.split())


def test_streams_that_are_closed_lead_nowhere(tmp_path: Path) -> None:
    told = tmp_path / "told"
    program = (
        "import os, sys\n"
        "from barnabas.broker.startup.serving import open_closed_streams\n"
        "open_closed_streams()\n"
        "print('a line', flush=True)\n"
        "print('another', file=sys.stderr, flush=True)\n"
        "nowhere = os.stat(os.devnull)\n"
        "lead_nowhere = [os.path.samestat(os.fstat(number), nowhere) for number in (0, 1, 2)]\n"
        "open(sys.argv[1], 'w').write(str(lead_nowhere))\n"
    )
    closed = ["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh"]
    subprocess.run([*closed, sys.executable, "-c", program, str(told)], check=True)
    assert told.read_text() == "[True, True, True]"


def test_streams_that_are_open_stay_what_they_are() -> None:
    before = sys.stdout, sys.stderr, [os.fstat(number) for number in (0, 1, 2)]
    serving.open_closed_streams()
    assert (sys.stdout, sys.stderr, [os.fstat(number) for number in (0, 1, 2)]) == before
