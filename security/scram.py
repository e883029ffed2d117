"""The arithmetic of SCRAM (RFC 5802, section 3), for clients and servers.

    SaltedPassword := PBKDF2(password, salt, iterations)      ClientProof     := ClientKey XOR ClientSignature
    ClientKey      := HMAC(SaltedPassword, "Client Key")      ClientSignature := HMAC(StoredKey, AuthMessage)
    StoredKey      := H(ClientKey)                            ServerSignature := HMAC(ServerKey, AuthMessage)
    ServerKey      := HMAC(SaltedPassword, "Server Key")

A server has StoredKey and ServerKey; hashes are named as hashlib names them.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Mapping
from typing import Final, Protocol


class _Digest(Protocol):
    def digest(self) -> bytes: ...


HASHES: Final[Mapping[str, str]] = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
"""The hash of each mechanism."""
MIN_ITERATIONS: Final = 4096
DIGEST_SIZES: Final[Mapping[str, int]] = {"sha256": 32, "sha512": 64}
_DIGESTS: Final[Mapping[str, Callable[[bytes], _Digest]]] = {
    "sha256": hashlib.sha256,
    "sha512": hashlib.sha512,
}


def salted_password(hash_name: str, password: bytes, salt: bytes, iterations: int) -> bytes:
    """SaltedPassword: as slow as there are iterations."""
    return hashlib.pbkdf2_hmac(hash_name, password, salt, iterations)


def client_key(hash_name: str, salted: bytes) -> bytes:
    """ClientKey, which only the client has."""
    return hmac_of(hash_name, salted, b"Client Key")


def stored_key(hash_name: str, key: bytes) -> bytes:
    """StoredKey, of a ClientKey."""
    return _DIGESTS[hash_name](key).digest()  # hashlib.new would look the hash up in OpenSSL


def server_key(hash_name: str, salted: bytes) -> bytes:
    """ServerKey."""
    return hmac_of(hash_name, salted, b"Server Key")


def proof_of(hash_name: str, key: bytes, signed: bytes) -> bytes:
    """The ClientProof that a client with this ClientKey sends; `signed` is the AuthMessage."""
    return _xor(key, hmac_of(hash_name, stored_key(hash_name, key), signed))


def is_proof(hash_name: str, stored: bytes, signed: bytes, proof: bytes) -> bool:
    """Whether the proof was made with the ClientKey behind a StoredKey."""
    signature = hmac_of(hash_name, stored, signed)
    if len(proof) != len(signature):
        return False
    return hmac.compare_digest(stored_key(hash_name, _xor(proof, signature)), stored)


def hmac_of(hash_name: str, key: bytes, data: bytes) -> bytes:
    """HMAC; of a ServerKey and the AuthMessage it is the ServerSignature."""
    return hmac.digest(key, data, hash_name)


def _xor(one: bytes, other: bytes) -> bytes:
    size = len(one)
    return (int.from_bytes(one, "big") ^ int.from_bytes(other, "big")).to_bytes(size, "big")
