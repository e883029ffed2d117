"""Frames as text and as JSON."""

from __future__ import annotations

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.cli.wire.frames import Frame
from barnabas.cli.wire.printing import as_json, bytes_text, head_line, hex_around, tree_lines
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.codec import encode
from barnabas.protocol.messages.groups import HeartbeatRequest, HeartbeatResponse
from barnabas.protocol.messages.metadata import MetadataResponse
from barnabas.protocol.messages.produce import ProduceRequest
from barnabas.protocol.messages.quotas import AlterClientQuotasRequest
from barnabas.protocol.records.batch import build_batch
from barnabas.protocol.schema import Message
from tests.cli.wire.frames_made import decode_request, decode_response, request, response
from tests.protocol.strategies import messages


def test_a_tree() -> None:
    frame = decode_request(request(HeartbeatRequest(group_id="g", member_id="m"), 4), 4)
    assert list(tree_lines(frame)) == [
        "request Heartbeat v4, correlation id 7, 27 bytes at 4",
        "000004    header: RequestHeader",
        "000004      request_api_key: 12",
        "000006      request_api_version: 4",
        "000008      correlation_id: 7",
        '000012      client_id: "client"',
        "000021    body: HeartbeatRequest",
        '000021      group_id: "g"',
        "000023      generation_id: 0",
        '000027      member_id: "m"',
        "000029      group_instance_id: null",
    ]


def test_errors_are_printed_below_with_their_bytes() -> None:
    frame = decode_request(request(HeartbeatRequest(group_id="g", member_id="m"), 4)[:-3], 4)
    assert list(tree_lines(frame))[-3:] == [
        "000027      member_id: ?",
        "000027  WRONG member_id: expected compact string; found a length of 1, and 0 bytes are left",
        "          ... 07 00 06 63 6c 69 65 6e 74 00 02 67 00 00 00 00 [02]",
    ]
    (wrong,) = as_json(frame)["wrong"]
    assert (wrong["offset"], wrong["path"]) == (27, "member_id")
    assert bytes.fromhex(wrong["hex"])[wrong["offset"] - wrong["hex_offset"]] == 2
    assert "member_id" not in as_json(frame)["body"]


def test_errors_have_names_and_arrays_of_numbers_one_line() -> None:
    partition = MetadataResponse.MetadataResponsePartition(error_code=5, replica_nodes=[1, 2, 3])
    topic = MetadataResponse.MetadataResponseTopic(
        name="t", topic_id=bytes(range(16)), partitions=[partition]
    )
    data = response(MetadataResponse(topics=[topic]), 12)
    text = "\n".join(tree_lines(decode_response(data, ApiKey.METADATA, 12)))
    assert "error_code: 5 (LEADER_NOT_AVAILABLE)" in text
    assert "replica_nodes: [1, 2, 3]" in text
    assert "topic_id: AAECAwQFBgcICQoLDA0ODw" in text
    assert "isr_nodes: compact array of int32, empty" in text


def test_an_error_that_kafka_does_not_have() -> None:
    data = response(HeartbeatResponse(error_code=9999), 4)
    assert "9999 (no error of Kafka 4.3)" in "\n".join(tree_lines(decode_response(data, ApiKey.HEARTBEAT, 4)))


def test_records_as_text_and_json() -> None:
    batch = build_batch([(b"k", b"\x00\x01", 1000, [("h", None)])])
    partition = ProduceRequest.PartitionProduceData(records=batch)
    topic = ProduceRequest.TopicProduceData(name="t", partition_data=[partition])
    frame = decode_request(request(ProduceRequest(topic_data=[topic]), 9), with_records=True)
    text = "\n".join(tree_lines(frame))
    assert 'record: offset=0, timestamp=1000, key="k", value=0x0001, headers=[["h", null]]' in text
    (shown,) = as_json(frame)["body"]["topic_data"][0]["partition_data"][0]["records"]
    assert shown["codec"] == "none"
    assert shown["records"] == [
        {"offset": 0, "timestamp": 1000, "key": "6b", "value": "0001", "headers": [["h", None]]}
    ]


@settings(max_examples=100)
@given(messages())
def test_every_message_can_be_printed(case: tuple[Message, int]) -> None:
    message, version = case
    from barnabas.cli.wire.walking import walk
    from barnabas.protocol.reference import layout

    data = encode(message, version)
    frame = Frame("request", data, body=walk(layout(type(message), version), data, 0, "body").root)
    assert "\n".join(tree_lines(frame))
    assert json.loads(json.dumps(as_json(frame), allow_nan=False))


@given(st.binary(max_size=120))
def test_any_bytes_can_be_printed(data: bytes) -> None:
    for frame in (decode_request(data), decode_response(data, ApiKey.METADATA, 12)):
        assert "\n".join(tree_lines(frame))
        assert json.dumps(as_json(frame), allow_nan=False)


def test_numbers_that_json_does_not_have() -> None:
    operation = AlterClientQuotasRequest.OpData(key="k", value=float("nan"))
    entry = AlterClientQuotasRequest.EntryData(ops=[operation])
    frame = decode_request(request(AlterClientQuotasRequest(entries=[entry]), 1))
    assert as_json(frame)["body"]["entries"][0]["ops"][0]["value"] == "nan"


def test_hex_around() -> None:
    data = bytes(range(64))
    assert hex_around(data, 0) == "[00] " + bytes(range(1, 17)).hex(" ") + " ..."
    assert hex_around(data, 63) == "... " + bytes(range(47, 63)).hex(" ") + " [3f]"
    assert hex_around(b"", 0) == "[end]"
    assert hex_around(b"ab", 2) == "61 62 [end]"


def test_bytes_as_text() -> None:
    assert bytes_text(b"plain") == '"plain"'
    assert bytes_text(b"\x00\xff") == "0x00ff"
    assert bytes_text(b"") == '""'
    assert bytes_text(b"x" * 100) == f'"{"x" * 48}"... (100 bytes)'


def test_the_head_of_a_captured_frame() -> None:
    frame = Frame("request", b"", connection="a:1 > b:2", time=0.5)
    assert head_line(frame) == "1970-01-01T00:00:00.500000Z a:1 > b:2 request unknown API, 0 bytes at 0"
    frame.time = 1e300
    assert head_line(frame).startswith("1000000")
