"""Fetch: returned records, waits, and errors."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from barnabas.broker.controller.embedded import Decision
from barnabas.broker.kafka_apis.handlers.fetch import READ_COMMITTED
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.acls import AclOperation, AclResourceType
from barnabas.protocol.messages.fetch import FetchRequest, FetchResponse
from barnabas.protocol.messages.produce import ProduceRequest
from barnabas.protocol.messages.topic_records import PartitionChangeRecord
from barnabas.protocol.records.builder import build_batch
from barnabas.protocol.records.control import end_transaction_marker
from barnabas.protocol.records.entries import batches
from barnabas.protocol.wire import Uuid
from barnabas.storage.offsets import AppendOrigin
from tests.broker.broker_fixture import DIALLED_HOST, DIALLED_PORT, NODE_ID, WAITS, InProcessBroker, Wait
from tests.broker.guarded_broker import GuardedBroker
from tests.broker.logs import START_MS, batch
from tests.broker.member_broker import Cluster
from tests.broker.throttled import set_quotas, throttled
from tests.conformance.dialogues.words import fetch, fetch_topic, partition, produce
from tests.support.difference import Like

VERSIONS = range(4, 19)
BY_NAME, BY_ID, WITH_LEADERS, LATEST = 12, 13, 16, 18
OTHER_NODE = 2


def answered(*partitions: Like, **fields: object) -> Like:
    """The response about one topic."""
    return Like(responses=[Like(partitions=list(partitions))], **fields)


def refused(code: ErrorCode, **fields: object) -> Like:
    return Like(
        error_code=code, high_watermark=-1, last_stable_offset=-1, log_start_offset=-1, records=b"", **fields
    )


def filled(broker: InProcessBroker, *batches_: Sequence[str], topic: str = "t") -> Uuid:
    """A topic with these batches; the last offset is one less than there are values."""
    topic_id = broker.create_topic(topic)
    for values in batches_:
        appended = Like(responses=[Like(partition_responses=[Like(error_code=ErrorCode.NONE)])])
        assert broker.client(version=BY_NAME) >> produce(topic, batch(*values)) << appended
    return topic_id


def values_in(data: FetchResponse.PartitionData) -> list[bytes | None]:
    assert isinstance(data.records, bytes | memoryview)
    return [record.value for part in batches(data.records) for record in part.records()]


def only(
    broker: InProcessBroker, request: FetchRequest, version: int = LATEST
) -> FetchResponse.PartitionData:
    """The one partition in the response."""
    answer = broker.client(version=version).ask(request)
    assert isinstance(answer, FetchResponse)
    ((data,),) = (topic.partitions for topic in answer.responses)
    return data


def set_leader(broker: InProcessBroker, topic_id: Uuid, leader: int) -> None:
    """Makes another node the leader of the topic's first partition."""
    change = PartitionChangeRecord(partition_id=0, topic_id=topic_id, leader=leader)
    done = broker.controller.submit(lambda _: Decision(True, [change]), lambda _: False)
    assert done.done


# ---- records


@pytest.mark.parametrize("version", VERSIONS)
def test_every_version_reads_what_was_written(broker: InProcessBroker, version: int) -> None:
    topic_id = filled(broker, ["a", "b"], ["c"])
    request = fetch(fetch_topic(topic_id if version >= BY_ID else "t", [partition(0, 1)]))
    data = only(broker, request, version)
    assert (data.error_code, data.high_watermark, data.last_stable_offset) == (ErrorCode.NONE, 3, 3)
    assert data.log_start_offset == (0 if version >= 5 else -1)
    assert data.aborted_transactions is None
    assert values_in(data) == [b"a", b"b", b"c"]


def test_at_the_log_end_there_are_no_records(broker: InProcessBroker) -> None:
    filled(broker, ["a"])
    request = fetch(fetch_topic("t", [partition(0, 1)]))
    assert broker.client(BY_NAME) >> request << answered(Like(error_code=0, high_watermark=1, records=b""))


def test_fetch_max_bytes_of_the_broker_applies_too(tmp_path: Path) -> None:
    broker = InProcessBroker(tmp_path, {"fetch.max.bytes": "1024"})
    topic_id = filled(broker, ["a" * 600], ["b" * 600], ["c" * 600])
    data = only(broker, fetch(fetch_topic(topic_id, [partition()])))
    assert values_in(data) == [b"a" * 600]
    broker.kill()


def test_reading_is_counted(broker: InProcessBroker) -> None:
    data = only(broker, fetch(fetch_topic(filled(broker, ["a"]), [partition()])))
    assert isinstance(data.records, bytes | memoryview)
    assert broker.topics.topics["t"].bytes_out == len(data.records)


def test_read_committed_gets_the_aborted_transactions(broker: InProcessBroker) -> None:
    topic_id = filled(broker, ["a"])
    log = broker.replica_manager.partition("t", 0)
    records = build_batch(
        [(None, b"x", START_MS, ())], producer_id=9, producer_epoch=0, base_sequence=0, is_transactional=True
    )
    log.append_as_leader(records, -1)
    request = fetch(fetch_topic(topic_id, [partition()]), isolation_level=READ_COMMITTED)
    open_ = only(broker, request)
    assert (open_.high_watermark, open_.last_stable_offset, values_in(open_)) == (2, 1, [b"a"])
    marker = end_transaction_marker(
        commit=False, coordinator_epoch=0, producer_id=9, producer_epoch=0, timestamp=START_MS
    )
    log.append_as_leader(marker, -1, AppendOrigin.COORDINATOR)
    ended = only(broker, request)
    assert (ended.high_watermark, ended.last_stable_offset) == (3, 3)
    assert ended.aborted_transactions == [FetchResponse.AbortedTransaction(producer_id=9, first_offset=1)]
    request.isolation_level = 0
    assert only(broker, request).aborted_transactions is None


@pytest.mark.parametrize(("of_each", "aborted"), [(300, None), (0, [0]), (1000, [0])])
def test_a_batch_beyond_the_limit_has_no_aborted_transactions(
    broker: InProcessBroker, of_each: int, aborted: list[int] | None
) -> None:
    """Checks the second partition: the first returns its first batch, whatever the limits."""
    broker.create_topic("t", partitions=2)
    for index in (0, 1):
        log = broker.replica_manager.partition("t", index)
        records = build_batch(
            [(None, b"x" * 400, START_MS, ())],
            producer_id=9,
            producer_epoch=0,
            base_sequence=0,
            is_transactional=True,
        )
        log.append_as_leader(records, -1)
        marker = end_transaction_marker(
            commit=False, coordinator_epoch=0, producer_id=9, producer_epoch=0, timestamp=START_MS
        )
        log.append_as_leader(marker, -1, AppendOrigin.COORDINATOR)
    both = fetch_topic("t", [partition(index, max_bytes=of_each) for index in (0, 1)])
    answer = broker.client(BY_NAME).ask(fetch(both, isolation_level=READ_COMMITTED))
    assert isinstance(answer, FetchResponse)
    first, second = answer.responses[0].partitions
    starts = [
        None if data.aborted_transactions is None else [it.first_offset for it in data.aborted_transactions]
        for data in (first, second)
    ]
    assert starts == [[0], aborted]
    assert bool(second.records) == (of_each == 1000)


# ---- waits


@pytest.mark.parametrize("version", [BY_NAME, LATEST])
def test_a_reader_waits_for_records(broker: InProcessBroker, version: int) -> None:
    topic_id = filled(broker)
    topic: str | Uuid = topic_id if version >= BY_ID else "t"
    reader = broker.client(version=version)
    assert reader >> fetch(fetch_topic(topic, [partition()]), max_wait_ms=500) << WAITS
    appended = Like(responses=[Like(partition_responses=[Like(base_offset=0)])])
    assert broker.client(version=BY_NAME) >> produce("t", batch("a")) << appended
    assert reader << answered(Like(error_code=0, high_watermark=1))


@pytest.mark.parametrize("session_epoch", [-1, 0])
def test_a_waiting_fetch_returns_all_records_of_one_request(
    broker: InProcessBroker, session_epoch: int
) -> None:
    broker.create_topic("t", 2)
    wanted = fetch(fetch_topic("t", [partition(0), partition(1)]), max_wait_ms=500)
    wanted.session_epoch = session_epoch
    reader = broker.client(version=BY_NAME)
    assert reader >> wanted << WAITS
    both = produce("t", batch("a"))
    both.topic_data[0].partition_data.append(ProduceRequest.PartitionProduceData(index=1, records=batch("b")))
    broker.client(version=BY_NAME).ask(both)
    assert reader << answered(Like(high_watermark=1), Like(high_watermark=1))


def test_a_fetch_waits_at_most_its_max_wait(broker: InProcessBroker) -> None:
    topic = fetch_topic(filled(broker), [partition()])
    reader = broker.client(LATEST) >> fetch(topic, max_wait_ms=500) >> Wait(0.499) << WAITS
    assert reader >> Wait(0.001) << answered(Like(error_code=0, records=b""))


def test_min_bytes_is_limited_by_max_bytes(broker: InProcessBroker) -> None:
    """min_bytes beyond max_bytes could never be reached."""
    topic = fetch_topic(filled(broker, ["a" * 100], ["b" * 100]), [partition()])
    request = fetch(topic, max_wait_ms=500, min_bytes=10_000, max_bytes=100)
    assert values_in(only(broker, request)) == [b"a" * 100]


# ---- errors


def test_offsets_out_of_range(broker: InProcessBroker) -> None:
    topic_id = filled(broker, ["a"])
    for offset in (2, -1):
        request = fetch(fetch_topic(topic_id, [partition(0, offset)]))
        assert (
            broker.client(LATEST)
            >> request
            << answered(refused(ErrorCode.OFFSET_OUT_OF_RANGE, aborted_transactions=None), node_endpoints=[])
        )
    assert broker.requests.apis["FETCH"].errors == {"OFFSET_OUT_OF_RANGE": 2}


def test_unknown_topics(broker: InProcessBroker) -> None:
    by_name = fetch(fetch_topic("u", [partition()]), max_wait_ms=500)
    assert (
        broker.client(BY_NAME)
        >> by_name
        << answered(refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, aborted_transactions=[]))
    )
    by_id = fetch(fetch_topic(b"?" * 16, [partition()]), max_wait_ms=500)
    assert (
        broker.client(LATEST)
        >> by_id
        << answered(refused(ErrorCode.UNKNOWN_TOPIC_ID, aborted_transactions=[]))
    )


@pytest.mark.parametrize("version", [BY_NAME, 15])
def test_before_version_16_a_former_leader_returns_only_an_error(
    broker: InProcessBroker, version: int
) -> None:
    topic_id = filled(broker)
    set_leader(broker, topic_id, OTHER_NODE)
    request = fetch(fetch_topic(topic_id if version >= BY_ID else "t", [partition(epoch=0)]))
    assert (
        broker.client(version=version)
        >> request
        << answered(
            refused(ErrorCode.FENCED_LEADER_EPOCH, current_leader=FetchResponse.LeaderIdAndEpoch()),
            node_endpoints=[],
        )
    )


@pytest.mark.parametrize(
    ("version", "code"),
    [
        (4, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (5, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (6, ErrorCode.KAFKA_STORAGE_ERROR),
        (LATEST, ErrorCode.KAFKA_STORAGE_ERROR),
    ],
)
def test_a_failed_disk_is_reported_with_a_code_of_the_version(
    broker: InProcessBroker, version: int, code: ErrorCode
) -> None:
    topic_id = filled(broker, ["a"])
    broker.replica_manager.partition("t", 0).offline = True
    request = fetch(fetch_topic(topic_id if version >= BY_ID else "t", [partition()]))
    assert broker.client(version=version) >> request << answered(refused(code))
    assert broker.requests.apis["FETCH"].errors == {code.name: 1}


@pytest.mark.parametrize("version", [WITH_LEADERS, LATEST])
def test_a_former_leader_returns_the_current_leader(broker: InProcessBroker, version: int) -> None:
    topic_id = filled(broker)
    set_leader(broker, topic_id, OTHER_NODE)
    now = FetchResponse.LeaderIdAndEpoch(leader_id=OTHER_NODE, leader_epoch=1)
    assert (
        broker.client(version=version)
        >> fetch(fetch_topic(topic_id, [partition(epoch=0)]))
        << answered(refused(ErrorCode.FENCED_LEADER_EPOCH, current_leader=now), node_endpoints=[])
    )


@pytest.mark.parametrize("version", [WITH_LEADERS, LATEST])
def test_a_reader_of_an_older_epoch_gets_the_endpoint_of_the_leader(
    broker: InProcessBroker, version: int
) -> None:
    topic_id = filled(broker, ["a"])
    set_leader(broker, topic_id, NODE_ID)
    now = FetchResponse.LeaderIdAndEpoch(leader_id=NODE_ID, leader_epoch=1)
    here = FetchResponse.NodeEndpoint(node_id=NODE_ID, host=DIALLED_HOST, port=DIALLED_PORT)
    assert (
        broker.client(version=version)
        >> fetch(fetch_topic(topic_id, [partition(epoch=0)]))
        << answered(refused(ErrorCode.FENCED_LEADER_EPOCH, current_leader=now), node_endpoints=[here])
    )


@pytest.mark.parametrize("version", [WITH_LEADERS, LATEST])
def test_members_of_a_cluster_name_the_endpoints_of_the_leaders(
    broker: InProcessBroker, version: int
) -> None:
    topic_id = filled(broker)
    cluster = Cluster(broker)
    for leader, endpoints in (
        (2, [FetchResponse.NodeEndpoint(node_id=2, host="b2", port=9000, rack="r2")]),
        (3, []),  # fenced
        (4, []),  # not on this listener
    ):
        set_leader(broker, topic_id, leader)
        told = cluster.broker.client(version=version).ask(fetch(fetch_topic(topic_id, [partition(epoch=0)])))
        assert isinstance(told, FetchResponse)
        assert told.responses[0].partitions[0].current_leader.leader_id == leader
        assert told.node_endpoints == endpoints


def test_a_reader_of_an_older_epoch_gets_an_error(broker: InProcessBroker) -> None:
    topic_id = filled(broker, ["a"])
    set_leader(broker, topic_id, NODE_ID)
    request = fetch(fetch_topic(topic_id, [partition(epoch=0)]))
    assert (
        broker.client(LATEST)
        >> request
        << answered(
            refused(
                ErrorCode.FENCED_LEADER_EPOCH,
                current_leader=FetchResponse.LeaderIdAndEpoch(leader_id=NODE_ID, leader_epoch=1),
            )
        )
    )
    ahead = fetch(fetch_topic(topic_id, [partition(epoch=2)]))
    assert (
        broker.client(LATEST)
        >> ahead
        << answered(refused(ErrorCode.UNKNOWN_LEADER_EPOCH, current_leader=FetchResponse.LeaderIdAndEpoch()))
    )


def test_a_reader_beyond_a_lost_tail_gets_the_diverging_epoch(broker: InProcessBroker) -> None:
    topic_id = filled(broker, ["a", "b"])
    set_leader(broker, topic_id, NODE_ID)
    request = fetch(fetch_topic(topic_id, [partition(0, 5, epoch=1, last_fetched_epoch=0)]))
    assert (
        broker.client(LATEST)
        >> request
        << answered(
            Like(
                error_code=0,
                diverging_epoch=FetchResponse.EpochEndOffset(epoch=0, end_offset=2),
                records=b"",
                high_watermark=2,
            )
        )
    )


def test_min_bytes_is_limited_by_fetch_max_bytes(tmp_path: Path) -> None:
    broker = InProcessBroker(tmp_path, {"fetch.max.bytes": "1024"})
    topic_id = broker.create_topic("t")
    poll = fetch(fetch_topic(topic_id, [partition()]), max_wait_ms=500, min_bytes=1_000_000)
    reader = broker.client(LATEST)
    assert reader >> poll << WAITS
    assert broker.client(version=13) >> produce(topic_id, batch("x" * 2000)) << Like(responses=[Like()])
    assert reader << answered(Like(high_watermark=1))
    broker.kill()


# ---- sessions and followers


def test_a_session_returns_only_changes(broker: InProcessBroker) -> None:
    topic_id = filled(broker, ["a"])
    client = broker.client(LATEST)
    first = fetch(fetch_topic(topic_id, [partition()]), session_epoch=0)
    assert client >> first << answered(Like(high_watermark=1), session_id=1)
    again = fetch(fetch_topic(topic_id, [partition(0, 1)]), session_id=1, session_epoch=1)
    assert client >> again << Like(session_id=1, responses=[])


def test_an_unknown_session(broker: InProcessBroker) -> None:
    unknown = Like(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND, session_id=0, responses=[])
    assert broker.client(LATEST) >> fetch(session_id=5, session_epoch=3) << unknown


def replicate(broker: InProcessBroker, topic_id: Uuid, **changed: Any) -> None:
    change = PartitionChangeRecord(
        partition_id=0, topic_id=topic_id, replicas=[NODE_ID, OTHER_NODE], **changed
    )
    assert broker.controller.submit(lambda _: Decision(True, [change]), lambda _: False).done


@pytest.mark.parametrize("version", [10, 11])
def test_consumers_that_name_a_rack_may_read_from_followers(broker: InProcessBroker, version: int) -> None:
    replicate(broker, filled(broker, ["a"]), leader=OTHER_NODE)
    request = fetch(fetch_topic("t", [partition()]))
    code = ErrorCode.NOT_LEADER_OR_FOLLOWER if version < 11 else ErrorCode.NONE
    data = only(broker, request, version)
    assert (data.error_code, data.high_watermark) == (code, -1 if code else 1)


@pytest.mark.parametrize(("version", "epoch"), [(14, -1), (15, 7)])
def test_a_followers_fetch_names_its_process(broker: InProcessBroker, version: int, epoch: int) -> None:
    topic_id = filled(broker, ["a"])
    replicate(broker, topic_id, isr=[NODE_ID, OTHER_NODE])
    request = fetch(fetch_topic(topic_id, [partition(0, 1)]))
    if version < 15:
        request.replica_id = OTHER_NODE
    else:
        request.replica_state = FetchRequest.ReplicaState(replica_id=OTHER_NODE, replica_epoch=7)
    assert only(broker, request, version).error_code == ErrorCode.NONE
    (replica,) = broker.replica_manager.partition("t", 0).remote_replicas
    assert (replica.log_end_offset, replica.broker_epoch) == (1, epoch)


@pytest.mark.parametrize("version", [14, 15])
def test_a_follower_reads_to_the_end_of_the_log_if_it_has_a_replica(
    broker: InProcessBroker, version: int
) -> None:
    request = fetch(fetch_topic(filled(broker, ["a"]), [partition()]))
    if version >= 15:
        request.replica_state = FetchRequest.ReplicaState(replica_id=OTHER_NODE)
    else:
        request.replica_id = OTHER_NODE
    assert (
        broker.client(version=version)
        >> request
        << answered(Like(error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER))
    )
    assert broker.topics.topics["t"].bytes_out == 0


# ---- clients with quotas


PAYLOAD = "x" * 10_000


def reading(session_id: int = 0, session_epoch: int = -1, **options: Any) -> Any:
    return fetch(
        fetch_topic("t", [partition(0, 0)]), session_id=session_id, session_epoch=session_epoch, **options
    )


def test_fetched_bytes_are_charged_and_a_throttled_response_is_empty(broker: InProcessBroker) -> None:
    filled(broker, *[[PAYLOAD]] * 3)
    set_quotas(broker, consumer_byte_rate=10_000)
    client = broker.client(BY_NAME)
    for _ in range(3):
        assert client >> reading() << throttled(0, responses=[Like()])
    answer = client.ask(reading())
    assert isinstance(answer, FetchResponse)
    assert (answer.responses, answer.session_id) == ([], 0)
    assert client.muted_ms == answer.throttle_time_ms > 0
    assert client.ask(reading()).throttle_time_ms == answer.throttle_time_ms  # type: ignore[attr-defined]  # taken back
    client >> Wait(11)
    assert client >> reading() << throttled(0, responses=[Like()])


def test_a_throttled_full_fetch_opens_no_session(broker: InProcessBroker) -> None:
    filled(broker, *[[PAYLOAD]] * 3)
    set_quotas(broker, consumer_byte_rate=10_000)
    client = broker.client(BY_NAME)
    for _ in range(3):
        assert client >> reading() << throttled(0)
    assert client.ask(reading(session_epoch=0)).session_id == 0  # type: ignore[attr-defined]  # throttled
    assert len(broker.broker.fetch_manager.cache) == 0


def test_a_session_survives_a_throttled_response_and_has_its_news_later(broker: InProcessBroker) -> None:
    filled(broker, *[[PAYLOAD]] * 3)
    client = broker.client(BY_NAME)
    assert client >> reading(session_epoch=0, max_bytes=1) << Like(session_id=1, responses=[Like()])
    set_quotas(broker, consumer_byte_rate=3_100)
    assert client >> reading(1, 1, max_bytes=1) << throttled(0, session_id=1, responses=[Like()])
    assert client >> reading(1, 2, max_bytes=1) << throttled(0, session_id=1, responses=[Like()])
    assert client >> reading(1, 3, max_bytes=1) << throttled(0, session_id=1, responses=[Like()])
    empty = client.ask(reading(1, 4, max_bytes=1))
    assert isinstance(empty, FetchResponse)
    assert (empty.error_code, empty.session_id, empty.responses) == (0, 1, [])
    assert empty.throttle_time_ms > 0
    client >> Wait(20)
    assert client >> fetch(session_id=1, session_epoch=5) << throttled(0, session_id=1, responses=[Like()])


def test_a_session_error_is_charged_too(broker: InProcessBroker) -> None:
    filled(broker, [PAYLOAD])
    set_quotas(broker, consumer_byte_rate=1)
    client = broker.client(BY_NAME)
    client >> Wait(0)
    assert client.ask(reading(77, 5)).throttle_time_ms == 6000  # type: ignore[attr-defined]  # 16 bytes


def test_a_fetch_gets_no_more_than_a_window_has(broker: InProcessBroker) -> None:
    """Kafka's cap: more would be throttled whenever it is asked for, and never arrive. The response is larger by what
    stands around the records, and as long as that lasts a window grows."""
    filled(broker, *[[PAYLOAD]] * 3)
    set_quotas(broker, consumer_byte_rate=2000)
    client = broker.client(BY_NAME)
    answer = client.ask(reading(min_bytes=1_000_000))
    assert isinstance(answer, FetchResponse)
    assert 0 < answer.throttle_time_ms < 50
    client >> Wait(answer.throttle_time_ms / 1000)
    answer = client.ask(reading(min_bytes=1_000_000))
    assert isinstance(answer, FetchResponse)
    ((data,),) = (topic.partitions for topic in answer.responses)
    assert isinstance(data.records, bytes | memoryview)
    assert len(data.records) == 20_000


def test_fetches_that_wait_are_charged_when_they_are_answered(broker: InProcessBroker) -> None:
    broker.create_topic("t")
    set_quotas(broker, consumer_byte_rate=500)
    client = broker.client(BY_NAME)
    assert client >> reading(max_wait_ms=500) << WAITS
    assert broker.client(BY_NAME, client_id="p") >> produce("t", batch(PAYLOAD)) << throttled(0)
    answer = client._answers.pop()
    assert isinstance(answer, FetchResponse)
    assert answer.responses == []
    assert client.muted_ms == answer.throttle_time_ms > 10_000


def test_followers_are_exempt(broker: InProcessBroker) -> None:
    filled(broker, *[[PAYLOAD]] * 3)
    set_quotas(broker, consumer_byte_rate=10)
    request = reading()
    request.replica_id = 2
    client = broker.client(BY_NAME)
    assert client >> request << throttled(0, responses=[Like()])
    assert client.muted_ms == 0


# ---- authorization


T, DENIED = AclResourceType.TOPIC, ErrorCode.TOPIC_AUTHORIZATION_FAILED


@pytest.fixture
def guarded_topics(guarded: GuardedBroker) -> GuardedBroker:
    """With a topic that may be read, and one that may not."""
    for name in ("seen", "hidden"):
        guarded.create_topic(name)
        appended = Like(responses=[Like(partition_responses=[Like(error_code=0)])])
        assert guarded.admin(version=BY_NAME) >> produce(name, batch("a")) << appended
    guarded.allow(AclOperation.READ, T, "seen", "absent")
    return guarded


def both(*, offset: int = 0, **fields: Any) -> FetchRequest:
    topics = [fetch_topic(name, [partition(offset=offset)]) for name in ("hidden", "seen")]
    return fetch(*topics, **fields)


def test_partitions_that_may_not_be_read_fail_and_others_are_read(guarded_topics: GuardedBroker) -> None:
    names = ("hidden", "absent", "never", "seen")
    asked = fetch(*(fetch_topic(name, [partition()]) for name in names))
    codes = {"hidden": DENIED, "absent": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "never": DENIED, "seen": 0}
    expected = [Like(topic=name, partitions=[Like(error_code=codes[name])]) for name in names]
    assert guarded_topics.client(version=BY_NAME) >> asked << Like(responses=expected)
    ids = [guarded_topics.broker.image.topics["hidden"].topic_id, b"?" * 16]
    by_id = fetch(*(fetch_topic(topic_id, [partition()]) for topic_id in ids))
    codes_by_id = (DENIED, ErrorCode.UNKNOWN_TOPIC_ID)
    expected = [Like(partitions=[refused(code, aborted_transactions=[])]) for code in codes_by_id]
    assert guarded_topics.client(version=LATEST) >> by_id << Like(responses=expected)


def test_a_denied_partition_does_not_end_the_wait_for_others(guarded_topics: GuardedBroker) -> None:
    client = guarded_topics.client(version=BY_NAME)
    denied = Like(topic="hidden", partitions=[Like(error_code=DENIED)])
    assert (
        client
        >> both(offset=1, max_wait_ms=500)
        << WAITS
        >> Wait(0.6)
        << Like(responses=[denied, Like(topic="seen")])
    )
    alone = fetch(fetch_topic("hidden", [partition(offset=1)]), max_wait_ms=500)
    assert client >> alone << Like(responses=[denied])


def test_a_session_is_checked_again_when_acls_change(guarded_topics: GuardedBroker) -> None:
    client = guarded_topics.client(version=BY_NAME)
    answer = client.ask(both(offset=1, session_epoch=0))
    assert isinstance(answer, FetchResponse)
    session_id = answer.session_id
    denied = Like(topic="hidden", partitions=[Like(error_code=DENIED)])
    again = [fetch(session_id=session_id, session_epoch=epoch) for epoch in (1, 2, 3, 4)]
    assert client >> again[0] << Like(responses=[denied])  # the other one rests from here on
    guarded_topics.allow(AclOperation.READ, T, "hidden")
    assert client >> again[1] << Like(responses=[Like(topic="hidden", partitions=[Like(error_code=0)])])
    guarded_topics.deny_again()
    answer = client.ask(again[2])
    assert isinstance(answer, FetchResponse)
    codes = {topic.topic: topic.partitions[0].error_code for topic in answer.responses}
    assert codes == {"hidden": DENIED, "seen": DENIED}


def test_a_session_of_another_client_is_checked_for_who_uses_it(guarded_topics: GuardedBroker) -> None:
    admin = guarded_topics.admin(version=BY_NAME)
    answer = admin.ask(both(offset=1, session_epoch=0))
    assert isinstance(answer, FetchResponse)
    session_id = answer.session_id
    assert admin >> fetch(session_id=session_id, session_epoch=1) << Like(responses=[])
    thief = guarded_topics.client(version=BY_NAME)
    denied = Like(topic="hidden", partitions=[Like(error_code=DENIED, records=b"")])
    assert thief >> fetch(session_id=session_id, session_epoch=2) << Like(responses=[denied])


def test_a_fetch_that_waits_was_allowed_when_it_came(guarded_topics: GuardedBroker) -> None:
    """A change of ACLs meanwhile holds for the next one, as in Kafka."""
    client = guarded_topics.client(version=BY_NAME)
    asked = fetch(fetch_topic("seen", [partition(offset=1)]), max_wait_ms=60_000, session_epoch=0)
    assert client >> asked << WAITS
    guarded_topics.deny_again()
    appended = Like(responses=[Like(partition_responses=[Like(error_code=0)])])
    assert guarded_topics.admin(version=BY_NAME) >> produce("seen", batch("b")) << appended
    assert client << Like(session_id=1, responses=[Like(partitions=[Like(error_code=0)])])
    denied = Like(topic="seen", partitions=[Like(error_code=DENIED, records=b"")])
    assert client >> fetch(session_id=1, session_epoch=1) << Like(responses=[denied])


def test_a_session_that_another_client_goes_on_with_shows_its_first_one_nothing_more(
    guarded_topics: GuardedBroker,
) -> None:
    """Who has guessed a session id is checked for itself; the fetch that waits gets nothing of another's rights."""
    victim, thief = guarded_topics.client(version=BY_NAME), guarded_topics.admin(version=BY_NAME)
    answer = victim.ask(both(offset=1, session_epoch=0))
    assert isinstance(answer, FetchResponse)
    session_id = answer.session_id
    denied = Like(topic="hidden", partitions=[Like(error_code=DENIED)])
    assert victim >> fetch(session_id=session_id, session_epoch=1) << Like(responses=[denied])
    forgets = fetch(session_id=session_id, session_epoch=2, max_wait_ms=60_000)
    forgets.forgotten_topics_data = [FetchRequest.ForgottenTopic(topic="hidden", partitions=[0])]
    assert victim >> forgets << WAITS
    hidden = fetch(fetch_topic("hidden", [partition(offset=0)]), session_id=session_id, session_epoch=3)
    shown = Like(topic="hidden", partitions=[Like(error_code=0)])
    assert thief >> hidden << Like(responses=[shown])
    appended = Like(responses=[Like(partition_responses=[Like(error_code=0)])])
    assert guarded_topics.admin(version=BY_NAME) >> produce("seen", batch("b")) << appended
    moved_on = Like(error_code=ErrorCode.INVALID_FETCH_SESSION_EPOCH, responses=[])
    assert victim << moved_on


def test_a_reader_without_sessions_is_checked_each_time(guarded_topics: GuardedBroker) -> None:
    client = guarded_topics.client(version=BY_NAME)
    seen = Like(topic="seen", partitions=[Like(error_code=0)])
    denied = Like(topic="hidden", partitions=[Like(error_code=DENIED)])
    for _ in range(3):
        assert client >> both(offset=1) << Like(responses=[denied, seen])
    guarded_topics.allow(AclOperation.READ, T, "hidden")
    shown = Like(topic="hidden", partitions=[Like(error_code=0)])
    assert client >> both(offset=1) << Like(responses=[shown, seen])
    guarded_topics.deny_again()
    gone = Like(topic="seen", partitions=[Like(error_code=DENIED)])
    assert client >> both(offset=1) << Like(responses=[denied, gone])


def test_a_throttled_response_shows_nothing_and_the_session_what_is_allowed_later(
    guarded_topics: GuardedBroker,
) -> None:
    guarded_topics.allow(AclOperation.ALTER_CONFIGS)
    client = guarded_topics.client(version=BY_NAME)
    seen = Like(topic="seen", partitions=[Like(error_code=0)])
    denied = Like(topic="hidden", partitions=[Like(error_code=DENIED)])
    assert client >> both(session_epoch=0) << Like(session_id=1, responses=[denied, seen])
    set_quotas(guarded_topics, consumer_byte_rate=1)
    guarded_topics.deny_again()
    assert client >> fetch(session_id=1, session_epoch=1) << Like(session_id=1, error_code=0, responses=[])
    guarded_topics.allow(AclOperation.ALTER_CONFIGS)
    set_quotas(guarded_topics, consumer_byte_rate=None)
    gone = Like(topic="seen", partitions=[Like(error_code=DENIED)])
    assert client >> fetch(session_id=1, session_epoch=2) << Like(session_id=1, responses=[denied, gone])


def test_followers_need_the_clusters_action(guarded_topics: GuardedBroker) -> None:
    asked = both()
    asked.replica_id = OTHER_NODE
    client = guarded_topics.client(version=BY_NAME)
    denied = [Like(partitions=[Like(error_code=DENIED)])] * 2
    assert client >> asked << Like(responses=denied)
    guarded_topics.allow(AclOperation.CLUSTER_ACTION)
    answer = client.ask(asked)
    assert isinstance(answer, FetchResponse)
    assert DENIED not in {topic.partitions[0].error_code for topic in answer.responses}
