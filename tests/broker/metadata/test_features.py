"""Feature levels: supported and rejected ones."""

from __future__ import annotations

import pytest

from barnabas.broker.metadata.features import check_levels, finalized, supported
from barnabas.broker.metadata.log import MetadataLogError
from barnabas.config.broker_config import BrokerConfig

CONFIG = BrokerConfig()
UNSTABLE = BrokerConfig.of(None, overrides=["unstable.feature.versions.enable=true"])


def test_the_features_of_kafka_4_3_are_supported() -> None:
    assert {name: tuple(levels) for name, levels in supported(CONFIG).items()} == {
        "metadata.version": (7, 30),
        "kraft.version": (0, 1),
        "transaction.version": (0, 2),
        "group.version": (0, 1),
        "eligible.leader.replicas.version": (0, 1),
        "share.version": (0, 1),
        "streams.version": (0, 1),
    }


def test_unstable_levels_are_supported_on_demand() -> None:
    assert supported(UNSTABLE)["metadata.version"].high == 31
    check_levels({"metadata.version": 31}, 0, UNSTABLE)


def test_finalized_features_are_the_levels_above_0_and_kraft_version() -> None:
    assert finalized({"metadata.version": 30, "group.version": 0}, 1) == {
        "metadata.version": 30,
        "kraft.version": 1,
    }
    assert finalized({"metadata.version": 30}, 0) == {"metadata.version": 30}


@pytest.mark.parametrize(
    ("levels", "kraft_version", "told"),
    [
        (
            {"metadata.version": 31},
            0,
            r"metadata.version at level 31 \(4.4-IV0\).* 7 \(3.3-IV3\) to 30 \(4.3-IV0\)",
        ),
        ({"metadata.version": 99}, 0, r"metadata.version at level 99; .* 7 \(3.3-IV3\) to 30 \(4.3-IV0\)"),
        ({"metadata.version": 1}, 0, "metadata.version at level 1;"),
        ({"metadata.version": 30, "group.version": 2}, 0, "group.version at level 2; .* 0 to 1"),
        ({"metadata.version": 30, "new.version": 1}, 0, "new.version at level 1; .* 0 to 0"),
        ({"metadata.version": 30}, 2, "kraft.version at level 2; .* 0 to 1"),
    ],
)
def test_an_unsupported_level_is_rejected_with_both_levels(
    levels: dict[str, int], kraft_version: int, told: str
) -> None:
    with pytest.raises(MetadataLogError, match=told):
        check_levels(levels, kraft_version, CONFIG)


def test_features_at_level_0_need_no_support() -> None:
    check_levels({"metadata.version": 7, "unknown.version": 0}, 0, CONFIG)
