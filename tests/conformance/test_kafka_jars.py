"""Kafka's jars: copied once by Maven; a check without Java or jars is skipped, or fails where it is required."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.pipeline.jars import pom_of
from tests.conformance import kafka_jars


@pytest.fixture(autouse=True)
def _nothing_is_cached() -> Iterator[None]:
    cached = (
        kafka_jars.require_classpath,
        kafka_jars.require_jar,
        kafka_jars.require_compiled,
        kafka_jars.require_beside,
        kafka_jars.require_all_compiled,
    )
    for function in cached:
        function.cache_clear()
    yield
    for function in cached:
        function.cache_clear()


def test_without_java_a_check_is_skipped_with_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BARNABAS_REQUIRE_CONFORMANCE", raising=False)
    monkeypatch.setattr("shutil.which", lambda program: None)
    with pytest.raises(pytest.skip.Exception, match="a Java 17 runtime is needed"):
        kafka_jars.require_classpath()


def test_without_java_a_required_check_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BARNABAS_REQUIRE_CONFORMANCE", "1")
    monkeypatch.setattr("shutil.which", lambda program: None)
    with pytest.raises(pytest.fail.Exception, match="is required here: a Java 17 runtime"):
        kafka_jars.require_jar("kafka-clients")


@pytest.mark.parametrize("version", [kafka_jars.KAFKA_VERSION, kafka_jars.KAFKA_39])
def test_maven_copies_the_jars_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, version: str) -> None:
    commands: list[list[str]] = []

    def run(command: list[str], **options: object) -> subprocess.CompletedProcess[str]:
        commands.append(command)
        target = Path(next(word for word in command if "outputDirectory" in word).split("=")[1])
        target.mkdir()
        (target / f"kafka-clients-{version}.jar").touch()
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(kafka_jars, "BUILD", tmp_path / "build")
    monkeypatch.setattr("shutil.which", lambda program: f"/bin/{program}")
    monkeypatch.setattr("subprocess.run", run)
    assert kafka_jars.classpath(version).endswith(f"kafka-clients-{version}.jar")
    assert kafka_jars.classpath(version) == kafka_jars.require_classpath(version)
    assert [command[0] for command in commands] == ["mvn"]
    assert [path.name for path in (tmp_path / "build").iterdir()] == [f"apache-kafka-{version}"]


def test_a_jar_of_tests_is_named_by_its_classifier() -> None:
    project = pom_of(("org.apache.kafka:kafka-tools:4.3.1:test", "org.apache.kafka:kafka-tools:4.3.1"))
    assert "<version>4.3.1</version><classifier>test</classifier></dependency>" in project
    assert "<version>4.3.1</version></dependency>" in project


def test_when_maven_fails_its_last_line_is_the_reason(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def run(command: list[str], **options: object) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess(command, 1, "", "one\ntwo\nno route to the repository")

    monkeypatch.delenv("BARNABAS_REQUIRE_CONFORMANCE", raising=False)
    monkeypatch.setattr(kafka_jars, "BUILD", tmp_path)
    monkeypatch.setattr("shutil.which", lambda program: f"/bin/{program}")
    monkeypatch.setattr("subprocess.run", run)
    with pytest.raises(pytest.skip.Exception, match="no route to the repository"):
        kafka_jars.require_classpath()
    assert list(tmp_path.iterdir()) == []
