"""docs/cluster.md: its example of a file loads, its defaults are those of the keys, its commands and metrics exist."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Final

import click
import pytest

from barnabas.broker.metrics.families import FAMILIES
from barnabas.cli.main import main
from barnabas.config.broker_config import BrokerConfig
from tests.support.broker_process import ROOT

PAGE: Final = (ROOT / "docs" / "cluster.md").read_text(encoding="utf-8")
REFERENCE: Final = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
BLOCK: Final = re.compile(r"^ *```(\w+)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
DEFAULT: Final = re.compile(r"^### `([\w.]+)`\n\n.*\n\nDefault: (`[^`]*`|\w+)", re.MULTILINE)
ROW: Final = re.compile(r"^\| `([a-z.]+)` \| (`[^`]*`|unset|empty) \|", re.MULTILINE)
METRIC: Final = re.compile(r"`((?:kafka|barnabas)_[a-z_]+)`")


def blocks(kind: str) -> list[str]:
    """The contents of the blocks of one language."""
    return [text for language, text in BLOCK.findall(PAGE) if language == kind]


def own_commands() -> list[str]:
    """The commands of Barnabas in the examples, without their comments."""
    lines = [line for text in blocks("sh") for line in text.replace("\\\n", " ").splitlines()]
    return [found for line in lines if (found := line.strip()).startswith("barnabas ")]


def test_the_example_configures_a_member_without_complaint() -> None:
    (text,) = blocks("properties")
    config = BrokerConfig.of(text.encode())
    assert config.is_member
    assert config.inter_broker_listener == "PLAINTEXT"
    assert config.messages == []


def test_the_table_has_the_defaults_of_the_keys() -> None:
    rows, defaults = ROW.findall(PAGE), dict(DEFAULT.findall(REFERENCE))
    assert len(rows) > 20
    assert [(key, default) for key, default in rows if defaults.get(key) != default] == []


def test_the_example_sets_keys_of_the_table() -> None:
    keys = {key for key, _ in ROW.findall(PAGE)}
    (text,) = blocks("properties")
    assert {line.partition("=")[0] for line in text.splitlines()} - keys == {"listener.security.protocol.map"}


def test_the_metrics_exist() -> None:
    named = METRIC.findall(PAGE)
    assert len(named) > 5
    assert [name for name in named if name not in FAMILIES] == []


@pytest.mark.parametrize("line", own_commands())
def test_a_command_and_its_options_exist(line: str) -> None:
    """`serve` has a parser of its own, and no option is shown with it."""
    words = shlex.split(line, comments=True)[1:]
    command: click.Command = main
    while isinstance(command, click.Group):
        options = {option for each in command.params for option in each.opts}
        while words[0].startswith("--"):  # before a subcommand, with a value
            assert words[0] in options
            del words[:2]
        found = command.get_command(click.Context(command), words.pop(0))
        assert found is not None, line
        command = found
    options = {option for each in command.params for option in each.opts}
    assert [word for word in words if word.startswith("-") and word not in options] == []


def test_the_scripts_and_files_that_the_page_names_exist() -> None:
    named = re.findall(r"\bdocker/[\w.-]+", PAGE)
    assert named
    assert [name for name in named if not Path(ROOT / name).is_file()] == []
