"""Metadata versions, features, and the versions of records that go with them."""

from __future__ import annotations

import pytest

from barnabas.broker.metadata.versions import (
    FEATURES,
    FEATURES_BY_NAME,
    LATEST_PRODUCTION,
    LATEST_TESTING,
    METADATA_VERSIONS,
    MINIMUM,
    UnknownVersionError,
    level_text,
    metadata_version,
    parse_version,
    record_version,
    supported_levels,
)
from barnabas.protocol.messages.cluster_records import BrokerRegistrationChangeRecord, RegisterBrokerRecord
from barnabas.protocol.messages.topic_records import PartitionChangeRecord, PartitionRecord, TopicRecord
from barnabas.protocol.schema import Message


def test_levels_have_no_gaps() -> None:
    assert [version.level for version in METADATA_VERSIONS] == list(range(MINIMUM, LATEST_TESTING + 1))
    assert len({version.name for version in METADATA_VERSIONS}) == len(METADATA_VERSIONS)


@pytest.mark.parametrize(
    ("text", "level"),
    [
        ("3.3-IV3", 7),
        ("3.3", 7),
        ("3.3.2", 7),
        ("3.5-IV0", 9),
        ("3.5", 11),
        ("3.9", 21),
        ("4.0", 25),
        ("4.1.1", 27),
        ("4.3.1", 30),
    ],
)
def test_a_release_means_its_newest_level(text: str, level: int) -> None:
    assert parse_version(text).level == level


@pytest.mark.parametrize("text", ["3.2", "3.0-IV1", "4", "", "x", "4.4", "4.4-IV0", "3.3-IV9"])
def test_an_invalid_version_is_reported_with_the_valid_ones(text: str) -> None:
    with pytest.raises(UnknownVersionError, match=rf"'{text}'.* 3\.3-IV3, .*, 4\.3-IV0$"):
        parse_version(text)


def test_unstable_versions_are_accepted_on_demand() -> None:
    assert parse_version("4.4", unstable=True).level == LATEST_TESTING
    with pytest.raises(UnknownVersionError, match=r"4\.4-IV0$"):
        parse_version("5.0", unstable=True)


def test_levels_as_text() -> None:
    assert level_text("metadata.version", 30) == "30 (4.3-IV0)"
    assert level_text("metadata.version", 99) == "99"
    assert level_text("group.version", 1) == "1"
    assert metadata_version(6) is None


def test_the_newest_supported_level_is_the_newest_stable_one() -> None:
    ranges = supported_levels()
    assert ranges["metadata.version"] == (MINIMUM, LATEST_PRODUCTION)
    assert supported_levels(unstable=True)["metadata.version"].high == LATEST_TESTING
    assert {name: ranges[name].high for name in FEATURES_BY_NAME} == {
        feature.name: feature.latest for feature in FEATURES
    }


@pytest.mark.parametrize(
    ("level", "defaults"),
    [
        (7, {}),
        (21, {"kraft.version": 1}),
        (22, {"kraft.version": 1, "group.version": 1}),
        (25, {"kraft.version": 1, "group.version": 1, "transaction.version": 2}),
    ],
)
def test_features_require_the_metadata_version_that_introduced_them(
    level: int, defaults: dict[str, int]
) -> None:
    found = {feature.name: feature.default_level(level) for feature in FEATURES}
    assert {name: level for name, level in found.items() if level} == defaults


@pytest.mark.parametrize(
    ("record", "versions"),
    [
        (TopicRecord(), {7: 0, 30: 0}),
        (PartitionRecord(), {7: 0, 16: 0, 17: 1, 22: 1, 23: 2, 30: 2}),
        (PartitionChangeRecord(), {7: 0, 16: 0, 17: 1, 22: 1, 23: 2, 30: 2}),
        (RegisterBrokerRecord(), {7: 1, 8: 2, 16: 2, 17: 3, 29: 3, 30: 4, 31: 4}),
        (BrokerRegistrationChangeRecord(fenced=1), {7: 0, 30: 0}),
        (BrokerRegistrationChangeRecord(in_controlled_shutdown=1), {7: 1, 30: 1}),
        (BrokerRegistrationChangeRecord(log_dirs=[bytes(16)]), {16: 1, 17: 2, 30: 2}),
        (BrokerRegistrationChangeRecord(cordoned_log_dirs=[]), {29: 2, 30: 3}),
    ],
)
def test_records_are_written_in_the_version_of_the_metadata_version(
    record: Message, versions: dict[int, int]
) -> None:
    assert {level: record_version(record, level) for level in versions} == versions
