"""A click group whose commands are imported when they are used, for `barnabas` and `barnabas pipeline`."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Mapping


class LazyGroup(click.Group):
    """`lazy_commands` holds `module:attribute` by command name."""

    def __init__(self, *args: Any, lazy_commands: Mapping[str, str], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._lazy_commands = lazy_commands

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*super().list_commands(ctx), *self._lazy_commands]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self._lazy_commands:
            return super().get_command(ctx, cmd_name)
        module, _, name = self._lazy_commands[cmd_name].partition(":")
        command: click.Command = getattr(import_module(module), name)
        return command
