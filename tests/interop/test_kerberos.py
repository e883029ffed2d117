"""Clients that log in by Kerberos: right and wrong keys, rules, groups, sessions that end, tokens that come twice.

The KDC is MIT's, on loopback. librdkafka comes as kcat, since the wheels of confluent-kafka are built without GSSAPI;
Debian's is older than 2.2, which renews sessions.
"""

from __future__ import annotations

import asyncio
import glob
import json
import os
import shutil
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from barnabas.broker.node_client.address import NodeAddress
from barnabas.broker.node_client.client import NodeClient, NodeClientSettings
from barnabas.broker.node_client.secure import secure_opener
from barnabas.protocol.codec import decode
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataResponse
from barnabas.protocol.messages.security import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
)
from barnabas.security.client_settings import ClientSecurity
from barnabas.security.kerberos import KerberosLogin
from barnabas.security.kerberos_options import KerberosOptions, client_options
from tests.conformance.kafka_jars import require_classpath
from tests.interop.clients.lines import LineClientError
from tests.interop.clients.logging_in import (
    aiokafka_keeps_sending,
    aiokafka_round_trip,
    aiokafka_stays_outside,
    authentications,
    kafka_python_keeps_sending,
    kafka_python_round_trip,
    kafka_python_stays_outside,
)
from tests.interop.clients.login_programs import PROGRAMS, TRIP, Login, LoginProgram, login_program
from tests.support.broker_process import BrokerDidNotStartError, BrokerProcess
from tests.support.kdc import (
    SERVICE,
    Kdc,
    client_entry,
    entry,
    require_gssapi,
    require_kdc,
    server_entry,
)
from tests.support.ports import held_ports
from tests.support.raw import RawConnection
from tests.support.sasl import framed, listener_settings, request

pytestmark = [pytest.mark.clients, pytest.mark.timeout(900)]

LIMIT_S = 30.0
SESSION_MS = 2000
RENEWAL_LIMIT_S = 120.0
LISTENERS = ("SASL", "RENEWING", "RULES", "STRANGERS", "WRONG")
"""RULES: alice is called chief; STRANGERS: nobody of this realm is let in; WRONG: the broker has old keys."""


class KerberosBroker:
    """A broker with several listeners that ask for Kerberos, and one without logins."""

    def __init__(self, broker: BrokerProcess, kdc: Kdc) -> None:
        self.broker, self.kdc = broker, kdc
        self.ports = dict(zip(LISTENERS, held_ports(len(LISTENERS)), strict=True))
        mechanisms = {"GSSAPI": server_entry(kdc.keytab("kafka/localhost"))}
        rules = "sasl.kerberos.principal.to.local.rules"
        listeners = {"PLAINTEXT": broker.port, **self.ports}
        broker.environment |= kdc.environment
        broker.overrides |= {
            "listeners": ",".join(f"{name}://127.0.0.1:{port}" for name, port in listeners.items()),
            "advertised.listeners": ",".join(
                f"{name}://localhost:{port}" for name, port in listeners.items()
            ),
            "listener.security.protocol.map": ",".join(
                ["PLAINTEXT:PLAINTEXT", *(f"{name}:SASL_PLAINTEXT" for name in LISTENERS)]
            ),
            "group.initial.rebalance.delay.ms": "0",
            "barnabas.http.port": "0",
            "offsets.topic.num.partitions": "4",
            "transaction.state.log.num.partitions": "4",
            "sasl.enabled.mechanisms": "GSSAPI",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:alice;User:chief",
        }
        for name in LISTENERS:
            broker.overrides |= listener_settings(name, mechanisms)
        wrong = server_entry(kdc.wrong_keytab("kafka/localhost"))
        broker.overrides |= {
            "listener.name.renewing.connections.max.reauth.ms": str(SESSION_MS),
            f"listener.name.rules.{rules}": "RULE:[1:$1@$0](alice@.*)s/.*/CHIEF/L",
            f"listener.name.strangers.{rules}": "RULE:[1:$1@$0](.*@ELSEWHERE.TEST)s/@.*//,RULE:[2:$1]",
            "listener.name.wrong.gssapi.sasl.jaas.config": wrong,
        }

    def at(self, listener: str) -> str:
        return f"localhost:{self.ports[listener]}"

    @property
    def renewals(self) -> float:
        """How many sessions were renewed."""
        return authentications(self.broker, "successful_reauthentication_total")

    def awaits_line(self, text: str) -> bool:
        """Whether the broker writes this within a while: a line a second at most for each address."""
        deadline = time.monotonic() + LIMIT_S
        while text not in self.broker.output and time.monotonic() < deadline:
            time.sleep(0.05)
        return text in self.broker.output


@pytest.fixture(scope="module")
def kdc(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kdc]:
    require_kdc()
    require_gssapi()
    with Kdc(tmp_path_factory.mktemp("kdc")) as running, pytest.MonkeyPatch.context() as patch:
        for name, value in running.environment.items():
            patch.setenv(name, value)
        patch.setenv("KRB5CCNAME", running.ticket_cache("alice"))
        yield running


@pytest.fixture(scope="module")
def kerberos(kdc: Kdc, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KerberosBroker]:
    broker = BrokerProcess(tmp_path_factory.mktemp("kerberos") / "data")
    made = KerberosBroker(broker, kdc)
    try:
        broker.start()
        yield made
        assert broker.stop() == broker.clean_status
    finally:
        broker.kill()


# ---- the commands


def cli(
    kerberos: KerberosBroker, directory: Path, listener: str, jaas: str
) -> subprocess.CompletedProcess[str]:
    """Lists topics by our own client."""
    properties = directory / "client.properties"
    properties.write_text(
        f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=GSSAPI\nsasl.jaas.config={jaas}\n"
    )
    words = [
        "topics",
        "--list",
        "--bootstrap-server",
        kerberos.at(listener),
        "--command-config",
        str(properties),
    ]
    return subprocess.run(
        [sys.executable, "-m", "barnabas.cli", *words],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env=os.environ | {"KRB5CCNAME": str(directory / "none")},
    )


@pytest.mark.parametrize("listener", ["SASL", "RULES"])
def test_our_commands_log_in_by_a_keytab(kerberos: KerberosBroker, listener: str, tmp_path: Path) -> None:
    ran = cli(kerberos, tmp_path, listener, client_entry(kerberos.kdc.keytab("alice"), "alice"))
    assert ran.returncode == 0, ran.stderr


def test_our_commands_log_in_by_a_ticket_cache(kerberos: KerberosBroker, tmp_path: Path) -> None:
    cache = kerberos.kdc.ticket_cache("alice")
    jaas = entry(useTicketCache="true", ticketCache=cache, serviceName="kafka")
    ran = cli(kerberos, tmp_path, "SASL", jaas)
    assert ran.returncode == 0, ran.stderr


def test_our_commands_say_which_key_is_wrong(kerberos: KerberosBroker, tmp_path: Path) -> None:
    ran = cli(kerberos, tmp_path, "SASL", client_entry(kerberos.kdc.wrong_keytab("bob"), "bob"))
    assert ran.returncode != 0
    assert "the login as bob by GSSAPI" in ran.stderr
    assert "Decrypt integrity check failed" in ran.stderr
    ran = cli(kerberos, tmp_path, "SASL", client_entry(kerberos.kdc.keytab("bob"), "unheard-of"))
    assert ran.returncode != 0
    assert "the login as unheard-of by GSSAPI" in ran.stderr


def test_whom_no_rule_names_stays_outside(kerberos: KerberosBroker, tmp_path: Path) -> None:
    ran = cli(kerberos, tmp_path, "STRANGERS", client_entry(kerberos.kdc.keytab("alice"), "alice"))
    assert ran.returncode != 0
    assert "due to invalid credentials with SASL mechanism GSSAPI" in ran.stderr
    assert kerberos.awaits_line(
        "mechanism GSSAPI, user alice@BARNABAS.TEST: no rule of sasl.kerberos.principal.to.local.rules matches"
    )


def test_a_broker_with_old_keys_lets_nobody_in(kerberos: KerberosBroker, tmp_path: Path) -> None:
    ran = cli(kerberos, tmp_path, "WRONG", client_entry(kerberos.kdc.keytab("alice"), "alice"))
    assert ran.returncode != 0
    assert "due to invalid credentials with SASL mechanism GSSAPI" in ran.stderr


async def test_a_member_of_a_cluster_logs_in_by_its_keytab(kerberos: KerberosBroker) -> None:
    """The connections between nodes, whose messages for the KDC come from a thread."""
    loop = asyncio.get_running_loop()
    options = KerberosOptions("kafka", "kafka/localhost", True, kerberos.kdc.keytab("kafka/localhost"))
    security = ClientSecurity("SASL_PLAINTEXT", None, KerberosLogin(options))
    address = NodeAddress("localhost", kerberos.ports["SASL"])
    client = NodeClient(address, NodeClientSettings("node"), loop, secure_opener(loop, security, "node"))
    future: asyncio.Future[Any] = loop.create_future()
    client.send(MetadataRequest(topics=[])).add_done_callback(future.set_result)
    answer = await asyncio.wait_for(future, LIMIT_S)
    client.close()
    assert isinstance(answer, MetadataResponse), answer
    assert answer.brokers[0].port == kerberos.ports["SASL"]


# ---- raw bytes


def ap_request(kerberos: KerberosBroker) -> bytes:
    options = {"useTicketCache": "true", "ticketCache": kerberos.kdc.ticket_cache("alice")}
    return KerberosLogin(client_options(options, "kafka")).client("localhost").initial()


def sent(kerberos: KerberosBroker, token: bytes) -> SaslAuthenticateResponse | None:
    """The answer to a token; None where the connection is closed without one."""
    with RawConnection(kerberos.at("SASL")) as connection:
        connection.send(framed(request(SaslHandshakeRequest(mechanism="GSSAPI"), 1)))
        connection.read_frame()
        connection.send(framed(request(SaslAuthenticateRequest(auth_bytes=token), 1)))
        try:
            return decode(SaslAuthenticateResponse, 1, connection.read_frame()[4:])
        except EOFError:
            return None


def test_an_authenticator_that_was_used_is_rejected(kerberos: KerberosBroker) -> None:
    """A replay is no failed login, as in Kafka: the connection is closed, and there is no response."""
    token = ap_request(kerberos)
    first = sent(kerberos, token)
    assert first is not None
    assert first.error_code == 0
    assert first.auth_bytes
    assert sent(kerberos, token) is None
    assert kerberos.awaits_line("Kerberos: Request is a replay")
    again = sent(kerberos, ap_request(kerberos))
    assert again is not None
    assert again.error_code == 0


@pytest.mark.parametrize("token", [b"", b"rubbish", b"\x60\x00", bytes(1000)])
def test_what_is_no_token_of_kerberos_fails(kerberos: KerberosBroker, token: bytes) -> None:
    answer = sent(kerberos, token)
    assert answer is not None
    assert answer.error_code == 58
    assert answer.error_message == (
        "Authentication failed during authentication due to invalid credentials with SASL mechanism GSSAPI"
    )


# ---- Python clients


def python_client(bootstrap: str) -> dict[str, Any]:
    """The settings of aiokafka and of kafka-python, which take tickets from the cache in KRB5CCNAME."""
    return {
        "bootstrap_servers": bootstrap,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "GSSAPI",
        "sasl_kerberos_service_name": "kafka",
        "sasl_kerberos_domain_name": "localhost",
    }


async def test_aiokafka_produces_and_consumes_in_a_group(kerberos: KerberosBroker) -> None:
    topic = f"aio-{uuid.uuid4().hex[:8]}"
    await aiokafka_round_trip(python_client(kerberos.at("SASL")), topic)


def test_kafka_python_produces_and_consumes_in_a_group(kerberos: KerberosBroker) -> None:
    topic = f"kp-{uuid.uuid4().hex[:8]}"
    kafka_python_round_trip(python_client(kerberos.at("SASL")), topic)


@pytest.mark.parametrize("listener", ["STRANGERS", "WRONG"])
async def test_aiokafka_that_is_not_let_in_stays_outside(kerberos: KerberosBroker, listener: str) -> None:
    await aiokafka_stays_outside(python_client(kerberos.at(listener)))


@pytest.mark.parametrize("listener", ["STRANGERS", "WRONG"])
def test_kafka_python_that_is_not_let_in_stays_outside(kerberos: KerberosBroker, listener: str) -> None:
    kafka_python_stays_outside(python_client(kerberos.at(listener)))


async def test_aiokafka_connects_again_when_its_session_has_ended(kerberos: KerberosBroker) -> None:
    topic = f"aio-{uuid.uuid4().hex[:8]}"
    await aiokafka_keeps_sending(python_client(kerberos.at("RENEWING")), topic, 2.5 * SESSION_MS / 1000)


def test_kafka_python_renews_its_session_three_times(kerberos: KerberosBroker) -> None:
    renewals, topic = kerberos.renewals, f"kp-{uuid.uuid4().hex[:8]}"
    settings = python_client(kerberos.at("RENEWING"))
    kafka_python_keeps_sending(settings, topic, lambda: kerberos.renewals >= renewals + 3, RENEWAL_LIMIT_S)
    assert kerberos.renewals >= renewals + 3


# ---- librdkafka


def kcat(kerberos: KerberosBroker, keytab: str, principal: str, *words: str) -> list[str]:
    """The command of kcat with GSSAPI; skips where it, or its plug-in for Kerberos, is not installed."""
    plugins = glob.glob("/usr/lib/*/sasl2/libgssapiv2.so")
    if shutil.which("kcat") is None or not (plugins or os.environ.get("SASL_PATH")):
        pytest.skip("kcat is not installed, or has no Kerberos")
    settings = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "GSSAPI",
        "sasl.kerberos.service.name": "kafka",
        "sasl.kerberos.keytab": keytab,
        "sasl.kerberos.principal": principal,
    }
    options = [word for key, value in settings.items() for word in ("-X", f"{key}={value}")]
    return ["kcat", "-b", kerberos.at("SASL"), *options, *words]


def test_librdkafka_produces_and_consumes_in_a_group(kerberos: KerberosBroker, tmp_path: Path) -> None:
    topic = f"kcat-{uuid.uuid4().hex[:8]}"
    environment = os.environ | {"KRB5CCNAME": str(tmp_path / "ccache")}
    alice = kerberos.kdc.keytab("alice")
    subprocess.run(
        kcat(kerberos, alice, "alice", "-P", "-t", topic),
        input=b"a\nb\n",
        check=True,
        timeout=60,
        env=environment,
        capture_output=True,
    )
    ran = subprocess.run(
        kcat(kerberos, alice, "alice", "-X", "auto.offset.reset=earliest", "-c", "2", "-G", topic, topic),
        capture_output=True,
        check=True,
        timeout=60,
        env=environment,
    )
    assert ran.stdout == b"a\nb\n"


def test_librdkafka_with_keys_that_are_no_more_stays_outside(
    kerberos: KerberosBroker, tmp_path: Path
) -> None:
    ran = subprocess.run(
        kcat(kerberos, kerberos.kdc.wrong_keytab("bob"), "bob", "-L", "-m", "10"),
        capture_output=True,
        timeout=60,
        check=False,
        env=os.environ | {"KRB5CCNAME": str(tmp_path / "ccache")},
    )
    assert ran.returncode != 0


# ---- Java's clients of several versions, franz-go and sarama


@pytest.fixture(scope="module", params=PROGRAMS)
def program(
    request: pytest.FixtureRequest, kdc: Kdc, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LoginProgram]:
    made = login_program(request.param, tmp_path_factory.mktemp("program"))
    yield made
    made.close()


def login(kerberos: KerberosBroker, listener: str = "SASL", keytab: str = "", user: str = "alice") -> Login:
    return Login(kerberos.at(listener), "GSSAPI", user, keytab=keytab or kerberos.kdc.keytab(user))


def test_a_transaction_and_a_group(kerberos: KerberosBroker, program: LoginProgram) -> None:
    assert program.trip(login(kerberos), f"trip-{uuid.uuid4().hex[:8]}") == TRIP


def test_keys_that_are_no_more_let_no_program_in(kerberos: KerberosBroker, program: LoginProgram) -> None:
    """Who has them gets no ticket from the KDC."""
    with pytest.raises(LineClientError):
        program.open(login(kerberos, keytab=kerberos.kdc.wrong_keytab("bob"), user="bob"), "never")
    program.shut()


def test_a_program_that_no_rule_names_is_told_so(kerberos: KerberosBroker, program: LoginProgram) -> None:
    with pytest.raises(LineClientError) as caught:
        program.open(login(kerberos, "STRANGERS"), "never")
    if program.name != "sarama":  # which says that it has run out of brokers
        assert "uthentication failed" in str(caught.value) or "SASL_AUTHENTICATION_FAILED" in str(
            caught.value
        )
    program.shut()


def test_a_program_renews_its_session_three_times(kerberos: KerberosBroker, program: LoginProgram) -> None:
    renewals = kerberos.renewals
    program.open(login(kerberos, "RENEWING"), f"renewed-{uuid.uuid4().hex[:8]}")
    deadline = time.monotonic() + RENEWAL_LIMIT_S
    while kerberos.renewals < renewals + 3 and time.monotonic() < deadline:
        program.send()
    program.shut()
    assert kerberos.renewals >= renewals + 3


# ---- Java's tools


def java_tool(
    kerberos: KerberosBroker,
    directory: Path,
    tool: str,
    listener: str,
    jaas: str,
    *words: str,
    given: str = "",
) -> subprocess.CompletedProcess[str]:
    """Runs one of Kafka's tools, which finds its login module in a JAAS file and the KDC in a krb5.conf."""
    (directory / "jaas.conf").write_text(f"KafkaClient {{ {jaas} }};\n")
    (directory / "client.properties").write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=GSSAPI\nsasl.kerberos.service.name=kafka\n"
    )
    command = [
        "java",
        "-XX:TieredStopAtLevel=1",
        f"-Djava.security.krb5.conf={kerberos.kdc.krb5_conf}",
        f"-Djava.security.auth.login.config={directory / 'jaas.conf'}",
        "-cp",
        require_classpath(),
        f"org.apache.kafka.tools.{tool}",
        "--bootstrap-server",
        kerberos.at(listener),
        "--command-config",
        str(directory / "client.properties"),
    ]
    return subprocess.run(
        [*command, *words], input=given, capture_output=True, text=True, timeout=90, check=False
    )


@pytest.mark.conformance
def test_java_without_a_rule_is_told_so(kerberos: KerberosBroker, tmp_path: Path) -> None:
    jaas = client_entry(kerberos.kdc.keytab("alice"), "alice@BARNABAS.TEST")
    ran = java_tool(kerberos, tmp_path, "TopicCommand", "STRANGERS", jaas, "--list")
    assert ran.returncode != 0
    assert "SaslAuthenticationException: Authentication failed" in ran.stdout + ran.stderr


# ---- what refuses a start


@pytest.mark.parametrize(
    ("jaas", "reason"),
    [
        (lambda kdc: server_entry("/nowhere.keytab"), "Key table file '/nowhere.keytab' not found"),
        (lambda kdc: server_entry(kdc.keytab("alice")), f"No key table entry found for {SERVICE}"),
        (lambda kdc: entry(useTicketCache="true", serviceName="kafka"), "must have no useTicketCache"),
    ],
)
def test_keys_that_are_not_there_refuse_the_start(kdc: Kdc, jaas: Any, reason: str, tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path / "data")
    broker.environment |= kdc.environment
    broker.overrides |= {
        "listeners": f"SASL://127.0.0.1:{broker.port}",
        "listener.security.protocol.map": "SASL:SASL_PLAINTEXT",
        "inter.broker.listener.name": "SASL",
        "listener.name.sasl.gssapi.sasl.jaas.config": jaas(kdc),
    }
    with pytest.raises(
        BrokerDidNotStartError, match=r"listener\.name\.sasl\.gssapi\.sasl\.jaas\.config"
    ) as caught:
        broker.start()
    assert reason in json.dumps(str(caught.value)).replace("\\n", " ")
