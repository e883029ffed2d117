"""JSON objects from elsewhere, read strictly: what two readers could understand differently is rejected.

Names occur once in an object; integers fit into 64 bits; NaN and Infinity, which are no JSON, and texts that are no
UTF-8 are rejected. So does jose4j, by which Apache Kafka reads tokens.
"""

from __future__ import annotations

import json
from typing import Any, Final, NoReturn

_MAX_DIGITS: Final = 19
_MIN_LONG: Final = -(2**63)
_MAX_LONG: Final = 2**63 - 1


class JsonError(ValueError):
    """The text is not one JSON object, or not an unambiguous one. The message has nothing of the text in it."""


def parse_object(text: bytes | str) -> dict[str, Any]:
    """Raises JsonError."""
    try:
        found = json.loads(
            text.decode() if isinstance(text, bytes) else text,
            object_pairs_hook=_unique,
            parse_int=_long,
            parse_constant=_reject_constant,
        )
    except JsonError:
        raise
    except UnicodeDecodeError:
        raise JsonError("it is no UTF-8") from None
    except RecursionError:
        raise JsonError("it is nested too deeply") from None
    except ValueError:
        raise JsonError("it is no JSON") from None
    if not isinstance(found, dict):
        raise JsonError("it is no JSON object")
    return found


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise JsonError("a name occurs twice in it")
    return found


def _long(digits: str) -> int:
    if len(digits.lstrip("-")) <= _MAX_DIGITS:
        number = int(digits)
        if _MIN_LONG <= number <= _MAX_LONG:
            return number
    raise JsonError("it has a number that does not fit into 64 bits")


def _reject_constant(name: str) -> NoReturn:
    raise JsonError(f"it has {name} in it, which is no JSON")
