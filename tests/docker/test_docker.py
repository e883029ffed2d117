"""Tests the container files without a container engine."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from barnabas.broker.http.hosts import rejection
from barnabas.broker.http.server import HttpServer
from barnabas.broker.metrics.families import FAMILIES, Kind
from barnabas.broker.metrics.prometheus import Metrics
from barnabas.broker.startup.http_security import http_security
from barnabas.config.broker_config import BrokerConfig
from barnabas.config.catalogue import BROKER_KEYS
from barnabas.config.environment import key_for
from tests.broker.http.test_tls import config_of as http_config
from tests.broker.network.tls_listeners import write_certificates
from tests.interop.clients.confluent import ConfluentKafka
from tests.interop.workload import assert_same
from tests.support.apache_kafka import answers_metadata
from tests.support.broker_process import ROOT, BrokerProcess
from tests.support.ports import held_ports

DOCKER = ROOT / "docker"
DASHBOARDS = sorted((DOCKER / "grafana" / "dashboards").glob("*.json"))
WITH_THE_FIRST_ERROR = {"kafka_network_requestmetrics_errors_total"}
METRIC = re.compile(r"\b((?:kafka|process|barnabas)_[a-z_]+)")


class EnvironmentOnly(BrokerProcess):
    """A broker started as by the entry point: no argument, all settings from the environment."""

    def command(self) -> list[str]:
        return [sys.executable, "-m", "barnabas.cli.main", "serve"]


def compose_environment() -> dict[str, str]:
    """The KAFKA_* variables of the compose file (without a YAML parser: they are plain lines)."""
    text = (DOCKER / "compose.yaml").read_text()
    found = re.findall(r"^ {6}(KAFKA_\w+): (.+)$", text, re.MULTILINE)
    return {name: value.strip('"') for name, value in found}


def expressions() -> list[str]:
    """Every PromQL expression of the dashboards."""
    found = []
    for path in DASHBOARDS:
        asked = [
            target["expr"]
            for panel in json.loads(path.read_text())["panels"]
            for target in panel.get("targets", [])
        ]
        assert asked, path
        found += asked
    return found


def shown_names() -> set[str]:
    """The names under which Prometheus finds our metrics."""
    summaries = {f"{name}_count" for name, family in FAMILIES.items() if family.kind is Kind.SUMMARY}
    return set(FAMILIES) | summaries


def test_the_dashboards_ask_for_metrics_that_the_broker_has() -> None:
    asked = {name for text in expressions() for name in METRIC.findall(text)}
    missing = {name for name in asked - shown_names() if not name.startswith("process_")}
    assert not missing


def test_image_and_compose_file_set_keys_that_exist() -> None:
    for file in ("Dockerfile", "compose.yaml"):
        variables = re.findall(r"\bKAFKA_[A-Z_]+(?=[:=])", (DOCKER / file).read_text())
        assert variables
        for variable in variables:
            assert key_for(variable) in BROKER_KEYS, f"{variable} in {file} is {key_for(variable)}"


@pytest.mark.clients
def test_the_compose_file_configures_a_broker(tmp_path: Path) -> None:
    host, docker, controller, http = held_ports(4)
    ports = {"19092": str(docker), "9092": str(host), "9093": str(controller)}
    environment = {
        name: re.sub(r"\b(19092|9092|9093)\b", lambda found: ports[found[1]], value)
        for name, value in compose_environment().items()
    }
    assert environment["KAFKA_PROCESS_ROLES"] == "broker,controller"
    broker = EnvironmentOnly(tmp_path)
    broker.environment = {
        **environment,
        # A name that only exists in a container network.
        "KAFKA_ADVERTISED_LISTENERS": environment["KAFKA_ADVERTISED_LISTENERS"].replace(
            "broker:", "127.0.0.1:"
        ),
        "KAFKA_LOG_DIRS": str(tmp_path / "data"),
        "KAFKA_BARNABAS_HTTP_PORT": str(http),
    }
    with broker:
        for port in (host, docker):
            assert answers_metadata(f"127.0.0.1:{port}")
        client = ConfluentKafka()
        workload = client.workload(100, 1)
        produced = client.produce(f"127.0.0.1:{docker}", "composed", workload, "lz4")
        assert_same(produced, client.consume(f"127.0.0.1:{host}", "composed", 1, 100))
        known = families(http)
        missing = (
            {name for text in expressions() for name in METRIC.findall(text)} - known - WITH_THE_FIRST_ERROR
        )
        assert not missing, "the dashboard asks for what the broker does not have"
        assert broker.stop() == 0


def families(port: int) -> set[str]:
    """The names of all samples that the broker exposes."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    return {re.split(r"[{ ]", line, maxsplit=1)[0] for line in lines if line and not line.startswith("#")}


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)
def test_a_dashboard_has_panels_that_do_not_overlap(path: Path) -> None:
    board = json.loads(path.read_text())
    taken: set[tuple[int, int]] = set()
    for panel in board["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        assert place["x"] + place["w"] <= 24
        taken |= cells
    ids = [panel["id"] for panel in board["panels"]]
    assert len(ids) == len(set(ids))


def test_the_broker_accepts_the_name_by_which_prometheus_asks() -> None:
    targets = re.findall(r'targets: \["([^"]+)"\]', (DOCKER / "prometheus.yml").read_text())
    assert targets
    assert [rejection(target, "HTTP/1.1", BrokerConfig()) for target in targets] == [None] * len(targets)


def test_the_image_copies_what_is_there_and_runs_without_rights() -> None:
    text = (DOCKER / "Dockerfile").read_text()
    copied = re.findall(r"^COPY (?!--from)(?:--chmod=\S+ )?(.+) \S+$", text, re.MULTILINE)
    for name in " ".join(copied).split():
        assert (ROOT / name).exists(), name
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    for name in " ".join(copied).split():
        assert f"!{name}" in ignored, name
    assert re.search(r"^USER 1000:1000$", text, re.MULTILINE)
    assert re.search(r"^EXPOSE 9092 9644$", text, re.MULTILINE)


def test_the_entry_point_passes_its_arguments_on(tmp_path: Path) -> None:
    stub = tmp_path / "barnabas"
    stub.write_text('#!/bin/sh\nprintf "%s|" "$@"\n')
    stub.chmod(0o755)
    environment = {"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}

    def run(*words: str) -> str:
        command = ["sh", str(DOCKER / "entrypoint.sh"), *words]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout

    assert run() == "serve|"
    assert run("--override", "a key=a value") == "serve|--override|a key=a value|"


# ---- security


def stub_run(folder: Path, words: list[str], **environment: str) -> list[str]:
    """The lines of a `barnabas` that prints its arguments and what it reads, by the entry point."""
    stub = folder / "barnabas"
    stub.write_text(
        "#!/bin/sh\n"
        "case $1 in storage) echo fresh-id; exit ;; format) cat ;; esac\n"
        'printf "%s|" "$@"; echo "${BARNABAS_ADD_SCRAM-unset}"\n'
    )
    stub.chmod(0o755)
    done = subprocess.run(
        ["sh", str(DOCKER / "entrypoint.sh"), *words],
        env={"PATH": f"{folder}{os.pathsep}{os.environ['PATH']}", **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.splitlines()


def test_the_first_users_are_made_before_the_first_start(tmp_path: Path) -> None:
    user = "SCRAM-SHA-512=[name=admin,password=a secret]"
    assert stub_run(tmp_path, [], BARNABAS_ADD_SCRAM=user) == [
        user,
        "format|--ignore-formatted|--config|/dev/null|--add-scram-file|-|--cluster-id|fresh-id|--keep-cluster-id|"
        + user,
        "serve|unset",
    ]
    file = tmp_path / "users"
    file.write_text(user)
    words = ["--override", "a b=c d", "my.properties", "--override=e=f"]
    assert stub_run(tmp_path, words, BARNABAS_ADD_SCRAM_FILE=str(file), CLUSTER_ID="x") == [
        user,
        "format|--ignore-formatted|--config|my.properties|--add-scram-file|-|--cluster-id|x|"
        "--override|a b=c d|--override=e=f|unset",
        "serve|--override|a b=c d|my.properties|--override=e=f|unset",
    ]


def test_a_file_of_users_that_cannot_be_read_prevents_the_start(tmp_path: Path) -> None:
    with pytest.raises(subprocess.CalledProcessError):
        stub_run(tmp_path, [], BARNABAS_ADD_SCRAM_FILE=str(tmp_path / "none"))


class Container(EnvironmentOnly):
    """A broker started by the entry point, with the commands of this environment."""

    def command(self) -> list[str]:
        return ["sh", str(DOCKER / "entrypoint.sh")]

    def on(self, data: Path, **environment: str) -> Container:
        self.environment = {
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "KAFKA_LOG_DIRS": str(data),
            **environment,
        }
        return self


JAAS = """
KafkaServer {
    org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="from a file";
};
"""


def topics(bootstrap: str, folder: Path, mechanism: str, user: str, password: str) -> int:
    """The exit code of a command that logs in."""
    module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
    (folder / "client.properties").write_text(
        f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism={mechanism}\n"
        f"sasl.jaas.config=org.apache.kafka.common.security.{module} required "
        f'username="{user}" password="{password}";\n'
    )
    words = ["topics", "--list", "--bootstrap-server", bootstrap]
    command = [sys.executable, "-m", "barnabas.cli", *words]
    login = ["--command-config", f"{folder}/client.properties"]
    return subprocess.run([*command, *login], cwd=ROOT, capture_output=True, check=False).returncode


def test_variables_configure_logins_and_the_first_users(tmp_path: Path) -> None:
    sasl, http = held_ports(2)
    (tmp_path / "kafka.jaas").write_text(JAAS)
    settings = {
        "KAFKA_LISTENERS": f"SASL_PLAINTEXT://127.0.0.1:{sasl}",
        "KAFKA_SASL_ENABLED_MECHANISMS": "PLAIN,SCRAM-SHA-512",
        "KAFKA_AUTHORIZER_CLASS_NAME": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "KAFKA_SUPER_USERS": "User:admin;User:alice",
        "KAFKA_OPTS": f"-Djava.security.auth.login.config={tmp_path}/kafka.jaas",
        "KAFKA_BARNABAS_HTTP_PORT": str(http),
        "KAFKA_BARNABAS_HTTP_SECURITY_PROTOCOL": "SASL_PLAINTEXT",
        "KAFKA_BARNABAS_HTTP_SASL_JAAS_CONFIG": "org.apache.kafka.common.security.plain.PlainLoginModule required "
        'user_prometheus="scrape";',
        "BARNABAS_ADD_SCRAM": "SCRAM-SHA-512=[name=admin,password=first secret]",
    }
    bootstrap, data = f"127.0.0.1:{sasl}", tmp_path / "data"
    with Container(tmp_path).on(data, **settings) as broker:
        assert topics(bootstrap, tmp_path, "SCRAM-SHA-512", "admin", "first secret") == 0
        assert topics(bootstrap, tmp_path, "PLAIN", "alice", "from a file") == 0
        assert topics(bootstrap, tmp_path, "PLAIN", "alice", "a wrong one") == 1
        assert healthcheck(http) == (0, "")
        for secret in ("first secret", "from a file", "scrape"):
            assert secret not in broker.output
        assert broker.stop() == 0
    changed = {**settings, "BARNABAS_ADD_SCRAM": "SCRAM-SHA-512=[name=admin,password=another]"}
    with Container(tmp_path).on(data, **changed) as broker:
        assert topics(bootstrap, tmp_path, "SCRAM-SHA-512", "admin", "first secret") == 0
        assert broker.stop() == 0


def healthcheck(port: int) -> tuple[int, str]:
    """The exit code of the container's health check, and what it says."""
    done = subprocess.run(
        [sys.executable, str(DOCKER / "healthcheck.py")],
        env={**os.environ, "KAFKA_BARNABAS_HTTP_PORT": str(port)},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stderr


@pytest.mark.parametrize("has_tls", [False, True])
async def test_the_health_check(tmp_path: Path, *, has_tls: bool) -> None:
    write_certificates(tmp_path)
    config = http_config(tmp_path) if has_tls else BrokerConfig()
    reasons: list[str | None] = [None]
    http = HttpServer(
        asyncio.get_running_loop(), config, Metrics(), lambda: reasons[0], security=http_security(config)
    )
    port = http.bind("127.0.0.1", 0)
    http.start()
    try:
        assert await asyncio.to_thread(healthcheck, port) == (0, "")
        reasons[0] = "the broker is stopping"
        assert await asyncio.to_thread(healthcheck, port) == (1, "the broker is stopping\n")
    finally:
        http.close()
    code, told = await asyncio.to_thread(healthcheck, port)
    assert code == 1
    assert told.startswith(f"no broker answers on port {port}: ")
