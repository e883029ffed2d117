"""docs/security-recipes.md: the lines of each recipe are taken out of the page, and run."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer

from barnabas.broker.http.hosts import rejection
from barnabas.broker.startup.security_check import check_security
from barnabas.config.broker_config import BrokerConfig
from barnabas.config.properties import read_properties
from tests.interop.connect import Worker, file_sink, file_source
from tests.support.broker_process import ROOT, BrokerProcess
from tests.support.certificates import Authority
from tests.support.ports import held_ports
from tests.support.sasl import PLAIN_MODULE, plain_entry

PAGE: Final = ROOT / "docs" / "security-recipes.md"
FOLDER: Final = "/etc/barnabas"
"""Where the files of the recipes are; the tests have another."""

BLOCK: Final = re.compile(r"^```(\w+)(?: (\w+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LISTENER: Final = re.compile(r"://(?:localhost)?:909[23]")
BIN: Final = Path(sys.executable).parent
LIMIT_S: Final = 30.0
APPLICATION_LIMIT_S: Final = 180.0
SHORT: Final = {
    "group__initial__rebalance__delay__ms": "0",
    "group__min__session__timeout__ms": "1000",
    "offsets__topic__num__partitions": "1",
    "transaction__state__log__num__partitions": "1",
}

PASSWORD = "A password for my broker, in three lines"
SCRAM = "Passwords in the metadata, and the first user"
TLS = "TLS with my own authority"
MUTUAL = "Certificates for clients (mutual TLS)"
RIGHTS = "Least rights"
QUOTAS = "Quotas in two lines"
METRICS = "Metrics for Prometheus"
CONTAINER = "In a container"


class Block(NamedTuple):
    """A block of a recipe: its language, what it is for where that is not clear, and its lines."""

    language: str
    role: str
    text: str


@cache
def recipes() -> dict[str, list[Block]]:
    """The blocks of each recipe, by its heading."""
    parts = re.split(r"^## (.+)$", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {
        title: [Block(*found) for found in BLOCK.findall(text)]
        for title, text in zip(parts[1::2], parts[2::2], strict=True)
    }


def block(title: str, language: str, role: str = "") -> str:
    """The one block of its kind."""
    (found,) = [each.text for each in recipes()[title] if (each.language, each.role) == (language, role)]
    return found


class Cook(BrokerProcess):
    """A broker made by a recipe, in a folder of its own."""

    def __init__(self, folder: Path, **more: str) -> None:
        """`more` are settings that no recipe has; names have __ for their dots."""
        super().__init__(folder / "data")
        self.folder = folder
        self.http_port = held_ports(1)[0]
        self._more = {
            "log.dirs": f"{folder}/data",
            **{name.replace("__", "."): text for name, text in more.items()},
        }
        self.environment = {"BARNABAS_BOOTSTRAP_SERVER": f"localhost:{self.port}"}

    def command(self) -> list[str]:
        return [sys.executable, "-m", "barnabas.cli", "serve", f"{self.folder}/server.properties"]

    def adapted(self, text: str) -> str:
        """With the ports and the folder of this test."""
        text = LISTENER.sub(f"://127.0.0.1:{self.port}", text).replace(FOLDER, str(self.folder))
        return text.replace("barnabas.http.host=\n", "barnabas.http.host=127.0.0.1\n").replace(
            "9644", str(self.http_port)
        )

    def write(self, *titles: str) -> None:
        """Writes server.properties of these recipes together, and client.properties of the first."""
        text = "".join(self.adapted(block(title, "properties")) for title in titles)
        if "barnabas.http.port" not in text:
            text += "barnabas.http.port=-1\n"
        text += "".join(f"{key}={value}\n" for key, value in self._more.items())
        (self.folder / "server.properties").write_text(text)
        (self.folder / "server.properties").chmod(0o600)
        (self.folder / "client.properties").write_text(self.adapted(block(titles[0], "properties", "client")))

    def sh(self, lines: str) -> str:
        """What the lines print; each must succeed."""
        done = self.try_sh(lines)
        assert done.returncode == 0, done
        return done.stdout

    def try_sh(self, lines: str) -> subprocess.CompletedProcess[str]:
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("KAFKA_")}
        path = f"{BIN}{os.pathsep}{os.environ['PATH']}"
        return subprocess.run(
            ["sh", "-e", "-c", self.adapted(lines)],
            cwd=self.folder,
            env={**inherited, **self.environment, "PATH": path, "PYTHONPATH": str(ROOT)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )

    def lets_in(self, name: str = "client.properties") -> bool:
        """Whether a command may connect with this file of client properties."""
        file = self.folder / "patient"
        file.write_text((self.folder / name).read_text() + "default.api.timeout.ms=10000\n")
        return self.try_sh("barnabas topics --list --command-config patient").returncode == 0

    def lets_in_anybody(self) -> bool:
        """Whether a command may connect without a login and without TLS."""
        (self.folder / "nothing").write_text("default.api.timeout.ms=1000\n")
        return self.try_sh("barnabas topics --list --command-config nothing").returncode == 0


def need(program: str) -> None:
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed")


@pytest.fixture
def cook(tmp_path: Path) -> Iterator[Cook]:
    cook = Cook(tmp_path)
    yield cook
    cook.kill()


def with_certificates(cook: Cook, *more: str) -> None:
    need("openssl")
    for title in (TLS, *more):
        cook.sh(block(title, "sh"))


def test_a_password_in_three_lines(cook: Cook) -> None:
    assert len(block(PASSWORD, "properties").splitlines()) == 3
    cook.write(PASSWORD)
    with cook:
        assert cook.lets_in()
        assert not cook.lets_in_anybody()
        (cook.folder / "wrong").write_text(
            block(PASSWORD, "properties", "client").replace("a password", "another")
        )
        assert not cook.lets_in("wrong")


def test_the_first_user_of_scram_makes_others(cook: Cook) -> None:
    cook.write(SCRAM)
    cook.sh(block(SCRAM, "sh"))
    with cook:
        assert cook.lets_in()
        cook.sh(block(SCRAM, "sh", "after"))
        bob = block(SCRAM, "properties", "client").replace('"admin"', '"bob"')
        (cook.folder / "wrong").write_text(bob)
        (cook.folder / "bob").write_text(bob.replace('"a password"', '"another password"'))
        assert cook.lets_in("bob")
        assert not cook.lets_in("wrong")


def test_tls_with_ones_own_authority(cook: Cook) -> None:
    with_certificates(cook)
    assert (cook.folder / "broker.pem").stat().st_mode & 0o777 == 0o600
    cook.write(TLS)
    with cook:
        assert cook.lets_in()
        assert not cook.lets_in_anybody()
        (cook.folder / "wrong").write_text("security.protocol=SSL\n")
        assert not cook.lets_in("wrong")


def test_passwords_over_tls(cook: Cook) -> None:
    """As the page says in words."""
    with_certificates(cook)
    cook.write(PASSWORD)
    for name, more in (("server", block(TLS, "properties")), ("client", block(TLS, "properties", "client"))):
        file = cook.folder / f"{name}.properties"
        lines = [
            line for line in more.splitlines() if not line.startswith(("listeners", "security.protocol"))
        ]
        text = file.read_text().replace("SASL_PLAINTEXT", "SASL_SSL").replace("sasl_plaintext", "sasl_ssl")
        file.write_text(text + cook.adapted("\n".join(lines)) + "\n")
    with cook:
        assert cook.lets_in()


def test_a_certificate_says_who_a_client_is(tmp_path: Path) -> None:
    cook = Cook(
        tmp_path,
        authorizer__class__name="org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        super__users="User:alice",
    )
    with_certificates(cook, MUTUAL)
    cook.write(MUTUAL)
    with cook:
        acl = "barnabas acls --add --allow-principal User:bob --operation Read --topic t"
        assert "User:bob" in cook.sh(f"{acl} --command-config client.properties")
        (cook.folder / "without").write_text(cook.adapted(block(TLS, "properties", "client")))
        assert not cook.lets_in("without")
        cook.sh(block(MUTUAL, "sh").replace("O=acme", "O=other").replace("alice.", "mallory."))
        (cook.folder / "other").write_text(
            (cook.folder / "client.properties").read_text().replace("alice.", "mallory.")
        )
        assert not cook.lets_in("other")
    (cook.folder / "server.properties").write_text(
        re.sub(
            r"(?m)^(ssl.principal.mapping.rules|super.users)=.*\n",
            "",
            (cook.folder / "server.properties").read_text(),
        )
        + "super.users=User:CN=alice,O=acme,C=DE\n"
    )
    with cook:
        assert "User:bob" in cook.sh("barnabas acls --list --command-config client.properties")


def test_quotas(cook: Cook) -> None:
    lines = block(QUOTAS, "sh", "quotas")
    assert len(lines.splitlines()) == 2
    cook.write(RIGHTS)
    with cook:
        cook.sh(lines)
        shown = cook.sh("barnabas configs --command-config client.properties --describe --entity-type users")
        for quota in (
            "producer_byte_rate=1048576",
            "consumer_byte_rate=2097152",
            "producer_byte_rate=524288",
        ):
            assert quota in shown.replace(".0", "")


def test_metrics_for_prometheus(cook: Cook) -> None:
    need("curl")
    with_certificates(cook)
    cook.write(TLS, METRICS)
    with cook:
        cook.sh(block(METRICS, "sh", "after"))
        assert "kafka_server_" in (cook.folder / "metrics").read_text()
        assert (cook.folder / "ready").read_text() == "ready\n"
        denied = cook.try_sh(
            "curl --fail --silent --show-error --cacert ca.pem https://localhost:9644/metrics"
        )
        assert "401" in denied.stderr
        assert cook.try_sh("curl --fail --silent http://localhost:9644/health/live").returncode != 0


def test_prometheus_asks_as_the_broker_wants() -> None:
    text = block(METRICS, "yaml")
    (target,) = re.findall(r'targets: \["([^"]+)"\]', text)
    assert rejection(target, "HTTP/1.1", BrokerConfig()) is None
    (user,) = re.findall(r"username: (\S+)", text)
    assert f'user_{user}="' in block(METRICS, "properties")
    assert "scheme: https" in text
    assert "barnabas.http.security.protocol=SASL_SSL" in block(METRICS, "properties")


def container_variables() -> dict[str, str]:
    found = dict(re.findall(r"^ {6}(\w+): (.+)$", block(CONTAINER, "yaml", "environment"), re.MULTILINE))
    assert len(found) == 7
    return found


def test_variables_of_a_container(cook: Cook) -> None:
    variables = {name: cook.adapted(text) for name, text in container_variables().items()}
    variables["KAFKA_LISTENERS"] = variables["KAFKA_ADVERTISED_LISTENERS"] = (
        f"SASL_PLAINTEXT://127.0.0.1:{cook.port}"
    )
    image = {"KAFKA_LOG_DIRS": f"{cook.folder}/data", "KAFKA_BARNABAS_HTTP_PORT": str(cook.http_port)}
    path = {"PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}"}
    cook.environment |= {**image, **variables, **path}
    cook.command = lambda: ["sh", f"{ROOT}/docker/entrypoint.sh"]  # type: ignore[method-assign]
    (cook.folder / "client.properties").write_text(block(SCRAM, "properties", "client"))
    with cook:
        assert cook.lets_in()
        assert not cook.lets_in_anybody()


@pytest.mark.parametrize("title", [title for title in recipes() if title not in (QUOTAS, CONTAINER)])
def test_keys_exist(title: str) -> None:
    """Stores are elsewhere here, so that what a start would check of them is left to the others."""
    text = block(title, "properties")
    config = BrokerConfig.of(text.encode())
    assert [str(message) for message in config.messages] == []
    assert [each.key for each in read_properties(text)] == list(
        dict.fromkeys(each.key for each in read_properties(text))
    )
    if FOLDER not in text:
        check_security(config, {})


# ---- rights


class Rights:
    """The lines of a recipe that give rights, one entry each, and what a client does by them."""

    def __init__(self, cook: Cook) -> None:
        self.cook = cook
        self.lines = [
            line
            for role in ("consumer", "producer")
            for line in block(RIGHTS, "sh", role).splitlines()
            if line
        ]
        self._login = {
            "bootstrap.servers": f"127.0.0.1:{cook.port}",
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "billing",
            "sasl.password": "b",
        }

    def prepare(self) -> None:
        for topic in ("orders", "invoices"):
            self.cook.sh(
                f"barnabas topics --command-config client.properties --create --topic {topic} --partitions 1"
            )
        admin: Any = {**self._login, "sasl.username": "admin", "sasl.password": "a"}
        producer = Producer(admin)
        producer.produce("orders", b"an order")
        assert producer.flush(LIMIT_S) == 0

    def change(self, line: str, *, remove: bool) -> None:
        self.cook.sh(line.replace("--add", "--remove --force") if remove else line)

    def consume(self) -> Consumer:
        """A consumer that has read an order. Raises KafkaException."""
        settings: Any = {"group.id": "billing", "auto.offset.reset": "earliest", "enable.auto.commit": False}
        consumer = Consumer({**self._login, **settings})
        consumer.subscribe(["orders"])
        deadline = time.monotonic() + LIMIT_S
        try:
            while time.monotonic() < deadline:
                message = consumer.poll(0.1)
                if message is not None and message.error() is not None:
                    raise KafkaException(message.error())
                if message is not None:
                    return consumer
        except BaseException:
            consumer.close()
            raise
        consumer.close()
        raise AssertionError("nothing was read")

    def transact(self) -> None:
        """Reads an order and writes an invoice, in a transaction. Raises KafkaException."""
        consumer = self.consume()
        try:
            producer = Producer({**self._login, "transactional.id": "billing-1"})
            producer.init_transactions(LIMIT_S)
            producer.begin_transaction()
            codes: list[int] = []
            producer.produce(
                "invoices",
                b"an invoice",
                on_delivery=lambda error, _: codes.append(0 if error is None else error.code()),
            )
            assert producer.flush(LIMIT_S) == 0
            if codes != [0]:
                raise KafkaException(KafkaError(codes[0]))
            offsets = consumer.position(consumer.assignment())
            producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), LIMIT_S)
            producer.commit_transaction(LIMIT_S)
        finally:
            consumer.close()


DENIED: Final = {
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}


@pytest.mark.clients
@pytest.mark.timeout(200)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_each_right_of_a_transaction_is_needed_and_no_other(tmp_path: Path) -> None:
    cook = Cook(tmp_path, **SHORT)
    cook.write(RIGHTS)
    with cook:
        rights = Rights(cook)
        rights.prepare()
        for line in rights.lines:
            rights.change(line, remove=False)
        for line in rights.lines:
            rights.change(line, remove=True)
            with pytest.raises(KafkaException) as caught:
                rights.transact()
            assert caught.value.args[0].code() in DENIED, (line, caught.value)
            rights.change(line, remove=False)
        rights.transact()


# ---- the rights of a Streams application


Right = tuple[str, str, str, str]
"""Type of the resource, its name, pattern and operation, as the audit log has them."""

ALLOWED: Final = re.compile(
    r"is Allowed operation = (\w+) from .*MatchingAcl\(acl=StandardAcl\[resourceType=(\w+), resourceName=([\w-]+), "
    r"patternType=(\w+), principal=User:(?:counts|copies), host=\*, operation=\1, permissionType=ALLOW\]"
)
"""A line about an operation that an entry names itself. (One that it implies may have others that imply it.)"""

OPTIONS: Final = {"--topic": "TOPIC", "--group": "GROUP", "--transactional-id": "TRANSACTIONAL_ID"}


def given(lines: list[str]) -> set[Right]:
    """The entries that commands add."""
    found = set()
    for line in lines:
        words = line.split()
        pattern = "PREFIXED" if "prefixed" in words else "LITERAL"
        for option, kind in OPTIONS.items():
            if option in words:
                name = words[words.index(option) + 1]
                operations = [after for word, after in pairwise(words) if word == "--operation"]
                found |= {(kind, name, pattern, operation.upper()) for operation in operations}
    return found


def used(output: str) -> set[Right]:
    """The entries that the audit log names."""
    return {(kind, name, pattern, asked) for asked, kind, name, pattern in ALLOWED.findall(output)}


def test_entries_of_commands_are_read() -> None:
    assert len(given(block(RIGHTS, "sh", "streams").splitlines())) == 8
    assert len(given(block(RIGHTS, "sh", "connect").splitlines())) == 7


def secured(cook: Cook, user: str) -> tuple[str, dict[str, str]]:
    """Gives the broker a listener with TLS for this user; returns its address, and the properties of a Java client."""
    (port,), authority = held_ports(1), Authority()
    broker = authority.issue("broker", ["localhost", "127.0.0.1"])
    (cook.folder / "own.pem").write_text(broker.key_pem() + broker.chain_pem())
    (cook.folder / "own-ca.pem").write_text(authority.pem)
    file = cook.folder / "server.properties"
    file.write_text(
        re.sub("(?m)^(listeners=.*)$", rf"\1,SASL_SSL://127.0.0.1:{port}", file.read_text())
        + f"ssl.keystore.type=PEM\nssl.keystore.location={cook.folder}/own.pem\n"
        + f"listener.name.sasl_ssl.plain.sasl.jaas.config={plain_entry(**{user: 'c'})}\n"
    )
    return f"127.0.0.1:{port}", {
        "security.protocol": "SASL_SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": f"{cook.folder}/own-ca.pem",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": f'{PLAIN_MODULE} required username="{user}" password="c";',
    }


def with_rights(cook: Cook, role: str, *topics: str) -> list[str]:
    """Has decisions written to the log, makes topics, and runs the lines of a role; returns them."""
    login = "--command-config client.properties"
    cook.sh(f"barnabas configs {login} --alter --broker-logger 1 --add-config kafka.authorizer.logger=DEBUG")
    for topic in topics:
        cook.sh(f"barnabas topics {login} --create --topic {topic} --partitions 1")
    lines = block(RIGHTS, "sh", role)
    cook.sh(lines)
    return lines.splitlines()


@pytest.mark.clients
@pytest.mark.conformance
@pytest.mark.timeout(900)
def test_a_streams_application_needs_each_of_its_rights_and_no_other(tmp_path: Path) -> None:
    """Over SASL_SSL; the audit log says which entries it has used. Without one of them it ends.

    (It does not end without DELETE: it tries again, and the topics of its own grow.)
    """
    from tests.interop.test_streams import Instance

    cook = Cook(tmp_path, **SHORT)
    cook.write(RIGHTS)
    bootstrap, client = secured(cook, "counts")
    (tmp_path / "login").write_text("".join(f"{key}={value}\n" for key, value in client.items()))
    with cook:
        lines = with_rights(cook, "streams", "lines", "totals")
        settings: Any = {
            "bootstrap.servers": f"127.0.0.1:{cook.port}",
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "admin",
            "sasl.password": "a",
        }
        producer = Producer(settings)
        words = [bootstrap, "counts", "lines", "totals", str(tmp_path / "login")]
        application = Instance("StreamsCount", words, tmp_path / "state")
        try:
            application.await_running()
            wanted, deadline = given(lines), time.monotonic() + APPLICATION_LIMIT_S
            while used(cook.output) != wanted and time.monotonic() < deadline:
                producer.produce(
                    "lines", b"one two two"
                )  # records of repartition topics are deleted now and then
                assert producer.flush(LIMIT_S) == 0
                time.sleep(0.5)
            assert used(cook.output) == wanted
            assert "is Denied" not in cook.output
            cook.sh(lines[0].replace("--add", "--remove --force"))
            assert application.ends_by_itself(APPLICATION_LIMIT_S)
            assert "Principal = User:counts is Denied operation = READ" in cook.output
        finally:
            application.kill()


class ConnectHarness:
    """A worker of Connect with the rights of the recipe, a source and a sink."""

    def __init__(self, cook: Cook, bootstrap: str, client: dict[str, str], folder: Path) -> None:
        self._cook, self._files = cook, (folder / "source.txt", folder / "sink.txt")
        self._files[0].touch()
        self.worker = Worker(
            folder / "worker",
            {
                "bootstrap.servers": bootstrap,
                "group.id": "copies",
                "offset.flush.interval.ms": "500",
                **{
                    f"{prefix}{key}": value
                    for prefix in ("", "producer.", "consumer.", "admin.")
                    for key, value in client.items()
                },
                **{f"{what}.storage.topic": f"copies-{what}" for what in ("config", "offset", "status")},
                **{f"{what}.storage.replication.factor": "1" for what in ("config", "offset", "status")},
                "offset.storage.partitions": "1",
                "status.storage.partitions": "1",
            },
        )

    def start(self) -> None:
        source, sink = self._files
        self.worker.put("lines", file_source(source, "events"))
        plain = {key: value for key, value in file_sink(sink, "events").items() if "override" not in key}
        self.worker.put("files", plain)
        for name in ("lines", "files"):
            self.worker.await_running(name)

    def copy(self) -> None:
        """Writes a line, and waits for it at the other end."""
        self.write()
        self.worker.wait(self.is_copied, "all lines are copied")

    def is_copied(self) -> bool:
        """Whether all lines have arrived."""
        source, sink = self._files
        return sink.exists() and set(sink.read_text().split()) >= set(source.read_text().split())

    def write(self) -> None:
        """Writes a line."""
        with self._files[0].open("a") as file:
            file.write(f"{uuid.uuid4()}\n")

    def fails_without(self, line: str, connector: str) -> None:
        """Takes a right away until the connector's task has failed, gives it back, and starts the task again."""
        self._cook.sh(line.replace("--add", "--remove --force"))

        def task() -> dict[str, str]:
            (found,) = self.worker.ask(f"connectors/{connector}/status")["tasks"]
            return dict(found)

        def has_failed() -> bool:
            self.write()
            return "not authorized" in task().get("trace", "").lower()

        self.worker.wait(has_failed, f"{connector} fails")
        self._cook.sh(line)
        self.worker.ask(f"connectors/{connector}/restart?includeTasks=true", "POST")
        self.worker.wait(lambda: task()["state"] == "RUNNING", f"{connector} runs again")
        self.copy()


@pytest.mark.clients
@pytest.mark.conformance
@pytest.mark.timeout(900)
def test_a_worker_of_connect_needs_each_of_its_rights_and_no_other(tmp_path: Path) -> None:
    """Over SASL_SSL; the audit log says which entries it has used.

    Without one of a connector its task fails, and without its group the worker ends.
    """
    cook = Cook(tmp_path, **SHORT)
    cook.write(RIGHTS)
    bootstrap, client = secured(cook, "copies")
    with cook:
        lines = with_rights(cook, "connect", "events")
        harness = ConnectHarness(cook, bootstrap, client, tmp_path)
        try:
            harness.start()
            harness.copy()
            wanted = given(lines)
            harness.worker.wait(lambda: used(cook.output) == wanted, f"it uses {wanted}")
            denied = set(re.findall("is Denied operation = .* on resource = ([^ ]+)", cook.output))
            assert not denied, denied
            workers, _, source, sink, group = lines
            for line, connector in ((source, "lines"), (sink, "files"), (group, "files")):
                harness.fails_without(line, connector)
            cook.sh(workers.replace("--add", "--remove --force"))
            assert harness.worker.ends_by_itself()
        finally:
            harness.worker.kill()
