"""What the commands say of themselves: help for each flag, and the page of documentation."""

from __future__ import annotations

import subprocess
import sys

import click
import pytest
from click.testing import CliRunner

from barnabas.cli.admin.shapes import ROWS, type_name
from barnabas.cli.main import main
from docs.cli_reference import commands, render

COMMANDS = commands()


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_each_option_is_explained(name: str) -> None:
    command = COMMANDS[name]
    text = CliRunner().invoke(main, [*name.split(), "--help"]).stdout
    assert command.help
    for option in command.params:
        assert isinstance(option, click.Option)
        assert option.help, f"{option.opts[0]} of {name} is not explained"
        assert option.opts[0] in text
    if " " not in name:
        assert "Exit codes:" in text


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_each_command_connects_in_the_same_way(name: str) -> None:
    flags = {option.opts[0] for option in COMMANDS[name].params}
    assert flags >= {"--bootstrap-server", "--command-config", "--json", "--version"}


def test_the_page_has_every_command_and_every_shape() -> None:
    page = render()
    for name in COMMANDS:
        assert f"# barnabas {name}\n" in page
    for row in ROWS:
        assert f"\n### {type_name(row)}\n" in page


def test_help_lists_the_commands() -> None:
    text = CliRunner().invoke(main, ["--help"]).stdout
    for name in COMMANDS:
        assert f"  {name.split()[0]} " in text


def test_serving_imports_nothing_of_this() -> None:
    names = "[name for name in sys.modules if name.startswith('barnabas.cli.admin')]"
    code = f"import sys, barnabas.cli.main, barnabas.broker.startup.server; print({names})"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "[]\n"
