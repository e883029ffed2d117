"""JsonWebKeys: the public keys of an identity provider (RFC 7517), and which of them a token names.

Keys that cannot check a signature are left out: for encryption, of other types, of curves that are not known here, and
symmetric ones: a key that is published for all to read proves nothing.

| kty | algorithms of tokens |
| --- | --- |
| RSA, of 2048 bits at least | RS256, RS384, RS512, PS256, PS384, PS512 |
| EC: P-256, P-384, P-521 | ES256, ES384, ES512: that of the curve |
| OKP: Ed25519, Ed448 | EdDSA |

The choice is that of org.jose4j.jwk.VerificationJwkSelector, which Apache Kafka uses: of the keys with the token's kid
(any, for a token without), of the type that its algorithm needs; among several those of its algorithm, then of its
curve; of these the first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from barnabas.security.strict_json import JsonError, parse_object

MIN_RSA_BITS: Final = 2048
_CURVES: Final = {"ES256": "P-256", "ES384": "P-384", "ES512": "P-521"}
_EDWARDS_CURVES: Final = ("Ed25519", "Ed448")
KEY_TYPES: Final[Mapping[str, str]] = {
    **dict.fromkeys(("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"), "RSA"),
    **dict.fromkeys(_CURVES, "EC"),
    "EdDSA": "OKP",
}
"""The algorithms that tokens may be signed by, each with the type of its key."""


class JsonWebKey(NamedTuple):
    """A public key, and what its owner says of it."""

    key_id: str | None
    key_type: str
    algorithm: str | None
    curve: str | None
    thumbprints: Mapping[str, str]
    """x5t and x5t#S256 of its certificate."""
    public_key: Any
    """Of cryptography."""


class JsonWebKeysError(ValueError):
    """The text is no set of keys, or has none that can check a signature."""


class JsonWebKeys:
    """The keys of one set."""

    def __init__(self, keys: Sequence[JsonWebKey]) -> None:
        self._keys = tuple(keys)

    def __len__(self) -> int:
        return len(self._keys)

    @property
    def key_ids(self) -> frozenset[str | None]:
        return frozenset(key.key_id for key in self._keys)

    def select(
        self, algorithm: str, key_id: str | None, thumbprints: Mapping[str, str] | None = None
    ) -> JsonWebKey | None:
        """The key for a token with these headers, of which `algorithm` is one of KEY_TYPES; None for no key."""
        key_type = KEY_TYPES[algorithm]
        found = [
            key
            for key in self._keys
            if key.key_type == key_type
            and (key_id is None or key.key_id == key_id)
            and _agree(key.thumbprints, thumbprints or {})
        ]
        if len(found) > 1:
            found = [key for key in found if key.algorithm in (None, algorithm)]
        if len(found) > 1 and key_type == "EC":
            found = [key for key in found if key.curve == _CURVES[algorithm]]
        return found[0] if found else None


def _agree(one: Mapping[str, str], other: Mapping[str, str]) -> bool:
    return all(one[name] == value for name, value in other.items() if name in one)


def fits_curve(algorithm: str, key: JsonWebKey) -> bool:
    """Whether a key of the right type is one for this algorithm."""
    return key.key_type != "EC" or key.curve == _CURVES[algorithm]


def parse_keys(text: bytes) -> JsonWebKeys:
    """The usable keys of a JSON Web Key Set. Raises JsonWebKeysError."""
    try:
        found = parse_object(text)
    except JsonError as error:
        raise JsonWebKeysError(f"it is no JSON Web Key Set: {error}") from None
    entries = found.get("keys")
    if not isinstance(entries, list):
        raise JsonWebKeysError("it is no JSON Web Key Set: it has no list of keys")
    keys = [key for entry in entries if isinstance(entry, dict) and (key := _parse_key(entry))]
    if not keys:
        raise JsonWebKeysError(f"none of its {len(entries)} keys can check the signature of a token")
    return JsonWebKeys(keys)


def _parse_key(entry: dict[str, Any]) -> JsonWebKey | None:
    """None for a key that cannot check the signature of a token."""
    key_id, key_type, algorithm, use, curve = (
        entry.get(name) for name in ("kid", "kty", "alg", "use", "crv")
    )
    operations = entry.get("key_ops")
    if not all(value is None or isinstance(value, str) for value in (key_id, algorithm, use)):
        return None
    if use not in (None, "sig") or (isinstance(operations, list) and "verify" not in operations):
        return None
    public_key = _public_key(key_type, curve, entry)
    if public_key is None:
        return None
    thumbprints = {name: value for name in ("x5t", "x5t#S256") if isinstance(value := entry.get(name), str)}
    return JsonWebKey(
        key_id, str(key_type), algorithm, None if key_type == "RSA" else str(curve), thumbprints, public_key
    )


def _public_key(key_type: object, curve: object, entry: dict[str, Any]) -> Any:
    """The key, without what is private of it; None where it cannot be used."""
    from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm  # only where tokens are checked
    from jwt.exceptions import PyJWTError

    public: dict[str, Any] = {
        name: entry[name] for name in ("kty", "crv", "n", "e", "x", "y") if name in entry
    }
    if not all(isinstance(value, str) for value in public.values()):
        return None
    try:
        if key_type == "RSA":
            rsa: Any = RSAAlgorithm.from_jwk(public)
            return rsa if rsa.key_size >= MIN_RSA_BITS else None
        if key_type == "EC" and curve in _CURVES.values():
            return ECAlgorithm.from_jwk(public)
        if key_type == "OKP" and curve in _EDWARDS_CURVES:
            return OKPAlgorithm.from_jwk(public)
    except (PyJWTError, ValueError, TypeError, KeyError):  # of numbers that are no key
        pass
    return None
