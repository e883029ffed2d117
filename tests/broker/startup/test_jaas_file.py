"""Where the static JAAS file is found."""

from __future__ import annotations

from pathlib import Path

import pytest

from barnabas.broker.security.jaas_entries import JaasFile
from barnabas.broker.startup.jaas_file import read_jaas_file
from barnabas.config.broker_config import BrokerConfig
from barnabas.config.keys import ConfigError
from barnabas.security.jaas import JaasEntry

FILE = 'KafkaServer { M required user_bob="hush"; };'
CONTEXTS = {"KafkaServer": [JaasEntry("M", "REQUIRED", {"user_bob": "hush"})]}


def found(path: Path, how: str) -> JaasFile | None:
    if how == "key":
        environ = {"KAFKA_OPTS": "-Djava.security.auth.login.config=/elsewhere"}
        config = BrokerConfig.of(None, overrides=[f"barnabas.jaas.config.file={path}"])
    else:
        environ = {"KAFKA_OPTS": f"-Xmx1g -Djava.security.auth.login.config={path}"}
        config = BrokerConfig.of(None)
    return read_jaas_file(config, environ)


@pytest.mark.parametrize(
    ("how", "place"), [("key", "--override"), ("variable", "environment variable KAFKA_OPTS")]
)
def test_the_file_is_found(tmp_path: Path, how: str, place: str) -> None:
    path = tmp_path / "jaas.conf"
    path.write_text(FILE)
    assert found(path, how) == JaasFile(CONTEXTS, str(path), place)


def test_there_need_not_be_any(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_OPTS", "-Xmx1g")
    assert read_jaas_file(BrokerConfig.of(None)) is None


@pytest.mark.parametrize(
    ("how", "place"), [("key", "--override"), ("variable", "environment variable KAFKA_OPTS")]
)
@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, "No such file or directory"),
        (b"KafkaServer", "it ends where there must be {"),
        (b"\xff\xfe", "can't decode byte"),
    ],
)
def test_a_file_that_cannot_be_read_is_an_error(
    tmp_path: Path, how: str, place: str, content: bytes | None, reason: str
) -> None:
    path = tmp_path / "jaas.conf"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        found(path, how)
    wanted = f"{place}: barnabas.jaas.config.file={path} must be a JAAS file that can be read: "
    assert str(caught.value).startswith(wanted)
    assert reason in str(caught.value)
