"""Messages and APIs by their names."""

from __future__ import annotations

import difflib
import importlib
import pkgutil
from functools import cache
from typing import TYPE_CHECKING, Final

from barnabas.protocol import messages
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.schema import Message

if TYPE_CHECKING:
    from collections.abc import Iterable

MOST_NEAR_NAMES: Final = 5


class UnknownNameError(Exception):
    """No message, API or version is called that; the text names what comes near."""


@cache
def message_types() -> dict[str, type[Message]]:
    """Every message by its name, in order of modules and declarations."""
    found: dict[str, type[Message]] = {}
    for module in pkgutil.iter_modules(messages.__path__):
        for value in vars(importlib.import_module(f"{messages.__name__}.{module.name}")).values():
            if isinstance(value, type) and issubclass(value, Message) and value is not Message:
                found[value.__name__] = value
    return found


def find_message(name: str) -> type[Message]:
    """The message of that name, whatever its case. Raises UnknownNameError."""
    by_name = {known.lower(): message for known, message in message_types().items()}
    found = by_name.get(name.lower())
    if found is None:
        raise UnknownNameError(f"no message is named {name!r}{_near(name, message_types())}")
    return found


def version_of(message_type: type[Message], version: int | None) -> int:
    """The version that is meant, by default the latest. Raises UnknownNameError for one that does not exist."""
    if message_type.versions.high < message_type.versions.low:
        raise UnknownNameError(f"{message_type.__name__} has no versions in Kafka 4.3")
    if version is None:
        return message_type.versions.high
    if not message_type.versions.has(version):
        raise UnknownNameError(
            f"{message_type.__name__} has versions {message_type.versions}, and not {version}"
        )
    return version


def api_name(key: ApiKey) -> str:
    """As Kafka's documents have it: `ListOffsets`."""
    return "".join(word.capitalize() for word in key.name.split("_"))


def find_api(text: str) -> ApiKey:
    """The API of that name or number: `Fetch`, `FETCH`, `list_offsets`, `1`. Raises UnknownNameError."""
    if text.isascii() and text.isdigit():
        try:
            return ApiKey(int(text))
        except ValueError:
            raise UnknownNameError(f"Kafka 4.3 has no API with the key {text}") from None
    wanted = text.replace("_", "").replace("-", "").lower()
    for key in ApiKey:
        if api_name(key).lower() == wanted:
            return key
    raise UnknownNameError(f"no API is named {text!r}{_near(text, map(api_name, ApiKey))}")


def _near(name: str, known: Iterable[str]) -> str:
    """The end of a sentence: names that begin or contain what was given, then those that are spelled like it."""
    by_lower = {each.lower(): each for each in known}
    wanted = name.lower()
    begins = [each for each in by_lower if wanted and each.startswith(wanted)]
    contains = [each for each in by_lower if len(wanted) > 2 and wanted in each]
    alike = difflib.get_close_matches(wanted, by_lower, n=MOST_NEAR_NAMES)
    near = list(dict.fromkeys([*sorted(begins, key=len), *alike, *sorted(contains, key=len)]))[
        :MOST_NEAR_NAMES
    ]
    return f"; near it: {', '.join(by_lower[each] for each in near)}" if near else ""
