"""Logs: Produce, Fetch with and without sessions, and the offsets of a partition."""

from __future__ import annotations

import struct
from typing import Any, Final

from barnabas.protocol.messages.fetch import FetchRequest
from barnabas.protocol.messages.offsets import (
    DeleteRecordsRequest,
    ListOffsetsRequest,
    OffsetForLeaderEpochRequest,
)
from barnabas.protocol.messages.produce import ProduceRequest
from barnabas.protocol.messages.producers import DescribeProducersRequest
from barnabas.protocol.records.builder import build_batch
from barnabas.protocol.records.checksum import crc32c
from barnabas.protocol.records.compression import CompressionType
from barnabas.protocol.records.layout import CRC_POSITION, CRC_START, RECORD_BATCH_OVERHEAD
from barnabas.protocol.schema import Message
from tests.conformance.differential.areas import producers
from tests.conformance.differential.steps import Step
from tests.conformance.differential.world import Producer, Session, Topic, World

START_MS: Final = 1_700_000_000_000
"""The first timestamp of records: far enough from now to be distinguished from it."""

FAR_MS: Final = 4_000_000_000_000
"""A timestamp too far in the future for any topic."""

TIMESTAMPS: Final = (-1, -2, -3, -4, -5, -6, -7, 0, START_MS, START_MS + 3, START_MS + 50, FAR_MS)
"""Timestamps of ListOffsets: the special ones, one without a meaning, and times."""

WAITS_MS: Final = 300_000
"""Longer than any sequence takes, so that only new records complete the Fetch."""

HEADER_FROM_ATTRIBUTES: Final = struct.Struct(">hiqqqhii")


# ---- Produce


def produce(world: World) -> Message:
    """Records without a producer id, or of an idempotent producer."""
    producer = None
    if world.chance(0.45):
        idempotent = [known for known in world.producers if known.transactional_id is None]
        producer = world.one(idempotent) if idempotent else None
    acks = world.mostly(world.one([-1, 1]), [0, 2, -2], 0.08)
    if acks == 0:
        producer = None  # whether the batch was appended would show much later
    return produce_request(world, producer, acks=acks)


def produce_request(
    world: World, producer: Producer | None, *, transactional: bool = False, acks: int = -1
) -> ProduceRequest:
    """Records for one or two partitions of one or two topics."""
    topics = world.some_topics(world.mostly(1, [2, 0], 0.1))
    data = [_topic_data(world, topic, producer, transactional) for topic in topics]
    parts = [part for topic in data for part in topic.partition_data]
    if len(parts) > 1:  # Kafka never answers when one of several partitions has null records
        for part in parts:
            part.records = part.records or b""
    wanted = producer.transactional_id if transactional and producer else None
    return ProduceRequest(
        transactional_id=world.mostly(wanted, [None, world.transactional_id()], 0.04),
        acks=acks,
        timeout_ms=10_000,
        topic_data=data,
    )


def _topic_data(
    world: World, topic: Topic, producer: Producer | None, transactional: bool
) -> ProduceRequest.TopicProduceData:
    wanted = {world.partition(topic) for _ in range(world.mostly(1, [2], 0.25))}
    return ProduceRequest.TopicProduceData(
        name=topic.name,
        topic_id=topic.token,
        partition_data=[
            ProduceRequest.PartitionProduceData(
                index=index, records=records(world, topic, index, producer, transactional)
            )
            for index in sorted(wanted)
        ],
    )


def records(
    world: World, topic: Topic, partition: int, producer: Producer | None, transactional: bool
) -> bytes | None:
    """A valid batch, or rarely an invalid one."""
    whole = _batch(world, topic, partition, producer, transactional)
    if world.chance(0.9):
        return whole
    kind = world.dice.randrange(8)
    if kind == 0:
        return world.mostly(b"", [None], 0.1)
    if kind <= 2:
        return whole + _batch(world, topic, partition, producer, transactional)
    if kind == 3:
        return whole[: world.dice.randrange(len(whole))]
    if kind == 4:
        return _with_byte(whole, 16, world.dice.randrange(4))
    return _damaged(world, whole)


def _batch(
    world: World, topic: Topic, partition: int, producer: Producer | None, transactional: bool
) -> bytes:
    start = world.mostly(START_MS + world.dice.randrange(100), [-1, 0, FAR_MS, -2], 0.12)
    count = world.dice.randint(1, 3)
    made = [
        (
            world.mostly(b"k%d" % at, [None, b""]),
            world.mostly(b"v" * (1 + at), [None, b""]),
            start + at * (start > 0),
            (),
        )
        for at in range(count)
    ]
    codec = CompressionType(world.mostly(0, [1, 2, 3, 4], 0.2))
    fields: dict[str, Any] = {}
    if producer is not None:
        sequence = producer.next_sequences.get((topic.name, partition), 0)
        fields = {
            "producer_id": producer.producer_id,
            "producer_epoch": world.epoch_of(producer),
            "base_sequence": max(
                0 if transactional else -1, sequence + world.mostly(0, [-1, 1, -2, 5], 0.08)
            ),
        }
    elif world.chance(0.02):
        fields = {"producer_epoch": world.one([0, -2]), "base_sequence": world.one([-1, 0])}
    if transactional is not world.chance(0.02):
        fields["is_transactional"] = True
    if world.chance(0.04):
        fields["base_offset"] = world.one([1, 100, 2**40])
    if world.chance(0.01):
        fields["is_control"] = True
    return build_batch(made, compression=codec, **fields)


def _key(world: World, at: int) -> bytes | None:
    return world.mostly(b"k%d" % at, [None, b""])


def _damaged(world: World, whole: bytes) -> bytes:
    """The batch with one changed field, mostly with the right checksum."""
    data = bytearray(whole)
    kind = world.dice.randrange(8)
    if kind == 0:  # attributes: unknown bits, another codec, the timestamp type
        (attributes,) = struct.unpack_from(">h", data, 21)
        struct.pack_into(
            ">h", data, 21, attributes ^ world.one([0x08, 0x20, 0x40, 0x80, 0x100, 0x4000, 5, 7])
        )
    elif kind == 1:
        struct.pack_into(">i", data, 23, world.one([-1, 0, 5]))  # last offset delta
    elif kind == 2:
        struct.pack_into(">i", data, 57, world.one([-1, 0, 1, 9]))  # record count
    elif kind == 3:
        struct.pack_into(">q", data, 27, world.one([-1, START_MS, FAR_MS]))  # base timestamp
    elif kind == 4:
        struct.pack_into(">q", data, 35, world.one([-1, START_MS, FAR_MS]))  # max timestamp
    elif kind == 5:
        struct.pack_into(">h", data, 51, world.one([-1, -2, 0, 3, 32_767]))  # producer epoch
    elif kind == 6:
        struct.pack_into(">i", data, 12, world.one([-1, 0, 5]))  # leader epoch
    else:
        data[-1] ^= 1 << world.dice.randrange(8)
    if world.chance(0.85):
        struct.pack_into(">I", data, CRC_POSITION, crc32c(bytes(data[CRC_START:])))
    return bytes(data)


def _with_byte(data: bytes, position: int, value: int) -> bytes:
    return data[:position] + bytes([value]) + data[position + 1 :]


# ---- Fetch


def fetch(world: World) -> Message:
    """Fetches some partitions, in a third of all cases in a session or to begin one."""
    session_id, epoch = _session(world)
    wanted = [_fetch_topic(world) for _ in range(world.mostly(1, [0, 2], 0.25))]
    waits = world.chance(0.06)
    return FetchRequest(
        max_wait_ms=world.one([20, WAITS_MS]) if waits else 0,
        min_bytes=world.mostly(1, [0, 100_000, -1], 0.1) if waits else world.mostly(1, [0, 500, -1]),
        max_bytes=world.mostly(10_000_000, [0, 1, 80, 300], 0.15),
        isolation_level=world.mostly(world.one([0, 1]), [], 0),
        session_id=session_id,
        session_epoch=epoch,
        topics=wanted,
        forgotten_topics_data=[_forgotten(world)] if world.chance(0.08) else [],
    )


def _session(world: World) -> tuple[int, int]:
    if world.chance(0.6):
        return 0, -1
    if world.sessions and world.chance(0.7):
        session = world.one(world.sessions)
        return session.session_id, session.epoch + world.mostly(0, [1, -1, -2], 0.12)
    return world.mostly(0, [4711], 0.05), world.mostly(0, [-1, 1, -2, 5], 0.2)


def _fetch_topic(world: World) -> FetchRequest.FetchTopic:
    topic = world.topic()
    wanted = {world.partition(topic) for _ in range(world.dice.randint(1, 2))}
    return FetchRequest.FetchTopic(
        topic=topic.name,
        topic_id=topic.token,
        partitions=[
            FetchRequest.FetchPartition(
                partition=index,
                current_leader_epoch=world.leader_epoch(),
                fetch_offset=world.offset(topic, index),
                last_fetched_epoch=world.mostly(-1, [0, 1, -2], 0.1),
                log_start_offset=world.mostly(-1, [0, 3], 0.1),
                partition_max_bytes=world.mostly(1_000_000, [0, 1, 75, 200], 0.15),
            )
            for index in sorted(wanted)
        ],
    )


def _forgotten(world: World) -> FetchRequest.ForgottenTopic:
    topic = world.topic()
    return FetchRequest.ForgottenTopic(
        topic=topic.name, topic_id=topic.token, partitions=[world.partition(topic)]
    )


# ---- offsets


def list_offsets(world: World) -> Message:
    """Lists offsets by time, or special ones."""
    return ListOffsetsRequest(
        replica_id=world.mostly(-1, [-2, -3, 0, 1], 0.05),
        isolation_level=world.one([0, 1]),
        timeout_ms=5_000,
        topics=[
            ListOffsetsRequest.ListOffsetsTopic(
                name=topic.name,
                partitions=[
                    ListOffsetsRequest.ListOffsetsPartition(
                        partition_index=world.partition(topic),
                        current_leader_epoch=world.leader_epoch(),
                        timestamp=world.one(TIMESTAMPS),
                    )
                    for _ in range(world.mostly(1, [2], 0.2))
                ],
            )
            for topic in world.some_topics(world.mostly(1, [2], 0.1))
        ],
    )


def offset_for_leader_epoch(world: World) -> Message:
    """The end offsets of leader epochs."""
    topic = world.topic()
    partition = OffsetForLeaderEpochRequest.OffsetForLeaderPartition(
        partition=world.partition(topic),
        current_leader_epoch=world.leader_epoch(),
        leader_epoch=world.one([-2, -1, 0, 0, 1, 5]),
    )
    wanted = OffsetForLeaderEpochRequest.OffsetForLeaderTopic(topic=topic.name, partitions=[partition])
    return OffsetForLeaderEpochRequest(replica_id=-1, topics=[wanted])


def delete_records(world: World) -> Message:
    """Advances log start offsets."""
    topic = world.topic()
    return DeleteRecordsRequest(
        topics=[
            DeleteRecordsRequest.DeleteRecordsTopic(
                name=topic.name,
                partitions=[
                    DeleteRecordsRequest.DeleteRecordsPartition(
                        partition_index=index, offset=world.offset(topic, index)
                    )
                    for index in sorted({world.partition(topic) for _ in range(world.dice.randint(1, 2))})
                ],
            )
        ],
        timeout_ms=5_000,
    )


def describe_producers(world: World) -> Message:
    """The active producers of a partition."""
    topic = world.topic()
    wanted = DescribeProducersRequest.TopicRequest(
        name=topic.name, partition_indexes=[world.partition(topic) for _ in range(world.mostly(1, [0, 2]))]
    )
    return DescribeProducersRequest(topics=[wanted])


DRAWS: Final = (
    (10, produce),
    (10, fetch),
    (2, producers.init_producer_id),
    (5, list_offsets),
    (2, offset_for_leader_epoch),
    (2, delete_records),
    (2, describe_producers),
)


# ---- what responses show


def learn(world: World, step: Step, answer: Any) -> None:
    """Learns log end offsets, sequence numbers of producers, and fetch sessions."""
    producers.learn(world, step, answer)
    request = step.request
    if isinstance(request, ProduceRequest):
        _learn_produced(world, request, answer)
    elif isinstance(request, FetchRequest) and answer["session_id"]:
        _learn_session(world, request, answer)


def _learn_produced(world: World, request: ProduceRequest, answer: Any) -> None:
    sent = {
        (data.name or world.name_of(data.topic_id), part.index): part.records
        for data in request.topic_data
        for part in data.partition_data
    }
    for response in answer["responses"]:
        name = response["name"] or world.name_of(response["topic_id"])
        for part in response["partition_responses"]:
            topic, data = world.topics.get(name), sent.get((name, part["index"]))
            if part["error_code"] == 0 and topic is not None and data:
                _learn_batch(world, topic, part["index"], part["base_offset"], bytes(data))


def _learn_batch(world: World, topic: Topic, index: int, base_offset: int, data: bytes) -> None:
    if len(data) < RECORD_BATCH_OVERHEAD:
        return
    _, delta, _, _, producer_id, epoch, sequence, count = HEADER_FROM_ATTRIBUTES.unpack_from(data, 21)
    topic.ends[index] = max(topic.ends.get(index, 0), base_offset + delta + 1)
    for producer in world.producers:
        if (producer.producer_id, producer.epoch) == (producer_id, epoch):
            producer.next_sequences[topic.name, index] = sequence + count


def _learn_session(world: World, request: FetchRequest, answer: Any) -> None:
    session_id = answer["session_id"]
    known = next((one for one in world.sessions if one.session_id == session_id), None)
    if known is None:
        world.sessions.append(Session(session_id, 1))
    elif answer["error_code"] == 0:
        known.epoch = 1 if request.session_epoch == 0 else request.session_epoch + 1
