"""Each way in, tried by Java's clients of 2.8, 3.9 and 4.3, by franz-go and by sarama, at a broker with an authorizer.

Wrong and right credentials, transactions, groups, sessions that are renewed, and a credential that is removed. Other
clients: test_logins.py, test_logins_over_tls.py and test_tls.py; Kerberos: test_kerberos.py.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.errors import TopicAuthorizationFailedError as AioDenied
from confluent_kafka import KafkaError as RdError
from confluent_kafka import Producer

from tests.interop.clients.kafka_python import KafkaError, KafkaProducer
from tests.interop.clients.lines import LineClientError
from tests.interop.clients.logging_in import aiokafka_round_trip, kafka_python_round_trip
from tests.interop.clients.login_programs import PROGRAMS, SECRET, TRIP, Login, LoginProgram, login_program
from tests.interop.test_logins import ADMIN, LoginBroker, remove_credentials, set_passwords
from tests.support.broker_process import BrokerProcess
from tests.support.certificates import Authority
from tests.support.ports import held_ports
from tests.support.sasl import PLAIN_MODULE, listener_settings, plain_entry

pytestmark = [pytest.mark.clients, pytest.mark.timeout(900)]

CA, OTHER_CA = Authority(), Authority("Other CA")
LIMIT_S = 120.0
SCRAM = ("SCRAM-SHA-256", "SCRAM-SHA-512")
WAYS = (
    "PLAINTEXT",
    "SSL",
    "mutual TLS",
    "PLAIN",
    *SCRAM,
    "PLAIN over TLS",
    "SCRAM-SHA-512 over TLS",
    "token",
)
"""A token is one that alice has made."""

RIGHTS = {"TOPIC": ("CREATE", "READ", "WRITE"), "GROUP": ("READ",), "TRANSACTIONAL_ID": ("WRITE",)}
"""What everybody may do where names begin with open-."""


class Home:
    """A broker with a listener for each way in, and one of short sessions; its administrator logs in by PLAIN."""

    def __init__(self, broker: BrokerProcess, folder: Path) -> None:
        self.folder = folder
        self.logins = LoginBroker(broker)
        self.ssl_port, self.mutual_port, self.secure_port = held_ports(3)
        broker.overrides["listeners"] += (
            f",SSL://127.0.0.1:{self.ssl_port},MUTUAL://127.0.0.1:{self.mutual_port},SECURE://127.0.0.1:{self.secure_port}"
        )
        users = {"PLAIN": plain_entry(admin="admin-secret", alice="alice-secret")}
        broker.overrides |= {
            "listener.security.protocol.map": (
                "PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT,RENEWING:SASL_SSL,SSL:SSL,MUTUAL:SSL,SECURE:SASL_SSL"
            ),
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": f"{folder}/broker.pem",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": f"{folder}/ca.pem",
            "listener.name.mutual.ssl.client.auth": "required",
            "delegation.token.secret.key": "the key of all brokers",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:admin",
            "offsets.topic.num.partitions": "4",
            "transaction.state.log.num.partitions": "4",
        }
        for listener in ("SASL", "SECURE"):
            broker.overrides |= listener_settings(listener, users)
            broker.overrides[f"listener.name.{listener.lower()}.sasl.enabled.mechanisms"] = ",".join(
                ("PLAIN", *SCRAM)
            )
        self.admin_settings: dict[str, Any] = {
            "bootstrap.servers": f"127.0.0.1:{self.logins.port}",
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "admin",
            "sasl.password": "admin-secret",
        }

    def give_rights(self) -> None:
        """Gives everybody RIGHTS."""
        entries = [
            ADMIN.AclBinding(
                getattr(ADMIN.ResourceType, kind),
                "open-",
                ADMIN.ResourcePatternType.PREFIXED,
                "User:*",
                "*",
                getattr(ADMIN.AclOperation, operation),
                ADMIN.AclPermissionType.ALLOW,
            )
            for kind, operations in RIGHTS.items()
            for operation in operations
        ]
        admin = ADMIN.AdminClient(self.admin_settings)
        for future in admin.create_acls(entries).values():
            future.result(LIMIT_S)

    def way(self, name: str) -> Login:
        """The login of a way in, with right credentials."""
        ca = f"{self.folder}/ca.pem"
        by_name = {
            "PLAINTEXT": Login(self.logins.broker.bootstrap),
            "SSL": Login(f"127.0.0.1:{self.ssl_port}", ca=ca),
            "mutual TLS": Login(
                f"127.0.0.1:{self.mutual_port}", ca=ca, certificate=f"{self.folder}/client.pem"
            ),
        }
        if name in by_name:
            return by_name[name]
        mechanism, _, over_tls = name.partition(" ")
        port = self.secure_port if over_tls else self.logins.port
        return Login(f"127.0.0.1:{port}", mechanism, "alice", "alice-secret", ca=ca if over_tls else "")

    def renewing(self, mechanism: str) -> Login:
        """One whose session is short, over TLS."""
        where = f"127.0.0.1:{self.logins.renewing_port}"
        return Login(where, mechanism, "alice", "alice-secret", ca=f"{self.folder}/ca.pem")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    folder = tmp_path_factory.mktemp("stores")
    names = ["localhost", "127.0.0.1"]
    for name, identity in {
        "broker": CA.issue("broker", names),
        "client": CA.issue("somebody"),
        "stranger": OTHER_CA.issue("somebody"),
    }.items():
        (folder / f"{name}.pem").write_text(identity.key_pem() + identity.chain_pem())
        (folder / f"{name}.p12").write_bytes(identity.pkcs12(SECRET))
    (folder / "ca.pem").write_text(CA.pem)
    (folder / "other-ca.pem").write_text(OTHER_CA.pem)
    broker = BrokerProcess(tmp_path_factory.mktemp("logins") / "data")
    made = Home(broker, folder)
    try:
        broker.start()
        made.give_rights()
        set_passwords(made.admin_settings, {"alice": "alice-secret"})
        yield made
        assert broker.stop() == broker.clean_status
        for password in ("admin-secret", "alice-secret", "wrong-secret"):
            assert password not in broker.output
    finally:
        broker.kill()


@pytest.fixture(scope="module", params=PROGRAMS)
def program(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LoginProgram]:
    made = login_program(request.param, tmp_path_factory.mktemp("program"))
    yield made
    made.close()


def new_topic() -> str:
    return f"open-{uuid.uuid4().hex[:8]}"


def token_of(home: Home, tmp_path: Path) -> Login:
    """Has alice make a delegation token, by our own command."""
    from click.testing import CliRunner

    from barnabas.cli.main import main

    alice = home.way("PLAIN")
    config = tmp_path / "alice.properties"
    entry = f'{PLAIN_MODULE} required username="{alice.user}" password="{alice.password}";'
    config.write_text(f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.jaas.config={entry}\n")
    words = [
        "tokens",
        "--create",
        "--json",
        "--bootstrap-server",
        alice.servers,
        "--command-config",
        str(config),
    ]
    ran = CliRunner().invoke(main, words, catch_exceptions=False)
    assert ran.exit_code == 0, ran.output
    token = json.loads(ran.stdout)
    return replace(
        alice, mechanism="SCRAM-SHA-512", user=token["tokenId"], password=token["hmac"], token=True
    )


@pytest.mark.parametrize("way", WAYS)
def test_a_transaction_and_a_group(home: Home, program: LoginProgram, way: str, tmp_path: Path) -> None:
    login = token_of(home, tmp_path) if way == "token" else home.way(way)
    if way == "token" and program.name == "sarama":  # it cannot say that a password is a token's
        with pytest.raises(LineClientError, match=r"(?i)authentication"):
            program.open(login, new_topic())
        return
    assert program.trip(login, new_topic()) == TRIP
    assert login.password == "" or login.password not in home.logins.broker.output


def test_what_no_entry_allows_is_denied(home: Home, program: LoginProgram) -> None:
    with pytest.raises(LineClientError, match=r"(?i)not authorized|authorization"):
        program.trip(home.way("PLAINTEXT"), "closed")


@pytest.mark.parametrize(
    ("way", "user"),
    [
        *((way, "alice") for way in ("PLAIN", *SCRAM, "SCRAM-SHA-512 over TLS")),
        ("SCRAM-SHA-256", "mallory"),
    ],
)
def test_wrong_credentials_are_told_so(home: Home, program: LoginProgram, way: str, user: str) -> None:
    failures = home.logins.metric("failed_authentication_total")
    with pytest.raises(LineClientError) as caught:
        program.open(replace(home.way(way), user=user, password="wrong-secret"), new_topic())
    assert "uthentication failed" in str(caught.value) or "SASL_AUTHENTICATION_FAILED" in str(caught.value)
    assert home.logins.metric("failed_authentication_total") > failures
    program.shut()


@pytest.mark.parametrize("certificate", ["", "stranger.pem"])
def test_a_client_without_a_certificate_that_is_trusted_stays_outside(
    home: Home, program: LoginProgram, certificate: str
) -> None:
    """Some clients are closed on without a word that they understand."""
    failures = home.logins.metric("failed_authentication_total")
    with pytest.raises(LineClientError):
        program.open(
            replace(home.way("mutual TLS"), certificate=certificate and f"{home.folder}/{certificate}"),
            new_topic(),
        )
    assert home.logins.metric("failed_authentication_total") > failures
    program.shut()


def test_a_broker_that_is_not_trusted_gets_no_password(home: Home, program: LoginProgram) -> None:
    successes = home.logins.metric("successful_authentication_total")
    with pytest.raises(LineClientError):
        program.open(replace(home.way("PLAIN over TLS"), ca=f"{home.folder}/other-ca.pem"), new_topic())
    assert home.logins.metric("successful_authentication_total") == successes
    program.shut()


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_a_session_is_renewed_three_times(home: Home, program: LoginProgram, mechanism: str) -> None:
    """By the broker's count. A client that got no processor in time may have to connect again, but loses no record."""
    renewals = home.logins.metric("successful_reauthentication_total")
    program.open(home.renewing(mechanism), new_topic())
    deadline = time.monotonic() + LIMIT_S
    while (
        home.logins.metric("successful_reauthentication_total") < renewals + 3 and time.monotonic() < deadline
    ):
        program.send()
    program.shut()
    assert home.logins.metric("successful_reauthentication_total") >= renewals + 3


def test_a_credential_that_is_removed_opens_no_more_sessions(home: Home, program: LoginProgram) -> None:
    user = f"user-{uuid.uuid4().hex[:8]}"
    set_passwords(home.admin_settings, {user: "alice-secret"})
    login = replace(home.renewing("SCRAM-SHA-512"), user=user)
    program.open(login, new_topic())
    remove_credentials(home.admin_settings, user)
    with pytest.raises(LineClientError) as caught:
        sends_until(program, time.monotonic() + LIMIT_S)
    assert "uthentication" in str(caught.value) or "SASL_AUTHENTICATION_FAILED" in str(caught.value)
    program.shut()


def sends_until(program: LoginProgram, deadline: float) -> None:
    while time.monotonic() < deadline:
        program.send()


# ---- other clients without a login


async def test_aiokafka_has_the_rights_that_everybody_has(home: Home) -> None:
    settings = {"bootstrap_servers": home.logins.broker.bootstrap}
    await aiokafka_round_trip(settings, new_topic())
    async with AIOKafkaProducer(**settings) as producer:
        with pytest.raises(AioDenied):
            await producer.send_and_wait("closed", b"x")


def test_kafka_python_has_the_rights_that_everybody_has(home: Home) -> None:
    settings = {"bootstrap_servers": home.logins.broker.bootstrap}
    kafka_python_round_trip(settings, new_topic())
    producer = KafkaProducer(**settings)
    try:
        with pytest.raises(KafkaError, match=r"(?i)authorization"):
            producer.send("closed", b"x").get(LIMIT_S)
    finally:
        producer.close(5)


def test_librdkafka_has_the_rights_that_everybody_has(home: Home) -> None:
    producer = Producer({"bootstrap.servers": home.logins.broker.bootstrap, "log_level": 0})
    codes: list[object] = []
    for topic in (new_topic(), "closed"):
        producer.produce(topic, b"x", on_delivery=lambda error, _: codes.append(error and error.code()))
        assert producer.flush(LIMIT_S) == 0
    assert codes == [None, RdError.TOPIC_AUTHORIZATION_FAILED]
