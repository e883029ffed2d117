"""The compiled codec: equal to the construct codec, and safe with any bytes."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from barnabas.protocol import codec_engine, codec_program, reference
from barnabas.protocol.codec import decode, decoder, element_encoder, encode, encoder, join_chunks
from barnabas.protocol.errors import ProtocolError
from barnabas.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from barnabas.protocol.messages.consumer_groups import ConsumerGroupHeartbeatResponse
from barnabas.protocol.messages.fetch import FetchRequest, FetchResponse
from barnabas.protocol.messages.group_state import ConsumerGroupMemberMetadataValue
from barnabas.protocol.messages.groups import HeartbeatRequest, JoinGroupRequest
from barnabas.protocol.messages.headers import RequestHeader
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataResponse
from barnabas.protocol.messages.offsets import ListOffsetsResponse
from barnabas.protocol.messages.produce import ProduceRequest, ProduceResponse
from barnabas.protocol.messages.quotas import AlterClientQuotasRequest
from barnabas.protocol.messages.transaction_state import TransactionLogValue
from barnabas.protocol.schema import Message, Struct, default_struct
from barnabas.protocol.wire import Chunk, Encoded, EncodedArray
from tests.protocol.samples import every_version, random_message, version_id
from tests.protocol.strategies import messages, messages_of
from tests.support.chance import explores, seed_or
from tests.support.loops import codec_in_form, in_form

SAMPLES_PER_VERSION = 3
MUTATIONS_PER_VERSION = 30

for_every_version = pytest.mark.parametrize(("message_type", "version"), every_version(), ids=version_id)

pytestmark = pytest.mark.usefixtures("engine")


def assert_parity(message: Message, version: int) -> None:
    """Both codecs write the same bytes, and read the same message from them."""
    data = encode(message, version)
    assert data == reference.build(message, version)
    assert decode(type(message), version, data) == message
    viewed = decode(type(message), version, memoryview(data))
    assert viewed == message
    assert_no_view_of_the_frame(viewed)
    assert reference.parse(type(message), version, data) == message


def assert_no_view_of_the_frame(struct: Struct) -> None:
    """Only records are a slice of the frame, because UUIDs are keys and messages outlive their frames."""
    assert all(type(value) is bytes for value in (struct.unknown_tagged_fields or {}).values())
    for field in struct.fields:
        value = getattr(struct, field.name)
        for element in value if isinstance(value, list) else [value]:
            assert isinstance(element, memoryview) == (field.type == "records" and element is not None)
            if isinstance(element, Struct):
                assert_no_view_of_the_frame(element)


def outcome(read: Any, message_type: type[Message], version: int, data: bytes | memoryview) -> Message | None:
    """The message that a codec reads from bytes, or None for a ProtocolError."""
    try:
        message: Message = read(message_type, version, data)
    except ProtocolError:
        return None
    return message


def assert_same_outcome(message_type: type[Message], version: int, data: bytes) -> None:
    """Both codecs read the same message or reject the bytes. A NaN does not equal itself, but its text does."""
    compiled = outcome(decode, message_type, version, data)
    interpreted = outcome(reference.parse, message_type, version, data)
    assert compiled == interpreted or repr(compiled) == repr(interpreted), data
    viewed = outcome(decode, message_type, version, memoryview(data))
    assert viewed == interpreted or repr(viewed) == repr(interpreted), data


# The construct is the oracle.


def dice(what_for: str, message_type: type[Message], version: int) -> Random:
    """A random generator for each test and version."""
    return Random(f"{what_for} {message_type.__name__} {version} {seed_or(0)}")


@explores
@for_every_version
def test_equals_the_construct_codec(message_type: type[Message], version: int) -> None:
    rng = dice("whole", message_type, version)
    assert_parity(message_type(), version)
    for _ in range(SAMPLES_PER_VERSION):
        assert_parity(random_message(rng, message_type, version), version)


@settings(max_examples=200)
@given(messages())
def test_equals_the_construct_codec_for_generated_messages(case: tuple[Message, int]) -> None:
    assert_parity(*case)


@pytest.mark.slow
@for_every_version
def test_equals_the_construct_codec_in_depth(message_type: type[Message], version: int) -> None:
    @settings(max_examples=25, suppress_health_check=list(HealthCheck))
    @given(messages_of(message_type, version))
    def check(message: Message) -> None:
        assert_parity(message, version)

    check()


# Invariant: any bytes are either a message or a ProtocolError, and the construct codec agrees.


@explores
@for_every_version
def test_a_message_cut_at_every_byte(message_type: type[Message], version: int) -> None:
    data = encode(random_message(dice("cut", message_type, version), message_type, version), version)
    for length in range(len(data)):
        with pytest.raises(ProtocolError):
            decode(message_type, version, data[:length])


@explores
@for_every_version
def test_mutated_and_random_bytes(message_type: type[Message], version: int) -> None:
    rng = dice("mutate", message_type, version)
    data = encode(random_message(rng, message_type, version), version)
    for _ in range(MUTATIONS_PER_VERSION):
        for hostile in (mutated(rng, data), rng.randbytes(rng.randrange(60))):
            assert_same_outcome(message_type, version, hostile)


@explores
def test_errors_have_the_same_text_in_both_forms() -> None:
    rng = Random(f"words {seed_or(0)}")
    for message_type, version in every_version()[::5]:
        data = encode(random_message(rng, message_type, version), version)
        read = codec_in_form("plain").make_decoder(message_type, version)
        for _ in range(20):
            hostile = mutated(rng, data)
            assert words(decoder(message_type, version), hostile) == words(read, hostile)


def words(read: Any, data: bytes) -> str | None:
    """The decoder's error text for invalid bytes, None for a message."""
    try:
        read(data, 0, len(data))
    except ProtocolError as error:
        return str(error)
    return None


def mutated(rng: Random, data: bytes) -> bytes:
    """Changes some bytes, mostly to edge cases of lengths; sometimes removes or inserts some."""
    changed = bytearray(data)
    for _ in range(rng.randrange(1, 4)):
        place = rng.randrange(len(changed) + 1)
        action = rng.randrange(4)
        if action == 0:
            del changed[place : place + rng.randrange(1, 5)]
        elif action == 1:
            changed[place:place] = rng.randbytes(rng.randrange(1, 5))
        else:
            changed[place : place + 1] = bytes([rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))])
    return bytes(changed)


@settings(max_examples=300)
@given(st.sampled_from(every_version()), st.binary(max_size=200))
def test_random_bytes(pair: tuple[type[Message], int], data: bytes) -> None:
    assert_same_outcome(*pair, data)


@pytest.mark.parametrize(
    ("message_type", "version", "data"),
    [
        (MetadataRequest, 1, b"\x7f\xff\xff\xff"),
        (MetadataRequest, 9, b"\xff\xff\xff\xff\x07"),
        (MetadataRequest, 9, b"\xff\xff\xff\xff\x0f"),
        (MetadataRequest, 9, b"\xff\xff\xff\xff\xff"),
        (FetchRequest, 12, bytes(25) + b"\xff\xff\xff\xff\x07"),
        (HeartbeatRequest, 0, b"\x7f\xff"),
        (HeartbeatRequest, 4, b"\xff\xff\x03"),
        (RequestHeader, 2, bytes(8) + b"\xff\xff\xff\xff\xff\x07"),
        (JoinGroupRequest, 0, b"\x00\x00" + bytes(4) + b"\x00\x00\x00\x00" + b"\x7f\xff\xff\xff"),
    ],
)
def test_a_huge_claimed_length_is_rejected_before_any_allocation(
    message_type: type[Message], version: int, data: bytes
) -> None:
    with pytest.raises(ProtocolError):
        decode(message_type, version, data + bytes(10))


@pytest.mark.parametrize("version", [11, 12])
def test_elements_of_all_arrays_are_counted_if_a_limit_is_given(version: int) -> None:
    partitions = [FetchRequest.FetchPartition(partition=number) for number in range(3)]
    topics = [FetchRequest.FetchTopic(topic=name, partitions=partitions) for name in ("one", "two")]
    forgotten = [FetchRequest.ForgottenTopic(topic="three", partitions=[0, 1, 2, 3])]
    message = FetchRequest(topics=topics, forgotten_topics_data=forgotten)
    data = encode(message, version)
    for frame in (data, memoryview(data)):
        assert decoder(FetchRequest, version, 13)(frame, 0, len(data)) == (message, len(data))
        with pytest.raises(
            ProtocolError, match=r"with forgotten_topics_data\.partitions there are more elements"
        ):
            decoder(FetchRequest, version, 12)(frame, 0, len(data))
        with pytest.raises(ProtocolError, match=r"with topics\.partitions there are more elements"):
            decoder(FetchRequest, version, 7)(frame, 0, len(data))


def test_tagged_fields_are_counted_too() -> None:
    quorum = ProduceResponse.LeaderIdAndEpoch(leader_id=1)  # a known tag, with tags of its own
    quorum.unknown_tagged_fields = {4: b"", 5: b""}
    partition = ProduceResponse.PartitionProduceResponse(current_leader=quorum)
    responses = [ProduceResponse.TopicProduceResponse(partition_responses=[partition])]
    message = ProduceResponse(responses=responses)
    message.unknown_tagged_fields = {9: b"nine", 10: b"ten"}
    data = encode(message, 10)
    assert decoder(ProduceResponse, 10, 7)(data, 0, len(data)) == (message, len(data))
    for most in range(7):
        with pytest.raises(ProtocolError, match="there are more elements than a message may have"):
            decoder(ProduceResponse, 10, most)(data, 0, len(data))


# Invalid bytes.


def test_bytes_after_a_message_are_rejected() -> None:
    with pytest.raises(ProtocolError, match="1 bytes too many"):
        decode(HeartbeatRequest, 0, encode(HeartbeatRequest(), 0) + b"\x00")


def test_a_decoder_reads_from_a_position_to_an_end_and_returns_its_position() -> None:
    data = encode(HeartbeatRequest(group_id="g", member_id="m", generation_id=5), 0)
    read = decoder(HeartbeatRequest, 0)
    message, position = read(b"???" + data + b"!!", 3, 3 + len(data) + 2)
    assert (message.group_id, position) == ("g", 3 + len(data))
    assert read(b"???" + data + b"!!", 3, 3 + len(data)) == (message, 3 + len(data))
    with pytest.raises(ProtocolError, match=r"cut off|claims"):
        read(b"???" + data + b"!!", 3, 3 + len(data) - 1)
    assert read(data, 0, len(data) + 5) == (message, len(data))
    with pytest.raises(ProtocolError, match="cut off"):
        read(data, len(data) + 1, len(data))


def test_null_in_a_field_that_is_not_nullable_is_rejected() -> None:
    with pytest.raises(ProtocolError, match="group_id is null"):
        decode(HeartbeatRequest, 0, b"\xff\xff" + bytes(6))
    with pytest.raises(ProtocolError, match="group_id is null"):
        decode(HeartbeatRequest, 4, bytes(9))
    with pytest.raises(ProtocolError, match="brokers is null"):
        decode(MetadataResponse, 9, bytes(20))


def test_text_that_is_not_utf_8_is_read_as_replacement_characters() -> None:
    assert decode(HeartbeatRequest, 0, b"\x00\x02g\xff" + bytes(6)).group_id == "g\ufffd"
    with pytest.raises(ProtocolError, match="cut off"):
        decode(HeartbeatRequest, 0, b"\x00\x01\xff" + bytes(3))


def test_a_string_has_at_most_32767_bytes_in_the_compact_form_too() -> None:
    longest = HeartbeatRequest(group_id="x" * 32767)
    assert decode(HeartbeatRequest, 4, encode(longest, 4)) == longest
    with pytest.raises(ProtocolError, match="more than a string can have"):
        decode(HeartbeatRequest, 4, b"\x81\x80\x02" + b"x" * 32768 + bytes(10))
    for version in (0, 4):
        with pytest.raises(ValueError, match="group_id has 32768 bytes"):
            encode(HeartbeatRequest(group_id="x" * 32768), version)


def test_any_byte_but_zero_is_true() -> None:
    data = bytearray(encode(MetadataRequest(allow_auto_topic_creation=False), 4))
    data[-1] = 2
    assert decode(MetadataRequest, 4, data).allow_auto_topic_creation is True


# Tagged fields.


def api_versions_request(tags: bytes) -> bytes:
    """An ApiVersionsRequest v3 that ends in `tags`."""
    return b"\x02a\x02b" + tags


def test_unknown_tags_are_kept_and_written_back_in_order() -> None:
    data = api_versions_request(b"\x02\x05\x01x\x80\x01\x02yz")
    request = decode(ApiVersionsRequest, 3, data)
    assert request.unknown_tagged_fields == {5: b"x", 128: b"yz"}
    assert encode(request, 3) == data
    request.unknown_tagged_fields = {128: b"yz", 5: b"x"}
    assert encode(request, 3) == data


def test_tags_in_any_order_and_twice_are_read_as_kafka_reads_them() -> None:
    request = decode(ApiVersionsRequest, 3, api_versions_request(b"\x03\x07\x01x\x05\x01y\x07\x01z"))
    assert request.unknown_tagged_fields == {7: b"z", 5: b"y"}
    assert encode(request, 3) == api_versions_request(b"\x02\x05\x01y\x07\x01z")


def test_incomplete_tags_and_too_large_claims_are_rejected() -> None:
    for tags in (
        b"",
        b"\x01",
        b"\x01\x05",
        b"\x01\x05\x02x",
        b"\x7f\x05\x01x",
        b"\xff\xff\xff\xff\x0f",
        b"\x80",
    ):
        with pytest.raises(ProtocolError):
            decode(ApiVersionsRequest, 3, api_versions_request(tags))


def test_known_tags_with_their_defaults_are_omitted() -> None:
    response = ApiVersionsResponse(finalized_features_epoch=-1)
    assert encode(response, 3).endswith(b"\x00")
    response.finalized_features_epoch = 0
    response.unknown_tagged_fields = {9: b"!"}
    assert encode(response, 3).endswith(b"\x02" + b"\x01\x08" + bytes(8) + b"\x09\x01!")
    assert decode(ApiVersionsResponse, 3, encode(response, 3)) == response


def test_a_known_tag_must_have_the_size_that_it_claims() -> None:
    response = encode(ApiVersionsResponse(finalized_features_epoch=1), 3)
    longer = response.replace(b"\x01\x08", b"\x01\x09") + b"\x00"
    shorter = response.replace(b"\x01\x08", b"\x01\x07")
    for data in (longer, shorter):
        with pytest.raises(ProtocolError, match="finalized_features_epoch"):
            decode(ApiVersionsResponse, 3, data)


def test_a_tag_of_another_version_is_rejected_as_by_kafka() -> None:
    request = FetchRequest(replica_state=FetchRequest.ReplicaState(replica_id=1, replica_epoch=2))
    data = encode(request, 15)
    tags = data[data.index(b"\x01\x01\x0d") :]
    older = encode(FetchRequest(replica_id=-1), 14)
    with pytest.raises(ProtocolError, match="tag 1 does not belong to this version"):
        decode(FetchRequest, 14, older[:-1] + tags)


def test_a_known_tag_among_the_unknown_ones_is_rejected() -> None:
    with pytest.raises(ValueError, match="finalized_features_epoch"):
        encode(ApiVersionsResponse(unknown_tagged_fields={1: bytes(8)}), 3)


# Invalid messages.


def test_a_field_that_a_version_cannot_carry_must_have_its_default() -> None:
    partition = FetchRequest.FetchPartition(last_fetched_epoch=3)
    request = FetchRequest(topics=[FetchRequest.FetchTopic(partitions=[partition])])
    with pytest.raises(
        ValueError, match=r"FetchRequest v11: topics\.partitions\.last_fetched_epoch cannot be sent"
    ):
        encode(request, 11)
    partition.last_fetched_epoch = -1
    assert encode(request, 11)


def test_an_ignorable_field_is_omitted() -> None:
    request = FetchRequest(rack_id="r1", session_id=7)
    assert decode(FetchRequest, 4, encode(request, 4)).rack_id == ""


def test_unknown_tags_need_a_flexible_version() -> None:
    with pytest.raises(ValueError, match="unknown_tagged_fields cannot be sent in version 2"):
        encode(ApiVersionsRequest(unknown_tagged_fields={5: b""}), 2)


@pytest.mark.parametrize(
    ("message", "version", "where"),
    [
        (HeartbeatRequest(group_id=None), 0, "group_id"),  # type: ignore[arg-type]
        (HeartbeatRequest(group_id=None), 4, "group_id"),  # type: ignore[arg-type]
        (HeartbeatRequest(generation_id=None), 0, "generation_id"),  # type: ignore[arg-type]
        (HeartbeatRequest(generation_id=2**31), 0, "generation_id"),
        (HeartbeatRequest(generation_id=-(2**31) - 1), 0, "generation_id"),
        (HeartbeatRequest(generation_id=2**64), 0, "generation_id"),
        (HeartbeatRequest(generation_id=1.5), 0, "generation_id"),  # type: ignore[arg-type]
        (HeartbeatRequest(generation_id="1"), 0, "generation_id"),  # type: ignore[arg-type]
        (ListOffsetsResponse(throttle_time_ms=2**63), 2, "throttle_time_ms"),
        (FetchRequest(topics=None), 12, "topics"),  # type: ignore[arg-type]
        (MetadataRequest(topics=[None]), 9, "topics"),  # type: ignore[list-item]
        (MetadataRequest(allow_auto_topic_creation=None), 9, "allow_auto"),  # type: ignore[arg-type]
        (FetchRequest(replica_state=None), 15, "replica_state"),  # type: ignore[arg-type]
        (ProduceRequest(topic_data=[ProduceRequest.TopicProduceData(topic_id=b"short")]), 13, "UUID"),
        (HeartbeatRequest(group_id="\ud800"), 0, "surrogates"),
        (HeartbeatRequest(group_id=5), 0, "HeartbeatRequest v0"),  # type: ignore[arg-type]
    ],
)
def test_a_field_that_cannot_be_encoded_is_named(message: Message, version: int, where: str) -> None:
    with pytest.raises(ValueError, match=where):
        encode(message, version)


def test_a_field_without_a_value_cannot_be_written() -> None:
    message = HeartbeatRequest()
    del message.group_id
    with pytest.raises(ValueError, match="HeartbeatRequest v0"):
        encode(message, 0)


def test_a_subclass_is_written_as_its_base() -> None:
    partition = ProduceResponse.PartitionProduceResponse
    response = ProduceResponse(
        responses=[ProduceResponse.TopicProduceResponse(partition_responses=[default_struct(partition)])]
    )
    plain = ProduceResponse(
        responses=[ProduceResponse.TopicProduceResponse(partition_responses=[partition()])]
    )
    assert encode(response, 9) == encode(plain, 9)


def test_a_long_message_is_encoded() -> None:
    names = [f"topic-{number:06}" * 100 for number in range(500)]
    topics = [MetadataRequest.MetadataRequestTopic(name=name) for name in names]
    for version in (1, 12):
        assert_parity(MetadataRequest(topics=topics), version)


@pytest.mark.parametrize("version", [-1, 14, 32767])
def test_unsupported_versions_are_rejected(version: int) -> None:
    for ask in (decoder, encoder):
        with pytest.raises(ValueError, match=f"MetadataRequest has versions 0-13, not {version}"):
            ask(MetadataRequest, version)


# Records and chunks.


class FileSlice:
    """Records in a file, which are read when they are sent."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.size = len(data)

    def read(self) -> bytes:
        return self.data


def fetch_response(*records: Chunk | None) -> FetchResponse:
    partitions = [FetchResponse.PartitionData(partition_index=0, records=chunk) for chunk in records]
    return FetchResponse(responses=[FetchResponse.FetchableTopicResponse(topic="t", partitions=partitions)])


def test_records_are_read_without_a_copy() -> None:
    partition = ProduceRequest.PartitionProduceData(index=1, records=b"batch")
    request = ProduceRequest(
        topic_data=[ProduceRequest.TopicProduceData(name="t", partition_data=[partition])]
    )
    data = encode(request, 9)
    records = decode(ProduceRequest, 9, data).topic_data[0].partition_data[0].records
    assert isinstance(records, memoryview)
    assert records.obj is data
    assert bytes(records) == b"batch"


def test_records_of_a_frame_that_is_a_view_are_slices_of_it() -> None:
    partition = ProduceRequest.PartitionProduceData(index=1, records=b"batch")
    topic = ProduceRequest.TopicProduceData(name="t", partition_data=[partition])
    frame = bytearray(b"??" + encode(ProduceRequest(topic_data=[topic]), 9) + b"!!")
    view = memoryview(frame)
    request, position = decoder(ProduceRequest, 9)(view, 2, len(frame) - 2)
    assert position == len(frame) - 2
    records = request.topic_data[0].partition_data[0].records
    assert isinstance(records, memoryview)
    assert records.obj is frame
    assert bytes(records) == b"batch"
    assert type(request.topic_data[0].name) is str


@pytest.mark.parametrize("version", [4, 11, 12])
def test_records_in_a_file_are_not_read_by_the_encoder(version: int) -> None:
    first, second = FileSlice(b"1" * 5), FileSlice(b"2" * 3000)
    chunks: list[Chunk] = []
    encoder(FetchResponse, version)(fetch_response(first, None, second), chunks)
    assert [chunk for chunk in chunks if not isinstance(chunk, bytes)] == [first, second]
    in_memory = encode(fetch_response(b"1" * 5, None, b"2" * 3000), version)
    assert join_chunks(chunks) == in_memory
    assert in_memory == reference.build(fetch_response(first, None, second), version)


def test_an_empty_slice_is_no_chunk() -> None:
    chunks: list[Chunk] = []
    encoder(FetchResponse, 12)(fetch_response(FileSlice(b""), b"", memoryview(b"")), chunks)
    assert len(chunks) == 1
    partitions = decode(FetchResponse, 12, join_chunks(chunks)).responses[0].partitions
    assert [partition.records for partition in partitions] == [b"", b"", b""]


def test_long_records_in_memory_are_not_copied() -> None:
    view = memoryview(b"3" * 5000)
    chunks: list[Chunk] = []
    encoder(FetchResponse, 12)(fetch_response(view, b"short"), chunks)
    assert any(chunk is view for chunk in chunks)
    assert len(chunks) == 3


# Examples, written by hand from the protocol guide.


def test_request_header_v2_has_a_client_id_that_is_not_compact() -> None:
    header = RequestHeader(request_api_key=18, request_api_version=3, correlation_id=7, client_id="me")
    assert encode(header, 2) == b"\x00\x12\x00\x03\x00\x00\x00\x07\x00\x02me\x00"
    assert encode(header, 1) == b"\x00\x12\x00\x03\x00\x00\x00\x07\x00\x02me"
    header.client_id = None
    assert encode(header, 2) == b"\x00\x12\x00\x03\x00\x00\x00\x07\xff\xff\x00"


def test_join_group_v0_by_hand() -> None:
    request = JoinGroupRequest(
        group_id="g",
        session_timeout_ms=10_000,
        member_id="",
        protocol_type="consumer",
        protocols=[JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=b"\x01\x02")],
    )
    assert encode(request, 0) == (
        b"\x00\x01g\x00\x00\x27\x10\x00\x00\x00\x08consumer"
        b"\x00\x00\x00\x01\x00\x05range\x00\x00\x00\x02\x01\x02"
    )
    assert decode(JoinGroupRequest, 0, encode(request, 0)).rebalance_timeout_ms == -1


def test_a_nullable_struct_has_a_marker() -> None:
    response = ConsumerGroupHeartbeatResponse(member_id="m")
    assert encode(response, 0).endswith(b"\xff\x00")
    response.assignment = ConsumerGroupHeartbeatResponse.Assignment(topic_partitions=[])
    assert encode(response, 0).endswith(b"\x01\x01\x00\x00")
    for marker, expected in ((b"\xff", None), (b"\x80", None), (b"\x00\x01\x00", []), (b"\x7f\x01\x00", [])):
        data = encode(ConsumerGroupHeartbeatResponse(member_id="m"), 0)[:-2] + marker + b"\x00"
        assignment = decode(ConsumerGroupHeartbeatResponse, 0, data).assignment
        assert (assignment and assignment.topic_partitions) == expected


def test_a_nullable_struct_in_a_tag_has_a_varint_marker() -> None:
    value = ConsumerGroupMemberMetadataValue(classic_member_metadata=None)
    data = encode(value, 0)
    assert data.endswith(b"\x01\x00\x01\x00")
    assert decode(ConsumerGroupMemberMetadataValue, 0, data) == value
    metadata = ConsumerGroupMemberMetadataValue.ClassicMemberMetadata
    for marker, size in ((b"\x01", b"\x07"), (b"\x7f", b"\x07"), (b"\x80\x01", b"\x08")):
        present = data[:-2] + size + marker + b"\x00\x00\x00\x05\x01\x00"
        read = decode(ConsumerGroupMemberMetadataValue, 0, present)
        assert read.classic_member_metadata == metadata(session_timeout_ms=5)
        assert reference.parse(ConsumerGroupMemberMetadataValue, 0, present) == read
    with pytest.raises(ProtocolError, match="marker 2147483649"):
        decode(ConsumerGroupMemberMetadataValue, 0, data[:-2] + b"\x05\x81\x80\x80\x80\x08")


def test_nan_survives() -> None:
    operation = AlterClientQuotasRequest.OpData(key="k", value=float("nan"))
    request = AlterClientQuotasRequest(entries=[AlterClientQuotasRequest.EntryData(ops=[operation])])
    value = decode(AlterClientQuotasRequest, 1, encode(request, 1)).entries[0].ops[0].value
    assert value != value  # noqa: PLR0124 - that is what makes it none


def test_a_state_record_with_tags() -> None:
    value = TransactionLogValue(producer_id=1, next_producer_epoch=4, client_transaction_version=2)
    assert decode(TransactionLogValue, 1, encode(value, 1)) == value
    with pytest.raises(ValueError, match="next_producer_epoch"):
        encode(value, 0)


# Caching and speed.


def test_codecs_are_created_once() -> None:
    assert decoder(HeartbeatRequest, 4) is decoder(HeartbeatRequest, 4)
    assert encoder(HeartbeatRequest, 4) is encoder(HeartbeatRequest, 4)


def test_arrays_of_numbers_of_any_length() -> None:
    for count in (0, 1, 15, 16, 200):
        partition = MetadataResponse.MetadataResponsePartition(replica_nodes=list(range(count)))
        topic = MetadataResponse.MetadataResponseTopic(name="t", partitions=[partition])
        for version in (1, 12):
            assert_parity(MetadataResponse(topics=[topic]), version)


@pytest.mark.slow
def test_ten_times_as_fast_as_the_construct_codec() -> None:
    from bench.bench_codec import LEAST_FACTOR, run

    in_form(codec_engine, "compiled")
    assert {row["message"]: row["factor"] for row in run() if row["factor"] < LEAST_FACTOR} == {}


@pytest.mark.parametrize("version", range(14))
def test_elements_encoded_ahead_are_written_unchanged(version: int) -> None:
    """In place of one struct, or of many in one piece."""
    topics = [
        MetadataResponse.MetadataResponseTopic(
            name=name,
            partitions=[
                MetadataResponse.MetadataResponsePartition(partition_index=index) for index in range(count)
            ],
        )
        for name, count in (("a", 0), ("b", 200))
    ]
    expected = encode(MetadataResponse(topics=topics), version)
    ahead = element_encoder(MetadataResponse, MetadataResponse.MetadataResponseTopic, version)
    encoded: Any = [topics[0], ahead(topics[1])]
    assert encode(MetadataResponse(topics=encoded), version) == expected
    encoded = EncodedArray(2, Encoded(b"".join(map(ahead, topics))))
    assert encode(MetadataResponse(topics=encoded), version) == expected


def test_the_compiled_engine_accepts_only_contiguous_frames() -> None:
    in_form(codec_engine, "compiled")
    read = codec_program.make_decoder(HeartbeatRequest, 0)
    data = encode(HeartbeatRequest(group_id="g"), 0)
    assert read(memoryview(data), 0, len(data)) == read(data, 0, len(data))
    for frame in (memoryview(data + data)[::2], bytearray(data), "text"):
        with pytest.raises(TypeError, match="a frame is bytes"):
            read(frame, 0, len(data))  # type: ignore[arg-type]
    with pytest.raises(ProtocolError, match="cut off"):
        read(data, -1, len(data))
