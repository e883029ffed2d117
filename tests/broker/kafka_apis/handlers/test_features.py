"""UpdateFeatures."""

from __future__ import annotations

from pathlib import Path

import pytest

from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.cluster import UpdateFeaturesRequest, UpdateFeaturesResponse
from tests.broker.broker_fixture import InProcessBroker
from tests.support.difference import Like

CONTROLLER = {
    "listeners": "PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093",
    "controller.listener.names": "CONTROLLER",
}


def updating(
    feature: str, level: int, version: int, *, kind: int = 1, validate_only: bool = False
) -> UpdateFeaturesRequest:
    key = UpdateFeaturesRequest.FeatureUpdateKey(feature=feature, max_version_level=level)
    if version > 0:
        key.upgrade_type = kind
    return UpdateFeaturesRequest(feature_updates=[key], validate_only=validate_only)


@pytest.mark.parametrize("version", [1, 2])
def test_a_level_is_changed_for_the_whole_cluster(broker: InProcessBroker, version: int) -> None:
    client = broker.client(version=version)
    assert client >> updating("group.version", 0, version, kind=2) << Like(error_code=0, error_message=None)
    assert "group.version" not in broker.broker.image.features
    assert client >> updating("group.version", 1, version) << Like(error_code=0)
    assert broker.broker.image.features["group.version"] == 1


@pytest.mark.parametrize("version", [0, 1])
def test_old_versions_have_a_result_for_each_feature(broker: InProcessBroker, version: int) -> None:
    result = UpdateFeaturesResponse.UpdatableFeatureResult(feature="share.version", error_message="NONE")
    assert broker.client(version=version) >> updating("share.version", 1, version) << Like(results=[result])


def test_validate_only_changes_nothing(broker: InProcessBroker) -> None:
    before = broker.broker.image.offset
    request = updating("group.version", 0, 2, kind=2, validate_only=True)
    assert broker.client(version=2) >> request << Like(error_code=0)
    assert broker.broker.image.offset == before


def test_version_0_cannot_lower_a_level(broker: InProcessBroker) -> None:
    request = updating("group.version", 0, 0)
    request.feature_updates[0].allow_downgrade = True
    assert (
        broker.client(version=0) >> request << Like(error_code=ErrorCode.INVALID_UPDATE_VERSION, results=[])
    )


def test_the_log_names_its_voter_once_kraft_version_is_raised(tmp_path: Path) -> None:
    broker = InProcessBroker(tmp_path, CONTROLLER)
    client = broker.client(version=2)
    tried = updating("kraft.version", 1, 2, validate_only=True)
    assert client >> tried << Like(error_code=0)
    assert broker.broker.quorum.kraft_version == 0
    assert client >> updating("kraft.version", 1, 2) << Like(error_code=0)
    assert broker.broker.quorum.kraft_version == 1
    broker.stop()
    again = InProcessBroker(tmp_path, CONTROLLER)
    voters = again.storage.store.raft.control.voters
    assert voters is not None
    (voter,) = voters.voters
    assert (voter.voter_id, voter.voter_directory_id) == (1, again.broker.own_quorum.log.directory_id)
    assert [(at.name, at.host, at.port) for at in voter.endpoints] == [("CONTROLLER", "localhost", 9093)]
    again.stop()


def test_without_a_controller_listener_kraft_version_cannot_be_raised(broker: InProcessBroker) -> None:
    assert (
        broker.client(version=2)
        >> updating("kraft.version", 1, 2)
        << Like(error_code=ErrorCode.INVALID_UPDATE_VERSION)
    )
    assert broker.broker.quorum.kraft_version == 0
