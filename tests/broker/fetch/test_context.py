"""FetchContext: the partitions that a request reads, and those in its response."""

from __future__ import annotations

from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.fetch import FetchResponse
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
