"""The metrics of a member of a cluster, over the real parts of one."""

from __future__ import annotations

from array import array
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from barnabas.broker.membership.lifecycle import BrokerState
from barnabas.broker.metrics.member_metrics import add_member
from barnabas.broker.metrics.prometheus import Metrics, Sample
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.topic_records import PartitionChangeRecord, RemoveTopicRecord
from tests.broker.cluster_images import topic_id, topic_records
from tests.broker.metrics.snapshots import snapshot_at_once
from tests.broker.metrics.test_sources import value, values
from tests.broker.running_server import LOCALHOST, connected, running
from tests.broker.startup.fake_controller import (
    CONTROLLER_ID,
    MEMBER_ID,
    config_of_member,
    controlling,
    until,
)
from tests.broker.startup.test_cluster_control import OTHER, PLAINTEXT, produced


async def test_the_state_the_replicas_and_the_fetchers(tmp_path: Path) -> None:
    async with controlling() as controller, running(config_of_member(tmp_path, controller)) as server:
        metrics = server.observers.metrics(server)
        assert server.membership is not None
        assert value(metrics, "kafka_server_kafkaserver_brokerstate") == BrokerState.RUNNING
        assert value(metrics, "kafka_controller_kafkacontroller_activecontrollercount") == 0
        context = server.membership.control.leader_context
        context.shrinks, context.expands, context.failed = 1, 2, 3
        for name, count in {"isrshrinks": 1, "isrexpands": 2, "failedisrupdates": 3}.items():
            assert value(metrics, f"kafka_server_replicamanager_{name}_total") == count
        traffic = context.traffic
        traffic.bytes_in, traffic.bytes_out = 10, 20
        traffic.reassignment_bytes_in, traffic.reassignment_bytes_out = 3, 4
        for name, count in {
            "replicationbytesin": 10,
            "replicationbytesout": 20,
            "reassignmentbytesin": 3,
            "reassignmentbytesout": 4,
        }.items():
            assert values(metrics, f"kafka_server_brokertopicmetrics_{name}_total") == {(): count}
        forwarding = server.membership.control.forwarding_probe
        forwarding.queue_length = 2
        forwarding.queue.add(0.5)
        forwarding.remote.add(0.25)
        prefix = "kafka_server_forwardingmanager"
        assert value(metrics, f"{prefix}_queuelength") == 2
        snapshot = {family.name: samples for family, samples in snapshot_at_once(metrics)}
        assert snapshot[f"{prefix}_queuetimems"] == [((), 1, array("d", [500]))]
        assert snapshot[f"{prefix}_remotetimems"] == [((), 1, array("d", [250]))]
        for name in ("leader", "follower"):
            assert value(metrics, f"kafka_server_{name}replication_byte_rate") == 0
        raft = "kafka_server_raft_metrics"
        assert values(metrics, f"{raft}_current_state_info") == {("observer",): 1}
        assert value(metrics, f"{raft}_current_leader") == CONTROLLER_ID
        assert value(metrics, f"{raft}_current_vote") == -1
        await until(lambda: value(metrics, f"{raft}_log_end_offset") == controller.end_offset)
        assert value(metrics, f"{raft}_high_watermark") == controller.end_offset
        assert value(metrics, f"{raft}_log_end_epoch") == value(metrics, f"{raft}_current_epoch") == 1
        assert value(metrics, f"{raft}_fetch_records_rate") >= 0
        metadata = "kafka_server_broker_metadata_metrics"
        written_ms = value(metrics, f"{metadata}_last_applied_record_timestamp")
        assert written_ms == 1
        assert value(metrics, f"{metadata}_last_applied_record_lag_ms") > 0
        assert value(metrics, f"{metadata}_metadata_load_error_count") == 0
        assert value(metrics, "kafka_server_metadataloader_handleloadsnapshotcount") == 0
        for name in ("maxlag", "minfetchrate", "failedpartitionscount", "deadthreadcount"):
            assert value(metrics, f"kafka_server_replicafetchermanager_{name}") == 0
        assert value(metrics, "kafka_server_assignmentsmanager_queuedreplicatodirassignments") == 0


async def test_each_fetcher_and_each_partition_that_is_followed(tmp_path: Path) -> None:
    async with (
        controlling() as controller,
        running(config_of_member(tmp_path / "leader", controller, node_id=str(OTHER))) as leader,
        running(config_of_member(tmp_path / "follower", controller)) as follower,
    ):
        metrics = follower.observers.metrics(follower)
        lag, requests, received = (
            "kafka_server_fetcherlagmetrics_consumerlag",
            "kafka_server_fetcherstats_requests_total",
            "kafka_server_fetcherstats_bytes_total",
        )
        assert values(metrics, lag) == values(metrics, requests) == values(metrics, received) == {}
        controller.append(*topic_records("t", [OTHER], replicas=[OTHER, MEMBER_ID]))
        await until(lambda: leader.components.replica_manager.find("t", 0))
        async with connected(leader.ports[PLAINTEXT]) as client:
            assert await produced(client, "t", "x" * 1000) == ErrorCode.NONE
        client_id = f"ReplicaFetcherThread-0-{OTHER}"
        key = client_id, LOCALHOST, str(leader.ports[PLAINTEXT])
        await until(lambda: values(metrics, lag) == {(client_id, "t", "0"): 0})
        assert values(metrics, received)[key] > 1000
        assert values(metrics, requests)[key] > 0
        controller.append(RemoveTopicRecord(topic_id=topic_id("t")))
        await until(lambda: not values(metrics, requests))
        assert values(metrics, lag) == values(metrics, received) == {}


async def test_partitions_led_here_that_are_reassigned(tmp_path: Path) -> None:
    async with controlling() as controller, running(config_of_member(tmp_path, controller)) as server:
        metrics = server.observers.metrics(server)
        name = "kafka_server_replicamanager_reassigningpartitions"
        for topic in ("a", "b"):
            controller.append(*topic_records(topic, [MEMBER_ID], replicas=[MEMBER_ID, OTHER]))
        await until(lambda: value(metrics, "kafka_server_replicamanager_leadercount") == 2)
        assert value(metrics, name) == 0
        change = PartitionChangeRecord(partition_id=0, topic_id=topic_id("a"), removing_replicas=[OTHER])
        controller.append(change)
        await until(lambda: value(metrics, name) == 1)


def test_the_time_since_the_controller_answered(tmp_path: Path) -> None:
    metrics = Metrics()
    lifecycle: Any = SimpleNamespace(heartbeat_age_s=None)
    parts: Any = None
    add_member(metrics, lifecycle, parts, lambda: 0)

    def shown() -> list[Sample]:
        return list(metrics._sources["barnabas_cluster_heartbeat_age_seconds"]())  # type: ignore[arg-type]

    assert shown() == []
    lifecycle.heartbeat_age_s = 2.5
    assert shown() == [((), 2.5)]
