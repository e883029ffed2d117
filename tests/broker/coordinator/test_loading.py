"""ShardLoader: what a log says, replayed."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from broker.coordinator.loading import LoadCancelledError, ShardLoader
from broker.coordinator.record import CoordinatorRecord
from broker.coordinator.record_types import GROUP_RECORDS
from broker.coordinator.serde import RecordSerde, UnreadableRecordError
from protocol.records.batch import CorruptRecordError
from protocol.records.builder import build_batch, empty_batch
from protocol.records.compression import CompressionType
from protocol.records.control import ControlRecordType, control_record_key, end_transaction_marker
from storage.offsets import FileRecords
from tests.broker.coordinator.runtime_bench import BytesFile, counter, no_counter

SERDE = RecordSerde(GROUP_RECORDS)


class Written:
    """A shard that writes down what it is told."""

    def __init__(self) -> None:
        self.lines: list[tuple[object, ...]] = []

    def replay(self, offset: int, producer_id: int, producer_epoch: int, record: CoordinatorRecord) -> None:
        self.lines.append((offset, producer_id, producer_epoch, record))

    def replay_end_transaction_marker(
        self, producer_id: int, producer_epoch: int, *, committed: bool
    ) -> None:
        self.lines.append((producer_id, producer_epoch, committed))

    on_loaded = on_unloaded = on_new_metadata_image = None


def batch(*records: CoordinatorRecord, base_offset: int = 0, producer_id: int = -1, **more: object) -> bytes:
    encoded = [(*SERDE.encode(record), 0, ()) for record in records]
    return build_batch(encoded, base_offset=base_offset, producer_id=producer_id, **more)  # type: ignore[arg-type]


def loaded(*pieces: bytes, is_wanted: Callable[[], bool] = lambda: True) -> Written:
    shard = Written()
    loader = ShardLoader("counters-0", SERDE, 100, is_wanted)
    contents = [FileRecords(BytesFile(b"??" + piece), 2, len(piece)) for piece in pieces]
    loader.load([FileRecords(None, 0, 0), *contents], shard)  # type: ignore[arg-type]
    return shard


def test_records_are_replayed_with_their_offsets_and_their_producer() -> None:
    a, b = counter("a", 1), no_counter("b")
    shard = loaded(
        batch(a, b, base_offset=5) + batch(a, base_offset=9, compression=CompressionType.ZSTD),
        batch(b, base_offset=20, producer_id=7, producer_epoch=3, is_transactional=True),
    )
    assert shard.lines == [(5, -1, -1, a), (6, -1, -1, b), (9, -1, -1, a), (20, 7, 3, b)]


@pytest.mark.parametrize("commit", [True, False])
def test_markers_end_transactions(commit: bool) -> None:
    marker = end_transaction_marker(
        commit=commit, coordinator_epoch=1, producer_id=7, producer_epoch=3, timestamp=0
    )
    assert loaded(marker).lines == [(7, 3, commit)]


def test_other_control_records_and_batches_without_records_say_nothing() -> None:
    leader_change = build_batch(
        [(control_record_key(ControlRecordType.LEADER_CHANGE), b"", 0, ())], is_control=True
    )
    assert loaded(leader_change + empty_batch(base_offset=1, last_offset=3, timestamp=0)).lines == []


def test_records_of_a_later_version_are_left_out_with_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    strange = [(b"\x00\x63x", b"\x00\x00", 0, ()), (b"\x00\x63y", None, 0, ())]
    shard = loaded(build_batch(strange) + batch(counter("a", 1), base_offset=2))
    assert len(shard.lines) == 1
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "type 99" in caplog.text


def test_what_cannot_be_read_ends_the_load() -> None:
    with pytest.raises(UnreadableRecordError):
        loaded(build_batch([(b"\x00\x01", b"\x00\x00", 0, ())]))
    with pytest.raises(CorruptRecordError):
        loaded(batch(counter("a", 1))[:-1])


def test_a_load_that_is_not_wanted_ends() -> None:
    with pytest.raises(LoadCancelledError):
        loaded(batch(counter("a", 1)), is_wanted=lambda: False)
