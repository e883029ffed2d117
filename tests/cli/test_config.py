"""`barnabas config`."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from barnabas.cli.config import config, effective_settings
from barnabas.config.broker_config import BrokerConfig
from barnabas.config.reference import render


def check(*arguments: str, environ: dict[str, str] | None = None) -> Result:
    return CliRunner().invoke(config, ["check", *arguments], env=environ)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "server.properties"


def test_a_valid_file_passes(file: Path) -> None:
    file.write_text("num.partitions=3\nbarnabas.profile=dev\n")
    result = check(str(file), "--strict")
    assert (result.exit_code, result.output) == (
        0,
        "fine: nothing is unknown, out of range or without effect\n",
    )


def test_the_file_may_be_omitted() -> None:
    assert check().exit_code == 0


def test_warnings_fail_only_when_strict(file: Path) -> None:
    file.write_text("log.retension.ms=1\nbarnabas.profile=dev\n")
    result = check(str(file))
    assert result.exit_code == 0
    assert result.output.splitlines() == [
        f"warning {file} line 1: log.retension.ms is not a configuration key; did you mean log.retention.ms?",
        "1 warning",
    ]
    assert check(str(file), "--strict").exit_code == 1


def test_notes_never_fail(file: Path) -> None:
    file.write_text("num.io.threads=9\n")
    result = check(str(file), "--strict")
    assert result.exit_code == 0
    lines = result.output.splitlines()
    assert lines[0].startswith(f"note    {file} line 1: num.io.threads has no effect: one event loop")
    assert lines[1].startswith(
        "note    there is 1 broker, so each of these counts as 1: offsets.topic.replication.factor"
    )
    assert lines[2] == "2 notes"


def test_errors_fail_and_all_findings_are_printed(file: Path) -> None:
    file.write_text("num.partitions=0\nlisteners=nowhere\nx.y=1\nnum.io.threads=2\n")
    result = check(str(file))
    assert result.exit_code == 2
    assert [line.partition(" ")[0] for line in result.output.splitlines()] == [
        "error",
        "error",
        "warning",
        "note",
        "2",
    ]
    assert result.output.splitlines()[-1] == "2 errors, 1 warning, 1 note"


def test_what_is_weak_is_a_warning(file: Path) -> None:
    file.write_text(
        "listeners=SASL_PLAINTEXT://:9092\nsasl.enabled.mechanisms=SCRAM-SHA-256\nbarnabas.profile=dev\n"
    )
    result = check(str(file))
    assert result.exit_code == 0
    assert result.output.splitlines()[0].startswith(
        f"warning {file} line 1: listeners opens listener SASL_PLAINTEXT, which is not encrypted"
    )
    assert result.output.splitlines()[-1] == "2 warnings"
    assert check(str(file), "--strict").exit_code == 1


def test_what_a_start_could_not_protect_is_an_error(file: Path) -> None:
    file.write_text("listeners=SSL://:9092\nssl.keystore.location=/missing\nssl.keystore.password=x\nx.y=1\n")
    result = check(str(file))
    assert result.exit_code == 2
    assert result.output.splitlines() == [
        f"error   {file} line 2: ssl.keystore.location=/missing cannot be read: No such file or directory",
        f"warning {file} line 4: x.y is not a configuration key",
        "1 error, 1 warning",
    ]


def test_the_jaas_file_of_the_environment_is_checked(file: Path, tmp_path: Path) -> None:
    file.write_text("listeners=SASL_PLAINTEXT://localhost:9092\nsasl.enabled.mechanisms=PLAIN\n")
    jaas = tmp_path / "jaas"
    jaas.write_text("KafkaServer { nonsense")
    result = check(str(file), environ={"KAFKA_OPTS": f"-Djava.security.auth.login.config={jaas}"})
    assert result.exit_code == 2
    assert "environment variable KAFKA_OPTS: barnabas.jaas.config.file" in result.output


def test_overrides_and_environment_variables_apply(file: Path) -> None:
    file.write_text("barnabas.profile=dev\n")
    assert check(str(file), "--override", "num.partitions=0").exit_code == 2
    result = check(str(file), environ={"KAFKA_LOG_DIRZ": "x"})
    assert "environment variable KAFKA_LOG_DIRZ: log.dirz is not a configuration key" in result.output


def test_a_missing_file_is_an_error() -> None:
    assert check("/nowhere/server.properties").exit_code == 2


def test_show_prints_values_that_are_not_defaults_and_their_sources(file: Path) -> None:
    file.write_text("num.partitions=3\nlog.roll.hours=168\nssl.key.password=secret\n")
    result = check(str(file), "--show", "--override", "broker.rack=a")
    lines = result.output.splitlines()
    assert lines[0] == "profile kafka; default < profile < file < KAFKA_* environment < --override"
    rows = [line.split() for line in lines[1:4]]
    assert [row[-1] for row in rows] == ["broker.rack=a", "num.partitions=3", "ssl.key.password=[hidden]"]
    assert rows[0][0] == "--override"
    assert "secret" not in result.output


def test_defaults_alone_are_one_line() -> None:
    assert len(effective_settings(BrokerConfig()).splitlines()) == 1


def test_docs_is_the_reference() -> None:
    result = CliRunner().invoke(config, ["docs"])
    assert (result.exit_code, result.output) == (0, render())
