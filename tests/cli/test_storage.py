"""`barnabas format` and `barnabas storage`; the conformance tests compare their output with kafka-storage."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from barnabas.cli.main import main
from barnabas.protocol.wire import uuid_from_string

CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qg"


@pytest.fixture
def properties(tmp_path: Path) -> Path:
    path = tmp_path / "server.properties"
    path.write_text(f"node.id=7\nlog.dirs={tmp_path}/b,{tmp_path}/a\n")
    return path


def run(*words: object) -> Result:
    return CliRunner().invoke(main, [str(word) for word in words])


def test_directories_are_formatted_and_shown(properties: Path) -> None:
    before = run("storage", "info", "-c", properties)
    assert before.exit_code == 1
    assert "Found problems:" in before.stdout
    done = run("format", "-t", CLUSTER_ID, "-c", properties)
    assert (done.exit_code, len(done.stdout.splitlines())) == (0, 3)
    after = run("storage", "info", "-c", properties)
    assert after.exit_code == 0
    assert f"cluster.id={CLUSTER_ID}, directory.id=" in after.stdout
    assert "node.id=7, version=1}" in after.stdout


def test_first_users_come_from_a_file_as_well(properties: Path, tmp_path: Path) -> None:
    (tmp_path / "users").write_text(
        "SCRAM-SHA-256=[name=a,password=b c]\n\n SCRAM-SHA-512=[name=d,password=e]\n"
    )
    words = ("format", "-t", CLUSTER_ID, "-c", properties, "--add-scram-file")
    done = run(*words, tmp_path / "users", "--override", f"log.dirs={tmp_path}/c")
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout.splitlines()[-1].startswith(f"Formatting metadata directory {tmp_path}/c")
    for secret in ("password=", "b c"):
        assert secret not in done.stdout
    assert (tmp_path / "c" / "bootstrap.checkpoint").stat().st_size > 300
    given = CliRunner().invoke(main, [str(word) for word in (*words, "-")], input="SCRAM-SHA-256=[name=a]\n")
    assert given.exit_code == 1
    assert given.stderr == "You must supply one of 'password' or 'saltedpassword' to add-scram\n"


def test_a_directory_is_not_formatted_twice_unless_ignored(properties: Path) -> None:
    words = ("storage", "format", "-t", CLUSTER_ID, "-c", properties)
    run(*words)
    again = run(*words)
    assert (again.exit_code, again.stdout) == (1, "")
    assert "is already formatted. Use --ignore-formatted" in again.stderr
    assert run(*words, "-g").stdout == "All of the log directories are already formatted.\n"


def test_the_cluster_id_of_formatted_directories_is_kept_on_request(properties: Path, tmp_path: Path) -> None:
    run("format", "-t", CLUSTER_ID, "-c", properties, "--override", f"log.dirs={tmp_path}/a")
    words = ("format", "-t", "another", "-c", properties, "-g")
    assert "Invalid cluster.id in: " in run(*words).stderr
    assert run(*words, "--keep-cluster-id").exit_code == 0
    for name in "ab":
        assert f"cluster.id={CLUSTER_ID}" in (tmp_path / name / "meta.properties").read_text()
    (tmp_path / "a" / "meta.properties").write_text("version=9\n")
    assert "has a version that is neither 0 nor 1" in run(*words, "--keep-cluster-id").stderr


def test_a_directory_that_cannot_be_read_is_a_problem(properties: Path) -> None:
    run("format", "-t", CLUSTER_ID, "-c", properties)
    folder = properties.parent
    (folder / "a" / "meta.properties").write_text("version=9\n")
    text = (folder / "b" / "meta.properties").read_text()
    shown = run("storage", "info", "-c", properties)
    assert shown.exit_code == 1
    assert f"Error loading {folder}/a/meta.properties" in shown.stdout
    (folder / "a" / "meta.properties").write_text(text.replace("node.id=7", "node.id=8"))
    assert "Mismatched node IDs" in run("storage", "info", "-c", properties).stdout
    (folder / "a" / "meta.properties").write_text(text.replace(CLUSTER_ID, "another"))
    assert "Mismatched cluster IDs" in run("storage", "info", "-c", properties).stdout


def test_a_wrong_command_line_is_a_usage_error(properties: Path) -> None:
    both = run("format", "-t", CLUSTER_ID, "-c", properties, "-s", "-N")
    assert both.exit_code == 2
    assert "not allowed with" in both.stderr
    assert run("format", "-c", properties).exit_code == 2
    assert run("format", "-t", CLUSTER_ID, "-c", properties.parent / "none").exit_code == 2


def test_feature_lookups() -> None:
    assert run("storage", "version-mapping", "-r", "3.9").stdout.startswith("metadata.version=21 (3.9)\n")
    needs = run("storage", "feature-dependencies", "-f", "eligible.leader.replicas.version=1").stdout
    assert needs == "eligible.leader.replicas.version=1 requires:\n    metadata.version=23 (4.0-IV1)\n"
    assert run("storage", "feature-dependencies", "-f", "no.such=1").exit_code == 1
    assert len(uuid_from_string(run("storage", "random-uuid").stdout.strip())) == 16
