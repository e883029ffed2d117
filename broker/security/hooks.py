"""Classes of a user's own, named in the configuration as python:module:Class.

What a key names and is not there must not be left out: the broker does not start.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, Final

from barnabas.config.keys import ConfigKey

PREFIX: Final = "python:"


def load_hook(key: ConfigKey[Any], text: str) -> Callable[[], Any]:
    """The class (or other callable without arguments) that a key's value names as python:module:Class.

    Raises ConfigError, with the reason, where it cannot be imported.
    """
    module, _, name = text.removeprefix(PREFIX).partition(":")
    if not (text.startswith(PREFIX) and module and name):
        raise key.error(text, "python:module:Class, the module as Python imports it")
    try:
        found: Any = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except Exception as error:  # a module of the user's own may raise anything
        reason = f"a class that can be imported; {type(error).__name__}: {error}"
        raise key.error(text, reason) from error
    if not callable(found):
        raise key.error(text, f"a class; {name} in {module} is {found!r}")
    made: Callable[[], Any] = found
    return made
