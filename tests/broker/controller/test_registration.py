"""The metadata records of a node's start and stop."""

from __future__ import annotations

from collections.abc import Sequence

from barnabas.broker.controller.registration import (
    Node,
    broker_registration,
    configured_controller_listeners,
    controller_registration,
    in_batches,
    shutdown_changes,
    start_changes,
    unfencing,
)
from barnabas.broker.metadata.image import MetadataImage
from barnabas.broker.metadata.replay import replayed
from barnabas.broker.metadata.versions import supported_levels
from barnabas.config.broker_config import BrokerConfig
from barnabas.protocol.messages.cluster_records import (
    BrokerRegistrationChangeRecord,
    RegisterControllerRecord,
)
from barnabas.protocol.messages.topic_records import (
    FeatureLevelRecord,
    PartitionChangeRecord,
    PartitionRecord,
    TopicRecord,
)
from barnabas.protocol.schema import Message

TOPIC_ID, DIR, OTHER_DIR, INCARNATION = b"t" * 16, b"d" * 16, b"e" * 16, b"i" * 16
SETTINGS = [
    "listeners=PLAINTEXT://:0,INSIDE://127.0.0.1:9095,CONTROLLER://127.0.0.1:9093",
    "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,INSIDE:PLAINTEXT,CONTROLLER:SASL_SSL",
    "inter.broker.listener.name=INSIDE",
    "advertised.listeners=PLAINTEXT://kafka.example:1234,INSIDE://inside.example:9095",
    "controller.listener.names=CONTROLLER",
    "broker.rack=r1",
]


def node(*settings: str) -> Node:
    return Node.of(
        BrokerConfig.of(None, overrides=settings or SETTINGS),
        1,
        incarnation_id=INCARNATION,
        ports={"PLAINTEXT": 4567},
        features=supported_levels(),
        log_dirs=[DIR],
    )


def image(*partitions: PartitionRecord, metadata_version: int = 30, elr: int = 1) -> MetadataImage:
    """An image with a registered node, and one topic."""
    records: list[Message] = [
        FeatureLevelRecord(name="metadata.version", feature_level=metadata_version),
        FeatureLevelRecord(name="eligible.leader.replicas.version", feature_level=elr),
        broker_registration(node(), metadata_version, 11),
        unfencing(1, 11),
        TopicRecord(name="t", topic_id=TOPIC_ID),
        *partitions,
    ]
    return replayed(MetadataImage.empty(), records)[0]


def partition(
    index: int = 0,
    *,
    leader: int = 1,
    isr: Sequence[int] = (1,),
    replicas: Sequence[int] = (1,),
    elr: Sequence[int] = (),
    last_known_elr: Sequence[int] = (),
    directory: bytes = DIR,
) -> PartitionRecord:
    return PartitionRecord(
        partition_id=index,
        topic_id=TOPIC_ID,
        replicas=list(replicas),
        isr=list(isr),
        leader=leader,
        leader_epoch=5,
        partition_epoch=0,
        directories=[directory] * len(replicas),
        eligible_leader_replicas=list(elr) or None,
        last_known_elr=list(last_known_elr) or None,
    )


def start(before: MetadataImage, *, elect_all: bool = False) -> list[PartitionChangeRecord]:
    return list(start_changes(before, 1, {("t", 0): DIR}, elect_all=elect_all))


# ---- the registrations


def test_a_broker_registers_its_listeners_and_features() -> None:
    record = broker_registration(node(), 30, 11)
    assert (record.broker_id, record.broker_epoch, record.fenced, record.rack) == (1, 11, True, "r1")
    assert [(at.name, at.host, at.port, at.security_protocol) for at in record.end_points] == [
        ("PLAINTEXT", "kafka.example", 1234, 0),
        ("INSIDE", "inside.example", 9095, 0),
    ]
    levels = {one.name: one.max_supported_version for one in record.features}
    assert (levels["metadata.version"], levels["transaction.version"]) == (30, 2)
    assert (record.log_dirs, record.cordoned_log_dirs) == ([DIR], [])


def test_a_listener_without_an_address_gets_the_host_name_and_the_open_port() -> None:
    (at,) = broker_registration(node("listeners=PLAINTEXT://:0"), 30, 11).end_points
    assert at.host not in ("", "0.0.0.0")
    assert at.port == 4567


def test_fields_that_the_metadata_version_lacks_are_left_out() -> None:
    assert broker_registration(node(), 29, 1).cordoned_log_dirs is None
    assert broker_registration(node(), 16, 1).log_dirs == []
    assert controller_registration(node(), 14) == []


def test_a_controller_registers_its_listeners() -> None:
    (record,) = controller_registration(node(), 15)
    assert isinstance(record, RegisterControllerRecord)
    (at,) = record.end_points
    assert (at.name, at.host, at.port, at.security_protocol) == ("CONTROLLER", "127.0.0.1", 9093, 3)
    assert configured_controller_listeners(BrokerConfig()) == []


# ---- elections


def test_a_clean_start_elects_the_eligible_replica() -> None:
    (record,) = start(image(partition(leader=-1, isr=(), elr=(1,), last_known_elr=(1,))))
    assert (record.leader, record.isr) == (1, [1])
    assert (record.eligible_leader_replicas, record.last_known_elr) == ([], [])
    assert record.leader_recovery_state == -1
    assert record.directories is None


def test_without_eligible_replicas_it_elects_from_those_in_sync() -> None:
    (record,) = start(image(partition(leader=-1), elr=0))
    assert record == PartitionChangeRecord(partition_id=0, topic_id=TOPIC_ID, leader=1)


def test_a_replica_that_was_neither_eligible_nor_in_sync_is_elected_uncleanly() -> None:
    (record,) = start(image(partition(leader=-1, isr=(), last_known_elr=(1,))))
    assert (record.leader, record.isr, record.leader_recovery_state) == (1, [1], 1)
    assert record.last_known_elr == []


def test_a_partition_with_a_leader_changes_only_after_a_crash() -> None:
    assert start(image(partition())) == []
    (record,) = start(image(partition()), elect_all=True)
    assert record == PartitionChangeRecord(partition_id=0, topic_id=TOPIC_ID, leader=1)


def test_partitions_of_other_nodes_are_unchanged() -> None:
    assert start(image(partition(leader=2, isr=(2,), replicas=(2, 3))), elect_all=True) == []


def test_a_log_in_another_directory_than_in_the_metadata_is_recorded() -> None:
    (record,) = start(image(partition(directory=OTHER_DIR)))
    assert (record.leader, record.directories) == (-2, [DIR])
    assert start(image(partition(directory=OTHER_DIR), metadata_version=16)) == []


# ---- the stop


def test_a_stop_clears_leaders_for_the_next_election() -> None:
    before = image(partition(), partition(1, leader=2, isr=(2,), replicas=(1, 2)))
    first, last = shutdown_changes(before, 1)
    leaving, change = first
    assert leaving == BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=11, in_controlled_shutdown=1)
    assert isinstance(change, PartitionChangeRecord)
    assert (change.partition_id, change.leader, change.isr) == (0, -1, [])
    assert (change.eligible_leader_replicas, change.last_known_elr) == ([1], [1])
    assert last == [BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=11, fenced=1)]
    after = replayed(before, [*first, *last])[0]
    assert after.brokers[1].fenced
    assert after.brokers[1].in_controlled_shutdown
    (record, _) = start_changes(after, 1, {}, elect_all=False)
    assert record.leader == 1


def test_without_eligible_replicas_the_isr_stays() -> None:
    ((_, change), _) = shutdown_changes(image(partition(), elr=0), 1)
    assert change == PartitionChangeRecord(partition_id=0, topic_id=TOPIC_ID, leader=-1)


def test_a_stop_without_a_registration_writes_nothing() -> None:
    assert shutdown_changes(MetadataImage.empty(), 1) == []


def test_many_changes_come_in_batches_of_bounded_size() -> None:
    batches = in_batches(TopicRecord(name=str(number)) for number in range(2500))
    assert [len(batch) for batch in batches] == [1000, 1000, 500]
