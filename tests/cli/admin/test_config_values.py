from __future__ import annotations

from pathlib import Path

import pytest

from barnabas.cli.admin.config_values import Secret, parse_added, parse_number, parse_secret, read_added
from barnabas.cli.admin.errors import BadFileError
from barnabas.protocol.messages.security import ScramMechanism


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a=1", {"a": "1"}),
        ("a=1,b=[2,3],c=", {"a": "1", "b": "2,3", "c": ""}),
        (" a = 1 , b = [x=y,z] ", {"a": "1", "b": "x=y,z"}),
        (
            "SCRAM-SHA-256=[iterations=8192,password=a,b=c]",
            {"SCRAM-SHA-256": "iterations=8192,password=a,b=c"},
        ),
    ],
)
def test_settings_to_add_are_parsed(text: str, found: dict[str, str]) -> None:
    assert parse_added(text) == found


@pytest.mark.parametrize("text", ["a", "a=1,b", "a=b=c", "", "a=1,,b=2", "a b=1"])
def test_invalid_settings_are_rejected(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not|is not a key"):
        parse_added(text)


def test_a_file_of_settings_is_parsed(tmp_path: Path) -> None:
    file = tmp_path / "add.properties"
    file.write_text("retention.ms = 5\ncleanup.policy=compact,delete\n")
    assert read_added(file) == {"retention.ms": "5", "cleanup.policy": "compact,delete"}
    file.write_text("a\\ b=1")
    with pytest.raises(ValueError, match="'a b' is not a key"):
        read_added(file)
    file.write_text("a=\\uXY")
    with pytest.raises(BadFileError, match="line 1"):
        read_added(file)
    with pytest.raises(BadFileError, match="cannot be read"):
        read_added(tmp_path)


def test_scram_secrets_are_parsed() -> None:
    sha_256 = ScramMechanism.SCRAM_SHA_256
    assert parse_secret(sha_256, "password=a,b") == Secret(4096, "a,b")
    assert parse_secret(sha_256, "iterations=8192,password=x") == Secret(8192, "x")
    assert parse_secret(sha_256, "iterations=-1,password=x") == Secret(4096, "x")
    with pytest.raises(
        ValueError, match="Iterations 10 is less than the minimum 4096 required for SCRAM-SHA-256"
    ):
        parse_secret(sha_256, "iterations=10,password=x")
    with pytest.raises(ValueError, match="is expected") as refused:
        parse_secret(sha_256, "pasword=geheim")
    assert "geheim" not in str(refused.value)


def test_quota_values_are_parsed() -> None:
    assert parse_number("k", "1.5") == 1.5
    with pytest.raises(ValueError, match="Cannot parse quota configuration value for k: x"):
        parse_number("k", "x")
