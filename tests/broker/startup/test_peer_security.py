from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from barnabas.broker.startup.peer_security import controller_security, inter_broker_security, peer_opener
from barnabas.config.broker_config import BrokerConfig
from barnabas.config.layers import InvalidConfigError
from barnabas.security.kerberos import KerberosLogin
from barnabas.security.kerberos_options import KerberosOptions
from barnabas.security.sasl_client import SaslLogin
from tests.security.fake_gssapi import installed
from tests.support.certificates import Authority
from tests.support.identity_provider import IdentityProvider
from tests.support.tokens import SigningKey

CA = Authority()
PLAIN = 'PlainLoginModule required username="node" password="p" user_alice="q";'


def member(**changes: str) -> BrokerConfig:
    """Names have __ for their dots."""
    settings = {
        "process__roles": "broker",
        "node__id": "2",
        "controller__quorum__voters": "1@localhost:9093",
        "controller__listener__names": "CONTROLLER,OLD",
        "listeners": "SSL://:9092,INSIDE://:9094",
        "listener__security__protocol__map": "SSL:SSL,INSIDE:SSL,CONTROLLER:SASL_SSL,OLD:PLAINTEXT",
        "inter__broker__listener__name": "INSIDE",
        "ssl__truststore__type": "PEM",
        "ssl__truststore__certificates": CA.pem.replace("\n", " "),
        "listener.name.inside.ssl.endpoint.identification.algorithm": "",
        "sasl__mechanism__controller__protocol": "PLAIN",
        "listener.name.controller.plain.sasl.jaas.config": PLAIN,
        **changes,
    }
    given = [f"{name.replace('__', '.')}={text}" for name, text in settings.items() if text != "unset"]
    return BrokerConfig.of(b"", environ={}, overrides=given)


def test_brokers_are_reached_by_the_inter_broker_listener() -> None:
    security = inter_broker_security(member())
    assert (security.protocol, security.login) == ("SSL", None)
    assert security.tls is not None
    assert security.tls["ssl.endpoint.identification.algorithm"] == ""
    assert security.tls["ssl.truststore.type"] == "PEM"


def test_controllers_are_reached_by_the_first_of_their_listeners() -> None:
    security = controller_security(member())
    assert (security.protocol, security.login) == ("SASL_SSL", SaslLogin("PLAIN", "node", "p"))
    assert security.tls is not None
    assert security.tls["ssl.endpoint.identification.algorithm"] == "https"


def test_a_cluster_in_plain_text() -> None:
    config = member(
        listeners="PLAINTEXT://:9092",
        inter__broker__listener__name="unset",
        listener__security__protocol__map="unset",
    )
    assert inter_broker_security(config).protocol == controller_security(config).protocol == "PLAINTEXT"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {"sasl__mechanism__controller__protocol": "DIGEST"},
            "sasl.mechanism.controller.protocol=DIGEST must be one of PLAIN, SCRAM-SHA-256",
        ),
        (
            {"listener.name.controller.plain.sasl.jaas.config": "unset"},
            "listener.name.controller.plain.sasl.jaas.config must be set for SASL",
        ),
        (
            {"listener.name.controller.plain.sasl.jaas.config": "x"},
            r"listener.name.controller.plain.sasl.jaas.config=\[hidden\] must be the entry of one login module",
        ),
        (
            {"ssl__truststore__certificates": "x"},
            "--override: ssl.truststore.certificates has no certificate",
        ),
        ({"ssl__enabled__protocols": "TLSv1"}, "ssl.enabled.protocols=TLSv1 must be"),
    ],
)
async def test_what_is_wrong_names_the_key_of_the_listener(changes: dict[str, str], said: str) -> None:
    with pytest.raises(InvalidConfigError, match=said):
        peer_opener(asyncio.get_running_loop(), member(**changes), controllers=True, client_id="me")


async def test_openers_in_plain_text() -> None:
    config = member(
        listeners="PLAINTEXT://:9092",
        inter__broker__listener__name="unset",
        listener__security__protocol__map="unset",
    )
    loop = asyncio.get_running_loop()
    assert callable(peer_opener(loop, config, controllers=True, client_id="me"))


async def test_openers() -> None:
    loop = asyncio.get_running_loop()
    for controllers in (False, True):
        assert callable(peer_opener(loop, member(), controllers=controllers, client_id="me"))
    wrong = member(ssl__truststore__certificates="x")
    with pytest.raises(InvalidConfigError, match=r"ssl.truststore.certificates"):
        peer_opener(loop, wrong, controllers=False, client_id="me")


def test_a_login_may_be_in_the_static_file(tmp_path: Path) -> None:
    path = tmp_path / "jaas.conf"
    path.write_text(
        f"KafkaServer {{ org.example.ScramLoginModule required; {PLAIN} }};\n"
        'controller.KafkaServer { PlainLoginModule required username="own" password="o"; };\n'
    )
    environ = {"KAFKA_OPTS": f"-Djava.security.auth.login.config={path}"}
    inside = {
        "listener__security__protocol__map": "SSL:SSL,INSIDE:SASL_SSL,CONTROLLER:SASL_SSL,OLD:PLAINTEXT",
        "sasl__mechanism__inter__broker__protocol": "PLAIN",
        "listener.name.controller.plain.sasl.jaas.config": "unset",
    }
    config = member(**inside)
    assert inter_broker_security(config, environ).login == SaslLogin("PLAIN", "node", "p")
    assert controller_security(config, environ).login == SaslLogin("PLAIN", "own", "o")
    with pytest.raises(InvalidConfigError, match=r"barnabas.jaas.config.file=.* must be a JAAS file"):
        inter_broker_security(config, {"KAFKA_OPTS": "-Djava.security.auth.login.config=/missing"})


def test_a_member_logs_in_by_its_keytab(monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch)
    module = "com.sun.security.auth.module.Krb5LoginModule"
    options = 'useKeyTab=true storeKey=true keyTab="/k" principal="kafka/h@R"'
    config = member(
        sasl__mechanism__controller__protocol="GSSAPI",
        **{
            "listener.name.controller.gssapi.sasl.jaas.config": f"{module} required {options};",
            "listener.name.controller.sasl.kerberos.service.name": "controllers",
        },
    )
    login = controller_security(config).login
    assert login == KerberosLogin(KerberosOptions("controllers", "kafka/h@R", True, "/k"))


def test_a_member_without_the_name_of_the_service_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch)
    module = 'com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true principal="kafka/h@R";'
    config = member(
        sasl__mechanism__controller__protocol="GSSAPI",
        **{"listener.name.controller.gssapi.sasl.jaas.config": module},
    )
    with pytest.raises(InvalidConfigError, match=r"gssapi\.sasl\.jaas\.config.* must have serviceName"):
        controller_security(config)


PACKAGE = "org.apache.kafka.common.security.oauthbearer"
OAUTHBEARER = {
    "sasl__mechanism__controller__protocol": "OAUTHBEARER",
    "listener.name.controller.oauthbearer.sasl.jaas.config": "OAuthBearerLoginModule required;",
    "listener.name.controller.oauthbearer.sasl.login.callback.handler.class": (
        f"{PACKAGE}.OAuthBearerLoginCallbackHandler"
    ),
    "listener.name.controller.oauthbearer.sasl.oauthbearer.client.credentials.client.id": "node",
    "sasl.oauthbearer.client.credentials.client.secret": "node-secret",
}


def test_a_login_with_tokens_of_an_identity_provider() -> None:
    with IdentityProvider({"node": "node-secret"}) as provider:
        config = member(**OAUTHBEARER, **{"sasl.oauthbearer.token.endpoint.url": provider.token_url})
        login = controller_security(config).login
        assert login is not None
        client = login.client("host")
        assert (login.mechanism, login.user, client.blocks) == ("OAUTHBEARER", "node", True)
        assert client.initial().startswith(b"n,,\1auth=Bearer ")
        assert not login.client("host").blocks


def test_a_login_with_tokens_that_is_not_complete() -> None:
    with pytest.raises(InvalidConfigError, match=r"sasl\.oauthbearer\.token\.endpoint\.url must be a URL"):
        controller_security(member(**OAUTHBEARER))


def test_a_login_with_an_assertion(tmp_path: Path) -> None:
    (tmp_path / "ready").write_text(SigningKey().token({"iss": "node", "sub": "node"}, 1000))
    more = {"sasl.oauthbearer.token.endpoint.url": "http://x", "sasl.oauthbearer.assertion.file": "/nowhere"}
    with pytest.raises(
        InvalidConfigError, match=r"sasl\.oauthbearer\.assertion\.file=/nowhere cannot be read"
    ):
        controller_security(member(**OAUTHBEARER, **more))
    key = "listener.name.controller.oauthbearer.sasl.oauthbearer.assertion.file"
    login = controller_security(member(**OAUTHBEARER, **more, **{key: str(tmp_path / "ready")})).login
    assert login is not None
    assert login.client("host").blocks
