"""The value of each metric for probes and parts in a known state."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from barnabas.broker.fetch.cache import FetchSessionCache
from barnabas.broker.fetch.delayed_fetch import FetchExpirations
from barnabas.broker.metadata.image import MetadataImage
from barnabas.broker.metadata.replay import replayed
from barnabas.broker.metadata.topics import TopicImage
from barnabas.broker.metrics import sources as metric_sources
from barnabas.broker.metrics.authentication_metrics import add_authentications
from barnabas.broker.metrics.families import FAMILIES
from barnabas.broker.metrics.member_metrics import MEMBER_FAMILIES
from barnabas.broker.metrics.prometheus import Metrics
from barnabas.broker.network.connection_quotas import ConnectionQuotas
from barnabas.broker.network.request_memory import RequestMemory
from barnabas.broker.network.socket_server import SocketServer, SocketSettings
from barnabas.broker.probes import FETCH_FOLLOWER, BrokerTopicProbe, RequestProbe, SocketServerProbe
from barnabas.broker.replica.partition import Partition
from barnabas.broker.security.auth_helper import AuthHelper
from barnabas.broker.waiting.purgatory import DelayedOperation, DelayedOperationPurgatory
from barnabas.config.listeners import Listener
from barnabas.protocol.messages.cluster_records import RegisterBrokerRecord
from barnabas.storage.log.disk_space import DiskSpace
from tests.broker.fakes import ManualTimer
from tests.broker.logs import ManualEnv, batch, log_manager, partition_image
from tests.broker.metrics.snapshots import snapshot_at_once
from tests.broker.security.acls import AuthorizerWithAcls, acl

Values = dict[tuple[str, ...], float]


def values(metrics: Metrics, name: str) -> Values:
    """The samples of one metric, by their label values."""
    (samples,) = [samples for family, samples in snapshot_at_once(metrics) if family.name == name]
    return dict(samples)


def value(metrics: Metrics, name: str) -> float:
    return values(metrics, name)[()]


def test_topics_have_series_and_a_sum() -> None:
    probe = BrokerTopicProbe()
    metrics = Metrics()
    metric_sources.add_topics(metrics, probe)
    probe.topic("a").produced(10, 1000)
    probe.topic("b").produced(1, 100)
    probe.fetched("b", 50)
    prefix = "kafka_server_brokertopicmetrics"
    assert values(metrics, f"{prefix}_messagesin_total") == {(): 11, ("a",): 10, ("b",): 1}
    assert values(metrics, f"{prefix}_bytesin_total") == {(): 1100, ("a",): 1000, ("b",): 100}
    assert values(metrics, f"{prefix}_bytesout_total") == {(): 50, ("a",): 0, ("b",): 50}
    probe.topic_deleted("a")
    assert values(metrics, f"{prefix}_messagesin_total") == {(): 11, ("b",): 1}


def test_requests_have_kafkas_api_names() -> None:
    probe = RequestProbe()
    metrics = Metrics()
    metric_sources.add_requests(metrics, probe)
    probe.times("LIST_OFFSETS").record(9, 0.002, 0.0)
    probe.times("FETCH").record(17, 0.001, 0.5)
    probe.request_failed("LIST_OFFSETS", "UNKNOWN_TOPIC_OR_PARTITION", 3)
    probe.request_refused("unknown api key")
    prefix = "kafka_network_requestmetrics"
    assert values(metrics, f"{prefix}_requests_total") == {
        ("ListOffsets", "9"): 1,
        ("Fetch", "17"): 1,
        ("FetchConsumer", "17"): 1,
    }
    assert values(metrics, f"{prefix}_errors_total") == {("ListOffsets", "UNKNOWN_TOPIC_OR_PARTITION"): 3}
    assert values(metrics, "barnabas_network_requests_refused_total") == {("unknown api key",): 1}


@pytest.mark.parametrize("has_consumers", [False, True])
def test_fetches_of_followers_are_apart_and_among_all(has_consumers: bool) -> None:
    probe = RequestProbe()
    metrics = Metrics()
    metric_sources.add_requests(metrics, probe)
    probe.times(FETCH_FOLLOWER).record(18, 0.003, 0.0)
    probe.request_failed(FETCH_FOLLOWER, "NOT_LEADER_OR_FOLLOWER", 2)
    if has_consumers:
        probe.times("FETCH").record(18, 0.001, 0.0)
        probe.times("FETCH").record(17, 0.002, 0.0)
        probe.request_failed("FETCH", "NOT_LEADER_OR_FOLLOWER")
    prefix = "kafka_network_requestmetrics"
    consumers = {("FetchConsumer", "18"): 1, ("FetchConsumer", "17"): 1, ("Fetch", "17"): 1}
    assert values(metrics, f"{prefix}_requests_total") == {
        ("FetchFollower", "18"): 1,
        ("Fetch", "18"): 1 + has_consumers,
        **(consumers if has_consumers else {}),
    }
    consumers = {("FetchConsumer", "NOT_LEADER_OR_FOLLOWER"): 1}
    assert values(metrics, f"{prefix}_errors_total") == {
        ("FetchFollower", "NOT_LEADER_OR_FOLLOWER"): 2,
        ("Fetch", "NOT_LEADER_OR_FOLLOWER"): 2 + has_consumers,
        **(consumers if has_consumers else {}),
    }
    snapshot = {family.name: samples for family, samples in snapshot_at_once(metrics)}
    times = {labels[0]: (count, sorted(it)) for labels, count, it in snapshot[f"{prefix}_localtimems"]}
    assert times["FetchFollower"] == (1, [3])
    assert times["Fetch"] == ((3, [1, 2, 3]) if has_consumers else (1, [3]))


@pytest.mark.parametrize(
    ("which", "expected"), [("totaltimems", 501), ("localtimems", 1), ("remotetimems", 500)]
)
def test_times_are_in_milliseconds(which: str, expected: float) -> None:
    probe = RequestProbe()
    metrics = Metrics()
    metric_sources.add_requests(metrics, probe)
    probe.times("FETCH").record(17, 0.001, 0.5)
    snapshot = {family.name: samples for family, samples in snapshot_at_once(metrics)}
    for labels, count, recent in snapshot[f"kafka_network_requestmetrics_{which}"]:
        assert labels in (("Fetch",), ("FetchConsumer",))
        assert count == 1
        assert list(recent) == pytest.approx([expected])


async def test_network() -> None:
    probe = SocketServerProbe(lambda: 0.0)
    memory = RequestMemory(1000)
    server = SocketServer(
        loop=asyncio.get_running_loop(),
        listeners=[Listener("PLAINTEXT", "127.0.0.1", 0)],
        settings=SocketSettings(),
        quotas=ConnectionQuotas(),
        memory=memory,
        probe=probe,
    )
    ports = server.bind()
    server.start(lambda info, frame: [b"x"])
    metrics = Metrics()
    metric_sources.add_network(metrics, probe, server, memory)
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", ports["PLAINTEXT"])
        probe.sample(100.0)
        writer.write(b"\0\0\0\1?")
        await reader.readexactly(5)
        probe.sample(101.0)
        for info in server.connections():
            info.client_software_name, info.client_software_version = "tester", "1.0"
        prefix = "kafka_server_socket_server_metrics"
        here = ("PLAINTEXT", "0")
        assert values(metrics, f"{prefix}_connection_count") == {here: 1}
        assert values(metrics, f"{prefix}_incoming_byte_rate") == {here: 5}
        assert values(metrics, f"{prefix}_outgoing_byte_rate") == {here: 5}
        assert values(metrics, f"{prefix}_connections_software") == {("tester", "1.0", "PLAINTEXT"): 1}
        assert value(metrics, "kafka_network_socketserver_networkprocessoravgidlepercent") == 1
        assert value(metrics, "kafka_network_requestchannel_requestqueuesize") == 0
        probe.pause.note(101.0, 0.25)
        assert value(metrics, "barnabas_event_loop_longest_pause_seconds") == 0.25
        assert value(metrics, "barnabas_network_request_memory_limit_bytes") == 1000
        writer.close()
    finally:
        server.close()


def test_purgatories_and_fetch_sessions() -> None:
    class Waits(DelayedOperation):
        def try_complete(self) -> bool:
            return False

    produce = DelayedOperationPurgatory("Produce", ManualTimer())
    fetch = DelayedOperationPurgatory("Fetch", ManualTimer())
    fetch.try_complete_else_watch(Waits(100), [("a", 0), ("a", 1)])
    metrics = Metrics()
    metric_sources.add_purgatories(metrics, produce, fetch)
    metric_sources.add_fetch_sessions(metrics, FetchSessionCache(10, lambda: 1))
    prefix = "kafka_server_delayedoperationpurgatory"
    assert values(metrics, f"{prefix}_purgatorysize") == {("Produce",): 0, ("Fetch",): 2}
    assert values(metrics, f"{prefix}_numdelayedoperations") == {("Produce",): 0, ("Fetch",): 1}
    assert value(metrics, "kafka_server_fetchsessioncache_numincrementalfetchsessions") == 0


def test_decisions_of_the_authorizer() -> None:
    auth = AuthHelper(AuthorizerWithAcls(acl("t")))
    auth.allowed, auth.denied = 2, 1
    metrics, without = Metrics(), Metrics()
    metric_sources.add_authorizer(metrics, auth)
    metric_sources.add_authorizer(without, None)
    names = ("authorization_allowed_total", "authorization_denied_total", "acls_total_count")
    assert [value(metrics, f"kafka_server_plugins_{name}") for name in names] == [2, 1, 1]
    assert [value(without, f"kafka_server_plugins_{name}") for name in names] == [0, 0, 0]


def test_fetches_that_have_expired() -> None:
    metrics, expirations = Metrics(), FetchExpirations()
    metric_sources.add_fetch_expirations(metrics, expirations)
    expirations.consumer, expirations.follower = 2, 1
    assert values(metrics, "kafka_server_delayedfetchmetrics_expires_total") == {
        ("consumer",): 2,
        ("follower",): 1,
    }


def test_partitions(tmp_path: Path) -> None:
    manager = log_manager(tmp_path, ManualEnv())
    partitions = []
    for index, (isr, leader) in enumerate([([1, 2], 1), ([1], 1), ([2], 2), ([1], 1)]):
        log = manager.get_or_create_log("t", index, b"t" * 16)
        image = partition_image(partition=index, replicas=[1, 2], isr=isr, leader=leader)
        partitions.append(Partition("t", b"t" * 16, image, log, 1))
    partitions[1].append_as_leader(batch("one", "two", producer_id=7, producer_epoch=0, base_sequence=0), 1)
    partitions[2].offline = True
    partitions[3].append_as_leader(batch("three", producer_id=8, producer_epoch=0, base_sequence=0), 1)
    partitions[3].offline = True  # the metadata does not know: there it is still the leader
    metrics = Metrics()
    metric_sources.add_partitions(metrics, lambda: partitions, lambda: 2)
    of_all = {
        "leadercount": 2,
        "partitioncount": 6,
        "underreplicatedpartitions": 1,
        "underminisrpartitioncount": 0,
        "atminisrpartitioncount": 1,
        "offlinereplicacount": 4,
        "produceridcount": 1,
    }
    for name, expected in of_all.items():
        assert value(metrics, f"kafka_server_replicamanager_{name}") == expected, name
    assert values(metrics, "kafka_cluster_partition_insyncreplicascount") == {
        ("t", "0"): 2,
        ("t", "1"): 1,
        ("t", "2"): 0,
        ("t", "3"): 0,
    }
    assert values(metrics, "kafka_cluster_partition_underreplicated") == {
        ("t", "0"): 0,
        ("t", "1"): 1,
        ("t", "2"): 0,
        ("t", "3"): 0,
    }
    assert set(values(metrics, "kafka_cluster_partition_atminisr").items()) >= {
        (("t", "1"), 1),
        (("t", "3"), 0),
    }
    assert list(values(metrics, "kafka_log_log_logendoffset").values()) == [0, 2, 0, 1]
    assert values(metrics, "kafka_log_log_numlogsegments")["t", "1"] == 1
    assert values(metrics, "kafka_log_log_size")["t", "1"] > 61
    manager.shutdown()


def test_controller() -> None:
    images = [
        partition_image(partition=0, replicas=[1, 2]),
        partition_image(partition=1, replicas=[2, 1]),
        partition_image(partition=2, leader=-1),
        partition_image(partition=3),
    ]
    topic = TopicImage("t", b"t" * 16, {image.partition: image for image in images})
    brokers = [
        RegisterBrokerRecord(broker_id=1, broker_epoch=1, fenced=False),
        RegisterBrokerRecord(broker_id=2, broker_epoch=2, fenced=True),
    ]
    image, _ = replayed(MetadataImage.empty(), [*brokers, *topic.records()])
    metrics = Metrics()
    metric_sources.add_controller(metrics, lambda: image, lambda topic, index: (topic, index) == ("t", 3))
    expected = {
        "activecontrollercount": 1,
        "activebrokercount": 1,
        "fencedbrokercount": 1,
        "globaltopiccount": 1,
        "globalpartitioncount": 4,
        "offlinepartitionscount": 2,
        "preferredreplicaimbalancecount": 3,
    }
    for name, number in expected.items():
        assert value(metrics, f"kafka_controller_kafkacontroller_{name}") == number, name


def test_disk_space() -> None:
    metrics = Metrics()
    space = DiskSpace(ManualEnv(), "/data", 5000)
    space.apply((100_000, 4000))
    space.reject()
    metric_sources.add_disk_space(metrics, lambda: [space])
    expected = {"free_bytes": 4000, "min_free_bytes": 5000, "full": 1, "refused_batches_total": 1}
    for name, number in expected.items():
        assert values(metrics, f"barnabas_log_dir_{name}") == {("/data",): number}


async def test_every_declared_metric_of_other_parts_has_a_source() -> None:
    metrics = Metrics()
    memory = RequestMemory(1)
    server = SocketServer(
        loop=asyncio.get_running_loop(),
        listeners=[],
        settings=SocketSettings(),
        quotas=ConnectionQuotas(),
        memory=memory,
        probe=SocketServerProbe(),
    )
    metric_sources.add_topics(metrics, BrokerTopicProbe())
    metric_sources.add_requests(metrics, RequestProbe())
    metric_sources.add_network(metrics, SocketServerProbe(), server, memory)
    add_authentications(metrics, SocketServerProbe(), lambda: None)
    metric_sources.add_purgatories(metrics)
    metric_sources.add_fetch_expirations(metrics, FetchExpirations())
    metric_sources.add_fetch_sessions(metrics, FetchSessionCache(1, lambda: 1))
    metric_sources.add_authorizer(metrics, None)
    metric_sources.add_partitions(metrics, list, int)
    metric_sources.add_disk_space(metrics, list)
    metric_sources.add_late_transactions(metrics, list, lambda: 0, 0)
    metric_sources.add_controller(metrics, MetadataImage.empty, lambda topic, index: False)
    with_tests_of_their_own = (
        "kafka_consumergroup",
        "kafka_coordinator_group",
        "kafka_coordinator_transaction",
        "kafka_log_logcleaner",
        *MEMBER_FAMILIES,
        "kafka_log_logmanager",
        "kafka_server_addpartitionstotxnmanager",
        "kafka_server_broker_metadata",
        "kafka_server_group_coordinator",
        "kafka_server_metadataloader",
        "kafka_network_requestmetrics_throttletimems",
        "kafka_server_quota",
        "kafka_server_raft",
        "kafka_server_replicaalterlogdirs",
        "kafka_server_snapshotemitter",
        "kafka_server_socket_server_metrics_connections_cipher",
        "barnabas_oauthbearer",
        "barnabas_tls",
        "kafka_server_socket_server_metrics_broker_connection_accept",
        "kafka_server_socket_server_metrics_connection_accept",
        "kafka_server_socket_server_metrics_ip_connection_accept",
        "kafka_server_transaction_coordinator",
        "kafka_topic",
        "barnabas_compaction",
        "barnabas_client_metrics",
        "barnabas_transactions",
        "barnabas_http",
    )
    others = {name for name in FAMILIES if not name.startswith(with_tests_of_their_own)}
    assert {family.name for family, _ in snapshot_at_once(metrics)} == others
