"""Planted secrets: passwords and keys of every kind, which must appear in no output of a broker or of its commands."""

from __future__ import annotations

import re
import subprocess
import sys
import urllib.request
from base64 import b64encode
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from barnabas.protocol.messages.configs import DescribeConfigsRequest, IncrementalAlterConfigsRequest
from barnabas.protocol.messages.security import (
    AlterUserScramCredentialsRequest,
    DescribeUserScramCredentialsRequest,
    SaslAuthenticateRequest,
    SaslHandshakeRequest,
)
from barnabas.protocol.schema import Message
from barnabas.security.oauthbearer import ABORT, format_initial
from barnabas.security.token_settings import LOGIN_MODULE
from tests.support.broker_process import BrokerDidNotStartError, BrokerProcess
from tests.support.certificates import Authority
from tests.support.ports import held_ports
from tests.support.raw import RawConnection
from tests.support.sasl import PLAIN_MODULE, SCRAM_MODULE, plain_token, request
from tests.support.tokens import unsigned_token

pytestmark = [pytest.mark.faults, pytest.mark.timeout(180)]

MARK = "planted"
"""What all secrets have in them."""
SALTED = f"{MARK}-salted-password-of-32-byt".ljust(32, "e").encode()
CA = Authority()
IDENTITY = CA.issue("broker", ["localhost", "127.0.0.1"])
KEY_LINES = [line for line in IDENTITY.key_pem().splitlines() if not line.startswith("-")]


def settings(folder: Path, ports: list[int]) -> dict[str, str]:
    (folder / "store.p12").write_bytes(IDENTITY.pkcs12(f"{MARK}-store"))
    plain, scram = f"{PLAIN_MODULE} required", f"{SCRAM_MODULE} required"
    return {
        "listeners": ",".join(
            f"{name}://127.0.0.1:{port}"
            for name, port in zip(("PLAINTEXT", "SASL_PLAINTEXT", "SSL", "INLINE"), ports, strict=True)
        ),
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT,SSL:SSL,INLINE:SSL",
        "log.dirs": str(folder / "data"),
        "barnabas.log.level": "DEBUG",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,OAUTHBEARER",
        "barnabas.oauthbearer.allow.unsecured": "true",
        "listener.name.sasl_plaintext.oauthbearer.sasl.jaas.config": (
            f'{LOGIN_MODULE} required clientSecret="{MARK}-client";'
        ),
        "sasl.oauthbearer.client.credentials.client.secret": f"{MARK}-client",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": f'{plain} user_alice="{MARK}-plain";',
        "listener.name.sasl_plaintext.scram-sha-256.sasl.jaas.config": (
            f'{scram} username="x" password="{MARK}-jaas";'
        ),
        "listener.name.ssl.ssl.keystore.type": "PKCS12",
        "listener.name.ssl.ssl.keystore.location": str(folder / "store.p12"),
        "listener.name.ssl.ssl.keystore.password": f"{MARK}-store",
        "listener.name.ssl.ssl.key.password": f"{MARK}-store",
        "listener.name.inline.ssl.keystore.type": "PEM",
        "listener.name.inline.ssl.keystore.key": IDENTITY.key_pem().replace("\n", "\\n"),
        "listener.name.inline.ssl.keystore.certificate.chain": IDENTITY.chain_pem().replace("\n", "\\n"),
        "listener.name.ssl.ssl.truststore.type": "PKCS12",
        "listener.name.ssl.ssl.truststore.location": str(folder / "store.p12"),
        "listener.name.ssl.ssl.truststore.password": f"{MARK}-store",
        "sasl.jaas.config": f'{plain} user_bob="{MARK}-ignored";',
        "not.a.key.of.kafka.password": f"{MARK}-unknown",
    }


def write(path: Path, values: dict[str, str]) -> Path:
    path.write_text("".join(f"{key}={value}\n" for key, value in values.items()))
    return path


class Planted:
    """A broker whose configuration is in a file, and all that it has said."""

    def __init__(self, folder: Path) -> None:
        ports = held_ports(5)
        self.values = settings(folder, ports[:4])
        self.http_port = ports[4]
        self.process = BrokerProcess(folder / "data")
        self.process.port = ports[0]
        self.process.overrides = {"listeners": self.values["listeners"], "barnabas.http.port": str(ports[4])}
        self.process.properties = write(folder / "server.properties", self.values)
        self.said: list[bytes] = []

    def ask(self, message: Message, version: int) -> bytes:
        with RawConnection(self.process.bootstrap) as client:
            client.send_frame(request(message, version))
            answer = client.read_frame()
        self.said.append(answer)
        return answer

    def log_in(self, mechanism: str, *tokens: bytes) -> None:
        with RawConnection(f"127.0.0.1:{self.sasl_port}") as client, suppress(EOFError, OSError):
            client.send_frame(request(SaslHandshakeRequest(mechanism=mechanism), 1))
            client.read_frame()
            for token in tokens:
                client.send_frame(request(SaslAuthenticateRequest(auth_bytes=token), 2))
                self.said.append(client.read_frame())

    @property
    def sasl_port(self) -> int:
        found = re.search(r"SASL_PLAINTEXT://127.0.0.1:(\d+)", self.values["listeners"])
        assert found is not None
        return int(found[1])


@pytest.fixture
def planted(tmp_path: Path) -> Iterator[Planted]:
    broker = Planted(tmp_path)
    with broker.process:
        yield broker


def cli(*words: str) -> bytes:
    """All that a command of ours writes."""
    run = subprocess.run(
        [sys.executable, "-m", "barnabas.cli", *words], capture_output=True, timeout=60, check=False
    )
    return run.stdout + run.stderr


def assert_no_secret(text: bytes | str, where: str) -> None:
    data = text.encode() if isinstance(text, str) else text
    for secret in (
        MARK.encode(),
        b64encode(SALTED),
        SALTED.hex().encode(),
        *(line.encode() for line in KEY_LINES),
    ):
        at = data.find(secret)
        assert at < 0, f"{where}: ...{data[max(0, at - 300) : at + 40]!r}"


def test_no_output_has_a_secret(planted: Planted) -> None:
    alter = AlterUserScramCredentialsRequest
    upsertion = alter.ScramCredentialUpsertion(
        name="carol", mechanism=1, iterations=4096, salt=b"salt", salted_password=SALTED
    )
    planted.ask(alter(upsertions=[upsertion]), 0)
    planted.ask(alter(upsertions=[upsertion, upsertion]), 0)  # an error
    planted.ask(DescribeUserScramCredentialsRequest(users=None), 0)
    change(planted, "listener.name.ssl.ssl.keystore.password", f"{MARK}-wrong")
    change(planted, "listener.name.ssl.ssl.keystore.password", f"{MARK}-store")
    change(planted, "some.unknown.secret", f"{MARK}-dynamic")
    for version in (1, 4):
        kind = DescribeConfigsRequest
        answer = planted.ask(
            kind(
                resources=[
                    kind.DescribeConfigsResource(resource_type=4, resource_name=name) for name in ("1", "")
                ],
                include_synonyms=True,
                include_documentation=version >= 3,
            ),
            version,
        )
        assert b"ssl.keystore.password" in answer
    planted.log_in("PLAIN", plain_token("alice", f"{MARK}-plain"))
    planted.log_in("PLAIN", plain_token("alice", f"{MARK}-guess"))
    planted.log_in("PLAIN", f"{MARK}\0{MARK}".encode())
    planted.log_in("SCRAM-SHA-256", f"n,,n=carol,r={MARK}".encode(), f"c=biws,r={MARK},p={MARK}".encode())
    for token in (MARK, f"e30.{MARK}.", unsigned_token({"jti": MARK, MARK: MARK})):
        planted.log_in("OAUTHBEARER", format_initial(token, {"extension": MARK}), ABORT)
    with urllib.request.urlopen(f"http://127.0.0.1:{planted.http_port}/metrics") as answer:
        planted.said.append(answer.read())
    bootstrap = ("--bootstrap-server", planted.process.bootstrap)
    for words in (
        ("configs", "--describe", "--all", "--entity-type", "brokers", "--entity-name", "1", *bootstrap),
        (
            "configs",
            "--describe",
            "--all",
            "--json",
            "--entity-type",
            "brokers",
            "--entity-name",
            "1",
            *bootstrap,
        ),
        ("users", "--describe", *bootstrap),
        ("config", "check", str(planted.process.properties)),
    ):
        planted.said.append(cli(*words))
    assert planted.process.stop() == 0
    for number, said in enumerate(planted.said):
        if b"r=" + MARK.encode() not in said:  # SCRAM's answer begins with the nonce that the client has sent
            assert_no_secret(said, f"answer {number}")
    assert "failed authentication" in planted.process.output
    assert_no_secret(planted.process.output, "output")


def change(planted: Planted, key: str, value: str) -> None:
    kind = IncrementalAlterConfigsRequest
    config = kind.AlterableConfig(name=key, config_operation=0, value=value)
    resource = kind.AlterConfigsResource(resource_type=4, resource_name="1", configs=[config])
    planted.ask(kind(resources=[resource]), 1)


JAAS = "listener.name.sasl_plaintext.plain.sasl.jaas.config"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("listener.name.ssl.ssl.keystore.password", f"{MARK}-wrong"),
        ("listener.name.ssl.ssl.key.password", f"{MARK}-wrong"),
        (JAAS, f'{PLAIN_MODULE} required user_alice="{MARK}-plain'),
        (JAAS, f'{PLAIN_MODULE} required user_alice="{MARK}-plain" {MARK}'),
        (JAAS, f'{PLAIN_MODULE} sometimes user_alice="{MARK}-plain";'),
        (JAAS, f'a.Module required user_alice="{MARK}-plain";'),
        (
            "listener.name.inline.ssl.keystore.key",
            f"-----BEGIN PRIVATE KEY-----\\n{MARK}\\n-----END PRIVATE KEY-----",
        ),
        ("listener.name.inline.ssl.keystore.certificate.chain", ""),
    ],
)
def test_a_start_that_is_refused_shows_no_secret(tmp_path: Path, key: str, value: str) -> None:
    broker = Planted(tmp_path)
    write(tmp_path / "server.properties", {**broker.values, key: value})
    with pytest.raises(BrokerDidNotStartError) as refused:
        broker.process.start()
    assert key.rpartition("ssl.")[2].split(".")[0] in str(refused.value) or "jaas" in str(refused.value)
    assert_no_secret(str(refused.value), "start")
    assert_no_secret(cli("config", "check", str(tmp_path / "server.properties")), "config check")
