"""Settings on a command line: `k1=v1,k2=[v2,v3]` (--add-config), files of them, and `SCRAM-SHA-256=[password=x]`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from barnabas.cli.admin.errors import BadFileError
from barnabas.config.properties import PropertiesError, decode, read_properties
from barnabas.protocol.messages.security import MIN_ITERATIONS, ScramMechanism

_OUTSIDE_BRACKETS: Final = r"(?=[^\]]*(?:\[|$))"
_COMMA: Final = re.compile("," + _OUTSIDE_BRACKETS)
_EQUALS: Final = re.compile(r"\s*=\s*" + _OUTSIDE_BRACKETS)
_KEY: Final = re.compile(r"[a-zA-Z0-9._-]*")
_CREDENTIAL: Final = re.compile(r"(?:iterations=(-?[0-9]*),)?password=(.*)", re.DOTALL)


def parse_added(text: str) -> dict[str, str]:
    """The settings of --add-config: commas and equals signs inside brackets belong to a value. Raises ValueError."""
    found = {}
    for part in _COMMA.split(text):
        pair = _EQUALS.split(part)
        if len(pair) != 2:
            raise ValueError(f'{part!r} is not "key=value", or "key=[value,value]" for values with commas')
        found[pair[0].strip()] = re.sub(r"[\[\]]", "", pair[1]).strip()
    return _checked(found)


def read_added(path: Path) -> dict[str, str]:
    """The settings of --add-config-file, a file of properties. Raises ValueError and BadFileError."""
    try:
        return _checked({each.key: each.value for each in read_properties(decode(path.read_bytes()))})
    except OSError as error:
        raise BadFileError(f"{path} cannot be read: {error.strerror}") from None
    except PropertiesError as error:
        raise BadFileError(f"{path} line {error.line}: {error.message}") from None


def _checked(found: Mapping[str, str]) -> dict[str, str]:
    for key in found:
        if not _KEY.fullmatch(key):
            raise ValueError(f"{key!r} is not a key: letters, digits, '.', '_' and '-' are possible")
    return dict(found)


class Secret(NamedTuple):
    """The parts of a SCRAM credential that a user chooses."""

    iterations: int
    password: str


def parse_secret(mechanism: ScramMechanism, text: str) -> Secret:
    """`iterations=8192,password=x`, or just the password. Raises ValueError, which does not quote the password."""
    found = _CREDENTIAL.fullmatch(text)
    if found is None:
        raise ValueError(
            f"{mechanism.label}=[iterations=N,password=...] is expected; iterations may be left out"
        )
    iterations = MIN_ITERATIONS if found[1] in {None, "-1", ""} else int(found[1])
    check_iterations(mechanism, iterations)
    return Secret(iterations, found[2])


def check_iterations(mechanism: ScramMechanism, iterations: int) -> None:
    """Raises ValueError for too few; the broker knows the maximum."""
    if iterations < MIN_ITERATIONS:
        raise ValueError(
            f"Iterations {iterations} is less than the minimum {MIN_ITERATIONS} required for {mechanism.label}"
        )


def parse_number(key: str, text: str) -> float:
    """The value of a quota. Raises ValueError."""
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"Cannot parse quota configuration value for {key}: {text}") from None
