"""Delegation tokens on Apache Kafka and on Barnabas: requests, both tools, logins, one directory in turn, a cluster."""

from __future__ import annotations

import base64
import json
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.acls import AclOperation, AclResourceType
from barnabas.protocol.messages.security import SaslAuthenticateRequest, SaslHandshakeRequest
from barnabas.protocol.messages.tokens import (
    CreateDelegationTokenRequest,
    DescribeDelegationTokenRequest,
    ExpireDelegationTokenRequest,
    RenewDelegationTokenRequest,
)
from barnabas.protocol.schema import Message
from tests.conformance.admin_cli import Tools
from tests.conformance.broker_connection import BrokerConnection
from tests.conformance.dialogues.acls import ALLOW, LITERAL, create
from tests.conformance.handover.sides import KAFKA, OURS, Directory
from tests.conformance.java_admin import JavaAdmin, ToolRun
from tests.conformance.kafka_jars import require_classpath
from tests.support.apache_kafka import QUICK_JVM, ApacheKafka
from tests.support.broker_process import BrokerProcess
from tests.support.ports import held_ports
from tests.support.sasl import SCRAM_MODULE, ScramClient, listener_settings, plain_entry, plain_token

pytestmark = [pytest.mark.conformance, pytest.mark.timeout(300)]

USERS: Final = ("alice", "bob", "carol", "admin")
PASSWORD: Final = "pencil"
BY_TOKEN: Final = "by token"
NOBODY: Final = "nobody"
"""A client of the listener without logins."""
MECHANISMS: Final = ("SCRAM-SHA-256", "SCRAM-SHA-512")
LIMIT_S: Final = 20.0
NOT_FOUND: Final = ErrorCode.DELEGATION_TOKEN_NOT_FOUND
SETTINGS: Final = {
    "delegation.token.secret.key": "the key of all brokers",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
    "inter.broker.listener.name": "PLAINTEXT",
    "offsets.topic.replication.factor": "1",
    "group.initial.rebalance.delay.ms": "0",
    **listener_settings(
        "SASL",
        {
            "PLAIN": plain_entry(**dict.fromkeys(USERS, PASSWORD)),
            **dict.fromkeys(MECHANISMS, f"{SCRAM_MODULE} required;"),
        },
    ),
}
AUTHORIZED: Final = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS;User:admin",
}


def with_logins(broker: ApacheKafka | BrokerProcess, settings: dict[str, str]) -> int:
    """Gives a broker a listener with logins, and returns its port."""
    (port,) = held_ports(1)
    listeners = f"PLAINTEXT://127.0.0.1:{broker.port},SASL://127.0.0.1:{port}"
    controller = ""
    if isinstance(broker, ApacheKafka):
        controller = f",CONTROLLER://127.0.0.1:{broker.controller_port}"
    broker.overrides |= {
        **settings,
        "listeners": listeners + controller,
        "advertised.listeners": listeners,
    }
    return port


class Token(NamedTuple):
    """A token as its creator knows it."""

    token_id: str
    hmac: bytes
    issued: int
    maximum: int


class Side:
    """One of the brokers, its tokens in the order of their creation, and the clients that have logged in to it."""

    def __init__(self, broker: ApacheKafka | BrokerProcess, settings: dict[str, str]) -> None:
        self.broker = broker
        self.port = with_logins(broker, settings)
        self.tokens: list[Token] = []
        self._clients: dict[str, BrokerConnection] = {}

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    def close(self) -> None:
        """Ends the broker and its clients."""
        for client in self._clients.values():
            client.close()
        self.broker.kill()

    def client(self, user: str) -> BrokerConnection:
        if user not in self._clients:
            answer: Any
            made = self._clients[user] = BrokerConnection(
                "127.0.0.1", self.broker.port if user == NOBODY else self.port
            )
            if user == BY_TOKEN:
                answer = log_in_by_token(made, self.tokens[0])
                assert answer.error_code == 0, answer
            elif user != NOBODY:
                made.request(SaslHandshakeRequest(mechanism="PLAIN"), 1)
                token = SaslAuthenticateRequest(auth_bytes=plain_token(user, PASSWORD))
                answer = made.request(token, 2)
                assert answer.error_code == 0, answer
        return self._clients[user]

    def ask(
        self, user: str, request: Message, version: int, is_settled: Callable[[Any], bool] = lambda _: True
    ) -> Any:
        """The response, once it is settled: Kafka's broker and controller apply records after they answer."""
        deadline = time.monotonic() + LIMIT_S
        while True:
            answer: Any = self.client(user).request(request, version)
            if is_settled(answer) or time.monotonic() > deadline:
                return answer
            time.sleep(0.05)

    def create(self, user: str, request: CreateDelegationTokenRequest, version: int) -> Any:
        """The response, noted as a token; every part of the broker knows it."""
        made = self.ask(user, request, version)
        if made.error_code == 0:
            self.tokens.append(
                Token(made.token_id, made.hmac, made.issue_timestamp_ms, made.max_timestamp_ms)
            )
            self.settle("carol" if user == "alice" else "alice")
        return made

    def settle(self, stranger: str) -> None:
        """Waits until the last token is known to all. `stranger` may not change it."""
        token = self.tokens[-1]
        self.ask("admin", describe(), 3, lambda answer: token.token_id in {t.token_id for t in answer.tokens})
        unknown = ExpireDelegationTokenRequest(hmac=token.hmac, expiry_time_period_ms=0)
        self.ask(stranger, unknown, 2, lambda answer: answer.error_code != NOT_FOUND)

    def shown(self, answer: Any) -> object:
        """A response without what differs between any two brokers."""
        kind = type(answer).__name__
        if kind == "DescribeDelegationTokenResponse":
            tokens = [self._described(token) for token in answer.tokens]
            return kind, answer.error_code, sorted(tokens, key=str)
        if kind == "CreateDelegationTokenResponse":
            token = self._name(answer.token_id, answer.hmac)
            issued = answer.issue_timestamp_ms
            times = [answer.expiry_timestamp_ms - issued, answer.max_timestamp_ms - issued]
            return (
                *(kind, answer.error_code, answer.principal_type, answer.principal_name),
                *(answer.token_requester_principal_type, answer.token_requester_principal_name),
                *(token, min(issued, 1), times),
            )
        return kind, answer.error_code, self._time(answer.expiry_timestamp_ms)

    def _described(self, token: Any) -> object:
        renewers = [(each.principal_type, each.principal_name) for each in token.renewers]
        return (
            *(token.principal_type, token.principal_name),
            *(token.token_requester_principal_type, token.token_requester_principal_name),
            *(self._name(token.token_id, token.hmac), renewers),
            *(token.max_timestamp - token.issue_timestamp, self._time(token.expiry_timestamp)),
        )

    def _name(self, token_id: str, hmac: bytes) -> object:
        known = [each.token_id for each in self.tokens]
        if token_id not in known:
            return token_id, hmac
        number = known.index(token_id)
        return f"token {number}", hmac == self.tokens[number].hmac, len(hmac)

    def _time(self, moment: int) -> object:
        """0 and -1 as they are; a maximum; or minutes from now."""
        if moment <= 0:
            return moment
        maxima = [number for number, token in enumerate(self.tokens) if token.maximum == moment]
        return f"maximum {maxima[0]}" if maxima else round((moment / 1000 - time.time()) / 60)


def log_in_by_token(client: BrokerConnection, token: Token, mechanism: str = MECHANISMS[0]) -> Any:
    """The last response of the login."""
    password = base64.b64encode(token.hmac).decode()
    scram = ScramClient(mechanism, token.token_id, password, extensions=",tokenauth=true")
    client.request(SaslHandshakeRequest(mechanism=mechanism), 1)
    first: Any = client.request(SaslAuthenticateRequest(auth_bytes=scram.first()), 2)
    if first.error_code:
        return first
    last: Any = client.request(SaslAuthenticateRequest(auth_bytes=scram.final(first.auth_bytes)), 2)
    assert last.error_code or scram.trusts(last.auth_bytes)
    return last


# ---- requests


def creation(*renewers: str, owner: str = "", lifetime: int = -1) -> CreateDelegationTokenRequest:
    kind = CreateDelegationTokenRequest.CreatableRenewers
    pairs = [each.partition(":")[::2] for each in renewers]
    return CreateDelegationTokenRequest(
        owner_principal_type=owner.partition(":")[0],
        owner_principal_name=owner.partition(":")[2],
        renewers=[kind(principal_type=one, principal_name=name) for one, name in pairs],
        max_lifetime_ms=lifetime,
    )


def renewal(hmac: bytes, period: int = -1) -> RenewDelegationTokenRequest:
    return RenewDelegationTokenRequest(hmac=hmac, renew_period_ms=period)


def expiry(hmac: bytes, period: int = -1) -> ExpireDelegationTokenRequest:
    return ExpireDelegationTokenRequest(hmac=hmac, expiry_time_period_ms=period)


def describe(*owners: str) -> DescribeDelegationTokenRequest:
    kind = DescribeDelegationTokenRequest.DescribeDelegationTokenOwner
    named = [kind(principal_type=one, principal_name=name) for one, _, name in map(parts, owners)]
    return DescribeDelegationTokenRequest(owners=named or None)


def parts(principal: str) -> tuple[str, str, str]:
    return principal.partition(":")


NOTHING: Final = DescribeDelegationTokenRequest(owners=[])
OF_NO_TYPE: Final = CreateDelegationTokenRequest(
    owner_principal_name="", owner_principal_type=None, renewers=[], max_lifetime_ms=-1
)
REJECTED: Final = (
    creation(owner="User:bob"),
    creation("Group:ops"),
    creation("Group:ops", owner="User:bob"),
    creation("User:bob", "user:carol"),
    creation(owner="Group:bob"),
    CreateDelegationTokenRequest(owner_principal_name="bob", owner_principal_type=None, renewers=[]),
)


class Conversation:
    """Requests of owners, renewers, strangers and clients that may have no tokens; `said` is what is compared."""

    def __init__(self, side: Side) -> None:
        self.said: list[object] = []
        self._side = side

    def hold(self) -> list[object]:
        self._creations()
        self._rejected_creations()
        for user in ("alice", "bob", "carol", "admin", NOBODY, BY_TOKEN):
            self._changes(user)
        self._settle()
        for user in (*USERS, NOBODY, BY_TOKEN):
            self._descriptions(user)
        self._expired(self._side.tokens[4])
        self._removed(self._side.tokens[1])
        return self.said

    def _note(self, *answers: Any) -> None:
        self.said.extend(self._side.shown(answer) for answer in answers)

    def _known(self, user: str, *requests: Message, version: int = 2) -> None:
        """Notes the responses to requests about tokens that exist."""
        for request in requests:
            self._note(self._side.ask(user, request, version, lambda answer: answer.error_code != NOT_FOUND))

    def _creations(self) -> None:
        side = self._side
        for version in (1, 2, 3):
            self._note(side.create("alice", creation("User:bob", "User:dora"), version))
        for lifetime in (0, 1000, 3_600_000, 2**63 - 1, -5):
            self._note(side.create("alice", creation(lifetime=lifetime), 3))
        self._note(side.create("admin", creation("User:carol", owner="User:bob"), 3))
        self._note(side.create("carol", creation(owner="User:bob"), 3))
        self._note(side.create("alice", creation(owner="User:alice"), 3))
        self._note(side.create("alice", OF_NO_TYPE, 3))

    def _rejected_creations(self) -> None:
        for user in ("alice", NOBODY, BY_TOKEN):
            for request in REJECTED:
                self._note(self._side.ask(user, request, 3))
        for user in (NOBODY, BY_TOKEN):
            self._note(*(self._side.ask(user, creation(), version) for version in (1, 2, 3)))
            self._note(self._side.ask(user, OF_NO_TYPE, 3))

    def _changes(self, user: str) -> None:
        hmac = self._side.tokens[0].hmac
        for period in (-1, 0, 60_000, 600_000, 2**62):
            self._known(user, renewal(hmac, period), version=1)
        for period in (60_000, 3_600_000, 2**63 - 1):
            self._known(user, expiry(hmac, period), renewal(hmac, 86_400_000))
        for unknown in (b"", b"unknown", hmac[:-1]):
            for request in (renewal(unknown), expiry(unknown)):
                self._note(self._side.ask(user, request, 2))

    def _settle(self) -> None:
        """Waits until the broker shows the last change of the first token: Kafka applies each after it answers."""
        first = self._side.tokens[0]
        renewed = self._side.ask("bob", renewal(first.hmac, 70_000_000), 2)
        wanted = (first.token_id, renewed.expiry_timestamp_ms)
        self._side.ask(
            "admin",
            describe(),
            3,
            lambda answer: wanted in {(one.token_id, one.expiry_timestamp) for one in answer.tokens},
        )

    def _descriptions(self, user: str) -> None:
        side = self._side
        for request in (describe(), NOTHING, describe("User:alice"), describe("User:bob", "User:carol")):
            self._note(*(side.ask(user, request, version) for version in (1, 2, 3)))
        self._note(side.ask(user, describe("Group:alice", "User:dora"), 3))

    def _expired(self, short: Token) -> None:
        time.sleep(max(0.0, short.maximum / 1000 + 0.05 - time.time()))
        for user in ("alice", "carol"):
            self._known(user, renewal(short.hmac), expiry(short.hmac, 0))
        self._note(self._side.ask("carol", expiry(short.hmac), 2))
        self._known("alice", expiry(short.hmac))

    def _removed(self, removed: Token) -> None:
        side = self._side
        self._known("bob", expiry(removed.hmac))
        # Until Kafka's controller has applied that, a renewal brings the token back.
        side.ask("carol", expiry(removed.hmac), 2, lambda answer: answer.error_code == NOT_FOUND)
        for request in (renewal(removed.hmac, 1000), expiry(removed.hmac, 1000)):
            self._note(side.ask("alice", request, 2, lambda answer: answer.error_code == NOT_FOUND))
        gone = {removed.token_id, side.tokens[4].token_id}
        side.ask("admin", describe(), 3, lambda answer: not gone & {one.token_id for one in answer.tokens})
        self._note(side.ask("alice", describe(), 3))


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Side]]:
    """Both brokers, with an authorizer: carol may create and see tokens of bob, alice may use topics and groups."""
    kafka = ApacheKafka(tmp_path_factory.mktemp("kafka"), require_classpath(), jvm=QUICK_JVM)
    ours = BrokerProcess(tmp_path_factory.mktemp("ours") / "data")
    found = {
        side: Side(broker, {**SETTINGS, **AUTHORIZED}) for side, broker in ((KAFKA, kafka), (OURS, ours))
    }
    user, topic, group = AclResourceType.USER, AclResourceType.TOPIC, AclResourceType.GROUP
    entries = [
        (user, "User:bob", LITERAL, "User:carol", "*", AclOperation.CREATE_TOKENS, ALLOW),
        (user, "User:bob", LITERAL, "User:carol", "*", AclOperation.DESCRIBE_TOKENS, ALLOW),
        (topic, "*", LITERAL, "User:alice", "*", AclOperation.ALL, ALLOW),
        (group, "*", LITERAL, "User:alice", "*", AclOperation.ALL, ALLOW),
    ]
    try:
        for side in found.values():
            side.broker.start()
            made: Any = side.client(NOBODY).request(create(*entries), 3)
            assert {result.error_code for result in made.results} == {0}
        yield found
    finally:
        for side in found.values():
            side.close()


def test_the_same_requests(sides: dict[str, Side]) -> None:
    kafka, ours = (Conversation(sides[side]).hold() for side in (KAFKA, OURS))
    different = [
        f"{number}:\n  {one}\n  {other}"
        for number, (one, other) in enumerate(zip(kafka, ours, strict=True))
        if one != other
    ]
    assert not different, "\n".join(different)


# ---- tools


def write(path: Path, **settings: str) -> str:
    path.write_text("".join(f"{key.replace('_', '.')}={value}\n" for key, value in settings.items()))
    return str(path)


def properties(directory: Path, user: str) -> str:
    """The file of a client that logs in with its password."""
    entry = plain_entry().replace("required ", f'required username="{user}" password="{PASSWORD}"')
    return write(
        directory / f"{user}.properties",
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="PLAIN",
        sasl_jaas_config=entry,
    )


def token_properties(directory: Path, token_id: str, hmac: str, mechanism: str = MECHANISMS[1]) -> str:
    """The file of a client that logs in by token."""
    module = f'{SCRAM_MODULE} required username="{token_id}" password="{hmac}" tokenauth="true";'
    return write(
        directory / f"{token_id}-{mechanism}.properties",
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism=mechanism,
        sasl_jaas_config=module,
    )


def our_command(bootstrap: str, *words: str) -> ToolRun:
    return Tools(None, bootstrap).ours(*words)  # type: ignore[arg-type]  # Kafka's tools are not run


def our_token(bootstrap: str, config: str, *words: str) -> dict[str, Any]:
    """A token that our command creates."""
    ran = our_command(bootstrap, "tokens", "--create", "--json", "--command-config", config, *words)
    assert ran.status == 0, ran
    made: dict[str, Any] = json.loads(ran.out)
    return made


@pytest.fixture(scope="module")
def java() -> Iterator[JavaAdmin]:
    admin = JavaAdmin()
    yield admin
    admin.close()


def masked(text: str) -> list[str]:
    """The output of Kafka's tool without ids, secrets, dates and the width of its columns."""
    text = re.sub(r"\d{4}-\d\d-\d\dT\d\d:\d\d", "DATE", text)
    text = re.sub(r"[A-Za-z0-9+/]{80,}={0,2}", "HMAC", text)
    text = re.sub(r"(?<![\w-])[\w-]{22}(?![\w-])", "ID", text)
    return [" ".join(line.split()) for line in text.splitlines() if line.strip()]


def play_tools(java: JavaAdmin, side: Side, directory: Path) -> list[object]:
    """Kafka's tool at one broker: as owner, renewer and stranger."""
    said: list[object] = []

    def run(user: str, *words: str, retries: bool = False) -> str:
        given = ("--bootstrap-server", side.bootstrap, "--command-config", properties(directory, user))
        deadline = time.monotonic() + LIMIT_S
        while True:
            ran = java.tool("kafka-delegation-tokens", *given, *words)
            if not (retries and ran.status and "NotFound" in ran.err) or time.monotonic() > deadline:
                break
        errors = re.findall(r"errors\.(\w+Exception)", ran.err)[:1]
        said.append((user, words[0], ran.status, sorted(masked(ran.out)), errors))
        return ran.out

    created = run(
        *("alice", "--create", "--max-life-time-period", "-1", "--renewer-principal", "User:bob"),
    )
    found = re.search(r"[A-Za-z0-9+/]{80,}={0,2}", created)
    assert found is not None, created
    hmac = found[0]
    run("alice", "--create", "--max-life-time-period", "60000", "--owner-principal", "User:bob")
    run("bob", "--renew", "--renew-time-period", "-1", "--hmac", hmac, retries=True)
    run("carol", "--renew", "--renew-time-period", "-1", "--hmac", hmac, retries=True)
    run("carol", "--expire", "--expiry-time-period", "-1", "--hmac", hmac, retries=True)
    run("bob", "--describe", "--owner-principal", "User:alice")
    run("alice", "--expire", "--expiry-time-period", "-1", "--hmac", hmac, retries=True)
    run("alice", "--renew", "--renew-time-period", "1", "--hmac", base64.b64encode(b"unknown").decode())
    return said


def test_kafkas_tool(sides: dict[str, Side], java: JavaAdmin, tmp_path: Path) -> None:
    kafka, ours = (play_tools(java, sides[side], tmp_path) for side in (KAFKA, OURS))
    assert ours == kafka


@pytest.mark.parametrize("name", [KAFKA, OURS])
def test_our_command(sides: dict[str, Side], name: str, tmp_path: Path) -> None:
    side = sides[name]
    alice, bob, carol = (properties(tmp_path, user) for user in ("alice", "bob", "carol"))
    made = our_token(side.bootstrap, alice, "--renewer-principal", "User:bob")

    def tokens(config: str, *words: str, fails: str = "") -> str:
        deadline = time.monotonic() + LIMIT_S
        while True:
            ran = our_command(side.bootstrap, "tokens", *words, "--command-config", config)
            if "NOT_FOUND" not in ran.err or fails or time.monotonic() > deadline:
                break
        assert (ran.status, fails in ran.err) == (1 if fails else 0, True), ran
        return ran.out

    (tmp_path / "secret").write_text(made["hmac"])
    secret = ("--hmac-file", str(tmp_path / "secret"))
    wait_for_login(side.bootstrap, token_properties(tmp_path, made["tokenId"], made["hmac"]))
    tokens(bob, "--renew", *secret, "--renew-time-period", "-1")
    tokens(carol, "--renew", *secret, fails="DELEGATION_TOKEN_OWNER_MISMATCH")
    assert made["hmac"] in tokens(alice, "--describe", "--owner-principal", "User:alice")
    assert made["tokenId"] in tokens(bob, "--list").split()
    assert made["tokenId"] not in tokens(carol, "--list").split()
    for mechanism in MECHANISMS:
        by_token = token_properties(tmp_path, made["tokenId"], made["hmac"], mechanism)
        wait_for_login(side.bootstrap, by_token)
        tokens(by_token, "--create", fails="DELEGATION_TOKEN_REQUEST_NOT_ALLOWED")
    tokens(alice, "--expire", *secret)
    refused = wait_for_refusal(side.bootstrap, by_token)
    assert made["hmac"] not in refused.err


def wait_for_refusal(bootstrap: str, config: str) -> ToolRun:
    deadline = time.monotonic() + LIMIT_S
    while True:
        ran = our_command(bootstrap, "topics", "--list", "--command-config", config)
        if ran.status or time.monotonic() > deadline:
            assert ran.status == 1, ran
            return ran


# ---- Java's clients


def java_tool(tool: str, *words: str, given: str = "") -> str:
    command = ["java", *QUICK_JVM, "-cp", require_classpath(), f"org.apache.kafka.tools.{tool}", *words]
    ran = subprocess.run(command, input=given, capture_output=True, text=True, timeout=90, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_javas_console_clients_log_in_by_token(
    sides: dict[str, Side], mechanism: str, tmp_path: Path
) -> None:
    side, topic = sides[OURS], f"by-token-{mechanism[-3:]}"
    made = our_token(side.bootstrap, properties(tmp_path, "alice"))
    config = token_properties(tmp_path, made["tokenId"], made["hmac"], mechanism)
    given = ("--bootstrap-server", side.bootstrap, "--topic", topic, "--command-config", config)
    java_tool("ConsoleProducer", *given, given="one\ntwo\n")
    options = ("--group", topic, "--from-beginning", "--max-messages", "2", "--timeout-ms", "30000")
    assert java_tool("consumer.ConsoleConsumer", *given, *options).split() == ["one", "two"]
    assert isinstance(side.broker, BrokerProcess)
    assert made["hmac"] not in side.broker.output


# ---- one directory in turn, and a cluster


def test_tokens_in_one_directory_in_turn(tmp_path: Path) -> None:
    """Tokens that one of the brokers has written let clients in at the other."""
    directory = Directory(tmp_path, SETTINGS, base={})
    (port,) = held_ports(1)
    alice = properties(tmp_path, "alice")
    known: list[str] = []
    try:
        for name in (OURS, KAFKA, OURS, KAFKA):
            broker = directory.broker(name)
            listeners = f"PLAINTEXT://{broker.bootstrap},SASL://127.0.0.1:{port}"
            controller = f"CONTROLLER://127.0.0.1:{directory.ports[1]}"
            broker.overrides |= {"listeners": f"{listeners},{controller}", "advertised.listeners": listeners}
            broker.start()
            bootstrap = f"127.0.0.1:{port}"
            for config in known:
                wait_for_login(bootstrap, config)
            made = our_token(bootstrap, alice)
            known.append(token_properties(tmp_path, made["tokenId"], made["hmac"]))
            assert broker.stop() == broker.clean_status
    finally:
        directory.end()


def test_a_member_of_a_cluster_forwards_changes_and_lets_clients_in(tmp_path: Path) -> None:
    kafka = ApacheKafka(tmp_path, require_classpath(), jvm=QUICK_JVM)
    ours = BrokerProcess(tmp_path / "member")
    there, here = Side(kafka, SETTINGS), Side(ours, SETTINGS)
    ours.overrides |= {
        "process.roles": "broker",
        "node.id": "2",
        "controller.quorum.voters": f"1@127.0.0.1:{kafka.controller_port}",
        "controller.listener.names": "CONTROLLER",
    }
    with kafka, ours:
        for side in (here, there):
            made = side.ask("alice", creation("User:bob"), 3)
            assert made.error_code == 0, made
            here.tokens.append(
                Token(made.token_id, made.hmac, made.issue_timestamp_ms, made.max_timestamp_ms)
            )
        files = [token_properties(tmp_path, token.token_id, encoded(token.hmac)) for token in here.tokens]
        for file in files:
            wait_for_login(here.bootstrap, file)
            wait_for_login(there.bootstrap, file)
        refused = here.ask(BY_TOKEN, creation(), 3)
        assert refused.error_code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
        described = here.ask("bob", describe(), 3)
        assert {token.hmac for token in described.tokens} == {token.hmac for token in here.tokens}
        for token, file in zip(here.tokens, files, strict=True):
            for user, request, code in (
                ("carol", renewal(token.hmac), ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH),
                ("bob", renewal(token.hmac), ErrorCode.NONE),
                ("bob", expiry(token.hmac), ErrorCode.NONE),
            ):
                assert here.ask(user, request, 2).error_code == code
            wait_for_refusal(here.bootstrap, file)
        here.close()
        there.close()


def encoded(hmac: bytes) -> str:
    return base64.b64encode(hmac).decode()


def wait_for_login(bootstrap: str, config: str) -> None:
    deadline = time.monotonic() + LIMIT_S
    while True:
        ran = our_command(bootstrap, "topics", "--list", "--command-config", config)
        if ran.status == 0:
            return
        assert time.monotonic() < deadline, ran
