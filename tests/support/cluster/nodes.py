"""One node of a cluster: its files, its process, and how a process of each implementation is started."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from tests.support.apache_kafka import archived_classes, logging_flag
from tests.support.cluster.names import write_hosts
from tests.support.cluster.settings import write_properties

ROOT: Final = Path(__file__).parents[3]
STOP_LIMIT_S: Final = 60.0
TAIL_BYTES: Final = 4000
JVM_FLAGS: Final = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Djava.awt.headless=true")
CONTROLLER_HEAP: Final = "-Xmx256m"
BROKER_HEAP: Final = "-Xmx320m"


class JvmSettings(NamedTuple):
    """How the JVMs of a cluster are started."""

    broker: Sequence[str]
    """The flags of a broker, its heap included."""
    controller: Sequence[str]
    niceness: int = 0
    has_archive: bool = False
    """Whether they load the archive of classes that `archive_classes` makes, where there is one."""


TEST_JVM: Final = JvmSettings(
    (BROKER_HEAP, *JVM_FLAGS), (CONTROLLER_HEAP, *JVM_FLAGS), niceness=10, has_archive=True
)
"""Small, and quick to start; with less priority than the tests."""


class Implementation(StrEnum):
    """Who runs a node; the values are the letters of a layout."""

    JVM = "j"
    BARNABAS = "b"


class NodeFiles:
    """The directory of a node: what it is started from, its logs and its log directories."""

    def __init__(self, directory: Path, log_dirs: int = 1) -> None:
        self.directory = directory
        self.properties = directory / "server.properties"
        self.hosts = directory / "hosts"
        self.console = directory / "console.log"
        self.server_log = directory / "server.log"
        self.log_dirs = [directory / f"data-{number}" for number in range(log_dirs)]

    def write(self, settings: Mapping[str, str], hosts: Mapping[str, str]) -> None:
        """Writes the configuration."""
        for each in self.log_dirs:
            each.mkdir(parents=True, exist_ok=True)
        write_properties(self.properties, settings)
        write_hosts(self.hosts, dict(hosts))

    def has_logged(self, pattern: str) -> bool:
        """Whether a line of the logs matches."""
        found = (
            path.read_text(errors="replace") for path in (self.console, self.server_log) if path.exists()
        )
        return any(re.search(pattern, text) for text in found)

    def forget_logs(self) -> None:
        """Moves the logs aside: what is looked for has to come from now on."""
        for path in (self.console, self.server_log):
            if path.exists():
                path.rename(path.with_suffix(f".{time.monotonic_ns()}.old"))

    def tail(self) -> str:
        """The ends of the node's logs."""
        parts = []
        for path in (self.console, self.server_log):
            if path.exists():
                with path.open("rb") as file:
                    file.seek(max(0, path.stat().st_size - TAIL_BYTES))
                    parts.append(f"{path}:\n{file.read().decode(errors='replace')}")
        return "\n".join(parts)


class Launcher(Protocol):
    """Knows the command line of a node."""

    def command(self, files: NodeFiles, *, is_controller: bool) -> Sequence[str]:
        """The command that serves with these files."""


class JvmLauncher:
    """Starts Apache Kafka. With `resolves_names` a JVM resolves names by the node's table, and by no other."""

    def __init__(
        self, classpath: str, settings: JvmSettings = TEST_JVM, *, resolves_names: bool = True
    ) -> None:
        self._classpath = classpath
        self._settings = settings
        self._resolves_names = resolves_names

    def command(self, files: NodeFiles, *, is_controller: bool) -> Sequence[str]:
        """The command of kafka.Kafka."""
        return [*self.java(files, is_controller=is_controller), "kafka.Kafka", str(files.properties)]

    def java(self, files: NodeFiles, *, is_controller: bool) -> list[str]:
        """A JVM that logs to the node's file."""
        settings = self._settings
        logging = logging_flag(self._classpath, files.directory / "log4j.properties", files.server_log)
        return [
            *(["nice", "-n", str(settings.niceness)] if settings.niceness else []),
            "java",
            *(settings.controller if is_controller else settings.broker),
            *(archived_classes(self._classpath) if settings.has_archive else []),
            *([f"-Djdk.net.hosts.file={files.hosts}"] if self._resolves_names else []),
            logging,
            "-cp",
            self._classpath,
        ]


class BarnabasLauncher:
    """Starts Barnabas as this checkout has it; with `resolves_names` it resolves names by the node's table."""

    def __init__(self, *, resolves_names: bool = True) -> None:
        self._resolves_names = resolves_names

    def command(self, files: NodeFiles, *, is_controller: bool) -> Sequence[str]:
        """The command of `barnabas serve`."""
        named = ["tests.support.cluster.named_barnabas", str(files.hosts)]
        module = named if self._resolves_names else ["barnabas.cli"]
        return [sys.executable, "-m", *module, "serve", str(files.properties)]


class ClusterNode:
    """A node, at most one process at a time. A test may change `implementation` while it is stopped."""

    def __init__(
        self,
        node_id: int,
        implementation: Implementation,
        files: NodeFiles,
        launchers: Mapping[Implementation, Launcher],
        *,
        is_controller: bool = False,
    ) -> None:
        self.id = node_id
        self.implementation = implementation
        self.files = files
        self.is_controller = is_controller
        self.is_paused = False
        self._launchers = launchers
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def is_running(self) -> bool:
        """Whether there is a process, frozen or not."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """The id of the running process."""
        assert self._process is not None, f"node {self.id} was never started"
        assert self._process.poll() is None, (
            f"node {self.id} ended with {self._process.returncode}:\n{self.tail()}"
        )
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        """The exit status of the last process; None while it runs."""
        return None if self._process is None else self._process.poll()

    def spawn(self) -> None:
        """Starts the process, in a session of its own (see BrokerProcess.spawn), and waits for nothing."""
        assert not self.is_running, f"node {self.id} is running"
        launcher = self._launchers[self.implementation]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("KAFKA_")}
        with self.files.console.open("ab") as console:
            self._process = subprocess.Popen(
                launcher.command(self.files, is_controller=self.is_controller),
                cwd=ROOT,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=console,
                stderr=console,
                start_new_session=True,
            )

    def terminate(self) -> None:
        """Asks the process to stop (SIGTERM)."""
        os.kill(self.pid, signal.SIGTERM)

    def stop(self, limit_s: float = STOP_LIMIT_S) -> int:
        """Asks the process to stop and waits; returns its exit status. Raises subprocess.TimeoutExpired."""
        self.terminate()
        assert self._process is not None
        return self._process.wait(limit_s)

    def kill(self) -> None:
        """Kills the process (kill -9) if there is one."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self.is_paused = False

    def pause(self) -> None:
        """Freezes the process (SIGSTOP): its connections stay open and nothing is answered."""
        os.kill(self.pid, signal.SIGSTOP)
        self.is_paused = True

    def resume(self) -> None:
        """Lets a frozen process go on."""
        if self.is_paused:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGCONT)
        self.is_paused = False

    def tail(self) -> str:
        """The ends of its logs."""
        return self.files.tail()

    def __repr__(self) -> str:
        return f"node {self.id} ({self.implementation.name})"
