"""The perf tools of Apache Kafka, with their own defaults. The start of their JVM does not count."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Generator
from typing import Final

from bench.side_by_side.job import Job, Outcome

_LIMIT_S: Final = 120
_JVM: Final = ("-Xmx512M", "-XX:+UseG1GC", "-XX:MaxInlineLevel=15", "-Djava.awt.headless=true")
_SENT: Final = re.compile(r"^(\d+) records sent, ([\d.]+) records/sec", re.MULTILINE)


def produce(job: Job) -> Generator[None, None, Outcome]:
    """ProducerPerformance, as fast as it can."""
    jars = _jars()
    yield
    said = _run(
        jars,
        "org.apache.kafka.tools.ProducerPerformance",
        *("--topic", job.topic, "--num-records", str(job.count), "--record-size", str(job.size)),
        *("--throughput", "-1", "--producer-props", f"bootstrap.servers={job.bootstrap}", f"acks={job.acks}"),
    )
    sent, rate = parse_produced(said)
    return Outcome(done=sent, missing=job.count - sent, seconds=sent / rate, bytes=sent * job.size)


def parse_produced(said: str) -> tuple[int, float]:
    """Messages and messages a second, from the last line."""
    found = _SENT.findall(said)
    if not found:
        raise RuntimeError(f"ProducerPerformance said: {said[-500:]}")
    return int(found[-1][0]), float(found[-1][1])


def consume(job: Job) -> Generator[None, None, Outcome]:
    """Runs ConsumerPerformance over the whole topic."""
    jars, wanted = _jars(), sum(job.ends) - sum(job.firsts)
    yield
    said = _run(
        jars,
        "org.apache.kafka.tools.ConsumerPerformance",
        *("--bootstrap-server", job.bootstrap, "--topic", job.topic, "--num-records", str(wanted)),
        *("--group", f"java-{time.time_ns()}", "--timeout", "20000"),
    )
    got, rate = parse_consumed(said)
    return Outcome(done=got, missing=max(wanted - got, 0), seconds=got / rate, bytes=got * job.size)


def parse_consumed(said: str) -> tuple[int, float]:
    """Messages, and messages a second without the time that the group took."""
    lines = [line.split(", ") for line in said.splitlines() if line.count(", ") == 9]
    if len(lines) < 2:
        raise RuntimeError(f"ConsumerPerformance said: {said[-500:]}")
    figures = dict(zip(lines[0], lines[-1], strict=True))
    return int(figures["data.consumed.in.nMsg"]), float(figures["fetch.nMsg.sec"])


def _jars() -> str:
    from tests.conformance.kafka_jars import (
        classpath,
    )  # imports pytest, which the other workers do not need

    return classpath()


def _run(jars: str, name: str, *words: str) -> str:
    ran = subprocess.run(
        ["java", *_JVM, "-cp", jars, name, *words],
        capture_output=True,
        text=True,
        timeout=_LIMIT_S,
        check=False,
    )
    return ran.stdout + ran.stderr
