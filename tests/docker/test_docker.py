"""Tests the container files without a container engine."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from barnabas.broker.http.hosts import rejection
from barnabas.broker.metrics.families import FAMILIES, Kind
from barnabas.config.broker_config import BrokerConfig
from barnabas.config.catalogue import BROKER_KEYS
from barnabas.config.environment import key_for
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
