"""The cluster in containers, without a container engine, and the script that starts one without containers."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from barnabas.config.broker_config import BrokerConfig
from barnabas.config.catalogue import BROKER_KEYS
from barnabas.config.environment import NOT_CONFIGURATION, key_for
from tests.conformance.kafka_jars import require_classpath
from tests.interop.clients.confluent import ConfluentKafka
from tests.interop.workload import assert_same
from tests.support.broker_process import ROOT

COMPOSE: Final = (ROOT / "docker" / "cluster.compose.yaml").read_text(encoding="utf-8")
SCRIPT: Final = ROOT / "docker" / "cluster-local.sh"
PORTS: Final = 8
START_LIMIT_S: Final = 120
PROCESS: Final = re.compile(r"^node (\d+) at \S+, process (\d+):", re.MULTILINE)


def services() -> dict[str, str]:
    """The text of each service of the compose file (without a YAML parser: its lines are plain)."""
    (text,) = re.findall(r"^services:\n(.*?)^\w", COMPOSE, re.MULTILINE | re.DOTALL)
    parts = re.split(r"^ {2}([\w-]+):\n", text, flags=re.MULTILINE)[1:]
    return dict(zip(parts[::2], parts[1::2], strict=True))


def environment_of(service: str) -> dict[str, str]:
    found = re.findall(r"^ {6}((?:KAFKA_|CLUSTER_)\w+): (.+)$", services()[service], re.MULTILINE)
    return {name: value.strip('"') for name, value in found}


def nodes(role: str) -> list[str]:
    return [name for name in services() if environment_of(name).get("KAFKA_PROCESS_ROLES") == role]


def image_environment() -> dict[str, str]:
    """The variables that the image of Barnabas sets."""
    text = (ROOT / "docker" / "Dockerfile").read_text(encoding="utf-8")
    return dict(re.findall(r"\b(KAFKA_\w+)=(\S+)", text))


def test_three_controllers_and_three_brokers() -> None:
    assert len(nodes("controller")) == len(nodes("broker")) == 3
    images = [re.findall(r"^ {4}image: (\S+)$", services()[name], re.MULTILINE) for name in nodes("broker")]
    assert sorted(images) == [["apache/kafka:4.3.1"], ["barnabas"], ["barnabas"]]


@pytest.mark.parametrize("name", [*nodes("controller"), *nodes("broker")])
def test_the_variables_are_keys(name: str) -> None:
    variables = {each for each in environment_of(name) if each.startswith("KAFKA_")} - NOT_CONFIGURATION
    assert [each for each in variables if key_for(each) not in BROKER_KEYS] == []


@pytest.mark.parametrize("name", nodes("broker"))
def test_a_broker_is_a_member_whoever_runs_it(name: str) -> None:
    config = BrokerConfig.of(None, environ={**image_environment(), **environment_of(name)})
    assert config.is_member
    assert config.inter_broker_listener == "DOCKER"
    assert config.log_dirs == ("/var/lib/kafka/data",)
    assert config.warnings == []
    if "image: barnabas\n" in services()[name]:
        assert config.profile == "kafka"
        assert config.value_of("offsets.topic.replication.factor") == 3


def test_the_nodes_agree_and_are_told_apart() -> None:
    everyone = [*nodes("controller"), *nodes("broker")]
    environments = [environment_of(name) for name in everyone]
    assert len({each["KAFKA_CONTROLLER_QUORUM_VOTERS"] for each in environments}) == 1
    assert len({each["KAFKA_MIN_INSYNC_REPLICAS"] for each in environments}) == 1
    assert len({each["KAFKA_NODE_ID"] for each in environments}) == len(everyone)
    voters = [f"{environment_of(name)['KAFKA_NODE_ID']}@{name}:9093" for name in nodes("controller")]
    assert environments[0]["KAFKA_CONTROLLER_QUORUM_VOTERS"] == ",".join(voters)
    assert {each["CLUSTER_ID"] for each in environments if "CLUSTER_ID" in each} == {"4L6g3nShT-eMCtK--X86sw"}
    for name in everyone:
        assert f"- {name}-data:/var/lib/kafka/data\n" in services()[name]
        assert re.search(rf"^ {{2}}{name}-data:$", COMPOSE, re.MULTILINE)


def test_clients_are_sent_to_the_published_ports() -> None:
    published = re.findall(r'"127\.0\.0\.1:(\d+):(\d+)"', COMPOSE)
    assert len({port for port, _ in published}) == len(published)
    for name in nodes("broker"):
        (port,) = re.findall(r'"127\.0\.0\.1:(\d+):9092"', services()[name])
        addresses = f"DOCKER://{name}:19092,HOST://localhost:{port}"
        assert environment_of(name)["KAFKA_ADVERTISED_LISTENERS"] == addresses


def test_the_script_explains_itself() -> None:
    subprocess.run(["bash", "-n", str(SCRIPT)], check=True)
    explained = subprocess.run([str(SCRIPT), "--help"], capture_output=True, text=True, check=True).stdout
    assert "--directory DIR" in explained
    wrong = subprocess.run([str(SCRIPT), "--nope", "x"], capture_output=True, text=True, check=False)
    assert (wrong.returncode, wrong.stdout) == (2, "")


def first_of_free_ports() -> int:
    """The first of as many ports as the script takes, all free at the moment, in the range of no client."""
    for base in range(21_000 + os.getpid() % 1_000 * 8, 32_000, PORTS):
        sockets = [socket.socket() for _ in range(PORTS)]
        try:
            for number, each in enumerate(sockets, base):
                each.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                each.bind(("127.0.0.1", number))
        except OSError:
            continue
        else:
            return base
        finally:
            for each in sockets:
                each.close()
    raise AssertionError("no eight ports in a row are free")


def is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.conformance
@pytest.mark.clients
def test_the_script_starts_a_cluster_and_leaves_no_process(tmp_path: Path) -> None:
    require_classpath()
    with (tmp_path / "errors").open("wb") as errors:
        script = subprocess.Popen(
            [str(SCRIPT), "--port", str(first_of_free_ports()), "--directory", str(tmp_path / "cluster")],
            env={**os.environ, "PYTHON": sys.executable},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            # A shell cannot trap what is ignored when it starts, as it is in what another shell runs in the background.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # noqa: PLW1509
        )
    assert script.stdout is not None
    try:
        output = ""
        for line in script.stdout:
            output += line
            if line.startswith("bootstrap.servers="):
                break
        else:
            pytest.fail(output + (tmp_path / "errors").read_text())
        processes = {int(node): int(process) for node, process in PROCESS.findall(output)}
        assert sorted(processes) == [1, 2, 3, 101, 102, 103]
        bootstrap = output.rpartition("bootstrap.servers=")[2].strip()
        client = ConfluentKafka()
        produced = client.produce(bootstrap, "everywhere", client.workload(100, 1), "lz4")
        assert_same(produced, client.consume(bootstrap, "everywhere", 1, 100))
        for node in (1, 2, 3):
            assert (tmp_path / "cluster" / f"node-{node}" / "data" / "everywhere-0").is_dir()
        script.send_signal(signal.SIGINT)
        assert script.wait(START_LIMIT_S) == 0
        assert [process for process in processes.values() if is_running(process)] == []
        for node in (1, 2, 3):
            assert (tmp_path / "cluster" / f"node-{node}" / "data" / ".kafka_cleanshutdown").exists()
    finally:
        script.terminate()
        script.wait(START_LIMIT_S)
        script.stdout.close()
