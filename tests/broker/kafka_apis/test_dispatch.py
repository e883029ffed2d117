"""From the bytes of a request to the bytes of its answer, whatever the bytes are."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from barnabas.broker.kafka_apis import handlers
from barnabas.broker.kafka_apis.api_checks import API_CHECKS
from barnabas.broker.kafka_apis.dispatch import KafkaApis
from barnabas.broker.metadata.image import BROKER_LOGGER_RESOURCE
from barnabas.broker.network.in_flight import MeteredAnswer
from barnabas.broker.pending import Pending
from barnabas.broker.request import (
    ANONYMOUS,
    CLOSE_CONNECTION,
    NO_RESPONSE,
    REGISTRY,
    ConnectionInfo,
    NoResponse,
    RequestContext,
    api,
)
from barnabas.broker.security.principals import serialized_principal
from barnabas.protocol.api_keys import ApiKey, request_header_version, request_type
from barnabas.protocol.codec import decode, encode, join_chunks
from barnabas.protocol.errors import ErrorCode, ProtocolError
from barnabas.protocol.framing import Frame, size_prefix
from barnabas.protocol.messages.acls import AclOperation, DescribeAclsRequest
from barnabas.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from barnabas.protocol.messages.cluster import EnvelopeRequest
from barnabas.protocol.messages.configs import IncrementalAlterConfigsRequest
from barnabas.protocol.messages.fetch import FetchRequest
from barnabas.protocol.messages.groups import HeartbeatRequest, HeartbeatResponse
from barnabas.protocol.messages.headers import RequestHeader
from barnabas.protocol.messages.metadata import MetadataRequest
from barnabas.protocol.messages.offsets import ListOffsetsRequest
from barnabas.protocol.messages.topics import CreateTopicsRequest, CreateTopicsResponse, DeleteTopicsRequest
from barnabas.protocol.messages.transactions import WriteTxnMarkersRequest
from barnabas.protocol.schema import Message
from tests.broker import scripted
from tests.broker.broker_fixture import CLOSED, NODE_ID, SILENCE, WAITS, InProcessBroker, Wait
from tests.broker.guarded_broker import ADMIN, GuardedBroker
from tests.broker.held_runner import HeldRunner
from tests.broker.kafka_apis.test_forwarding import DELETE, Member, deleted
from tests.broker.logs import batch
from tests.broker.throttled import Ticking, set_quotas, throttled
from tests.conformance.dialogues.in_transactions import marker
from tests.conformance.dialogues.words import fetch, fetch_topic, partition, produce
from tests.support.chance import seeds
from tests.support.difference import Like

HERE = ConnectionInfo(
    connection_id=1,
    listener_name="PLAINTEXT",
    client_host="192.0.2.7",
    client_port=50_000,
    local_host="192.0.2.1",
    local_port=9092,
)


@pytest.fixture(autouse=True)
def newcomer() -> None:
    """Nothing is known here of what another broker was asked."""
    HERE.cached_headers.clear()


def frame(request: Message, version: int, *, correlation_id: int = 7, client_id: str | None = "me") -> bytes:
    assert request.api_key is not None
    header = RequestHeader(
        request_api_key=request.api_key,
        request_api_version=version,
        correlation_id=correlation_id,
        client_id=client_id,
    )
    return encode(header, request_header_version(request.api_key, version)) + encode(request, version)


# ---- with an API of the test's own, which does what the group id says


class Heart:
    """A handler of Heartbeat, which no broker of this age serves, that keeps what it is asked."""

    def __init__(self) -> None:
        self.contexts: list[RequestContext] = []
        self.waiting: list[Pending[HeartbeatResponse]] = []

    def beat(
        self, broker: object, context: RequestContext, request: HeartbeatRequest
    ) -> HeartbeatResponse | Pending[HeartbeatResponse] | NoResponse:
        self.contexts.append(context)
        match request.group_id:
            case "wait":
                self.waiting.append(Pending())
                return self.waiting[-1]
            case "silence":
                return NO_RESPONSE
            case "close":
                return CLOSE_CONNECTION
        return HeartbeatResponse(error_code=ErrorCode.ILLEGAL_GENERATION)


@pytest.fixture
def heart() -> Iterator[Heart]:
    handlers.register_all()
    heart = Heart()
    served = REGISTRY.pop(ApiKey.HEARTBEAT)
    api(ApiKey.HEARTBEAT, versions=(0, 4))(heart.beat)
    yield heart
    REGISTRY[ApiKey.HEARTBEAT] = served


@pytest.fixture
def apis(broker: InProcessBroker) -> KafkaApis:
    return broker.apis


def answer_to(apis: KafkaApis, group_id: str, version: int) -> object:
    answer = apis.handle(HERE, frame(HeartbeatRequest(group_id=group_id), version))
    return join_chunks(answer) if isinstance(answer, list) else answer


@pytest.mark.parametrize("version", range(5))
def test_an_answer_begins_with_the_requests_number(heart: Heart, apis: KafkaApis, version: int) -> None:
    answer = answer_to(apis, "", version)
    assert isinstance(answer, bytes)
    assert answer[:4] == b"\0\0\0\7"
    body = answer[5:] if version == 4 else answer[4:]  # a flexible header ends with no tags
    assert decode(HeartbeatResponse, version, body).error_code == ErrorCode.ILLEGAL_GENERATION


def test_errors_are_counted_wherever_an_answer_has_them(broker: InProcessBroker) -> None:
    broker.create_topic("t")
    wanted = [MetadataRequest.MetadataRequestTopic(name=name) for name in ("t", "a", "not a name!")]
    offsets = ListOffsetsRequest.ListOffsetsTopic(
        name="t",
        partitions=[ListOffsetsRequest.ListOffsetsPartition(partition_index=index) for index in range(3)],
    )
    fetch = FetchRequest.FetchTopic(topic="a", partitions=[FetchRequest.FetchPartition(partition=0)])
    for request, version in (
        (DeleteTopicsRequest(topic_names=["a", "b"]), 4),
        (MetadataRequest(topics=wanted, allow_auto_topic_creation=False), 9),
        (ListOffsetsRequest(replica_id=-1, topics=[offsets]), 6),
        (FetchRequest(topics=[fetch]), 12),
    ):
        broker.client(version).ask(request)
    counted = {
        (api, error): count
        for api, times in broker.requests.apis.items()
        for error, count in times.errors.items()
    }
    assert counted == {
        ("DELETE_TOPICS", "UNKNOWN_TOPIC_OR_PARTITION"): 2,
        ("METADATA", "UNKNOWN_TOPIC_OR_PARTITION"): 1,
        ("METADATA", "INVALID_TOPIC_EXCEPTION"): 1,
        ("LIST_OFFSETS", "UNKNOWN_TOPIC_OR_PARTITION"): 2,
        ("FETCH", "UNKNOWN_TOPIC_OR_PARTITION"): 1,  # counted by its handler, and not once more
    }


def test_a_handler_knows_who_asks_and_how(heart: Heart, apis: KafkaApis) -> None:
    apis.handle(HERE, frame(HeartbeatRequest(), 3, correlation_id=-5, client_id=None))
    (context,) = heart.contexts
    assert context.connection is HERE
    assert (context.api_key, context.api_version) == (ApiKey.HEARTBEAT, 3)
    assert context.client_id is None


def test_headers_may_change_from_one_request_to_the_next(heart: Heart, apis: KafkaApis) -> None:
    """What came before is remembered, and must not be taken for what comes."""
    long = "x" * 1000
    names = ["me", "me", "you", "", None, long, long, "m", "me"]
    for version in range(5):
        heart.contexts.clear()
        for number, name in enumerate(names):
            request = frame(HeartbeatRequest(), version, correlation_id=number, client_id=name)
            answer = apis.handle(HERE, request if number % 2 else memoryview(bytearray(request)))
            assert isinstance(answer, list)
            assert join_chunks(answer)[:4] == struct.pack(">i", number)
        assert [(context.client_id, context.api_version) for context in heart.contexts] == [
            (name, version) for name in names
        ]


def test_a_request_that_ends_within_a_known_header_is_none(heart: Heart, apis: KafkaApis) -> None:
    request = frame(HeartbeatRequest(), 4)
    apis.handle(HERE, request)
    for end in range(len(request)):
        with pytest.raises(ProtocolError):
            apis.handle(HERE, request[:end])


def test_an_answer_may_come_later(heart: Heart, apis: KafkaApis, broker: InProcessBroker) -> None:
    answer = apis.handle(HERE, frame(HeartbeatRequest(group_id="wait"), 4, correlation_id=9))
    assert isinstance(answer, Pending)
    assert "HEARTBEAT" not in broker.requests.apis
    broker.timer.advance(3)

    heard: list[object] = []
    answer.add_done_callback(heard.append)
    heart.waiting[0].complete(HeartbeatResponse())

    (chunks,) = heard
    assert isinstance(chunks, list)
    assert join_chunks(chunks)[:5] == b"\0\0\0\x09\0"
    local, remote = broker.requests.apis["HEARTBEAT"].windows()
    assert (list(local), list(remote)) == ([0.0], [3.0])


@pytest.mark.parametrize(("group_id", "expected"), [("silence", NO_RESPONSE), ("close", CLOSE_CONNECTION)])
def test_there_need_not_be_an_answer(
    heart: Heart, apis: KafkaApis, broker: InProcessBroker, group_id: str, expected: NoResponse
) -> None:
    assert answer_to(apis, group_id, 0) is expected
    assert broker.requests.apis["HEARTBEAT"].versions == {0: 1}


def test_a_late_answer_that_cannot_be_encoded_harms_only_its_own_connection(
    heart: Heart, apis: KafkaApis, caplog: pytest.LogCaptureFixture
) -> None:
    answer = apis.handle(HERE, frame(HeartbeatRequest(group_id="wait"), 0))
    assert isinstance(answer, Pending)
    heard: list[object] = []
    answer.add_done_callback(heard.append)
    heart.waiting[0].complete(HeartbeatResponse(error_code=99_999))
    assert heard == [CLOSE_CONNECTION]
    assert "a bug" in caplog.text


def test_so_does_one_of_a_client_with_quotas(
    heart: Heart, broker: InProcessBroker, caplog: pytest.LogCaptureFixture
) -> None:
    set_quotas(broker, request_percentage=50)
    client = broker.client(0) >> HeartbeatRequest(group_id="wait") << WAITS
    heart.waiting[0].complete(HeartbeatResponse(error_code=99_999))
    assert client << CLOSED
    assert "a bug" in caplog.text


# ---- what is not served


@pytest.mark.parametrize("request_bytes", [b"", b"\0", bytes(7)])
def test_a_request_without_a_header_ends_the_connection(apis: KafkaApis, request_bytes: bytes) -> None:
    with pytest.raises(ProtocolError, match="no room for its header"):
        apis.handle(HERE, request_bytes)


@pytest.mark.parametrize(
    ("key", "version", "reason"),
    [
        (999, 0, "unknown api key"),
        (-1, 0, "unknown api key"),
        (4, 0, "unknown api key"),
        (ApiKey.METADATA, 14, "unsupported version"),
        (ApiKey.METADATA, -1, "unsupported version"),
        (ApiKey.PRODUCE, 2, "unsupported version"),
        (ApiKey.FETCH, 3, "unsupported version"),
    ],
)
def test_what_is_not_served_ends_the_connection_and_is_counted(
    broker: InProcessBroker, key: int, version: int, reason: str
) -> None:
    request = struct.pack(">hhih", key, version, 1, -1) + bytes(100)
    assert broker.client(0) >> request << CLOSED
    assert broker.requests.refused == {reason: 1}


@pytest.mark.parametrize("version", [5, 99, 32767, -1])
def test_a_client_from_the_future_hears_how_to_go_on(apis: KafkaApis, version: int) -> None:
    answer = apis.handle(HERE, struct.pack(">hhih", ApiKey.API_VERSIONS, version, 77, -1))
    assert isinstance(answer, list)
    data = join_chunks(answer)
    assert data[:4] == b"\0\0\0\x4d"
    expected = ApiVersionsResponse.ApiVersion(api_key=ApiKey.API_VERSIONS, min_version=0, max_version=4)
    assert decode(ApiVersionsResponse, 0, data[4:]) == ApiVersionsResponse(
        error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=[expected]
    )


# ---- any bytes at all


_ANY = 1
_VALID: dict[int, Message] = {
    ApiKey.DESCRIBE_ACLS: DescribeAclsRequest(
        resource_type_filter=_ANY, pattern_type_filter=_ANY, operation=_ANY, permission_type=_ANY
    )
}
"""The requests whose defaults stand for what is unknown, which ends the connection as it does in Kafka."""


def whole_requests() -> list[bytes]:
    """A request of every API and version, with nothing in it but its defaults, as far as those may be sent."""
    handlers.register_all()
    from barnabas.protocol.api_keys import request_type

    return [
        frame(_VALID.get(key) or request_type(key)(), version)
        for key, handler in REGISTRY.items()
        for version in range(handler.versions[0], handler.versions[1] + 1)
    ]


@pytest.mark.parametrize(
    "kind", [bytes, lambda request: memoryview(bytearray(request))], ids=["bytes", "view"]
)
def test_every_api_is_answered_in_every_version_that_is_served(
    broker: InProcessBroker, kind: Callable[[bytes], Frame]
) -> None:
    for request in map(kind, whole_requests()):
        answer = broker.apis.handle(HERE, request)
        assert isinstance(answer, list | Pending | NoResponse)
    served = {(ApiKey(key).name, handler.versions) for key, handler in REGISTRY.items()}
    counted = {
        (name, (min(times.versions), max(times.versions))) for name, times in broker.requests.apis.items()
    }
    assert counted == served


def test_a_request_cut_anywhere_is_answered_or_ends_the_connection(broker: InProcessBroker) -> None:
    for request in whole_requests():
        for end in range(len(request)):
            handle_anything(broker.apis, request[:end])


@pytest.mark.parametrize("seed", seeds(5))
def test_any_bytes_are_answered_or_end_the_connection(broker: InProcessBroker, seed: int) -> None:
    source = random.Random(seed)
    requests = whole_requests()
    for _ in range(400):
        data = bytearray(source.choice(requests))
        for _ in range(source.randrange(1, 4)):
            data[source.randrange(8, len(data)) if len(data) > 8 else 0] = source.randrange(256)
        handle_anything(broker.apis, bytes(data) + source.randbytes(source.choice([0, 0, 5])))


def handle_anything(apis: KafkaApis, request: bytes) -> None:
    """The one thing that may be raised is ProtocolError."""
    try:
        answer = apis.handle(HERE, request)
    except ProtocolError:
        return
    assert isinstance(answer, list | Pending | NoResponse)


# ---- in the broker


def test_a_request_may_wait_for_the_disk(tmp_path: Path) -> None:
    from barnabas.protocol.messages.topics import CreateTopicsRequest

    disk = HeldRunner()
    broker = InProcessBroker(tmp_path, runner=disk)
    client = broker.client(7)
    wish = CreateTopicsRequest.CreatableTopic(name="t", num_partitions=1, replication_factor=1)
    assert client >> CreateTopicsRequest(topics=[wish]) << WAITS
    disk.release()
    assert client >> Wait(0.1) << WAITS
    disk.release()
    assert client << Like(topics=[Like(name="t", error_code=0)])
    broker.kill()


def test_the_software_of_the_client_is_known_from_then_on(broker: InProcessBroker) -> None:
    client = broker.client(3)
    client.ask(ApiVersionsRequest(client_software_name="lib", client_software_version="1.2"))
    assert (client.info.client_software_name, client.info.client_software_version) == ("lib", "1.2")


def test_a_request_for_the_controller_of_a_cluster_is_answered_with_its_response(
    broker: InProcessBroker,
) -> None:
    member = Member(broker)
    client = member.client(6)
    assert client >> DELETE << WAITS
    member.answer(deleted(ErrorCode.TOPIC_AUTHORIZATION_FAILED))
    assert client << deleted(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    assert dict(broker.requests.apis["DELETE_TOPICS"].errors) == {"TOPIC_AUTHORIZATION_FAILED": 1}


# ---- fetches of followers


def fetch_of(replica_id: int, version: int) -> FetchRequest:
    topic = FetchRequest.FetchTopic(topic="t", partitions=[FetchRequest.FetchPartition(partition=9)])
    request = FetchRequest(topics=[topic])
    if version < 15:
        request.replica_id = replica_id
    else:
        request.replica_state = FetchRequest.ReplicaState(replica_id=replica_id)
    return request


@pytest.mark.parametrize("version", [12, 17])
def test_a_member_counts_the_fetches_of_followers_apart(broker: InProcessBroker, version: int) -> None:
    member = Member(broker)
    followers = [member.client(version) for _ in range(2)]
    consumer = member.client(version)
    for _ in range(2):
        for follower in followers:
            follower.ask(fetch_of(2, version))
        consumer.ask(fetch_of(-1, version))
    apis = broker.requests.apis
    assert apis["FETCH_FOLLOWER"].versions == {version: 4}
    assert apis["FETCH"].versions == {version: 2}
    assert list(apis["FETCH_FOLLOWER"].errors.values()) == [4]
    assert list(apis["FETCH"].errors.values()) == [2]


def test_a_node_that_is_alone_has_no_followers(broker: InProcessBroker) -> None:
    broker.client(17).ask(fetch_of(2, 17))
    assert broker.requests.apis["FETCH"].versions == {17: 1}
    assert list(broker.requests.apis["FETCH"].errors.values()) == [1]
    assert "FETCH_FOLLOWER" not in broker.requests.apis


# ---- clients with quotas


PRODUCE, FETCH, CREATE, METADATA = 12, 12, 7, 9
PAYLOAD = "x" * 10_000
MORE = 107
"""The bytes of a produce request beside these."""


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
    timed.create_topic("t")
    set_quotas(timed, request_percentage=1.0)
    ticking.tick_s = 10.0
    assert timed.client(FETCH) >> fetch(fetch_topic("t", [partition()])) << throttled(1000, responses=[])


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


def creating() -> CreateTopicsRequest:
    topic = CreateTopicsRequest.CreatableTopic(name="t0", num_partitions=20, replication_factor=1)
    return CreateTopicsRequest(topics=[topic])


@pytest.fixture
def quota_member(broker: InProcessBroker) -> Member:
    set_quotas(broker, controller_mutation_rate=1, request_percentage=50)
    return Member(broker)


def created(throttle_ms: int) -> CreateTopicsResponse:
    result = CreateTopicsResponse.CreatableTopicResult(
        name="t0", error_code=ErrorCode.THROTTLING_QUOTA_EXCEEDED, error_message=None
    )
    return CreateTopicsResponse(throttle_time_ms=throttle_ms, topics=[result])


def test_the_controller_charges_what_it_changes(quota_member: Member) -> None:
    client = quota_member.client(CREATE)
    assert client >> creating() << WAITS
    assert client.muted_ms == 0
    quota_member.answer(created(700))
    assert client << throttled(700, topics=[Like(error_code=ErrorCode.THROTTLING_QUOTA_EXCEEDED)])
    assert client.muted_ms == 700
    assert quota_member.broker.requests.apis["CREATE_TOPICS"].errors == {"THROTTLING_QUOTA_EXCEEDED": 1}


def test_the_own_throttle_time_counts_where_it_is_longer(tmp_path: Path, ticking: Ticking) -> None:
    broker = InProcessBroker(tmp_path, request_clock=ticking)
    set_quotas(broker, request_percentage=1)
    member, client = Member(broker), broker.client(CREATE)
    ticking.tick_s = 10.0
    assert client >> creating() << WAITS
    member.answer(created(700))
    assert client << throttled(1000, topics=[Like(error_code=ErrorCode.THROTTLING_QUOTA_EXCEEDED)])
    assert client.muted_ms == 1000
    broker.kill()


def test_random_client_ids_stay_within_bounds(broker: InProcessBroker) -> None:
    set_quotas(broker, (("client-id", None),), producer_byte_rate=1000, request_percentage=50)
    quotas = broker.broker.quotas
    for manager in (quotas.produce, quotas.request):
        manager._max_counters = 50
    for number in range(500):
        client = broker.client(METADATA, client_id=str(number))
        assert client >> MetadataRequest(topics=[]) << throttled(0)
    assert [len(manager) for manager in quotas.each()] == [50, 0, 50, 0]


def test_a_pipeline_does_not_escape(broker: InProcessBroker) -> None:
    """A hundred requests at once: no more is appended at any time than the rate allows, and one request."""
    broker.create_topic("t")
    set_quotas(broker, producer_byte_rate=1000)
    requests = [
        frame(produce("t", batch("x" * 900)), PRODUCE, correlation_id=n, client_id="test") for n in range(100)
    ]
    client = scripted.Client(broker.apis.handle, timer=broker.timer)  # type: ignore[arg-type]  # it takes any handler
    log = broker.log_manager.get_log("t", 0)
    assert log is not None
    client.send(b"".join(size_prefix(len(request)) + request for request in requests))
    for second in range(120):
        assert log.log_end_offset <= (10 + second) * 1000 / len(requests[0]) + 1
        assert len(client.answers()) <= log.log_end_offset
        broker.timer.advance(1)
        client.settle()
    assert log.log_end_offset == 100
    assert client.is_read()


# ---- clients with quotas, of a broker with an authorizer


handlers.register_all()
GATED = [key for key, row in API_CHECKS.items() if row.gates and key in REGISTRY]
CLUSTER_DENIED = ErrorCode.CLUSTER_AUTHORIZATION_FAILED


@pytest.fixture
def guarded(tmp_path: Path, ticking: Ticking) -> Iterator[GuardedBroker]:
    """Its clients may set quotas, and nothing else."""
    broker = GuardedBroker(tmp_path, request_clock=ticking)
    broker.allow(AclOperation.ALTER_CONFIGS)
    yield broker
    broker.kill()


def gated_bytes(broker: GuardedBroker, key: ApiKey) -> tuple[bytes, int | None]:
    """The answer to an empty request of the last version that is served, and for how long the client is muted."""
    _, version = REGISTRY[key].versions
    answer = broker.apis.handle(broker.client(version).info, frame(request_type(key)(), version))
    muted_ms = None
    if isinstance(answer, MeteredAnswer):
        muted_ms, answer = answer.mute_ms, answer.answer
    assert isinstance(answer, list), "what a gate denies is denied at once"
    return join_chunks(answer), muted_ms


@pytest.mark.parametrize("key", GATED, ids=lambda key: key.name)
def test_gates_hold_for_requests_that_are_metered(guarded: GuardedBroker, key: ApiKey) -> None:
    guarded.deny_again()
    plain, muted_ms = gated_bytes(guarded, key)
    assert muted_ms is None
    guarded.allow(AclOperation.ALTER_CONFIGS)
    set_quotas(guarded, (("client-id", None),), request_percentage=50)
    guarded.deny_again()
    assert gated_bytes(guarded, key) == (plain, 0)
    assert guarded.broker.auth is not None
    assert guarded.broker.auth.denied == 2


def test_what_is_denied_is_charged(guarded: GuardedBroker, ticking: Ticking) -> None:
    set_quotas(guarded, request_percentage=1.0)
    ticking.tick_s = 10.0
    client = guarded.client(3)
    assert (
        client
        >> HeartbeatRequest(group_id="g")
        << throttled(1000, error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    )
    client >> Wait(60)
    assert client >> _VALID[ApiKey.DESCRIBE_ACLS] << throttled(1000, error_code=CLUSTER_DENIED)
    assert client.muted_ms == 1000


def test_markers_are_charged_where_they_are_denied(guarded: GuardedBroker, ticking: Ticking) -> None:
    """Kafka: errors of what brokers ask for are exempt, but for CLUSTER_AUTHORIZATION_FAILED."""
    guarded.create_topic("t")
    set_quotas(guarded, request_percentage=1.0)
    ticking.tick_s = 10.0
    client = guarded.client(1)
    written = WriteTxnMarkersRequest(markers=[marker(7, 0, {"t": [0]})])
    failed = WriteTxnMarkersRequest(markers=[marker(7, -1, {"t": [0]})])

    def codes(request: Message) -> list[int]:
        answer: Any = client.ask(request)
        return [
            part.error_code for each in answer.markers for topic in each.topics for part in topic.partitions
        ]

    assert codes(written) == [CLUSTER_DENIED]
    assert client.muted_ms == 1000
    guarded.allow(AclOperation.CLUSTER_ACTION)
    for request, code in ((written, 0), (failed, ErrorCode.UNKNOWN_SERVER_ERROR)):
        client >> Wait(60)
        assert codes(request) == [code]
        assert client.muted_ms == 0


def test_a_follower_is_exempt_where_it_is_denied_too(guarded: GuardedBroker, ticking: Ticking) -> None:
    guarded.create_topic("t")
    set_quotas(guarded, request_percentage=1.0)
    ticking.tick_s = 10.0
    request = fetch(fetch_topic("t", [partition()]))
    request.replica_id = 2
    denied = Like(partitions=[Like(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)])
    assert guarded.client(FETCH) >> request << throttled(0, responses=[denied])


def test_the_quota_is_that_of_who_asks_now(guarded: GuardedBroker) -> None:
    """A later login gives a connection another principal, whose header is the one that is known."""
    guarded.create_topic("t")
    set_quotas(guarded, (("user", "admin"),), producer_byte_rate=1000)
    client = guarded.client(PRODUCE)
    denied = Like(partition_responses=[Like(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)])
    assert client >> produce("t", batch(PAYLOAD)) << throttled(0, responses=[denied])
    assert client.muted_ms is None
    client.info.principal = ADMIN
    appended = Like(partition_responses=[Like(error_code=0)])
    assert client >> produce("t", batch(PAYLOAD)) << throttled(MORE, responses=[appended])
    assert client.muted_ms == MORE


def test_what_is_forwarded_is_for_the_controller_to_allow(guarded: GuardedBroker) -> None:
    """With the client's principal; what a member decides itself it asks its own authorizer for."""
    set_quotas(guarded, controller_mutation_rate=1)
    guarded.deny_again()
    member = Member(guarded)
    client = member.client(CREATE)
    assert client >> creating() << WAITS
    assert client.muted_ms == 0
    assert member.channel.submit.last(EnvelopeRequest).request_principal == serialized_principal(ANONYMOUS)
    member.answer(created(700))
    assert client << throttled(700, topics=[Like(error_code=ErrorCode.THROTTLING_QUOTA_EXCEEDED)])
    resource = IncrementalAlterConfigsRequest.AlterConfigsResource(
        resource_type=BROKER_LOGGER_RESOURCE, resource_name=str(NODE_ID), configs=[]
    )
    answer = Like(responses=[Like(error_code=CLUSTER_DENIED)])
    assert member.client(1) >> IncrementalAlterConfigsRequest(resources=[resource]) << answer


def test_versions_before_a_login_are_charged_to_no_client(guarded: GuardedBroker, ticking: Ticking) -> None:
    set_quotas(guarded, (("client-id", None),), request_percentage=1.0)
    ticking.tick_s = 10.0
    client = guarded.client(3)
    client.info.principal = None
    request = ApiVersionsRequest(client_software_name="n", client_software_version="1")
    assert client >> request << throttled(0)
    assert client.muted_ms is None
    client.info.principal = ANONYMOUS
    assert client >> request << throttled(1000)


def test_nothing_else_is_answered_before_a_login(guarded: GuardedBroker) -> None:
    client = guarded.client(3)
    client.info.principal = None
    with pytest.raises(AssertionError, match="before its client has logged in"):
        client.ask(HeartbeatRequest(group_id="g"))
