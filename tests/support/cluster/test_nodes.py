from __future__ import annotations

import signal
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.support.cluster.nodes import (
    BarnabasLauncher,
    ClusterNode,
    Implementation,
    JvmLauncher,
    JvmSettings,
    NodeFiles,
)
from tests.support.cluster.waiting import wait_for

PROGRAM = """
import signal, sys
signal.signal(signal.SIGTERM, lambda *_: sys.exit(3))
print("node of", sys.argv[1], flush=True)
while True:
    signal.pause()
"""


class Waiting:
    """Starts a program that does nothing, under the name of an implementation."""

    def __init__(self, name: str) -> None:
        self._name = name

    def command(self, files: NodeFiles, *, is_controller: bool) -> Sequence[str]:
        assert files.properties.exists()
        return [sys.executable, "-c", PROGRAM, self._name]


@pytest.fixture
def node(tmp_path: Path) -> Iterator[ClusterNode]:
    files = NodeFiles(tmp_path)
    files.write({"node.id": "1"}, {"n1.test": "127.0.0.1"})
    launchers = {Implementation.JVM: Waiting("java"), Implementation.BARNABAS: Waiting("python")}
    node = ClusterNode(1, Implementation.JVM, files, launchers)
    yield node
    node.kill()


def words_before_the_logging(command: Sequence[str]) -> list[str]:
    return list(command[: next(n for n, word in enumerate(command) if word.startswith("-Dlog4j"))])


def test_a_jvm_of_a_test_is_small_and_resolves_names_by_the_table_of_its_node(tmp_path: Path) -> None:
    launcher = JvmLauncher("no.jar", JvmSettings(["-Xmx3m"], ["-Xmx2m"], niceness=10))
    table = f"-Djdk.net.hosts.file={tmp_path}/hosts"
    for is_controller, heap in ((True, "-Xmx2m"), (False, "-Xmx3m")):
        command = launcher.command(NodeFiles(tmp_path), is_controller=is_controller)
        assert words_before_the_logging(command) == ["nice", "-n", "10", "java", heap, table]
        assert command[-2:] == ["kafka.Kafka", f"{tmp_path}/server.properties"]


def test_a_process_of_a_direct_cluster_is_started_as_an_operator_would(tmp_path: Path) -> None:
    files, jvm = NodeFiles(tmp_path), JvmSettings(["-Xmx1G"], [])
    command = JvmLauncher("no.jar", jvm, resolves_names=False).command(files, is_controller=False)
    assert words_before_the_logging(command) == ["java", "-Xmx1G"]
    command = BarnabasLauncher(resolves_names=False).command(files, is_controller=False)
    assert command[1:] == ["-m", "barnabas.cli", "serve", f"{tmp_path}/server.properties"]
    command = BarnabasLauncher().command(files, is_controller=False)
    assert command[3:] == [f"{tmp_path}/hosts", "serve", f"{tmp_path}/server.properties"]


def start(node: ClusterNode, by: str) -> None:
    node.files.forget_logs()
    node.spawn()
    wait_for("it has started", lambda: node.files.has_logged(f"^node of {by}$"))


def state_of(node: ClusterNode) -> str:
    """The state of the process as Linux reports it: T is stopped."""
    return Path(f"/proc/{node.pid}/stat").read_text().rpartition(")")[2].split()[0]


def test_a_node_is_stopped_and_killed(node: ClusterNode) -> None:
    states = [node.is_running]
    start(node, "java")
    states.append(node.is_running)
    assert node.stop() == 3
    states.append(node.is_running)
    assert states == [False, True, False]
    start(node, "java")
    node.kill()
    assert node.returncode == -signal.SIGKILL


@pytest.mark.skipif(sys.platform != "linux", reason="the state of a process is read from /proc")
def test_a_node_is_frozen_and_goes_on(node: ClusterNode) -> None:
    start(node, "java")
    node.pause()
    wait_for("it is frozen", lambda: state_of(node) == "T")
    assert node.is_paused
    node.resume()
    wait_for("it goes on", lambda: state_of(node) != "T")
    node.pause()
    node.kill()
    assert not node.is_paused


def test_another_implementation_takes_the_place_on_the_same_files(node: ClusterNode) -> None:
    start(node, "java")
    node.stop()
    node.implementation = Implementation.BARNABAS
    start(node, "python")


def test_a_node_that_ended_shows_its_logs(node: ClusterNode) -> None:
    start(node, "java")
    node.stop()
    with pytest.raises(AssertionError, match=r"ended with 3:\n.*\nnode of java"):
        assert node.pid
