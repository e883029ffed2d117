"""Brokers, controllers, features and the metadata quorum."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Any, Final, NamedTuple

from barnabas.cli.admin.client import ANYONE, CONTROLLER, CONTROLLERS, AdminClient, Target
from barnabas.cli.admin.errors import check
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.cluster import UnregisterBrokerRequest, UpdateFeaturesRequest
from barnabas.protocol.messages.metadata import DescribeClusterRequest
from barnabas.protocol.messages.quorum import DescribeQuorumRequest, DescribeQuorumResponse

BROKERS: Final = 1
METADATA_TOPIC: Final = "__cluster_metadata"
METADATA_VERSION: Final = "metadata.version"


class NodeInfo(NamedTuple):
    """One broker or controller."""

    id: int
    host: str
    port: int
    rack: str | None
    is_fenced: bool


class ClusterInfo(NamedTuple):
    """The brokers of a cluster, or its controllers."""

    cluster_id: str
    controller_id: int
    nodes: list[NodeInfo]
    are_controllers: bool


class FeatureInfo(NamedTuple):
    """One feature: the supported levels, and the finalized level (0: not finalized)."""

    name: str
    min_supported: int
    max_supported: int
    finalized: int
    epoch: int
    """Of the finalized features; -1: unknown."""


class UpgradeType(IntEnum):
    """The permitted changes of a level (`FeatureUpdate.UpgradeType`)."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


def describe_cluster(client: AdminClient, *, include_fenced: bool = False) -> ClusterInfo:
    """The brokers, sorted by id; with --bootstrap-controller, the controllers."""
    endpoint_type = CONTROLLERS if client.settings.is_controller else BROKERS
    request = DescribeClusterRequest(endpoint_type=endpoint_type, include_fenced_brokers=include_fenced)
    oldest = 2 if include_fenced else (1 if client.settings.is_controller else 0)
    answer = client.send(request, versions=f"{oldest}-2")
    check(answer.error_code, answer.error_message)
    nodes = [
        NodeInfo(each.broker_id, each.host, each.port, each.rack, each.is_fenced) for each in answer.brokers
    ]
    return ClusterInfo(answer.cluster_id, answer.controller_id, sorted(nodes), client.settings.is_controller)


def unregister_broker(client: AdminClient, broker_id: int) -> None:
    """Removes a broker from the cluster's metadata."""
    answer = client.send(UnregisterBrokerRequest(broker_id=broker_id), CONTROLLER)
    check(answer.error_code, answer.error_message, about=f"broker {broker_id}")


def describe_features(client: AdminClient, to: Target = ANYONE) -> list[FeatureInfo]:
    """All features that the broker supports, sorted by name."""
    answer = client.features(to)
    finalized = {each.name: each.max_version_level for each in answer.finalized_features}
    epoch = answer.finalized_features_epoch
    return sorted(
        FeatureInfo(each.name, each.min_version, each.max_version, finalized.get(each.name, 0), epoch)
        for each in answer.supported_features
    )


def update_features(
    client: AdminClient, levels: Mapping[str, int], kind: UpgradeType, *, validate_only: bool
) -> dict[str, str | None]:
    """The error of each feature, None for those that were updated: all of them are, or none."""
    updates = [
        UpdateFeaturesRequest.FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=kind)
        for name, level in levels.items()
    ]
    request = UpdateFeaturesRequest(feature_updates=updates, validate_only=validate_only)
    answer = client.send(request, CONTROLLER, versions="1-2")
    if answer.error_code != ErrorCode.NONE and not answer.results:
        message = answer.error_message or ErrorCode(answer.error_code).text
        return dict.fromkeys(levels, message)
    failed = {each.feature: each for each in answer.results if each.error_code != ErrorCode.NONE}
    return {
        name: failed[name].error_message or ErrorCode(failed[name].error_code).text
        if name in failed
        else None
        for name in levels
    }


class QuorumReplica(NamedTuple):
    """The position of one voter or observer in the metadata log. Times are milliseconds since 1970, -1: unknown."""

    id: int
    directory_id: bytes
    log_end_offset: int
    last_fetch_timestamp: int
    last_caught_up_timestamp: int


class QuorumInfo(NamedTuple):
    """The metadata quorum as its leader describes it."""

    leader_id: int
    leader_epoch: int
    high_watermark: int
    voters: list[QuorumReplica]
    observers: list[QuorumReplica]
    endpoints: dict[int, list[str]]
    """The controller endpoints of a node, as NAME://host:port, by the node's id."""

    @property
    def leader(self) -> QuorumReplica | None:
        """The leader among the voters."""
        return next((voter for voter in self.voters if voter.id == self.leader_id), None)


def describe_quorum(client: AdminClient) -> QuorumInfo:
    """The state of `__cluster_metadata-0`."""
    partition = DescribeQuorumRequest.PartitionData(partition_index=0)
    topic = DescribeQuorumRequest.TopicData(topic_name=METADATA_TOPIC, partitions=[partition])
    answer = client.send(DescribeQuorumRequest(topics=[topic]))
    check(answer.error_code, answer.error_message)
    state = answer.topics[0].partitions[0]
    check(state.error_code, state.error_message, about=METADATA_TOPIC)
    return QuorumInfo(
        state.leader_id,
        state.leader_epoch,
        state.high_watermark,
        [_replica(each) for each in state.current_voters],
        [_replica(each) for each in state.observers],
        _endpoints(answer),
    )


def _replica(state: Any) -> QuorumReplica:
    return QuorumReplica(
        state.replica_id,
        state.replica_directory_id,
        state.log_end_offset,
        state.last_fetch_timestamp,
        state.last_caught_up_timestamp,
    )


def _endpoints(answer: DescribeQuorumResponse) -> dict[int, list[str]]:
    return {
        node.node_id: [f"{each.name}://{each.host}:{each.port}" for each in node.listeners]
        for node in answer.nodes
    }
