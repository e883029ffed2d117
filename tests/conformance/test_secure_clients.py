"""TLS and logins: Kafka's Java tools at Barnabas by SSL, our commands at Apache Kafka by SSL and SASL."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conformance.admin_cli import Tools
from tests.conformance.java_admin import JavaAdmin, ToolRun
from tests.conformance.kafka_jars import require_classpath
from tests.support.apache_kafka import QUICK_JVM, ApacheKafka
from tests.support.broker_process import BrokerProcess
from tests.support.certificates import Authority
from tests.support.ports import held_ports

pytestmark = [pytest.mark.conformance, pytest.mark.timeout(300)]

CA = Authority()
OTHER_CA = Authority("Other CA")
NAMES = ["localhost", "127.0.0.1"]
SECRET = "changeit"
JAAS = "listener.name.sasl_ssl.{}.sasl.jaas.config"
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("stores")
    broker, alice = CA.issue("broker", NAMES), CA.issue("alice")
    for name, text in {
        "ca.pem": CA.pem,
        "other-ca.pem": OTHER_CA.pem,
        "broker.pem": broker.key_pem() + broker.chain_pem(),
        "alice.pem": alice.key_pem() + alice.chain_pem(),
    }.items():
        (directory / name).write_text(text)
    (directory / "alice.p12").write_bytes(alice.pkcs12(SECRET))
    return directory


def stores(folder: Path, key: str, prefix: str = "") -> dict[str, str]:
    return {
        f"{prefix}ssl.keystore.type": "PEM",
        f"{prefix}ssl.keystore.location": str(folder / f"{key}.pem"),
        f"{prefix}ssl.truststore.type": "PEM",
        f"{prefix}ssl.truststore.location": str(folder / "ca.pem"),
    }


def trust(folder: Path, protocol: str = "SSL", ca: str = "ca.pem") -> dict[str, str]:
    return {
        "security.protocol": protocol,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(folder / ca),
    }


def write(folder: Path, name: str, properties: dict[str, str]) -> str:
    path = folder / f"{name}.properties"
    path.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
    return str(path)


# ---- our commands and Apache Kafka


class Kafka:
    """An Apache Kafka with listeners of each kind."""

    def __init__(self, directory: Path, folder: Path) -> None:
        self.ssl_port, self.sasl_port = held_ports(2)
        self.broker = ApacheKafka(directory, require_classpath(), jvm=QUICK_JVM)
        listeners = (
            f"PLAINTEXT://{self.broker.bootstrap},SSL://127.0.0.1:{self.ssl_port},"
            f"SASL_SSL://127.0.0.1:{self.sasl_port}"
        )
        self.broker.overrides |= {
            "listeners": f"{listeners},CONTROLLER://127.0.0.1:{self.broker.controller_port}",
            "advertised.listeners": listeners,
            "listener.security.protocol.map": (
                "PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_SSL:SASL_SSL,CONTROLLER:PLAINTEXT"
            ),
            **stores(folder, "broker"),
            "listener.name.ssl.ssl.client.auth": "required",
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
            JAAS.format("plain"): f'{PLAIN} required user_alice="pencil";',
            JAAS.format("scram-sha-256"): f"{SCRAM} required;",
        }


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory, folder: Path) -> Iterator[Kafka]:
    running = Kafka(tmp_path_factory.mktemp("kafka"), folder)
    with running.broker:
        plain = ours(running.broker.bootstrap, "configs", "--alter", "--entity-type", "users", "--entity-name", "bob",
                     "--add-config", "SCRAM-SHA-256=[iterations=4096,password=pencil]")  # fmt: skip
        assert plain.status == 0, plain
        assert ours(running.broker.bootstrap, "topics", "--create", "--topic", "known").status == 0
        yield running


def ours(bootstrap: str, *words: str) -> ToolRun:
    return Tools(None, bootstrap).ours(*words)  # type: ignore[arg-type]  # Kafka's tools are not run


def list_topics(port: int, config: str, host: str = "127.0.0.1") -> ToolRun:
    return ours(f"{host}:{port}", "topics", "--list", "--command-config", config)


def test_our_commands_over_mutual_tls(kafka: Kafka, folder: Path) -> None:
    config = write(folder, "mtls", {"security.protocol": "SSL", **stores(folder, "alice")})
    assert list_topics(kafka.ssl_port, config).out.split() == ["known"]
    p12 = {
        "ssl.keystore.type": "PKCS12",
        "ssl.keystore.location": str(folder / "alice.p12"),
        "ssl.keystore.password": SECRET,
    }
    config = write(folder, "p12", {**trust(folder), **p12})
    assert list_topics(kafka.ssl_port, config, "localhost").out.split() == ["known"]


@pytest.mark.parametrize(
    ("mechanism", "module", "user"), [("PLAIN", PLAIN, "alice"), ("SCRAM-SHA-256", SCRAM, "bob")]
)
def test_our_commands_log_in(kafka: Kafka, folder: Path, mechanism: str, module: str, user: str) -> None:
    def config(password: str) -> str:
        login = {
            "sasl.mechanism": mechanism,
            "sasl.jaas.config": f'{module} required username="{user}" password="{password}";',
        }
        return write(folder, "sasl", {**trust(folder, "SASL_SSL"), **login})

    assert list_topics(kafka.sasl_port, config("pencil")).out.split() == ["known"]
    refused = list_topics(kafka.sasl_port, config("wrong"))
    assert refused.status == 1
    assert (
        f"the login as {user} by {mechanism} at 127.0.0.1:{kafka.sasl_port} failed: Authentication"
        in refused.err
    )


def test_what_fails_is_said(kafka: Kafka, folder: Path) -> None:
    no_key = write(folder, "no-key", trust(folder))
    assert "the certificate shown to it, or asks for one" in list_topics(kafka.ssl_port, no_key).err
    unknown = write(folder, "unknown", trust(folder, "SASL_SSL", "other-ca.pem") | login("PLAIN", PLAIN))
    assert "signed by none that ssl.truststore.location trusts" in list_topics(kafka.sasl_port, unknown).err
    other = write(folder, "mechanism", trust(folder, "SASL_SSL") | login("SCRAM-SHA-512", SCRAM))
    said = list_topics(kafka.sasl_port, other).err
    assert "the broker has no SCRAM-SHA-512, but" in said
    assert "SCRAM-SHA-256" in said


def login(mechanism: str, module: str) -> dict[str, str]:
    return {
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": f'{module} required username="u" password="p";',
    }


# ---- Kafka's tools and our broker


@pytest.fixture(scope="module")
def java() -> Iterator[JavaAdmin]:
    running = JavaAdmin()
    yield running
    running.close()


@pytest.fixture(scope="module")
def barnabas(tmp_path_factory: pytest.TempPathFactory, folder: Path) -> Iterator[BrokerProcess]:
    broker = BrokerProcess(tmp_path_factory.mktemp("barnabas"))
    broker.overrides |= {
        "listeners": f"SSL://127.0.0.1:{broker.port}",
        "ssl.client.auth": "required",
        "ssl.principal.mapping.rules": "RULE:^CN=(.*?)$/$1/,DEFAULT",
        "barnabas.log.level": "debug",
        **stores(folder, "broker"),
    }
    with broker:
        yield broker


def tool(java: JavaAdmin, name: str, *words: str) -> ToolRun:
    return ToolRun(**java.request("", "tool", **{"class": name}, args=words))


@pytest.fixture(scope="module", params=["PEM", "PKCS12", "JKS"])
def java_config(request: pytest.FixtureRequest, folder: Path) -> str:
    kind = request.param
    if kind == "PEM":
        return write(folder, "java-pem", {"security.protocol": "SSL", **stores(folder, "alice")})
    path = folder / "alice.p12"
    if kind == "JKS":
        path = folder / "alice.jks"
        words = ["-importkeystore", "-srckeystore", str(folder / "alice.p12"), "-srcstorepass", SECRET]
        words += ["-destkeystore", str(path), "-deststoretype", "JKS", "-deststorepass", SECRET]
        subprocess.run(["keytool", *words], check=True, capture_output=True, timeout=60)
    own = {
        "ssl.keystore.type": kind,
        "ssl.keystore.location": str(path),
        "ssl.keystore.password": SECRET,
    }
    return write(folder, f"java-{kind}", trust(folder) | own)


def test_java_clients_with_each_kind_of_store(
    java: JavaAdmin, barnabas: BrokerProcess, java_config: str
) -> None:
    topic = Path(java_config).stem
    server = ("--bootstrap-server", barnabas.bootstrap)
    made = java.tool("kafka-topics", *server, "--command-config", java_config, "--create", "--topic", topic)
    assert made.status == 0, made
    sent = tool(
        java,
        "org.apache.kafka.tools.ProducerPerformance",
        *("--topic", topic, "--num-records", "2000", "--record-size", "1000", "--throughput", "-1"),
        *("--producer-props", f"bootstrap.servers={barnabas.bootstrap}", "--producer.config", java_config),
    )
    assert "2000 records sent" in sent.out, sent
    read = tool(
        java,
        "org.apache.kafka.tools.ConsumerPerformance",
        *(*server, "--topic", topic, "--messages", "2000", "--consumer.config", java_config),
    )
    assert ", 2000, " in read.out, read
    assert "is User:alice" in barnabas.output


def test_kafka_configs_replaces_a_certificate(java: JavaAdmin, barnabas: BrokerProcess, folder: Path) -> None:
    config = write(folder, "replace", {"security.protocol": "SSL", **stores(folder, "alice")})
    key = "listener.name.ssl.ssl.keystore.location"

    def alter(path: Path) -> ToolRun:
        entity = ("--entity-type", "brokers", "--entity-name", "1")
        words = ("--bootstrap-server", barnabas.bootstrap, "--command-config", config)
        return java.tool("kafka-configs", *words, "--alter", *entity, "--add-config", f"{key}={path}")

    renewed = CA.issue("broker", [*NAMES, "more"])
    (folder / "renewed.pem").write_text(renewed.key_pem() + renewed.chain_pem())
    other = CA.issue("other", NAMES)
    (folder / "other.pem").write_text(other.key_pem() + other.chain_pem())
    refused = alter(folder / "other.pem")
    assert "Keystore DistinguishedName does not match" in refused.err + refused.out
    assert "cannot be read" in alter(folder / "missing.pem").err + alter(folder / "missing.pem").out
    changed = alter(folder / "renewed.pem")
    assert changed.status == 0, changed
    deadline = 50
    while served(barnabas, folder) != renewed.der and deadline:
        deadline -= 1
    assert served(barnabas, folder) == renewed.der


def served(barnabas: BrokerProcess, folder: Path) -> bytes | None:
    """The certificate that the broker shows to a new connection."""
    import socket
    import ssl

    context = ssl.create_default_context(cafile=str(folder / "ca.pem"))
    context.load_cert_chain(folder / "alice.pem")
    with (
        socket.create_connection(("127.0.0.1", barnabas.port)) as plain,
        context.wrap_socket(plain, server_hostname="localhost") as tls,
    ):
        return tls.getpeercert(binary_form=True)
