"""WriteTxnMarkers: the results, and how they are grouped."""

from __future__ import annotations

from pathlib import Path

import pytest

from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.acls import AclOperation
from barnabas.protocol.messages.topic_records import PartitionChangeRecord
from barnabas.protocol.messages.transactions import WriteTxnMarkersRequest
from tests.broker.broker_fixture import WAITS, InProcessBroker
from tests.broker.cluster_images import topic_id, topic_records
from tests.broker.guarded_broker import GuardedBroker
from tests.broker.member_broker import Cluster
from tests.broker.throttled import Ticking, set_quotas
from tests.conformance.dialogues.in_transactions import marker
from tests.support.difference import Like

VERSIONS = (1, 2)


def result(producer_id: int, **topics: dict[int, ErrorCode]) -> Like:
    return Like(
        producer_id=producer_id,
        topics=[
            Like(
                name=name,
                partitions=[
                    Like(partition_index=index, error_code=code) for index, code in partitions.items()
                ],
            )
            for name, partitions in topics.items()
        ],
    )


@pytest.mark.parametrize("version", VERSIONS)
def test_markers_of_many_producers(broker: InProcessBroker, version: int) -> None:
    broker.create_topic("t", partitions=2)
    request = WriteTxnMarkersRequest(
        markers=[
            marker(7, 0, {"t": [0, 1]}),
            marker(8, 0, {"t": [1, 5], "u": [0]}, commit=False),
            marker(9, 0, {}),
        ]
    )
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert (
        broker.client(version)
        >> request
        << Like(
            markers=[
                result(7, t={0: ErrorCode.NONE, 1: ErrorCode.NONE}),
                result(8, t={5: unknown, 1: ErrorCode.NONE}, u={0: unknown}),
            ]
        )
    )
    assert [broker.replica_manager.partition("t", at).log.log_end_offset for at in (0, 1)] == [1, 2]


def test_markers_of_one_producer_have_one_result_together(broker: InProcessBroker) -> None:
    broker.create_topic("t", partitions=2)
    request = WriteTxnMarkersRequest(
        markers=[marker(7, 3, {"t": [0]}), marker(7, 2, {"t": [0]}), marker(7, 3, {"t": [1]})]
    )
    codes = {0: ErrorCode.INVALID_PRODUCER_EPOCH, 1: ErrorCode.NONE}
    assert broker.client(2) >> request << Like(markers=[result(7, t=codes)])


def test_an_offline_log_is_an_unknown_partition(broker: InProcessBroker) -> None:
    broker.create_topic("t")
    broker.replica_manager.log_dir_failed(broker.replica_manager.partition("t", 0).log.log_dir)
    request = WriteTxnMarkersRequest(markers=[marker(7, 0, {"t": [0]})])
    unknown = {0: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert broker.client(1) >> request << Like(markers=[result(7, t=unknown)])


def test_without_markers_the_response_is_empty(broker: InProcessBroker) -> None:
    assert broker.client(1) >> WriteTxnMarkersRequest() << Like(markers=[])


def test_version_2_has_the_transaction_version(broker: InProcessBroker) -> None:
    """With it the epoch that the producer has already used is too low."""
    broker.create_topic("t")
    client = broker.client(2)
    first = WriteTxnMarkersRequest(markers=[marker(7, 1, {"t": [0]}, transaction_version=2)])
    assert client >> first << Like(markers=[result(7, t={0: ErrorCode.NONE})])
    lower = WriteTxnMarkersRequest(markers=[marker(7, 0, {"t": [0]}, transaction_version=2)])
    assert client >> lower << Like(markers=[result(7, t={0: ErrorCode.INVALID_PRODUCER_EPOCH})])


@pytest.mark.parametrize(("producer_id", "epoch"), [(-1, 0), (8, -1)])
def test_a_marker_without_a_producer_fails_its_request(
    broker: InProcessBroker, producer_id: int, epoch: int
) -> None:
    """Earlier markers of the request are written."""
    broker.create_topic("t")
    failed = {0: ErrorCode.UNKNOWN_SERVER_ERROR}
    markers = [marker(7, 0, {"t": [0]}), marker(producer_id, epoch, {"t": [0]}), marker(9, 0, {"t": [0]})]
    assert (
        broker.client(2)
        >> WriteTxnMarkersRequest(markers=markers)
        << Like(markers=[result(7, t=failed), result(producer_id, t=failed), result(9, t=failed)])
    )
    assert broker.replica_manager.partition("t", 0).log.log_end_offset == 1


@pytest.mark.parametrize("topic", ["u", "__consumer_offsets"])
def test_a_marker_without_a_producer_fails_alone_if_nothing_would_be_written(
    broker: InProcessBroker, topic: str
) -> None:
    broker.create_topic("t")
    broker.create_topic("__consumer_offsets")
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if topic == "u" else ErrorCode.UNKNOWN_SERVER_ERROR
    request = WriteTxnMarkersRequest(markers=[marker(7, -1, {topic: [0]}), marker(9, 0, {"t": [0]})])
    assert (
        broker.client(2)
        >> request
        << Like(markers=[result(7, **{topic: {0: code}}), result(9, t={0: ErrorCode.NONE})])
    )


@pytest.mark.parametrize("version", VERSIONS)
def test_a_marker_is_answered_when_it_is_committed(broker: InProcessBroker, version: int) -> None:
    cluster = Cluster(broker)
    cluster.commit(*topic_records("t", [1, 2], [1, 2]), *topic_records("__consumer_offsets", [1], [1, 2]))
    request = WriteTxnMarkersRequest(markers=[marker(7, 0, {"t": [0, 1], "__consumer_offsets": [0]})])
    client = broker.client(version) >> request << WAITS
    for name in ("t", "__consumer_offsets"):
        change = PartitionChangeRecord(partition_id=0, topic_id=topic_id(name), isr=[1])
        assert client << WAITS
        cluster.commit(change)
    answer = {
        "__consumer_offsets": {0: ErrorCode.NONE},
        "t": {0: ErrorCode.NONE, 1: ErrorCode.NOT_LEADER_OR_FOLLOWER},
    }
    assert client << Like(markers=[result(7, **answer)])


def test_markers_are_exempt_from_quotas(tmp_path: Path) -> None:
    ticking = Ticking()
    broker = InProcessBroker(tmp_path, request_clock=ticking)
    broker.create_topic("t")
    set_quotas(broker, request_percentage=1.0)
    ticking.tick_s = 10.0
    client = broker.client(1)
    assert client >> WriteTxnMarkersRequest(markers=[marker(7, 0, {"t": [0]})]) << Like(markers=[Like()])
    assert client.muted_ms == 0
    assert broker.broker.quotas.exempt_percent() > 0
    broker.kill()


# ---- authorization


def test_markers_are_for_brokers_and_for_who_may_alter_the_cluster(guarded: GuardedBroker) -> None:
    guarded.create_topic("t")
    asked = WriteTxnMarkersRequest(markers=[marker(number, 0, {"t": (0,)}) for number in (7, 8)])
    client = guarded.client(version=1)
    denied = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert client >> asked << Like(markers=[result(7, t={0: denied}), result(8, t={0: denied})])
    written = Like(markers=[result(7, t={0: ErrorCode.NONE}), result(8, t={0: ErrorCode.NONE})])
    for operation in (AclOperation.ALTER, AclOperation.CLUSTER_ACTION):
        guarded.deny_again()
        guarded.allow(operation)
        assert client >> asked << written
