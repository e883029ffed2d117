"""The scan over the batches of a segment: the interpreted and the compiled loop, compared with one batch at a time."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.protocol.records import scanning
from barnabas.protocol.records.batch import RecordBatch, build_batch
from barnabas.protocol.records.entries import batches
from tests.storage.segment.test_scan import old_message
from tests.support.loops import FORMS, in_form

T0 = 1_700_000_000_000
BASE = 1000


@pytest.fixture(params=FORMS, scope="session")
def module(request: pytest.FixtureRequest) -> Any:
    return in_form(scanning, request.param)


def new_scanner(module: Any, size: int = 1 << 20, **settings: Any) -> Any:
    values = {"index_interval_bytes": 200, "index_bytes": 1 << 20, "follow_from": 0, **settings}
    return module.SegmentScanner(BASE, size=size, **values)


def batch(offset: int, *, records: int = 1, epoch: int = 0, size: int = 20, **settings: Any) -> bytes:
    return build_batch(
        [(None, bytes(size), settings.pop("timestamp", T0), [])] * records,
        base_offset=offset,
        partition_leader_epoch=epoch,
        **settings,
    )


def scan(scanner: Any, data: bytes, piece: int = 1 << 20) -> int:
    """Feeds all bytes in pieces, until the scan needs no more; returns the last `stop`."""
    while scanner.position < len(data):
        part = data[scanner.position : scanner.position + piece]
        at = scanner.scan(part, 0, len(part), len(data))
        if scanner.stop != scanning.AT_END or at == 0:
            break
    return int(scanner.stop)


def test_complete_batches_are_applied(module: Any) -> None:
    data = b"".join(batch(BASE + 3 * number, records=3, timestamp=T0 + number) for number in range(20))
    scanner = new_scanner(module)
    assert scan(scanner, data) == scanning.AT_END
    assert (scanner.position, scanner.next_offset) == (len(data), BASE + 60)
    assert (scanner.max_timestamp, scanner.offset_of_max_timestamp) == (T0 + 19, BASE + 59)
    assert scanner.offset_entry_count == scanner.time_entry_count > 3
    assert len(scanner.offset_index) == 8 * scanner.offset_entry_count


def test_an_incomplete_batch_is_left_for_the_next_piece(module: Any) -> None:
    data = batch(BASE) + batch(BASE + 1)
    scanner = new_scanner(module)
    assert scanner.scan(data, 0, len(data) - 1, len(data)) == len(batch(BASE))
    assert (scanner.stop, scanner.next_offset) == (scanning.AT_END, BASE + 1)


@pytest.mark.parametrize("hole", [8, 16, 17, 30, 60, 70])
def test_a_flipped_byte_ends_the_scan(module: Any, hole: int) -> None:
    good = b"".join(batch(BASE + number) for number in range(7))
    bad = bytearray(batch(BASE + 7))
    bad[hole] ^= 0x40
    scanner = new_scanner(module)
    assert scan(scanner, good + bad + good) == scanning.DAMAGED
    assert (scanner.position, scanner.next_offset) == (len(good), BASE + 7)
    assert scanner.damage


@pytest.mark.parametrize("offset", [0, BASE - 1, BASE + 1, BASE + (1 << 31)])
def test_invalid_offsets_end_the_scan(module: Any, offset: int) -> None:
    data = batch(BASE, records=2) + batch(offset)
    scanner = new_scanner(module)
    assert scan(scanner, data) == scanning.DAMAGED
    assert "due" in scanner.damage
    assert scanner.next_offset == BASE + 2


def test_invalid_lengths_end_the_scan(module: Any) -> None:
    for length in (0, 48, 1 << 20, -1):
        data = bytearray(batch(BASE) + batch(BASE + 1))
        data[len(batch(BASE)) + 8 : len(batch(BASE)) + 12] = length.to_bytes(4, "big", signed=True)
        scanner = new_scanner(module)
        assert scan(scanner, bytes(data)) == scanning.DAMAGED
        assert "claims" in scanner.damage
        assert scanner.position == len(batch(BASE))


def test_checksums_may_be_skipped(module: Any) -> None:
    data = bytearray(batch(BASE) + batch(BASE + 1))
    data[70] ^= 1
    scanner = new_scanner(module, check_crc=False)
    assert scan(scanner, bytes(data)) == scanning.AT_END
    assert scanner.next_offset == BASE + 2


def test_message_sets_are_left_to_the_caller(module: Any) -> None:
    entry = old_message(BASE + 1, b"old", 1, timestamp=7)
    data = batch(BASE) + entry + batch(BASE + 2)
    scanner = new_scanner(module)
    at = scanner.scan(data, 0, len(data), len(data))
    assert (scanner.stop, at) == (scanning.LEGACY, len(batch(BASE)))
    assert scanner.add_entry(BASE + 1, len(entry), 7)
    assert scanner.scan(data, at + len(entry), len(data), len(data)) == len(data)
    assert scanner.next_offset == BASE + 3
    assert not scanner.add_entry(BASE, 10, 7)
    assert scanner.stop == scanning.DAMAGED
    scanner.reject("why not")
    assert scanner.damage == "why not"


def test_markers_are_left_to_the_caller(module: Any) -> None:
    marker = build_batch(
        [(b"\0\0\0\1", b"\0\0\0\0\0\0", T0, [])],
        base_offset=BASE + 1,
        producer_id=9,
        producer_epoch=0,
        is_transactional=True,
        is_control=True,
    )
    first = batch(BASE, producer_id=9, producer_epoch=0, base_sequence=0, is_transactional=True)
    data = first + marker + batch(BASE + 2)
    scanner = new_scanner(module)
    at = scanner.scan(data, 0, len(data), len(data))
    assert (scanner.stop, scanner.control_at, at) == (scanning.CONTROL, len(first), len(first + marker))
    (run,) = scanner.take_runs()
    assert (run.producer_id, run.txn_first_offset) == (9, BASE)
    assert scanner.take_runs() == []
    assert scanner.scan(data, at, len(data), len(data)) == len(data)
    scanner = new_scanner(module, follow_from=BASE + 2)  # markers below it are not passed on
    assert scan(scanner, data) == scanning.AT_END


def test_headers_suffice_if_the_caller_has_checked_the_batches(module: Any) -> None:
    data = batch(BASE, records=5, epoch=3)
    scanner = new_scanner(module)
    assert scanner.add_header(data[:61], len(data))
    assert (scanner.position, scanner.next_offset) == (len(data), BASE + 5)
    assert scanner.take_epochs() == [(3, BASE)]
    assert scanner.take_epochs() == []
    assert not scanner.add_header(data[:61], len(data))
    with pytest.raises(ValueError, match="header"):
        scanner.add_header(data[:60], len(data))


def test_bytes_outside_of_the_piece_are_not_read(module: Any) -> None:
    scanner = new_scanner(module)
    for at, length in ((0, 101), (-1, 100), (50, 40)):
        with pytest.raises(ValueError, match="bytes"):
            scanner.scan(bytes(100), at, length, 1000)


def test_a_full_index_gets_no_more_entries(module: Any) -> None:
    data = b"".join(batch(BASE + number, timestamp=T0 + number) for number in range(20))
    scanner = new_scanner(module, index_interval_bytes=0, index_bytes=48)
    scan(scanner, data)
    assert (scanner.offset_entry_count, scanner.time_entry_count) == (6, 3)


# -- comparison with one batch at a time --


def random_log(rng: Random, count: int) -> bytes:
    parts, offset = [], BASE
    sequences: dict[tuple[int, int], int] = {}
    epochs = dict.fromkeys(range(4), 0)
    for _ in range(count):
        offset += rng.choice((0, 0, 0, 1, 50))
        records = rng.randint(1, 4)
        producer = rng.randint(-2, 3)
        settings: dict[str, Any] = {}
        if producer >= 0:
            epochs[producer] += rng.random() < 0.1
            key = (producer, epochs[producer])
            sequence = sequences.get(key, rng.choice((0, (1 << 31) - 3)))
            sequences[key] = (sequence + records) & 0x7FFFFFFF
            settings = {"producer_id": producer, "producer_epoch": key[1], "base_sequence": sequence}
            settings["is_transactional"] = producer == 3
        parts.append(
            batch(
                offset,
                records=records,
                epoch=offset // 300,
                size=rng.choice((1, 30, 300)),
                timestamp=T0 + rng.randint(-5, 5),
                **settings,
            )
        )
        offset += records
    return b"".join(parts)


def expected(data: bytes, interval: int) -> tuple[Any, ...]:
    """The documented result of the module, computed in a plain way."""
    offset_entries, time_entries, epochs = b"", b"", []
    youngest, youngest_offset, since, last_time, latest, next_offset = -1, BASE, 0, -1, -1, BASE
    producers: dict[int, tuple[int, list[tuple[int, int, int, int]]]] = {}
    for one in batches(data):
        assert isinstance(one, RecordBatch)
        if one.max_timestamp > youngest:
            youngest, youngest_offset = one.max_timestamp, one.last_offset
        if since > interval:
            offset_entries += (one.last_offset - BASE).to_bytes(4, "big") + one.position.to_bytes(4, "big")
            if youngest > last_time:
                time_entries += youngest.to_bytes(8, "big") + (youngest_offset - BASE).to_bytes(4, "big")
                last_time = youngest
            since = 0
        since += one.size_in_bytes
        if one.partition_leader_epoch > latest:
            latest = one.partition_leader_epoch
            epochs.append((latest, one.base_offset))
        next_offset = one.next_offset
        if one.producer_id >= 0:
            epoch, kept = producers.get(one.producer_id, (one.producer_epoch, []))
            if epoch != one.producer_epoch:
                epoch, kept = one.producer_epoch, []
            kept = [*kept, (one.last_sequence, one.last_offset, one.last_offset_delta, one.max_timestamp)]
            producers[one.producer_id] = (epoch, kept[-5:])
    return offset_entries, time_entries, epochs, youngest, youngest_offset, next_offset, producers


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 1 << 32), count=st.integers(1, 120), piece=st.integers(1600, 9000))
def test_the_filter_equals_one_batch_at_a_time(module: Any, seed: int, count: int, piece: int) -> None:
    data = random_log(Random(seed), count)
    scanner = new_scanner(module, len(data))
    assert scan(scanner, data, piece) == scanning.AT_END
    runs = {run.producer_id: (run.epoch, run.batches()) for run in scanner.take_runs()}
    assert (
        scanner.offset_index,
        scanner.time_index,
        scanner.take_epochs(),
        scanner.max_timestamp,
        scanner.offset_of_max_timestamp,
        scanner.next_offset,
        runs,
    ) == expected(data, 200)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 1 << 32), at=st.integers(0, 1 << 16), damage=st.binary(min_size=1, max_size=12))
def test_both_forms_agree_on_any_damage(seed: int, at: int, damage: bytes) -> None:
    data = bytearray(random_log(Random(seed), 30))
    at %= len(data)
    data[at : at + len(damage)] = damage[: len(data) - at]
    seen = []
    for one in (in_form(scanning, "plain"), scanning):
        scanner = new_scanner(one, len(data))
        stop = scan(scanner, bytes(data), 4096)
        seen.append((stop, scanner.position, scanner.next_offset, scanner.damage, scanner.offset_index))
    assert seen[0] == seen[1]
