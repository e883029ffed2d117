"""The follower's half of a fetch session; the leader's half is the real one."""

from __future__ import annotations

from random import Random

import pytest

from barnabas.broker.fetch.cache import FetchSessionCache
from barnabas.broker.fetch.context import FetchContext
from barnabas.broker.fetch.manager import FetchManager
from barnabas.broker.replica.fetcher.session import FetchSessionHandler, SessionRequest, WantedPartition
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.fetch import FetchRequest, FetchResponse
from barnabas.protocol.wire import ZERO_UUID, Uuid
from barnabas.storage.offsets import TopicPartition
from tests.broker.replica.fetcher.fetcher_harness import topic_id
from tests.support.chance import seeds


def wanted(offset: int = 0, topic: str = "t", *, of: Uuid | None = None) -> WantedPartition:
    return WantedPartition(topic_id(topic) if of is None else of, offset, 0, 1000, 5, -1)


def names(request: SessionRequest) -> list[tuple[str, int, int]]:
    return [
        (topic.topic, one.partition, one.fetch_offset) for topic in request.topics for one in topic.partitions
    ]


def forgotten(request: SessionRequest) -> list[tuple[str, Uuid, list[int]]]:
    return [(topic.topic, topic.topic_id, topic.partitions) for topic in request.forgotten]


def response(*partitions: TopicPartition, session_id: int = 9, error: int = 0) -> FetchResponse:
    return FetchResponse(
        session_id=session_id,
        error_code=error,
        responses=[
            FetchResponse.FetchableTopicResponse(
                topic=topic,
                topic_id=topic_id(topic),
                partitions=[FetchResponse.PartitionData(partition_index=index)],
            )
            for topic, index in partitions
        ],
    )


def begun(*partitions: TopicPartition) -> FetchSessionHandler:
    """A session whose first request was answered."""
    session = FetchSessionHandler()
    session.build({key: wanted(topic=key[0]) for key in partitions})
    assert session.handle_response(response(*partitions))
    return session


def test_names_everything_first_and_then_only_what_changes() -> None:
    session = FetchSessionHandler()
    first = session.build({("t", 0): wanted(), ("t", 1): wanted(), ("u", 0): wanted(topic="u")})
    assert (first.session_id, first.session_epoch) == (0, 0)
    assert names(first) == [("t", 0, 0), ("t", 1, 0), ("u", 0, 0)]
    assert len(first.topics) == 2
    assert session.handle_response(response(("t", 0), ("t", 1), ("u", 0)))
    second = session.build({("t", 0): wanted(), ("t", 1): wanted(4), ("v", 0): wanted(topic="v")})
    assert (second.session_id, second.session_epoch) == (9, 1)
    assert names(second) == [("t", 1, 4), ("v", 0, 0)]
    assert forgotten(second) == [("u", topic_id("u"), [0])]
    assert session.handle_response(response(("t", 1)))
    third = session.build({("t", 0): wanted(), ("t", 1): wanted(4), ("v", 0): wanted(topic="v")})
    assert third.session_epoch == 2
    assert names(third) == []
    assert forgotten(third) == []
    assert set(third.partitions) == {("t", 0), ("t", 1), ("v", 0)}


def test_a_topic_that_was_created_again_is_forgotten_by_its_old_id() -> None:
    session = begun(("t", 0))
    request = session.build({("t", 0): wanted(of=b"2" * 16)})
    assert names(request) == [("t", 0, 0)]
    assert request.topics[0].topic_id == b"2" * 16
    assert forgotten(request) == [("t", topic_id("t"), [0])]


def test_a_response_by_the_old_id_of_a_topic_is_not_used() -> None:
    session = begun(("t", 0))
    session.build({("t", 0): wanted(of=b"2" * 16)})
    assert not session.handle_response(response(("t", 0)))
    assert session.is_full


def test_asks_by_name_where_an_id_is_unknown() -> None:
    session = FetchSessionHandler()
    assert session.build({("t", 0): wanted()}).uses_topic_ids
    session = FetchSessionHandler()
    request = session.build({("t", 0): wanted(), ("u", 0): wanted(of=ZERO_UUID)})
    assert not request.uses_topic_ids
    assert session.handle_response(response(("t", 0), ("u", 0)))
    assert not session.build({("u", 0): wanted(of=ZERO_UUID)}).uses_topic_ids
    assert session.handle_response(response())
    assert not session.build({("t", 0): wanted()}).uses_topic_ids, "it forgets a topic without an id"


def test_an_evicted_session_begins_again_without_its_id() -> None:
    session = begun(("t", 0))
    session.build({("t", 0): wanted()})
    assert not session.handle_response(response(error=ErrorCode.FETCH_SESSION_ID_NOT_FOUND))
    request = session.build({("t", 0): wanted()})
    assert (request.session_id, request.session_epoch) == (0, 0)


def test_what_is_to_be_heard_again_begins_the_session_again() -> None:
    session = begun(("t", 0), ("t", 1))
    session.hear_again(("t", 0))
    request = session.build({("t", 0): wanted(), ("t", 1): wanted()})
    assert (request.session_id, request.session_epoch) == (9, 0)
    assert names(request) == [("t", 0, 0), ("t", 1, 0)]
    assert session.handle_response(response(("t", 0), ("t", 1)))
    assert session.build({("t", 0): wanted(), ("t", 1): wanted()}).session_epoch == 1


def test_a_partition_that_is_left_out_is_heard_when_it_comes_back() -> None:
    session = begun(("t", 0), ("t", 1))
    session.hear_again(("t", 0))
    assert session.build({("t", 1): wanted()}).session_epoch == 1
    assert session.handle_response(response())
    request = session.build({("t", 0): wanted(), ("t", 1): wanted()})
    assert (request.session_epoch, names(request)) == (2, [("t", 0, 0)])


@pytest.mark.parametrize(
    "error",
    [
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    ],
)
def test_after_another_error_the_old_session_is_ended_by_the_new_one(error: ErrorCode) -> None:
    session = begun(("t", 0))
    session.build({("t", 0): wanted()})
    assert not session.handle_response(response(error=error))
    request = session.build({("t", 0): wanted()})
    assert (request.session_id, request.session_epoch) == (9, 0)
    assert names(request) == [("t", 0, 0)]


def test_a_full_response_has_to_name_exactly_what_was_asked_for() -> None:
    for answered in ([], [("t", 0), ("t", 1)], [("t", 0), ("u", 0)]):
        session = FetchSessionHandler()
        session.build({("t", 0): wanted()})
        assert not session.handle_response(response(*answered))
        assert session.build({("t", 0): wanted()}).session_id == 0


def test_an_incremental_response_has_to_be_of_the_session() -> None:
    for answered in ([("t", 1)], [("u", 0)]):
        session = begun(("t", 0))
        session.build({("t", 0): wanted()})
        assert not session.handle_response(response(*answered))
        assert session.build({("t", 0): wanted()}).session_epoch == 0


def test_a_leader_that_ends_the_session_says_so_by_its_id() -> None:
    session = begun(("t", 0))
    session.build({("t", 0): wanted()})
    assert session.handle_response(response(("t", 0), session_id=0))
    assert (session.session_id, session.is_full) == (0, True)


def test_epochs_begin_at_one_again() -> None:
    session = begun(("t", 0))
    session.epoch = (1 << 31) - 1
    session.build({("t", 0): wanted()})
    assert session.handle_response(response())
    assert session.epoch == 1


def test_data_has_names_whatever_the_request_used() -> None:
    session = begun(("t", 0))
    session.build({("t", 0): wanted()})
    nameless = response(("t", 0))
    nameless.responses[0].topic = ""
    assert [key for key, _ in session.data(nameless)] == [("t", 0)]


@pytest.mark.parametrize("seed", seeds(20))
def test_the_leaders_session_has_what_the_follower_wants(seed: int) -> None:
    """Random partitions come and go, responses get lost, the leader forgets sessions: both halves agree."""
    rng = Random(seed)
    ids = iter(range(1, 10_000))
    cache = FetchSessionCache(4, lambda: next(ids))
    leader = FetchManager(cache, lambda: 0)
    topics = {topic_id(topic): topic for topic in "abc"}
    session = FetchSessionHandler()
    for _ in range(60):
        keys = [(topic, index) for topic in "abc" for index in range(3) if rng.random() < 0.6]
        rng.shuffle(keys)
        request = session.build({key: wanted(rng.randrange(4), key[0]) for key in keys})
        if rng.random() < 0.1:
            cache.remove(request.session_id)
        context = leader.context(_message(request), 18, topics.get, is_follower=True)
        lost = rng.random() < 0.1
        if context.error:
            assert not session.handle_response(FetchResponse(error_code=context.error))
            continue
        assert _held(context) == {key: one.fetch_offset for key, one in request.partitions.items()}
        if lost:
            session.handle_error()
        else:
            assert session.handle_response(_answer(context))


@pytest.mark.parametrize("seed", seeds(20))
def test_a_request_built_from_what_has_changed_is_that_of_everything_that_is_wanted(seed: int) -> None:
    rng = Random(seed)
    whole, changes = FetchSessionHandler(), FetchSessionHandler()
    told: dict[TopicPartition, WantedPartition] = {}
    built_from_changes = 0
    for _ in range(200):
        now = {
            (topic, index): _drawn(rng, topic) for topic in "abc" for index in range(3) if rng.random() < 0.6
        }
        request = whole.build(now)
        if changes.needs_all:
            same = changes.build(now)
        else:
            built_from_changes += 1
            news = {key: now.get(key) for key in {**told, **now} if now.get(key) != told.get(key)}
            news |= {key: now.get(key) for key in [("a", 0), ("gone", 0)] if rng.random() < 0.3}
            same = changes.build_next(news)
        assert _as_sets(same) == _as_sets(request)
        told = now
        _end_alike(rng, whole, changes, request)
    assert built_from_changes > 20


def _drawn(rng: Random, topic: str) -> WantedPartition:
    """Sometimes of a topic that was created again, or whose id is unknown."""
    of = rng.choices((topic_id(topic), topic_id(topic + "2"), ZERO_UUID), (40, 3, 1))[0]
    return wanted(rng.randrange(4), topic, of=of)


def _as_sets(request: SessionRequest) -> tuple[object, ...]:
    return (
        request.session_id,
        request.session_epoch,
        sorted(
            (one.topic_id, one.topic, part) for one in request.topics for part in map(repr, one.partitions)
        ),
        sorted((one.topic_id, one.topic, part) for one in request.forgotten for part in one.partitions),
        request.partitions,
        request.uses_topic_ids,
    )


def _end_alike(
    rng: Random, one: FetchSessionHandler, other: FetchSessionHandler, request: SessionRequest
) -> None:
    """Both get the same response, or none."""
    if rng.random() < 0.05:
        one.handle_error()
        other.handle_error()
        return
    if rng.random() < 0.05:
        key = rng.choice([("a", 0), ("b", 1)])
        one.hear_again(key)
        other.hear_again(key)
    named = request.partitions if request.session_epoch == 0 else {}
    topics: dict[tuple[str, bytes], list[int]] = {}
    for (topic, index), asked in named.items():
        topics.setdefault((topic, asked.topic_id), []).append(index)
    response = FetchResponse(
        session_id=7,
        responses=[
            FetchResponse.FetchableTopicResponse(
                topic=topic,
                topic_id=of,
                partitions=[FetchResponse.PartitionData(partition_index=index) for index in indexes],
            )
            for (topic, of), indexes in topics.items()
        ],
    )
    assert one.handle_response(response) == other.handle_response(response)


def _message(request: SessionRequest) -> FetchRequest:
    return FetchRequest(
        session_id=request.session_id,
        session_epoch=request.session_epoch,
        topics=request.topics,
        forgotten_topics_data=request.forgotten,
    )


def _held(context: FetchContext) -> dict[TopicPartition, int]:
    entries = context.partitions if context.session is None else context.session.partitions.values()
    return {(entry.topic or "", entry.index): entry.fetch_offset for entry in entries}


def _answer(context: FetchContext) -> FetchResponse:
    return context.response(
        [FetchResponse.PartitionData(partition_index=one.index) for one in context.partitions]
    )
