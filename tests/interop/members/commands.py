"""The commands that start programs with members; skips the test where a program cannot be built."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from tests.conformance.kafka_jars import WORKER, require_compiled

Command = Callable[[str], list[str]]
"""Returns the command line for a bootstrap server, host:port."""

HERE = Path(__file__).parents[1]
GO_BUILD_LIMIT_S = 600


@cache
def _java_classpath() -> str:
    return require_compiled(HERE / "java" / "Members.java")


@cache
def _go_program() -> Path:
    if shutil.which("go") is None:
        pytest.skip("there is no go")
    program = HERE.parents[1] / "build" / WORKER / "go-members"
    built = subprocess.run(
        ["go", "build", "-o", str(program), "./members"],
        cwd=HERE / "go",
        capture_output=True,
        text=True,
        timeout=GO_BUILD_LIMIT_S,
        check=False,
    )
    if built.returncode != 0:
        # Go is too old for the module, or its dependencies are not available.
        pytest.skip(f"go build: {built.stderr.strip().splitlines()[-1:]}")
    return program


def java(bootstrap: str) -> list[str]:
    """The program with Kafka's own clients."""
    flags = ["-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Dlog4j2.level=OFF"]
    return ["java", *flags, "-cp", _java_classpath(), "Members", bootstrap]


def go(bootstrap: str) -> list[str]:
    """The program with franz-go."""
    return [str(_go_program()), bootstrap]


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
