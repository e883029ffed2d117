"""ListOffsets, OffsetForLeaderEpoch and DeleteRecords."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pytest

from barnabas.broker.controller.embedded import Decision
from barnabas.broker.controller.topic_admin import TopicSpec, new_topics
from barnabas.broker.kafka_apis.handlers.offsets import READ_COMMITTED
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages import offsets
from barnabas.protocol.messages.acls import AclOperation, AclResourceType
from barnabas.protocol.messages.offsets import (
    DeleteRecordsRequest,
    ListOffsetsRequest,
    OffsetForLeaderEpochRequest,
)
from barnabas.protocol.messages.topic_records import PartitionChangeRecord
from barnabas.protocol.records.builder import build_batch
from tests.broker.broker_fixture import NODE_ID, InProcessBroker
from tests.broker.guarded_broker import GuardedBroker
from tests.broker.logs import START_MS, batch
from tests.broker.replica_node import BreakableEnv
from tests.conformance.dialogues.words import list_offsets
from tests.support.difference import Like

VERSIONS = range(1, 12)
LATEST = 11
FIRST, MIDDLE, LAST = START_MS, START_MS + 200, START_MS + 100
"""Timestamps of the three records that `filled` writes: the middle one is the newest."""


def found(offset: int, timestamp: int = -1, leader_epoch: int = -1) -> Like:
    return answered(Like(error_code=0, offset=offset, timestamp=timestamp, leader_epoch=leader_epoch))


def refused(code: ErrorCode, index: int = 0) -> Like:
    return Like(partition_index=index, error_code=code, offset=-1, timestamp=-1, leader_epoch=-1)


def answered(*partitions: Like) -> Like:
    """The response about one topic."""
    return Like(topics=[Like(partitions=list(partitions))])


def append(broker: InProcessBroker, records: bytes) -> None:
    broker.replica_manager.partition("t", 0).append_as_leader(records, -1)


def filled(broker: InProcessBroker) -> None:
    broker.create_topic("t")
    for timestamp in (FIRST, MIDDLE, LAST):
        append(broker, batch("x", timestamp=timestamp))


def elect(broker: InProcessBroker, leader: int = NODE_ID) -> None:
    """A new leader epoch."""
    topic_id = broker.broker.image.topics["t"].topic_id
    change = PartitionChangeRecord(partition_id=0, topic_id=topic_id, leader=leader)
    broker.controller.submit(lambda _: Decision(True, [change]), lambda _: False)


# ---- ListOffsets


@pytest.mark.parametrize("version", VERSIONS)
def test_every_version_finds_the_start_the_end_and_a_timestamp(broker: InProcessBroker, version: int) -> None:
    filled(broker)
    epoch = 0 if version >= 4 else -1
    client = broker.client(version=version)
    assert client >> list_offsets("t", 0, timestamp=offsets.EARLIEST) << found(0, leader_epoch=epoch)
    assert client >> list_offsets("t", 0, timestamp=offsets.LATEST) << found(3, leader_epoch=epoch)
    assert client >> list_offsets("t", 0, timestamp=FIRST + 1) << found(1, MIDDLE, epoch)
    assert client >> list_offsets("t", 0, timestamp=0) << found(0, FIRST, epoch)
    assert client >> list_offsets("t", 0, timestamp=MIDDLE + 1) << found(-1)


NAMED = {
    offsets.MAX_TIMESTAMP: (7, found(1, MIDDLE, 0)),
    offsets.EARLIEST_LOCAL: (8, found(0, leader_epoch=0)),
    offsets.LATEST_TIERED: (9, found(-1)),
    offsets.EARLIEST_PENDING_UPLOAD: (11, found(-1)),
}


@pytest.mark.parametrize("name", NAMED)
def test_each_special_timestamp_has_its_first_version(broker: InProcessBroker, name: int) -> None:
    filled(broker)
    since, answer = NAMED[name]
    request = list_offsets("t", 0, timestamp=name)
    assert broker.client(version=since) >> request << answer
    before = answered(refused(ErrorCode.UNSUPPORTED_VERSION))
    assert broker.client(version=since - 1) >> request << before


@pytest.mark.parametrize("name", [-7, -(2**63)])
def test_unknown_special_timestamps(broker: InProcessBroker, name: int) -> None:
    filled(broker)
    unknown = answered(refused(ErrorCode.UNSUPPORTED_VERSION))
    assert broker.client(version=LATEST) >> list_offsets("t", 0, timestamp=name) << unknown


@pytest.mark.parametrize("name", [*NAMED, -7])
def test_an_unsupported_special_timestamp_is_reported_before_other_errors(
    broker: InProcessBroker, name: int
) -> None:
    filled(broker)
    elect(broker)
    client = broker.client(version=NAMED[name][0] - 1 if name in NAMED else LATEST)
    unknown = answered(refused(ErrorCode.UNSUPPORTED_VERSION))
    assert client >> list_offsets("t", 0, timestamp=name, epoch=7) << unknown
    assert client >> list_offsets("u", 0, timestamp=name) << unknown
    twice = answered(refused(ErrorCode.INVALID_REQUEST))
    assert client >> list_offsets("t", 0, 0, timestamp=name) << twice


def test_records_without_timestamps_have_a_maximum_too(broker: InProcessBroker) -> None:
    broker.create_topic("t")
    for _ in range(2):
        append(broker, batch("x", timestamp=-1))
    client = broker.client(version=LATEST)
    assert client >> list_offsets("t", 0, timestamp=offsets.MAX_TIMESTAMP) << found(0, leader_epoch=0)


def test_an_empty_log(broker: InProcessBroker) -> None:
    broker.create_topic("t")
    client = broker.client(version=LATEST)
    assert client >> list_offsets("t", 0, timestamp=offsets.EARLIEST) << found(0, leader_epoch=0)
    assert client >> list_offsets("t", 0, timestamp=offsets.LATEST) << found(0, leader_epoch=0)
    assert client >> list_offsets("t", 0, timestamp=offsets.MAX_TIMESTAMP) << found(-1)
    assert client >> list_offsets("t", 0, timestamp=0) << found(-1)


def test_the_epoch_is_that_of_the_record_or_at_the_end_the_current_one(broker: InProcessBroker) -> None:
    filled(broker)
    elect(broker)
    append(broker, batch("y", timestamp=START_MS + 300))
    client = broker.client(version=LATEST)
    assert client >> list_offsets("t", 0, timestamp=0) << found(0, FIRST, 0)
    assert client >> list_offsets("t", 0, timestamp=offsets.MAX_TIMESTAMP) << found(3, START_MS + 300, 1)
    assert client >> list_offsets("t", 0, timestamp=offsets.LATEST) << found(4, leader_epoch=1)


def test_records_of_open_transactions_are_visible_only_to_read_uncommitted(
    broker: InProcessBroker,
) -> None:
    filled(broker)
    newest = START_MS + 900
    append(
        broker,
        build_batch(
            [(None, b"v", newest, ())],
            producer_id=1,
            producer_epoch=0,
            base_sequence=0,
            is_transactional=True,
        ),
    )
    client = broker.client(version=LATEST)
    for timestamp, answer in [
        (offsets.LATEST, found(3, leader_epoch=0)),
        (offsets.MAX_TIMESTAMP, found(-1)),
        (newest, found(-1)),
    ]:
        committed = list_offsets("t", 0, timestamp=timestamp, isolation_level=READ_COMMITTED)
        assert client >> committed << answer
    for timestamp, answer in [
        (offsets.LATEST, found(4, leader_epoch=0)),
        (offsets.MAX_TIMESTAMP, found(3, newest, 0)),
        (newest, found(3, newest, 0)),
    ]:
        assert client >> list_offsets("t", 0, timestamp=timestamp) << answer


def test_a_follower_sees_the_end_of_the_log(broker: InProcessBroker) -> None:
    filled(broker)
    asked = list_offsets("t", 0, replica_id=2, isolation_level=READ_COMMITTED)
    assert broker.client(version=LATEST) >> asked << found(3, leader_epoch=0)


def test_unknown_partitions(broker: InProcessBroker) -> None:
    filled(broker)
    client = broker.client(version=LATEST)
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert client >> list_offsets("t", 0, 1) << answered(Like(error_code=0, offset=3), refused(unknown, 1))
    assert client >> list_offsets("u", 0) << answered(refused(unknown))


def test_a_partition_requested_twice_gets_one_error(broker: InProcessBroker) -> None:
    filled(broker)
    twice = answered(refused(ErrorCode.INVALID_REQUEST), refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 1))
    assert broker.client(version=LATEST) >> list_offsets("t", 0, 1, 0) << twice


def test_a_topic_named_twice_is_answered_once(broker: InProcessBroker) -> None:
    filled(broker)
    request = list_offsets("t", 0)
    request.topics = [*request.topics, *list_offsets("t", 1, 0).topics]
    twice = answered(refused(ErrorCode.INVALID_REQUEST), refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 1))
    assert broker.client(version=LATEST) >> request << twice


def test_a_wrong_leader_epoch_is_rejected(broker: InProcessBroker) -> None:
    filled(broker)
    elect(broker)
    client = broker.client(version=LATEST)
    assert client >> list_offsets("t", 0, epoch=1) << found(3, leader_epoch=1)
    assert client >> list_offsets("t", 0, epoch=0) << answered(refused(ErrorCode.FENCED_LEADER_EPOCH))
    assert client >> list_offsets("t", 0, epoch=2) << answered(refused(ErrorCode.UNKNOWN_LEADER_EPOCH))


def test_only_the_leader_answers(broker: InProcessBroker) -> None:
    filled(broker)
    elect(broker, leader=2)
    moved = answered(refused(ErrorCode.NOT_LEADER_OR_FOLLOWER))
    assert broker.client(version=LATEST) >> list_offsets("t", 0) << moved


def alter(broker: InProcessBroker, **changed: Any) -> None:
    topic_id = broker.broker.image.topics["t"].topic_id
    change = PartitionChangeRecord(partition_id=0, topic_id=topic_id, **changed)
    assert broker.controller.submit(lambda _: Decision(True, [change]), lambda _: False).done


@pytest.mark.parametrize("version", [4, 5, LATEST])
def test_a_new_leader_whose_high_watermark_lags_names_no_end(broker: InProcessBroker, version: int) -> None:
    filled(broker)
    alter(broker, replicas=[NODE_ID, 2], isr=[NODE_ID, 2], leader=2)
    partition = broker.replica_manager.partition("t", 0)
    partition.log.update_high_watermark(1)
    alter(broker, leader=NODE_ID)
    code = ErrorCode.LEADER_NOT_AVAILABLE if version < 5 else ErrorCode.OFFSET_NOT_AVAILABLE
    client = broker.client(version=version)
    for timestamp in (offsets.LATEST, MIDDLE):
        assert client >> list_offsets("t", 0, timestamp=timestamp) << answered(refused(code))
    assert client >> list_offsets("t", 0, timestamp=FIRST) << found(0, FIRST, 0)
    assert client >> list_offsets("t", 0, timestamp=offsets.EARLIEST) << found(0, leader_epoch=0)
    partition.follower_fetched(2, 3, 0)
    assert (
        client
        >> list_offsets("t", 0, timestamp=offsets.LATEST)
        << found(3, leader_epoch=partition.leader_epoch)
    )
    assert client >> list_offsets("t", 0, timestamp=MIDDLE) << found(1, MIDDLE, 0)


def test_a_follower_answers_a_tool_that_debugs(broker: InProcessBroker) -> None:
    filled(broker)
    alter(broker, replicas=[NODE_ID, 2], leader=2)
    request = list_offsets("t", 0, replica_id=-2)
    assert broker.client(version=LATEST) >> request << found(3, leader_epoch=1)


def test_a_request_without_topics_has_an_empty_response(broker: InProcessBroker) -> None:
    assert broker.client(version=LATEST) >> ListOffsetsRequest(replica_id=-1) << Like(topics=[])


@pytest.mark.parametrize("timestamp", [FIRST, offsets.MAX_TIMESTAMP])
@pytest.mark.parametrize(("error", "is_offline"), [(errno.EIO, True), (errno.EMFILE, False)])
def test_a_failed_read_takes_the_directory_offline(
    tmp_path: Path, timestamp: int, error: int, *, is_offline: bool
) -> None:
    env = BreakableEnv()
    broker = InProcessBroker(tmp_path, env=env)
    filled(broker)
    broker.replica_manager.partition("t", 0).log.release()
    env.errno = error
    env.broken.add("open")
    assert (
        broker.client(version=LATEST)
        >> list_offsets("t", 0, timestamp=timestamp)
        << answered(refused(ErrorCode.KAFKA_STORAGE_ERROR))
    )
    assert broker.replica_manager.is_offline("t", 0) is is_offline
    env.broken.clear()
    broker.kill()


# ---- OffsetForLeaderEpoch


def end_of_epoch(*epochs: int, topic: str = "t", current: int = -1) -> OffsetForLeaderEpochRequest:
    """Requests the end offset of each of `epochs` in partition 0."""
    partitions = [
        OffsetForLeaderEpochRequest.OffsetForLeaderPartition(
            partition=0, leader_epoch=epoch, current_leader_epoch=current
        )
        for epoch in epochs
    ]
    return OffsetForLeaderEpochRequest(
        topics=[OffsetForLeaderEpochRequest.OffsetForLeaderTopic(topic=topic, partitions=partitions)]
    )


@pytest.mark.parametrize("version", [2, 3, 4])
def test_every_version_returns_the_end_offset_of_an_epoch(broker: InProcessBroker, version: int) -> None:
    filled(broker)
    elect(broker)
    append(broker, batch("y"))
    elect(broker)
    elect(broker)
    append(broker, batch("z"))
    assert (
        broker.client(version=version)
        >> end_of_epoch(0, 1, 2, 3, 4)
        << answered(
            Like(error_code=0, leader_epoch=0, end_offset=3),
            Like(error_code=0, leader_epoch=1, end_offset=4),
            Like(error_code=0, leader_epoch=1, end_offset=4),
            Like(error_code=0, leader_epoch=3, end_offset=5),
            Like(error_code=0, leader_epoch=-1, end_offset=-1),
        )
    )


def test_epochs_of_unknown_partitions(broker: InProcessBroker) -> None:
    unknown = Like(error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, leader_epoch=-1, end_offset=-1)
    assert broker.client(version=4) >> end_of_epoch(0, topic="u") << answered(unknown)


def test_a_request_for_an_epoch_with_a_wrong_leader_epoch_is_rejected(broker: InProcessBroker) -> None:
    filled(broker)
    elect(broker)
    fenced = Like(error_code=ErrorCode.FENCED_LEADER_EPOCH, leader_epoch=-1, end_offset=-1)
    assert broker.client(version=4) >> end_of_epoch(0, current=0) << answered(fenced)


# ---- DeleteRecords


def deletion(name: str, *offsets: tuple[int, int]) -> DeleteRecordsRequest:
    partitions = [
        DeleteRecordsRequest.DeleteRecordsPartition(partition_index=index, offset=offset)
        for index, offset in offsets
    ]
    topic = DeleteRecordsRequest.DeleteRecordsTopic(name=name, partitions=partitions)
    return DeleteRecordsRequest(topics=[topic], timeout_ms=1000)


def deleted(*results: tuple[int, int, ErrorCode]) -> Like:
    return answered(
        *(Like(partition_index=index, low_watermark=low, error_code=code) for index, low, code in results)
    )


@pytest.mark.parametrize("version", range(3))
def test_every_version_deletes_records(broker: InProcessBroker, version: int) -> None:
    filled(broker)
    client = broker.client(version=version)
    assert client >> deletion("t", (0, 2)) << deleted((0, 2, ErrorCode.NONE))
    assert client >> deletion("t", (0, 1)) << deleted((0, 2, ErrorCode.NONE))  # it does not go back
    assert client >> deletion("t", (0, 4)) << deleted((0, -1, ErrorCode.OFFSET_OUT_OF_RANGE))
    assert client >> deletion("t", (0, -2)) << deleted((0, -1, ErrorCode.OFFSET_OUT_OF_RANGE))
    assert client >> deletion("t", (0, -1)) << deleted((0, 3, ErrorCode.NONE))
    reader = broker.client(version=LATEST)
    assert reader >> list_offsets("t", 0, timestamp=offsets.EARLIEST) << found(3, leader_epoch=0)


def test_each_partition_has_its_own_result(broker: InProcessBroker) -> None:
    broker.create_topic("t", 2, cleanup_policy="delete,compact")
    broker.create_topic("c", cleanup_policy="compact")
    client = broker.client(version=2)
    assert (
        client
        >> deletion("t", (1, 0), (0, 7), (5, 0), (0, 0))
        << deleted(
            (0, 0, ErrorCode.NONE), (1, 0, ErrorCode.NONE), (5, -1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        )
    )
    assert client >> deletion("c", (0, 0)) << deleted((0, -1, ErrorCode.POLICY_VIOLATION))
    assert client >> deletion("u", (0, 0)) << deleted((0, -1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
    assert client >> DeleteRecordsRequest() << Like(topics=[])


def test_records_of_an_internal_topic_cannot_be_deleted(broker: InProcessBroker) -> None:
    name = "__consumer_offsets"
    records = new_topics(
        broker.broker.image, [TopicSpec(name)], broker.broker.topic_defaults, broker.broker.new_topic_id
    )[name]
    assert not isinstance(records, ApiError)
    broker.controller.submit(lambda _: Decision(True, records.records), lambda _: False)
    refusal = deleted((0, -1, ErrorCode.INVALID_TOPIC_EXCEPTION))
    assert broker.client(version=2) >> deletion(name, (0, 0)) << refusal


def test_only_the_leader_deletes_records(broker: InProcessBroker) -> None:
    filled(broker)
    elect(broker, NODE_ID + 1)
    refusal = deleted((0, -1, ErrorCode.NOT_LEADER_OR_FOLLOWER))
    assert broker.client(version=2) >> deletion("t", (0, 1)) << refusal


# ---- authorization


T, DENIED = AclResourceType.TOPIC, ErrorCode.TOPIC_AUTHORIZATION_FAILED


def test_offsets_are_listed_of_topics_that_may_be_described(guarded: GuardedBroker) -> None:
    guarded.create_topic("seen")
    guarded.create_topic("hidden")
    guarded.allow(AclOperation.DESCRIBE, T, "seen")
    names = ("absent", "hidden", "seen")
    asked = ListOffsetsRequest(topics=[list_offsets(name, 0).topics[0] for name in names])
    expected = [
        Like(name="seen", partitions=[Like(error_code=0, offset=0)]),
        Like(name="absent", partitions=[refused(DENIED)]),
        Like(name="hidden", partitions=[refused(DENIED)]),
    ]
    assert guarded.client(version=LATEST) >> asked << Like(topics=expected)


def test_epochs_are_for_brokers_and_for_who_may_describe_the_topic(guarded: GuardedBroker) -> None:
    guarded.create_topic("t")
    part = OffsetForLeaderEpochRequest.OffsetForLeaderPartition(partition=0, leader_epoch=0)
    topic = OffsetForLeaderEpochRequest.OffsetForLeaderTopic(topic="t", partitions=[part])
    asked, client = OffsetForLeaderEpochRequest(topics=[topic]), guarded.client(version=4)
    denied = Like(error_code=DENIED, end_offset=-1, leader_epoch=-1)
    assert client >> asked << Like(topics=[Like(topic="t", partitions=[denied])])
    guarded.allow(AclOperation.DESCRIBE, T, "t")
    assert client >> asked << Like(topics=[Like(partitions=[Like(error_code=0)])])
    guarded.deny_again()
    guarded.allow(AclOperation.CLUSTER_ACTION)
    assert client >> asked << Like(topics=[Like(partitions=[Like(error_code=0)])])


def test_records_are_deleted_of_topics_of_which_they_may_be(guarded: GuardedBroker) -> None:
    guarded.create_topic("t")
    guarded.create_topic("hidden")
    guarded.allow(AclOperation.DELETE, T, "t")
    part = DeleteRecordsRequest.DeleteRecordsPartition(partition_index=0, offset=0)
    topics = [
        DeleteRecordsRequest.DeleteRecordsTopic(name=name, partitions=[part]) for name in ("hidden", "t")
    ]
    expected = [
        Like(name="t", partitions=[Like(error_code=0, low_watermark=0)]),
        Like(name="hidden", partitions=[Like(error_code=DENIED, low_watermark=-1)]),
    ]
    assert guarded.client(version=2) >> DeleteRecordsRequest(topics=topics) << Like(topics=expected)
