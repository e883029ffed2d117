"""How a client gets its tokens, and how long it uses one."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from hypothesis import given
from hypothesis import strategies as st

from barnabas.security.errors import ProviderError, SaslClientError, SettingError
from barnabas.security.json_web_tokens import unverified_parts
from barnabas.security.oauthbearer import parse_initial
from barnabas.security.token_login import (
    OAuthBearerLogin,
    RefreshWindow,
    Retry,
    basic_authorization,
    form,
    oauthbearer_login,
    provider_context,
    read_token,
    token_of_response,
)
from barnabas.security.token_settings import UNSECURED_LOGIN_HANDLER
from barnabas.security.unsecured_tokens import BearerTokenText
from tests.security.test_identity_provider import AUTHORITY, server_context
from tests.support.identity_provider import IdentityProvider
from tests.support.tokens import SigningKey, part

PACKAGE = "org.apache.kafka.common.security.oauthbearer"
HANDLER = {"sasl.login.callback.handler.class": f"{PACKAGE}.OAuthBearerLoginCallbackHandler"}
URL = "sasl.oauthbearer.token.endpoint.url"
CLIENT = {"clientId": "alice", "clientSecret": "alice-secret"}
KEY = SigningKey()


def login(values: dict[str, str], options: dict[str, str]) -> OAuthBearerLogin:
    return oauthbearer_login(values, options, jaas_key="sasl.jaas.config")


def refused(values: dict[str, str], options: dict[str, str]) -> str:
    with pytest.raises(SettingError) as caught:
        login(values, options)
    assert "alice-secret" not in str(caught.value)
    return str(caught.value)


def token_of(client: OAuthBearerLogin) -> str:
    return parse_initial(client.client("host").initial()).token


# ---- the identity provider


def test_a_token_of_the_provider_is_used_until_it_is_old() -> None:
    with IdentityProvider({"alice": "alice-secret"}) as provider:
        client = login({**HANDLER, URL: provider.token_url}, {**CLIENT, "scope": "a b", "extension_x": "y"})
        begun, begun_together = client.client("host"), client.client("host")
        assert (begun.blocks, client.user, client.mechanism) == (True, "alice", "OAUTHBEARER")
        assert "secret" not in repr(client)
        first = parse_initial(begun.initial())
        assert first.extensions == {"x": "y"}
        assert parse_initial(begun_together.initial()).token == first.token
        assert not client.client("host").blocks
        assert token_of(client) == first.token
        assert [form for _, form in provider.requests] == [
            {"grant_type": ["client_credentials"], "scope": ["a b"]}
        ]


def test_keys_count_before_options() -> None:
    with IdentityProvider({"bob": "bob-secret"}) as provider:
        values = {
            **HANDLER,
            URL: provider.token_url,
            "sasl.oauthbearer.client.credentials.client.id": "bob",
            "sasl.oauthbearer.client.credentials.client.secret": "bob-secret",
            "sasl.oauthbearer.scope": "s",
            "sasl.oauthbearer.header.urlencode": "true",
            "sasl.oauthbearer.jwt.retriever.class": f"{PACKAGE}.ClientCredentialsJwtRetriever",
            "sasl.oauthbearer.jwt.validator.class": f"{PACKAGE}.ClientJwtValidator",
            "sasl.login.connect.timeout.ms": "2000",
        }
        client = login(values, {**CLIENT, "scope": "other"})
        assert client.user == "bob"
        assert token_of(client)
        assert provider.requests[0][1]["scope"] == ["s"]


def test_a_wrong_secret() -> None:
    with IdentityProvider({"alice": "other"}) as provider:
        client = login({**HANDLER, URL: provider.token_url}, CLIENT)
        with pytest.raises(SaslClientError, match=r"there is no token: .*HTTP 401: invalid_client"):
            client.client("host").initial()
        assert len(provider.requests) == 1  # it is final


def test_a_provider_at_https(tmp_path: Path) -> None:
    with IdentityProvider({"alice": "alice-secret"}, server_context(tmp_path)) as provider:
        options = {**CLIENT, "ssl.truststore.type": "PEM", "ssl.truststore.certificates": AUTHORITY.pem}
        assert token_of(login({**HANDLER, URL: provider.token_url}, options))
        values = {**HANDLER, URL: provider.token_url, "sasl.login.retry.backoff.max.ms": "0"}
        with pytest.raises(SaslClientError, match="CERTIFICATE_VERIFY_FAILED"):
            token_of(login(values, CLIENT))


def test_stores_of_a_provider_are_read_at_once() -> None:
    with pytest.raises(
        SettingError, match=r"must have an option ssl.truststore.location that can be used: it"
    ):
        provider_context({"ssl.truststore.location": "/nowhere", "ssl.truststore.type": "PEM"}, "jaas")
    assert "ssl.truststore" in refused(
        {**HANDLER, URL: "https://x"}, {**CLIENT, "ssl.truststore.location": "/n"}
    )


# ---- assertions


SIGNER = SigningKey("RS256", "signer", number=1)


def signed(provider: IdentityProvider, folder: Path) -> dict[str, str]:
    """The properties of a client that signs assertions."""
    provider.signers["orders"] = SIGNER.private.public_key()
    key = SIGNER.private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (folder / "key.pem").write_bytes(key)
    prefix = "sasl.oauthbearer.assertion"
    return {
        **HANDLER,
        URL: provider.token_url,
        f"{prefix}.private.key.file": str(folder / "key.pem"),
        f"{prefix}.claim.iss": "orders",
        f"{prefix}.claim.sub": "alice",
        f"{prefix}.claim.aud": provider.token_url,
    }


def test_an_assertion_as_the_grant(tmp_path: Path) -> None:
    with IdentityProvider() as provider:
        values = {
            **signed(provider, tmp_path),
            "sasl.oauthbearer.jwt.retriever.class": f"{PACKAGE}.JwtBearerJwtRetriever",
            "sasl.oauthbearer.scope": "a b",
        }
        client = login(values, {"scope": "other"})
        assert client.user == "alice"
        assert unverified_parts(token_of(client))[1]["sub"] == "alice"
        ((_, sent),) = provider.requests
        assert list(sent) == ["grant_type", "assertion", "scope"]
        assert sent["grant_type"] == ["urn:ietf:params:oauth:grant-type:jwt-bearer"]
        assert sent["scope"] == ["a b"]


@pytest.mark.parametrize(("options", "fields"), [(CLIENT, ["client_id"]), ({}, [])])
def test_an_assertion_in_place_of_the_secret(
    tmp_path: Path, options: dict[str, str], fields: list[str]
) -> None:
    with IdentityProvider() as provider:
        client = login(signed(provider, tmp_path), options)
        assert client.user == "alice"
        assert unverified_parts(token_of(client))[1]["sub"] == "alice"
        ((_, sent),) = provider.requests
        assert list(sent) == ["client_assertion_type", "client_assertion", "grant_type", *fields]


def test_an_assertion_that_another_program_renews(tmp_path: Path) -> None:
    with IdentityProvider() as provider:
        values = signed(provider, tmp_path)
        claims = {"iss": "orders", "sub": "bob", "aud": provider.token_url}
        (tmp_path / "ready").write_text(SIGNER.token(claims, time.time()))
        values["sasl.oauthbearer.assertion.file"] = str(tmp_path / "ready")
        assert unverified_parts(token_of(login(values, {})))[1]["sub"] == "bob"


def test_an_assertion_that_the_provider_rejects_or_that_cannot_be_made(tmp_path: Path) -> None:
    with IdentityProvider() as provider:
        values = signed(provider, tmp_path)
        provider.signers["orders"] = KEY.private.public_key()
        with pytest.raises(SaslClientError, match=r"there is no token: .*HTTP 401: invalid_grant"):
            token_of(login(values, {}))
        client = login(values, {})
        (tmp_path / "key.pem").unlink()
        with pytest.raises(SaslClientError, match=r"there is no token: .*private.key.file=.* cannot be read"):
            token_of(client)


def test_a_form_has_the_fields_that_are_not_empty() -> None:
    assert form({"a": "b c", "d": ""}) == "a=b+c"


# ---- a file


def test_a_token_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / "token"
    text = KEY.token({"sub": "alice"}, time.time())
    path.write_text(f"{text}\n")
    client = login({**HANDLER, URL: f"file://{path}"}, {})
    assert client.user == f"file://{path}"
    assert token_of(client) == text
    path.write_bytes(b"\xff")
    with pytest.raises(SaslClientError, match="no ASCII"):
        token_of(login({**HANDLER, URL: f"file://{path}"}, {}))
    path.unlink()
    with pytest.raises(SaslClientError, match="cannot be read"):
        token_of(login({**HANDLER, URL: f"file://{path}"}, {}))


# ---- unsigned tokens


def test_an_unsigned_token() -> None:
    options = {"unsecuredLoginStringClaim_sub": "alice", "unsecuredLoginExtension_a": "b"}
    for values in (
        {},
        {"sasl.login.callback.handler.class": UNSECURED_LOGIN_HANDLER},
    ):
        client = login(values, options)
        assert client.user == "alice"
        assert token_of(client).endswith(".")


# ---- settings that are wrong


@pytest.mark.parametrize(
    ("values", "options", "reason"),
    [
        ({}, {}, "sasl.jaas.config must have other options: unsecuredLoginStringClaim_sub must be set"),
        (
            {URL: "http://x"},
            CLIENT,
            "sasl.login.callback.handler.class must be org.*OAuthBearerLoginCallbackHandler",
        ),
        ({"sasl.login.callback.handler.class": "org.example.Own"}, CLIENT, "there is no JVM here"),
        (HANDLER, CLIENT, f"{URL} must be a URL of http, https or file"),
        ({**HANDLER, URL: "ftp://x"}, CLIENT, f"{URL}=ftp://x must be a URL"),
        ({**HANDLER, URL: "http://x"}, {}, "client.id must be set .or clientId among"),
        ({**HANDLER, URL: "http://x"}, {"clientId": "a"}, "client.secret must be set .or clientSecret among"),
        ({**HANDLER, URL: "http://x"}, {**CLIENT, "extension_auth": "x"}, "an option extension_auth"),
        (
            {**HANDLER, URL: "http://x", "sasl.oauthbearer.assertion.file": "/nowhere"},
            CLIENT,
            "assertion.file=/nowhere cannot be read",
        ),
        (
            {
                **HANDLER,
                URL: "http://x",
                "sasl.oauthbearer.jwt.retriever.class": f"{PACKAGE}.JwtBearerJwtRetriever",
            },
            CLIENT,
            "assertion.private.key.file must be set",
        ),
        (
            {
                **HANDLER,
                URL: "file:/x",
                "sasl.oauthbearer.jwt.retriever.class": f"{PACKAGE}.JwtBearerJwtRetriever",
            },
            CLIENT,
            "must fit sasl.oauthbearer.jwt.retriever.class, which is JwtBearerJwtRetriever",
        ),
        (
            {**HANDLER, URL: "http://x", "sasl.login.retry.backoff.ms": "x"},
            CLIENT,
            "backoff.ms=x must be a number",
        ),
        (
            {**HANDLER, "sasl.login.refresh.window.factor": "2"},
            CLIENT,
            "window.factor=2 must be a number from 0.5",
        ),
        (
            {**HANDLER, "sasl.login.refresh.window.jitter": "x"},
            CLIENT,
            "window.jitter=x must be a number from 0.0",
        ),
        ({**HANDLER, "sasl.login.refresh.buffer.seconds": "3601"}, CLIENT, "must be a number from 0 to 3600"),
        (
            {**HANDLER, URL: "http://x", "sasl.oauthbearer.header.urlencode": "1"},
            CLIENT,
            "must be true or false",
        ),
        (
            {**HANDLER, "sasl.oauthbearer.jwt.retriever.class": "x"},
            CLIENT,
            "retriever.class=x must be one of",
        ),
        (
            {**HANDLER, "sasl.oauthbearer.jwt.validator.class": "x"},
            CLIENT,
            "validator.class=x must be one of",
        ),
        (
            {
                **HANDLER,
                URL: "http://x",
                "sasl.oauthbearer.jwt.retriever.class": f"{PACKAGE}.FileJwtRetriever",
            },
            CLIENT,
            "must fit sasl.oauthbearer.jwt.retriever.class, which is FileJwtRetriever",
        ),
        (
            {
                **HANDLER,
                URL: "file:/x",
                "sasl.oauthbearer.jwt.retriever.class": f"{PACKAGE}.ClientCredentialsJwtRetriever",
            },
            CLIENT,
            "must fit",
        ),
    ],
)
def test_settings_that_are_wrong(values: dict[str, str], options: dict[str, str], reason: str) -> None:
    with pytest.raises(SettingError, match=reason):
        login(values, options)
    refused(values, options)


# ---- tokens and answers


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("opaque", "no JSON Web Token: it does not have three parts"),
        (KEY.token({"sub": "a", "exp": None}, 5), "no claim exp"),
        (KEY.token({"sub": "a", "exp": "5"}, 5), "no claim exp"),
        (KEY.token({}, 5), "no claim sub"),
        (KEY.token({"sub": "a"}, 5) + "\x7f", "characters that OAUTHBEARER cannot send"),
    ],
)
def test_what_cannot_be_sent(text: str, reason: str) -> None:
    with pytest.raises(SaslClientError, match=reason) as caught:
        read_token(text, "sub")
    assert text not in str(caught.value)


def test_the_times_of_a_token() -> None:
    text = KEY.token({"sub": "a"}, 5)
    assert read_token(text, "sub") == BearerTokenText(text, 305_000, 5000)
    text = KEY.token({"sub": "a", "iat": None}, 5)
    assert read_token(text, "sub").issued_ms == 0


@pytest.mark.parametrize("answer", [b"", b"{}", b'{"access_token":1}', b'{"access_token":" "}', b"[]"])
def test_answers_without_a_token(answer: bytes) -> None:
    with pytest.raises(ProviderError, match="its answer"):
        token_of_response(answer)
    assert token_of_response(b'{"access_token":"t"}') == "t"


def test_the_header_of_a_client() -> None:
    assert basic_authorization("a", "b", urlencode=False) == "Basic YTpi"
    assert basic_authorization("a+", "b:", urlencode=True) == "Basic YSUyQjpiJTNB"


# ---- time


class Source:
    """A source with a clock that a test turns."""

    def __init__(self) -> None:
        self.now_ms = 0
        self.fetches = 0
        self.error: ProviderError | None = None

    def fetch(self) -> BearerTokenText:
        self.fetches += 1
        if self.error is not None:
            raise self.error
        return BearerTokenText(f"t{self.fetches}", self.now_ms + 100_000, self.now_ms)


def timed() -> tuple[Source, OAuthBearerLogin]:
    source = Source()
    return source, OAuthBearerLogin("a", source, {}, RefreshWindow(0.8, 0.0, 0, 0), lambda: source.now_ms)


def test_a_token_is_replaced_after_a_share_of_its_life() -> None:
    source, client = timed()
    assert token_of(client) == "t1"
    source.now_ms = 79_999
    assert token_of(client) == "t1"
    source.now_ms = 80_000
    assert client.client("host").blocks
    assert token_of(client) == "t2"


def test_an_old_token_is_used_while_there_is_no_other() -> None:
    source, client = timed()
    assert token_of(client) == "t1"
    source.error = ProviderError("gone")
    source.now_ms = 99_999
    assert client.client("host").blocks
    assert token_of(client) == "t1"
    source.now_ms = 100_000
    with pytest.raises(SaslClientError, match="there is no token: gone"):
        token_of(client)


@pytest.mark.parametrize(
    ("window", "life_s", "drawn", "at_s"),
    [
        (RefreshWindow(), 3600, 0.0, 2880),
        (RefreshWindow(), 3600, 1.0, 3060),
        (RefreshWindow(), 600, 0.0, 300),
        (RefreshWindow(), 400, 0.0, 100),
        (RefreshWindow(), 300, 0.0, 240),
        (RefreshWindow(min_period_s=500), 1000, 0.0, 700),
        (RefreshWindow(0.5, 0.0, 600, 0), 1000, 0.0, 600),
    ],
)
def test_when_a_token_is_replaced(window: RefreshWindow, life_s: int, drawn: float, at_s: int) -> None:
    assert window.refresh_ms(5000, 5000 + 1000 * life_s, drawn) == 5000 + 1000 * at_s


@given(st.integers(0, 10**7), st.floats(0, 1), st.integers(0, 900), st.integers(0, 3600))
def test_a_token_is_replaced_in_its_life(life_s: int, drawn: float, least_s: int, buffer_s: int) -> None:
    window = RefreshWindow(0.8, 0.05, least_s, buffer_s)
    assert 0 <= window.refresh_ms(0, 1000 * life_s, drawn) <= 1000 * life_s


class Clock:
    def __init__(self) -> None:
        self.now_s = 0.0
        self.slept: list[float] = []

    def sleep(self, duration_s: float) -> None:
        self.slept.append(duration_s)
        self.now_s += duration_s


def test_a_fetch_is_tried_again_for_a_while() -> None:
    clock, errors = Clock(), iter([ProviderError("first"), *(ProviderError("later") for _ in range(9))])

    def fetch() -> bytes:
        raise next(errors)

    with pytest.raises(ProviderError, match="first"):
        Retry(100, 1000).run(fetch, clock.sleep, lambda: clock.now_s)
    assert clock.slept == [0.1, 0.2, 0.4, pytest.approx(0.3)]


def test_a_fetch_that_succeeds_in_the_end_and_one_that_is_final() -> None:
    clock = Clock()
    answers: list[bytes | ProviderError] = [ProviderError("x"), b"good"]

    def fetch() -> bytes:
        answer = answers.pop(0)
        if isinstance(answer, ProviderError):
            raise answer
        return answer

    assert Retry().run(fetch, clock.sleep, lambda: clock.now_s) == b"good"
    answers += [ProviderError("no", is_final=True), b"unreached"]
    with pytest.raises(ProviderError, match="no"):
        Retry().run(fetch, clock.sleep, lambda: clock.now_s)
    assert answers == [b"unreached"]


def test_a_part_of_a_token_is_no_token() -> None:
    with pytest.raises(SaslClientError):
        read_token(part(b"{}"), "sub")
