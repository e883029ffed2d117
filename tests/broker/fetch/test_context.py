"""FetchContext: the partitions that a request reads, and those in its response."""

from __future__ import annotations

from barnabas.broker.fetch.context import FetchContext, FetchParams
from barnabas.broker.fetch.session import NO_SESSION, FetchSession, NamedTopic
from barnabas.protocol.codec import encode
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.fetch import FetchResponse
from barnabas.storage.offsets import FetchIsolation
from tests.broker.fetch.readers import Reader, error, keys, nothing, told


def test_an_incremental_response_has_only_changes() -> None:
    reader = Reader()
    session_id = reader.begin(("a", 0), ("a", 1), ("b", 0), ("b", 1), ("c", 0), ("c", 1))
    context = reader.context(session_id, 1)
    same, records, high_watermark, log_start, diverging, other_replica = context.partitions
    answers = [
        nothing(same),
        nothing(records, records=b"batch"),
        nothing(high_watermark, high_watermark=1),
        nothing(log_start, log_start_offset=1),
        nothing(diverging),
        nothing(other_replica),
    ]
    answers[4].diverging_epoch = FetchResponse.EpochEndOffset(epoch=3, end_offset=4)
    answers[5].preferred_read_replica = 2
    response = context.response(answers)
    assert response.session_id == session_id
    assert told(response) == [("a", 1), ("b", 0), ("b", 1), ("c", 0), ("c", 1)]


def test_an_error_is_reported_every_time_and_its_end_too() -> None:
    reader = Reader()
    session_id = reader.begin(("a", 0))
    for epoch in (1, 2):
        context = reader.context(session_id, epoch)
        assert told(context.response([error(context.partitions[0])])) == [("a", 0)]
    context = reader.context(session_id, 3)
    assert told(context.response([nothing(context.partitions[0])])) == [("a", 0)]
    context = reader.context(session_id, 4)
    assert told(context.response([nothing(context.partitions[0])])) == []


def test_a_partition_that_returned_records_moves_to_the_end() -> None:
    reader = Reader()
    session_id = reader.begin(("a", 0), ("a", 1), ("a", 2))
    context = reader.context(session_id, 1)
    first, *others = context.partitions
    context.response([nothing(first, records=b"batch"), *map(nothing, others)])
    assert keys(reader.context(session_id, 2)) == [("a", 1), ("a", 2), ("a", 0)]


def test_records_in_a_file_count_by_their_size() -> None:
    class Slice:
        size = 0

        def read(self) -> bytes:
            raise AssertionError("nobody needs the bytes to know how many there are")

    reader = Reader()
    session_id = reader.begin(("a", 0))
    context = reader.context(session_id, 1)
    data = nothing(context.partitions[0])
    data.records = Slice()
    assert told(context.response([data])) == []


def test_a_response_of_an_outdated_session_epoch_is_an_error() -> None:
    reader = Reader()
    session_id = reader.begin(("a", 0))
    slow = reader.context(session_id, 1)
    fast = reader.context(session_id, 2)
    answers = [nothing(fast.partitions[0], high_watermark=5)]
    assert told(fast.response(answers)) == [("a", 0)]
    assert slow.response(answers) == FetchResponse(
        session_id=session_id, error_code=ErrorCode.INVALID_FETCH_SESSION_EPOCH
    )


def test_a_fetch_is_for_the_leader_and_of_no_rack_unless_it_says_otherwise() -> None:
    params = FetchParams(
        replica_id=-1, max_wait_ms=500, min_bytes=1, max_bytes=100, isolation=FetchIsolation.HIGH_WATERMARK
    )
    assert (params.replica_epoch, params.only_leader, params.rack, params.listener) == (-1, True, "", "")
    assert (params.replica_id, params.max_wait_ms, params.min_bytes, params.max_bytes) == (-1, 500, 1, 100)
    assert params.isolation is FetchIsolation.HIGH_WATERMARK


def test_an_error_of_the_session_is_the_whole_response() -> None:
    context = FetchContext(error=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
    context.refresh()
    assert context.response([]) == FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)


def test_without_a_session_every_partition_is_in_the_response() -> None:
    reader = Reader()
    context = reader.context(epoch=-1, wanted=[("a", 0), ("b", 1)])
    response = context.response([nothing(entry) for entry in context.partitions])
    assert (response.session_id, told(response)) == (0, [("a", 0), ("b", 1)])


def test_a_session_that_cannot_be_made_leaves_a_response_without_one() -> None:
    reader = Reader()
    context = reader.context(epoch=-1, wanted=[("a", 0)])
    without = FetchContext(context.partitions, create=lambda: None)
    assert without.response([nothing(entry) for entry in context.partitions]).session_id == 0


# ---- what a quota asks


def test_the_size_of_a_response_is_known_before_it_changes_anything() -> None:
    """As Kafka counts it: the message with its size in front, without its header."""
    reader = Reader()
    session_id = reader.begin(("a", 0), ("b", 1))
    context = reader.context(session_id, 1)
    first, second = context.partitions
    answers = [nothing(first, records=b"batch"), nothing(second)]
    sizes = [context.response_bytes(answers, 12) for _ in range(2)]
    response = context.response(answers)
    assert told(response) == [("a", 0)]
    assert sizes == [4 + len(encode(response, 12))] * 2
    assert reader.context(session_id, 2).response_bytes([nothing(first), nothing(second)], 12) < sizes[0]


def test_the_size_of_a_response_without_a_session() -> None:
    context = Reader().context(epoch=-1, wanted=[("a", 0), ("b", 1)])
    answers = [nothing(entry, records=b"batch") for entry in context.partitions]
    assert context.response_bytes(answers, 12) == 4 + len(encode(context.response(answers), 12))


def test_the_size_of_a_response_that_has_everything() -> None:
    """Of a client that fetches again and again without a session."""
    partitions = Reader().context(epoch=-1, wanted=[("a", 0), ("b", 1)]).partitions
    session = FetchSession(
        NO_SESSION,
        {entry.key: entry for entry in partitions},
        privileged=False,
        uses_topic_ids=False,
        now_ms=0,
    )
    named = [NamedTopic(str(entry.topic), entry.topic_id, [entry]) for entry in partitions]
    context = FetchContext(partitions, session=session, named=named)
    answers = [nothing(entry, records=b"batch") for entry in partitions]
    size = context.response_bytes(answers, 12)
    response = context.response(answers)
    assert told(response) == [("a", 0), ("b", 1)]
    assert size == 4 + len(encode(response, 12))


def test_an_error_of_the_session_has_the_size_of_an_empty_response() -> None:
    context = FetchContext(error=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
    assert context.response_bytes([], 12) == 4 + len(encode(FetchResponse(), 12))
    assert context.throttled_response(5) == FetchResponse(throttle_time_ms=5)


def test_a_throttled_response_is_empty_and_its_session_has_the_news_later() -> None:
    reader = Reader()
    session_id = reader.begin(("a", 0))
    context = reader.context(session_id, 1)
    answers = [nothing(context.partitions[0], high_watermark=7)]
    assert context.throttled_response(5) == FetchResponse(throttle_time_ms=5, session_id=session_id)
    later = reader.context(session_id, 2)
    wrong = context.throttled_response(5)
    assert (wrong.error_code, wrong.session_id) == (ErrorCode.INVALID_FETCH_SESSION_EPOCH, session_id)
    assert context.response_bytes(answers, 12) == 4 + len(encode(FetchResponse(), 12))
    assert context.response(answers).error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert told(later.response(answers)) == [("a", 0)]


def test_a_throttled_full_fetch_makes_no_session() -> None:
    reader = Reader()
    context = reader.context(epoch=0, wanted=[("a", 0)])
    assert context.throttled_response(5).session_id == 0
    assert context.response([nothing(context.partitions[0])]).session_id > 0


def test_a_session_is_read_as_a_whole_when_other_decisions_hold_for_it() -> None:
    reader = Reader()
    session_id = reader.begin(("a", 0), ("a", 1))
    context = reader.context(session_id, 1)
    session, mine, others = context.session, object(), object()
    assert session is not None
    context.authorize_as(mine)
    assert session.authorized_as is mine
    read = list(context.partitions)
    del session.active[read[0]]
    context.refresh()
    context.authorize_as(mine)
    assert context.partitions == read[1:]
    session.active[read[0]] = None
    context.authorize_as(others)
    assert context.partitions == read
    FetchContext().authorize_as(mine)  # there is nothing that was checked before
