"""Compares the output of Apache Kafka's DumpLogSegments and `barnabas dump-log` on the same files, line by line.

    assert_same_dump(files, "--deep-iteration")
    assert_same_dump(files, "--offsets-decoder")
    assert_same_dumps(directory)                 # a whole log directory, with every flag that applies to a file
Kafka's tool runs in one Java process for all calls, ours in the test's process.
"""

from __future__ import annotations

import atexit
import subprocess
from collections.abc import Sequence
from functools import cache
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple

from click.testing import CliRunner

from barnabas.cli.main import main
from tests.conformance.kafka_jars import require_compiled

SOURCE = Path(__file__).parent / "java" / "JavaDumpLog.java"
JAVA = ("java", "-Xmx512m", "-XX:+UseSerialGC")
DECODERS = {
    "__consumer_offsets": "--offsets-decoder",
    "__transaction_state": "--transaction-log-decoder",
    "__share_group_state": "--share-group-state-decoder",
    "__cluster_metadata": "--cluster-metadata-decoder",
}
LOGS = (".log", ".checkpoint")
INDEXES = (".index", ".timeindex")
OTHERS = (".txnindex", ".snapshot")


class Dumped(NamedTuple):
    """The output and exit code of a tool."""

    out: list[str]
    err: list[str]
    code: int


def kafka_dump(files: Sequence[Path], *flags: str) -> Dumped:
    """Runs DumpLogSegments of Apache Kafka 4.3. Skips the test without Kafka."""
    process = _process()
    assert process.stdin is not None
    assert process.stdout is not None
    arguments = ["--files", ",".join(map(str, files)), *flags]
    process.stdin.write("\t".join(arguments).encode() + b"\n")
    process.stdin.flush()
    code, out, err = map(int, process.stdout.readline().split())
    return Dumped(_lines(process.stdout.read(out)), _lines(process.stdout.read(err)), code)


@cache
def _process() -> subprocess.Popen[bytes]:
    command = [*JAVA, "-cp", require_compiled(SOURCE), SOURCE.stem]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    atexit.register(process.kill)
    return process


def our_dump(files: Sequence[Path], *flags: str) -> Dumped:
    """Runs `barnabas dump-log` with the same arguments."""
    arguments = ["dump-log", "--files", ",".join(map(str, files)), *flags]
    result = CliRunner().invoke(main, arguments)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return Dumped(_lines(result.stdout_bytes), _lines(result.stderr_bytes), result.exit_code)


def _lines(data: bytes) -> list[str]:
    # Only line feeds end lines: values may contain all other separators.
    return data.decode("utf-8", "surrogateescape").split("\n")


def assert_same_dump(files: Sequence[Path], *flags: str) -> None:
    """Both tools print the same lines on the same streams and end with the same exit code.

    Where Kafka's tool ends with a stack trace, ours must have printed the same lines up to there, and fail as well,
    with a message; except for zeros at the end of a log, which preallocate=true leaves and which are no damage.
    """
    assert files, "no files to compare"
    kafka, ours = kafka_dump(files, *flags), our_dump(files, *flags)
    what = f"{' '.join(flags)} {' '.join(map(str, files))[:500]}"
    if kafka.code == 0:
        _assert_same_lines(kafka.out, ours.out, what)
        _assert_same_lines(kafka.err, ours.err, what)
        assert ours.code == 0, (what, ours.err)
        return
    complete = kafka.out[:-1]
    _assert_same_lines(complete, ours.out[: len(complete)], what)
    if any("Found record size 0 " in line for line in kafka.err) and "invalid bytes" in ours.out[-2]:
        return
    assert ours.code == 1, (what, kafka.err[:3], ours.err)
    assert any(line.startswith("error: ") for line in ours.err), what


def assert_same_dumps(directory: Path) -> None:
    """Both tools print the same for all files in a log directory, or in the directory of a partition."""
    files = sorted(path for path in directory.rglob("*") if path.is_file() and path.suffix)
    logs = [path for path in files if path.suffix in LOGS]
    indexes = [path for path in files if path.suffix in INDEXES]
    for found, flags in (
        (logs, ()),
        (logs, ("--deep-iteration",)),
        (logs, ("--print-data-log",)),
        (indexes, ()),
        (indexes, ("--verify-index-only",)),
        (indexes, ("--index-sanity-check",)),
        ([path for path in files if path.suffix in OTHERS], ()),
    ):
        if found:
            assert_same_dump(found, *flags)
    for topic, decoder in DECODERS.items():
        own = [path for path in logs if path.parent.name.rpartition("-")[0] == topic]
        if own:
            assert_same_dump(own, decoder)


def _assert_same_lines(kafka: list[str], ours: list[str], what: str) -> None:
    for number, (theirs, our) in enumerate(zip_longest(kafka, ours), 1):
        assert our == theirs, f"line {number} of {what}\nKafka: {theirs!r}\nours:  {our!r}"
