"""Kafka Connect's workers, standalone and distributed, with the connectors for files."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.kafka_jars import jars_directory, require_compiled, require_connect
from tests.support.ports import held_ports

SOURCE = Path(__file__).parent / "java" / "ConnectWorker.java"
LIMIT_S = 120.0
FLAGS = ["-Xmx384m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
STRINGS = {
    "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    "value.converter": "org.apache.kafka.connect.storage.StringConverter",
}
_LOGGING = """\
rootLogger.level=INFO
rootLogger.appenderRef.out.ref=out
appender.out.type=Console
appender.out.name=out
appender.out.layout.type=PatternLayout
appender.out.layout.pattern=[%d] %p [%t] %m (%c)%n
"""


class Worker:
    """One worker process with its `settings`; `connectors` makes it a standalone one."""

    def __init__(
        self,
        directory: Path,
        settings: Mapping[str, str],
        connectors: Mapping[str, Mapping[str, str]] | None = None,
    ) -> None:
        directory.mkdir(parents=True)
        self.log = directory / "worker.log"
        (self.port,) = held_ports(1)
        logging = directory / "log4j2.properties"
        logging.write_text(_LOGGING)
        files = [
            _write(
                directory / "worker.properties",
                {"listeners": f"http://127.0.0.1:{self.port}", **STRINGS, **settings},
            ),
            *(
                _write(directory / f"{name}.properties", {"name": name, **config})
                for name, config in (connectors or {}).items()
            ),
        ]
        program = "ConnectStandalone" if connectors is not None else "ConnectDistributed"
        with self.log.open("wb") as output:
            self._process = subprocess.Popen(
                [
                    "java",
                    *FLAGS,
                    f"-Dlog4j2.configurationFile=file:{logging}",
                    *("-cp", _classpath(), SOURCE.stem, f"org.apache.kafka.connect.cli.{program}"),
                    *map(str, files),
                ],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )

    def ask(self, path: str, method: str = "GET", body: object = None) -> Any:
        """Calls the REST interface. Raises urllib.error.HTTPError, and URLError before the worker listens."""
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}/{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=90) as answer:
            text = answer.read()
        return json.loads(text) if text else None

    def put(self, name: str, config: Mapping[str, str]) -> None:
        """Creates or changes the connector; retries while the worker is not ready."""
        self.wait(
            lambda: self.ask(f"connectors/{name}/config", "PUT", dict(config)) is not None,
            f"{name} is created",
        )

    def await_running(self, name: str, tasks: int = 1) -> None:
        """Waits until the connector has `tasks` running tasks, on live workers."""

        def running() -> bool:
            status = self.ask(f"connectors/{name}/status")
            assert not any(task["state"] == "FAILED" for task in status["tasks"]), status
            states = [task["state"] for task in status["tasks"]]
            return status["connector"]["state"] == "RUNNING" and states == ["RUNNING"] * tasks

        self.wait(running, f"{name} runs")

    def wait(self, condition: Callable[[], bool], what: str) -> None:
        """Waits for the condition; retries requests that the REST interface rejects or cannot answer yet."""
        deadline = time.monotonic() + LIMIT_S
        while True:
            assert self._process.poll() is None, self._tail()
            try:
                if condition():
                    return
            except (urllib.error.URLError, ConnectionError, TimeoutError):
                pass
            assert time.monotonic() < deadline, f"not within {LIMIT_S:g} s: {what}\n{self._tail()}"
            time.sleep(0.1)

    def stop(self) -> None:
        """Stops the worker cleanly; one that does not end writes its threads' stacks to its output."""
        self._process.send_signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(LIMIT_S)
            return
        self._process.send_signal(signal.SIGQUIT)
        time.sleep(1)
        pytest.fail(
            f"the worker has not ended within {LIMIT_S:g} s of SIGTERM\n{self._tail(40_000)}", pytrace=False
        )

    def ends_by_itself(self) -> bool:
        """Whether the worker gives up."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(LIMIT_S)
        return self._process.poll() not in (None, 0)

    def kill(self) -> None:
        """Kills the worker (kill -9) if it still runs."""
        self._process.kill()
        self._process.wait()

    def _tail(self, length: int = 4000) -> str:
        return self.log.read_text(errors="replace")[-length:]


def file_source(path: Path, topic: str) -> dict[str, str]:
    """Settings of a connector from a file's lines to a topic."""
    return {
        "connector.class": "org.apache.kafka.connect.file.FileStreamSourceConnector",
        "tasks.max": "1",
        "file": str(path),
        "topic": topic,
    }


def file_sink(path: Path, topic: str) -> dict[str, str]:
    """Settings of a connector from a topic to a file's lines."""
    return {
        "connector.class": "org.apache.kafka.connect.file.FileStreamSinkConnector",
        "tasks.max": "1",
        "file": str(path),
        "topics": topic,
        "consumer.override.isolation.level": "read_committed",
    }


def _classpath() -> str:
    """The jars of Connect and of log4j, which Connect expects from its installation."""
    jars = require_compiled(SOURCE, jars=require_connect())
    return os.pathsep.join([jars, *map(str, sorted(jars_directory().glob("log4j-*.jar")))])


def _write(path: Path, settings: Mapping[str, str]) -> Path:
    path.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    return path
