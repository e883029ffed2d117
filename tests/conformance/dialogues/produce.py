"""Produce: what is appended and where, and what is refused."""

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
from tests.conformance.speaker import NO_ID, START_MS, Speaker, batch

FIRST, LAST = 3, 13
ATTRIBUTES = 21
"""Where the attributes of a batch lie."""
OFFSET_DELTAS = (64, 80)
"""Where the records of `batch(b"abcdef", b"ghi", key=b"key")` say how far they are from its base offset."""


def to(client: Speaker, name: str) -> str | Uuid:
    """What a request of this version calls the topic."""
    return client.id_of(name) if client.version >= IDS_IN_PRODUCE else name


def note_log(client: Speaker, name: str) -> None:
    """Everything that the first partition holds."""
    answer = client.peer.ask(fetch(fetch_topic(name, [partition()])), 12)
    assert isinstance(answer, FetchResponse)
    data = answer.responses[0].partitions[0]
    client.note(data)


def note_contents(client: Speaker, name: str) -> None:
    """The records of the first partition, and what their batches say but for how long they are."""
    answer = client.peer.ask(fetch(fetch_topic(name, [partition()])), 12)
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
    """The batch with the checksum that its bytes ask for."""
    from crc32c import crc32c

    struct.pack_into(">I", payload, 17, crc32c(bytes(payload[CRC_START:])))
    return bytes(payload)


# ---- what is appended


@dialogue(ApiKey.PRODUCE, FIRST, LAST)
def one_batch_after_another(client: Speaker) -> None:
    name = client.create("a")
    for payload in (batch(), batch(b"a", b"b", b"c"), batch(None), batch(b"", key=b"k")):
        client.ask(produce(to(client, name), payload))
    note_log(client, name)


@dialogue(ApiKey.PRODUCE, FIRST, LAST)
def many_partitions_at_once(client: Speaker) -> None:
    name = client.create("a", 3)
    client.ask(produce(to(client, name), batch(b"1"), batch(b"2"), batch(b"3")))
    client.ask(produce(to(client, name), batch(b"1"), batch(b"2", b"2"), batch(b"3"), batch(b"4")))


@dialogue(ApiKey.PRODUCE, FIRST, LAST)
def acks_of_one_and_of_all(client: Speaker) -> None:
    name = client.create("a")
    client.ask(produce(to(client, name), batch(), acks=1))
    client.ask(produce(to(client, name), batch(), acks=-1))


@dialogue(ApiKey.PRODUCE, FIRST, LAST)
def no_acks_no_answer(client: Speaker) -> None:
    name = client.create("a")
    client.peer.say(produce(to(client, name), batch(), acks=0), client.version)
    client.ask(produce(to(client, name), batch(), acks=1))


@dialogue(ApiKey.PRODUCE, FIRST, LAST)
def no_acks_and_something_wrong(client: Speaker) -> None:
    """The only answer that there can be is the end of the connection."""
    name = client.create("a")
    client.peer.say(produce(to(client, name), b"nonsense" * 20, acks=0), client.version)
    client.ask(produce(to(client, name), batch(), acks=1))


@dialogue(ApiKey.PRODUCE, FIRST, LAST)
def nothing_at_all(client: Speaker) -> None:
    client.ask(ProduceRequest(acks=1, timeout_ms=1000))
    client.ask(produce(to(client, client.create("a"))))


@dialogue(ApiKey.PRODUCE, FIRST, LAST)
def every_codec(client: Speaker) -> None:
    name = client.create("a")
    for codec in CompressionType:
        if codec is CompressionType.ZSTD and client.version < 7:
            continue
        client.ask(produce(to(client, name), batch(b"a" * 100, b"a" * 100, compression=codec)))
    note_log(client, name)


@dialogue(ApiKey.PRODUCE, FIRST, LAST)
def times_of_the_broker(client: Speaker) -> None:
    name = client.create("a", configs={"message.timestamp.type": "LogAppendTime"})
    client.ask(produce(to(client, name), batch(b"a", b"b")))
    client.ask(
        produce(
            to(client, name), batch(b"a", timestamp_type=TimestampType.LOG_APPEND_TIME, log_append_time=5)
        )
    )
    note_log(client, name)


@dialogue(ApiKey.PRODUCE, FIRST, LAST)
def codecs_of_the_broker(client: Speaker) -> None:
    """The broker packs anew: the bytes may differ with the libraries, what is in them may not."""
    for codec in ("gzip", "uncompressed", "lz4"):
        name = client.create(codec, configs={"compression.type": codec})
        client.ask(produce(to(client, name), batch(b"a" * 100, b"b", key=b"k")))
        client.ask(produce(to(client, name), batch(b"a" * 100, None, compression=CompressionType.GZIP)))
        client.ask(produce(to(client, name), batch(b"a" * 100, compression=CompressionType.SNAPPY)))
        note_contents(client, name)


# ---- what is refused


@dialogue(ApiKey.PRODUCE, FIRST, LAST)
def topics_and_partitions_that_are_not_there(client: Speaker) -> None:
    name = client.create("a")
    unknown = client.topic("b") if client.version < IDS_IN_PRODUCE else NO_ID
    client.ask(produce(unknown, batch()))
    client.ask(produce(to(client, name), batch(), batch()))
    client.ask(produce(to(client, name), batch(), first_partition=-1))
    if client.version < IDS_IN_PRODUCE:
        client.ask(produce("a b", batch()))
        client.ask(produce("", batch()))
    else:
        client.ask(produce(bytes(16), batch()))


@dialogue(ApiKey.PRODUCE, FIRST, LAST)
def acks_that_mean_nothing(client: Speaker) -> None:
    name = client.create("a", 2)
    for acks in (2, -2, 32767):
        client.ask(produce(to(client, name), batch(), batch(), b"no batch", acks=acks))
    client.ask(produce(to(client, name), b"no batch", acks=7))


@dialogue(ApiKey.PRODUCE, FIRST, LAST)
def no_records(client: Speaker) -> None:
    client.ask(produce(to(client, client.create("a")), b""))


@dialogue(ApiKey.PRODUCE, FIRST, LAST)
def two_batches(client: Speaker) -> None:
    name = client.create("a")
    client.ask(produce(to(client, name), batch(b"a") + batch(b"b")))
    client.ask(list_offsets(name, 0), 7)


@dialogue(ApiKey.PRODUCE, FIRST, LAST)
def a_wrong_checksum(client: Speaker) -> None:
    name = client.create("a", 2)
    bad = bytearray(batch(b"a"))
    bad[-1] ^= 1
    client.ask(produce(to(client, name), bytes(bad), batch(b"b")))
    client.ask(list_offsets(name, 0, 1), 7)


@dialogue(ApiKey.PRODUCE, FIRST, LAST)
def bytes_that_are_no_batch(client: Speaker) -> None:
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
        client.ask(produce(to(client, name), records))


@dialogue(ApiKey.PRODUCE, FIRST, LAST)
def lengths_that_lie(client: Speaker) -> None:
    name = client.create("a")
    for length in (-1, 0, 1, 13, 14, 48, 49, 1000):
        bad = bytearray(batch(b"abc"))
        struct.pack_into(">i", bad, 8, length)
        client.ask(produce(to(client, name), bytes(bad)))


@dialogue(ApiKey.PRODUCE, FIRST, LAST)
def counts_that_lie(client: Speaker) -> None:
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
        client.ask(produce(to(client, name), with_crc(bad)))
    note_log(client, name)


@dialogue(ApiKey.PRODUCE, FIRST, LAST)
def attributes_that_mean_nothing_good(client: Speaker) -> None:
    name = client.create("a")
    for attributes in (0x08, 0x10, 0x20, 0x40, 0x80, 0x100, 0x30):
        client.ask(produce(to(client, name), with_attributes(attributes)))
    note_log(client, name)


@dialogue(ApiKey.PRODUCE, FIRST, LAST)
def attributes_where_the_broker_sets_the_time(client: Speaker) -> None:
    """It writes the attributes that it knows of, and no others."""
    name = client.create("a", configs={"message.timestamp.type": "LogAppendTime"})
    for attributes in (0, 0x40, 0x80, 0x100, 0x7F80, -0x8000, -0x80):
        client.ask(produce(to(client, name), with_attributes(attributes)))
    note_attributes(client, name)


@dialogue(ApiKey.PRODUCE, FIRST, LAST)
def attributes_where_the_newest_time_is_wrong(client: Speaker) -> None:
    name = client.create("a")
    for attributes in (0, 0x08, 0x40, 0x80, 0x7F80, -0x80):
        bad = bytearray(with_attributes(attributes))
        struct.pack_into(">q", bad, 35, START_MS + 77)  # the newest timestamp, by the header
        client.ask(produce(to(client, name), with_crc(bad)))
    note_log(client, name)


def note_attributes(client: Speaker, name: str) -> None:
    """Of each batch in the log."""
    answer = client.peer.ask(fetch(fetch_topic(name, [partition()])), 12)
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
    differs="Kafka stumbles (UNKNOWN_SERVER_ERROR) over codecs that there are not",
)
def codecs_that_there_are_not(client: Speaker) -> None:
    name = client.create("a")
    for codec in (5, 6, 7):
        client.ask(produce(to(client, name), with_attributes(codec)))


@dialogue(
    ApiKey.PRODUCE, FIRST, LAST, differs="Kafka stumbles (UNKNOWN_SERVER_ERROR) where a length goes round"
)
def a_length_beyond_all_numbers(client: Speaker) -> None:
    name = client.create("a")
    bad = bytearray(batch(b"abc"))
    struct.pack_into(">i", bad, 8, 2**31 - 1)
    client.ask(produce(to(client, name), bytes(bad)))


@dialogue(ApiKey.PRODUCE, FIRST, LAST)
def other_formats(client: Speaker) -> None:
    name = client.create("a")
    for magic in (-1, 0, 1, 3, 127):
        bad = bytearray(batch(b"abc"))
        struct.pack_into(">b", bad, 16, magic)
        client.ask(produce(to(client, name), with_crc(bad)))


@dialogue(ApiKey.PRODUCE, FIRST, LAST)
def records_broken_inside(client: Speaker) -> None:
    name = client.create("a")
    whole = batch(b"abcdef", b"ghi", key=b"key")
    for position in set(range(61, len(whole))) - set(OFFSET_DELTAS):
        bad = bytearray(whole)
        bad[position] ^= 0x41
        client.ask(produce(to(client, name), with_crc(bad)))
    note_log(client, name)


@dialogue(
    ApiKey.PRODUCE,
    FIRST,
    LAST,
    differs="Kafka appends records whose offsets are not in order; no reader could find them",
)
def offsets_that_lie(client: Speaker) -> None:
    name = client.create("a")
    for position in OFFSET_DELTAS:
        bad = bytearray(batch(b"abcdef", b"ghi", key=b"key"))
        bad[position] ^= 0x41
        client.ask(produce(to(client, name), with_crc(bad)))


@dialogue(ApiKey.PRODUCE, FIRST, LAST)
def compressed_records_broken_inside(client: Speaker) -> None:
    name = client.create("a")
    for codec in (CompressionType.GZIP, CompressionType.SNAPPY, CompressionType.LZ4):
        whole = batch(b"abcdef" * 20, compression=codec)
        for position in (61, 63, 70, len(whole) - 1):
            bad = bytearray(whole)
            bad[position] ^= 0xFF
            client.ask(
                produce(to(client, name), with_crc(bad)),
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
def lz4_frames(client: Speaker) -> None:
    """What Kafka's reader does not look at: what is behind the end, the size and checksum of the content."""
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
        client.ask(
            produce(to(client, name), payload),
            noting=lambda answer: answer.responses[0].partition_responses[0].error_code == 0,
        )
    note_log(client, name)


@dialogue(ApiKey.PRODUCE, FIRST, 6)
def zstd_before_its_time(client: Speaker) -> None:
    name = client.create("a")
    client.ask(produce(to(client, name), batch(b"a" * 100, compression=CompressionType.ZSTD)))


@dialogue(ApiKey.PRODUCE, FIRST, LAST)
def zstd_with_something_else_wrong(client: Speaker) -> None:
    """The codec is asked of before most else, though after the format of the first batch."""
    name = client.create("a")
    coordinator_of(client, client.topic("tx"), TRANSACTION)
    good = batch(b"a" * 100, compression=CompressionType.ZSTD)
    wrong_sum = bytearray(good)
    wrong_sum[-1] ^= 1
    other_format = bytearray(good)
    struct.pack_into(">b", other_format, 16, 1)
    for payload in (good * 2, good + batch(b"b"), batch(b"b") + good, bytes(wrong_sum), bytes(other_format)):
        client.ask(produce(to(client, name), payload))
        client.ask(produce(to(client, name), payload, acks=7))
    client.ask(produce(to(client, name), good, acks=7))
    client.ask(produce(to(client, name), good, good))
    client.ask(produce(to(client, name), batch(b"b") * 2, acks=7))
    transactional = batch(
        b"a", compression=CompressionType.ZSTD, is_transactional=True, producer_id=7, base_sequence=-1
    )
    client.ask(produce(to(client, name), transactional))
    client.ask(produce(to(client, name), transactional, transactional_id=client.topic("tx")))
    note_contents(client, name)


@dialogue(ApiKey.PRODUCE, FIRST, LAST)
def batches_that_are_too_large(client: Speaker) -> None:
    size = len(batch(b"a" * 100))
    name = client.create("a", configs={"max.message.bytes": str(size)})
    for length in (100, 101, 5000):
        client.ask(produce(to(client, name), batch(b"a" * length)))
    client.ask(produce(to(client, name), batch(b"a" * 5000, compression=CompressionType.GZIP)))
    client.ask(list_offsets(name, 0), 7)


@dialogue(ApiKey.PRODUCE, FIRST, LAST)
def batches_that_no_segment_holds(client: Speaker) -> None:
    name = client.create("a", configs={"segment.bytes": "1048576", "max.message.bytes": "5000000"})
    client.ask(produce(to(client, name), batch(b"a" * 1_100_000)))
    client.ask(produce(to(client, name), batch(b"a" * 1_000_000)))
    client.ask(produce(to(client, name), batch(b"a" * 1_000_000)))


@dialogue(ApiKey.PRODUCE, FIRST, LAST)
def compacted_topics_need_keys(client: Speaker) -> None:
    name = client.create("a", configs={"cleanup.policy": "compact"})
    client.ask(produce(to(client, name), batch(b"a")))
    client.ask(produce(to(client, name), batch(b"a", key=b"")))
    client.ask(produce(to(client, name), batch(b"a", b"b")))
    client.ask(list_offsets(name, 0), 7)


@dialogue(ApiKey.PRODUCE, FIRST, LAST)
def times_out_of_range(client: Speaker) -> None:
    bounds = {"message.timestamp.before.max.ms": "60000", "message.timestamp.after.max.ms": "60000"}
    name = client.create("a", configs=bounds)
    now = int(time.time() * 1000)
    for timestamp in (START_MS, now, now - 120_000, now + 120_000, now - 30_000, now + 30_000):
        client.ask(produce(to(client, name), batch(b"a", b"b", timestamp=timestamp)))
    client.ask(list_offsets(name, 0), 7)


@dialogue(ApiKey.PRODUCE, FIRST, LAST)
def times_before_all_times(client: Speaker) -> None:
    name = client.create("a")
    for timestamp in (-1, 0, -2, 2**62):
        client.ask(produce(to(client, name), batch(b"a", timestamp=timestamp)))
    note_contents(client, name)


@dialogue(ApiKey.PRODUCE, FIRST, LAST)
def one_wrong_record_of_many(client: Speaker) -> None:
    name = client.create("a", configs={"message.timestamp.after.max.ms": "1000"})
    later = int(time.time() * 1000) + 100_000
    for timestamp in (later - 200_000, later):
        client.ask(produce(to(client, name), batch(*(b"x" for _ in range(12)), timestamp=timestamp)))


def records(*given: tuple[bytes | None, int], **fields: object) -> bytes:
    """A batch of records, given as (key, timestamp)."""
    return build_batch([(key, b"v", timestamp, ()) for key, timestamp in given], **fields)  # type: ignore[arg-type]


@dialogue(ApiKey.PRODUCE, FIRST, LAST)
def keys_and_times_wrong_together(client: Speaker) -> None:
    name = client.create(
        "c", configs={"cleanup.policy": "compact", "message.timestamp.before.max.ms": "1000"}
    )
    topic, now_ms = to(client, name), int(time.time() * 1000)
    for given in (
        [(b"k", now_ms), (None, now_ms), (b"k", 5)],
        [(None, now_ms), (None, now_ms)],
        [(None, 5), (None, 5), (b"k", 5), (b"k", now_ms)],
    ):
        client.ask(produce(topic, records(*given)))
        client.ask(produce(topic, records(*given, compression=CompressionType.GZIP)))
    note_log(client, name)


@dialogue(ApiKey.PRODUCE, FIRST, LAST)
def times_that_are_none(client: Speaker) -> None:
    for kind in ("CreateTime", "LogAppendTime"):
        name = client.create(kind, configs={"message.timestamp.type": kind})
        topic = to(client, name)
        client.ask(produce(topic, records((b"k", -1), (b"k", -1))))
        claim = with_crc(bytearray(records((b"k", -1))))
        client.ask(produce(topic, stamped(claim, -1)))
        client.ask(produce(topic, stamped(claim, START_MS)))


def stamped(payload: bytes, max_timestamp: int) -> bytes:
    """A batch that claims LogAppendTime."""
    data = bytearray(payload)
    stamp_max_timestamp(data, 0, TimestampType.LOG_APPEND_TIME, max_timestamp)
    return bytes(data)


@dialogue(ApiKey.PRODUCE, FIRST, LAST)
def more_replicas_than_are_in_sync(client: Speaker) -> None:
    name = client.create("a", configs={"min.insync.replicas": "2"})
    client.ask(produce(to(client, name), batch(), acks=-1))
    client.ask(produce(to(client, name), batch(), acks=1))


@dialogue(ApiKey.PRODUCE, FIRST, 12)
def the_same_topic_twice(client: Speaker) -> None:
    name = client.create("a", 2)
    request = produce(name, batch(b"a"))
    request.topic_data += produce(name, batch(b"b"), first_partition=1).topic_data
    client.ask(request)


@dialogue(ApiKey.PRODUCE, FIRST, 12)
def topics_of_the_broker(client: Speaker) -> None:
    """Which anybody may create, and nobody but an administrator's tool may write to."""
    name = "__share_group_state"
    topic = CreateTopicsRequest.CreatableTopic(name=name, num_partitions=1, replication_factor=1)
    client.peer.ask(CreateTopicsRequest(topics=[topic], timeout_ms=30_000), 7)  # it may be there already
    client.until(list_offsets(name, 0), lambda answer: answer.topics[0].partitions[0].error_code == 0, 7)
    client.ask(produce(name, batch(b"a", key=b"k")))
    client.ask(produce(name, b""))
    deletion = DeleteRecordsRequest.DeleteRecordsTopic(
        name=name, partitions=[DeleteRecordsRequest.DeleteRecordsPartition(partition_index=0, offset=0)]
    )
    client.ask(DeleteRecordsRequest(topics=[deletion], timeout_ms=1000), 2)
