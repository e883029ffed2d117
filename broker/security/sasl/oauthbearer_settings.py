"""OAUTHBEARER of one listener, from its configuration: who checks the tokens, and by which rules.

| listener.name.<listener>.oauthbearer.sasl.server.callback.handler.class | tokens |
| --- | --- |
| OAuthBearerValidatorCallbackHandler | signed; their keys at sasl.oauthbearer.jwks.endpoint.url, which must be set |
| python:module:Class | checked by a class of the operator's own |
| OAuthBearerUnsecuredValidatorCallbackHandler, or none | unsigned, if barnabas.oauthbearer.allow.unsecured=true |

In Apache Kafka the last row needs no permission, and the first without a URL takes tokens that are not checked at all
(DefaultJwtValidator): here both prevent the start.

Source: OAuthBearerValidatorCallbackHandler, BrokerJwtValidator, ConfigurationUtils.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from barnabas.broker.security.sasl.jwks import ProviderKeys, RefreshTimes
from barnabas.broker.security.sasl.oauthbearer import (
    HookTokens,
    OAuthBearerMechanism,
    SignedTokens,
    TokenValidator,
    UnsecuredTokens,
)
from barnabas.config.catalogue.barnabas import BARNABAS_OAUTHBEARER_ALLOW_UNSECURED
from barnabas.config.catalogue.sasl import (
    SASL_JAAS_CONFIG,
    SASL_OAUTHBEARER_CLOCK_SKEW_SECONDS,
    SASL_OAUTHBEARER_EXPECTED_AUDIENCE,
    SASL_OAUTHBEARER_EXPECTED_ISSUER,
    SASL_OAUTHBEARER_JWKS_ENDPOINT_REFRESH_MS,
    SASL_OAUTHBEARER_JWKS_ENDPOINT_RETRY_BACKOFF_MAX_MS,
    SASL_OAUTHBEARER_JWKS_ENDPOINT_RETRY_BACKOFF_MS,
    SASL_OAUTHBEARER_JWKS_ENDPOINT_URL,
    SASL_OAUTHBEARER_JWT_VALIDATOR_CLASS,
    SASL_OAUTHBEARER_SCOPE_CLAIM_NAME,
    SASL_OAUTHBEARER_SUB_CLAIM_NAME,
    SASL_SERVER_CALLBACK_HANDLER_CLASS,
)
from barnabas.config.keys import ConfigKey
from barnabas.security.errors import ProviderError, SettingError
from barnabas.security.identity_provider import UrlError, check_url, is_file
from barnabas.security.json_web_tokens import TokenRules
from barnabas.security.token_login import provider_context
from barnabas.security.token_settings import PACKAGE, VALIDATOR_HANDLER
from barnabas.security.unsecured_tokens import OptionError, unsecured_rules

if TYPE_CHECKING:
    import ssl

_OLD_HANDLER: Final = f"{PACKAGE}.secured.OAuthBearerValidatorCallbackHandler"
_VALIDATORS: Final = (f"{PACKAGE}.DefaultJwtValidator", f"{PACKAGE}.BrokerJwtValidator")
_ALLOWED_URLS: Final = "-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls="


class Provider(NamedTuple):
    """Where the keys of an identity provider are. `tls` are the options for https: whose stores differ is another."""

    url: str
    tls: tuple[tuple[str, str], ...] = ()
    times: RefreshTimes = RefreshTimes()


FindKeys = Callable[[Provider, Callable[[], "ssl.SSLContext"] | None], ProviderKeys]
"""The keys of a provider, fetched; with what makes the context for https. Raises ProviderError."""


class OAuthBearerSurroundings(NamedTuple):
    """What the mechanism needs of its broker. `java_options` is KAFKA_OPTS."""

    find_keys: FindKeys
    now_ms: Callable[[], int]
    java_options: str = ""


class OAuthBearerConfig:
    """Reads the settings. `value` returns None for a wrong one, and `reject` takes what is wrong, as SaslListener's."""

    def __init__(
        self,
        value: Callable[[ConfigKey[Any]], Any],
        reject: Callable[[ConfigKey[Any], str], None],
        options: Mapping[str, str],
        surroundings: OAuthBearerSurroundings,
    ) -> None:
        self._value = value
        self._reject = reject
        self._options = options
        self._surroundings = surroundings

    def mechanism(self, handler: str | None, hook: Any, max_reauth_ms: int) -> OAuthBearerMechanism | None:
        """None where something is wrong. `handler` is the class that the configuration names, `hook` the operator's.

        Raises what the hook's constructor raises.
        """
        if hook is not None:
            return OAuthBearerMechanism(HookTokens(hook(self._options)), max_reauth_ms)
        validator = self._signed() if handler == VALIDATOR_HANDLER else self._unsecured(handler)
        if validator is None:
            return None
        keys = validator.keys if isinstance(validator, SignedTokens) else None
        return OAuthBearerMechanism(validator, max_reauth_ms, keys)

    # ---- unsigned tokens

    def _unsecured(self, handler: str | None) -> TokenValidator | None:
        if self._value(BARNABAS_OAUTHBEARER_ALLOW_UNSECURED) is not True:
            self._reject(
                SASL_SERVER_CALLBACK_HANDLER_CLASS,
                f"must be {VALIDATOR_HANDLER}, with {SASL_OAUTHBEARER_JWKS_ENDPOINT_URL.name} beside it: "
                f"{'this class' if handler else 'the default of Kafka'} takes tokens that nobody has signed, so that "
                f"whoever connects is whom they want to be. For tests {BARNABAS_OAUTHBEARER_ALLOW_UNSECURED.name}=true "
                "allows it",
            )
            return None
        try:
            return UnsecuredTokens(unsecured_rules(self._options), self._surroundings.now_ms)
        except OptionError as error:
            self._reject(SASL_JAAS_CONFIG, f"must have other options: {error}")
            return None

    # ---- signed tokens

    def _signed(self) -> SignedTokens | None:
        """Every setting is read before any is given up on, so that a start reports all that is wrong."""
        if self._value(SASL_OAUTHBEARER_JWT_VALIDATOR_CLASS) not in _VALIDATORS:
            self._reject(
                SASL_OAUTHBEARER_JWT_VALIDATOR_CLASS,
                f"must be left out, or one of {', '.join(_VALIDATORS)}; a class of your own is "
                f"{SASL_SERVER_CALLBACK_HANDLER_CLASS.name}=python:module:Class",
            )
            return None
        rules, provider = self._rules(), self._provider()
        if rules is None or provider is None:
            return None
        try:
            context = provider_context(self._options, SASL_JAAS_CONFIG.name) if provider.uses_tls else None
        except SettingError as error:
            self._reject(SASL_JAAS_CONFIG, error.requirement)
            return None
        try:
            keys = self._surroundings.find_keys(provider.provider, context)
        except ProviderError as error:
            self._reject(
                SASL_OAUTHBEARER_JWKS_ENDPOINT_URL, f"must have the identity provider's keys: {error}"
            )
            return None
        return SignedTokens(keys, rules, self._surroundings.now_ms)

    def _rules(self) -> TokenRules | None:
        skew_s = self._number(SASL_OAUTHBEARER_CLOCK_SKEW_SECONDS, 0)
        user_claim = self._name(SASL_OAUTHBEARER_SUB_CLAIM_NAME)
        scope_claim = self._name(SASL_OAUTHBEARER_SCOPE_CLAIM_NAME)
        if skew_s is None or user_claim is None or scope_claim is None:
            return None
        issuer = (self._value(SASL_OAUTHBEARER_EXPECTED_ISSUER) or "").strip()
        audiences = frozenset(self._value(SASL_OAUTHBEARER_EXPECTED_AUDIENCE) or ())
        return TokenRules(issuer or None, audiences, skew_s, user_claim, scope_claim)

    def _provider(self) -> _Endpoint | None:
        key = SASL_OAUTHBEARER_JWKS_ENDPOINT_URL
        text = self._value(key) or ""
        try:
            url = check_url(text)
        except UrlError as error:
            self._reject(key, f"{error}: where the identity provider publishes its keys")
            return None
        if not self._is_allowed(url):
            self._reject(
                key, f"must be among {_ALLOWED_URLS.removeprefix('-D')} of KAFKA_OPTS, as that is set"
            )
            return None
        refresh_ms = self._number(SASL_OAUTHBEARER_JWKS_ENDPOINT_REFRESH_MS, 1)
        backoff_ms = self._number(SASL_OAUTHBEARER_JWKS_ENDPOINT_RETRY_BACKOFF_MS, 0)
        if refresh_ms is None or backoff_ms is None:
            return None
        backoff_max_ms = self._number(SASL_OAUTHBEARER_JWKS_ENDPOINT_RETRY_BACKOFF_MAX_MS, backoff_ms)
        if backoff_max_ms is None:
            return None
        uses_tls = not is_file(url) and url.startswith("https:")
        options = sorted(self._options.items()) if uses_tls else ()
        tls = tuple((name, value) for name, value in options if name.startswith("ssl."))
        return _Endpoint(Provider(url, tls, RefreshTimes(refresh_ms, backoff_ms, backoff_max_ms)), uses_tls)

    def _is_allowed(self, url: str) -> bool:
        """The configuration is a permission already; Kafka's own, where it is set, has to name the URL as well."""
        named = [word for word in self._surroundings.java_options.split() if word.startswith(_ALLOWED_URLS)]
        return not named or url in [each.strip() for each in named[-1].removeprefix(_ALLOWED_URLS).split(",")]

    # ---- single values

    def _number(self, key: ConfigKey[Any], least: int) -> int | None:
        number: int | None = self._value(key)
        if number is not None and number < least:
            self._reject(key, f"must be at least {least}")
            return None
        return number

    def _name(self, key: ConfigKey[Any]) -> str | None:
        text: str = (self._value(key) or "").strip()
        if not text:
            self._reject(key, "must be the name of a claim")
        return text or None


class _Endpoint(NamedTuple):
    provider: Provider
    uses_tls: bool


def handler_hint(handler: str) -> str:
    """What to say of a class that is not known here."""
    if handler == _OLD_HANDLER:
        return f"must be {VALIDATOR_HANDLER}: this is the name that it had before Kafka 4"
    return f"must be {VALIDATOR_HANDLER}, or python:module:Class: there is no JVM here for another Java class"
