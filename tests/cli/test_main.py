"""The command line, up to the broker that it starts."""

from __future__ import annotations

import gc
import logging
import runpy
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from barnabas.broker.version import VERSION
from barnabas.cli.exit_codes import EXIT_FAILED, EXIT_USAGE
from barnabas.cli.main import main
from barnabas.config.reference import render


@pytest.fixture(autouse=True)
def _restored_logging() -> Iterator[None]:
    root, ours = logging.getLogger(), logging.getLogger("barnabas")
    before = root.handlers[:], root.level, ours.level
    interval, thresholds = sys.getswitchinterval(), gc.get_threshold()
    yield
    gc.unfreeze()
    gc.set_threshold(*thresholds)
    sys.setswitchinterval(interval)
    root.handlers[:], level, ours_level = before
    root.setLevel(level)
    ours.setLevel(ours_level)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "server.properties"


def barnabas(*arguments: str | Path, environ: dict[str, str] | None = None) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments], env=environ)


# ---- help and version


@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_help_names_the_commands(flag: str) -> None:
    result = barnabas(flag)
    assert result.exit_code == 0
    for word in ("serve", "config", "--version"):
        assert word in result.stdout


def test_help_of_serve_names_its_exit_codes() -> None:
    result = barnabas("serve", "--help")
    assert result.exit_code == 0
    for word in ("PROPERTIES", "--override", "--show-config", "Exit codes:", "SIGTERM"):
        assert word in result.stdout


def test_version() -> None:
    result = barnabas("--version")
    assert (result.exit_code, result.stdout) == (0, f"barnabas {VERSION}\n")


def test_config_is_a_command_like_the_others() -> None:
    assert barnabas("config", "--help").exit_code == 0
    assert barnabas("config", "docs").stdout == render()


def test_the_command_runs_as_a_module(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["barnabas", "--version"])
    monkeypatch.delitem(sys.modules, "barnabas.cli.main")
    with pytest.raises(SystemExit) as ended:
        runpy.run_module("barnabas.cli.main", run_name="__main__")
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"barnabas {VERSION}\n"


# ---- errors


@pytest.mark.parametrize(
    "arguments",
    [
        ["sevre"],
        ["serve", "--no-such-option"],
        ["serve", "/nowhere/server.properties"],
        ["serve", "/"],
        ["serve", "--override"],
        ["serve", "--override", "num.partitions"],
        ["serve", "a", "b"],
    ],
)
def test_a_wrong_command_line_is_a_usage_error(arguments: list[str]) -> None:
    result = barnabas(*arguments)
    assert result.exit_code == EXIT_USAGE
    assert result.stdout == ""
    assert result.stderr


def test_all_errors_of_a_file_are_named_at_once(file: Path) -> None:
    file.write_text("num.partitions=0\nlog.segment.bytes=lots\nlisteners=nowhere\n")
    result = barnabas("serve", file, "--override", "fetch.max.bytes=1")
    assert result.exit_code == EXIT_USAGE
    assert result.stdout == ""
    for wrong in (
        f"{file} line 1: num.partitions",
        f"{file} line 2: log.segment.bytes",
        f"{file} line 3: listeners",
        "fetch.max.bytes",
    ):
        assert wrong in result.stderr
    assert "Traceback" not in result.output


# ---- --show-config and exit codes


def test_show_config_prints_each_setting_and_its_source(file: Path) -> None:
    file.write_text("num.partitions=3\nssl.key.password=secret\n")
    result = barnabas(
        "serve",
        file,
        "--show-config",
        "--override",
        "broker.rack=a",
        environ={"KAFKA_FETCH_MAX_BYTES": "2048"},
    )
    assert result.exit_code == 0
    places = {row.split()[-1]: row.rsplit(maxsplit=1)[0].strip() for row in result.stdout.splitlines()[1:]}
    assert places["num.partitions=3"] == f"{file} line 1"
    assert places["broker.rack=a"] == "--override"
    assert "KAFKA_FETCH_MAX_BYTES" in places["fetch.max.bytes=2048"]
    assert "secret" not in result.stdout


def test_show_config_without_a_file_prints_the_defaults() -> None:
    result = barnabas("serve", "--show-config")
    assert result.exit_code == 0
    assert result.stdout.startswith("profile ")


def test_the_exit_code_is_the_brokers(tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        result = barnabas(
            "serve",
            *("--override", f"listeners=PLAINTEXT://127.0.0.1:{port}"),
            *("--override", f"log.dirs={tmp_path}"),
        )
    assert result.exit_code == EXIT_FAILED
    assert "cannot start" in result.stderr
    assert str(port) in result.stderr
