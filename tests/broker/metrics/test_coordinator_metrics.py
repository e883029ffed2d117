"""The metrics of the coordinators, and the lag of groups."""

from __future__ import annotations

import math
from pathlib import Path

from barnabas.broker.coordinator.loading import LoadSummary
from barnabas.broker.coordinator.runtime_probe import RuntimeProbe
from barnabas.broker.metrics.coordinator_metrics import add_coordinators
from barnabas.broker.metrics.families import FAMILIES
from barnabas.broker.metrics.lag_metrics import add_lag
from barnabas.broker.metrics.prometheus import Metrics
from barnabas.broker.probes import KEPT_TIMES, RecentTimes
from barnabas.protocol.messages.commits import OffsetCommitRequest, OffsetDeleteRequest
from barnabas.protocol.messages.groups import FindCoordinatorRequest
from barnabas.protocol.messages.produce import ProduceRequest
from barnabas.protocol.messages.transactions import InitProducerIdRequest
from tests.broker.broker_fixture import InProcessBroker
from tests.broker.logs import batch
from tests.broker.metrics.snapshots import snapshot_at_once
from tests.broker.metrics.test_sources import value, values
from tests.support.difference import Like

GROUPS = "kafka_server_group_coordinator_metrics"
TRANSACTIONS = "kafka_server_transaction_coordinator_metrics"
MARKERS = "kafka_coordinator_transaction_transactionmarkerchannelmanager"
MANAGER = "kafka_coordinator_group_groupmetadatamanager"


def metrics_of(broker: InProcessBroker) -> Metrics:
    metrics = Metrics()
    add_coordinators(metrics, broker.coordinators)
    add_lag(
        metrics, broker.coordinators.group_runtime, broker.replica_manager, lambda: broker.controller.image
    )
    return metrics


def with_coordinators(broker: InProcessBroker) -> None:
    for key_type in (0, 1):
        request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=["g"])
        assert broker.client(4) >> request << Like(coordinators=[Like(error_code=0)])


def commit(broker: InProcessBroker, group: str, topic: str, **offsets: int) -> None:
    """Commits an offset of p0, p1, ..."""
    partitions = [
        OffsetCommitRequest.OffsetCommitRequestPartition(
            partition_index=int(name[1:]), committed_offset=offset
        )
        for name, offset in offsets.items()
    ]
    wanted = OffsetCommitRequest.OffsetCommitRequestTopic(name=topic, partitions=partitions)
    answer = Like(topics=[Like(partitions=[Like(error_code=0)] * len(partitions))])
    assert broker.client(8) >> OffsetCommitRequest(group_id=group, topics=[wanted]) << answer


def produce(broker: InProcessBroker, topic: str, partition: int, count: int) -> None:
    data = ProduceRequest.PartitionProduceData(index=partition, records=batch(*["x"] * count))
    request = ProduceRequest(
        acks=-1,
        timeout_ms=1000,
        topic_data=[ProduceRequest.TopicProduceData(name=topic, partition_data=[data])],
    )
    assert broker.client(9) >> request << Like(responses=[Like(partition_responses=[Like(error_code=0)])])


def test_groups_and_offsets(tmp_path: Path) -> None:
    broker = InProcessBroker(tmp_path)
    metrics = metrics_of(broker)
    assert value(metrics, f"{MANAGER}_numgroups") == 0
    with_coordinators(broker)
    broker.create_topic("t", 3)
    commit(broker, "g", "t", p0=5, p1=6)
    commit(broker, "h", "t", p0=1)
    assert value(metrics, f"{MANAGER}_numgroups") == value(metrics, f"{MANAGER}_numgroupsempty") == 2
    assert value(metrics, f"{MANAGER}_numgroupsstable") == 0
    assert value(metrics, f"{MANAGER}_numoffsets") == value(metrics, f"{GROUPS}_offset_commit_count") == 3
    assert values(metrics, f"{GROUPS}_group_count") == {
        ("classic",): 2,
        ("consumer",): 0,
        ("share",): 0,
        ("streams",): 0,
    }
    assert sum(values(metrics, f"{GROUPS}_consumer_group_count").values()) == 0
    topic = OffsetDeleteRequest.OffsetDeleteRequestTopic(
        name="t", partitions=[OffsetDeleteRequest.OffsetDeleteRequestPartition(partition_index=1)]
    )
    assert broker.client(0) >> OffsetDeleteRequest(group_id="g", topics=[topic]) << Like(error_code=0)
    assert value(metrics, f"{MANAGER}_numoffsets") == 2
    assert value(metrics, f"{GROUPS}_offset_deletion_count") == 1


def test_counters_keep_their_values_when_a_shard_is_unloaded(tmp_path: Path) -> None:
    broker = InProcessBroker(tmp_path)
    metrics = metrics_of(broker)
    with_coordinators(broker)
    broker.create_topic("t")
    commit(broker, "g", "t", p0=5)
    broker.coordinators.stop()
    assert value(metrics, f"{MANAGER}_numoffsets") == 0
    assert value(metrics, f"{GROUPS}_offset_commit_count") == 1


def test_the_runtime(tmp_path: Path) -> None:
    broker = InProcessBroker(tmp_path, {"offsets.topic.num.partitions": "3"})
    metrics = metrics_of(broker)
    assert math.isnan(value(metrics, f"{GROUPS}_event_processing_time_ms_max"))
    with_coordinators(broker)
    broker.create_topic("t")
    commit(broker, "g", "t", p0=5)
    assert values(metrics, f"{GROUPS}_num_partitions") == {("loading",): 0, ("active",): 3, ("failed",): 0}
    for metric in ("event_processing", "event_purgatory", "batch_linger", "batch_flush"):
        longest = value(metrics, f"{GROUPS}_{metric}_time_ms_max")
        assert 0 <= value(metrics, f"{GROUPS}_{metric}_time_ms_p50") <= longest
        assert math.isnan(value(metrics, f"{TRANSACTIONS}_{metric}_time_ms_p99"))
    assert value(metrics, f"{GROUPS}_partition_load_time_avg") >= 0


def test_transactions(tmp_path: Path) -> None:
    broker = InProcessBroker(tmp_path)
    metrics = metrics_of(broker)
    with_coordinators(broker)
    request = InitProducerIdRequest(
        transactional_id="x", transaction_timeout_ms=1000, producer_id=-1, producer_epoch=-1
    )
    assert broker.client(4) >> request << Like(error_code=0)
    assert value(metrics, f"{TRANSACTIONS}_transactional_id_count") == 1
    assert values(metrics, "barnabas_transactions") == {("Empty",): 1}
    assert value(metrics, f"{MARKERS}_unknowndestinationqueuesize") == 0
    assert value(metrics, f"{MARKERS}_logappendretryqueuesize") == 0
    assert value(metrics, "kafka_server_addpartitionstotxnmanager_verificationfailurerate_count") == 0


def test_lag_is_the_distance_to_the_log_end(tmp_path: Path) -> None:
    broker = InProcessBroker(tmp_path)
    metrics = metrics_of(broker)
    with_coordinators(broker)
    broker.create_topic("t", 3)
    broker.create_topic("gone")
    produce(broker, "t", 0, 7)
    produce(broker, "t", 1, 2)
    commit(broker, "g", "t", p0=5, p1=2)
    commit(broker, "g", "gone", p0=1)
    assert values(metrics, "kafka_consumergroup_current_offset") == {
        ("g", "t", "0"): 5,
        ("g", "t", "1"): 2,
        ("g", "t", "2"): -1,
        ("g", "gone", "0"): 1,
    }
    assert values(metrics, "kafka_consumergroup_lag") == {
        ("g", "t", "0"): 2,
        ("g", "t", "1"): 0,
        ("g", "t", "2"): -1,
        ("g", "gone", "0"): -1,
    }
    assert values(metrics, "kafka_consumergroup_lag_sum")["g", "t"] == 2
    assert values(metrics, "kafka_consumergroup_current_offset_sum")["g", "t"] == 6
    assert values(metrics, "kafka_consumergroup_members") == {("g",): 0}
    assert values(metrics, "kafka_topic_partitions")[("t",)] == 3
    assert values(metrics, "kafka_topic_partition_current_offset")["t", "0"] == 7
    assert values(metrics, "kafka_topic_partition_oldest_offset")["t", "0"] == 0


def test_every_metric_of_coordinators_has_a_source(tmp_path: Path) -> None:
    prefixes = (
        "barnabas_transactions",
        "kafka_consumergroup",
        "kafka_coordinator",
        "kafka_server_addpartitionstotxnmanager",
        "kafka_server_group_coordinator",
        "kafka_coordinator_transaction",
        "kafka_server_transaction_coordinator",
        "kafka_topic",
    )
    shown = {family.name for family, _ in snapshot_at_once(metrics_of(InProcessBroker(tmp_path)))}
    assert shown == {name for name in FAMILIES if name.startswith(prefixes)}


def test_loads_are_reported_for_half_a_minute() -> None:
    now = [100.0]
    probe = RuntimeProbe(lambda: now[0])
    summary = LoadSummary()
    summary.started_ms, summary.ended_ms = 1000, 1250
    probe.loaded(summary)
    now[0] += 29
    assert probe.load_times_ms() == [250]
    now[0] += 2
    assert probe.load_times_ms() == []


def test_only_the_latest_durations_are_kept() -> None:
    times = RecentTimes()
    for number in range(KEPT_TIMES + 2):
        times.add(number / 1000)
    kept = sorted(times.values())
    assert (times.count, len(kept)) == (KEPT_TIMES + 2, KEPT_TIMES)
    assert (round(kept[0]), round(kept[-1])) == (2, KEPT_TIMES + 1)
