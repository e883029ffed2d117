"""BatchPass over a .log in pieces: batches across pieces, larger than a piece, incomplete, damaged."""

import pytest

from barnabas.protocol.records.batch import RecordBatch, build_batch
from barnabas.protocol.records.scanning import DAMAGED, SegmentScanner
from barnabas.storage.env import File
from barnabas.storage.segment.batch_pass import PROGRESS_BYTES, SegmentPass
from tests.storage.fault_env import FaultEnv
from tests.storage.helpers import end_txn, make_batch
from tests.storage.segment.test_scan import old_message


def file_of(data: bytes) -> File:
    env = FaultEnv()
    env.write_file("/x.log", data)
    return env.open("/x.log", write=False)


def scanner(data: bytes, *, follow_from: int = 0) -> SegmentScanner:
    return SegmentScanner(
        0, size=len(data), index_interval_bytes=100, index_bytes=1 << 16, follow_from=follow_from
    )


def batch(offset: int, size: int = 50, **settings: object) -> bytes:
    return build_batch([(None, bytes(size), 5, [])], base_offset=offset, **settings)  # type: ignore[arg-type]


@pytest.mark.parametrize("piece", [61, 100, 300, 1000, 1 << 20])
def test_a_pass_in_pieces_of_any_size_is_the_same(piece: int) -> None:
    """Batches of all sizes and formats, some of them larger than a piece."""
    parts = [batch(offset, 10 + 97 * (offset % 9)) for offset in range(20)]
    parts[7] = old_message(7, b"v0", 0)
    parts[8] = old_message(8, b"v1" * 400, 1, timestamp=9)
    data = b"".join(parts)
    scan = scanner(data)
    SegmentPass(piece_bytes=piece).run(file_of(data), len(data), scan)
    whole = scanner(data)
    SegmentPass().run(file_of(data), len(data), whole)
    assert (scan.position, scan.next_offset, scan.damage) == (len(data), 20, "")
    assert (scan.offset_index, scan.time_index) == (whole.offset_index, whole.time_index)


@pytest.mark.parametrize("piece", [61, 200, 1 << 20])
@pytest.mark.parametrize("size", [50, 3000])
def test_damage_ends_the_pass_in_pieces_of_any_size(piece: int, size: int) -> None:
    good = batch(0) + batch(1)
    for at in (8, 16, 20, 65):
        bad = bytearray(batch(2, size))
        bad[at] ^= 0x40
        data = good + bytes(bad) + batch(3)
        scan = scanner(data)
        SegmentPass(piece_bytes=piece).run(file_of(data), len(data), scan)
        assert (scan.stop, scan.position, scan.next_offset) == (DAMAGED, len(good), 2)
        assert scan.damage


@pytest.mark.parametrize("left", [1, 16, 17, 40, 60, 61, 100])
@pytest.mark.parametrize("piece", [61, 1 << 20])
def test_an_incomplete_batch_at_the_end_is_damage(left: int, piece: int) -> None:
    data = batch(0) + batch(1)[:left]
    scan = scanner(data)
    SegmentPass(piece_bytes=piece).run(file_of(data), len(data), scan)
    assert (scan.stop, scan.position) == (DAMAGED, len(batch(0)))


@pytest.mark.parametrize("missing", [1, 50, 100])
def test_a_file_shorter_than_its_stated_size(missing: int) -> None:
    data = batch(0) + batch(1)
    scan = scanner(data)
    SegmentPass().run(file_of(data[:-missing]), len(data), scan)
    assert (scan.stop, scan.next_offset) == (DAMAGED, 1)


@pytest.mark.parametrize("version", [0, 1])
def test_damage_in_message_sets(version: int) -> None:
    good = old_message(0, b"good", version)
    bad = bytearray(old_message(1, b"bad", version))
    bad[-1] ^= 1
    data = good + bytes(bad)
    for piece in (61, 1 << 20):
        scan = scanner(data)
        SegmentPass(piece_bytes=piece).run(file_of(data), len(data), scan)
        assert (scan.stop, scan.position) == (DAMAGED, len(good))


@pytest.mark.parametrize("piece", [61, 1 << 20])
def test_markers_are_passed_on_after_the_runs_before_them(piece: int) -> None:
    parts = [
        make_batch(b"x", base_offset=0, producer=(3, 0, 0), transactional=True),
        _at(end_txn(3, 0, commit=True), 1),
        make_batch(b"y", base_offset=2, producer=(3, 0, 1), transactional=True),
    ]
    data = b"".join(parts)
    scan = scanner(data)
    seen: list[tuple[int, list[int]]] = []

    def on_control(found: RecordBatch) -> None:
        seen.append((found.base_offset, [run.producer_id for run in scan.take_runs()]))
        assert next(iter(found.records())).key is not None

    SegmentPass(piece_bytes=piece).run(file_of(data), len(data), scan, on_control)
    assert seen == [(1, [3])]
    assert [run.txn_first_offset for run in scan.take_runs()] == [2]


def _at(marker: bytes, offset: int) -> bytes:
    return offset.to_bytes(8, "big") + marker[8:]


def test_a_pass_may_begin_and_end_in_the_middle() -> None:
    parts = [batch(offset) for offset in range(6)]
    data = b"".join(parts)
    size = len(parts[0])
    scan = scanner(data)
    SegmentPass().run(file_of(data), 5 * size, scan, position=2 * size)
    assert (scan.position, scan.next_offset) == (5 * size, 5)


def test_progress_adds_up() -> None:
    part = batch(0, 1 << 20)
    parts = [offset.to_bytes(8, "big") + part[8:] for offset in range(20)]
    data = b"".join(parts)
    heard: list[int] = []
    scan = scanner(data)
    SegmentPass(heard.append).run(file_of(data), len(data), scan)
    assert sum(heard) == len(data)
    assert all(count >= PROGRESS_BYTES for count in heard[:-1])
    assert len(heard) == 3
