"""Our bytes against those of Apache Kafka's generated classes, in both directions, and the bytes each side rejects."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from barnabas.protocol.codec import decode, encode
from barnabas.protocol.errors import ErrorCode, ProtocolError
from barnabas.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from barnabas.protocol.messages.consumer_groups import ConsumerGroupHeartbeatResponse
from barnabas.protocol.messages.fetch import FetchRequest
from barnabas.protocol.messages.group_state import ConsumerGroupMemberMetadataValue
from barnabas.protocol.messages.groups import HeartbeatRequest
from barnabas.protocol.messages.metadata import MetadataRequest
from barnabas.protocol.schema import Message
from tests.conformance.java_messages import JavaMessages, RejectedError, json_of
from tests.protocol.samples import every_version, random_message, version_id
from tests.protocol.test_codec import mutated

pytestmark = pytest.mark.conformance

SAMPLES_PER_VERSION = 6
MUTATIONS_PER_VERSION = 12

UNWRITABLE_TAGS = "Invalid raw tag field list"

for_every_version = pytest.mark.parametrize(("message_type", "version"), every_version(), ids=version_id)


@pytest.fixture(scope="module")
def kafka() -> Iterator[JavaMessages]:
    java = JavaMessages()
    yield java
    java.close()


def samples(message_type: type[Message], version: int) -> Iterator[Message]:
    """The message with all defaults, then random ones."""
    rng = Random(f"kafka {message_type.__name__} {version}")
    yield message_type()
    for _ in range(SAMPLES_PER_VERSION):
        yield random_message(rng, message_type, version)


@for_every_version
def test_encoded_messages_equal_kafkas(
    kafka: JavaMessages, message_type: type[Message], version: int
) -> None:
    for message in samples(message_type, version):
        data = encode(message, version)
        assert kafka.again(message_type, version, data) == data
        known = without_unknown_tags(decode(message_type, version, data))
        as_json = json_of(known, version)
        assert kafka.from_json(message_type, version, as_json) == encode(known, version)
        assert without_records(kafka.to_json(message_type, version, data)) == without_records(as_json)


def without_records(value: Any) -> Any:
    """The JSON form without records: Kafka shows only whole batches."""
    if isinstance(value, list):
        return [without_records(element) for element in value]
    if isinstance(value, dict):
        names = ("records", "unalignedRecords")
        return {key: without_records(inner) for key, inner in value.items() if key not in names}
    return value


@for_every_version
def test_messages_that_kafka_encodes_are_decoded(
    kafka: JavaMessages, message_type: type[Message], version: int
) -> None:
    for message in samples(message_type, version):
        known = without_unknown_tags(message)
        data = kafka.from_json(message_type, version, json_of(known, version))
        assert decode(message_type, version, data) == known


def without_unknown_tags(value: Any) -> Any:
    """The message without unknown tags, which the JSON form cannot express."""
    if isinstance(value, list):
        for element in value:
            without_unknown_tags(element)
    elif hasattr(value, "unknown_tagged_fields"):
        if value.unknown_tagged_fields:
            value.unknown_tagged_fields = None
        for field in value.fields:
            if field.struct is not None:
                without_unknown_tags(getattr(value, field.name))
    return value


@for_every_version
def test_damaged_messages_that_we_decode_kafka_decodes(
    kafka: JavaMessages, message_type: type[Message], version: int
) -> None:
    """Damaged bytes that we still decode are the same message to Kafka."""
    rng = Random(f"damage {message_type.__name__} {version}")
    for _ in range(MUTATIONS_PER_VERSION):
        data = mutated(rng, encode(random_message(rng, message_type, version), version))
        try:
            message = decode(message_type, version, data)
        except ProtocolError:
            continue
        assert again_unless_unwritable(kafka, message_type, version, data) in (
            encode(message, version),
            None,
        )


def again_unless_unwritable(
    kafka: JavaMessages, message_type: type[Message], version: int, data: bytes
) -> bytes | None:
    """The bytes that Kafka encodes again; None where it cannot, since it keeps unknown tags out of order."""
    try:
        return kafka.again(message_type, version, data)
    except RejectedError as error:
        if UNWRITABLE_TAGS in str(error):
            return None
        raise


def test_error_codes_are_kafkas(kafka: JavaMessages) -> None:
    assert [(code.value, code.name, code.retriable) for code in ErrorCode] == kafka.error_codes()


HEARTBEAT = b"\x02g" + bytes(4) + b"\x02m\x00"


@pytest.mark.parametrize(
    ("message_type", "version", "data"),
    [
        (HeartbeatRequest, 4, b"\x00" + bytes(9)),
        (HeartbeatRequest, 4, HEARTBEAT),
        (HeartbeatRequest, 4, HEARTBEAT + b"\x01\x05\x02x"),
        (HeartbeatRequest, 0, b"\xff\xff" + bytes(6)),
        (HeartbeatRequest, 4, b"\x81\x80\x02" + b"x" * 32768 + bytes(7)),
        (MetadataRequest, 9, b"\xff\xff\xff\xff\x07"),
        (MetadataRequest, 0, b"\x7f\xff\xff\xff"),
        (FetchRequest, 14, encode(FetchRequest(), 14)[:-1] + b"\x01\x01\x0d" + bytes(13)),
    ],
)
def test_bytes_that_kafka_rejects_we_reject(
    kafka: JavaMessages, message_type: type[Message], version: int, data: bytes
) -> None:
    with pytest.raises(RejectedError):
        kafka.again(message_type, version, data)
    with pytest.raises(ProtocolError):
        decode(message_type, version, data)


@pytest.mark.parametrize(
    ("message_type", "version", "data"),
    [
        (HeartbeatRequest, 4, HEARTBEAT + b"\x02\x07\x01x\x05\x01y"),  # tags that do not ascend
        (ConsumerGroupHeartbeatResponse, 0, encode(ConsumerGroupHeartbeatResponse(), 0)[:-2] + b"\x80\x00"),
        (
            ConsumerGroupHeartbeatResponse,
            0,
            encode(ConsumerGroupHeartbeatResponse(), 0)[:-2] + b"\x00\x01\x00\x00",
        ),
        (MetadataRequest, 1, b"\xff\xff\xff\xfe"),  # any negative length is a null
        (MetadataRequest, 4, b"\x00\x00\x00\x00\x07"),  # any byte but zero is true
        (HeartbeatRequest, 0, b"\x00\x02g\xff" + bytes(6)),  # invalid UTF-8 becomes U+FFFD
        (
            ApiVersionsResponse,
            3,
            b"\x00\x00\x01" + bytes(4) + b"\x02" + b"\x01\x08" + bytes(8) + b"\x01\x08" + bytes(8),
        ),
    ],
)
def test_unusual_bytes_that_kafka_decodes_we_decode(
    kafka: JavaMessages, message_type: type[Message], version: int, data: bytes
) -> None:
    assert kafka.to_json(message_type, version, data) == json_of(decode(message_type, version, data), version)


@pytest.mark.parametrize(
    ("message_type", "version", "data", "reason"),
    [
        (
            ApiVersionsResponse,
            3,
            b"\x00\x00\x01" + bytes(4) + b"\x01\x01\x09" + bytes(8),
            "Kafka ignores a tag's size",
        ),
    ],
)
def test_bytes_that_only_kafka_decodes(
    kafka: JavaMessages, message_type: type[Message], version: int, data: bytes, reason: str
) -> None:
    assert kafka.to_json(message_type, version, data), reason
    with pytest.raises(ProtocolError):
        decode(message_type, version, data)


def test_duplicate_tag_is_kept_once_here_and_twice_in_kafka(kafka: JavaMessages) -> None:
    twice = b"\x02a\x02b\x02\x05\x01x\x05\x01y"
    with pytest.raises(RejectedError, match=UNWRITABLE_TAGS):
        kafka.again(ApiVersionsRequest, 3, twice)
    assert decode(ApiVersionsRequest, 3, twice).unknown_tagged_fields == {5: b"y"}


def test_struct_in_a_tag_has_its_own_null_marker(kafka: JavaMessages) -> None:
    value = ConsumerGroupMemberMetadataValue(classic_member_metadata=None)
    assert encode(value, 0).endswith(b"\x01\x00\x01\x00")
    assert kafka.again(ConsumerGroupMemberMetadataValue, 0, encode(value, 0)) == encode(value, 0)
    assert kafka.to_json(ConsumerGroupMemberMetadataValue, 0, encode(value, 0)) == json_of(value, 0)


@pytest.mark.parametrize(
    ("message", "version", "name"),
    [
        (FetchRequest(replica_id=3), 15, "replicaId"),
        (HeartbeatRequest(group_instance_id="i"), 2, "groupInstanceId"),
        (MetadataRequest(allow_auto_topic_creation=False), 3, "allowAutoTopicCreation"),
    ],
)
def test_fields_that_kafka_cannot_encode_we_cannot_encode(
    kafka: JavaMessages, message: Message, version: int, name: str
) -> None:
    newest = json_of(message, type(message).versions.high if name != "replicaId" else 14)
    with pytest.raises(RejectedError, match="UnsupportedVersionException|non-default|" + name):
        kafka.from_json(type(message), version, newest)
    with pytest.raises(ValueError, match="cannot be sent in version"):
        encode(message, version)
