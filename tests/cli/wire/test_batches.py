"""Record batches in a frame: summaries, records, damage."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.cli.wire.batches import read_batches
from barnabas.cli.wire.tree import Node, Wrong
from barnabas.protocol.records.batch import CompressionType, build_batch
from tests.protocol.records.message_sets import message, message_set

RECORDS = [(b"k", b"v", 1000, [("h", b"x")]), (None, b"w", 1001, [])]


def read(
    data: bytes, *, with_records: bool = True, may_be_cut: bool = False
) -> tuple[list[Node], list[Wrong]]:
    return read_batches(data, 100, "records", with_records=with_records, may_be_cut=may_be_cut)


@pytest.mark.parametrize("codec", list(CompressionType))
def test_a_summary(codec: CompressionType) -> None:
    data = build_batch(
        RECORDS,
        base_offset=5,
        compression=codec,
        producer_id=9,
        producer_epoch=2,
        base_sequence=4,
        is_transactional=True,
    )
    (node,), wrongs = read(data, with_records=False)
    assert wrongs == []
    assert (node.start, node.end, node.children) == (100, 100 + len(data), None)
    assert node.value == {
        "base_offset": 5,
        "last_offset": 6,
        "record_count": 2,
        "max_timestamp": 1001,
        "leader_epoch": -1,
        "producer_id": 9,
        "producer_epoch": 2,
        "base_sequence": 4,
        "transactional": True,
        "codec": codec.name.lower(),
    }


def test_records_are_listed() -> None:
    (node,), wrongs = read(build_batch(RECORDS, base_offset=5))
    assert wrongs == []
    assert node.children is not None
    assert [child.value for child in node.children] == [
        {"offset": 5, "timestamp": 1000, "key": b"k", "value": b"v", "headers": [["h", b"x"]]},
        {"offset": 6, "timestamp": 1001, "key": None, "value": b"w"},
    ]


def test_batches_and_message_sets_follow_each_other() -> None:
    first, second = (
        build_batch(RECORDS),
        message_set([(b"k", b"v", 5)], magic=1, compression=CompressionType.GZIP),
    )
    nodes, wrongs = read(first + second + message(b"k", b"v", magic=0))
    assert wrongs == []
    assert [(node.name, node.type, node.start) for node in nodes] == [
        ("batch[0]", "batch v2", 100),
        ("batch[1]", "batch v1", 100 + len(first)),
        ("batch[2]", "batch v0", 100 + len(first) + len(second)),
    ]


def test_a_batch_that_is_cut() -> None:
    data = build_batch(RECORDS)
    nodes, wrongs = read(data + data[:-1], may_be_cut=True)
    assert wrongs == []
    assert (nodes[1].name, nodes[1].value) == ("cut off", f"{len(data) - 1} bytes of a batch")
    nodes, (wrong,) = read(data + data[:-1])
    assert len(nodes) == 1
    assert (wrong.offset, wrong.path) == (100 + len(data), "records.batch[1]")


def test_damage_is_marked_and_the_next_batch_is_read() -> None:
    data = bytearray(build_batch(RECORDS))
    whole = bytes(data)
    data[-1] ^= 1
    nodes, (wrong,) = read(bytes(data) + whole)
    assert len(nodes) == 2
    assert (wrong.offset, wrong.path) == (100, "records.batch[0]")
    assert "CRC" in wrong.expected


def test_bytes_that_are_no_batch() -> None:
    data = build_batch(RECORDS)
    nodes, (wrong,) = read(data + bytes(16) + b"\x07")
    assert len(nodes) == 1
    assert wrong.offset == 100 + len(data)
    assert "magic 7" in wrong.found


@given(st.binary(max_size=200), st.booleans())
def test_any_bytes_are_batches_or_marked(data: bytes, may_be_cut: bool) -> None:
    nodes, wrongs = read(data, may_be_cut=may_be_cut)
    assert bool(nodes or wrongs) == bool(data)
    assert all(100 <= wrong.offset <= 100 + len(data) for wrong in wrongs)
