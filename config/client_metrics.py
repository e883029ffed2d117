"""A subscription to client metrics (ConfigResource CLIENT_METRICS, KIP-714): metrics, interval and clients.

Source: org.apache.kafka.server.metrics.ClientMetricsConfigs.
"""

from collections.abc import Mapping, Sequence
from re import Pattern
from typing import Any, NamedTuple

from barnabas.config.catalogue import CLIENT_METRICS_KEYS, resources
from barnabas.config.keys import ConfigError

SHORTEST_INTERVAL_MS = 100
LONGEST_INTERVAL_MS = 3_600_000
ALL_METRICS = "*"

# The attributes of a client that a pattern may match.
MATCH_PARAMETERS = frozenset(
    {
        "client_id",
        "client_instance_id",
        "client_software_name",
        "client_software_version",
        "client_source_address",
        "client_source_port",
    }
)


class UnknownClientMetricsKeyError(ConfigError):
    """A subscription has no key of that name. Kafka's error code for it differs from that for an invalid value."""


class IntervalOutOfRangeError(ConfigError):
    """interval.ms is too short or too long. Kafka's error code for it differs from that for other invalid values."""


class ClientMetricsConfig(NamedTuple):
    """A subscription: prefixes of metrics (none: no metrics), the interval, and patterns by attribute."""

    metrics: tuple[str, ...] = resources.CLIENT_METRICS.default
    interval_ms: int = resources.CLIENT_METRICS_INTERVAL_MS.default
    match: Mapping[str, Pattern[str]] = {}

    @classmethod
    def of(cls, settings: Mapping[str, str]) -> "ClientMetricsConfig":
        """The subscription that these settings (texts by key) make. Raises ConfigError for invalid ones."""
        values = effective_client_metrics_values(settings)
        interval_ms = values[resources.CLIENT_METRICS_INTERVAL_MS.name]
        if not SHORTEST_INTERVAL_MS <= interval_ms <= LONGEST_INTERVAL_MS:
            raise IntervalOutOfRangeError(
                resources.CLIENT_METRICS_INTERVAL_MS.name,
                str(interval_ms),
                f"must be from {SHORTEST_INTERVAL_MS} to {LONGEST_INTERVAL_MS}",
                phrase=f"Invalid value {interval_ms} for {resources.CLIENT_METRICS_INTERVAL_MS.name}",
            )
        patterns = values[resources.CLIENT_METRICS_MATCH.name]
        return cls(values[resources.CLIENT_METRICS.name], interval_ms, parse_match(patterns))

    def matches(self, client: Mapping[str, str]) -> bool:
        """Whether the subscription applies to a client with these attributes (by MATCH_PARAMETERS): every pattern
        matches in full.

        A missing attribute never matches.
        """
        return all(name in client and pattern.fullmatch(client[name]) for name, pattern in self.match.items())


def effective_client_metrics_values(settings: Mapping[str, str]) -> dict[str, Any]:
    """Every key's value, by name: the setting, else the default. Raises ConfigError."""
    for name in settings:
        if name not in CLIENT_METRICS_KEYS:
            raise UnknownClientMetricsKeyError(
                name,
                None,
                "is not a key of client metrics",
                phrase=f"Unknown client metrics configuration: {name}",
            )
    return {
        name: key.parse(settings[name]) if name in settings else key.default
        for name, key in CLIENT_METRICS_KEYS.items()
    }


def parse_match(patterns: Sequence[str]) -> dict[str, Pattern[str]]:
    """Compiled patterns by attribute. Raises ConfigError for one that is not name=pattern."""
    import re  # its first use costs milliseconds, and subscriptions are rare

    compiled: dict[str, Pattern[str]] = {}
    for text in patterns:
        name, _, pattern = (part.strip() for part in text.partition("="))
        if name not in MATCH_PARAMETERS or not pattern or "=" in pattern:
            raise _bad_pattern(text)
        try:
            compiled[name] = re.compile(pattern)
        except (
            re.error,
            OverflowError,
            RecursionError,
        ) as error:  # the latter two for patterns that are too large
            raise _bad_pattern(text) from error
    return compiled


def _bad_pattern(text: str) -> ConfigError:
    names = ", ".join(sorted(MATCH_PARAMETERS))
    return resources.CLIENT_METRICS_MATCH.error(
        text,
        f"name=pattern, comma-separated, with a name of {names}",
        f"Illegal client matching pattern: {text}",
    )
