"""Classes of the operator's own, named as `python:module:Class` where Apache Kafka's configuration names a Java class.

The module must be importable: installed beside Barnabas, or in a directory of PYTHONPATH. It runs in the broker's
process, with all its rights.
"""

from __future__ import annotations

import importlib
from typing import Any, Final

from barnabas.config.keys import ConfigKey

PREFIX: Final = "python:"
FORM: Final = "python:module:Class"


class HookError(ValueError):
    """The text names no class that can be loaded; the message says why."""


def is_hook(text: str) -> bool:
    return text.startswith(PREFIX)


def load_hook(text: str, *methods: str) -> Any:
    """The class that `text` names, which must have these methods. Raises HookError."""
    module_name, colon, class_name = text.removeprefix(PREFIX).partition(":")
    if not (is_hook(text) and module_name and colon and class_name):
        raise HookError(f"it is not of the form {FORM}")
    try:
        module = importlib.import_module(module_name)
    except Exception as error:
        raise HookError(f"module {module_name} cannot be imported: {error}") from error
    found = getattr(module, class_name, None)
    if not isinstance(found, type):
        raise HookError(f"module {module_name} has no class {class_name}")
    missing = [name for name in methods if not callable(getattr(found, name, None))]
    if missing:
        raise HookError(f"class {class_name} has no method {', '.join(missing)}")
    return found


def make_hook(key: ConfigKey[Any], text: str, *methods: str) -> Any:
    """An object of the class that the value of a key names, made without arguments. Raises ConfigError."""
    try:
        found = load_hook(text, *methods)
    except HookError as error:
        raise key.error(text, f"{FORM} for a class that can be loaded; {error}") from error
    try:
        return found()
    except Exception as error:  # a class of the operator's own may raise anything
        reason = f"it cannot be made ({type(error).__name__}: {error})"
        raise key.error(text, f"{FORM} for a class that can be made without arguments; {reason}") from error
