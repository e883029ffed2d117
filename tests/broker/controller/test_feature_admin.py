"""The rules of feature levels, and their records."""

from __future__ import annotations

import pytest

from barnabas.broker.controller.feature_admin import FeatureRules, FeatureUpdate, UpgradeType, update_features
from barnabas.broker.metadata.image import BROKER_RESOURCE, MetadataImage
from barnabas.broker.metadata.replay import replayed
from barnabas.broker.metadata.versions import supported_levels
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages.topic_records import ConfigRecord, FeatureLevelRecord
from barnabas.protocol.schema import Message

ELR = "eligible.leader.replicas.version"
RULES = FeatureRules(1, supported_levels(), kraft_version=0, min_insync_replicas=3)


def level(name: str, value: int) -> FeatureLevelRecord:
    return FeatureLevelRecord(name=name, feature_level=value)


def min_insync(broker: str, value: str | None) -> ConfigRecord:
    return ConfigRecord(
        resource_type=BROKER_RESOURCE, resource_name=broker, name="min.insync.replicas", value=value
    )


def image(*records: Message, metadata_version: int = 30) -> MetadataImage:
    return replayed(MetadataImage.empty(), [level("metadata.version", metadata_version), *records])[0]


def refusal(before: MetadataImage, *updates: FeatureUpdate, rules: FeatureRules = RULES) -> str:
    with pytest.raises(ApiError) as raised:
        update_features(before, updates, rules)
    assert raised.value.code == ErrorCode.INVALID_UPDATE_VERSION
    return str(raised.value.message)


def test_a_level_can_be_raised_and_lowered() -> None:
    up = FeatureUpdate("group.version", 1)
    assert update_features(image(), [up], RULES) == [level("group.version", 1)]
    down = FeatureUpdate("group.version", 0, UpgradeType.SAFE_DOWNGRADE)
    assert update_features(image(level("group.version", 1)), [down], RULES) == [level("group.version", 0)]


def test_metadata_version_can_be_raised_and_lowered_between_levels_with_the_same_records() -> None:
    before = image(metadata_version=29)
    assert update_features(before, [FeatureUpdate("metadata.version", 30)], RULES)
    down = FeatureUpdate("metadata.version", 24, UpgradeType.SAFE_DOWNGRADE)
    assert update_features(before, [down], RULES) == [level("metadata.version", 24)]


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (UpgradeType.SAFE_DOWNGRADE, "might delete metadata"),
        (UpgradeType.UNSAFE_DOWNGRADE, "Unsafe metadata"),
    ],
)
def test_metadata_version_cannot_be_lowered_past_a_change_of_records(kind: UpgradeType, words: str) -> None:
    assert words in refusal(image(), FeatureUpdate("metadata.version", 29, kind))


@pytest.mark.parametrize(
    ("update", "words"),
    [
        (FeatureUpdate("group.version", 2), "only supports versions 0-1"),
        (FeatureUpdate("metadata.version", 31), "only supports versions 7-30"),
        (FeatureUpdate("no.such", 1), "does not support this feature"),
        (FeatureUpdate("no.such", 0), "Feature no.such not found"),
        (FeatureUpdate("group.version", -1), "cannot be less than 0"),
        (FeatureUpdate("group.version", 1, 4), "does not support the given upgrade type"),
        (FeatureUpdate("group.version", 1, UpgradeType.SAFE_DOWNGRADE), "downgrade to a newer version"),
        (FeatureUpdate("metadata.version", 29), "either safe or unsafe downgrade"),
    ],
)
def test_invalid_updates_are_rejected(update: FeatureUpdate, words: str) -> None:
    told = refusal(image(), update)
    assert told.startswith("The update failed for all features since the following feature had an error: ")
    assert words in told


def test_one_invalid_update_fails_all() -> None:
    assert "group.version" in refusal(
        image(), FeatureUpdate("share.version", 1), FeatureUpdate("group.version", 2)
    )


def test_eligible_leader_replicas_need_a_metadata_version_and_may_be_raised_with_it() -> None:
    before = image(metadata_version=22)
    assert "depends on metadata.version level 23" in refusal(before, FeatureUpdate(ELR, 1))
    both = [FeatureUpdate(ELR, 1), FeatureUpdate("metadata.version", 23)]
    assert update_features(before, both, RULES)[-2:] == [level(ELR, 1), level("metadata.version", 23)]


def test_eligible_leader_replicas_replace_min_insync_replicas_by_one_for_the_cluster() -> None:
    raised = update_features(image(min_insync("1", "2")), [FeatureUpdate(ELR, 1)], RULES)
    assert raised == [min_insync("", "3"), min_insync("1", None), level(ELR, 1)]
    again = update_features(image(min_insync("", "1"), level(ELR, 1)), [FeatureUpdate(ELR, 1)], RULES)
    assert again == [level(ELR, 1)]


def test_kraft_version_is_in_the_log_and_cannot_be_lowered() -> None:
    assert update_features(image(), [FeatureUpdate("kraft.version", 1)], RULES) == []
    raised = RULES._replace(kraft_version=1)
    down = FeatureUpdate("kraft.version", 0, UpgradeType.SAFE_DOWNGRADE)
    assert refusal(image(), down, rules=raised).endswith("Can't downgrade the version of this feature.")
    nameless = RULES._replace(can_name_voters=False)
    assert "listener of the controller" in refusal(image(), FeatureUpdate("kraft.version", 1), rules=nameless)
