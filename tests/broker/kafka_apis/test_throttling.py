"""Requests of clients that have quotas, from bytes to bytes, under a clock that the test turns."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.api_versions import ApiVersionsRequest
from barnabas.protocol.messages.fetch import FetchResponse
from barnabas.protocol.messages.metadata import MetadataRequest
from barnabas.protocol.messages.topics import (
    CreatePartitionsRequest,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)
from barnabas.protocol.messages.transactions import WriteTxnMarkersRequest
from tests.broker.broker_fixture import SILENCE, WAITS, InProcessBroker, Wait
from tests.broker.kafka_apis.test_forwarding import Member
from tests.broker.logs import batch
from tests.conformance.dialogues.quotas import alter
from tests.conformance.dialogues.words import fetch, fetch_topic, named, partition, produce
from tests.support.difference import Like

CLIENT = (("client-id", "test"),)
PRODUCE, FETCH, CREATE, DELETE, PARTITIONS, METADATA = 12, 12, 7, 6, 3, 9
PAYLOAD = "x" * 10_000
MORE = 107
"""The bytes of a produce request beside these."""


def set_quotas(broker: InProcessBroker, entity: Any = CLIENT, /, **quotas: float | None) -> None:
    """Sets quotas of an entity, by default of the client id that clients have here."""
    setter = broker.client(version=1, client_id="admin")
    assert setter >> alter((entity, quotas)) << Like(entries=[Like(error_code=0)])


def throttled(ms: int, **fields: object) -> Like:
    return Like(throttle_time_ms=ms, **fields)


# ---- bytes


def test_produced_bytes_are_charged_and_the_response_says_for_how_long(broker: InProcessBroker) -> None:
    broker.create_topic("t")
    client, size = broker.client(PRODUCE), 10_000 + MORE
    muted_ms = []
    assert client >> produce("t", batch(PAYLOAD)) << throttled(0)
    muted_ms.append(client.muted_ms)
    set_quotas(broker, producer_byte_rate=1000)
    assert client >> produce("t", batch(PAYLOAD)) << throttled(size - 10_000)
    muted_ms.append(client.muted_ms)
    assert client >> produce("t", batch(PAYLOAD)) << throttled(2 * size - 10_000)
    set_quotas(broker, producer_byte_rate=None)
    assert client >> produce("t", batch(PAYLOAD)) << throttled(0)
    muted_ms.append(client.muted_ms)
    assert muted_ms == [None, size - 10_000, None]


def test_all_connections_of_a_client_share_what_it_may(broker: InProcessBroker) -> None:
    broker.create_topic("t")
    set_quotas(broker, producer_byte_rate=1000)
    assert broker.client(PRODUCE) >> produce("t", batch(PAYLOAD)) << throttled(MORE)
    assert broker.client(PRODUCE) >> produce("t", batch(PAYLOAD)) << throttled(10_000 + 2 * MORE)
    other = broker.client(PRODUCE, client_id="other")
    assert other >> produce("t", batch(PAYLOAD)) << throttled(0)
    assert other.muted_ms is None


def test_without_acknowledgements_only_bytes_mute(broker: InProcessBroker) -> None:
    broker.create_topic("t")
    set_quotas(broker, producer_byte_rate=1000, request_percentage=0.001)
    client = broker.client(PRODUCE)
    assert client >> produce("t", batch(PAYLOAD), acks=0) << SILENCE
    assert client.muted_ms == MORE
    set_quotas(broker, producer_byte_rate=None)
    assert client >> produce("t", batch(PAYLOAD), acks=0) << SILENCE
    assert client.muted_ms == 0


def filled(broker: InProcessBroker, count: int = 3) -> None:
    broker.create_topic("t")
    for _ in range(count):
        assert broker.client(PRODUCE) >> produce("t", batch(PAYLOAD)) << throttled(0)


def reading(session_id: int = 0, session_epoch: int = -1, **options: Any) -> Any:
    return fetch(
        fetch_topic("t", [partition(0, 0)]), session_id=session_id, session_epoch=session_epoch, **options
    )


def test_fetched_bytes_are_charged_and_a_throttled_response_is_empty(broker: InProcessBroker) -> None:
    filled(broker)
    set_quotas(broker, consumer_byte_rate=10_000)
    client = broker.client(FETCH)
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
    filled(broker)
    set_quotas(broker, consumer_byte_rate=10_000)
    client = broker.client(FETCH)
    for _ in range(3):
        assert client >> reading() << throttled(0)
    assert client.ask(reading(session_epoch=0)).session_id == 0  # type: ignore[attr-defined]  # throttled
    assert len(broker.broker.fetch_manager.cache) == 0


def test_a_session_survives_a_throttled_response_and_has_its_news_later(broker: InProcessBroker) -> None:
    filled(broker)
    client = broker.client(FETCH)
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
    filled(broker, 1)
    set_quotas(broker, consumer_byte_rate=1)
    client = broker.client(FETCH)
    client >> Wait(0)
    assert client.ask(reading(77, 5)).throttle_time_ms == 6000  # type: ignore[attr-defined]  # 16 bytes


def test_a_fetch_gets_no_more_than_a_window_has(broker: InProcessBroker) -> None:
    """Kafka's cap: more would be throttled whenever it is asked for, and never arrive. The response is larger by what
    stands around the records, and as long as that lasts a window grows."""
    filled(broker)
    set_quotas(broker, consumer_byte_rate=2000)
    client = broker.client(FETCH)
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
    client = broker.client(FETCH)
    assert client >> reading(max_wait_ms=500) << WAITS
    assert broker.client(PRODUCE, client_id="p") >> produce("t", batch(PAYLOAD)) << throttled(0)
    answer = client._answers.pop()
    assert isinstance(answer, FetchResponse)
    assert answer.responses == []
    assert client.muted_ms == answer.throttle_time_ms > 10_000


def test_followers_are_exempt(broker: InProcessBroker) -> None:
    filled(broker)
    set_quotas(broker, consumer_byte_rate=10)
    request = reading()
    request.replica_id = 2
    client = broker.client(FETCH)
    assert client >> request << throttled(0, responses=[Like()])
    assert client.muted_ms == 0


# ---- time


class Ticking:
    """A clock of requests that advances by `tick_s` with each look at it."""

    def __init__(self) -> None:
        self.tick_s = 0.0
        self._now = 0.0

    def __call__(self) -> float:
        self._now += self.tick_s
        return self._now


@pytest.fixture
def ticking() -> Ticking:
    return Ticking()


@pytest.fixture
def timed(tmp_path: Path, ticking: Ticking) -> Iterator[InProcessBroker]:
    broker = InProcessBroker(tmp_path, request_clock=ticking)
    yield broker
    broker.kill()


def test_the_time_of_requests_is_charged_at_most_for_a_window(
    timed: InProcessBroker, ticking: Ticking
) -> None:
    set_quotas(timed, request_percentage=1.0)
    client = timed.client(METADATA)
    ticking.tick_s = 0.09
    assert client >> MetadataRequest(topics=[]) << throttled(0)
    ticking.tick_s = 0.015
    assert client >> MetadataRequest(topics=[]) << throttled(500)
    ticking.tick_s = 10.0
    assert client >> MetadataRequest(topics=[]) << throttled(1000)
    assert client.muted_ms == 1000
    assert timed.broker.quotas.request.throttled_now == 2
    assert timed.broker.quotas.throttle_times["METADATA"].count == 2


def test_sending_is_charged_to_the_next_request(timed: InProcessBroker, ticking: Ticking) -> None:
    set_quotas(timed, request_percentage=1.0)
    client = timed.client(METADATA)
    assert client >> MetadataRequest(topics=[]) << throttled(0)
    context = timed.broker.quotas
    counter = context.request.counter(client.info.principal, "test", context.now_ms())  # type: ignore[arg-type]
    counter.rate.record(50.0, context.now_ms())  # half a second
    assert client >> MetadataRequest(topics=[]) << throttled(1000)


@pytest.mark.parametrize("version", range(5))
def test_versions_without_the_field_are_throttled_all_the_same(
    timed: InProcessBroker, ticking: Ticking, version: int
) -> None:
    set_quotas(timed, request_percentage=1.0)
    ticking.tick_s = 10.0
    client = timed.client(version)
    client.ask(ApiVersionsRequest(client_software_name="n", client_software_version="1"))
    assert client.muted_ms == 1000


def test_constants_of_handlers_stay_as_they_are(timed: InProcessBroker, ticking: Ticking) -> None:
    set_quotas(timed, request_percentage=1.0)
    ticking.tick_s = 10.0
    client, other = timed.client(3), timed.client(3, client_id="other")
    request = ApiVersionsRequest(client_software_name="n", client_software_version="1")
    assert client >> request << throttled(1000)
    assert other >> request << throttled(0)


def test_markers_are_exempt(timed: InProcessBroker, ticking: Ticking) -> None:
    set_quotas(timed, request_percentage=1.0)
    ticking.tick_s = 10.0
    client = timed.client(1)
    client.ask(WriteTxnMarkersRequest(markers=[]))
    assert client.muted_ms == 0
    assert timed.broker.quotas.exempt_percent() == pytest.approx(100.0)


def test_the_longest_throttle_time_counts(timed: InProcessBroker, ticking: Ticking) -> None:
    timed.create_topic("t")
    set_quotas(timed, request_percentage=1.0, producer_byte_rate=1000)
    client = timed.client(PRODUCE)
    ticking.tick_s = 0.0
    assert client >> produce("t", batch(PAYLOAD)) << throttled(MORE)
    ticking.tick_s = 10.0
    assert client >> produce("t", batch("x")) << throttled(1000)
    client >> Wait(60)
    ticking.tick_s = 0.0
    assert client >> produce("t", batch(PAYLOAD + PAYLOAD)) << throttled(10_001 + MORE)


def test_a_fetch_that_is_throttled_for_its_time_is_empty(timed: InProcessBroker, ticking: Ticking) -> None:
    filled(timed)
    set_quotas(timed, request_percentage=1.0)
    ticking.tick_s = 10.0
    assert timed.client(FETCH) >> reading() << throttled(1000, responses=[])


# ---- changes to topics


def creating(*partitions: int, first: int = 0, validate_only: bool = False) -> CreateTopicsRequest:
    """Topics t0, t1 ... with so many partitions."""
    return CreateTopicsRequest(
        topics=[
            CreateTopicsRequest.CreatableTopic(
                name=f"t{first + at}", num_partitions=count, replication_factor=-1
            )
            for at, count in enumerate(partitions)
        ],
        validate_only=validate_only,
    )


def results(*errors: ErrorCode) -> list[Like]:
    return [Like(error_code=error) for error in errors]


OK, EXCEEDED = ErrorCode.NONE, ErrorCode.THROTTLING_QUOTA_EXCEEDED


def test_creations_are_charged_topic_by_topic(broker: InProcessBroker) -> None:
    set_quotas(broker, controller_mutation_rate=1)
    client = broker.client(CREATE)
    assert client >> creating(8, 5, 1, 1) << throttled(2000, topics=results(OK, OK, EXCEEDED, EXCEEDED))
    assert client.muted_ms == 2000
    client >> Wait(1)
    assert client >> creating(1, first=4) << throttled(1000, topics=results(EXCEEDED))
    client >> Wait(1)
    assert client >> creating(1, first=4) << throttled(0, topics=results(OK))
    assert sorted(broker.broker.image.topics) == ["t0", "t1", "t4"]


def test_what_is_only_validated_is_charged_and_what_is_rejected_is_not(broker: InProcessBroker) -> None:
    set_quotas(broker, controller_mutation_rate=1)
    client = broker.client(CREATE)
    assert client >> creating(12, validate_only=True) << throttled(0, topics=results(OK))
    assert client >> creating(0) << throttled(0, topics=results(ErrorCode.INVALID_PARTITIONS))
    assert client >> creating(1) << throttled(1000, topics=results(EXCEEDED))


def test_older_clients_are_throttled_and_not_rejected(broker: InProcessBroker) -> None:
    set_quotas(broker, controller_mutation_rate=1)
    client = broker.client(5)
    assert client >> creating(11, 2) << throttled(2000, topics=results(OK, OK))
    assert client.muted_ms == 2000


def test_added_partitions_are_charged(broker: InProcessBroker) -> None:
    for name in "ab":
        broker.create_topic(name, 2)
    set_quotas(broker, controller_mutation_rate=1)

    def adding(**counts: int) -> CreatePartitionsRequest:
        topics = [
            CreatePartitionsRequest.CreatePartitionsTopic(name=name, count=count, assignments=None)
            for name, count in counts.items()
        ]
        return CreatePartitionsRequest(topics=topics)

    client, older = broker.client(PARTITIONS), broker.client(2)
    assert client >> adding(a=14, b=3) << throttled(1000, results=results(OK, EXCEEDED))
    assert older >> adding(b=3) << throttled(2000, results=results(OK))


def test_deleted_partitions_are_charged(broker: InProcessBroker) -> None:
    for name in "abc":
        broker.create_topic(name, 12)
    set_quotas(broker, controller_mutation_rate=1)
    client, older = broker.client(DELETE), broker.client(4)
    doomed = [DeleteTopicsRequest.DeleteTopicState(name=name) for name in "ab"]
    answer = client.ask(DeleteTopicsRequest(topics=doomed))
    assert isinstance(answer, DeleteTopicsResponse)
    assert [(each.name, each.error_code) for each in answer.responses] == [("a", OK), ("b", EXCEEDED)]
    assert answer.throttle_time_ms == 1000
    assert older >> DeleteTopicsRequest(topic_names=["c"]) << throttled(13_000, responses=results(OK))
    assert sorted(broker.broker.image.topics) == ["b"]


def test_topics_that_are_created_on_demand_are_charged(broker: InProcessBroker) -> None:
    set_quotas(broker, controller_mutation_rate=0.1)
    client = broker.client(METADATA)
    asked = MetadataRequest(topics=named("a", "b"), allow_auto_topic_creation=True)
    unknown = Like(name="b", error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert client >> MetadataRequest(topics=named("a")) << throttled(0, topics=[Like(error_code=OK)])
    assert client >> MetadataRequest(topics=named("z")) << throttled(0, topics=[Like(error_code=OK)])
    assert client >> asked << throttled(0, topics=[Like(error_code=OK), unknown])
    client >> Wait(60)
    assert client >> asked << throttled(0, topics=results(OK, OK))


# ---- levels


LEVELS = [
    (("user", "ANONYMOUS"), ("client-id", "test")),
    (("user", "ANONYMOUS"), ("client-id", None)),
    (("user", "ANONYMOUS"),),
    (("user", None), ("client-id", "test")),
    (("user", None), ("client-id", None)),
    (("user", None),),
    (("client-id", "test"),),
    (("client-id", None),),
]


def test_levels_are_set_and_removed_while_the_client_is_there(broker: InProcessBroker) -> None:
    """A request of some 10 kB at a limit of 100 B/s and a few more is throttled for what is above ten seconds."""
    broker.create_topic("t")
    client = broker.client(PRODUCE)

    def throttle_ms() -> int:
        client >> Wait(100)
        answer: Any = client.ask(produce("t", batch(PAYLOAD)))
        return int(answer.throttle_time_ms)

    def at(level: int) -> int:
        return int((10_000 + MORE) / (100 + level) * 1000 - 10_000 + 0.5)

    assert throttle_ms() == 0
    for level in reversed(range(len(LEVELS))):
        set_quotas(broker, LEVELS[level], producer_byte_rate=100 + level)
        assert throttle_ms() == at(level)
    for level in range(len(LEVELS) - 1):
        set_quotas(broker, LEVELS[level], producer_byte_rate=None)
        assert throttle_ms() == at(level + 1)
    set_quotas(broker, LEVELS[-1], producer_byte_rate=None)
    assert throttle_ms() == 0


# ---- a member of a cluster


@pytest.fixture
def member(broker: InProcessBroker) -> Member:
    set_quotas(broker, controller_mutation_rate=1, request_percentage=50)
    return Member(broker)


def created(throttle_ms: int) -> CreateTopicsResponse:
    result = CreateTopicsResponse.CreatableTopicResult(name="t0", error_code=EXCEEDED, error_message=None)
    return CreateTopicsResponse(throttle_time_ms=throttle_ms, topics=[result])


def test_the_controller_charges_what_it_changes(member: Member) -> None:
    client = member.client(CREATE)
    assert client >> creating(20) << WAITS
    assert client.muted_ms == 0
    member.answer(created(700))
    assert client << throttled(700, topics=results(EXCEEDED))
    assert client.muted_ms == 700
    assert member.broker.requests.apis["CREATE_TOPICS"].errors == {"THROTTLING_QUOTA_EXCEEDED": 1}


def test_the_own_throttle_time_counts_where_it_is_longer(tmp_path: Path, ticking: Ticking) -> None:
    broker = InProcessBroker(tmp_path, request_clock=ticking)
    set_quotas(broker, request_percentage=1)
    member, client = Member(broker), broker.client(CREATE)
    ticking.tick_s = 10.0
    assert client >> creating(20) << WAITS
    member.answer(created(700))
    assert client << throttled(1000, topics=results(EXCEEDED))
    assert client.muted_ms == 1000
    broker.kill()


# ---- bounds


def test_random_client_ids_stay_within_bounds(broker: InProcessBroker) -> None:
    set_quotas(broker, (("client-id", None),), producer_byte_rate=1000, request_percentage=50)
    quotas = broker.broker.quotas
    for manager in (quotas.produce, quotas.request):
        manager._max_counters = 50
    for number in range(500):
        client = broker.client(METADATA, client_id=str(number))
        assert client >> MetadataRequest(topics=[]) << throttled(0)
    assert [len(manager) for manager in quotas.each()] == [50, 0, 50, 0]
