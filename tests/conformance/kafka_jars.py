"""Apache Kafka's own jars, which Maven copies into build/, for every test that compares Barnabas with Kafka itself.

    classpath = require_classpath()   # in a test: skips with the reason where there is no Java or no Maven
    classpath = require_classpath(KAFKA_39)
    jar = require_jar("kafka-clients")

With BARNABAS_REQUIRE_CONFORMANCE=1 in the environment a missing Java or Maven is a failure instead of a skip.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from typing import NoReturn

import pytest

from barnabas.pipeline.jars import pom_of
from tests.support.apache_kafka import archive_classes

KAFKA_VERSION = "4.3.1"
KAFKA_41 = "4.1.1"
KAFKA_39 = "3.9.1"
KAFKA_28 = "2.8.2"
LOG4J_VERSION = "2.25.3"
BUILD = Path(__file__).parents[2] / "build"
MAVEN_LIMIT_S = 900

# slf4j 1.7 bound to log4j 2; Kafka 3 brings its own binding, to log4j 1.
_LOG4J_2 = (
    f"org.apache.logging.log4j:log4j-slf4j-impl:{LOG4J_VERSION}",
    f"org.apache.logging.log4j:log4j-core:{LOG4J_VERSION}",
    f"org.apache.logging.log4j:log4j-1.2-api:{LOG4J_VERSION}",
)

_BESIDE_THE_BROKER = {
    f"clients-{KAFKA_28}": (f"org.apache.kafka:kafka-clients:{KAFKA_28}",),
    "shell": (f"org.apache.kafka:kafka-shell:{KAFKA_VERSION}",),
    "streams": (f"org.apache.kafka:kafka-streams:{KAFKA_VERSION}", *_LOG4J_2),
    "connect": tuple(
        f"org.apache.kafka:connect-{part}:{KAFKA_VERSION}" for part in ("runtime", "file", "json")
    ),
}
"""More parts of Kafka for some tests, each in a folder of its own."""

_SUITES = (
    *(f"org.apache.kafka:{part}:{KAFKA_VERSION}" for part in ("kafka_2.13", "kafka-tools")),
    *(
        f"org.apache.kafka:kafka-test-common-{part}:{KAFKA_VERSION}"
        for part in ("runtime", "internal-api", "util")
    ),
    *(
        f"org.apache.kafka:{part}:{KAFKA_VERSION}:test"
        for part in (
            *(
                "kafka_2.13",
                "kafka-clients",
                "kafka-clients-integration-tests",
                "kafka-metadata",
                "kafka-server",
            ),
            *("kafka-server-common", "kafka-tools"),
        )
    ),
    f"org.apache.logging.log4j:log4j-core:{LOG4J_VERSION}",
    "org.bouncycastle:bcpkix-jdk18on:1.78.1",
    *(
        f"org.apache.directory.server:apacheds-{part}:2.0.0-M24"
        for part in (
            *(
                "core",
                "core-api",
                "interceptor-kerberos",
                "jdbm-partition",
                "ldif-partition",
                "mavibot-partition",
            ),
            *("protocol-kerberos", "protocol-ldap", "protocol-shared"),
        )
    ),
)
"""Kafka's own tests, JUnit, and what they make certificates and Kerberos with."""
_BESIDE_THE_BROKER["suites"] = _SUITES

WORKER = os.environ.get("PYTEST_XDIST_WORKER", "alone")
"""The pytest worker, which has a folder of its own for compiled classes: others may be running theirs."""


class KafkaMissingError(Exception):
    """Apache Kafka or Java is not available; the message says what is missing."""


def artifacts(version: str) -> tuple[str, ...]:
    """Maven's names of the broker of one version, its tools and its logging library."""
    kafka = (f"org.apache.kafka:kafka_2.13:{version}", f"org.apache.kafka:kafka-tools:{version}")
    return kafka if version.startswith("3.") else kafka + _LOG4J_2


def jars_directory(version: str = KAFKA_VERSION) -> Path:
    """The folder with Kafka's jars; Maven fills it the first time. Raises KafkaMissingError when that fails."""
    directory = BUILD / f"apache-kafka-{version}"
    if not directory.is_dir():
        _install(directory, artifacts(version))
    return directory


def classpath(version: str = KAFKA_VERSION) -> str:
    """All jars as a class path. Raises KafkaMissingError."""
    _need("java", "a Java 17 runtime")
    return os.pathsep.join(str(jar) for jar in sorted(jars_directory(version).glob("*.jar")))


@cache
def require_classpath(version: str = KAFKA_VERSION) -> str:
    """The class path. Without one, skips the test, or fails it where conformance is required."""
    try:
        return classpath(version)
    except KafkaMissingError as error:
        _skip_or_fail(str(error))


def require_shell() -> str:
    """The class path of Kafka's metadata shell, which the broker's jars lack; skips or fails the test without it."""
    return require_beside("shell")


def require_streams() -> str:
    """The class path of Kafka Streams with its clients; skips or fails the test without it."""
    return require_beside("streams")


def require_clients(version: str) -> str:
    """The class path of the Java clients of one version; skips or fails the test without it."""
    return require_beside(f"clients-{version}") if version == KAFKA_28 else require_classpath(version)


def require_suites() -> str:
    """The class path of Kafka's own tests with all they need; skips or fails the test without it."""
    jars = require_beside("suites").split(os.pathsep)
    return os.pathsep.join(jar for jar in jars if "bcprov-jdk15on" not in jar)  # an older one of another name


def require_connect() -> str:
    """The class path of Kafka Connect with the connectors for files; skips or fails the test without it."""
    return require_beside("connect")


@cache
def require_beside(what: str) -> str:
    """The class path of a part of Kafka that the broker's jars lack; skips or fails the test without it."""
    try:
        _need("java", "a Java 17 runtime")
        directory = _beside_the_broker(what)
    except KafkaMissingError as error:
        _skip_or_fail(str(error))
    return os.pathsep.join(str(jar) for jar in sorted(directory.glob("*.jar")))


def _beside_the_broker(what: str) -> Path:
    directory = BUILD / f"apache-kafka-{what if what[-1].isdigit() else f'{what}-{KAFKA_VERSION}'}"
    if not directory.is_dir():
        _install(directory, _BESIDE_THE_BROKER[what])
    return directory


def bring_all() -> None:
    """Has Maven fill every folder, before parallel tests need them. Raises KafkaMissingError."""
    for version in (KAFKA_VERSION, KAFKA_41, KAFKA_39):
        jars_directory(version)
    for what in _BESIDE_THE_BROKER:
        _beside_the_broker(what)


@cache
def require_jar(artifact: str) -> Path:
    """The jar of one of Kafka's modules; skips or fails the test without it."""
    require_classpath()
    return jars_directory() / f"{artifact}-{KAFKA_VERSION}.jar"


@cache
def require_compiled(source: Path, version: str = KAFKA_VERSION, jars: str | None = None) -> str:
    """Compiles a Java source file; the class path has its classes before Kafka's. Skips or fails the test without Java.

    Classes of the same folder that it uses are compiled too. `jars`: a class path to use in place of the broker's.
    """
    return require_all_compiled((source,), source.parent, version, jars)


@cache
def require_all_compiled(
    sources: tuple[Path, ...], root: Path, version: str = KAFKA_VERSION, jars: str | None = None
) -> str:
    """Compiles Java source files, and what they use of the packages in the folder `root`."""
    jars = jars or require_classpath(version)
    try:
        _need("javac", "a Java 17 compiler")
    except KafkaMissingError as error:
        _skip_or_fail(str(error))
    target = BUILD / "conformance" / WORKER / version / sources[0].stem
    target.mkdir(parents=True, exist_ok=True)
    beside = ["-sourcepath", str(root)]
    _run(["javac", "-nowarn", "-cp", jars, *beside, "-d", str(target), *map(str, sources)])
    return f"{target}{os.pathsep}{jars}"


def _skip_or_fail(reason: str) -> NoReturn:
    if os.environ.get("BARNABAS_REQUIRE_CONFORMANCE") == "1":
        pytest.fail(f"conformance with Apache Kafka is required here: {reason}")
    pytest.skip(f"no Apache Kafka to compare with: {reason}")


def _need(program: str, what: str) -> None:
    if shutil.which(program) is None:
        raise KafkaMissingError(f"{what} is needed, and there is no {program} on the path")


def _install(directory: Path, wanted: tuple[str, ...]) -> None:
    """Has Maven copy the jars to a temporary folder, and moves them to their place in one step."""
    _need("java", "a Java 17 runtime")
    _need("mvn", "Maven")
    BUILD.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=BUILD, prefix="jars-") as temporary:
        pom, jars = Path(temporary) / "pom.xml", Path(temporary) / "jars"
        pom.write_text(pom_of(wanted))
        goal = "dependency:copy-dependencies"
        _run(["mvn", "-B", "-q", "-f", str(pom), "-DincludeScope=runtime", f"-DoutputDirectory={jars}", goal])
        try:
            jars.rename(directory)
        except OSError:
            if not directory.is_dir():  # otherwise another run was first
                raise


def _run(command: list[str]) -> None:
    ran = subprocess.run(command, capture_output=True, text=True, timeout=MAVEN_LIMIT_S, check=False)
    if ran.returncode != 0:
        tail = "\n".join((ran.stdout + ran.stderr).strip().splitlines()[-5:])
        raise KafkaMissingError(f"{command[0]} failed:\n{tail}")


def archive_all() -> None:
    """Archives the classes of every version, so that its brokers start quickly; an archive that fails is skipped."""
    for version in (KAFKA_VERSION, KAFKA_41, KAFKA_39):
        try:
            archive_classes(classpath(version))
        except (AssertionError, OSError, subprocess.SubprocessError) as error:
            print(f"no archive of the classes of Kafka {version}: {str(error)[-500:]}")


if __name__ == "__main__":
    try:
        bring_all()
        archive_all()
    except KafkaMissingError as error:
        # Each test reports it again, and is skipped or fails.
        print(f"no Apache Kafka to compare with: {error}")
