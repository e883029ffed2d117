"""FindCoordinator on a broker that is alone: it is everybody's coordinator."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.controller.internal_topics import GROUP, TRANSACTION
from protocol.errors import ErrorCode
from protocol.messages.groups import FindCoordinatorRequest, FindCoordinatorResponse
from tests.broker.broker_fixture import DIALLED_HOST, DIALLED_PORT, NODE_ID, InProcessBroker
from tests.support.difference import Like

SHARE = 2


def test_version_0_knows_groups_only(broker: InProcessBroker) -> None:
    here = FindCoordinatorResponse(node_id=NODE_ID, host=DIALLED_HOST, port=DIALLED_PORT)
    assert broker.client(version=0) >> FindCoordinatorRequest(key="g") << here


@pytest.mark.parametrize("key_type", [GROUP, TRANSACTION])
@pytest.mark.parametrize("version", [1, 3])
def test_one_key_is_answered_by_itself(broker: InProcessBroker, version: int, key_type: int) -> None:
    asked = FindCoordinatorRequest(key="k", key_type=key_type)
    here = FindCoordinatorResponse(
        error_message="NONE", node_id=NODE_ID, host=DIALLED_HOST, port=DIALLED_PORT, coordinators=[]
    )
    assert broker.client(version=version) >> asked << here


@pytest.mark.parametrize("key_type", [GROUP, TRANSACTION])
@pytest.mark.parametrize("version", [4, 6])
def test_many_keys_are_answered_one_by_one(broker: InProcessBroker, version: int, key_type: int) -> None:
    asked = FindCoordinatorRequest(coordinator_keys=["a", "b"], key_type=key_type)
    here = {"node_id": NODE_ID, "host": DIALLED_HOST, "port": DIALLED_PORT, "error_code": ErrorCode.NONE}
    answer = Like(
        coordinators=[Like(key="a", error_message="", **here), Like(key="b", error_message="", **here)]
    )
    assert broker.client(version=version) >> asked << answer


def test_no_keys_no_coordinators(broker: InProcessBroker) -> None:
    assert broker.client(version=4) >> FindCoordinatorRequest() << FindCoordinatorResponse()


@pytest.mark.parametrize("key_type", [SHARE, 3, -1])
def test_kinds_of_coordinators_that_are_not_here(broker: InProcessBroker, key_type: int) -> None:
    client = broker.client(version=3)
    nobody = {"error_code": ErrorCode.INVALID_REQUEST, "node_id": -1, "host": "", "port": -1}
    assert client >> FindCoordinatorRequest(key="k", key_type=key_type) << Like(**nobody)
    client = broker.client(version=6)
    asked = FindCoordinatorRequest(coordinator_keys=["k"], key_type=key_type)
    assert client >> asked << Like(coordinators=[Like(key="k", **nobody)])


def test_the_configured_address_is_named(tmp_path: Path) -> None:
    broker = InProcessBroker(tmp_path, {"advertised.listeners": "PLAINTEXT://kafka.example:19092"})
    asked = FindCoordinatorRequest(coordinator_keys=["g"])
    answer = Like(coordinators=[Like(host="kafka.example", port=19092)])
    assert broker.client(version=4) >> asked << answer
    broker.kill()
