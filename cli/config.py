"""`barnabas config`: checks a configuration (`check`), and prints the reference of all keys (`docs`)."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from barnabas.cli.exit_codes import EXIT_FAILED, EXIT_USAGE

if TYPE_CHECKING:
    from barnabas.config.broker_config import BrokerConfig


COLOURS = {"error": "red", "warning": "yellow", "note": "cyan"}


@click.group()
def config() -> None:
    """Check a configuration, or print the reference of all keys."""


@config.command()
@click.argument("properties", required=False, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--strict",
    is_flag=True,
    help="Also fail on warnings: unknown, outdated and repeated keys, weak protection.",
)
@click.option(
    "--show", is_flag=True, help="Print each value that is not the default, and where it comes from."
)
@click.option(
    "--override", "overrides", multiple=True, metavar="KEY=VALUE", help="Set one key, as for `serve`."
)
def check(properties: Path | None, strict: bool, show: bool, overrides: tuple[str, ...]) -> None:
    """Check PROPERTIES, the KAFKA_* environment variables and the overrides as `serve` does.

    Errors are invalid values, and what could not be protected as it is asked for: JAAS entries, key stores, classes
    that cannot be loaded. Warnings are lines without their intended effect (unknown keys, keys that Kafka no longer
    has, keys that are set twice), and what is weak: logins without encryption, secrets that every user can read,
    certificates that expire within 30 days. Notes are known keys without effect in Barnabas.

    \b
    Exit codes:
      0  no errors; there may be notes, and warnings without --strict
      1  warnings, with --strict
      2  errors
    """
    from barnabas.broker.startup.security_check import check_security
    from barnabas.config.broker_config import BrokerConfig
    from barnabas.config.layers import InvalidConfigError

    try:
        loaded = BrokerConfig.load(
            None if properties is None else str(properties), environ=os.environ, overrides=overrides
        )
        weak = check_security(loaded, os.environ)
    except InvalidConfigError as invalid:
        _report(invalid.errors, invalid.messages)
        sys.exit(EXIT_USAGE)
    if show:
        click.echo(effective_settings(loaded) + "\n")
    _report([], [*loaded.messages, *weak], _clamps(loaded))
    if strict and (loaded.warnings or weak):
        sys.exit(EXIT_FAILED)


@config.command()
def docs() -> None:
    """Print the reference of every key as Markdown."""
    from barnabas.config.reference import render

    click.echo(render(), nl=False)


def effective_settings(loaded: BrokerConfig) -> str:
    """Each value that is not the default, after its source; passwords are hidden."""
    from barnabas.config.catalogue import BROKER_KEYS

    rows = [f"profile {loaded.profile}; default < profile < file < KAFKA_* environment < --override"]
    settings = [
        (setting.place, BROKER_KEYS[setting.key])
        for setting in loaded.settings()
        if loaded[BROKER_KEYS[setting.key]] != BROKER_KEYS[setting.key].default
    ]
    width = max((len(place) for place, _ in settings), default=0)
    for place, key in settings:
        text = "[hidden]" if key.sensitive else key.format(loaded[key])
        rows.append(f"{place:<{width}}  {key.name}={'' if text is None else text}")
    return "\n".join(rows)


def _clamps(loaded: BrokerConfig) -> list[str]:
    from barnabas.config.replicas import clamp_replication

    return clamp_replication(loaded)


def _report(errors: Iterable[object], messages: Iterable[object], notes: Sequence[str] = ()) -> None:
    """Prints errors, warnings and notes, and a line that counts them."""
    from barnabas.config.messages import ConfigMessage

    lines = [("error", str(error)) for error in errors]
    known = [message for message in messages if isinstance(message, ConfigMessage)]
    lines += [("warning", str(message)) for message in known if message.is_warning]
    lines += [("note", str(message)) for message in known if not message.is_warning]
    lines += [("note", note) for note in notes]
    for level, text in lines:
        click.echo(click.style(f"{level:<8}", fg=COLOURS[level]) + text)
    counts = [(level, sum(level == other for other, _ in lines)) for level in COLOURS]
    summary = [f"{count} {level}{'' if count == 1 else 's'}" for level, count in counts if count]
    click.echo(", ".join(summary) if summary else "fine: nothing is unknown, out of range or without effect")
