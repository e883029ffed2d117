"""The metadata versions and other features, the meaning of each level, and the levels that belong together.

A feature has a level that is finalized for the whole cluster. metadata.version sets the versions of metadata records;
kraft.version how the quorum works; the others what coordinators do. The tables are those of Apache Kafka 4.3, so that a
directory moves between the brokers with its levels unchanged.
Source: org.apache.kafka.server.common.MetadataVersion, Feature and the enums that it names; KIP-584, KIP-778, KIP-1022.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from barnabas.protocol.messages.cluster_records import BrokerRegistrationChangeRecord, RegisterBrokerRecord
from barnabas.protocol.messages.topic_records import PartitionChangeRecord, PartitionRecord
from barnabas.protocol.schema import Message

METADATA_VERSION: Final = "metadata.version"
KRAFT_VERSION: Final = "kraft.version"
TRANSACTION_VERSION: Final = "transaction.version"
GROUP_VERSION: Final = "group.version"
ELIGIBLE_LEADER_REPLICAS_VERSION: Final = "eligible.leader.replicas.version"
SHARE_VERSION: Final = "share.version"
STREAMS_VERSION: Final = "streams.version"


class MetadataVersion(NamedTuple):
    """One level of metadata.version. `changes_metadata`: records differ from those of the level below."""

    level: int
    name: str
    changes_metadata: bool

    @property
    def release(self) -> str:
        """The release that brought it, as `--release-version` takes it: "3.3" for 3.3-IV3."""
        return self.name.partition("-")[0]


METADATA_VERSIONS: Final = (
    MetadataVersion(7, "3.3-IV3", True),
    MetadataVersion(8, "3.4-IV0", True),
    MetadataVersion(9, "3.5-IV0", False),
    MetadataVersion(10, "3.5-IV1", False),
    MetadataVersion(11, "3.5-IV2", True),
    MetadataVersion(12, "3.6-IV0", False),
    MetadataVersion(13, "3.6-IV1", True),
    MetadataVersion(14, "3.6-IV2", True),
    MetadataVersion(15, "3.7-IV0", True),
    MetadataVersion(16, "3.7-IV1", False),
    MetadataVersion(17, "3.7-IV2", True),
    MetadataVersion(18, "3.7-IV3", False),
    MetadataVersion(19, "3.7-IV4", False),
    MetadataVersion(20, "3.8-IV0", False),
    MetadataVersion(21, "3.9-IV0", False),
    MetadataVersion(22, "4.0-IV0", False),
    MetadataVersion(23, "4.0-IV1", True),
    MetadataVersion(24, "4.0-IV2", False),
    MetadataVersion(25, "4.0-IV3", False),
    MetadataVersion(26, "4.1-IV0", False),
    MetadataVersion(27, "4.1-IV1", False),
    MetadataVersion(28, "4.2-IV0", False),
    MetadataVersion(29, "4.2-IV1", False),
    MetadataVersion(30, "4.3-IV0", True),
    MetadataVersion(31, "4.4-IV0", False),
)
"""All levels, in order; those above LATEST_PRODUCTION may still change."""

MINIMUM: Final = 7
LATEST_PRODUCTION: Final = 30
LATEST_TESTING: Final = 31

SCRAM: Final = 11
"""The first metadata.version with SCRAM credentials in the metadata; the next ones likewise for what they name."""
NO_EPOCH_BUMP_ON_ISR_SHRINK: Final = 12
METADATA_TRANSACTIONS: Final = 13
DELEGATION_TOKENS: Final = 14
CONTROLLER_REGISTRATION: Final = 15
DIRECTORY_ASSIGNMENT: Final = 17
ELIGIBLE_LEADER_REPLICAS: Final = 23
CORDONED_LOG_DIRS: Final = 30

_BY_LEVEL: Final = {version.level: version for version in METADATA_VERSIONS}
_BY_NAME: Final = {version.name: version for version in METADATA_VERSIONS}


class FeatureLevel(NamedTuple):
    """One level of a feature: it is the default from metadata.version `since` on, and needs `dependencies`."""

    level: int
    since: int
    dependencies: Mapping[str, int] = {}


class Feature(NamedTuple):
    """A feature other than metadata.version, with its levels in order."""

    name: str
    levels: tuple[FeatureLevel, ...]

    @property
    def latest(self) -> int:
        return self.levels[-1].level

    def default_level(self, metadata_version: int) -> int:
        """The level that a cluster formatted with that metadata.version gets."""
        return max(level.level for level in self.levels if level.since <= metadata_version)


FEATURES: Final = (
    Feature(KRAFT_VERSION, (FeatureLevel(0, 7), FeatureLevel(1, 21))),
    Feature(TRANSACTION_VERSION, (FeatureLevel(0, 7), FeatureLevel(1, 24), FeatureLevel(2, 24))),
    Feature(GROUP_VERSION, (FeatureLevel(0, 7), FeatureLevel(1, 22))),
    Feature(
        ELIGIBLE_LEADER_REPLICAS_VERSION, (FeatureLevel(0, 7), FeatureLevel(1, 26, {METADATA_VERSION: 23}))
    ),
    Feature(SHARE_VERSION, (FeatureLevel(0, 7), FeatureLevel(1, 28))),
    Feature(STREAMS_VERSION, (FeatureLevel(0, 7), FeatureLevel(1, 29))),
)
"""In the order of Kafka's enum Feature, in which its tools print them."""

FEATURES_BY_NAME: Final = {feature.name: feature for feature in FEATURES}


class LevelRange(NamedTuple):
    """The levels of a feature that are supported, both ends included."""

    low: int
    high: int


def supported_levels(*, unstable: bool = False) -> dict[str, LevelRange]:
    """The supported levels by feature name. `unstable` (unstable.feature.versions.enable): also unstable levels."""
    ranges = {METADATA_VERSION: LevelRange(MINIMUM, LATEST_TESTING if unstable else LATEST_PRODUCTION)}
    return ranges | {feature.name: LevelRange(0, feature.latest) for feature in FEATURES}


def metadata_version(level: int) -> MetadataVersion | None:
    """The metadata version of a level; None when there is none."""
    return _BY_LEVEL.get(level)


def level_text(feature: str, level: int) -> str:
    """A level for people: "30 (4.3-IV0)" for metadata.version, the number for the others."""
    version = _BY_LEVEL.get(level) if feature == METADATA_VERSION else None
    return str(level) if version is None else f"{level} ({version.name})"


class UnknownVersionError(ValueError):
    """The metadata version does not exist, or may still change and unstable ones are not allowed."""


def parse_version(text: str, *, unstable: bool = False) -> MetadataVersion:
    """The version that `text` names: "3.3-IV3" itself, "3.3" or "3.3.1" the newest of that release.

    Raises UnknownVersionError with the message of Kafka's MetadataVersion.fromVersionString.
    """
    start = ".".join(text.split(".")[:2])
    found = _BY_NAME.get(start)
    if found is None:
        found = next((one for one in reversed(METADATA_VERSIONS) if one.release == start), None)
    if found is None or (found.level > LATEST_PRODUCTION and not unstable):
        shown = LATEST_TESTING if unstable else LATEST_PRODUCTION
        names = ", ".join(one.name for one in METADATA_VERSIONS if one.level <= shown)
        raise UnknownVersionError(
            f"Unknown metadata.version '{text}'. Supported metadata.version are: {names}"
        )
    return found


def record_version(record: Message, metadata_version: int) -> int:
    """The version of a record under a metadata.version."""
    match record:
        case RegisterBrokerRecord():
            return _stepped(
                metadata_version, (CORDONED_LOG_DIRS, 4), (DIRECTORY_ASSIGNMENT, 3), (8, 2), (7, 1)
            )
        case PartitionRecord() | PartitionChangeRecord():
            return _stepped(metadata_version, (ELIGIBLE_LEADER_REPLICAS, 2), (DIRECTORY_ASSIGNMENT, 1))
        case BrokerRegistrationChangeRecord():
            return min(
                _registration_change_version(record),
                _stepped(metadata_version, (CORDONED_LOG_DIRS, 3), (DIRECTORY_ASSIGNMENT, 2), (7, 1)),
            )
    return 0


def _stepped(metadata_version: int, *steps: tuple[int, int]) -> int:
    """The record version of the first (metadata.version, record version) that is reached, or 0."""
    return next((version for since, version in steps if metadata_version >= since), 0)


def _registration_change_version(record: BrokerRegistrationChangeRecord) -> int:
    """The lowest version that holds what the record says, as Kafka writes it."""
    if record.cordoned_log_dirs is not None:
        return 3
    if record.log_dirs:
        return 2
    return 1 if record.in_controlled_shutdown else 0
