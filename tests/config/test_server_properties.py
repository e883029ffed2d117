"""The file that `make run` starts from."""

from __future__ import annotations

from pathlib import Path

from barnabas.config.broker_config import BrokerConfig
from barnabas.config.listeners import Listener

FILE = Path(__file__).parents[2] / "config" / "server.properties"


def test_the_file_is_valid_and_has_no_messages() -> None:
    config = BrokerConfig.load(str(FILE))
    assert config.messages == []
    assert config.listeners == [Listener("PLAINTEXT", "127.0.0.1", 9092)]
    assert config.log_dirs == ("data",)


def test_commented_settings_are_valid_too() -> None:
    text = FILE.read_text()
    commented = [
        line[1:] for line in text.splitlines() if line.startswith("#") and "=" in line and " " not in line
    ]
    assert commented
    assert BrokerConfig.of("\n".join(commented).encode()).messages == []
