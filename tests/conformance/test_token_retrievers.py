"""Clients fetch tokens as Apache Kafka's Java client does: the same requests, and the same assertions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jwt
import pytest

from barnabas.security.errors import SaslClientError, SettingError
from barnabas.security.token_login import oauthbearer_login
from tests.conformance.java_retriever import JavaRetriever
from tests.security.test_assertions import write_key
from tests.support.identity_provider import IdentityProvider
from tests.support.tokens import SigningKey

pytestmark = [pytest.mark.conformance, pytest.mark.timeout(180)]

PACKAGE = "org.apache.kafka.common.security.oauthbearer"
HANDLER = {"sasl.login.callback.handler.class": f"{PACKAGE}.OAuthBearerLoginCallbackHandler"}
PREFIX = "sasl.oauthbearer.assertion"
RETRIEVER = "sasl.oauthbearer.jwt.retriever.class"
BEARER = {RETRIEVER: f"{PACKAGE}.JwtBearerJwtRetriever"}
TIMES = ("iat", "exp", "nbf", "jti")
PASSPHRASE = "correct horse"
RSA, EC = SigningKey("RS256", number=2), SigningKey("ES256")
Case = tuple[dict[str, str], dict[str, str]]
"""Properties, and options of the login module."""


class Clients:
    """Kafka's client and ours before the same provider."""

    def __init__(self, provider: IdentityProvider, folder: Path) -> None:
        self.provider = provider
        self.folder = folder
        provider.secrets["alice"] = "alice-secret"
        provider.signers = {"rsa": RSA.private.public_key(), "ec": EC.private.public_key()}
        self.file(
            "template",
            '{"header": {"kid": "k1"}, "payload": {"sub": "bob", "role": ["a", {"b": 1}], "iat": 1}}',
        )
        self.file("array", "[]")
        claims = {"iss": "rsa", "sub": "bob", "aud": provider.token_url, "exp": 2**33}
        self.file("ready", RSA.token(claims, 5) + "\n")
        self.file("opaque", "x")
        write_key(folder / "rsa", RSA)
        write_key(folder / "ec", EC)
        write_key(folder / "locked", EC, passphrase=PASSPHRASE)
        names = ("template", "array", "ready", "opaque", "rsa", "ec", "locked")
        self.error = ""
        """Why ours has failed."""
        self.java = JavaRetriever([provider.token_url], [self.path(name) for name in names])

    def file(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text)

    def path(self, name: str) -> str:
        return str(self.folder / name)

    def signed(self, key: str = "rsa", **more: str) -> dict[str, str]:
        """The properties of assertions, dots written as underscores; those of files name one of this test."""
        values = {"private_key_file": key, "claim_iss": key, "claim_sub": "bob", **more}
        found = {}
        for name, text in values.items():
            is_file = name.endswith("file") and text
            found[f"{PREFIX}.{name.replace('_', '.')}"] = self.path(text) if is_file else text
        return {f"{PREFIX}.claim.aud": self.provider.token_url, **found}

    def both(self, case: Case) -> list[tuple[bool, Any]]:
        """Of each whether it got a token, and what it has asked the provider."""
        values, options = case
        values = {
            **HANDLER,
            "sasl.oauthbearer.token.endpoint.url": self.provider.token_url,
            "sasl.login.retry.backoff.max.ms": "100",
            **values,
        }
        self.provider.requests.clear()
        outcomes = [(self.java.fetch(values, options) is not None, self.asked())]
        try:
            login = oauthbearer_login(values, options, jaas_key="sasl.jaas.config")
            login.client("host").initial()
        except (SettingError, SaslClientError) as error:
            self.error = str(error)
            outcomes.append((False, self.asked()))
        else:
            outcomes.append((True, self.asked()))
        return outcomes

    def asked(self) -> list[Any]:
        """The requests since the last call; of assertions what is in them, apart from times and ids."""
        requests, self.provider.requests[:] = list(self.provider.requests), []
        return [
            (path, [(name, seen(name, text)) for name, texts in form.items() for text in texts])
            for path, form in requests
        ]


def seen(name: str, text: str) -> Any:
    if not name.endswith("assertion"):
        return text
    header = jwt.get_unverified_header(text)
    claims = jwt.decode(text, options={"verify_signature": False})
    relative = {each: claims[each] - claims["iat"] for each in ("exp", "nbf") if each in claims}
    named = {name: value for name, value in claims.items() if name not in TIMES}
    return header, named, relative, "jti" in claims


@pytest.fixture(scope="module")
def clients(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clients]:
    with IdentityProvider() as provider:
        made = Clients(provider, tmp_path_factory.mktemp("files"))
        yield made
        made.java.close()


def test_requests_are_the_same_and_both_get_a_token(clients: Clients) -> None:
    """Of keys that are encrypted Java knows some ciphers alone, by its version; ours are in test_assertions."""
    ec = clients.signed("ec", algorithm="ES256")
    cases: list[Case] = [
        ({}, {"clientId": "alice", "clientSecret": "alice-secret", "scope": "a b"}),
        ({**BEARER, **clients.signed()}, {"scope": "of jaas"}),
        ({**BEARER, **clients.signed(), "sasl.oauthbearer.scope": " a b/ü"}, {}),
        ({**BEARER, **ec, f"{PREFIX}.claim.jti.include": "true"}, {}),
        ({**BEARER, **clients.signed(claim_sub="eve", template_file="template")}, {}),
        ({**BEARER, **clients.signed(claim_exp_seconds="5", claim_nbf_seconds="0")}, {}),
        ({**BEARER, f"{PREFIX}.file": clients.path("ready")}, {}),
        (clients.signed(), {}),
        (clients.signed(), {"clientId": "an id", "clientSecret": "unused", "scope": "s"}),
        ({**ec, "sasl.oauthbearer.client.credentials.client.id": "x", "sasl.oauthbearer.scope": "a b"}, {}),
        ({**clients.signed(), f"{PREFIX}.file": clients.path("ready")}, {}),
        ({RETRIEVER: f"{PACKAGE}.ClientCredentialsJwtRetriever", **clients.signed()}, {}),
    ]
    for case in cases:
        java, ours = clients.both(case)
        assert ours == java, (case, clients.error)
        assert java[0], case
        assert len(java[1]) == 1


def test_both_fail_and_ask_the_provider_nothing(clients: Clients) -> None:
    cases: list[Case] = [
        (BEARER, {}),
        ({**BEARER, **clients.signed("locked", algorithm="ES256")}, {}),
        ({**BEARER, **clients.signed("locked", algorithm="ES256", private_key_passphrase="wrong")}, {}),
        ({**BEARER, **clients.signed("rsa", private_key_passphrase=PASSPHRASE)}, {}),
        ({**BEARER, **clients.signed("rsa", algorithm="ES256")}, {}),
        ({**BEARER, **clients.signed("rsa", algorithm="HS256")}, {}),
        ({**BEARER, **clients.signed("opaque")}, {}),
        ({**BEARER, **clients.signed("missing")}, {}),
        ({**BEARER, **clients.signed(claim_exp_seconds="86401")}, {}),
        ({**BEARER, **clients.signed(claim_nbf_seconds="3601")}, {}),
        ({**BEARER, **clients.signed(claim_iss=" ")}, {}),
        ({**BEARER, **clients.signed(template_file="array")}, {}),
        ({**BEARER, **clients.signed(template_file="missing")}, {}),
        ({**BEARER, f"{PREFIX}.file": clients.path("opaque")}, {}),
        ({**BEARER, f"{PREFIX}.file": clients.path("missing")}, {}),
        ({f"{PREFIX}.file": clients.path("opaque")}, {}),
        ({f"{PREFIX}.claim.sub": "bob"}, {}),
    ]
    for case in cases:
        assert clients.both(case) == [(False, [])] * 2, case
