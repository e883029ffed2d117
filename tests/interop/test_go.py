"""franz-go, a Go client with a protocol implementation of its own; if a Go tool chain is installed."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from barnabas.cli.main import main
from tests.interop.clients.confluent import ConfluentKafka
from tests.interop.clients.go import build_go
from tests.interop.clients.lines import LineClient, LineClientError
from tests.interop.conftest import TopicFactory
from tests.interop.workload import CODECS, assert_same
from tests.support.broker_process import BrokerProcess
from tests.support.identity_provider import IdentityProvider
from tests.support.ports import held_ports
from tests.support.sasl import PLAIN_MODULE, SCRAM_MODULE, listener_settings, plain_entry
from tests.support.tokens import ISSUER

pytestmark = [pytest.mark.clients, pytest.mark.slow, pytest.mark.timeout(900)]

TOTAL_RECORDS = int(os.environ.get("BARNABAS_TEST_RECORDS", "1000000"))
FULL = tuple((codec, partitions) for codec in CODECS for partitions in (1, 200))


@pytest.fixture(scope="module")
def program() -> Path:
    return build_go("")


@pytest.fixture(scope="module")
def go(bootstrap: str, program: Path) -> Iterator[LineClient]:
    client = LineClient([str(program), bootstrap])
    yield client
    client.close()


@pytest.mark.parametrize(("codec", "partitions"), FULL)
def test_a_million_records_come_back(
    go: LineClient, topic: TopicFactory, codec: str, partitions: int
) -> None:
    name, count = topic(partitions), TOTAL_RECORDS // len(FULL)
    produced = go.produce(name, partitions, count, codec)
    assert produced.count == count
    assert_same(produced, go.consume(name, partitions, count))


def test_go_and_librdkafka_read_each_other(go: LineClient, bootstrap: str, topic: TopicFactory) -> None:
    other, count = ConfluentKafka(), 3000
    for codec in CODECS:
        name = topic(3)
        assert_same(go.produce(name, 3, count, codec), other.consume(bootstrap, name, 3, count))
        name = topic(3)
        assert_same(
            other.produce(bootstrap, name, other.workload(count, 3), codec), go.consume(name, 3, count)
        )


TOKENS = {
    "delegation.token.secret.key": "the key of all brokers",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT",
    **listener_settings(
        "SASL", {"PLAIN": plain_entry(alice="pencil"), "SCRAM-SHA-512": f"{SCRAM_MODULE} required;"}
    ),
}


def test_go_logs_in_by_a_delegation_token(program: Path, tmp_path: Path) -> None:
    broker, (port,) = BrokerProcess(tmp_path / "data", TOKENS), held_ports(1)
    broker.overrides["listeners"] = f"PLAINTEXT://127.0.0.1:{broker.port},SASL://127.0.0.1:{port}"
    config = tmp_path / "alice.properties"
    entry = f'{PLAIN_MODULE} required username="alice" password="pencil";'
    config.write_text(f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.jaas.config={entry}\n")

    def command(*words: str) -> str:
        ran = CliRunner().invoke(main, words, catch_exceptions=False)
        assert ran.exit_code == 0, ran.output
        return ran.stdout

    with broker:
        given = ("--bootstrap-server", f"127.0.0.1:{port}", "--command-config", str(config))
        command("topics", "--create", "--topic", "t", "--partitions", "3", *given)
        token = json.loads(command("tokens", "--create", "--json", *given))
        by_token = LineClient([str(program), f"127.0.0.1:{port}", token["tokenId"], token["hmac"]])
        assert_same(by_token.produce("t", 3, 1000, "none"), by_token.consume("t", 3, 1000))
        by_token.close()
        assert token["hmac"] not in broker.output


PACKAGE = "org.apache.kafka.common.security.oauthbearer"
CREATE = ["topics", "--create", "--topic", "t", "--partitions", "3"]
MECHANISM = "listener.name.sasl.oauthbearer.sasl"


def test_go_logs_in_by_tokens_of_an_identity_provider(program: Path, tmp_path: Path) -> None:
    broker, (port,) = BrokerProcess(tmp_path / "data"), held_ports(1)
    file = tmp_path / "token"
    with IdentityProvider() as provider:
        broker.overrides |= {
            "listeners": f"PLAINTEXT://127.0.0.1:{broker.port},SASL://127.0.0.1:{port}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT",
            **listener_settings("SASL", {"OAUTHBEARER": f"{PACKAGE}.OAuthBearerLoginModule required;"}),
            f"{MECHANISM}.server.callback.handler.class": f"{PACKAGE}.OAuthBearerValidatorCallbackHandler",
            f"{MECHANISM}.oauthbearer.jwks.endpoint.url": provider.keys_url,
            f"{MECHANISM}.oauthbearer.expected.issuer": ISSUER,
            "sasl.oauthbearer.expected.audience": "kafka",
        }
        provider.claims = {"aud": "kafka"}
        with broker:
            file.write_text(provider.token("alice"))
            command = [str(program), f"127.0.0.1:{port}", "OAUTHBEARER", str(file)]
            made = CliRunner().invoke(
                main, [*CREATE, "--bootstrap-server", broker.bootstrap], catch_exceptions=False
            )
            assert made.exit_code == 0, made.output
            by_token = LineClient(command)
            assert_same(by_token.produce("t", 3, 1000, "none"), by_token.consume("t", 3, 1000))
            by_token.close()
            file.write_text(provider.token("mallory", aud="other"))
            refused = LineClient(command)
            with pytest.raises(LineClientError, match="0 of 1000 records"):
                refused.consume("t", 3, 1000)
            refused.close()  # it hangs up where its token is rejected, before the login has failed for the broker
            assert "eyJ" not in broker.output
