"""Feature levels: what this broker can do, and what the cluster has switched on (KIP-584, KIP-1022).

The log keeps the levels of every feature that Apache Kafka 4.3 knows, so that a directory comes and goes with them as
they are. Clients are told of all of them: what they send hangs on the APIs that are served, which ApiVersions lists
beside, and where a level stands for APIs that are not here (share groups, streams groups), those are missed first.
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
    """The levels that are in force: those of the image, and kraft.version, which only the metadata log itself knows."""
    levels = {name: level for name, level in features.items() if level > 0}
    return levels | ({KRAFT_VERSION: kraft_version} if kraft_version > 0 else {})


def check_levels(features: Mapping[str, int], kraft_version: int, config: BrokerConfig) -> None:
    """Raises MetadataLogError where a level in force is not one that this broker supports."""
    ranges = supported(config)
    for name, level in finalized(features, kraft_version).items():
        low, high = ranges.get(name, LevelRange(0, 0))
        if not low <= level <= high:
            raise MetadataLogError(
                f"the metadata have {name} at level {level_text(name, level)}; this broker supports levels "
                f"{level_text(name, low)} to {level_text(name, high)}: start a broker that knows it, or lower "
                "the level there first"
            )
