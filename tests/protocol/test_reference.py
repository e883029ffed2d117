"""The construct layouts: their form, and the bytes they reject. Parity with the compiled code: test_codec.py."""

from __future__ import annotations

import pytest
from construct.core import Bytes, FormatField

from barnabas.protocol.errors import ProtocolError
from barnabas.protocol.messages.api_versions import ApiVersionsResponse
from barnabas.protocol.messages.consumer_groups import ConsumerGroupHeartbeatResponse
from barnabas.protocol.messages.fetch import FetchRequest
from barnabas.protocol.messages.groups import HeartbeatRequest
from barnabas.protocol.messages.headers import RequestHeader
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataResponse
from barnabas.protocol.messages.produce import ProduceRequest
from barnabas.protocol.reference import (
    BOOLEAN,
    COMPACT_LENGTH,
    INT16,
    INT32,
    KafkaArray,
    KafkaString,
    NullableStruct,
    Records,
    StructOf,
    build,
    layout,
    parse,
)


def members(struct: StructOf) -> list[str]:
    return [field.name for field, _ in struct.members]


def test_a_layout_has_the_fields_of_its_version_in_order() -> None:
    assert members(layout(HeartbeatRequest, 0)) == ["group_id", "generation_id", "member_id"]
    assert members(layout(HeartbeatRequest, 3)) == [
        "group_id",
        "generation_id",
        "member_id",
        "group_instance_id",
    ]
    assert [field.name for field in layout(HeartbeatRequest, 0).absent] == ["group_instance_id"]


def test_a_layout_is_a_construct_struct_that_names_its_members() -> None:
    struct = layout(HeartbeatRequest, 4).subcon
    assert [member.name for member in struct.subcons] == [
        "group_id",
        "generation_id",
        "member_id",
        "group_instance_id",
        "tagged_fields",
    ]


def test_lengths_become_compact_with_the_first_flexible_version() -> None:
    for version, length in ((3, INT16), (4, COMPACT_LENGTH)):
        group_id = dict(layout(HeartbeatRequest, version).members)[HeartbeatRequest.fields[0]]
        assert isinstance(group_id, KafkaString)
        assert group_id.length is length
        assert not group_id.nullable


def test_the_client_id_never_becomes_compact() -> None:
    client_id = layout(RequestHeader, 2).members[-1][1]
    assert (client_id.length, client_id.nullable) == (INT16, True)


def test_wrappers_have_the_offsets_of_their_entries() -> None:
    topics = layout(ProduceRequest, 13).members[-1][1]
    assert isinstance(topics, KafkaArray)
    assert isinstance(topics.element, StructOf)
    (topic_id, partitions) = (value for _, value in topics.element.members)
    assert isinstance(topic_id, Bytes)
    (index, records) = (value for _, value in partitions.element.members)
    assert isinstance(index, FormatField)
    assert isinstance(records, Records)
    assert records.nullable
    assert layout(MetadataRequest, 0).members[0][1].length is INT32
    assert layout(MetadataRequest, 4).members[1][1] is BOOLEAN
    assert isinstance(layout(ConsumerGroupHeartbeatResponse, 0).members[-1][1], NullableStruct)


def test_tagged_fields_are_separate_from_the_members() -> None:
    tagged = layout(ApiVersionsResponse, 3).tagged
    assert tagged is not None
    assert [entry.field.name for entry in tagged.known.values()] == [
        "supported_features",
        "finalized_features_epoch",
        "finalized_features",
        "zk_migration_ready",
    ]
    assert layout(ApiVersionsResponse, 2).tagged is None


def test_tags_of_other_versions_are_misplaced() -> None:
    twelve, eighteen = layout(FetchRequest, 12).tagged, layout(FetchRequest, 18).tagged
    assert twelve is not None
    assert eighteen is not None
    assert (set(twelve.known), set(twelve.misplaced)) == ({0}, {1})
    assert (list(eighteen.known), list(eighteen.misplaced)) == ([0, 1], [])


def test_layouts_are_created_once() -> None:
    assert layout(MetadataResponse, 12) is layout(MetadataResponse, 12)


def test_an_unsupported_version_has_no_layout() -> None:
    with pytest.raises(ValueError, match="ProduceRequest has versions 3-13, not 2"):
        layout(ProduceRequest, 2)


def test_a_message_by_hand() -> None:
    data = b"\x02g\x00\x00\x00\x05\x02m\x00\x01\x09\x01!"
    request = HeartbeatRequest(group_id="g", generation_id=5, member_id="m", unknown_tagged_fields={9: b"!"})
    assert parse(HeartbeatRequest, 4, data) == request
    assert build(request, 4) == data


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "expected 1, found 0"),
        (b"\x05g", "expected 4, found 1"),
        (b"\x00", "null where no null can be"),
        (b"\xff\xff\xff\xff\xff\x01", "more than 32 bits"),
        (b"\xff\xff\xff\xff\x1f", "more than 32 bits"),
        (b"\xff\xff\xff\xff\x0f", "a length of 4294967294"),
        (b"\xff\xff\x03" + b"x" * 65534, "a string of 65534 bytes"),
        (b"\x01" + bytes(4) + b"\x01\x00\x00\x00", "1 bytes too many"),
        (b"\x01" + bytes(4) + b"\x01\x00\x01\x00\x05", "expected 5, found 0"),
    ],
)
def test_bytes_that_are_not_a_heartbeat_are_a_protocol_error(data: bytes, reason: str) -> None:
    with pytest.raises(ProtocolError, match=reason):
        parse(HeartbeatRequest, 4, data)


def test_an_array_that_cannot_fit_is_rejected_before_its_first_element() -> None:
    with pytest.raises(ProtocolError, match="2147483647 elements in fewer bytes"):
        parse(MetadataRequest, 0, b"\x7f\xff\xff\xff" + bytes(100))


def test_errors_name_the_place_in_the_message() -> None:
    partition = FetchRequest.FetchPartition(partition=2**31)
    request = FetchRequest(topics=[FetchRequest.FetchTopic(partitions=[partition])])
    with pytest.raises(ValueError, match=r"FetchRequest v12: .*topics -> partitions -> partition"):
        build(request, 12)
    with pytest.raises(ValueError, match=r"group_id(.|\n)*null where no null can be"):
        build(HeartbeatRequest(group_id=None), 4)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="32768 bytes"):
        build(HeartbeatRequest(group_id="x" * 32768), 4)


def test_a_tag_must_have_the_size_that_it_claims() -> None:
    data = build(ApiVersionsResponse(finalized_features_epoch=1), 3)
    with pytest.raises(ProtocolError, match="finalized_features_epoch"):
        parse(ApiVersionsResponse, 3, data.replace(b"\x01\x08", b"\x01\x09") + b"\x00")


def test_a_known_tag_among_the_unknown_ones_is_rejected() -> None:
    with pytest.raises(ValueError, match="tag 1 is finalized_features_epoch"):
        build(ApiVersionsResponse(unknown_tagged_fields={1: b""}), 3)
    with pytest.raises(ProtocolError, match="tag 1 does not belong to this version"):
        parse(FetchRequest, 12, build(FetchRequest(), 12)[:-1] + b"\x01\x01\x00")


def test_fields_that_a_version_cannot_carry_are_rejected() -> None:
    with pytest.raises(ValueError, match="replica_id cannot be sent in version 15"):
        build(FetchRequest(replica_id=3), 15)
    with pytest.raises(ValueError, match="unknown_tagged_fields cannot be sent in version 3"):
        build(HeartbeatRequest(unknown_tagged_fields={1: b""}), 3)
