"""The rules of feature levels: which may be raised and lowered, and the records of that.

Pure functions, with the messages of Kafka's FeatureControlManager. The updates of a request are made all or
none. metadata.version goes down only as far as the records stay the same; kraft.version never does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple

from barnabas.broker.metadata.bootstrap import default_min_insync_replicas
from barnabas.broker.metadata.image import BROKER_RESOURCE, MetadataImage
from barnabas.broker.metadata.versions import (
    ELIGIBLE_LEADER_REPLICAS_VERSION,
    FEATURES_BY_NAME,
    KRAFT_VERSION,
    METADATA_VERSION,
    METADATA_VERSIONS,
    LevelRange,
)
from barnabas.config.catalogue.log import MIN_INSYNC_REPLICAS
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages.topic_records import ConfigRecord, FeatureLevelRecord
from barnabas.protocol.schema import Message


class UpgradeType(IntEnum):
    """What an update may do, as UpdateFeatures numbers it; any other number is rejected."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


class FeatureUpdate(NamedTuple):
    """The level that a feature is to have. `upgrade_type` is one of UpgradeType, or an invalid number."""

    feature: str
    level: int
    upgrade_type: int = UpgradeType.UPGRADE


class FeatureRules(NamedTuple):
    """The inputs of the rules beside the image: this node, its levels, kraft.version, the static min.insync.replicas.

    `can_name_voters`: the configuration has the listener by which the log names a voter.
    """

    node_id: int
    supported: Mapping[str, LevelRange]
    kraft_version: int
    min_insync_replicas: int
    can_name_voters: bool = True


def update_features(
    image: MetadataImage, updates: Sequence[FeatureUpdate], rules: FeatureRules
) -> list[Message]:
    """The records of all updates. Raises ApiError for the first invalid one.

    kraft.version is not among the records: the log itself keeps it.
    """
    proposed = {**image.features, **{update.feature: update.level for update in updates}}
    records: list[Message] = []
    for update in updates:
        _check(image, update, proposed, rules)
        if update.feature == KRAFT_VERSION:
            continue
        if update.feature == ELIGIBLE_LEADER_REPLICAS_VERSION and update.level > 0:
            records += min_insync_records(image, rules.min_insync_replicas)
        records.append(FeatureLevelRecord(name=update.feature, feature_level=update.level))
    return records


def min_insync_records(image: MetadataImage, static: int) -> list[Message]:
    """Sets the one min.insync.replicas of the cluster that eligible leader replicas need; removes those of brokers."""
    records: list[Message] = []
    if MIN_INSYNC_REPLICAS.name not in image.configs.get((BROKER_RESOURCE, ""), {}):
        records.append(default_min_insync_replicas(static))
    for (kind, name), settings in image.configs.items():
        if kind == BROKER_RESOURCE and name and MIN_INSYNC_REPLICAS.name in settings:
            records.append(
                ConfigRecord(
                    resource_type=kind, resource_name=name, name=MIN_INSYNC_REPLICAS.name, value=None
                )
            )
    return records


def _check(
    image: MetadataImage, update: FeatureUpdate, proposed: Mapping[str, int], rules: FeatureRules
) -> None:
    level = update.level
    if update.upgrade_type not in UpgradeType.__members__.values():
        raise _invalid(update, "The controller does not support the given upgrade type.")
    if level < 0:
        raise _invalid(update, "A feature version cannot be less than 0.")
    _check_supported(update, rules)
    is_kraft = update.feature == KRAFT_VERSION
    current = rules.kraft_version if is_kraft else image.features.get(update.feature, 0)
    if level < current and update.upgrade_type == UpgradeType.UPGRADE:
        raise _invalid(
            update,
            "Can't downgrade the version of this feature without setting the upgrade type to either safe or unsafe "
            "downgrade.",
        )
    if level > current and update.upgrade_type != UpgradeType.UPGRADE:
        raise _invalid(update, "Can't downgrade to a newer version.")
    if is_kraft and level < current:
        raise _invalid(update, "Can't downgrade the version of this feature.")
    if is_kraft and level > current and not rules.can_name_voters:
        raise _invalid(
            update, "The configuration names no listener of the controller for the voter to be named by."
        )
    if update.feature == METADATA_VERSION:
        _check_metadata_version(update, current)
    else:
        _check_dependencies(update, proposed)


def _check_supported(update: FeatureUpdate, rules: FeatureRules) -> None:
    low, high = rules.supported.get(update.feature, LevelRange(0, 0))
    if low <= update.level <= high:
        return
    if high == 0:
        raise _invalid(update, f"Local controller {rules.node_id} does not support this feature.")
    raise _invalid(update, f"Local controller {rules.node_id} only supports versions {low}-{high}")


def _check_metadata_version(update: FeatureUpdate, current: int) -> None:
    if update.level >= current:
        return
    lost = any(
        version.changes_metadata for version in METADATA_VERSIONS if update.level < version.level <= current
    )
    if not lost:
        return
    message = f"Unsupported metadata.version downgrade from {current} to {update.level}. "
    if update.upgrade_type == UpgradeType.UNSAFE_DOWNGRADE:
        message += "Unsafe metadata downgrade is not supported in this version."
    else:
        message += "Refusing to perform the requested downgrade because it might delete metadata information."
    raise _failed(message)


def _check_dependencies(update: FeatureUpdate, proposed: Mapping[str, int]) -> None:
    feature = FEATURES_BY_NAME.get(update.feature)
    if feature is None:
        raise _invalid(update, f"Feature {update.feature} not found.")
    needs = next(one.dependencies for one in feature.levels if one.level == update.level)
    for needed, at_least in needs.items():
        if proposed.get(needed, 0) < at_least:
            raise _invalid(
                update,
                f"{update.feature} could not be set to {update.level} because it depends on {needed} level {at_least}",
            )


def _invalid(update: FeatureUpdate, why: str) -> ApiError:
    return _failed(f"Invalid update version {update.level} for feature {update.feature}. {why}")


def _failed(why: str) -> ApiError:
    return ApiError(
        ErrorCode.INVALID_UPDATE_VERSION,
        f"The update failed for all features since the following feature had an error: {why}",
    )
