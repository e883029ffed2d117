"""Feature levels: those that this broker supports, and the finalized ones (KIP-584, KIP-1022).

The log keeps the levels of every feature that Apache Kafka 4.3 knows, so that a directory moves between the brokers
unchanged. ApiVersions lists all of them: clients depend on the APIs that it lists as well, and where a level stands for
APIs that are not supported here (share groups, streams groups), those are missing from the list.
"""

from __future__ import annotations

from collections.abc import Mapping

from barnabas.broker.metadata.log import MetadataLogError
from barnabas.broker.metadata.versions import KRAFT_VERSION, LevelRange, level_text, supported_levels
from barnabas.config.broker_config import BrokerConfig
from barnabas.config.catalogue.server import UNSTABLE_FEATURE_VERSIONS_ENABLE


def supported(config: BrokerConfig) -> dict[str, LevelRange]:
    """The levels that this broker supports, by feature."""
    return supported_levels(unstable=config[UNSTABLE_FEATURE_VERSIONS_ENABLE])


def finalized(features: Mapping[str, int], kraft_version: int) -> dict[str, int]:
    """The finalized levels: those of the image, and kraft.version, which only the metadata log has."""
    levels = {name: level for name, level in features.items() if level > 0}
    return levels | ({KRAFT_VERSION: kraft_version} if kraft_version > 0 else {})


def check_levels(features: Mapping[str, int], kraft_version: int, config: BrokerConfig) -> None:
    """Raises MetadataLogError for a finalized level that this broker does not support."""
    ranges = supported(config)
    for name, level in finalized(features, kraft_version).items():
        low, high = ranges.get(name, LevelRange(0, 0))
        if not low <= level <= high:
            raise MetadataLogError(
                f"the metadata have {name} at level {level_text(name, level)}; this broker supports levels "
                f"{level_text(name, low)} to {level_text(name, high)}: start a broker that supports it, or lower "
                "the level there first"
            )
