from __future__ import annotations

from collections.abc import Callable

import pytest
from click.testing import Result

from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.cluster import UpdateFeaturesResponse
from tests.cli.admin.fake_broker import FakeCluster

Barnabas = Callable[..., Result]


@pytest.mark.parametrize(
    "line",
    [
        "features upgrade",
        "features upgrade --feature x",
        "features upgrade --feature x=y",
        "features upgrade --feature x=1 --feature x=2",
        "features upgrade --feature x=1 --release-version 4.3",
        "features upgrade --release-version 9.9",
        "features disable",
    ],
)
def test_a_wrong_command_line_is_a_usage_error(barnabas: Barnabas, cluster: FakeCluster, line: str) -> None:
    result = barnabas(*line.split())
    assert (result.exit_code, result.stdout) == (2, "")
    assert "Error: " in result.stderr or "Usage: " in result.stderr
    assert not cluster.requests


def test_features_are_described(barnabas: Barnabas, cluster: FakeCluster) -> None:
    assert barnabas("features", "describe").stdout.splitlines() == [
        "Feature: group.version\tSupportedMinVersion: 0\tSupportedMaxVersion: 1\tFinalizedVersionLevel: 0\tEpoch: 5",
        "Feature: metadata.version\tSupportedMinVersion: 3.3-IV3\tSupportedMaxVersion: 4.3-IV0"
        "\tFinalizedVersionLevel: 4.3-IV0\tEpoch: 5",
    ]
    assert barnabas("features", "describe", "--node-id", "1").exit_code == 0
    assert barnabas("features", "describe", "--node-id", "7").exit_code == 1


@pytest.mark.parametrize(
    ("line", "said", "levels"),
    [
        ("upgrade --feature a=1", "a was upgraded to 1.", {"a": (1, 1)}),
        ("upgrade --feature a=1 --dry-run", "a can be upgraded to 1.", {"a": (1, 1)}),
        ("downgrade --feature a=0", "a was downgraded to 0.", {"a": (0, 2)}),
        ("disable --feature a --unsafe", "a was disabled.", {"a": (0, 3)}),
        ("upgrade --metadata 3.9", "metadata.version was upgraded to 21.", {"metadata.version": (21, 1)}),
    ],
)
def test_feature_levels_change(
    barnabas: Barnabas, cluster: FakeCluster, line: str, said: str, levels: dict[str, tuple[int, int]]
) -> None:
    cluster.on(ApiKey.UPDATE_FEATURES, UpdateFeaturesResponse(error_message=None))
    assert barnabas("features", *line.split()).stdout == said + "\n"
    (request,) = cluster.asked(ApiKey.UPDATE_FEATURES)
    assert {
        each.feature: (each.max_version_level, each.upgrade_type) for each in request.feature_updates
    } == levels
    assert request.validate_only == ("--dry-run" in line)


def test_feature_levels_of_a_release(barnabas: Barnabas, cluster: FakeCluster) -> None:
    refusal = UpdateFeaturesResponse(error_code=ErrorCode.INVALID_UPDATE_VERSION, error_message="No.")
    cluster.on(ApiKey.UPDATE_FEATURES, refusal)
    result = barnabas("features", "upgrade", "--release-version", "4.0")
    assert result.exit_code == 1
    (request,) = cluster.asked(ApiKey.UPDATE_FEATURES)
    levels = {each.feature: each.max_version_level for each in request.feature_updates}
    assert levels["metadata.version"] == 25
    assert 0 not in levels.values(), "no feature is raised to 0"
    assert result.stderr.count("No.") == len(levels)
