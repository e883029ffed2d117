from __future__ import annotations

import pytest

from barnabas.config.client_metrics import (
    ClientMetricsConfig,
    IntervalOutOfRangeError,
    UnknownClientMetricsKeyError,
)
from barnabas.config.keys import ConfigError


def test_a_subscription_without_settings_has_no_metrics_and_matches_all_clients() -> None:
    config = ClientMetricsConfig.of({})
    assert (config.metrics, config.interval_ms, config.match) == ((), 300_000, {})
    assert config.matches({})


def test_a_parsed_subscription() -> None:
    settings = {
        "metrics": "a.b, c",
        "interval.ms": "100",
        "match": "client_id=x.*, client_software_name = java",
    }
    config = ClientMetricsConfig.of(settings)
    assert (config.metrics, config.interval_ms) == (("a.b", "c"), 100)
    assert config.matches({"client_id": "xyz", "client_software_name": "java"})
    assert not config.matches({"client_id": "xyz", "client_software_name": "java2"})
    assert not config.matches({"client_id": "xyz"})


@pytest.mark.parametrize(
    "match",
    [
        "a=b",
        "client_id=[",
        "client_id=a=b",
        "client_id",
        "client_id=",
        "=x",
        "client_id=a,client_port=1",
        "client_id=a{99999999999}",
        "client_id=" + "(" * 5000 + ")" * 5000,
    ],
)
def test_invalid_patterns(match: str) -> None:
    with pytest.raises(ConfigError, match="must be name=pattern"):
        ClientMetricsConfig.of({"match": match})


@pytest.mark.parametrize("interval", ["99", "3600001", "-1"])
def test_intervals_out_of_range(interval: str) -> None:
    with pytest.raises(IntervalOutOfRangeError, match="from 100 to 3600000"):
        ClientMetricsConfig.of({"interval.ms": interval})


def test_unknown_keys() -> None:
    with pytest.raises(UnknownClientMetricsKeyError):
        ClientMetricsConfig.of({"interval": "100"})
