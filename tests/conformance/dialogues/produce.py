"""Produce: appended batches and their offsets, and rejected requests."""

from __future__ import annotations

import struct
import time

from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.fetch import FetchResponse
from barnabas.protocol.messages.offsets import DeleteRecordsRequest
from barnabas.protocol.messages.produce import ProduceRequest
from barnabas.protocol.messages.topics import CreateTopicsRequest
from barnabas.protocol.records.batch import RecordBatch, TimestampType, build_batch, stamp_max_timestamp
from barnabas.protocol.records.compression import LZ4_MAGIC, CompressionType, xxh32
from barnabas.protocol.records.entries import batches
from barnabas.protocol.records.layout import CRC_START, LOG_OVERHEAD, RECORD_BATCH_OVERHEAD
from barnabas.protocol.wire import Uuid
from tests.conformance.dialogue_client import NO_ID, START_MS, DialogueClient, batch
from tests.conformance.dialogues import dialogue
from tests.conformance.dialogues.in_transactions import TRANSACTION, coordinator_of
from tests.conformance.dialogues.words import (
    IDS_IN_PRODUCE,
    fetch,
    fetch_topic,
    list_offsets,
    partition,
    produce,
)

FIRST, LAST = 3, 13
ATTRIBUTES = 21
"""The position of the attributes in a batch."""
OFFSET_DELTAS = (64, 80)
"""The positions of the offset deltas in the records of `batch(b"abcdef", b"ghi", key=b"key")`."""


def name_or_id(client: DialogueClient, name: str) -> str | Uuid:
    """The name or id that identifies the topic in a request of this version."""
    return client.id_of(name) if client.version >= IDS_IN_PRODUCE else name


def note_log(client: DialogueClient, name: str) -> None:
    """Notes all bytes of the first partition."""
    answer = client.connection.request(fetch(fetch_topic(name, [partition()])), 12)
    assert isinstance(answer, FetchResponse)
    data = answer.responses[0].partitions[0]
    client.note(data)


def note_contents(client: DialogueClient, name: str) -> None:
    """Notes the records of the first partition and the headers of their batches, without lengths."""
    answer = client.connection.request(fetch(fetch_topic(name, [partition()])), 12)
    assert isinstance(answer, FetchResponse)
    records = answer.responses[0].partitions[0].records
    assert isinstance(records, memoryview)
    for found in batches(records):
        assert isinstance(found, RecordBatch)
        found.ensure_valid()
        client.note(
            (
                found.base_offset,
                found.last_offset,
                found.attributes,
                found.base_timestamp,
                found.max_timestamp,
            )
        )
        client.note([(r.offset, r.timestamp, r.key, r.value, list(r.headers)) for r in found.records()])


def with_crc(payload: bytearray) -> bytes:
    """The batch with the checksum of its bytes."""
    from crc32c import crc32c

    struct.pack_into(">I", payload, 17, crc32c(bytes(payload[CRC_START:])))
    return bytes(payload)


# ---- appended batches


@dialogue(ApiKey.PRODUCE, FIRST, LAST)
def one_batch_after_another(client: DialogueClient) -> None:
    name = client.create("a")
    for payload in (batch(), batch(b"a", b"b", b"c"), batch(None), batch(b"", key=b"k")):
        client.request(produce(name_or_id(client, name), payload))
    note_log(client, name)


@dialogue(ApiKey.PRODUCE, FIRST, LAST)
def many_partitions_at_once(client: DialogueClient) -> None:
    name = client.create("a", 3)
    client.request(produce(name_or_id(client, name), batch(b"1"), batch(b"2"), batch(b"3")))
    client.request(
        produce(name_or_id(client, name), batch(b"1"), batch(b"2", b"2"), batch(b"3"), batch(b"4"))
    )


@dialogue(ApiKey.PRODUCE, FIRST, LAST)
def acks_of_one_and_of_all(client: DialogueClient) -> None:
    name = client.create("a")
    client.request(produce(name_or_id(client, name), batch(), acks=1))
    client.request(produce(name_or_id(client, name), batch(), acks=-1))


@dialogue(ApiKey.PRODUCE, FIRST, LAST)
def no_response_with_acks_0(client: DialogueClient) -> None:
    name = client.create("a")
    client.connection.send(produce(name_or_id(client, name), batch(), acks=0), client.version)
    client.request(produce(name_or_id(client, name), batch(), acks=1))


@dialogue(ApiKey.PRODUCE, FIRST, LAST)
def an_error_with_acks_0(client: DialogueClient) -> None:
    """The broker can report it only by closing the connection."""
    name = client.create("a")
    client.connection.send(produce(name_or_id(client, name), b"nonsense" * 20, acks=0), client.version)
    client.request(produce(name_or_id(client, name), batch(), acks=1))


@dialogue(ApiKey.PRODUCE, FIRST, LAST)
def empty_requests(client: DialogueClient) -> None:
    client.request(ProduceRequest(acks=1, timeout_ms=1000))
    client.request(produce(name_or_id(client, client.create("a"))))


@dialogue(ApiKey.PRODUCE, FIRST, LAST)
def every_codec(client: DialogueClient) -> None:
    name = client.create("a")
    for codec in CompressionType:
        if codec is CompressionType.ZSTD and client.version < 7:
            continue
        client.request(produce(name_or_id(client, name), batch(b"a" * 100, b"a" * 100, compression=codec)))
    note_log(client, name)


@dialogue(ApiKey.PRODUCE, FIRST, LAST)
def log_append_time(client: DialogueClient) -> None:
    name = client.create("a", configs={"message.timestamp.type": "LogAppendTime"})
    client.request(produce(name_or_id(client, name), batch(b"a", b"b")))
    client.request(
        produce(
            name_or_id(client, name),
            batch(b"a", timestamp_type=TimestampType.LOG_APPEND_TIME, log_append_time=5),
        )
    )
    note_log(client, name)


@dialogue(ApiKey.PRODUCE, FIRST, LAST)
def compression_by_the_broker(client: DialogueClient) -> None:
    """The broker recompresses: the bytes depend on the libraries, the records do not."""
    for codec in ("gzip", "uncompressed", "lz4"):
        name = client.create(codec, configs={"compression.type": codec})
        client.request(produce(name_or_id(client, name), batch(b"a" * 100, b"b", key=b"k")))
        client.request(
            produce(name_or_id(client, name), batch(b"a" * 100, None, compression=CompressionType.GZIP))
        )
        client.request(
            produce(name_or_id(client, name), batch(b"a" * 100, compression=CompressionType.SNAPPY))
        )
        note_contents(client, name)


# ---- rejected requests


@dialogue(ApiKey.PRODUCE, FIRST, LAST)
def unknown_topics_and_partitions(client: DialogueClient) -> None:
    name = client.create("a")
    unknown = client.topic("b") if client.version < IDS_IN_PRODUCE else NO_ID
    client.request(produce(unknown, batch()))
    client.request(produce(name_or_id(client, name), batch(), batch()))
    client.request(produce(name_or_id(client, name), batch(), first_partition=-1))
    if client.version < IDS_IN_PRODUCE:
        client.request(produce("a b", batch()))
        client.request(produce("", batch()))
    else:
        client.request(produce(bytes(16), batch()))


@dialogue(ApiKey.PRODUCE, FIRST, LAST)
def invalid_acks(client: DialogueClient) -> None:
    name = client.create("a", 2)
    for acks in (2, -2, 32767):
        client.request(produce(name_or_id(client, name), batch(), batch(), b"no batch", acks=acks))
    client.request(produce(name_or_id(client, name), b"no batch", acks=7))


@dialogue(ApiKey.PRODUCE, FIRST, LAST)
def no_records(client: DialogueClient) -> None:
    client.request(produce(name_or_id(client, client.create("a")), b""))


@dialogue(ApiKey.PRODUCE, FIRST, LAST)
def two_batches(client: DialogueClient) -> None:
    name = client.create("a")
    client.request(produce(name_or_id(client, name), batch(b"a") + batch(b"b")))
    client.request(list_offsets(name, 0), 7)


@dialogue(ApiKey.PRODUCE, FIRST, LAST)
def a_wrong_checksum(client: DialogueClient) -> None:
    name = client.create("a", 2)
    bad = bytearray(batch(b"a"))
    bad[-1] ^= 1
    client.request(produce(name_or_id(client, name), bytes(bad), batch(b"b")))
    client.request(list_offsets(name, 0, 1), 7)


@dialogue(ApiKey.PRODUCE, FIRST, LAST)
def bytes_that_are_not_a_batch(client: DialogueClient) -> None:
    name = client.create("a")
    whole = batch(b"abc")
    for records in (
        b"x",
        b"nonsense" * 10,
        whole[:20],
        whole[:-1],
        whole + b"x",
        whole + whole[:30],
        bytes(61),
        bytes(100),
    ):
        client.request(produce(name_or_id(client, name), records))


@dialogue(ApiKey.PRODUCE, FIRST, LAST)
def wrong_lengths(client: DialogueClient) -> None:
    name = client.create("a")
    for length in (-1, 0, 1, 13, 14, 48, 49, 1000):
        bad = bytearray(batch(b"abc"))
        struct.pack_into(">i", bad, 8, length)
        client.request(produce(name_or_id(client, name), bytes(bad)))


@dialogue(ApiKey.PRODUCE, FIRST, LAST)
def wrong_counts_and_offsets_in_a_batch_header(client: DialogueClient) -> None:
    name = client.create("a")
    for position, layout, value in (
        (57, ">i", 2),  # record count
        (57, ">i", 0),
        (57, ">i", -1),
        (57, ">i", 1_000_000),
        (23, ">i", 1),  # last offset delta
        (23, ">i", -1),
        (23, ">i", 5),
        (0, ">q", 77),  # base offset, which the broker sets
        (12, ">i", 77),  # partition leader epoch, which the broker sets
    ):
        bad = bytearray(batch(b"abc"))
        struct.pack_into(layout, bad, position, value)
        client.request(produce(name_or_id(client, name), with_crc(bad)))
    note_log(client, name)


@dialogue(ApiKey.PRODUCE, FIRST, LAST)
def unusual_attributes(client: DialogueClient) -> None:
    name = client.create("a")
    for attributes in (0x08, 0x10, 0x20, 0x40, 0x80, 0x100, 0x30):
        client.request(produce(name_or_id(client, name), with_attributes(attributes)))
    note_log(client, name)


@dialogue(ApiKey.PRODUCE, FIRST, LAST)
def attributes_with_log_append_time(client: DialogueClient) -> None:
    """The broker writes the attributes that it knows, and no others."""
    name = client.create("a", configs={"message.timestamp.type": "LogAppendTime"})
    for attributes in (0, 0x40, 0x80, 0x100, 0x7F80, -0x8000, -0x80):
        client.request(produce(name_or_id(client, name), with_attributes(attributes)))
    note_attributes(client, name)


@dialogue(ApiKey.PRODUCE, FIRST, LAST)
def attributes_with_a_wrong_max_timestamp(client: DialogueClient) -> None:
    name = client.create("a")
    for attributes in (0, 0x08, 0x40, 0x80, 0x7F80, -0x80):
        bad = bytearray(with_attributes(attributes))
        struct.pack_into(">q", bad, 35, START_MS + 77)  # the max timestamp of the header
        client.request(produce(name_or_id(client, name), with_crc(bad)))
    note_log(client, name)


def note_attributes(client: DialogueClient, name: str) -> None:
    """Notes the attributes of each batch in the log."""
    answer = client.connection.request(fetch(fetch_topic(name, [partition()])), 12)
    records = answer.responses[0].partitions[0].records  # type: ignore[attr-defined]
    for found in batches(bytes(records or b"")):
        assert isinstance(found, RecordBatch)
        found.ensure_valid()
        client.note((found.base_offset, found.attributes))


def with_attributes(attributes: int) -> bytes:
    payload = bytearray(batch(b"abc"))
    struct.pack_into(">h", payload, 21, attributes)
    return with_crc(payload)


@dialogue(
    ApiKey.PRODUCE,
    FIRST,
    LAST,
    differs="Kafka fails with UNKNOWN_SERVER_ERROR on unknown codecs",
)
def unknown_codecs(client: DialogueClient) -> None:
    name = client.create("a")
    for codec in (5, 6, 7):
        client.request(produce(name_or_id(client, name), with_attributes(codec)))


@dialogue(
    ApiKey.PRODUCE, FIRST, LAST, differs="Kafka fails with UNKNOWN_SERVER_ERROR where a length overflows"
)
def a_length_that_overflows(client: DialogueClient) -> None:
    name = client.create("a")
    bad = bytearray(batch(b"abc"))
    struct.pack_into(">i", bad, 8, 2**31 - 1)
    client.request(produce(name_or_id(client, name), bytes(bad)))


@dialogue(ApiKey.PRODUCE, FIRST, LAST)
def other_message_formats(client: DialogueClient) -> None:
    name = client.create("a")
    for magic in (-1, 0, 1, 3, 127):
        bad = bytearray(batch(b"abc"))
        struct.pack_into(">b", bad, 16, magic)
        client.request(produce(name_or_id(client, name), with_crc(bad)))


@dialogue(ApiKey.PRODUCE, FIRST, LAST)
def damaged_records(client: DialogueClient) -> None:
    name = client.create("a")
    whole = batch(b"abcdef", b"ghi", key=b"key")
    for position in set(range(61, len(whole))) - set(OFFSET_DELTAS):
        bad = bytearray(whole)
        bad[position] ^= 0x41
        client.request(produce(name_or_id(client, name), with_crc(bad)))
    note_log(client, name)


@dialogue(
    ApiKey.PRODUCE,
    FIRST,
    LAST,
    differs="Kafka appends records with unordered offsets, which no consumer could find",
)
def records_with_wrong_offsets(client: DialogueClient) -> None:
    name = client.create("a")
    for position in OFFSET_DELTAS:
        bad = bytearray(batch(b"abcdef", b"ghi", key=b"key"))
        bad[position] ^= 0x41
        client.request(produce(name_or_id(client, name), with_crc(bad)))


@dialogue(ApiKey.PRODUCE, FIRST, LAST)
def damaged_compressed_records(client: DialogueClient) -> None:
    name = client.create("a")
    for codec in (CompressionType.GZIP, CompressionType.SNAPPY, CompressionType.LZ4):
        whole = batch(b"abcdef" * 20, compression=codec)
        for position in (61, 63, 70, len(whole) - 1):
            bad = bytearray(whole)
            bad[position] ^= 0xFF
            client.request(
                produce(name_or_id(client, name), with_crc(bad)),
                noting=lambda answer: answer.responses[0].partition_responses[0].error_code == 0,
            )


def lz4_batch(flags: int, *, extra: bytes = b"", end: bytes = bytes(4), reads: bool = True) -> bytes:
    """A batch whose records are one stored block of an LZ4 frame with these flags in its header."""
    plain = batch(b"abcdef" * 20)
    payload = plain[RECORD_BATCH_OVERHEAD:]
    descriptor = bytes((flags, 0x40)) + extra
    checksum = bytes([(xxh32(descriptor) >> 8 & 0xFF) ^ (0 if reads else 1)])
    block = (len(payload) | 0x80000000).to_bytes(4, "little") + payload
    if flags & 0x10:
        block += xxh32(payload).to_bytes(4, "little")
    packed = bytearray(plain[:RECORD_BATCH_OVERHEAD] + LZ4_MAGIC + descriptor + checksum + block + end)
    struct.pack_into(">i", packed, 8, len(packed) - LOG_OVERHEAD)
    struct.pack_into(">h", packed, ATTRIBUTES, CompressionType.LZ4)
    return with_crc(packed)


@dialogue(ApiKey.PRODUCE, FIRST, LAST)
def lz4_frames(client: DialogueClient) -> None:
    """Kafka's reader ignores bytes behind the end mark, and the size and checksum of the content."""
    name = client.create("a")
    for payload in (
        lz4_batch(0x60),
        lz4_batch(0x60, end=b"\0\0\0\x80"),
        lz4_batch(0x60, end=bytes(4) + b"what"),
        lz4_batch(0x60, end=bytes(4) + LZ4_MAGIC),
        lz4_batch(0x60, end=b""),
        lz4_batch(0x60, reads=False),
        lz4_batch(0x68, extra=(7).to_bytes(8, "little")),
        lz4_batch(0x64, end=bytes(4) + b"what"),
        lz4_batch(0x70),
        lz4_batch(0x70, end=b"\0\0\0\x80"),
        lz4_batch(0x40),
        lz4_batch(0x61, extra=bytes(4)),
        lz4_batch(0x62),
        lz4_batch(0x20),
    ):
        client.request(
            produce(name_or_id(client, name), payload),
            noting=lambda answer: answer.responses[0].partition_responses[0].error_code == 0,
        )
    note_log(client, name)


@dialogue(ApiKey.PRODUCE, FIRST, 6)
def zstd_in_old_versions(client: DialogueClient) -> None:
    name = client.create("a")
    client.request(produce(name_or_id(client, name), batch(b"a" * 100, compression=CompressionType.ZSTD)))


@dialogue(ApiKey.PRODUCE, FIRST, LAST)
def zstd_with_other_errors(client: DialogueClient) -> None:
    """The codec is checked before most other fields, but after the format of the first batch."""
    name = client.create("a")
    coordinator_of(client, client.topic("tx"), TRANSACTION)
    good = batch(b"a" * 100, compression=CompressionType.ZSTD)
    wrong_sum = bytearray(good)
    wrong_sum[-1] ^= 1
    other_format = bytearray(good)
    struct.pack_into(">b", other_format, 16, 1)
    for payload in (good * 2, good + batch(b"b"), batch(b"b") + good, bytes(wrong_sum), bytes(other_format)):
        client.request(produce(name_or_id(client, name), payload))
        client.request(produce(name_or_id(client, name), payload, acks=7))
    client.request(produce(name_or_id(client, name), good, acks=7))
    client.request(produce(name_or_id(client, name), good, good))
    client.request(produce(name_or_id(client, name), batch(b"b") * 2, acks=7))
    transactional = batch(
        b"a", compression=CompressionType.ZSTD, is_transactional=True, producer_id=7, base_sequence=-1
    )
    client.request(produce(name_or_id(client, name), transactional))
    client.request(produce(name_or_id(client, name), transactional, transactional_id=client.topic("tx")))
    note_contents(client, name)


@dialogue(ApiKey.PRODUCE, FIRST, LAST)
def batches_that_are_too_large(client: DialogueClient) -> None:
    size = len(batch(b"a" * 100))
    name = client.create("a", configs={"max.message.bytes": str(size)})
    for length in (100, 101, 5000):
        client.request(produce(name_or_id(client, name), batch(b"a" * length)))
    client.request(produce(name_or_id(client, name), batch(b"a" * 5000, compression=CompressionType.GZIP)))
    client.request(list_offsets(name, 0), 7)


@dialogue(ApiKey.PRODUCE, FIRST, LAST)
def batches_larger_than_a_segment(client: DialogueClient) -> None:
    name = client.create("a", configs={"segment.bytes": "1048576", "max.message.bytes": "5000000"})
    client.request(produce(name_or_id(client, name), batch(b"a" * 1_100_000)))
    client.request(produce(name_or_id(client, name), batch(b"a" * 1_000_000)))
    client.request(produce(name_or_id(client, name), batch(b"a" * 1_000_000)))


@dialogue(ApiKey.PRODUCE, FIRST, LAST)
def compacted_topics_need_keys(client: DialogueClient) -> None:
    name = client.create("a", configs={"cleanup.policy": "compact"})
    client.request(produce(name_or_id(client, name), batch(b"a")))
    client.request(produce(name_or_id(client, name), batch(b"a", key=b"")))
    client.request(produce(name_or_id(client, name), batch(b"a", b"b")))
    client.request(list_offsets(name, 0), 7)


@dialogue(ApiKey.PRODUCE, FIRST, LAST)
def timestamps_out_of_range(client: DialogueClient) -> None:
    bounds = {"message.timestamp.before.max.ms": "60000", "message.timestamp.after.max.ms": "60000"}
    name = client.create("a", configs=bounds)
    now = int(time.time() * 1000)
    for timestamp in (START_MS, now, now - 120_000, now + 120_000, now - 30_000, now + 30_000):
        client.request(produce(name_or_id(client, name), batch(b"a", b"b", timestamp=timestamp)))
    client.request(list_offsets(name, 0), 7)


@dialogue(ApiKey.PRODUCE, FIRST, LAST)
def negative_timestamps(client: DialogueClient) -> None:
    name = client.create("a")
    for timestamp in (-1, 0, -2, 2**62):
        client.request(produce(name_or_id(client, name), batch(b"a", timestamp=timestamp)))
    note_contents(client, name)


@dialogue(ApiKey.PRODUCE, FIRST, LAST)
def one_wrong_record_of_many(client: DialogueClient) -> None:
    name = client.create("a", configs={"message.timestamp.after.max.ms": "1000"})
    later = int(time.time() * 1000) + 100_000
    for timestamp in (later - 200_000, later):
        client.request(
            produce(name_or_id(client, name), batch(*(b"x" for _ in range(12)), timestamp=timestamp))
        )


def records(*given: tuple[bytes | None, int], **fields: object) -> bytes:
    """A batch of records, given as (key, timestamp)."""
    return build_batch([(key, b"v", timestamp, ()) for key, timestamp in given], **fields)  # type: ignore[arg-type]


@dialogue(ApiKey.PRODUCE, FIRST, LAST)
def missing_keys_and_wrong_timestamps(client: DialogueClient) -> None:
    name = client.create(
        "c", configs={"cleanup.policy": "compact", "message.timestamp.before.max.ms": "1000"}
    )
    topic, now_ms = name_or_id(client, name), int(time.time() * 1000)
    for given in (
        [(b"k", now_ms), (None, now_ms), (b"k", 5)],
        [(None, now_ms), (None, now_ms)],
        [(None, 5), (None, 5), (b"k", 5), (b"k", now_ms)],
    ):
        client.request(produce(topic, records(*given)))
        client.request(produce(topic, records(*given, compression=CompressionType.GZIP)))
    note_log(client, name)


@dialogue(ApiKey.PRODUCE, FIRST, LAST)
def missing_timestamps(client: DialogueClient) -> None:
    for kind in ("CreateTime", "LogAppendTime"):
        name = client.create(kind, configs={"message.timestamp.type": kind})
        topic = name_or_id(client, name)
        client.request(produce(topic, records((b"k", -1), (b"k", -1))))
        claim = with_crc(bytearray(records((b"k", -1))))
        client.request(produce(topic, stamped(claim, -1)))
        client.request(produce(topic, stamped(claim, START_MS)))


def stamped(payload: bytes, max_timestamp: int) -> bytes:
    """The batch with LogAppendTime and `max_timestamp` in its header."""
    data = bytearray(payload)
    stamp_max_timestamp(data, 0, TimestampType.LOG_APPEND_TIME, max_timestamp)
    return bytes(data)


@dialogue(ApiKey.PRODUCE, FIRST, LAST)
def fewer_in_sync_replicas_than_required(client: DialogueClient) -> None:
    name = client.create("a", configs={"min.insync.replicas": "2"})
    client.request(produce(name_or_id(client, name), batch(), acks=-1))
    client.request(produce(name_or_id(client, name), batch(), acks=1))


@dialogue(ApiKey.PRODUCE, FIRST, 12)
def the_same_topic_twice(client: DialogueClient) -> None:
    name = client.create("a", 2)
    request = produce(name, batch(b"a"))
    request.topic_data += produce(name, batch(b"b"), first_partition=1).topic_data
    client.request(request)


@dialogue(ApiKey.PRODUCE, FIRST, 12)
def internal_topics(client: DialogueClient) -> None:
    """Any client may create them; only an administrator's tool may write to them."""
    name = "__share_group_state"
    topic = CreateTopicsRequest.CreatableTopic(name=name, num_partitions=1, replication_factor=1)
    client.connection.request(
        CreateTopicsRequest(topics=[topic], timeout_ms=30_000), 7
    )  # it may exist already
    client.request_until(
        list_offsets(name, 0), lambda answer: answer.topics[0].partitions[0].error_code == 0, 7
    )
    client.request(produce(name, batch(b"a", key=b"k")))
    client.request(produce(name, b""))
    deletion = DeleteRecordsRequest.DeleteRecordsTopic(
        name=name, partitions=[DeleteRecordsRequest.DeleteRecordsPartition(partition_index=0, offset=0)]
    )
    client.request(DeleteRecordsRequest(topics=[deletion], timeout_ms=1000), 2)
