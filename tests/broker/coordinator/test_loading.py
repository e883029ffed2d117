"""ShardLoader: replays logs into shards."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from barnabas.broker.coordinator import loading
from barnabas.broker.coordinator.loading import LoadCancelledError, LoadSummary, ShardLoader
from barnabas.broker.coordinator.records import (
    GROUP_RECORDS,
    CoordinatorRecord,
    RecordSerde,
    UnreadableRecordError,
)
from barnabas.protocol.records.batch import CorruptRecordError
from barnabas.protocol.records.builder import build_batch
from barnabas.protocol.records.compression import CompressionType
from barnabas.protocol.records.control import ControlRecordType, control_record_key, end_transaction_marker
from barnabas.protocol.records.key_table import ENTRY_BYTES
from barnabas.storage.offsets import FileRecords
from tests.broker.coordinator.runtime_harness import BytesFile, Counters, counter, no_counter
from tests.protocol.records.raw_batches import empty_batch

SERDE = RecordSerde(GROUP_RECORDS)


class Written:
    """A shard that records the calls that it gets."""

    def __init__(self) -> None:
        self.lines: list[tuple[Any, ...]] = []
        self.summary = LoadSummary()

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
    shard.summary = loader.summary
    return shard


def test_records_are_replayed_with_offset_and_producer() -> None:
    a, b = counter("a", 1), no_counter("b")
    shard = loaded(
        batch(a, b, base_offset=5) + batch(a, base_offset=9, compression=CompressionType.ZSTD),
        batch(b, base_offset=20, producer_id=7, producer_epoch=3, is_transactional=True),
    )
    assert shard.lines == [(6, -1, -1, b), (9, -1, -1, a), (20, 7, 3, b)]


@pytest.mark.parametrize("commit", [True, False])
def test_markers_end_transactions(commit: bool) -> None:
    marker = end_transaction_marker(
        commit=commit, coordinator_epoch=1, producer_id=7, producer_epoch=3, timestamp=0
    )
    assert loaded(marker).lines == [(7, 3, commit)]


def test_other_control_records_and_empty_batches_are_skipped() -> None:
    leader_change = build_batch(
        [(control_record_key(ControlRecordType.LEADER_CHANGE), b"", 0, ())], is_control=True
    )
    assert loaded(leader_change + empty_batch(base_offset=1, last_offset=3, timestamp=0)).lines == []


def test_records_of_a_later_version_are_skipped_with_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    strange = [(b"\x00\x63x", b"\x00\x00", 0, ()), (b"\x00\x63y", None, 0, ())]
    shard = loaded(build_batch(strange) + batch(counter("a", 1), base_offset=2))
    assert len(shard.lines) == 1
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "type 99" in caplog.text


def test_an_unreadable_batch_ends_the_load() -> None:
    with pytest.raises(UnreadableRecordError):
        loaded(build_batch([(b"\x00\x01", b"\x00\x00", 0, ())]))
    with pytest.raises(CorruptRecordError):
        loaded(batch(counter("a", 1))[:-1])


def test_only_the_last_record_of_each_key_is_replayed() -> None:
    a = [counter("a", value) for value in range(50)]
    shard = loaded(
        batch(*a[:20]) + batch(*a[20:49], no_counter("b"), base_offset=20), batch(a[49], base_offset=50)
    )
    assert shard.lines == [(49, -1, -1, no_counter("b")), (50, -1, -1, a[49])]
    assert (shard.summary.records, shard.summary.skipped) == (2, 49)


def test_more_keys_than_fit_in_memory_are_replayed_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "_MIN_TABLE_BYTES", 6 * ENTRY_BYTES)
    many = [counter(f"c{number % 40}", number) for number in range(80)]
    data = batch(*many, compression=CompressionType.ZSTD) + batch(counter("c0", 99), base_offset=80)
    shard = loaded(data)
    last = {line[3].key.group: line[3].value.offset for line in shard.lines}
    assert last == {**{f"c{number}": number + 40 for number in range(40)}, "c0": 99}


@given(data=st.data())
@settings(
    max_examples=60,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
    deadline=None,
)
def test_a_load_equals_a_replay_of_every_record(data: st.DataObject, monkeypatch: pytest.MonkeyPatch) -> None:
    """For reads of any size, with transactions and batches that are larger."""
    monkeypatch.setattr(loading, "_PART_BYTES", data.draw(st.sampled_from([150, 1000])))
    names = st.sampled_from("abcd")
    pieces: list[bytes] = []
    whole: Counters = Counters(None)  # type: ignore[arg-type]
    offset = 0
    for value in range(data.draw(st.integers(1, 25))):
        kind = data.draw(st.sampled_from(["data", "data", "transaction", "marker"]))
        producer = data.draw(st.integers(1, 2)) if kind != "data" else -1
        if kind == "marker":
            committed = data.draw(st.booleans())
            end = end_transaction_marker(
                commit=committed,
                coordinator_epoch=1,
                producer_id=producer,
                producer_epoch=0,
                timestamp=0,
                base_offset=offset,
            )
            pieces.append(end)
            whole.replay_end_transaction_marker(producer, 0, committed=committed)
            offset += 1
            continue
        records = [
            counter(name, 100 * value + at) if data.draw(st.booleans()) else no_counter(name)
            for at, name in enumerate(data.draw(st.lists(names, min_size=1, max_size=6)))
        ]
        pieces.append(
            batch(
                *records,
                base_offset=offset,
                producer_id=producer,
                is_transactional=kind == "transaction",
                compression=data.draw(st.sampled_from([CompressionType.NONE, CompressionType.LZ4])),
            )
        )
        for record in records:
            whole.replay(offset, producer, 0, record)
            offset += 1
    cut = data.draw(st.integers(0, len(pieces)))
    shard = Counters(None)  # type: ignore[arg-type]
    ShardLoader("counters-0", SERDE, 100, lambda: True).load(
        [files(b"".join(pieces[:cut])), files(b"".join(pieces[cut:]))], shard
    )
    assert shard.state() == whole.state()


def files(data: bytes) -> FileRecords:
    return FileRecords(BytesFile(data), 0, len(data))


def test_a_cancelled_load_ends() -> None:
    with pytest.raises(LoadCancelledError):
        loaded(batch(counter("a", 1)), is_wanted=lambda: False)
