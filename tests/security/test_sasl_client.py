from __future__ import annotations

import base64

import pytest

from barnabas.security import sasl_client
from barnabas.security.errors import SaslClientError, SettingError
from barnabas.security.jaas import JaasEntry
from barnabas.security.sasl_client import ClientLogin, SaslLogin, login_of, parse_login
from barnabas.security.scram import salted_password
from barnabas.security.scram_client import ScramClient

PLAIN = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="p";'
SCRAM = 'ScramLoginModule required username="u" password="p" tokenauth="true";'


def test_plain_sends_name_and_password() -> None:
    login = parse_login("plain", PLAIN)
    assert login == SaslLogin("PLAIN", "u", "p")
    client = login.client("host")
    assert (client.mechanism, client.initial()) == ("PLAIN", b"\0u\0p")
    assert client.respond(b"") is None
    with pytest.raises(SaslClientError, match="goes on"):
        client.respond(b"x")


def test_scram_may_be_for_a_token() -> None:
    login = parse_login("SCRAM-SHA-512", SCRAM)
    assert login == SaslLogin("SCRAM-SHA-512", "u", "p", is_token=True)
    client = login.client("host")
    assert isinstance(client, ScramClient)
    assert client.initial() != login.client("host").initial()  # the nonce
    assert client.initial().endswith(b"tokenauth=true")


def test_what_a_login_computes_of_its_password_is_kept_for_each_salt(monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes milliseconds, and members of a cluster log in on their event loop."""
    computed: list[bytes] = []

    def counting(hash_name: str, password: bytes, salt: bytes, iterations: int) -> bytes:
        computed.append(salt)
        return salted_password(hash_name, password, salt, iterations)

    monkeypatch.setattr(sasl_client, "salted_password", counting)
    login = SaslLogin("SCRAM-SHA-256", "u", "p")
    for salt in (b"one", b"one", b"other", b"one"):
        client = login.client()
        nonce = client.initial().decode().rpartition("r=")[2]
        first = f"r={nonce}more,s={base64.b64encode(salt).decode()},i=4096"
        assert client.respond(first.encode()) is not None
    assert computed == [b"one", b"other"]


def test_a_login_shows_no_password() -> None:
    login = SaslLogin("PLAIN", "u", "secret")
    assert repr(login) == "<SaslLogin PLAIN as u>"
    assert hash(login) == hash(SaslLogin("PLAIN", "u", "secret"))
    assert login != "u"


@pytest.mark.parametrize(
    ("mechanism", "jaas", "said"),
    [
        ("DIGEST", PLAIN, "sasl.mechanism=DIGEST must be one of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, GSSAPI"),
        ("GSSAPI", None, "sasl.jaas.config must be set for SASL: .*Krb5LoginModule required useKeyTab=true"),
        ("GSSAPI", PLAIN, "must name Krb5LoginModule for GSSAPI; it names PlainLoginModule"),
        (
            "GSSAPI",
            "Krb5LoginModule required;",
            "sasl.jaas.config must have useKeyTab=true or useTicketCache=true",
        ),
        ("PLAIN", None, "sasl.jaas.config must be set for SASL: .*PlainLoginModule required username="),
        ("PLAIN", SCRAM, "must name PlainLoginModule for PLAIN; it names ScramLoginModule"),
        ("PLAIN", "PlainLoginModule required;", "must have the options username and password"),
        ("PLAIN", 'PlainLoginModule required username="" password="p";', "must have the options"),
        ("PLAIN", "secret", "sasl.jaas.config must be the entry of one login module: it ends where"),
    ],
)
def test_what_is_wrong_names_the_key(mechanism: str, jaas: str | None, said: str) -> None:
    with pytest.raises(SettingError, match=said):
        parse_login(mechanism, jaas)


def of_broker(mechanism: str, entries: list[JaasEntry] | None) -> ClientLogin:
    return login_of(mechanism, entries, {}, mechanism_key="m", jaas_key="j")


def test_in_a_broker_the_keys_have_other_names() -> None:
    with pytest.raises(SettingError, match=r"^m=DIGEST must be one of"):
        of_broker("DIGEST", None)
    with pytest.raises(SettingError, match=r"^j must be set"):
        of_broker("PLAIN", None)
    with pytest.raises(SettingError, match=r"^j must name PlainLoginModule for PLAIN; it names none"):
        of_broker("PLAIN", [])


def test_of_several_login_modules_that_of_the_mechanism_counts() -> None:
    scram = JaasEntry("a.ScramLoginModule", "REQUIRED", {"username": "s", "password": "1"})
    plain = JaasEntry("a.PlainLoginModule", "REQUIRED", {"username": "p", "password": "2", "user_x": "3"})
    assert of_broker("PLAIN", [scram, plain]) == SaslLogin("PLAIN", "p", "2")
    assert of_broker("SCRAM-SHA-256", [scram, plain]) == SaslLogin("SCRAM-SHA-256", "s", "1")


def test_kerberos_needs_the_extra() -> None:
    jaas = 'Krb5LoginModule required useKeyTab=true keyTab="/k" principal="alice@R";'
    with pytest.raises(SettingError, match=r'sasl.jaas.config must have serviceName="kafka"'):
        parse_login("GSSAPI", jaas)
    try:
        login = parse_login("GSSAPI", jaas, {"sasl.kerberos.service.name": "kafka"})
    except SettingError as error:
        assert str(error).startswith("sasl.mechanism=GSSAPI needs the extra `kerberos`")  # noqa: PT017
    else:
        assert (login.mechanism, login.user) == ("GSSAPI", "alice@R")


def test_oauthbearer_needs_more_properties() -> None:
    entry = 'OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="alice";'
    login = parse_login("OAUTHBEARER", entry, {})
    assert (login.mechanism, login.user, login.client("host").mechanism) == (
        "OAUTHBEARER",
        "alice",
        "OAUTHBEARER",
    )
    with pytest.raises(SettingError, match=r"sasl.oauthbearer.token.endpoint.url is set"):
        parse_login("OAUTHBEARER", entry, {"sasl.oauthbearer.token.endpoint.url": "http://x"})
    with pytest.raises(SettingError, match=r'OAuthBearerLoginModule required clientId="\.\.\." clientSecret'):
        parse_login("OAUTHBEARER", None)
