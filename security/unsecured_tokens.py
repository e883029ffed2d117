"""Unsecured tokens: `alg` is none, and whoever sends one is whom they claim to be. For tests alone.

The options of OAuthBearerLoginModule have the names of Apache Kafka's. A client makes its token from
unsecuredLoginStringClaim_<name>, unsecuredLoginNumberClaim_<name>, unsecuredLoginListClaim_<name> (whose first
character separates the rest), unsecuredLoginLifetimeSeconds (3600) and unsecuredLoginPrincipalClaimName (sub). A broker
checks it by unsecuredValidatorPrincipalClaimName, unsecuredValidatorScopeClaimName, unsecuredValidatorRequiredScope and
unsecuredValidatorAllowableClockSkewMs (0).

Source: OAuthBearerUnsecuredLoginCallbackHandler, OAuthBearerUnsecuredValidatorCallbackHandler, OAuthBearerUnsecuredJws.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from barnabas.security.json_web_tokens import BearerToken, TokenError, encoded
from barnabas.security.strict_json import parse_object

LOGIN: Final = "unsecuredLogin"
VALIDATOR: Final = "unsecuredValidator"
UNSECURED_EXTENSION: Final = f"{LOGIN}Extension_"
_DEFAULT_LIFETIME_S: Final = "3600"
_PARTS: Final = 3
_RESERVED: Final = ("iat", "exp")
_MAX_MS: Final = 2**63 - 1


class OptionError(ValueError):
    """An option of the login module is wrong: the message names it."""


class ScopeError(TokenError):
    """The token lacks a scope that is required; `scope` is how a client is told so."""

    def __init__(self, scope: str) -> None:
        super().__init__("it has not the scope that is required")
        self.scope = scope


class UnsecuredRules(NamedTuple):
    """What a broker expects of a token."""

    user_claim: str = "sub"
    scope_claim: str = "scope"
    required_scopes: tuple[str, ...] = ()
    skew_ms: int = 0


def unsecured_rules(options: Mapping[str, str]) -> UnsecuredRules:
    """From the options of a login module. Raises OptionError."""
    name = f"{VALIDATOR}AllowableClockSkewMs"
    skew = options.get(name, "").strip() or "0"
    if not (skew.isascii() and skew.isdecimal()) or int(skew) > 0x7FFFFFFF:
        raise OptionError(f"{name} must be a number of milliseconds")
    return UnsecuredRules(
        options.get(f"{VALIDATOR}PrincipalClaimName", "").strip() or "sub",
        options.get(f"{VALIDATOR}ScopeClaimName", "").strip() or "scope",
        tuple(options.get(f"{VALIDATOR}RequiredScope", "").split()),
        int(skew),
    )


def check_unsecured(token: str, rules: UnsecuredRules, now_ms: int) -> BearerToken:
    """Raises TokenError."""
    parts = token.split(".")
    if len(parts) != _PARTS or not parts[0] or not parts[1]:
        raise TokenError("it does not have three parts")
    header, claims = _decoded(parts[0]), _decoded(parts[1])
    if header.get("alg") != "none":
        raise TokenError("its algorithm is not none: signed tokens are not checked by this listener")
    if parts[2]:
        raise TokenError("it has a signature, and its algorithm is none")
    user = claims.get(rules.user_claim)
    if not isinstance(user, str) or not user.strip():
        raise TokenError(f"its claim {rules.user_claim}, which is to name the user, is no text")
    ends, issued = _number(claims, "exp"), _number(claims, "iat")
    if ends is None:
        raise TokenError("it has no claim exp")
    if issued is not None and 1000 * issued > now_ms + rules.skew_ms:
        raise TokenError("it is issued in the future")
    if now_ms - rules.skew_ms >= 1000 * ends:
        raise TokenError("it has expired")
    if issued is not None and ends <= issued:
        raise TokenError("it ends before it begins")
    scopes = _scopes(claims.get(rules.scope_claim))
    if not scopes.issuperset(rules.required_scopes):
        raise ScopeError(f"[{', '.join(rules.required_scopes)}]")
    return BearerToken(user, min(round(1000 * min(ends, _MAX_MS)), _MAX_MS), scopes)


def _decoded(part: str) -> dict[str, Any]:
    try:
        return parse_object(base64.b64decode(part + "=" * (-len(part) % 4), altchars=b"-_", validate=True))
    except ValueError:
        raise TokenError("it is no JSON in base64url") from None


def _number(claims: Mapping[str, Any], name: str) -> float | None:
    value = claims.get(name)
    if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
        raise TokenError(f"its claim {name} is no number")
    return value


def _scopes(value: object) -> frozenset[str]:
    given = value if isinstance(value, list) else [value]
    return frozenset(each.strip() for each in given if isinstance(each, str) and each.strip())


# ---- a client's


def make_unsecured(options: Mapping[str, str], now_ms: int) -> BearerTokenText:
    """The token that the options of a client's login module ask for. Raises OptionError."""
    claims: dict[str, Any] = {}
    lifetime = options.get(f"{LOGIN}LifetimeSeconds", _DEFAULT_LIFETIME_S).strip()
    if not (lifetime.isascii() and lifetime.isdecimal()) or len(lifetime) > 12:
        raise OptionError(f"{LOGIN}LifetimeSeconds must be a number of seconds")
    for option, value in options.items():
        kind, underscore, name = option.partition("_")
        if kind not in _KINDS or not (underscore and name):
            continue
        if name in _RESERVED:
            raise OptionError(f"{option} must be left out: the claim {name} is made from the lifetime")
        claims[name] = _KINDS[kind](option, value)
    unsecured_user(options)
    claims |= {"iat": now_ms / 1000, "exp": now_ms / 1000 + int(lifetime)}
    text = f"{encoded({'alg': 'none'})}.{encoded(claims)}."
    return BearerTokenText(text, now_ms + 1000 * int(lifetime), now_ms)


class BearerTokenText(NamedTuple):
    """A token for a client to send; times in ms since 1970."""

    text: str
    expires_ms: int
    issued_ms: int

    def __repr__(self) -> str:
        """Without the token, which is a credential."""
        return f"<BearerTokenText until {self.expires_ms}>"


def unsecured_user(options: Mapping[str, str]) -> str:
    """The user that the options name. Raises OptionError."""
    option = f"{LOGIN}StringClaim_{options.get(f'{LOGIN}PrincipalClaimName', '').strip() or 'sub'}"
    if not options.get(option, "").strip():
        raise OptionError(f"{option} must be set: it is the name of the user")
    return options[option]


def _text_claim(option: str, value: str) -> str:
    return value


def _number_claim(option: str, value: str) -> float:
    try:
        return float(value)
    except ValueError:
        raise OptionError(f"{option} must be a number") from None


def _list_claim(option: str, value: str) -> list[str]:
    """The first character separates the others."""
    return value[1:].split(value[0]) if len(value) > 1 else []


_KINDS: Final = {
    f"{LOGIN}StringClaim": _text_claim,
    f"{LOGIN}NumberClaim": _number_claim,
    f"{LOGIN}ListClaim": _list_claim,
}
