from __future__ import annotations

from barnabas.cli.admin.names import name_of, scram_mechanism, scram_name
from barnabas.config.config_source import ConfigSource
from barnabas.protocol.messages.security import ScramMechanism


def test_names() -> None:
    assert name_of(ConfigSource, 1) == "DYNAMIC_TOPIC_CONFIG"
    assert name_of(ConfigSource, 99) == "99"
    assert scram_name(1) == "SCRAM-SHA-256"
    assert scram_name(7) == "7"
    assert scram_mechanism("SCRAM-SHA-512") is ScramMechanism.SCRAM_SHA_512
    assert scram_mechanism("UNKNOWN") is None
