"""Values of single settings, from the text that a client's properties have for them."""

from __future__ import annotations

from collections.abc import Mapping

from barnabas.security.errors import SettingError

_MOST_DIGITS = 10


def number_of(values: Mapping[str, str], key: str, default: int, most: int) -> int:
    """A number from 0 to `most`. Raises SettingError."""
    text = values.get(key)
    if text is None:
        return default
    if not (text.isascii() and text.isdecimal()) or len(text) > _MOST_DIGITS or int(text) > most:
        raise SettingError(key, text, f"must be a number from 0 to {most}")
    return int(text)


def flag_of(values: Mapping[str, str], key: str) -> bool:
    """True or false; false where it is not set. Raises SettingError."""
    text = values.get(key, "false").lower()
    if text not in ("true", "false"):
        raise SettingError(key, text, "must be true or false")
    return text == "true"
