"""The states of fetch sessions and of their partitions: one owner, and the table that its module has."""

from __future__ import annotations

from barnabas.broker.fetch.session import next_epoch
from barnabas.protocol.errors import ErrorCode
from tests.broker.fetch.readers import Reader


def test_epochs_go_round_without_touching_those_that_mean_something() -> None:
    assert [next_epoch(0), next_epoch(1), next_epoch(0x7FFFFFFE)] == [1, 2, 0x7FFFFFFF]
    assert next_epoch(0x7FFFFFFF) == 1
    reader = Reader()
    session_id = reader.begin(("a", 0))
    session = reader.cache.get(session_id)
    assert session is not None
    session.epoch = 0x7FFFFFFF
    assert reader.context(session_id, 0x7FFFFFFF).error is ErrorCode.NONE
    assert reader.context(session_id, 1).error is ErrorCode.NONE
