"""ScramClient: the client of SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, KIP-84), as bytes and without I/O.

    state          | sends                     | receives
    ---------------+---------------------------+------------------------------------------------------------
    new            | n,,n=user,r=nonce         |
    first sent     |                           | r=nonce and more,s=salt,i=iterations
    final sent     | c=biws,r=...,p=proof      |
                   |                           | v=signature, which proves that the server knows the user; or e=error

The server's signature is checked: a server that does not know the password cannot pretend to.
"""

from __future__ import annotations

import base64
import hmac
from collections.abc import Callable
from typing import Final

from barnabas.security.errors import SaslClientError
from barnabas.security.scram import (
    HASHES,
    MIN_ITERATIONS,
    client_key,
    hmac_of,
    proof_of,
    salted_password,
    server_key,
)

MAX_ITERATIONS: Final = 1_000_000
"""Above any that a broker allows; a server cannot have a client compute for minutes."""
NONCE_BYTES: Final = 24
_CHANNEL_BINDING: Final = "biws"
"""n,, in base 64: no channel is bound."""


class ScramClient:
    """One login. `is_complete` once the server has proved itself."""

    blocks = False

    def __init__(
        self,
        mechanism: str,
        user: str,
        password: str,
        random_bytes: Callable[[int], bytes],
        *,
        is_token: bool = False,
        salt_password: Callable[[str, bytes, bytes, int], bytes] = salted_password,
    ) -> None:
        """`is_token`: user and password are those of a delegation token (KIP-48). `salt_password` computes
        SaltedPassword, which takes milliseconds: who logs in again and again keeps it.
        """
        self.mechanism = mechanism
        self.is_complete = False
        self._hash = HASHES[mechanism]
        self._password = password.encode()
        self._nonce = base64.b64encode(random_bytes(NONCE_BYTES)).decode()
        name = user.replace("=", "=3D").replace(",", "=2C")
        self._first = f"n={name},r={self._nonce}" + (",tokenauth=true" if is_token else "")
        self._salt_password = salt_password
        self._signature: bytes | None = None

    def initial(self) -> bytes:
        """The first message."""
        return f"n,,{self._first}".encode()

    def respond(self, challenge: bytes) -> bytes | None:
        """The answer to a message of the server; None where the login is complete. Raises SaslClientError."""
        try:
            text = challenge.decode()
        except UnicodeDecodeError:
            raise SaslClientError("the server's message is no text") from None
        if self._signature is None:
            return self._final(text)
        self._check(text, self._signature)
        self.is_complete = True
        return None

    def _final(self, text: str) -> bytes:
        fields = _fields(text)
        nonce, salt, iterations = fields.get("r", ""), _decoded(fields.get("s", "")), fields.get("i", "")
        if not nonce.startswith(self._nonce) or nonce == self._nonce:
            raise SaslClientError("the server's nonce does not continue that of the client")
        if not (iterations.isascii() and iterations.isdecimal()) or len(iterations) > 9:
            raise SaslClientError("the server names no number of iterations")
        if not MIN_ITERATIONS <= int(iterations) <= MAX_ITERATIONS:
            raise SaslClientError(
                f"the server asks for {iterations} iterations; {MIN_ITERATIONS} to {MAX_ITERATIONS} are accepted"
            )
        if not salt:
            raise SaslClientError("the server names no salt")
        without_proof = f"c={_CHANNEL_BINDING},r={nonce}"
        signed = f"{self._first},{text},{without_proof}".encode()
        salted = self._salt_password(self._hash, self._password, salt, int(iterations))
        proof = proof_of(self._hash, client_key(self._hash, salted), signed)
        self._signature = hmac_of(self._hash, server_key(self._hash, salted), signed)
        return f"{without_proof},p={base64.b64encode(proof).decode()}".encode()

    def _check(self, text: str, signature: bytes) -> None:
        fields = _fields(text)
        if "e" in fields:
            raise SaslClientError(f"the server rejects the login: {fields['e']}")
        if not hmac.compare_digest(_decoded(fields.get("v", "")), signature):
            raise SaslClientError("the server does not know the password either: its signature is wrong")


def _fields(text: str) -> dict[str, str]:
    """The fields of a message by their letters."""
    parts = (part.partition("=") for part in text.split(","))
    return {name: value for name, equals, value in parts if equals}


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:  # binascii.Error is one
        return b""
