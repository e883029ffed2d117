r"""OAUTHBEARER (KIP-255, KIP-768): the client sends a token that an identity provider has made for it.

A token that is not accepted is answered with {"status":"invalid_token"}, which is not an error yet; the client sends
\x01 then, and the login fails with that text. Extensions of the message are accepted, and mean nothing. The session
ends when the token does. A token of more than LONG_BYTES is checked in a thread.

Who checks tokens: the keys of the identity provider (`jwks`), or a class of the operator's own, as
`sasl.server.callback.handler.class=python:module:Class`, with the prefix of listener and mechanism. As an example, for
tokens that only their provider can read (RFC 7662), the module `company_tokens` in a directory of PYTHONPATH

    import json, time, urllib.parse, urllib.request

    class Introspection:
        def __init__(self, options):                 # those of the JAAS entry, a mapping of names to texts
            self.url = options["introspectionUrl"]

        def validate(self, token):                   # None: reject; else the user's name and the token's end
            data = urllib.parse.urlencode({"token": token}).encode()
            with urllib.request.urlopen(self.url, data, timeout=5) as response:
                found = json.load(response)
            return (found["username"], found["exp"] * 1000) if found["active"] else None   # ms since 1970

and in server.properties

    sasl.enabled.mechanisms=OAUTHBEARER
    listener.name.sasl_ssl.oauthbearer.sasl.server.callback.handler.class=python:company_tokens:Introspection
    listener.name.sasl_ssl.oauthbearer.sasl.jaas.config= \
        org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required \
        introspectionUrl="https://login.example/introspect";

There is one object for each listener. `validate` runs in threads, several at a time; an exception lets nobody in.

Source: org.apache.kafka.common.security.oauthbearer.internals.OAuthBearerSaslServer.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from typing import Any, Final, Protocol

from barnabas.broker.security.sasl.jwks import ProviderKeys
from barnabas.broker.security.sasl.server import Login, SaslAuthenticationError, SaslError, WouldBlockError
from barnabas.security.json_web_tokens import (
    BearerToken,
    TokenError,
    TokenRules,
    UnknownKeyError,
    check_token,
    unverified_parts,
)
from barnabas.security.oauthbearer import ABORT, OAUTHBEARER, MessageError, parse_initial
from barnabas.security.unsecured_tokens import ScopeError, UnsecuredRules, check_unsecured

logger = logging.getLogger("barnabas.security")

LONG_BYTES: Final = 4 * 1024
"""The event loop decodes and checks up to so many, which takes a millisecond; 512 KiB take a hundred."""

_USER_AND_END: Final = 2


class TokenValidator(Protocol):
    """Whether a token lets its bearer in. Called by the event loop, and by threads."""

    @property
    def blocks(self) -> bool:
        """Whether it may wait for others."""

    def validate(self, token: str) -> BearerToken:
        """Raises TokenError."""

    def claimed_user(self, token: str) -> str | None:
        """The name that the token claims, true or not, for the log."""


class SignedTokens:
    """Tokens that are signed by a key of the identity provider."""

    blocks: Final = False

    def __init__(self, keys: ProviderKeys, rules: TokenRules, now_ms: Callable[[], int]) -> None:
        self.keys = keys
        self._rules = rules
        self._now_ms = now_ms

    def validate(self, token: str) -> BearerToken:
        try:
            return check_token(token, self.keys.current, self._rules, self._now_ms() // 1000)
        except UnknownKeyError as error:
            self.keys.missed(error.key_id)
            raise

    def claimed_user(self, token: str) -> str | None:
        return _claim(token, self._rules.user_claim)


class UnsecuredTokens:
    """Tokens that are not signed: for tests alone (barnabas.oauthbearer.allow.unsecured)."""

    blocks: Final = False

    def __init__(self, rules: UnsecuredRules, now_ms: Callable[[], int]) -> None:
        self._rules = rules
        self._now_ms = now_ms

    def validate(self, token: str) -> BearerToken:
        return check_unsecured(token, self._rules, self._now_ms())

    def claimed_user(self, token: str) -> str | None:
        return _claim(token.rstrip(".") + "._", self._rules.user_claim)


class HookTokens:
    """Tokens that a class of the operator's own checks."""

    blocks: Final = True

    def __init__(self, hook: Any) -> None:
        self._hook = hook

    def validate(self, token: str) -> BearerToken:
        try:
            found = self._hook.validate(token)
        except Exception as error:
            # Without the exception's text and traceback: they may contain the token.
            logger.warning("the class that checks tokens has failed with %s", type(error).__name__)
            raise TokenError("the class that checks tokens has failed") from None
        if found is None:
            raise TokenError("the class that checks tokens rejects it")
        if not (isinstance(found, tuple) and len(found) == _USER_AND_END):
            raise TokenError("the class that checks tokens has returned neither None nor a user and an end")
        user, expires_ms = found
        if not (isinstance(user, str) and user and isinstance(expires_ms, int | float)):
            raise TokenError("the class that checks tokens has returned no user with an end")
        return BearerToken(user, int(expires_ms))

    def claimed_user(self, token: str) -> str | None:
        """It may be no token that can be read."""
        return None


def _claim(token: str, name: str) -> str | None:
    try:
        claim = unverified_parts(token)[1].get(name)
    except TokenError:
        return None
    return claim if isinstance(claim, str) else None


class OAuthBearerServer:
    """One login by OAUTHBEARER."""

    def __init__(self, validator: TokenValidator) -> None:
        self._validator = validator
        self._rejection: _Rejection | None = None
        self.blocks = validator.blocks
        self.user: str | None = None
        self.login: Login | None = None

    def evaluate(self, token: bytes) -> bytes:
        if len(token) > LONG_BYTES and not self.blocks:
            self.blocks = True
            raise WouldBlockError
        rejection, self._rejection = self._rejection, None
        if rejection is not None and token == ABORT:
            raise SaslAuthenticationError(rejection.answer, reason=rejection.reason)
        try:
            message = parse_initial(token)
        except MessageError as error:
            raise SaslError(str(error)) from None
        self.user = self._validator.claimed_user(message.token)
        try:
            found = self._validator.validate(message.token)
        except TokenError as error:
            self._rejection = _Rejection(error)
            return self._rejection.answer.encode()
        self.user = found.user
        if message.authorization_id not in ("", found.user):
            raise SaslAuthenticationError(
                f"Authentication failed: Client requested an authorization id ({message.authorization_id}) that is "
                f"different from the token's principal name ({found.user})"
            )
        self.login = Login(found.user, expires_ms=found.expires_ms)
        return b""


class _Rejection:
    """Why a token is rejected: for the log, and for the client, which learns less."""

    def __init__(self, error: TokenError) -> None:
        self.reason = f"the token is rejected: {error}"
        self.answer = '{"status":"invalid_token"}'
        if isinstance(error, ScopeError):
            self.answer = f'{{"status":"insufficient_scope", "scope":{json.dumps(error.scope)}}}'


class OAuthBearerMechanism:
    """OAUTHBEARER of one listener."""

    name: Final = OAUTHBEARER

    def __init__(
        self, validator: TokenValidator, max_reauth_ms: int = 0, keys: ProviderKeys | None = None
    ) -> None:
        """`keys` are those that the validator uses, for metrics."""
        self._validator = validator
        self.keys = keys
        self.max_reauth_ms = max_reauth_ms

    @property
    def takes_unsigned(self) -> bool:
        """Whether its clients are whom they want to be."""
        return isinstance(self._validator, UnsecuredTokens)

    def new_server(self) -> OAuthBearerServer:
        return OAuthBearerServer(self._validator)
