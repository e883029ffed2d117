"""Tokens for tests, and the keys that sign them: made without the broker's own code, so that its mistakes do not hide.

key = SigningKey("RS256", "one")
key_set(key)                              # the JSON Web Key Set, with the public parts
key.token({"sub": "alice"}, now_s=1000)   # iat and exp are added
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from functools import cache
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

ISSUER = "https://login.example/realms/test"
CURVES: dict[str, Any] = {"ES256": ec.SECP256R1, "ES384": ec.SECP384R1, "ES512": ec.SECP521R1}
LIFETIME_S = 300


@cache
def rsa_key(bits: int = 2048, number: int = 0) -> rsa.RSAPrivateKey:
    """One for each `number`, since they take long to make."""
    return rsa.generate_private_key(65537, bits)


def _private_key(algorithm: str, bits: int, number: int) -> Any:
    if algorithm in CURVES:
        return ec.generate_private_key(CURVES[algorithm]())
    if algorithm == "EdDSA":
        return ed25519.Ed25519PrivateKey.generate()
    if algorithm == "Ed448":
        return ed448.Ed448PrivateKey.generate()
    return rsa_key(bits, number)


class SigningKey:
    """A private key of an identity provider. `number` tells keys for RSA apart."""

    def __init__(
        self, algorithm: str = "RS256", key_id: str | None = "one", *, bits: int = 2048, number: int = 0
    ) -> None:
        self.algorithm = "EdDSA" if algorithm == "Ed448" else algorithm
        self.key_id = key_id
        self.private = _private_key(algorithm, bits, number)

    def public_jwk(self, **more: Any) -> dict[str, Any]:
        """The public key; `more` replaces parts, and None removes one."""
        public = self.private.public_key()
        kinds: dict[str, Any] = {"R": RSAAlgorithm, "P": RSAAlgorithm}
        kind = OKPAlgorithm if self.algorithm == "EdDSA" else kinds.get(self.algorithm[0], ECAlgorithm)
        found = json.loads(kind.to_jwk(public))
        found.pop("key_ops", None)
        found |= {"kid": self.key_id, "use": "sig", "alg": self.algorithm, **more}
        return {name: value for name, value in found.items() if value is not None}

    def public_pem(self) -> bytes:
        """The public key, as an attacker has it."""
        found: bytes = self.private.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        return found

    def token(
        self,
        claims: Mapping[str, Any],
        now_s: float,
        *,
        headers: Mapping[str, Any] | None = None,
        algorithm: str | None = None,
    ) -> str:
        """A token; iat and exp are added, and a claim or header of None is left out."""
        times = {"iat": int(now_s), "exp": int(now_s) + LIFETIME_S}
        full = {name: value for name, value in {**times, **claims}.items() if value is not None}
        return self.signed(json.dumps(full).encode(), headers=headers, algorithm=algorithm)

    def signed(
        self, payload: bytes, *, headers: Mapping[str, Any] | None = None, algorithm: str | None = None
    ) -> str:
        """Any bytes as the payload of a token."""
        chosen = algorithm or self.algorithm
        header = {"alg": chosen, "typ": "JWT", "kid": self.key_id, **(headers or {})}
        text = json.dumps({name: value for name, value in header.items() if value is not None})
        return self.signed_raw(text.encode(), payload, chosen)

    def signed_raw(self, header: bytes, payload: bytes, algorithm: str | None = None) -> str:
        """Any bytes as header and payload, with a signature that is right."""
        signed = f"{part(header)}.{part(payload)}"
        algorithms = jwt.algorithms.get_default_algorithms()
        signature = algorithms[algorithm or self.algorithm].sign(signed.encode(), self.private)
        return f"{signed}.{part(signature)}"


def key_set(*keys: SigningKey | Mapping[str, Any]) -> bytes:
    """The JSON Web Key Set of these keys."""
    found = [key.public_jwk() if isinstance(key, SigningKey) else dict(key) for key in keys]
    return json.dumps({"keys": found}).encode()


def part(data: bytes) -> str:
    """Bytes in base64url without padding."""
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def unsigned_token(claims: Mapping[str, Any], header: Mapping[str, Any] | None = None) -> str:
    """A token of alg none."""
    return f"{part(json.dumps(header or {'alg': 'none'}).encode())}.{part(json.dumps(claims).encode())}."
