"""The secret from which salts of users that do not exist are made (broker/security/sasl/scram.py).

It lies beside meta.properties in a file of 32 random bytes, which only the broker's own user may read: with it one
could tell such a salt from a real one. A broker without the file makes another.
"""

from __future__ import annotations

import os
from typing import Final

FILE_NAME: Final = "barnabas.scram.secret"
SECRET_BYTES: Final = 32
_MODE: Final = 0o600


def scram_secret(directory: str) -> bytes:
    """Reads the secret, or makes it. Raises OSError."""
    path = f"{directory}/{FILE_NAME}"
    try:
        with open(path, "rb") as file:
            found = file.read()
    except FileNotFoundError:
        found = b""
    return found if len(found) == SECRET_BYTES else _made(path)


def _made(path: str) -> bytes:
    secret = os.urandom(SECRET_BYTES)
    temporary = f"{path}.tmp"
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, _MODE)
    with open(fd, "wb") as file:
        os.fchmod(fd, _MODE)  # of a file that a crash has left, or where the umask is another
        file.write(secret)
        file.flush()
        os.fsync(fd)
    os.replace(temporary, path)
    return secret
