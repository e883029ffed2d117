"""The same logins by Kerberos at Apache Kafka and at Barnabas, with one KDC: what each answers, and how each ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

import pytest

from barnabas.protocol.codec import decode
from barnabas.protocol.messages.metadata import MetadataRequest
from barnabas.protocol.messages.security import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
)
from barnabas.security.kerberos import GssapiClient, KerberosLogin
from barnabas.security.kerberos_options import client_options
from tests.conformance.kafka_jars import require_classpath
from tests.support.apache_kafka import JVM, ApacheKafka
from tests.support.broker_process import BrokerProcess
from tests.support.kdc import Kdc, require_gssapi, require_kdc, server_entry
from tests.support.ports import held_ports
from tests.support.raw import RawConnection
from tests.support.sasl import framed, listener_settings, request

pytestmark = [pytest.mark.conformance, pytest.mark.timeout(300)]

RULES: Final = {
    "SASL": "DEFAULT",
    "RENAMING": "RULE:[1:$1@$0](alice@.*)s/@.*//U,DEFAULT",
    "STRANGERS": "RULE:[1:$1@$0](.*@ELSEWHERE)s/@.*//",
}
LIMIT_S: Final = 10.0
KERBEROS_ERRORS: Final = "--add-exports=java.security.jgss/sun.security.krb5=ALL-UNNAMED"
"""Without it the JVM hides from Kafka which error of Kerberos it is, so that it takes a replay for a failed login."""


def listeners_of(broker: ApacheKafka | BrokerProcess, kdc: Kdc) -> dict[str, int]:
    """Gives a broker a listener for each of RULES, and one with old keys; returns their ports."""
    names = [*RULES, "WRONG"]
    ports = dict(zip(names, held_ports(len(names)), strict=True))
    both = {"PLAINTEXT": broker.port, **ports}
    protocols = dict.fromkeys(names, "SASL_PLAINTEXT")
    shown = ",".join(f"{name}://127.0.0.1:{port}" for name, port in both.items())
    controller = (
        f",CONTROLLER://127.0.0.1:{broker.controller_port}" if isinstance(broker, ApacheKafka) else ""
    )
    entry = server_entry(kdc.keytab("kafka/localhost"))
    broker.overrides |= {
        "listeners": shown + controller,
        "advertised.listeners": shown,
        "inter.broker.listener.name": "PLAINTEXT",
        "listener.security.protocol.map": ",".join(
            f"{name}:{protocol}"
            for name, protocol in {"PLAINTEXT": "PLAINTEXT", "CONTROLLER": "PLAINTEXT", **protocols}.items()
        ),
        "sasl.kerberos.service.name": "kafka",
    }
    for name in names:
        broker.overrides |= listener_settings(name, {"GSSAPI": entry})
    for name, rules in RULES.items():
        broker.overrides[f"listener.name.{name.lower()}.sasl.kerberos.principal.to.local.rules"] = rules
    broker.overrides["listener.name.wrong.gssapi.sasl.jaas.config"] = server_entry(
        kdc.wrong_keytab("kafka/localhost"),
        isInitiator="false",  # or Java asks the KDC at the start
    )
    return ports


class Sides:
    """Both brokers, and their ports by the names of listeners."""

    def __init__(self, directory: Path, kdc: Kdc) -> None:
        (directory / "kafka").mkdir()
        jvm = (*JVM, KERBEROS_ERRORS, f"-Djava.security.krb5.conf={kdc.krb5_conf}")
        kafka = ApacheKafka(directory / "kafka", require_classpath(), jvm=jvm)
        ours = BrokerProcess(directory / "ours")
        ours.environment |= kdc.environment
        self.brokers: Mapping[str, ApacheKafka | BrokerProcess] = {"kafka": kafka, "ours": ours}
        self.ports = {side: listeners_of(broker, kdc) for side, broker in self.brokers.items()}
        self.kdc = kdc


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sides]:
    require_kdc()
    require_gssapi()
    with Kdc(tmp_path_factory.mktemp("kdc")) as kdc, pytest.MonkeyPatch.context() as patch:
        for name, value in kdc.environment.items():
            patch.setenv(name, value)
        made = Sides(tmp_path_factory.mktemp("kerberos"), kdc)
        try:
            for broker in made.brokers.values():
                broker.start()
            yield made
        finally:
            for broker in made.brokers.values():
                broker.kill()


def client(kdc: Kdc, user: str = "alice") -> GssapiClient:
    options = {"useKeyTab": "true", "keyTab": kdc.keytab(user), "principal": user, "serviceName": "kafka"}
    return KerberosLogin(client_options(options, None)).client("localhost")


Transcript = list[tuple[object, ...]]


class Peer:
    """A client of one connection, which notes what it is answered."""

    def __init__(self, port: int) -> None:
        self.seen: Transcript = []
        self._connection = RawConnection(f"127.0.0.1:{port}", LIMIT_S)
        self._connection.send(framed(request(SaslHandshakeRequest(mechanism="GSSAPI"), 1)))
        self._connection.read_frame()

    def token(self, token: bytes) -> bytes | None:
        """The answer; None where the login has ended."""
        self._connection.send(framed(request(SaslAuthenticateRequest(auth_bytes=token), 1)))
        try:
            answer = decode(SaslAuthenticateResponse, 1, self._connection.read_frame()[4:])
        except (EOFError, ConnectionError):
            self.seen.append(("closed",))
            return None
        self.seen.append((answer.error_code, answer.error_message, bool(answer.auth_bytes)))
        return None if answer.error_code else answer.auth_bytes

    def logs_in(self, login: GssapiClient) -> bytes:
        """Returns the first token."""
        first = token = login.initial()
        while (answer := self.token(token)) is not None:
            following = login.respond(answer)
            if following is None:
                self._asks()
                break
            token = following
        return first

    def _asks(self) -> None:
        self._connection.send(framed(request(MetadataRequest(topics=[]), 9)))
        try:
            self.seen.append(("served", bool(self._connection.read_frame())))
        except (EOFError, ConnectionError):
            self.seen.append(("closed",))

    def close(self) -> None:
        self._connection.close()


def logged_in(listener: str) -> Callable[[Sides, dict[str, int]], Transcript]:
    def play(sides: Sides, ports: dict[str, int]) -> Transcript:
        peer = Peer(ports[listener])
        peer.logs_in(client(sides.kdc))
        peer.close()
        return peer.seen

    return play


def replayed(sides: Sides, ports: dict[str, int]) -> Transcript:
    first, second = Peer(ports["SASL"]), Peer(ports["SASL"])
    second.token(first.logs_in(client(sides.kdc)))
    first.close()
    second.close()
    return first.seen + second.seen


def made(login: GssapiClient, token: bytes, answer: bytes | None) -> bytes:
    """A token, or what a client makes of the last answer."""
    if token == b"first":
        return login.initial()
    if token != b"after":
        return token
    assert answer is not None
    return login.respond(answer) or b""


def garbled(*tokens: bytes) -> Callable[[Sides, dict[str, int]], Transcript]:
    """Tokens of which b"first" and b"after" stand for the client's own."""

    def play(sides: Sides, ports: dict[str, int]) -> Transcript:
        peer, login = Peer(ports["SASL"]), client(sides.kdc)
        answer: bytes | None = None
        for token in tokens:
            answer = peer.token(made(login, token, answer))
        peer.close()
        return peer.seen

    return play


PLAYS: Final[Mapping[str, Callable[[Sides, dict[str, int]], Transcript]]] = {
    "login": logged_in("SASL"),
    "login-renamed": logged_in("RENAMING"),
    "no-rule": logged_in("STRANGERS"),
    "old-keys": logged_in("WRONG"),
    "replay": replayed,
    "rubbish": garbled(b"rubbish"),
    "nothing": garbled(b""),
    "not-empty": garbled(b"first", b"x"),
    "unwrapped-choice": garbled(b"first", b"after", b"\1\0\0\0"),
}
DIFFERENCES: Final[Mapping[str, str]] = {
    "no-rule": "the login fails; Kafka lets the client log in, and closes the connection with its first request",
}
"""Plays whose transcripts differ, with the reason: docs/security.md has it too."""


@pytest.mark.parametrize("name", PLAYS)
def test_logins_have_the_same_transcripts(sides: Sides, name: str) -> None:
    kafka, ours = (PLAYS[name](sides, sides.ports[side]) for side in ("kafka", "ours"))
    if name in DIFFERENCES:
        assert ours != kafka, f"no exception any more: {DIFFERENCES[name]}"
        assert {ours[-1][0], kafka[-1][0]} == {58, "closed"}
    else:
        assert ours == kafka
