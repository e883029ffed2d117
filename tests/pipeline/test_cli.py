"""Tests `barnabas pipeline`: the command line finds it by its entry point, and it has help without Spark."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from barnabas.cli.main import main
from barnabas.pipeline import session
from barnabas.pipeline.cli import COMMANDS, pipeline
from barnabas.pipeline.commands import auditing
from barnabas.pipeline.commands.common import failures
from barnabas.storage.env import RealEnv
from tests.storage.verify.verified import written

ROOT = Path(__file__).parents[2]


def run(*words: str | Path) -> Result:
    return CliRunner().invoke(pipeline, [str(word) for word in words])


def python(code: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=120, check=True
    ).stdout.strip()


# -- the entry point --


def test_the_broker_s_command_line_finds_it() -> None:
    assert "pipeline" in CliRunner().invoke(main, ["--help"]).output
    result = CliRunner().invoke(main, ["pipeline", "--help"])
    assert result.exit_code == 0
    for name in COMMANDS:
        assert f"  {name} " in result.output


def test_the_broker_does_not_import_the_pipeline() -> None:
    """Neither `serve` nor another command looks for it or imports any of its modules."""
    code = (
        "import sys, barnabas.cli.__main__, barnabas.broker.startup.serving, barnabas.cli.main, click;"
        "main = barnabas.cli.main.main; context = click.Context(main);"
        "main.get_command(context, 'serve'); main.get_command(context, 'topics');"
        "print([name for name in sys.modules if name.startswith(('barnabas.pipeline', 'pyspark', 'pyarrow'))],"
        " 'importlib.metadata' in sys.modules)"
    )
    assert python(code) == "[] False"


def test_an_unknown_command() -> None:
    result = CliRunner().invoke(main, ["piepline"])
    assert result.exit_code == 2
    assert "No such command 'piepline'" in result.output


def test_help_needs_no_spark() -> None:
    code = (
        "import sys; sys.modules['pyspark'] = sys.modules['py4j'] = None;"
        "from click.testing import CliRunner; from barnabas.pipeline.cli import COMMANDS, pipeline;"
        "print([CliRunner().invoke(pipeline, [name, '--help']).exit_code for name in COMMANDS])"
    )
    assert python(code) == str([0] * len(COMMANDS))


@pytest.mark.parametrize("name", COMMANDS)
def test_help_describes_each_command(name: str) -> None:
    result = run(name, "--help")
    assert result.exit_code == 0
    assert f"barnabas pipeline {name}" in result.output, "an example"
    assert "Exit codes:" in result.output
    command = pipeline.get_command(click.Context(pipeline), name)
    assert command is not None
    for each in command.params:
        assert not isinstance(each, click.Option) or each.help, each.name


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_runs_under_spark_submit(name: str, tmp_path: Path) -> None:
    path = ROOT / "pipeline" / "jobs" / "job.py"
    result = subprocess.run(
        [sys.executable, str(path), name, "--help"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert "Exit codes:" in result.stdout


# -- missing requirements --


def test_without_pyspark_there_is_one_sentence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(session, "find_spec", lambda _name: None)
    for line in (
        ("audit", tmp_path),
        ("compact-report", tmp_path),
        ("scan", tmp_path),
        ("demo", tmp_path / "new"),
        ("ingest", "--topic", "t", "--table", tmp_path / "t", "--checkpoint", tmp_path / "c"),
        ("export", "--topic", "t", "--table", tmp_path / "t", "--checkpoint", tmp_path / "c"),
    ):
        monkeypatch.chdir(tmp_path)  # the report is written there
        result = run(*line)
        assert result.exit_code == 2, result.output
        assert "pip install 'barnabas[spark]'" in result.output
        assert result.output.count("\n") == 1
    assert not (tmp_path / "new").exists()


def test_without_java_there_is_one_sentence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(session, "find_spec", lambda _name: "there")
    monkeypatch.setattr(session, "_java", lambda: None)
    result = run("compact-report", tmp_path)
    assert result.exit_code == 2
    assert "Spark needs Java" in result.output


@pytest.mark.parametrize("name", ["audit", "compact-report"])
@pytest.mark.parametrize("missing", ["pyarrow", "jinja2", "matplotlib"])
def test_here_needs_the_modules_for_tables_and_reports(
    name: str, missing: str, directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With --here, too: it is reported in one sentence before the audit begins."""
    monkeypatch.setattr(auditing, "find_spec", lambda each: None if each == missing else "there")
    result = run(name, directory, "--here", "--report", tmp_path / "r.html")
    assert result.exit_code == 2
    assert result.output == f"Error: this needs {missing}, which pip install 'barnabas[spark]' brings\n"


def test_missing_third_party_modules_are_reported_and_missing_own_ones_raise() -> None:
    @click.command()
    @click.argument("name")
    def command(name: str) -> None:
        with failures():
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    result = CliRunner().invoke(command, ["fastavro.schema"])
    assert result.exit_code == 2
    assert result.output == "Error: this needs fastavro, which pip install 'barnabas[spark]' brings\n"
    assert isinstance(CliRunner().invoke(command, ["barnabas.pipeline.audit"]).exception, ModuleNotFoundError)


# -- audit and compact-report, in this process --


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    written(RealEnv(), str(tmp_path / "data"))
    return tmp_path / "data"


def test_audit(directory: Path, tmp_path: Path) -> None:
    from pyarrow import parquet

    report, tables = tmp_path / "audit.html", tmp_path / "tables"
    for _ in range(2):
        result = run("audit", directory, "--here", "--report", report, "--tables", tables)
        assert result.exit_code == 0, result.output
    told = dict(line.rsplit(maxsplit=1) for line in result.output.splitlines())
    assert (told["partitions"], told["errors"], told["warnings"], told["notes"]) == ("2", "0", "0", "0")
    assert str(report) in result.output
    assert "Nothing is wrong." in report.read_text()
    found = parquet.read_table(tables / "partitions")
    assert sorted(found["topic"].to_pylist()) == ["orders", "orders", "plain", "plain"]
    assert len(found["audit_id"].unique()) == 2
    assert parquet.read_table(tables / "findings").num_rows == 0


def test_a_directory_that_is_named_twice_is_examined_once(directory: Path, tmp_path: Path) -> None:
    result = run("audit", directory, f"{directory}/", "--here", "--report", tmp_path / "r.html")
    assert result.exit_code == 0, result.output
    assert dict(line.rsplit(maxsplit=1) for line in result.output.splitlines())["partitions"] == "2"


def test_a_directory_may_be_a_uri_or_relative(
    directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for given in (f"file://{directory}", f"file:{directory}", "data"):
        result = run("audit", given, "--here", "--report", tmp_path / "r.html")
        assert result.exit_code == 0, result.output
        assert str(directory) in (tmp_path / "r.html").read_text()


def test_audit_of_damage(directory: Path, tmp_path: Path) -> None:
    log = sorted(directory.glob("orders-0/*.log"))[1]
    data = bytearray(log.read_bytes())
    data[70] ^= 1
    log.write_bytes(data)
    report = tmp_path / "audit.html"
    result = run("audit", directory, "--here", "--no-keys", "--report", report)
    assert result.exit_code == 1
    assert f"error   {log}, offset {int(log.stem)}" in result.output
    assert "claims CRC" in report.read_text()


def test_warnings_are_errors_with_strict(directory: Path, tmp_path: Path) -> None:
    (directory / "orders-0" / "notes.txt").touch()
    line = ("audit", directory, "--here", "--no-keys", "--report", tmp_path / "r.html")
    assert run(*line).exit_code == 0
    assert run(*line, "--strict").exit_code == 1


@pytest.mark.parametrize("name", ["audit", "compact-report"])
def test_what_is_no_log_directory(directory: Path, tmp_path: Path, name: str) -> None:
    (tmp_path / "empty").mkdir()
    result = run(name, tmp_path / "empty", "--here", "--report", tmp_path / "r.html")
    assert result.exit_code == 2
    assert "cannot read the log directory" in result.output
    assert run(name).exit_code == 2
    assert not (tmp_path / "r.html").exists()


@pytest.mark.parametrize("name", ["audit", "compact-report"])
def test_an_unwritable_report_is_rejected_before_the_audit(
    name: str, directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(auditing, "audited", lambda *_: pytest.fail("it was looked at"))
    (tmp_path / "file").touch()
    result = run(name, directory, "--here", "--report", tmp_path / "file" / "r.html")
    assert result.exit_code == 1
    assert str(tmp_path / "file") in result.output


def test_damage_is_reported_beside_the_savings_of_compaction(directory: Path, tmp_path: Path) -> None:
    log = sorted(directory.glob("orders-0/*.log"))[1]
    data = bytearray(log.read_bytes())
    data[70] ^= 1
    log.write_bytes(data)
    result = run("compact-report", directory, "--here", "--report", tmp_path / "r.html")
    assert result.exit_code == 0
    assert "Errors were found (1): what cannot be read is not counted." in result.output


def test_compact_report(directory: Path, tmp_path: Path) -> None:
    report = tmp_path / "compaction.html"
    result = run("compact-report", directory, "--here", "--report", report)
    assert result.exit_code == 0, result.output
    heads, first, second, last = result.output.splitlines()
    assert heads.split() == ["topic", "bytes", "would", "go", "share", "records", "keys"]
    assert (first.split()[0], second.split()[0]) == ("orders", "plain")
    assert last == f"report  {report}"
    assert "Compaction would save" in report.read_text()


# -- invalid command lines --


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (["ingest", "--table", "t", "--checkpoint", "c"], "topics"),
        (["ingest", "--topic", "t", "--table", "t", "--checkpoint", "c", "--starting", "noon"], "noon"),
        (["ingest", "--topic", "t", "--table", "t", "--checkpoint", "c", "--conf", "novalue"], "KEY=VALUE"),
        (["export", "--table", "t", "--checkpoint", "c", "--delivery", "exactly-once"], "topic"),
        (
            ["ingest", "--topic", "t", "--table", "t", "--checkpoint", "c", "--message", "shop.Order"],
            "schema file",
        ),
        (
            ["ingest", "--topic", "t", "--table", "t", "--checkpoint", "c", "--subject", "s"],
            "registry: name one",
        ),
        (
            [
                *("ingest", "--topic", "t", "--table", "t", "--checkpoint", "c"),
                *("--trigger", "once", "--max-offsets-per-batch", "9"),
            ],
            "available-now observes it",
        ),
        (["audit", "/tmp", "--here", "--master", "local[1]"], "--here is without Spark"),
        (["compact-report", "/tmp", "--here", "--conf", "a=b"], "--here is without Spark"),
        (["audit", "/tmp", "--here", "--tables", "hdfs:///audits"], "hdfs:///audits is not"),
        (["audit", "hdfs:///logs"], "hdfs:///logs is not a path"),
        (["scan", "/missing"], "/missing is not a directory"),
        (["scan", "hdfs:///logs"], "hdfs:///logs is not a path"),
        (["scan", "/tmp", "--since", "yesterday"], "yesterday"),
        (["scan", "/tmp", "--topic", "a", "--topic-pattern", "b"], "subscribe"),
        (["scan", "d", "--limit", "3", "--table", "t"], "--limit"),
        (["scan", "/tmp", "--option", "rangebites=3"], "rangeBytes"),
        (["demo", str(ROOT)], "new or empty"),
    ],
)
def test_a_wrong_command_line_is_rejected_before_spark_starts(
    line: list[str], text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "find_spec", lambda _name: pytest.fail("Spark was looked for"))
    result = run(*line)
    assert result.exit_code == 2, result.output
    assert text in result.output


def test_failures_in_spark_are_reported_without_java_stacks() -> None:
    class FailedError(Exception):
        """An error of Spark's, by its module."""

    FailedError.__module__ = "pyspark.errors"
    text = (
        "[PYTHON_DATA_SOURCE_ERROR] Failed.\nTraceback (most recent call last):\n"
        '  File "x.py", line 3, in read\n    raise\nstorage.errors.NoSuchPlaceError: /a has no partitions\n\n'
        "\tat org.apache.spark.X(X.scala:3)\n"
    )
    for said, told in (
        (text, "Error: /a has no partitions\n"),
        ("[X] no.\n\tat org.Y\n", "Error: [X] no.\n"),
    ):

        @click.command()
        def command(said: str = said) -> None:
            with failures():
                raise FailedError(said)

        result = CliRunner().invoke(command)
        assert (result.exit_code, result.output) == (1, told)
