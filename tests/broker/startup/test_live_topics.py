"""The effect of changed settings of a topic, or of the broker, on records."""

from __future__ import annotations

import pytest

from barnabas.broker.metadata.image import BROKER_RESOURCE, TOPIC_RESOURCE
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.configs import IncrementalAlterConfigsRequest
from barnabas.protocol.messages.produce import ProduceResponse
from barnabas.protocol.records.batch import TimestampType
from barnabas.protocol.records.compression import CompressionType
from barnabas.protocol.records.entries import batches
from barnabas.storage.cleaner.manager import LogCleanerManager
from barnabas.storage.log.unified_log import UnifiedLog
from barnabas.storage.offsets import FetchIsolation
from tests.broker.broker_fixture import NODE_ID, InProcessBroker
from tests.broker.logs import batch
from tests.conformance.dialogues.words import produce
from tests.support.difference import Like

SET, DELETE = 0, 1
VERSION = 1

OF_TOPIC, OF_BROKER, OF_ALL = (TOPIC_RESOURCE, "t"), (BROKER_RESOURCE, str(NODE_ID)), (BROKER_RESOURCE, "")


def alter(broker: InProcessBroker, resource: tuple[int, str], key: str, value: str | None) -> None:
    """Sets a key, or deletes it if there is no value."""
    kind, name = resource
    one = IncrementalAlterConfigsRequest.AlterableConfig(
        name=key, config_operation=DELETE if value is None else SET, value=value
    )
    wanted = IncrementalAlterConfigsRequest.AlterConfigsResource(
        resource_type=kind, resource_name=name, configs=[one]
    )
    answer = Like(responses=[Like(error_code=0)])
    assert broker.client(VERSION) >> IncrementalAlterConfigsRequest(resources=[wanted]) << answer


def append(
    broker: InProcessBroker, value: bytes = b"x", *, key: bytes | None = None, acks: int = -1
) -> ErrorCode:
    """Produces one record; returns the error code."""
    answer = broker.client(9).ask(produce("t", batch(value, key=key), acks=acks))
    assert isinstance(answer, ProduceResponse)
    return ErrorCode(answer.responses[0].partition_responses[0].error_code)


def the_log(broker: InProcessBroker) -> UnifiedLog:
    return broker.replica_manager.partition("t", 0).log


@pytest.fixture
def topic(broker: InProcessBroker) -> InProcessBroker:
    """The broker, with a topic t."""
    broker.create_topic("t")
    return broker


@pytest.mark.parametrize(
    ("resource", "key"),
    [(OF_TOPIC, "max.message.bytes"), (OF_BROKER, "message.max.bytes"), (OF_ALL, "message.max.bytes")],
)
def test_a_new_maximum_of_record_sizes(topic: InProcessBroker, resource: tuple[int, str], key: str) -> None:
    assert append(topic, b"x" * 500) is ErrorCode.NONE
    alter(topic, resource, key, "300")
    assert append(topic, b"x" * 500) is ErrorCode.MESSAGE_TOO_LARGE
    assert append(topic, b"x") is ErrorCode.NONE
    alter(topic, resource, key, None)
    assert append(topic, b"x" * 500) is ErrorCode.NONE


def stored(broker: InProcessBroker) -> list[tuple[TimestampType, CompressionType]]:
    log = the_log(broker)
    data = log.read(0, 1 << 20, FetchIsolation.LOG_END, min_one_message=True).records.read()
    return [(one.timestamp_type, one.compression_type) for one in batches(data)]


def test_new_limits_of_segments(topic: InProcessBroker) -> None:
    log = the_log(topic)
    for _ in range(5):
        append(topic)
    assert log.segment_count == 1
    alter(topic, OF_TOPIC, "internal.segment.bytes", "100")
    for _ in range(5):
        append(topic)
    assert log.segment_count == 6
    topic.log_manager.cleanup_logs()
    assert log.segment_count == 6
    alter(topic, OF_BROKER, "log.retention.bytes", "150")
    topic.log_manager.cleanup_logs()
    assert log.segment_count == 3
    alter(topic, OF_TOPIC, "cleanup.policy", "")
    alter(topic, OF_TOPIC, "retention.bytes", "1")
    topic.log_manager.cleanup_logs()
    assert log.segment_count == 3


def test_a_topic_is_compacted_once_configured(topic: InProcessBroker) -> None:
    topic.log_manager.cleaner = cleaner = LogCleanerManager(topic.env, topic.log_manager)
    alter(topic, OF_TOPIC, "internal.segment.bytes", "100")
    for _ in range(5):
        append(topic, key=b"k")
    assert cleaner.grab_filthiest_log() is None
    alter(topic, OF_TOPIC, "cleanup.policy", "compact")
    found = cleaner.grab_filthiest_log()
    assert found is not None
    assert found.log is the_log(topic)
    alter(topic, OF_TOPIC, "cleanup.policy", "delete")
    assert cleaner.is_aborted(found.key)
    cleaner.done_cleaning(found, None)
    alter(topic, OF_BROKER, "log.cleanup.policy", "compact")
    assert cleaner.grab_filthiest_log() is None
    alter(topic, OF_TOPIC, "cleanup.policy", None)
    assert cleaner.grab_filthiest_log() is not None


def test_records_without_a_key_are_rejected_once_a_topic_is_compacted(topic: InProcessBroker) -> None:
    assert append(topic) is ErrorCode.NONE
    alter(topic, OF_TOPIC, "cleanup.policy", "compact")
    assert append(topic) is ErrorCode.INVALID_RECORD


def test_new_limits_of_timestamps(topic: InProcessBroker) -> None:
    topic.env.ms += 10_000_000
    assert append(topic) is ErrorCode.NONE
    alter(topic, OF_BROKER, "log.message.timestamp.before.max.ms", "1000")
    assert append(topic) is ErrorCode.INVALID_TIMESTAMP
    alter(topic, OF_TOPIC, "message.timestamp.type", "LogAppendTime")
    assert append(topic) is ErrorCode.NONE


def test_new_timestamp_type_and_compression(topic: InProcessBroker) -> None:
    append(topic)
    alter(topic, OF_TOPIC, "message.timestamp.type", "LogAppendTime")
    append(topic)
    alter(topic, OF_BROKER, "compression.type", "zstd")
    append(topic)
    assert stored(topic) == [
        (TimestampType.CREATE_TIME, CompressionType.NONE),
        (TimestampType.LOG_APPEND_TIME, CompressionType.NONE),
        (TimestampType.LOG_APPEND_TIME, CompressionType.ZSTD),
    ]


def test_a_new_flush_policy(topic: InProcessBroker) -> None:
    log = the_log(topic)
    append(topic)
    assert log.recovery_point == 0
    alter(topic, OF_BROKER, "log.flush.interval.messages", "1")
    append(topic)
    assert log.recovery_point == 2
    alter(topic, OF_TOPIC, "flush.messages", "10")
    append(topic)
    assert log.recovery_point == 2
    alter(topic, OF_TOPIC, "flush.ms", "5")
    topic.env.ms += 5
    assert topic.log_manager.logs_to_flush() == [log]


def test_a_new_expiration_of_producers(topic: InProcessBroker) -> None:
    the_log(topic).append_as_leader(batch(b"x", producer_id=7, producer_epoch=0, base_sequence=0), 0)
    topic.env.ms += 5000
    assert topic.log_manager.remove_expired_producers() == 0
    alter(topic, OF_BROKER, "producer.id.expiration.ms", "5000")
    assert topic.log_manager.remove_expired_producers() == 1
