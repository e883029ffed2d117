"""Tests sessions without starting one: missing requirements are reported in a sentence; settings follow from the
place."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

import barnabas.pipeline.session as module
from barnabas.pipeline import jars, versions
from barnabas.pipeline.jars import JarsMissingError
from barnabas.pipeline.session import ARROW_UNCHECKED, SparkMissingError, check, settings

ROOT = Path(__file__).parents[2]
THERE: Any = object()


def fake_java(directory: Path, said: str) -> None:
    (directory / "bin").mkdir()
    java = directory / "bin" / "java"
    java.write_text(f"#!/bin/sh\necho '{said}' >&2\n")
    java.chmod(0o755)


def test_versions_are_pinned_once() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert f"pyspark=={versions.SPARK}" in project["optional-dependencies"]["spark"]
    assert all(
        re.fullmatch(r"[\w.-]+:[\w.-]+:[\d.]+", it)
        for it in (*versions.KAFKA_CONNECTOR, *versions.DELTA_TABLES)
    )


def test_no_pyspark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "find_spec", lambda name: None)
    with pytest.raises(
        SparkMissingError, match=r"needs PySpark, which pip install 'barnabas\[spark\]' brings$"
    ):
        check()


def test_no_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(module, "find_spec", lambda name: THERE)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(
        SparkMissingError, match=r"Java 17 or newer, and there is no java on the path or in JAVA_HOME"
    ):
        check()


def test_a_java_home_without_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """With JAVA_HOME set Spark's own scripts do not search the path."""
    monkeypatch.setattr(module, "find_spec", lambda name: THERE)
    fake_java(tmp_path, 'openjdk version "17.0.15"')
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("JAVA_HOME", "/gone")
    with pytest.raises(SparkMissingError, match=r"JAVA_HOME is /gone, where there is no bin/java$"):
        check()


@pytest.mark.parametrize(
    ("said", "is_enough"), [("17.0.15", True), ("21", True), ("11.0.2", False), ("1.8.0_1", False)]
)
def test_which_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, said: str, is_enough: bool) -> None:
    monkeypatch.setattr(module, "find_spec", lambda name: THERE)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    fake_java(tmp_path, f'openjdk version "{said}" 2025-01-01')
    if is_enough:
        check()
        return
    with pytest.raises(
        SparkMissingError, match=r"Spark needs Java 17 or newer, and .*/bin/java is Java (11|8)$"
    ):
        check()


def test_on_a_laptop() -> None:
    found = settings({}, master=None, conf={"spark.ui.enabled": "true"}, jars=[Path("/j/a.jar")], table=True)
    assert found["spark.master"] == "local[*]"
    assert found["spark.ui.enabled"] == "true"
    assert found["spark.driver.extraJavaOptions"] == ARROW_UNCHECKED
    assert found["spark.jars"] == "file:///j/a.jar"
    assert "Delta" in found["spark.sql.extensions"]
    assert settings({}, master="local[2]", conf={}, jars=[], table=False)["spark.master"] == "local[2]"


@pytest.mark.parametrize(
    ("master", "conf"), [("spark://head:7077", {}), (None, {"spark.master": "spark://head:7077"})]
)
def test_on_a_cluster(master: str | None, conf: dict[str, str]) -> None:
    """Its machines cannot reach the driver at 127.0.0.1."""
    found = settings({}, master=master, conf=conf, jars=[], table=False)
    assert found["spark.master"] == "spark://head:7077"
    assert not any(key.startswith(("spark.driver", "spark.sql.shuffle", "spark.python.")) for key in found)


def test_under_spark_submit() -> None:
    """The command line sets the master and the resources."""
    found = settings({"SPARK_ENV_LOADED": "1"}, master=None, conf={}, jars=[], table=False)
    assert "spark.master" not in found
    assert not any(key.startswith(("spark.driver", "spark.ui")) for key in found)
    jars_found = settings(
        {}, master=None, conf={"spark.jars": "/x.jar"}, jars=[Path("/j/a.jar")], table=False
    )
    assert jars_found["spark.jars"] == "/x.jar,file:///j/a.jar"


def test_cached_jars(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("BARNABAS_JARS", str(tmp_path))
    monkeypatch.setenv("PATH", "")
    assert jars.bring(()) == []
    with pytest.raises(
        JarsMissingError, match=r"Maven is needed once to bring a:b:1 from Maven Central, and there is no"
    ):
        jars.bring(["a:b:1"])
    directory = tmp_path / jars._folder(["a:b:1"])
    directory.mkdir()
    (directory / "b-1.jar").touch()
    assert jars.bring(["a:b:1"]) == [directory / "b-1.jar"]


def test_jars_in_a_relative_place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Sessions name jars by URIs, which cannot be relative."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("BARNABAS_JARS", "jars")
    assert jars.cache() == tmp_path / "jars"


def test_jars_that_spark_contains(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Spark's jars are excluded in any version."""
    monkeypatch.setenv("BARNABAS_JARS", str(tmp_path))
    monkeypatch.setenv("SPARK_HOME", str(tmp_path / "spark"))
    directory = tmp_path / jars._folder(["a:b:1"])
    for path in (
        directory / "b_2.13-1.0.jar",
        directory / "lz4-java-1.10.1.jar",
        tmp_path / "spark/jars/lz4-java-1.8.0.jar",
    ):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    assert jars.bring(["a:b:1"]) == [directory / "b_2.13-1.0.jar"]


def test_maven_that_fails(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("BARNABAS_JARS", str(tmp_path / "jars"))
    maven = tmp_path / "mvn"
    maven.write_text("#!/bin/sh\necho '[ERROR] no such artifact'\nexit 1\n")
    maven.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(JarsMissingError, match=r"Maven could not bring the jars: no such artifact$"):
        jars.bring(["a:b:1"])
    assert list((tmp_path / "jars").iterdir()) == []
