"""--add-scram of a format: the first SCRAM users of a cluster, as `SCRAM-SHA-256=[name=alice,password=secret]`.

In brackets: name; password, or salt and saltedpassword in base64; iterations, 4096 without. A value may be in quotes.
Error texts are those of Kafka's org.apache.kafka.metadata.storage.ScramParser.
"""

from __future__ import annotations

from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Callable
from typing import Final

from barnabas.broker.controller.scram_admin import Upsertion, credential_record
from barnabas.protocol.messages.cluster_records import UserScramCredentialRecord
from barnabas.protocol.messages.security import HASH_NAMES, MAX_ITERATIONS, MIN_ITERATIONS
from barnabas.security.scram import salted_password

_BY_NAME: Final = {"SCRAM-SHA-256": 1, "SCRAM-SHA-512": 2}
_SALT_BYTES: Final = 20


class FormatterError(Exception):
    """The options of a format are wrong; the text says why."""


def parse_scram(argument: str, random_bytes: Callable[[int], bytes]) -> UserScramCredentialRecord:
    """The credential that an --add-scram asks for. Raises FormatterError."""
    mechanism, fields = _split(argument)
    name = fields.pop("name", None)
    if name is None:
        raise FormatterError("You must supply 'name' to add-scram")
    given_salt = fields.pop("salt", None)
    salt = None if given_salt is None else _base64(given_salt, "salt")
    iterations = _iterations(fields.pop("iterations", None))
    password, salted = fields.pop("password", None), fields.pop("saltedpassword", None)
    if password is None and salted is None:
        raise FormatterError("You must supply one of 'password' or 'saltedpassword' to add-scram")
    if password is None and salt is None:
        raise FormatterError("You must supply 'salt' with 'saltedpassword' to add-scram")
    salted_bytes = b"" if password is not None else _base64(salted or "", "saltedPassword")
    if fields:
        raise FormatterError(f"Unknown SCRAM configurations: {', '.join(sorted(fields))}")
    _check_iterations(iterations, mechanism)
    salt = random_bytes(_SALT_BYTES) if salt is None else salt
    if password is not None:
        salted_bytes = salted_password(HASH_NAMES[mechanism], password.encode(), salt, iterations)
    return credential_record(Upsertion(name, mechanism, iterations, salt, salted_bytes))


def _split(argument: str) -> tuple[int, dict[str, str]]:
    argument = argument.strip()
    name, equals, settings = argument.partition("=")
    if not equals:
        raise FormatterError(f"Failed to find equals sign in SCRAM argument '{argument}'")
    mechanism = _BY_NAME.get(name)
    if mechanism is None:
        raise FormatterError(f"The add-scram mechanism {name} is not supported.")
    if not settings.startswith("["):
        raise FormatterError("Expected configuration string to start with [")
    if not settings.endswith("]"):
        raise FormatterError("Expected configuration string to end with ]")
    return mechanism, dict(_field(part) for part in settings[1:-1].split(","))


def _field(part: str) -> tuple[str, str]:
    key, equals, value = part.partition("=")
    if not equals:
        raise FormatterError(f"No equals sign found in SCRAM component: {part}")
    if len(value) >= 2 and value[0] == value[-1] == '"':
        value = value[1:-1]
    return key, value


def _base64(text: str, what: str) -> bytes:
    try:
        return b64decode(text + "=" * (-len(text) % 4), validate=True)
    except Base64Error:
        raise FormatterError(f"Failed to decode given {what}: {text}") from None


def _iterations(text: str | None) -> int:
    try:
        return MIN_ITERATIONS if text is None else int(text)
    except ValueError:
        raise FormatterError(f"Failed to parse iterations count: {text}") from None


def _check_iterations(iterations: int, mechanism: int) -> None:
    name = next(name for name, number in _BY_NAME.items() if number == mechanism).replace("-", "_")
    if iterations < MIN_ITERATIONS:
        raise FormatterError(f"The 'iterations' value must be >= {MIN_ITERATIONS} for add-scram using {name}")
    if iterations > MAX_ITERATIONS:
        raise FormatterError(f"The 'iterations' value must be <= {MAX_ITERATIONS} for add-scram using {name}")
