"""Produce: appends, rejected records, and the time of the response."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from barnabas.broker.security.authorizer import Action, AuthorizableRequestContext
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.acls import AclOperation, AclResourceType
from barnabas.protocol.messages.groups import FindCoordinatorRequest
from barnabas.protocol.messages.produce import ProduceResponse
from barnabas.protocol.messages.topic_records import PartitionChangeRecord
from barnabas.protocol.messages.topics import CreateTopicsRequest
from barnabas.protocol.records.builder import build_batch
from barnabas.protocol.records.compression import CompressionType
from barnabas.protocol.wire import Uuid
from barnabas.storage.log.validator import most_unpacked_bytes
from tests.broker.broker_fixture import CLOSED, SILENCE, WAITS, Client, InProcessBroker, Wait
from tests.broker.coordinator.transaction.txn_fakes import txn_batch
from tests.broker.guarded_broker import GuardedBroker
from tests.broker.held_runner import HeldRunner
from tests.broker.logs import START_MS, batch
from tests.broker.member_broker import Cluster
from tests.broker.security.hooks import AllowEveryone
from tests.conformance.dialogues.words import produce
from tests.support.difference import Like

VERSIONS = range(3, 14)
BY_NAME, LATEST = 12, 13


def answered(*partitions: dict[str, Any]) -> Like:
    """The response about one topic."""
    return Like(responses=[Like(partition_responses=[Like(**fields) for fields in partitions])])


def appended(base_offset: int = 0, index: int = 0) -> dict[str, Any]:
    return {"index": index, "error_code": ErrorCode.NONE, "base_offset": base_offset}


def refused(code: ErrorCode, index: int = 0) -> dict[str, Any]:
    return {"index": index, "error_code": code, "base_offset": -1}


def end_offset(broker: InProcessBroker, partition: int = 0, topic: str = "t") -> int:
    return broker.replica_manager.partition(topic, partition).log.log_end_offset


def patched(position: int, layout: str, value: int, *values: bytes) -> bytes:
    """A batch with some bytes replaced."""
    data = bytearray(batch(*values))
    struct.pack_into(layout, data, position, value)
    return bytes(data)


def create_topic_of(broker: InProcessBroker, transactional_id: str) -> None:
    """Creates the topic of the transaction coordinator."""
    request = FindCoordinatorRequest(key_type=1, coordinator_keys=[transactional_id])
    assert broker.client(4) >> request << Like(coordinators=[Like(error_code=0)])


# ---- appends


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("acks", [1, -1])
def test_every_version_appends_and_returns_the_offset(
    broker: InProcessBroker, version: int, acks: int
) -> None:
    topic_id = broker.create_topic("t")
    topic: str | Uuid = topic_id if version >= LATEST else "t"
    client = broker.client(version=version)
    assert client >> produce(topic, batch("a", "b"), acks=acks) << answered(appended(0))
    assert client >> produce(topic, batch("c"), acks=acks) << answered(appended(2))


def test_results_come_in_the_order_of_the_request(broker: InProcessBroker) -> None:
    broker.create_topic("t", partitions=3)
    broker.create_topic("u")
    request = produce("t", batch("a"), b"", batch("b", "c"))
    request.topic_data += produce("u", batch("d")).topic_data
    assert (
        broker.client(BY_NAME)
        >> request
        << Like(
            responses=[
                Like(
                    name="t",
                    partition_responses=[
                        Like(**appended(index=0)),
                        Like(**refused(ErrorCode.INVALID_RECORD, index=1)),
                        Like(**appended(index=2)),
                    ],
                ),
                Like(name="u", partition_responses=[Like(**appended())]),
            ]
        )
    )
    assert [end_offset(broker, index) for index in range(3)] == [1, 0, 2]


def test_a_topic_without_partitions_is_not_in_the_response(broker: InProcessBroker) -> None:
    assert broker.client(BY_NAME) >> produce("t") << Like(responses=[])


def test_the_append_time_is_returned_where_it_applies(broker: InProcessBroker) -> None:
    broker.create_topic("t", message_timestamp_type="LogAppendTime")
    broker.create_topic("u")
    client = broker.client(BY_NAME)
    assert (
        client
        >> produce("t", batch("a"))
        << answered({"log_append_time_ms": START_MS, "log_start_offset": 0})
    )
    assert client >> produce("u", batch("a")) << answered({"log_append_time_ms": -1, "log_start_offset": 0})


def test_a_duplicate_is_appended_once(broker: InProcessBroker) -> None:
    broker.create_topic("t")
    client = broker.client(BY_NAME)
    once = batch("a", "b", producer_id=7, producer_epoch=0, base_sequence=0)
    for _ in range(2):
        assert client >> produce("t", once) << answered(appended(0))
    assert end_offset(broker) == 2


def test_traffic_and_errors_are_counted(broker: InProcessBroker) -> None:
    broker.create_topic("t")
    data = batch("a", "b")
    assert (
        broker.client(BY_NAME)
        >> produce("t", data, b"")
        << answered(appended(), refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, index=1))
    )
    counters = broker.topics.topics["t"]
    assert (counters.messages_in, counters.bytes_in) == (2, len(data))
    assert broker.requests.apis["PRODUCE"].errors == {"UNKNOWN_TOPIC_OR_PARTITION": 1}


# ---- acks


def test_with_acks_0_there_is_no_response(broker: InProcessBroker) -> None:
    broker.create_topic("t")
    client = broker.client(BY_NAME)
    assert client >> produce("t", batch("a"), acks=0) << SILENCE
    assert end_offset(broker) == 1


def test_with_acks_0_an_error_closes_the_connection(broker: InProcessBroker) -> None:
    broker.create_topic("t")
    assert broker.client(BY_NAME) >> produce("t", batch("a"), b"", acks=0) << CLOSED
    assert end_offset(broker) == 1


@pytest.mark.parametrize("acks", [7, -2, 32767])
def test_invalid_acks(broker: InProcessBroker, acks: int) -> None:
    broker.create_topic("t")
    request = produce("t", batch("a"), b"", acks=acks)
    assert (
        broker.client(BY_NAME)
        >> request
        << answered(
            refused(ErrorCode.INVALID_REQUIRED_ACKS), refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, index=1)
        )
    )
    assert end_offset(broker) == 0


@pytest.mark.parametrize("acks", [1, -1])
def test_with_a_flush_policy_a_response_waits_for_the_flush(tmp_path: Path, acks: int) -> None:
    runner, broker, client = slow_broker(tmp_path)
    assert client >> produce("t", batch("a"), acks=acks) << WAITS
    runner.release_all()
    assert client << answered(appended())
    broker.kill()


def test_with_acks_0_a_flush_is_not_awaited(tmp_path: Path) -> None:
    runner, broker, client = slow_broker(tmp_path)
    assert client >> produce("t", batch("a"), acks=0) << SILENCE
    runner.release_all()
    broker.kill()


def test_a_slow_flush_times_out(tmp_path: Path) -> None:
    runner, broker, client = slow_broker(tmp_path)
    request = produce("t", batch("a"))
    request.timeout_ms = 500
    assert (
        client
        >> request
        >> Wait(0.499)
        << WAITS
        >> Wait(0.001)
        << answered(refused(ErrorCode.REQUEST_TIMED_OUT))
    )
    runner.release_all()
    broker.kill()


def slow_broker(directory: Path) -> tuple[HeldRunner, InProcessBroker, Client]:
    """A broker whose disk the test releases, with a topic t that is flushed for every record."""
    runner = HeldRunner()
    broker = InProcessBroker(directory, runner=runner)
    always = CreateTopicsRequest.CreatableTopicConfig(name="flush.messages", value="1")
    topic = CreateTopicsRequest.CreatableTopic(
        name="t", num_partitions=1, replication_factor=1, configs=[always]
    )
    client = broker.client(version=7) >> CreateTopicsRequest(topics=[topic])
    runner.release_all()
    assert client << Like(topics=[Like(error_code=ErrorCode.NONE)])
    return runner, broker, broker.client(BY_NAME)


# ---- rejected requests


def test_unknown_topics(broker: InProcessBroker) -> None:
    broker.create_topic("t")
    by_name, by_id = broker.client(BY_NAME), broker.client(LATEST)
    unknown = answered(refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
    assert by_name >> produce("u", batch("a")) << unknown
    assert by_id >> produce(b"?" * 16, batch("a")) << answered(refused(ErrorCode.UNKNOWN_TOPIC_ID))
    one_too_far = answered(refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, index=1))
    assert by_name >> produce("t", batch("a"), first_partition=1) << one_too_far


def test_a_transactional_id_alone_makes_no_transaction(broker: InProcessBroker) -> None:
    broker.create_topic("t")
    named = produce("t", batch("a"), transactional_id="tx")
    assert broker.client(BY_NAME) >> named << answered(appended())


def test_a_transaction_that_was_not_begun(broker: InProcessBroker) -> None:
    broker.create_topic("t")
    create_topic_of(broker, "tx")
    client = broker.client(11)
    code = ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert client >> produce("t", txn_batch("a"), transactional_id="tx") << answered(refused(code))
    assert client >> produce("t", txn_batch("a"), transactional_id="tx", acks=0) << CLOSED
    assert end_offset(broker) == 0


def test_batches_of_two_producers_fail_the_request(broker: InProcessBroker) -> None:
    broker.create_topic("t", partitions=2)
    request = produce("t", txn_batch("a"), txn_batch("b", producer_id=8), transactional_id="tx")
    code = ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert broker.client(BY_NAME) >> request << answered(refused(code), refused(code, index=1))


def test_a_transactional_batch_with_an_incomplete_header_is_corrupt(broker: InProcessBroker) -> None:
    broker.create_topic("t")
    short = bytearray(txn_batch("a")[:40])
    struct.pack_into(">i", short, 8, len(short) - 12)
    request = produce("t", bytes(short), transactional_id="tx")
    assert broker.client(BY_NAME) >> request << answered(refused(ErrorCode.CORRUPT_MESSAGE))


def test_a_transactional_batch_without_a_transactional_id_fails_the_request(broker: InProcessBroker) -> None:
    broker.create_topic("t", partitions=2)
    transactional = build_batch(
        [(b"k", b"v", START_MS, ())], producer_id=1, producer_epoch=0, base_sequence=0, is_transactional=True
    )
    code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    request = produce("t", batch("a"), transactional)
    assert broker.client(BY_NAME) >> request << answered(refused(code), refused(code, index=1))
    assert end_offset(broker, 0) == 0


def test_a_truncated_transactional_batch_is_not_recognized_as_transactional(
    broker: InProcessBroker,
) -> None:
    request = produce("t", txn_batch("a")[:-1])
    assert broker.client(BY_NAME) >> request << answered(refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))


def test_a_batch_of_an_unknown_format_fails_the_request(broker: InProcessBroker) -> None:
    """Unless a transactional batch precedes it: Kafka looks for one before it looks for topics."""
    broker.create_topic("t", partitions=2)
    code = ErrorCode.CORRUPT_MESSAGE
    no_format = patched(16, ">b", 3)
    client = broker.client(BY_NAME)
    assert client >> produce("t", batch("a"), no_format) << answered(refused(code), refused(code, index=1))
    assert client >> produce("nowhere", no_format) << answered(refused(code))
    assert client >> produce("t", no_format, acks=0) << CLOSED
    assert end_offset(broker, 0) == 0


BAD_BATCHES: dict[str, tuple[Callable[[], bytes | None], ErrorCode]] = {
    "none": (lambda: None, ErrorCode.INVALID_RECORD),
    "empty": (lambda: b"", ErrorCode.INVALID_RECORD),
    "less than a header": (lambda: batch("a")[:11], ErrorCode.INVALID_RECORD),
    "cut before its format": (lambda: batch("a")[:16], ErrorCode.INVALID_RECORD),
    "cut": (lambda: batch("a")[:-1], ErrorCode.INVALID_RECORD),
    "two": (lambda: batch("a") + batch("b"), ErrorCode.INVALID_RECORD),
    "format 1": (lambda: patched(16, ">b", 1), ErrorCode.INVALID_RECORD),
    "format 3": (lambda: patched(16, ">b", 3), ErrorCode.CORRUPT_MESSAGE),
    "a length of nothing": (lambda: patched(8, ">i", 13), ErrorCode.CORRUPT_MESSAGE),
    "a negative length": (lambda: patched(8, ">i", -1), ErrorCode.CORRUPT_MESSAGE),
    "a wrong checksum": (lambda: patched(17, ">I", 7), ErrorCode.CORRUPT_MESSAGE),
}


@pytest.mark.parametrize("version", [6, 7, LATEST])
@pytest.mark.parametrize("kind", BAD_BATCHES)
def test_an_invalid_batch_is_rejected_and_nothing_appended(
    broker: InProcessBroker, version: int, kind: str
) -> None:
    make, code = BAD_BATCHES[kind]
    topic_id = broker.create_topic("t")
    request = produce(topic_id if version >= LATEST else "t", make())
    assert broker.client(version=version) >> request << answered(refused(code))
    assert end_offset(broker) == 0


@pytest.mark.parametrize("tail", [b"x", batch("b")[:-1], batch("b")[:16]])
def test_an_incomplete_batch_at_the_end_is_ignored(broker: InProcessBroker, tail: bytes) -> None:
    broker.create_topic("t")
    assert broker.client(BY_NAME) >> produce("t", batch("a") + tail) << answered(appended())
    assert end_offset(broker) == 1


@pytest.mark.parametrize(
    ("version", "outcome"),
    [(6, refused(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)), (7, appended())],
)
def test_zstd_is_supported_from_version_7(
    broker: InProcessBroker, version: int, outcome: dict[str, Any]
) -> None:
    broker.create_topic("t")
    compressed = build_batch([(None, b"v", START_MS, ())], compression=CompressionType.ZSTD)
    assert broker.client(version=version) >> produce("t", compressed) << answered(outcome)


@pytest.mark.parametrize(
    ("first", "acks"), [("zstd", -1), ("zstd", 7)], ids=["several batches", "acks that mean nothing"]
)
def test_unsupported_zstd_is_reported_first(broker: InProcessBroker, first: str, acks: int) -> None:
    broker.create_topic("t")
    compressed = build_batch([(None, b"v", START_MS, ())], compression=CompressionType.of_label(first))
    refusal = answered(refused(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE))
    assert broker.client(version=6) >> produce("t", compressed * 2, acks=acks) << refusal
    other_format = bytearray(compressed)
    other_format[16] = 1
    refusal = answered(refused(ErrorCode.INVALID_RECORD))
    assert broker.client(version=6) >> produce("t", bytes(other_format), acks=acks) << refusal


@pytest.mark.parametrize("version", [8, BY_NAME])
def test_invalid_records_are_listed(broker: InProcessBroker, version: int) -> None:
    broker.create_topic("t", cleanup_policy="compact")
    answer = broker.client(version=version).ask(produce("t", batch("a", "b")))
    assert isinstance(answer, ProduceResponse)
    (partition,) = answer.responses[0].partition_responses
    assert partition.error_code == ErrorCode.INVALID_RECORD
    assert [error.batch_index for error in partition.record_errors] == [0, 1]
    assert partition.error_message
    assert partition.log_start_offset == 0


def test_an_oversized_batch(broker: InProcessBroker) -> None:
    broker.create_topic("t", max_message_bytes="100")
    assert (
        broker.client(BY_NAME)
        >> produce("t", batch(b"x" * 100))
        << answered({**refused(ErrorCode.MESSAGE_TOO_LARGE), "log_start_offset": -1})
    )


def test_a_batch_that_decompresses_to_too_much_is_too_large(broker: InProcessBroker) -> None:
    """On CORRUPT_MESSAGE producers would retry it endlessly."""
    broker.create_topic("t")
    packed = build_batch(
        [(None, bytes(most_unpacked_bytes(1_048_588)), START_MS, ())], compression=CompressionType.ZSTD
    )
    refusal = answered(refused(ErrorCode.MESSAGE_TOO_LARGE))
    assert broker.client(BY_NAME) >> produce("t", packed) << refusal
    assert end_offset(broker) == 0


# ---- internal topics


@pytest.mark.parametrize("name", ["__consumer_offsets", "__transaction_state", "__share_group_state"])
def test_clients_cannot_produce_to_internal_topics(broker: InProcessBroker, name: str) -> None:
    broker.create_topic(name)
    refusal = refused(ErrorCode.INVALID_TOPIC_EXCEPTION)
    assert broker.client(BY_NAME) >> produce(name, batch("a")) << answered(refusal)
    # Errors in the records take precedence.
    assert broker.client(BY_NAME) >> produce(name, b"") << answered(refused(ErrorCode.INVALID_RECORD))
    tool = broker.client(BY_NAME, "__admin_client")
    assert tool >> produce(name, batch("a")) << answered(appended(0))


# ---- led elsewhere


@pytest.mark.parametrize("version", [9, 10, 12, 13])
def test_a_producer_is_told_the_leader_and_its_endpoint(broker: InProcessBroker, version: int) -> None:
    topic_id = broker.create_topic("t", partitions=3)
    cluster = Cluster(broker)
    for index, leader in ((0, 2), (1, 3)):
        change = PartitionChangeRecord(partition_id=index, topic_id=topic_id, leader=leader)
        cluster.commit(change)
    request = produce(topic_id if version == LATEST else "t", *[batch("a")] * 3)
    told = cluster.broker.client(version=version).ask(request)
    assert isinstance(told, ProduceResponse)
    codes = [partition.error_code for partition in told.responses[0].partition_responses]
    assert codes == [ErrorCode.NOT_LEADER_OR_FOLLOWER] * 2 + [ErrorCode.NONE]
    named = [
        (partition.current_leader.leader_id, partition.current_leader.leader_epoch)
        for partition in told.responses[0].partition_responses
    ]
    if version < 10:
        assert (named, told.node_endpoints) == ([(-1, -1)] * 3, [])
        return
    assert named == [(2, 1), (3, 1), (-1, -1)]
    assert told.node_endpoints == [ProduceResponse.NodeEndpoint(node_id=2, host="b2", port=9000, rack="r2")]


# ---- authorization


T, X = AclResourceType.TOPIC, AclResourceType.TRANSACTIONAL_ID
DENIED, NO_ID = ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def to_topics(
    *names: str | Uuid, acks: int = -1, transactional_id: str | None = None, data: bytes = b""
) -> Any:
    """A request for the first partition of several topics."""
    request = produce(names[0], data or batch("a"), acks=acks, transactional_id=transactional_id)
    request.topic_data = [produce(name, data or batch("a")).topic_data[0] for name in names]
    return request


def results(*codes: ErrorCode | int) -> Like:
    return Like(responses=[Like(partition_responses=[Like(error_code=code)]) for code in codes])


def test_records_are_appended_to_topics_that_may_be_written(guarded: GuardedBroker) -> None:
    guarded.create_topic("mine")
    guarded.create_topic("hidden")
    client = guarded.client(version=BY_NAME)
    assert client >> to_topics("mine", "hidden") << results(DENIED, DENIED)
    guarded.allow(AclOperation.WRITE, T, "mine", "absent")
    asked = to_topics("hidden", "mine", "absent", "never")
    assert client >> asked << results(DENIED, 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, DENIED)
    assert [end_offset(guarded, topic=name) for name in ("mine", "hidden")] == [1, 0]


def test_the_error_of_a_hidden_topic_is_that_whatever_the_records_are(guarded: GuardedBroker) -> None:
    guarded.create_topic("hidden")
    denied = Like(responses=[Like(partition_responses=[Like(error_code=DENIED, error_message=None)])])
    assert guarded.client(version=BY_NAME) >> produce("hidden", b"no batch") << denied


def test_an_unknown_id_is_reported_as_that(guarded: GuardedBroker) -> None:
    hidden = guarded.create_topic("hidden")
    answer = results(ErrorCode.UNKNOWN_TOPIC_ID, DENIED)
    assert guarded.client(version=LATEST) >> to_topics(b"?" * 16, hidden) << answer


def test_without_acknowledgements_the_connection_closes(guarded: GuardedBroker) -> None:
    guarded.create_topic("hidden")
    guarded.create_topic("mine")
    guarded.allow(AclOperation.WRITE, T, "mine")
    client = guarded.client(version=BY_NAME)
    assert client >> to_topics("mine", acks=0) << SILENCE
    assert client >> to_topics("mine", "hidden", acks=0) << CLOSED


def test_transactional_records_need_the_id(guarded: GuardedBroker) -> None:
    create_topic_of_guarded(guarded)
    guarded.create_topic("mine")
    guarded.create_topic("hidden")
    client, data = guarded.client(version=BY_NAME), txn_batch("a")
    guarded.allow(AclOperation.WRITE, T, "mine")
    assert client >> to_topics("mine", data=data) << results(NO_ID)
    assert client >> to_topics("mine", transactional_id="x", data=data) << results(NO_ID)
    guarded.allow(AclOperation.WRITE, X, "x")
    assert client >> to_topics("hidden", transactional_id="x", data=data) << results(DENIED)
    answer = client.ask(to_topics("mine", "hidden", transactional_id="x", data=data))
    assert isinstance(answer, ProduceResponse)
    codes = [topic.partition_responses[0].error_code for topic in answer.responses]
    assert codes[1] == DENIED
    assert codes[0] not in (DENIED, NO_ID)


def create_topic_of_guarded(broker: GuardedBroker) -> None:
    request = FindCoordinatorRequest(key_type=1, coordinator_keys=["x"])
    assert broker.admin(4) >> request << Like(coordinators=[Like(error_code=0)])


def test_a_response_that_waits_has_what_was_denied_too(tmp_path: Path) -> None:
    runner = HeldRunner()
    settings = {"log.flush.interval.messages": "1", "super.users": "User:admin;User:ANONYMOUS"}
    running = GuardedBroker(tmp_path, settings, runner=runner)
    topic = CreateTopicsRequest.CreatableTopic(name="mine", num_partitions=1, replication_factor=1)
    admin = running.admin(version=7)
    assert admin >> CreateTopicsRequest(topics=[topic]) << WAITS
    runner.release_all()
    assert admin << Like(topics=[Like(error_code=0)])
    auth = running.broker.auth
    assert auth is not None
    auth.authorizer = OnlyTopic("mine")
    client = running.client(version=BY_NAME)
    assert client >> to_topics("hidden", "mine") << WAITS
    runner.release_all()
    assert client << results(DENIED, 0)
    running.kill()


class OnlyTopic(AllowEveryone):
    """Allows one topic."""

    def __init__(self, name: str) -> None:
        self._name = name

    def authorize(self, context: AuthorizableRequestContext, actions: Sequence[Action]) -> list[bool]:
        return [action.name == self._name for action in actions]
