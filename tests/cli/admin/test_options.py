"""The common options of all commands, tested on one of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import click
import pytest
from click.testing import Result

from barnabas.broker.version import VERSION
from barnabas.cli.admin.options import ParsedOptions
from barnabas.protocol.api_keys import ApiKey
from tests.cli.admin.fake_broker import FakeCluster
from tests.support.ports import held_ports

Barnabas = Callable[..., Result]


def test_the_options_of_bootstrap_servers(barnabas: Barnabas, cluster: FakeCluster, tmp_path: Path) -> None:
    unreachable = f"127.0.0.1:{held_ports(1)[0]}"
    file = tmp_path / "client.properties"
    file.write_text(f"bootstrap.servers={unreachable}\n")
    config = ("--command-config", str(file))
    assert barnabas("topics", "--list").exit_code == 0, "from the environment"
    assert barnabas("topics", "--list", "--bootstrap-server", cluster.bootstrap, *config).exit_code == 0
    assert (
        barnabas("topics", "--list", f"--bootstrap-server={unreachable},{cluster.bootstrap}").exit_code == 0
    )
    file.write_text(f"bootstrap.servers={unreachable}\ndefault.api.timeout.ms=1\n")
    result = barnabas("topics", "--list", *config)
    assert result.exit_code == 1
    assert f"no server answers at {unreachable}" in result.stderr


def test_the_client_id_and_software_name(barnabas: Barnabas, cluster: FakeCluster, tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("sasl.kerberos.kinit.cmd=k\n")
    result = barnabas("topics", "--list", "--command-config", str(file))
    assert result.stderr == f"warning: {file} line 1: sasl.kerberos.kinit.cmd has no effect here\n"
    file.write_text("security.protocol=TLS\n")
    result = barnabas("topics", "--list", "--command-config", str(file))
    assert result.exit_code == 1
    assert "security.protocol=TLS must be one of PLAINTEXT, SSL" in result.stderr


def test_the_version(barnabas: Barnabas, cluster: FakeCluster) -> None:
    assert barnabas("topics", "--version").stdout == f"barnabas {VERSION}\n"
    assert not cluster.asked(ApiKey.API_VERSIONS)


def test_a_command_without_options_names_the_missing_ones(barnabas: Barnabas) -> None:
    result = barnabas("topics")
    assert result.exit_code == 2
    assert "Exactly one of --list, --describe, --create, --alter, --delete is needed" in result.stderr


def test_checks_of_given_options() -> None:
    given = ParsedOptions({"partitions": 0, "topic": None, "list": False, "config": (), "describe": True})
    assert given.has("partitions")
    assert given.has("describe")
    assert not any(map(given.has, ("topic", "list", "config")))
    assert given.one_action("list", "describe") == "describe"
    for refused in (
        lambda: given.one_action("list", "topic"),
        lambda: given.need("describe", "topic"),
        lambda: given.forbid("describe", "list", "partitions"),
        lambda: given.only_with("describe", "list", "topic"),
    ):
        with pytest.raises(click.UsageError, match="--"):
            refused()
    given.only_with("list", "topic")
    given.forbid("describe", "list")
