"""Row 2: who may be a broker of the cluster, and how soon a broker is one again."""

from __future__ import annotations

import pytest

from barnabas.storage.env import RealEnv
from barnabas.storage.log.checkpoints import MetaProperties
from tests.support.cluster.rig import ClusterRig
from tests.support.cluster.settings import SESSION_S
from tests.support.cluster.waiting import wait_for

pytestmark = [pytest.mark.conformance, pytest.mark.cluster, pytest.mark.timeout(300)]

ANOTHER_CLUSTER = "AnotherClusterAnother0"


def test_a_broker_of_another_cluster_does_not_become_a_member(rig: ClusterRig) -> None:
    node = rig.brokers[max(rig.brokers)]
    rig.stop_node(node.id)
    paths = [str(path) for path in node.files.log_dirs]
    own = [MetaProperties.read(RealEnv(), path) for path in paths]
    for path in paths:
        MetaProperties(ANOTHER_CLUSTER, node.id, _directory_id(path)).write(RealEnv(), path)
    try:
        node.files.forget_logs()
        rig.start_node(node.id, wait=False)
        wait_for(
            "the mismatch is reported",
            lambda: node.files.has_logged("INCONSISTENT_CLUSTER_ID|InconsistentClusterId"),
        )
        assert node.id not in rig.unfenced()
    finally:
        rig.kill(node.id)
        for path, properties in zip(paths, own, strict=True):
            assert properties is not None
            properties.write(RealEnv(), path)
    rig.start_node(node.id)


def _directory_id(path: str) -> str:
    properties = MetaProperties.read(RealEnv(), path)
    assert properties is not None
    return properties.directory_id


def test_the_id_of_a_live_broker_is_taken(rig: ClusterRig) -> None:
    first, *_, last = rig.brokers
    rig.kill(last)  # its processor is needed
    twin = rig.twin(first)
    twin.spawn()
    try:
        wait_for(
            "the refusal is reported",
            lambda: twin.files.has_logged("DUPLICATE_BROKER_REGISTRATION|DuplicateBrokerRegistration"),
        )
        assert first in rig.unfenced()
        assert rig.client_port_of(first) == rig.shape.brokers[first].client
    finally:
        twin.kill()
    rig.start_node(last)


@pytest.mark.parametrize("after_session", [False, True], ids=["within its session", "after its session"])
def test_a_killed_broker_registers_again(rig: ClusterRig, after_session: bool) -> None:
    for node in rig.brokers:
        rig.kill(node)
        if after_session:
            rig.wait_fenced(node, 5 * SESSION_S)
        rig.start_node(node)
