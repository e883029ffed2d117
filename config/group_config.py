"""The configuration of one group (ConfigResource GROUP): its settings over the broker's, within the broker's bounds.

Source: GroupConfig and GroupConfigManager.
"""

from collections.abc import Mapping
from typing import Any

from barnabas.config.catalogue import GROUP_KEYS, resources
from barnabas.config.checks import BOUNDED
from barnabas.config.keys import ConfigError, ConfigKey
from barnabas.config.log_config import BrokerValues

Bound = ConfigKey[int] | None

# Each row: a key of groups, and the broker's keys for its bounds.
BOUNDS: tuple[tuple[ConfigKey[int], Bound, Bound], ...] = tuple(
    (key, low, high)
    for low, broker_key, high in BOUNDED
    for key in GROUP_KEYS.values()
    if key.synonyms and key.synonyms[0].name == broker_key.name
)

# Each row: the first must be smaller than the second.
LESS_THAN: tuple[tuple[ConfigKey[int], ConfigKey[int]], ...] = (
    (resources.CONSUMER_HEARTBEAT_INTERVAL_MS, resources.CONSUMER_SESSION_TIMEOUT_MS),
    (resources.SHARE_HEARTBEAT_INTERVAL_MS, resources.SHARE_SESSION_TIMEOUT_MS),
    (resources.STREAMS_HEARTBEAT_INTERVAL_MS, resources.STREAMS_SESSION_TIMEOUT_MS),
)


def effective_group_values(broker: BrokerValues, overrides: Mapping[str, str]) -> dict[str, Any]:
    """Every group key's effective value. Raises ConfigError for an override that is invalid by itself."""
    parsed = {name: group_key(name).parse(text) for name, text in overrides.items()}
    return {
        name: parsed[name] if name in parsed else broker_value(broker, key)
        for name, key in GROUP_KEYS.items()
    }


def broker_value(broker: BrokerValues, key: ConfigKey[Any]) -> Any:
    """The broker's value for a group key that the group does not set."""
    return broker.value_of(key.synonyms[0].name) if key.synonyms else key.default


def group_value(broker: BrokerValues, overrides: Mapping[str, str], key: ConfigKey[Any]) -> Any:
    """The effective value for a group: its own, clamped to the broker's current bounds, or the broker's.

    The bounds may have changed since it was set (GroupConfig.evaluate).
    """
    text = overrides.get(key.name)
    if text is None:
        return broker_value(broker, key)
    value = key.parse(text)
    for bounded, low, high in BOUNDS:
        if bounded is not key:
            continue
        if low is not None:
            value = max(value, broker.value_of(low.name))
        if high is not None:
            value = min(value, broker.value_of(high.name))
    return value


def group_key(name: str) -> ConfigKey[Any]:
    """The group key of that name; raises ConfigError for an unknown name."""
    key = GROUP_KEYS.get(name)
    if key is None:
        raise ConfigError(
            name, None, "is not a group configuration key", phrase=f"Unknown group config name: {name}"
        )
    return key


def validate_group_overrides(overrides: Mapping[str, str], broker: BrokerValues) -> None:
    """Checks what a client wants to set on a group; raises ConfigError (GroupConfigManager.validate)."""
    values = effective_group_values(broker, overrides)
    for key, low, high in BOUNDS:
        _check_bounds(key, values[key.name], broker, low, high)
    for small, great in LESS_THAN:
        if values[small.name] >= values[great.name]:
            limit = f"less than {great.name}, which is {values[great.name]}"
            phrase = f"{small.name} must be less than {great.name}"
            raise small.error(str(values[small.name]), limit, phrase)


def _check_bounds(key: ConfigKey[int], value: int, broker: BrokerValues, low: Bound, high: Bound) -> None:
    lowest = None if low is None else broker.value_of(low.name)
    highest = None if high is None else broker.value_of(high.name)
    if low is not None and lowest is not None and value < lowest:
        phrase = f"{key.name} must be greater than or equal to {low.name}"
        raise key.error(str(value), f"at least the broker's {low.name}, which is {lowest}", phrase)
    if high is not None and highest is not None and value > highest:
        phrase = f"{key.name} must be less than or equal to {high.name}"
        raise key.error(str(value), f"at most the broker's {high.name}, which is {highest}", phrase)
