"""The measured brokers: Barnabas, and Apache Kafka where Java and Maven are available, or from a launcher."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from bench import accounting
from tests.conformance.kafka_jars import KAFKA_VERSION, KafkaMissingError, classpath
from tests.support.apache_kafka import ApacheKafka
from tests.support.broker_process import BrokerProcess
from tests.support.ports import held_ports

STOP_LIMIT_S: Final = 60.0
STOCK_JVM: Final = (
    "-Xmx1G",
    "-Xms1G",
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-XX:MaxInlineLevel=15",
    "-Djava.awt.headless=true",
)
"""What kafka-server-start.sh and kafka-run-class.sh give a broker when nobody sets anything."""


class LaunchedBroker:
    """A broker that an external command runs in the foreground; `{dir}` and `{port}` in it are replaced."""

    def __init__(self, directory: Path, command: str) -> None:
        self.directory = self.data_dir = directory
        (self.port,) = held_ports(1)
        self._words = [
            word.replace("{dir}", str(directory)).replace("{port}", str(self.port))
            for word in shlex.split(command)
        ]
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def bootstrap(self) -> str:
        """host:port for a client's bootstrap.servers."""
        return f"127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        """The id of the running process."""
        assert self._process is not None
        assert self._process.poll() is None, f"the launcher ended: {self._process.args!r}"
        return self._process.pid

    def spawn(self) -> None:
        """Starts the process without waiting for it to be ready."""
        with (self.directory / "launcher.log").open("ab") as log:
            self._process = subprocess.Popen(
                self._words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )

    def stop(self) -> int:
        """SIGTERM, then waits; the exit status."""
        assert self._process is not None
        self._process.terminate()
        return self._process.wait(STOP_LIMIT_S)

    def kill(self) -> None:
        """Kills the process, if it still runs, with its children."""
        if self._process is not None and self._process.poll() is None:
            for pid in reversed(accounting.tree(self._process.pid)):
                os.kill(pid, signal.SIGKILL)
            self._process.wait()


Broker = BrokerProcess | ApacheKafka
Factory = Callable[[Path], Broker]
AnyBroker = Broker | LaunchedBroker
AnyFactory = Callable[[Path], AnyBroker]


def barnabas(directory: Path) -> BrokerProcess:
    """Barnabas with its defaults, the HTTP port included."""
    return BrokerProcess(directory / "data", {"barnabas.http.port": "0"})


def factories(*, with_kafka: bool) -> dict[str, Factory]:
    """A factory for each broker that can be started here; prints the reason when Apache Kafka cannot."""
    found: dict[str, Factory] = {"Barnabas": barnabas}
    if with_kafka:
        try:
            jars = classpath()
        except KafkaMissingError as error:
            print(f"Apache Kafka is not measured: {error}")
        else:
            found[f"Apache Kafka {KAFKA_VERSION}"] = lambda directory: ApacheKafka(directory, jars)
    return found


@contextmanager
def fresh(factory: Factory, root: Path | None = None) -> Iterator[Broker]:
    """A broker in a new directory in `root`, not yet started; killed and removed in the end."""
    with tempfile.TemporaryDirectory(prefix="bench-", dir=root) as directory:
        broker = factory(Path(directory))
        try:
            yield broker
        finally:
            broker.kill()


def rss_mib(broker: AnyBroker) -> float:
    """Resident memory of the broker with all its processes."""
    return accounting.rss_mib(broker.pid)


def cpu_s(broker: AnyBroker) -> float:
    """Processor time that the broker has used since its start, all processes."""
    return accounting.cpu_s(broker.pid)
