"""Fields with their places, and errors at their places."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.cli.wire.walking import Node, Walk, Wrong, read_batches, walk
from barnabas.protocol import reference
from barnabas.protocol.codec import encode
from barnabas.protocol.errors import ProtocolError
from barnabas.protocol.messages.consumer_groups import ConsumerGroupHeartbeatResponse
from barnabas.protocol.messages.fetch import FetchRequest
from barnabas.protocol.messages.groups import HeartbeatRequest
from barnabas.protocol.messages.metadata import MetadataRequest
from barnabas.protocol.records.batch import CompressionType, build_batch
from barnabas.protocol.reference import layout
from barnabas.protocol.schema import Message, Struct
from tests.protocol.records.message_sets import message, message_set
from tests.protocol.samples import every_version
from tests.protocol.strategies import messages


def walked(message_type: type[Message], version: int, data: bytes, start: int = 0) -> Walk:
    return walk(layout(message_type, version), data, start, "body")


def node_at(walk: Walk, *names: str) -> Node:
    node = walk.root
    for name in names:
        (node,) = [child for child in node.children or () if child.name == name]
    return node


def leaves(node: Node) -> list[Node]:
    return [node] if node.children is None else [leaf for child in node.children for leaf in leaves(child)]


def assert_shows(node: Node, value: Any) -> None:
    """The node has the value that the codec reads; an absent tagged field has no node."""
    if isinstance(value, Struct):
        children = {child.name: child for child in node.children or ()}
        for field in value.fields:
            if field.name in children and field.type != "records":
                assert_shows(children[field.name], getattr(value, field.name))
    elif isinstance(value, list):
        assert node.children is not None
        assert len(node.children) == len(value)
        for child, element in zip(node.children, value, strict=True):
            assert_shows(child, element)
    else:
        assert node.value == value


@settings(max_examples=200)
@given(messages())
def test_a_message_is_read_as_the_codec_reads_it(case: tuple[Message, int]) -> None:
    message, version = case
    data = encode(message, version)
    found = walked(type(message), version, b"head" + data, 4)
    assert found.is_whole
    assert found.end == 4 + len(data)
    assert [wrong for wrong in found.wrongs if "batch[" not in wrong.path] == []
    assert_shows(found.root, message)


@settings(max_examples=300)
@given(st.sampled_from(every_version()), st.binary(max_size=200))
def test_any_bytes_are_read_or_something_is_marked(pair: tuple[type[Message], int], data: bytes) -> None:
    """As in the construct: valid, or wrong at a place in the bytes."""
    found = walked(*pair, data)
    structural = [wrong for wrong in found.wrongs if "batch[" not in wrong.path]
    try:
        reference.parse(*pair, data)
    except ProtocolError:
        assert structural or found.end < len(data)
    else:
        assert not structural
        assert found.end == len(data)
    assert found.is_whole == (not structural)
    assert all(0 <= wrong.offset <= len(data) for wrong in found.wrongs)


@given(messages(), st.data())
def test_a_message_that_is_cut_is_marked_at_the_cut_value(
    case: tuple[Message, int], data: st.DataObject
) -> None:
    message, version = case
    whole = encode(message, version)
    cut = data.draw(st.integers(0, max(len(whole) - 1, 0)))
    found = walked(type(message), version, whole[:cut])
    assert found.is_whole == (cut == len(whole))
    assert all(wrong.offset <= cut for wrong in found.wrongs)


def test_places_are_those_of_the_bytes() -> None:
    data = encode(
        HeartbeatRequest(group_id="shop", generation_id=3, member_id="m", group_instance_id=None), 4
    )
    found = walked(HeartbeatRequest, 4, data)
    assert [(leaf.name, leaf.start, leaf.end) for leaf in leaves(found.root)] == [
        ("group_id", 0, 5),
        ("generation_id", 5, 9),
        ("member_id", 9, 11),
        ("group_instance_id", 11, 12),
    ]
    assert found.end == 13


@pytest.mark.parametrize(
    ("data", "offset", "path", "expected", "found"),
    [
        (b"\x09sh", 0, "group_id", "compact string", "a length of 8, and 2 bytes are left"),
        (b"\x00", 0, "group_id", "the length of compact string", "null where no null can be"),
        (b"\x02g\x00\x00", 2, "generation_id", "int32 of 4 bytes", "2 bytes and then the end"),
        (b"\x02g\x00\x00\x00\x03", 6, "member_id", "the length of compact string", "the end of the bytes"),
        (b"\xff\xff\xff\xff\xff\xff", 0, "group_id", "the length of compact string", "a varint of more than 32 bits"),
        (b"\x02g\x00\x00\x00\x03\x02m\x00\x01\x05\x09x", 10, "tagged_fields", "the value of tag 5",
         "a size of 9, and 1 bytes are left"),
    ],
)  # fmt: skip
def test_errors_are_marked_at_their_place(
    data: bytes, offset: int, path: str, expected: str, found: str
) -> None:
    read = walked(HeartbeatRequest, 4, data)
    (wrong,) = read.wrongs
    assert (wrong.offset, wrong.path, wrong.expected, wrong.found) == (offset, path, expected, found)
    assert not read.is_whole


def test_fields_before_an_error_stay_in_the_tree() -> None:
    request = MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name=name) for name in ("a", "b")])
    data = encode(request, 12)
    found = walked(MetadataRequest, 12, data[:-6])
    (wrong,) = found.wrongs
    assert wrong.path == "topics[1].name"
    assert node_at(found, "topics", "[0]", "name").value == "a"
    assert not node_at(found, "topics", "[1]", "name").is_read


def test_impossible_counts_of_elements() -> None:
    found = walked(MetadataRequest, 0, b"\x7f\xff\xff\xff\x00")
    (wrong,) = found.wrongs
    assert (wrong.offset, wrong.path) == (0, "topics")
    assert wrong.found == "2147483647 elements, and 1 bytes are left"


def test_tagged_fields() -> None:
    request = FetchRequest(cluster_id="c", topics=[], unknown_tagged_fields={9: b"new"})
    found = walked(FetchRequest, 12, encode(request, 12))
    assert node_at(found, "cluster_id").tag == 0
    assert node_at(found, "tag 9").value == b"new"
    assert found.wrongs == []


@pytest.mark.parametrize(
    ("tags", "path", "expected"),
    [
        (b"\x01\x00\x03\x02cx", "cluster_id", "a value of 3 bytes, which is the size of tag 0"),
        (b"\x01\x01\x00", "tagged_fields", "a tag that this version has"),
        (b"\x01\x00\x01\x09", "cluster_id", "compact nullable string"),
        (b"\x02\x00", "tagged_fields", "the size of tag 0"),
    ],
)
def test_wrong_tagged_fields(tags: bytes, path: str, expected: str) -> None:
    data = encode(FetchRequest(topics=[]), 12)
    assert data.endswith(b"\x00")
    found = walked(FetchRequest, 12, data[:-1] + tags)
    (wrong,) = found.wrongs
    assert (wrong.path, wrong.expected) == (path, expected)


def test_a_nullable_struct() -> None:
    response = ConsumerGroupHeartbeatResponse(member_id="m")
    found = walked(ConsumerGroupHeartbeatResponse, 0, encode(response, 0))
    assert node_at(found, "assignment").children is None
    assert node_at(found, "assignment").value is None
    response.assignment = ConsumerGroupHeartbeatResponse.Assignment(topic_partitions=[])
    found = walked(ConsumerGroupHeartbeatResponse, 0, encode(response, 0))
    assert node_at(found, "assignment", "topic_partitions").children == []


# -- record batches --

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


def test_an_incomplete_batch() -> None:
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


def test_bytes_that_are_not_a_batch() -> None:
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
