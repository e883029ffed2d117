"""LogReplay: control records and metadata transactions."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from barnabas.broker.metadata.log import MetadataBatch, MetadataLogError
from barnabas.broker.metadata.log_replay import LogReplay
from barnabas.broker.metadata.records import frame
from barnabas.broker.metadata.snapshot_files import Control, control_batch, quorum_records
from barnabas.protocol.messages.control_records import LeaderChangeMessage, VotersRecord
from barnabas.protocol.messages.topic_records import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
    NoOpRecord,
)
from barnabas.protocol.records.batch import RecordBatch, build_batch
from barnabas.protocol.records.control import ControlRecordType
from barnabas.protocol.schema import Message
from tests.broker.metadata.raft_logs import config

A, B, C, D = (config(name, "x") for name in "abcd")
BEGIN, END = BeginTransactionRecord(name="a change"), EndTransactionRecord()
ABORT = AbortTransactionRecord(reason="no")


def log(*batches: Sequence[Message]) -> list[RecordBatch]:
    """The batches of a log, all of epoch 5."""
    found, offset = [], 0
    for records in batches:
        rows = [(None, frame(record, 30), 0, ()) for record in records]
        found.append(RecordBatch(build_batch(rows, base_offset=offset, partition_leader_epoch=5)))
        offset += len(records)
    return found


def replayed(*batches: Sequence[Message]) -> list[MetadataBatch]:
    return list(LogReplay().batches(log(*batches)))


def test_records_come_in_one_piece_with_the_last_offset() -> None:
    assert replayed([A, B], [C]) == [MetadataBatch([A, B, C], 2, 5)]
    assert replayed() == []


def test_empty_records_only_move_the_offset() -> None:
    assert replayed([A], [NoOpRecord()]) == [MetadataBatch([A], 1, 5)]
    assert replayed([NoOpRecord()]) == [MetadataBatch([], 0, 5)]


def test_a_transaction_takes_effect_once_it_ends() -> None:
    assert replayed([A], [BEGIN, B], [C]) == [MetadataBatch([A], 0, 5)]
    assert replayed([A], [BEGIN, B], [C], [END, D]) == [MetadataBatch([A, B, C, D], 5, 5)]


def test_an_aborted_transaction_has_no_effect() -> None:
    assert replayed([A], [BEGIN, B], [C, ABORT], [D]) == [MetadataBatch([A, D], 5, 5)]


def test_an_open_transaction_at_the_end_is_detected() -> None:
    replay = LogReplay()
    assert list(replay.batches(log([BEGIN, A]))) == []
    assert replay.in_transaction


def test_many_records_are_replayed_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("barnabas.broker.metadata.log_replay.RECORDS_AT_ONCE", 2)
    assert replayed([A], [B], [C]) == [MetadataBatch([A, B], 1, 5), MetadataBatch([C], 2, 5)]


def test_control_records_hold_the_voters() -> None:
    voters = VotersRecord(version=0, voters=[VotersRecord.Voter(voter_id=1)])
    change = (ControlRecordType.LEADER_CHANGE, LeaderChangeMessage(leader_id=1))
    unknown = (ControlRecordType.COMMIT, LeaderChangeMessage(leader_id=1))
    messages = [change, unknown, *quorum_records(Control(1, voters))]
    batch = RecordBatch(control_batch(messages, base_offset=0, epoch=5, now_ms=0))
    replay = LogReplay()
    assert list(replay.batches([batch])) == [MetadataBatch([], 3, 5)]
    assert replay.control == Control(1, voters)
    assert replay.has_quorum_records


def test_a_leader_change_alone_has_no_voters() -> None:
    change = (ControlRecordType.LEADER_CHANGE, LeaderChangeMessage(leader_id=1))
    replay = LogReplay()
    list(replay.batches([RecordBatch(control_batch([change], base_offset=0, epoch=5, now_ms=0))]))
    assert not replay.has_quorum_records


def test_an_unknown_record_is_reported_with_its_offset() -> None:
    batch = RecordBatch(build_batch([(None, b"\x01\x7f\x00", 0, ())], base_offset=7))
    with pytest.raises(MetadataLogError, match="offset 7: metadata record type 127 is not known"):
        list(LogReplay().batches([batch]))
