"""The commands that start programs with members; skips the test where a program cannot be built."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

from tests.conformance.kafka_jars import require_compiled
from tests.interop.clients.go import build_go

Command = Callable[[str], list[str]]
"""Returns the command line for a bootstrap server, host:port."""

HERE = Path(__file__).parents[1]


@cache
def _java_classpath() -> str:
    return require_compiled(HERE / "java" / "Members.java")


def java(bootstrap: str) -> list[str]:
    """The program with Kafka's own clients."""
    flags = ["-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Dlog4j2.level=OFF"]
    return ["java", *flags, "-cp", _java_classpath(), "Members", bootstrap]


def go(bootstrap: str) -> list[str]:
    """The program with franz-go."""
    return [str(build_go("members")), bootstrap]


def python(module: str) -> Command:
    """One of the programs in Python."""
    return lambda bootstrap: [
        sys.executable,
        "-W",
        "ignore",
        "-m",
        f"tests.interop.members.{module}",
        bootstrap,
    ]


CONFLUENT, AIO, KAFKA_PYTHON = python("confluent"), python("aio"), python("kafka_python")
