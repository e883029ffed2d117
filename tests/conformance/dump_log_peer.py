"""Both dump tools on the same files: Apache Kafka's DumpLogSegments and `barnabas dump-log`, line by line.

assert_same_dump(files, "--deep-iteration")
assert_same_dump(files, "--offsets-decoder")
assert_same_dump([damaged])                  # where Kafka's tool breaks off, ours has said as much and fails too
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple

from tests.conformance.kafka_jars import require_classpath

TOOL = "org.apache.kafka.tools.DumpLogSegments"
LIMIT_S = 280
# One argument of a command may not have more than 128 KiB on Linux.
NAMES_BYTES = 100_000
UTF8 = (
    "-Dfile.encoding=UTF-8",
    "-Dstdout.encoding=UTF-8",
    "-Dstderr.encoding=UTF-8",
    "-Dsun.stdout.encoding=UTF-8",
)


class Dumped(NamedTuple):
    """What a tool said, and its exit code."""

    out: list[str]
    err: list[str]
    code: int


def kafka_dump(files: Sequence[Path], *flags: str) -> Dumped:
    """DumpLogSegments of Apache Kafka 4.3."""
    names = ",".join(map(str, files))
    java = ["java", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", *UTF8]
    return _run([*java, "-cp", require_classpath(), TOOL, "--files", names, *flags])


def our_dump(files: Sequence[Path], *flags: str) -> Dumped:
    """`barnabas dump-log` with the same arguments."""
    return _run(
        [sys.executable, "-m", "broker.cli", "dump-log", "--files", ",".join(map(str, files)), *flags]
    )


def _run(command: list[str]) -> Dumped:
    done = subprocess.run(command, capture_output=True, timeout=LIMIT_S, check=False)
    # Only line feeds end lines here: values may have anything else.
    out, err = (
        stream.decode("utf-8", "surrogateescape").split("\n") for stream in (done.stdout, done.stderr)
    )
    return Dumped(out, err, done.returncode)


def assert_same_dump(files: Sequence[Path], *flags: str) -> None:
    """Both tools say the same of the files, in the same order, on the same streams, and end with the same exit code.

    Where Kafka's tool ends with a stack trace, all that it had said before has to be what ours says, too, up to the
    line that it was at; and ours has to fail as well, with a message for that file.
    """
    assert files, "there is nothing to compare"
    for group in _groups(files):
        kafka, ours = kafka_dump(group, *flags), our_dump(group, *flags)
        what = f"{' '.join(flags)} {' '.join(map(str, group))[:500]}"
        if kafka.code == 0:
            _assert_same_lines(kafka.out, ours.out, what)
            _assert_same_lines(kafka.err, ours.err, what)
            assert ours.code == 0, (what, ours.err)
        else:
            assert any(line.lstrip().startswith("at ") for line in kafka.err), (what, kafka.err)
            said = kafka.out[:-1]
            _assert_same_lines(said, ours.out[: len(said)], what)
            assert ours.code == 1, (what, kafka.err[:3], ours.err)
            assert any(line.startswith("error: ") for line in ours.err), what


def _groups(files: Sequence[Path]) -> Iterator[list[Path]]:
    group: list[Path] = []
    size = 0
    for file in files:
        size += len(str(file)) + 1
        if size > NAMES_BYTES:
            yield group
            group, size = [], len(str(file)) + 1
        group.append(file)
    yield group


def _assert_same_lines(kafka: list[str], ours: list[str], what: str) -> None:
    for number, (theirs, our) in enumerate(zip_longest(kafka, ours), 1):
        assert our == theirs, f"line {number} of {what}\nKafka: {theirs!r}\nours:  {our!r}"
