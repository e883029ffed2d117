"""Control records: types by their keys, the markers at the end of transactions."""

from __future__ import annotations

import pytest

from barnabas.protocol.records.batch import RecordBatch
from barnabas.protocol.records.control import (
    ControlRecordType,
    control_record_key,
    control_record_type,
    coordinator_epoch,
    end_transaction_marker,
)
from barnabas.protocol.records.errors import InvalidRecordError


@pytest.mark.parametrize("record_type", [t for t in ControlRecordType if t >= 0])
def test_keys(record_type: ControlRecordType) -> None:
    assert control_record_type(control_record_key(record_type)) == record_type


def test_unknown_control_types_are_skipped() -> None:
    assert control_record_type(b"\0\1\0\1and more") == ControlRecordType.COMMIT
    assert control_record_type(b"\0\0\0\x63") == ControlRecordType.UNKNOWN
    assert control_record_type(b"\0\0\xff\xff") == ControlRecordType.UNKNOWN


@pytest.mark.parametrize("key", [None, b"", b"\0\0\0", b"\xff\xff\0\0"])
def test_invalid_keys_are_rejected(key: bytes | None) -> None:
    with pytest.raises(InvalidRecordError):
        control_record_type(key)


@pytest.mark.parametrize("commit", [True, False])
def test_end_transaction_marker(commit: bool) -> None:
    batch = RecordBatch(
        end_transaction_marker(
            commit=commit, coordinator_epoch=6, producer_id=9, producer_epoch=1, timestamp=55
        )
    )
    batch.ensure_valid()
    assert batch.is_control
    assert batch.is_transactional
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (9, 1, -1)
    (record,) = batch.records()
    assert control_record_type(record.key) == (
        ControlRecordType.COMMIT if commit else ControlRecordType.ABORT
    )
    assert coordinator_epoch(record.value) == 6


@pytest.mark.parametrize("value", [None, b"\0\0\0\0\0", b"\xff\xff\0\0\0\0"])
def test_invalid_values_of_end_transaction_markers_are_rejected(value: bytes | None) -> None:
    with pytest.raises(InvalidRecordError):
        coordinator_epoch(value)
