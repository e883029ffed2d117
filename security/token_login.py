"""OAuthBearerLogin: how a client logs in by OAUTHBEARER: where its tokens come from, and how long one is used.

With sasl.login.callback.handler.class=OAuthBearerLoginCallbackHandler a token comes from
sasl.oauthbearer.token.endpoint.url: a file, or an identity provider, which the client asks. With
OAuthBearerUnsecuredLoginCallbackHandler, or none, it is made from the options of the login module and not signed, which
is for tests alone.

A provider is asked as sasl.oauthbearer.jwt.retriever.class says:

| class | the client proves itself by | the grant |
| --- | --- | --- |
| Default-, ClientCredentialsJwtRetriever | an assertion, if assertion.file or .claim.iss is set | client_credentials |
| the same, otherwise | its id and secret, by HTTP Basic | client_credentials |
| JwtBearerJwtRetriever | an assertion | jwt-bearer |

Assertions are made by `assertions`; RFC 7523 has both ways to send one (2.2 and 2.1).

Id, secret and scope are sasl.oauthbearer.client.credentials.client.id, ....secret and sasl.oauthbearer.scope, or the
options clientId, clientSecret and scope of OAuthBearerLoginModule. Its options ssl.* are for an identity provider at
https, and those that begin with extension_ are sent along with the token.

A token is kept, and the next one fetched when it is needed after the share of its life that sasl.login.refresh.* set.
Where none is fresh the first message of a login waits for the provider, and the client of that login `blocks`.

Source: OAuthBearerLoginCallbackHandler, DefaultJwtRetriever, ClientCredentialsJwtRetriever, FileJwtRetriever,
JwtBearerJwtRetriever, ClientAssertionRequestFormatter, ClientJwtValidator; ExpiringCredentialRefreshingLogin.
"""

from __future__ import annotations

import base64
import random
import threading
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, TypeVar
from urllib.parse import quote_plus

from barnabas.security.assertions import AssertionMaker
from barnabas.security.errors import ProviderError, SaslClientError, SettingError
from barnabas.security.identity_provider import Limits, UrlError, check_url, get, is_file, post
from barnabas.security.json_web_tokens import TokenError, unverified_parts
from barnabas.security.oauthbearer import OAUTHBEARER, OAuthBearerClient, is_extension, is_token
from barnabas.security.setting_values import flag_of, number_of
from barnabas.security.settings import TlsSettings
from barnabas.security.strict_json import JsonError, parse_object
from barnabas.security.token_settings import (
    ASSERTION_FILE,
    ASSERTION_ISS,
    ASSERTION_SUB,
    BACKOFF,
    BACKOFF_MAX,
    BUFFER,
    CALLBACK_HANDLER,
    CLIENT_ID,
    CLIENT_SECRET,
    CONNECT_TIMEOUT,
    LOGIN_HANDLER,
    MIN_PERIOD,
    PACKAGE,
    READ_TIMEOUT,
    RETRIEVER,
    SCOPE,
    SUB_CLAIM,
    TOKEN_URL,
    UNSECURED_LOGIN_HANDLER,
    URLENCODE,
    VALIDATOR,
    WINDOW_FACTOR,
    WINDOW_JITTER,
)
from barnabas.security.unsecured_tokens import (
    UNSECURED_EXTENSION,
    BearerTokenText,
    OptionError,
    make_unsecured,
    unsecured_user,
)

if TYPE_CHECKING:
    import ssl

_RETRIEVERS: Final = tuple(
    f"{PACKAGE}.{name}"
    for name in (
        "DefaultJwtRetriever",
        "ClientCredentialsJwtRetriever",
        "FileJwtRetriever",
        "JwtBearerJwtRetriever",
    )
)
_VALIDATORS: Final = tuple(f"{PACKAGE}.{name}" for name in ("DefaultJwtValidator", "ClientJwtValidator"))

JWT_BEARER: Final = "urn:ietf:params:oauth:grant-type:jwt-bearer"
ASSERTION_TYPE: Final = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"

MakeRequest = Callable[[], tuple[str, dict[str, str]]]
"""The body of a request for a token, and its headers. Raises ProviderError."""

_EXTENSION: Final = "extension_"
_DEFAULT_TIMEOUT_MS: Final = 10_000
_MAX_TOTAL_S: Final = 30.0


_T = TypeVar("_T")


class Retry(NamedTuple):
    """How long a fetch that fails is tried again, in ms: after `backoff_ms`, then twice that, for `max_ms` in all."""

    backoff_ms: int = 100
    max_ms: int = 10_000

    def run(
        self,
        fetch: Callable[[], _T],
        sleep: Callable[[float], None] = time.sleep,
        now_s: Callable[[], float] = time.monotonic,
    ) -> _T:
        """Waits. Raises the first ProviderError."""
        ends_s = now_s() + self.max_ms / 1000
        first: ProviderError | None = None
        wait_s = self.backoff_ms / 1000
        while True:
            try:
                return fetch()
            except ProviderError as error:
                first = first or error
                wait_s = min(wait_s, ends_s - now_s())
                if error.is_final or wait_s <= 0:
                    raise first from None
            sleep(wait_s)
            wait_s *= 2


class RefreshWindow(NamedTuple):
    """sasl.login.refresh.*."""

    factor: float = 0.8
    jitter: float = 0.05
    min_period_s: int = 60
    buffer_s: int = 300

    def refresh_ms(self, begins_ms: int, ends_ms: int, drawn: float) -> int:
        """From when on a token is replaced; `drawn` is from 0 to 1."""
        life_ms = ends_ms - begins_ms
        planned_ms = begins_ms + life_ms * (self.factor + self.jitter * drawn)
        if life_ms < 1000 * (self.min_period_s + self.buffer_s):
            return int(planned_ms)  # there is no room for both: the share of its life counts alone
        latest_ms, earliest_ms = ends_ms - 1000 * self.buffer_s, begins_ms + 1000 * self.min_period_s
        return int(max(min(planned_ms, latest_ms), earliest_ms))


class TokenSource(Protocol):
    """Where tokens come from."""

    def fetch(self) -> BearerTokenText:
        """May wait. Raises ProviderError, and SaslClientError where what there is cannot be used."""


class OAuthBearerLogin:
    """A client that logs in by OAUTHBEARER. Shows neither its secret nor its token. Any thread may call it."""

    mechanism: Final = OAUTHBEARER

    def __init__(
        self,
        user: str,
        source: TokenSource,
        extensions: Mapping[str, str],
        window: RefreshWindow,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        """`user` is for messages: the client's id, or the file of its token."""
        self.user = user
        self._source = source
        self._extensions = extensions
        self._window = window
        self._now_ms = now_ms
        self._lock = threading.Lock()
        self._token: BearerTokenText | None = None
        self._refresh_ms = 0

    def client(self, host: str = "") -> OAuthBearerClient:
        """The client of one login, which is the same for all hosts. It `blocks` where there is no fresh token."""
        token = self._fresh()
        if token is not None:
            return OAuthBearerClient(lambda: token.text, self._extensions)
        return OAuthBearerClient(self._fetched, self._extensions, blocks=True)

    def _fresh(self) -> BearerTokenText | None:
        return self._token if self._now_ms() < self._refresh_ms else None

    def _fetched(self) -> str:
        """A token that is fresh; may wait. An old one that has not ended stays if there is no other.

        Raises SaslClientError.
        """
        with self._lock:
            token = self._fresh()
            if token is not None:  # another login has waited for it
                return token.text
            try:
                token = self._source.fetch()
            except ProviderError as error:
                if self._token is None or self._now_ms() >= self._token.expires_ms:
                    raise SaslClientError(f"there is no token: {error}") from None
                return self._token.text
            self._token = token
            self._refresh_ms = self._window.refresh_ms(token.issued_ms, token.expires_ms, random.random())
            return token.text

    def __repr__(self) -> str:
        return f"<OAuthBearerLogin as {self.user}>"


# ---- sources


class UnsecuredSource:
    """Makes unsigned tokens."""

    def __init__(self, options: Mapping[str, str], now_ms: Callable[[], int]) -> None:
        self._options = options
        self._now_ms = now_ms

    def fetch(self) -> BearerTokenText:
        return make_unsecured(self._options, self._now_ms())


class FetchedSource:
    """Fetches tokens; `fetch_text` returns one as text. Waits."""

    def __init__(self, fetch_text: Callable[[], str], user_claim: str) -> None:
        self._fetch_text = fetch_text
        self._user_claim = user_claim

    def fetch(self) -> BearerTokenText:
        return read_token(self._fetch_text(), self._user_claim)


def read_token(text: str, user_claim: str) -> BearerTokenText:
    """A token, with its times, which are not proven by anything. Raises SaslClientError."""
    text = text.strip()
    try:
        claims = unverified_parts(text)[1]
    except TokenError as error:
        raise SaslClientError(f"what was fetched is no JSON Web Token: {error}") from None
    ends, issued, user = claims.get("exp"), claims.get("iat"), claims.get(user_claim)
    if not isinstance(ends, int | float) or not 0 <= ends < 2**53:
        raise SaslClientError("the token has no claim exp")
    if not isinstance(user, str) or not user.strip():
        raise SaslClientError(f"the token has no claim {user_claim}, which is to name the user")
    if not is_token(text):
        raise SaslClientError("the token has characters that OAUTHBEARER cannot send")
    begins = issued if isinstance(issued, int | float) and 0 <= issued < 2**53 else 0
    return BearerTokenText(text, int(ends * 1000), int(begins * 1000))


def token_of_response(answer: bytes) -> str:
    """The access token in the answer of an identity provider (RFC 6749, section 5.1). Raises ProviderError."""
    try:
        found = parse_object(answer).get("access_token")
    except JsonError as error:
        raise ProviderError(f"its answer: {error}") from None
    if not isinstance(found, str) or not found.strip():
        raise ProviderError("its answer has no access_token")
    return found


def basic_authorization(client_id: str, secret: str, *, urlencode: bool) -> str:
    """The header Authorization. RFC 6749 wants both encoded, which Kafka does if asked to, and few providers expect."""
    pair = (quote_plus(client_id), quote_plus(secret)) if urlencode else (client_id, secret)
    return "Basic " + base64.b64encode(":".join(pair).encode()).decode()


def form(fields: Mapping[str, str]) -> str:
    """The body of a request with the fields that are not empty."""
    return "&".join(f"{name}={quote_plus(value)}" for name, value in fields.items() if value)


# ---- settings


def oauthbearer_login(
    values: Mapping[str, str],
    options: Mapping[str, str],
    *,
    jaas_key: str,
    now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
) -> OAuthBearerLogin:
    """The login that a client's properties and the options of its login module ask for. Raises SettingError."""
    return _Settings(values, options, jaas_key, now_ms).login()


class _Settings:
    """Reads properties and options."""

    def __init__(
        self,
        values: Mapping[str, str],
        options: Mapping[str, str],
        jaas_key: str,
        now_ms: Callable[[], int],
    ) -> None:
        self._values = {key: value.strip() for key, value in values.items()}
        self._options = options
        self._jaas_key = jaas_key
        self._now_ms = now_ms

    def login(self) -> OAuthBearerLogin:
        handler = self._values.get(CALLBACK_HANDLER, "")
        window = RefreshWindow(
            self._decimal(WINDOW_FACTOR, 0.8, 0.5, 1.0),
            self._decimal(WINDOW_JITTER, 0.05, 0.0, 0.25),
            self._number(MIN_PERIOD, 60, 900),
            self._number(BUFFER, 300, 3600),
        )
        if handler in ("", UNSECURED_LOGIN_HANDLER):
            return self._unsecured(handler, window)
        if handler != LOGIN_HANDLER:
            raise SettingError(
                CALLBACK_HANDLER, handler, f"must be {LOGIN_HANDLER}: there is no JVM here for another class"
            )
        self._check_class(RETRIEVER, _RETRIEVERS)
        self._check_class(VALIDATOR, _VALIDATORS)
        user, fetch_text = self._fetcher()
        source = FetchedSource(fetch_text, self._values.get(SUB_CLAIM) or "sub")
        return OAuthBearerLogin(user, source, self._extensions(_EXTENSION), window, self._now_ms)

    def _unsecured(self, handler: str, window: RefreshWindow) -> OAuthBearerLogin:
        if not handler and TOKEN_URL in self._values:
            raise SettingError(CALLBACK_HANDLER, None, f"must be {LOGIN_HANDLER}, since {TOKEN_URL} is set")
        source = UnsecuredSource(self._options, self._now_ms)
        try:
            user = unsecured_user(self._options)
            source.fetch()
        except OptionError as error:
            instead = f" (or {CALLBACK_HANDLER} must be {LOGIN_HANDLER}, for signed tokens)"
            raise SettingError(self._jaas_key, None, f"must have other options: {error}{instead}") from None
        extensions = self._extensions(UNSECURED_EXTENSION)
        return OAuthBearerLogin(user, source, extensions, window, self._now_ms)

    def _fetcher(self) -> tuple[str, Callable[[], str]]:
        """What to call the client, and what fetches its tokens."""
        text = self._values.get(TOKEN_URL, "")
        try:
            url = check_url(text)
        except UrlError as error:
            raise SettingError(TOKEN_URL, text or None, f"{error}: where tokens come from") from None
        retriever = self._values.get(RETRIEVER, "").rpartition(".")[2]
        if is_file(url) is not (retriever == "FileJwtRetriever") and retriever not in (
            "",
            "DefaultJwtRetriever",
        ):
            raise SettingError(TOKEN_URL, text, f"must fit {RETRIEVER}, which is {retriever}")
        if is_file(url):
            return url, lambda: _text(get(url))
        context = self._context() if url.startswith("https:") else None
        if retriever == "JwtBearerJwtRetriever":
            user, request = self._by_bearer()
        elif self._values.get(ASSERTION_FILE) or ASSERTION_ISS in self._values:
            user, request = self._by_assertion()
        else:
            user, request = self._by_secret()
        retry = Retry(self._number(BACKOFF, 100), self._number(BACKOFF_MAX, 10_000))
        limits = self._limits()

        def ask() -> bytes:
            body, headers = request()
            return post(url, body, headers, context, limits)

        return user, lambda: token_of_response(retry.run(ask))

    def _by_secret(self) -> tuple[str, MakeRequest]:
        client_id = self._given(CLIENT_ID, "clientId")
        secret = self._given(CLIENT_SECRET, "clientSecret")
        headers = {
            "Authorization": basic_authorization(
                client_id, secret, urlencode=flag_of(self._values, URLENCODE)
            )
        }
        scope = self._values.get(SCOPE) or self._options.get("scope", "").strip()
        body = form({"grant_type": "client_credentials", "scope": scope})
        return client_id, lambda: (body, headers)

    def _by_assertion(self) -> tuple[str, MakeRequest]:
        maker = AssertionMaker(self._values, self._now_ms)
        client_id = self._values.get(CLIENT_ID) or self._options.get("clientId", "").strip()
        scope = self._values.get(SCOPE) or self._options.get("scope", "").strip()

        def request() -> tuple[str, dict[str, str]]:
            fields = {
                "client_assertion_type": ASSERTION_TYPE,
                "client_assertion": maker.make(),
                "grant_type": "client_credentials",
                "client_id": client_id,
                "scope": scope,
            }
            return form(fields), {}

        return client_id or self._assertion_user(), request

    def _by_bearer(self) -> tuple[str, MakeRequest]:
        maker = AssertionMaker(self._values, self._now_ms)
        scope = self._values.get(SCOPE, "")  # of the properties alone, as in Kafka

        def request() -> tuple[str, dict[str, str]]:
            return form({"grant_type": JWT_BEARER, "assertion": maker.make(), "scope": scope}), {}

        return self._assertion_user(), request

    def _assertion_user(self) -> str:
        """What to call a client that has no id."""
        return (
            self._values.get(ASSERTION_SUB)
            or self._values.get(ASSERTION_ISS)
            or "the subject of its assertion"
        )

    def _limits(self) -> Limits:
        connect_s = self._number(CONNECT_TIMEOUT, _DEFAULT_TIMEOUT_MS) / 1000
        read_s = self._number(READ_TIMEOUT, _DEFAULT_TIMEOUT_MS) / 1000
        return Limits(connect_s, read_s, min(connect_s + read_s, _MAX_TOTAL_S))

    def _context(self) -> Callable[[], ssl.SSLContext]:
        return provider_context(self._options, self._jaas_key)

    def _extensions(self, prefix: str) -> dict[str, str]:
        found = {
            option.removeprefix(prefix): value
            for option, value in self._options.items()
            if option.startswith(prefix)
        }
        for name, value in found.items():
            if not is_extension(name, value):
                raise SettingError(
                    self._jaas_key,
                    None,
                    f"must have an option {prefix}{name} of letters, with a printable value",
                )
        return found

    # ---- single values

    def _given(self, key: str, option: str) -> str:
        value = self._values.get(key) or self._options.get(option, "").strip()
        if not value:
            raise SettingError(key, None, f"must be set (or {option} among the options of {self._jaas_key})")
        return value

    def _number(self, key: str, default: int, most: int = 2**31 - 1) -> int:
        return number_of(self._values, key, default, most)

    def _decimal(self, key: str, default: float, least: float, most: float) -> float:
        text = self._values.get(key)
        try:
            number = default if text is None else float(text)
        except ValueError:
            number = -1.0
        if not least <= number <= most:
            raise SettingError(key, text, f"must be a number from {least} to {most}")
        return number

    def _check_class(self, key: str, known: tuple[str, ...]) -> None:
        text = self._values.get(key)
        if text is not None and text not in known:
            raise SettingError(
                key, text, f"must be one of {', '.join(known)}: there is no JVM here for another"
            )


def provider_context(options: Mapping[str, str], jaas_key: str) -> Callable[[], ssl.SSLContext]:
    """What makes the context for an identity provider at https, of the options ssl.* of a login module.

    The stores are read now, and each time. Raises SettingError.
    """
    from barnabas.security.contexts import client_context
    from barnabas.security.stores import load_stores

    tls = TlsSettings({key: value for key, value in options.items() if key.startswith("ssl.")})

    def make() -> ssl.SSLContext:
        try:
            return client_context(tls, load_stores(tls))
        except SettingError as error:
            requirement = f"must have an option {error.key} that can be used: it {error.requirement}"
            raise SettingError(jaas_key, None, requirement) from None

    make()
    return make


def _text(data: bytes) -> str:
    try:
        return data.decode("ascii")
    except UnicodeDecodeError:
        raise SaslClientError("what was fetched is no JSON Web Token: it is no ASCII") from None
