"""A real Apache Kafka broker of one node (KRaft, loopback only), for tests that compare Barnabas with it."""

from __future__ import annotations

import base64
import os
import re
import signal
import subprocess
import tempfile
import time
import zlib
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import ClassVar

from tests.support.broker_process import rss_bytes
from tests.support.ports import held_ports
from tests.support.raw import RawConnection, brokers_in, metadata_request

START_LIMIT_S = 90.0
STOP_LIMIT_S = 60.0
JVM = ("-Xmx512m", "-Xms512m", "-XX:+UseG1GC", "-Djava.awt.headless=true")
"""The default flags of tests; benchmarks use those of Kafka's own start script."""

QUICK_JVM = ("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Djava.awt.headless=true")
"""The flags for many short-lived brokers with few requests each; see `archive_classes`."""

_LOG4J_1 = """\
log4j.rootLogger=INFO, out
log4j.appender.out=org.apache.log4j.FileAppender
log4j.appender.out.File={file}
log4j.appender.out.layout=org.apache.log4j.PatternLayout
log4j.appender.out.layout.ConversionPattern=[%d] %p %m (%c)%n
"""
_LOG4J_2 = """\
rootLogger.level=INFO
rootLogger.appenderRef.out.ref=out
appender.out.type=File
appender.out.name=out
appender.out.fileName={file}
appender.out.layout.type=PatternLayout
appender.out.layout.pattern=[%d] %p %m (%c)%n
"""


def logging_flag(classpath: str, properties: Path, log: Path) -> str:
    """The flag by which a JVM logs to a file; writes `properties`, which say so to the version of log4j in its jars."""
    is_2 = "log4j-core" in classpath
    properties.write_text((_LOG4J_2 if is_2 else _LOG4J_1).format(file=log))
    return f"-Dlog4j{'2.configurationFile' if is_2 else '.configuration'}=file:{properties}"


def release_of(classpath: str) -> tuple[int, int]:
    """The release of Apache Kafka whose jars these are, as its first two numbers; (0, 0) where none are."""
    found = re.search(r"kafka_2\.13-(\d+)\.(\d+)", classpath)
    return (0, 0) if found is None else (int(found[1]), int(found[2]))


class ApacheKafka:
    """One broker and controller in one JVM; the same methods as `BrokerProcess`.

    `classpath` must hold kafka_2.13 with all it needs and kafka-tools, and log4j 2 for Kafka 4. A new
    directory is formatted with the newest metadata version of that Kafka.
    """

    # A JVM's exit status names the signal that ended it.
    clean_status = 128 + signal.SIGTERM
    usual_jvm: ClassVar[Sequence[str]] = JVM
    """The flags where the constructor gets none."""

    def __init__(
        self,
        directory: Path,
        classpath: str,
        overrides: Mapping[str, str] | None = None,
        jvm: Sequence[str] | None = None,
    ) -> None:
        self.directory = directory
        self.data_dir = directory / "data"
        self.port, self.controller_port = held_ports(2)
        self.overrides = dict(overrides or {})
        self._classpath = classpath
        self._jvm = self.usual_jvm if jvm is None else jvm
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def bootstrap(self) -> str:
        """host:port for a client's bootstrap.servers."""
        return f"127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        """The id of the running process."""
        assert self._process is not None
        assert self._process.poll() is None, self._log_tail()
        return self._process.pid

    def start(self) -> ApacheKafka:
        """Prepares the directory, starts the broker and waits until Metadata names it."""
        self.prepare()
        self.spawn()
        deadline = time.monotonic() + START_LIMIT_S
        while not answers_metadata(self.bootstrap):
            assert self.pid
            assert time.monotonic() < deadline, self._log_tail()
            time.sleep(0.02)
        return self

    def prepare(self) -> None:
        """Writes the configuration, and formats the directory when it is new."""
        self._write_configuration()
        if not (self.data_dir / "meta.properties").exists():
            self._format()

    def spawn(self) -> None:
        """Starts the process, in a session of its own (see BrokerProcess.spawn), without waiting for it to be ready."""
        with (self.directory / "console.log").open("ab") as console:
            self._process = subprocess.Popen(
                [*self._java(*self._jvm), "kafka.Kafka", str(self._properties)],
                stdin=subprocess.DEVNULL,
                stdout=console,
                stderr=console,
                start_new_session=True,
            )

    def stop(self) -> int:
        """Sends SIGTERM and waits; returns the exit status."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        return self._process.wait(STOP_LIMIT_S)

    def kill(self) -> None:
        """Kills the process (kill -9) if it still runs."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def rss_bytes(self) -> int:
        """Resident memory of the process now."""
        return rss_bytes(self.pid)

    @property
    def _properties(self) -> Path:
        return self.directory / "server.properties"

    def _java(self, *flags: str) -> list[str]:
        logging = logging_flag(
            self._classpath, self.directory / "log4j.properties", self.directory / "server.log"
        )
        archived = archived_classes(self._classpath) if self._jvm is QUICK_JVM else ()
        return ["java", *flags, *archived, logging, "-cp", self._classpath]

    def _write_configuration(self) -> None:
        self.data_dir.mkdir(parents=True, exist_ok=True)
        settings = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@127.0.0.1:{self.controller_port}",
            "listeners": f"PLAINTEXT://{self.bootstrap},CONTROLLER://127.0.0.1:{self.controller_port}",
            "advertised.listeners": f"PLAINTEXT://{self.bootstrap}",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": str(self.data_dir),
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
            **self.overrides,
        }
        self._properties.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))

    def _format(self) -> None:
        cluster_id = base64.urlsafe_b64encode(b"\x01" + os.urandom(15)).rstrip(b"=").decode()
        words = ["format", "-t", cluster_id, "-c", str(self._properties)]
        subprocess.run(
            [*self._java("-Xmx256m"), "kafka.tools.StorageTool", *words],
            check=True,
            capture_output=True,
            timeout=START_LIMIT_S,
        )

    def _log_tail(self) -> str:
        texts = [path.read_text(errors="replace")[-2000:] for path in sorted(self.directory.glob("*.log"))]
        return "Apache Kafka does not run:\n" + "\n".join(texts)

    def __enter__(self) -> ApacheKafka:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()


def archive_classes(classpath: str) -> None:
    """Starts and stops a broker to archive its classes as loaded and verified.

    With such an archive beside the jars a start takes a third of the time; a JVM that cannot use it ignores it.
    """
    archive = _archive_of(classpath)
    if archive.exists():
        return
    with tempfile.TemporaryDirectory(dir=archive.parent.parent, prefix="classes-") as place:
        archived = Path(place) / archive.name
        with ApacheKafka(
            Path(place), classpath, jvm=(*QUICK_JVM, f"-XX:ArchiveClassesAtExit={archived}")
        ) as kafka:
            kafka.stop()
        archived.rename(archive)


def archived_classes(classpath: str) -> list[str]:
    archive = _archive_of(classpath)
    return [f"-XX:SharedArchiveFile={archive}", "-Xlog:disable"] if archive.exists() else []


def _archive_of(classpath: str) -> Path:
    return Path(classpath.split(os.pathsep, 1)[0]).parent / f"classes-{_which_java()}.jsa"


@cache
def _which_java() -> str:
    version = subprocess.run(["java", "-version"], capture_output=True, check=True).stderr
    return f"{zlib.crc32(version):08x}"


def answers_metadata(bootstrap: str) -> bool:
    """True once a Metadata request is answered with at least one broker."""
    try:
        with RawConnection(bootstrap, timeout_s=2) as connection:
            connection.send(metadata_request())
            return brokers_in(connection.read_frame()) > 0
    except (OSError, EOFError):
        return False
