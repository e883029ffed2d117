"""JSON Web Tokens (RFC 7519): whether a token is signed by a key that is trusted, is current, and whose it is.

The checks are those of Apache Kafka's BrokerJwtValidator, which is jose4j's JwtConsumer with these settings:

- three parts in base64url, of which the first two are JSON objects, and the third is a signature;
- `alg` is one of json_web_keys.KEY_TYPES, never `none` and none with a shared secret; the key is the one of the
  provider's set that `kid` names. Keys in the header, or places where to find some (jwk, jku, x5c, x5u), are ignored;
- `exp` and `iat` must be there, and are numbers, as `nbf` is if it is there; their fractions do not count. The token
  has ended where now - skew >= exp, and not begun where now + skew < nbf; exp >= iat and exp >= nbf. An `iat` in the
  future is no reason to reject;
- with an expected issuer `iss` is it. With expected audiences `aud` names one; without, a token must name none: it is
  meant for others;
- the claim with the user's name is a text, and not blank; that with the scopes is a text, or a list of texts, if it is
  there.

A header with `crit` is rejected, since no extension is known here, and so is a token within a token (`cty`).
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from barnabas.security.json_web_keys import KEY_TYPES, JsonWebKeys, fits_curve
from barnabas.security.strict_json import JsonError, parse_object

_PARTS: Final = 3
_BASE64URL: Final = re.compile(r"[A-Za-z0-9_-]*={0,2}")
_JAVA_SPACES: Final = "".join(map(chr, range(33)))
"""What String.trim() removes."""
_MAX_MS: Final = 2**63 - 1
_NESTED: Final = ("jwt", "application/jwt")
_THUMBPRINTS: Final = ("x5t", "x5t#S256")


class TokenError(ValueError):
    """The token is rejected. The message has at most names of claims and headers in it, and no part of the token."""


class UnknownKeyError(TokenError):
    """The token names a key that is not in the set; `key_id` is its name, None where the token has none."""

    def __init__(self, key_id: str | None) -> None:
        super().__init__("it is signed by a key that the identity provider does not publish")
        self.key_id = key_id


class BearerToken(NamedTuple):
    """What a valid token says. Times are in ms since 1970."""

    user: str
    expires_ms: int
    scopes: frozenset[str] = frozenset()


class TokenRules(NamedTuple):
    """sasl.oauthbearer.*: what a token must say. None, and no audience: not expected."""

    issuer: str | None = None
    audiences: frozenset[str] = frozenset()
    skew_s: int = 30
    user_claim: str = "sub"
    scope_claim: str = "scope"


def check_token(token: str, keys: JsonWebKeys, rules: TokenRules, now_s: int) -> BearerToken:
    """What a token says, if it is valid at `now_s` (seconds since 1970). Raises TokenError."""
    claims = _verified_claims(token, keys)
    _check_texts(claims)
    _check_times(claims, rules.skew_s, now_s)
    _check_parties(claims, rules)
    return BearerToken(
        _user_of(claims, rules.user_claim),
        _milliseconds(claims, "exp"),
        scopes_of(claims, rules.scope_claim),
    )


# ---- the signature


def _verified_claims(token: str, keys: JsonWebKeys) -> dict[str, Any]:
    header, claims = unverified_parts(token)
    algorithm, key_id = header.get("alg"), header.get("kid")
    if not isinstance(algorithm, str) or algorithm not in KEY_TYPES:
        raise TokenError(f"its algorithm is none of {', '.join(KEY_TYPES)}")
    if key_id is not None and not isinstance(key_id, str):
        raise TokenError("its key id is no text")
    if "crit" in header:
        raise TokenError("its header asks for extensions, which there are none of here")
    if str(header.get("cty")).lower() in _NESTED:
        raise TokenError("there is a token in it, which is not looked into")
    thumbprints = {name: value for name in _THUMBPRINTS if isinstance(value := header.get(name), str)}
    key = keys.select(algorithm, key_id, thumbprints)
    if key is None:
        raise UnknownKeyError(key_id)
    if not fits_curve(algorithm, key):
        raise TokenError("its algorithm is not the one of the key's curve")
    _verify(token, algorithm, key.public_key)
    return claims


def _verify(token: str, algorithm: str, public_key: Any) -> None:
    from jwt import PyJWS  # only where tokens are checked
    from jwt.exceptions import PyJWTError

    try:
        PyJWS(algorithms=[algorithm]).decode_complete(token, public_key, algorithms=[algorithm])
    except (PyJWTError, ValueError, TypeError):
        raise TokenError("its signature is wrong") from None


def unverified_parts(token: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Header and claims, whoever may have written them. Raises TokenError."""
    parts = token.split(".")
    if len(parts) != _PARTS:
        raise TokenError("it does not have three parts")
    if not all(parts):
        raise TokenError("one of its parts is empty")
    return _decoded(parts[0], "header"), _decoded(parts[1], "claims")


def _decoded(part: str, name: str) -> dict[str, Any]:
    if not _BASE64URL.fullmatch(part):
        raise TokenError(f"its {name} is not in base64url")
    try:
        return parse_object(base64.urlsafe_b64decode(part.rstrip("=") + "=" * (-len(part.rstrip("=")) % 4)))
    except binascii.Error:
        raise TokenError(f"its {name} is not in base64url") from None
    except JsonError as error:
        raise TokenError(f"its {name}: {error}") from None


# ---- claims


def _check_texts(claims: Mapping[str, Any]) -> None:
    for name in ("iss", "sub", "jti"):
        if claims.get(name) is not None and not isinstance(claims[name], str):
            raise TokenError(f"its claim {name} is no text")


def _seconds(claims: Mapping[str, Any], name: str, *, is_required: bool = True) -> int | None:
    value = claims.get(name)
    if value is None:
        if is_required:
            raise TokenError(f"it has no claim {name}")
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TokenError(f"its claim {name} is no number")
    try:
        return int(value)
    except (OverflowError, ValueError):  # 1e999 is infinite
        raise TokenError(f"its claim {name} is out of range") from None


def _milliseconds(claims: Mapping[str, Any], name: str) -> int:
    seconds = _seconds(claims, name)
    assert seconds is not None
    if not 0 <= seconds * 1000 <= _MAX_MS:
        raise TokenError(f"its claim {name} is out of range")
    return seconds * 1000


def _check_times(claims: Mapping[str, Any], skew_s: int, now_s: int) -> None:
    ends, issued = _milliseconds(claims, "exp") // 1000, _milliseconds(claims, "iat") // 1000
    begins = _seconds(claims, "nbf", is_required=False)
    if now_s - skew_s >= ends:
        raise TokenError("it has expired")
    if ends < issued or (begins is not None and ends < begins):
        raise TokenError("it ends before it begins")
    if begins is not None and now_s + skew_s < begins:
        raise TokenError("it is not valid yet")


def _check_parties(claims: Mapping[str, Any], rules: TokenRules) -> None:
    if rules.issuer is not None and claims.get("iss") != rules.issuer:
        raise TokenError("its claim iss is not sasl.oauthbearer.expected.issuer")
    audience = claims.get("aud")
    if audience is None:
        if rules.audiences:
            raise TokenError("it has no claim aud, and sasl.oauthbearer.expected.audience names one")
        return
    named = [audience] if isinstance(audience, str) else audience
    if not isinstance(named, list) or not all(isinstance(each, str) for each in named):
        raise TokenError("its claim aud is neither a text nor a list of texts")
    if not rules.audiences.intersection(named):
        raise TokenError("its claim aud names none of sasl.oauthbearer.expected.audience")


def _user_of(claims: Mapping[str, Any], name: str) -> str:
    user = claims.get(name)
    if not isinstance(user, str):
        raise TokenError(f"its claim {name}, which is to name the user, is no text")
    user = user.strip(_JAVA_SPACES)
    if not user:
        raise TokenError(f"its claim {name}, which is to name the user, is blank")
    return user


def scopes_of(claims: Mapping[str, Any], name: str) -> frozenset[str]:
    """The scopes: a text is one, whatever spaces it has. Raises TokenError."""
    value = claims.get(name)
    given = [value] if isinstance(value, str) else value if isinstance(value, list) else []
    scopes = [each.strip(_JAVA_SPACES) for each in given if isinstance(each, str)]
    if len(scopes) != len(given) or not all(scopes) or len(set(scopes)) != len(scopes):
        raise TokenError(f"its claim {name} is not a list of different texts")
    return frozenset(scopes)


def encoded(part: Mapping[str, Any]) -> str:
    """A header, or claims, as a part of a token."""
    text = json.dumps(part, separators=(",", ":"), ensure_ascii=False)
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")
