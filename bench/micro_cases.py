"""The cases of bench/micro.py: a function for each group, over a directory of its own."""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, Final, NamedTuple

from barnabas.broker.pending import Pending
from barnabas.config.log_config import LogConfig
from barnabas.protocol import codec
from barnabas.protocol.messages.fetch import FetchRequest, FetchResponse
from barnabas.protocol.messages.groups import HeartbeatRequest, HeartbeatResponse
from barnabas.protocol.messages.headers import RequestHeader, ResponseHeader
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataResponse
from barnabas.protocol.messages.produce import ProduceRequest, ProduceResponse
from barnabas.protocol.records.builder import build_batch
from barnabas.protocol.records.compression import CompressionType
from barnabas.protocol.schema import Message
from barnabas.protocol.wire import ZERO_UUID
from barnabas.storage.env import RealEnv
from barnabas.storage.log.unified_log import UnifiedLog
from barnabas.storage.manager.loader import open_log
from barnabas.storage.offsets import FetchIsolation
from bench.in_process import BenchBroker, frame
from bench.micro_timing import Figure, timed, timed_each

MIB: Final = 1 << 20
DAY_MS: Final = 24 * 3600 * 1000
TOPIC: Final = "orders"
TOPIC_ID: Final = bytes(range(16))
SEGMENTS: Final = 101
FETCHED_PARTITIONS: Final = 200
IDS_IN_FETCH: Final = 17
"""A version of Fetch in which topics go by id, as Java's consumer speaks it."""
MOST_BYTES: Final = 64 * MIB
"""What one figure writes at most: what is written faster than the disk takes it waits for the disk."""

Figures = dict[str, Figure]


class Shape(NamedTuple):
    """The records of a batch."""

    records: int
    size: int

    def batch(
        self,
        codec: CompressionType = CompressionType.NONE,
        at_ms: int | None = None,
        producer: tuple[int, int, int] = (-1, -1, -1),
    ) -> bytes:
        """Values of which half is noise. `producer` is id, epoch, sequence."""
        at_ms, noise = at_ms or _now_ms(), random.Random(self.size)
        half = self.size // 2
        values = [(noise.randbytes(half) + bytes(self.size - half)) for _ in range(self.records)]
        producer_id, epoch, sequence = producer
        return build_batch(
            [(None, value, at_ms, ()) for value in values],
            compression=codec,
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
        )


def _now_ms() -> int:
    return int(time.time() * 1000)


ONE, SIXTEEN_KIB, ONE_MB = Shape(1, 100), Shape(15, 1024), Shape(900, 1024)
SHAPES: Final = {
    "one message of 100 B": ONE,
    "16 KiB, 1 KiB messages": SIXTEEN_KIB,
    "1 MB, 1 KiB messages": ONE_MB,
}


# ---- codec


def codec_figures(_: Path, seconds: float) -> Figures:
    """Decoding or encoding of each hot message."""
    found = {}
    for message, is_ours in _hot_messages():
        kind, version = type(message), type(message).versions.high
        if is_ours:
            found[f"encode {kind.__name__}"] = timed(partial(codec.encode, message, version), seconds)
        else:
            data = codec.encode(message, version)
            found[f"decode {kind.__name__}"] = timed(partial(codec.decode, kind, version, data), seconds)
    return found


def _hot_messages() -> Iterator[tuple[Message, bool]]:
    """Each message, and whether the broker sends it."""
    records = SIXTEEN_KIB.batch()
    yield RequestHeader(request_api_key=0, request_api_version=9, correlation_id=1, client_id="bench"), False
    yield ResponseHeader(correlation_id=1), True
    yield _produce_request(records), False
    partition = ProduceResponse.PartitionProduceResponse(index=0, base_offset=1000)
    topic = ProduceResponse.TopicProduceResponse(topic_id=TOPIC_ID, partition_responses=[partition])
    yield ProduceResponse(responses=[topic]), True
    yield _fetch_request(1000), False
    data = FetchResponse.PartitionData(
        partition_index=0, high_watermark=2000, last_stable_offset=2000, log_start_offset=0, records=records
    )
    fetched = FetchResponse.FetchableTopicResponse(topic_id=TOPIC_ID, partitions=[data])
    yield FetchResponse(session_id=77, responses=[fetched]), True
    yield MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name=TOPIC)]), False
    yield _metadata_response(), True
    yield HeartbeatRequest(group_id="shop", generation_id=3, member_id="m-1"), False
    yield HeartbeatResponse(), True


def _metadata_response() -> MetadataResponse:
    broker = MetadataResponse.MetadataResponseBroker(node_id=1, host="localhost", port=9092)
    partition = MetadataResponse.MetadataResponsePartition(
        partition_index=0, leader_id=1, leader_epoch=7, replica_nodes=[1], isr_nodes=[1]
    )
    topic = MetadataResponse.MetadataResponseTopic(name=TOPIC, topic_id=TOPIC_ID, partitions=[partition])
    return MetadataResponse(brokers=[broker], cluster_id="vPeJZCfnS2uUUeCkQpoiQQ", topics=[topic])


def _produce_request(records: bytes, acks: int = 1, topic_id: bytes = TOPIC_ID) -> ProduceRequest:
    partition = ProduceRequest.PartitionProduceData(index=0, records=records)
    topic = ProduceRequest.TopicProduceData(name=TOPIC, topic_id=topic_id, partition_data=[partition])
    return ProduceRequest(acks=acks, timeout_ms=1000, topic_data=[topic])


def _fetch_request(offset: int, topic_id: bytes = TOPIC_ID) -> FetchRequest:
    partition = FetchRequest.FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=MIB)
    topic = FetchRequest.FetchTopic(topic=TOPIC, topic_id=topic_id, partitions=[partition])
    return FetchRequest(
        max_wait_ms=0, min_bytes=0, max_bytes=50 * MIB, session_id=0, session_epoch=-1, topics=[topic]
    )


# ---- append


def append_figures(directory: Path, seconds: float) -> Figures:
    """Batches without a producer id, with one, and compressed."""
    found = {}
    for name, shape in SHAPES.items():
        batch = shape.batch()
        found[name] = _append(directory, batch, seconds)
        found[f"{name}, producer id"] = _append_idempotent(directory, shape, len(batch), seconds)
    for kind in (CompressionType.LZ4, CompressionType.ZSTD):
        for name, shape in list(SHAPES.items())[1:]:
            found[f"{name}, {kind.label}"] = _append(directory, shape.batch(kind), seconds)
    return found


def _new_log(directory: Path, config: LogConfig | None = None) -> UnifiedLog:
    shutil.rmtree(directory)  # to keep writes to the disk few
    directory.mkdir()
    return open_log(RealEnv(), str(directory), TOPIC, 0, config or LogConfig())


def _append(directory: Path, batch: bytes, seconds: float) -> Figure:
    log = _new_log(directory)
    figure = timed(lambda: log.append_as_leader(batch, 0), seconds, MOST_BYTES // len(batch))
    log.close()
    return figure


def _append_idempotent(directory: Path, shape: Shape, size: int, seconds: float) -> Figure:
    log, sequences = _new_log(directory), count(0, shape.records)
    rounds = max(5, round(seconds * 100))
    batches = min(max(1, MOST_BYTES // size // rounds), 200)

    def make() -> Sequence[bytes]:
        return [shape.batch(producer=(1000, 0, next(sequences))) for _ in range(batches)]

    figure = timed_each(make, lambda batch: log.append_as_leader(batch, 0), rounds)
    log.close()
    return figure


# ---- read and lookup


def read_figures(directory: Path, seconds: float) -> Figures:
    """Slices of a log of many segments, which the network part sends or reads later, and where they begin."""
    log = _new_log(directory, LogConfig(segment_bytes=MIB))
    size, times = len(SIXTEEN_KIB.batch()), count(_now_ms() - DAY_MS)
    while log.segment_count < SEGMENTS:
        log.append_as_leader(SIXTEEN_KIB.batch(at_ms=next(times)), 0)
    last_ms = next(times)
    end, dice, step = log.log_end_offset, random.Random(1), SIXTEEN_KIB.records
    high_watermark = FetchIsolation.HIGH_WATERMARK
    offsets = [dice.randrange(end) for _ in range(1000)]

    def read(offset: int, size: int = MIB) -> Any:
        return log.read(offset, size, high_watermark, min_one_message=True)

    at_random, in_order = _cycle(offsets), _cycle(range(0, end, step))
    found = {
        "read at the end, nothing there": timed(lambda: read(end), seconds),
        "read of the last batch": timed(lambda: read(end - step), seconds),
        "read of the next batch, in order": timed(lambda: read(next(in_order), size), seconds),
        "read of 1 MiB at a random offset": timed(lambda: read(next(at_random)), seconds),
        "lookup of a random offset": timed(lambda: read(next(at_random), 1), seconds),
        "lookup of a timestamp": timed(
            lambda: log.fetch_offset_by_timestamp(last_ms - dice.randrange(end // step)), seconds
        ),
    }
    log.close()
    return found


def _cycle(offsets: Sequence[int]) -> Iterator[int]:
    while True:
        yield from offsets


# ---- dispatch


def dispatch_figures(directory: Path, seconds: float) -> Figures:
    """Frames as they come off the wire, in versions that librdkafka speaks."""
    broker = BenchBroker(directory)
    topic_id = broker.create_topic(TOPIC)
    found = {}
    for name, shape in SHAPES.items():
        for acks in (1, -1):
            data = frame(_produce_request(shape.batch(), acks, topic_id), 10)
            most = MOST_BYTES // len(data)
            found[f"Produce acks={acks}: {name}"] = timed(partial(broker.answer, data), seconds, most)
    partition = broker.inner.replica_manager.find(TOPIC, 0)
    assert partition is not None
    assert partition.log is not None
    for name, offset in (("1 MiB", 0), ("nothing there", partition.log.log_end_offset)):
        data = frame(_fetch_request(offset, topic_id), 11)
        found[f"Fetch: {name}"] = timed(partial(broker.answer, data), seconds)
    metadata = MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name=TOPIC)])
    found["Metadata: one topic"] = timed(partial(broker.answer, frame(metadata, 12)), seconds)
    broker.stop()
    return found


# ---- fetch


class SessionReader:
    """A consumer with a fetch session over all partitions of the topic; the answers are not decoded."""

    def __init__(self, broker: BenchBroker, topic_id: bytes) -> None:
        self.broker = broker
        self._topic_id = topic_id
        partitions = [_fetch_partition(index) for index in range(FETCHED_PARTITIONS)]
        broker.answer(frame(self._request(0, 0, partitions), IDS_IN_FETCH))
        (self.session_id,) = broker.inner.broker.fetch_manager.cache._sessions
        self._epochs = count(1)
        for one in self.frames(2):
            broker.answer(one)

    def frames(self, number: int, *partitions: FetchRequest.FetchPartition) -> list[bytes]:
        """The next requests, each of which names `partitions` again."""
        return [
            frame(self._request(self.session_id, next(self._epochs), partitions), IDS_IN_FETCH)
            for _ in range(number)
        ]

    def polls(self, offsets: Sequence[int]) -> list[bytes]:
        """The next requests, which continue in the first partition at each of the offsets and wait for records."""
        requests = [
            self._request(self.session_id, next(self._epochs), [_fetch_partition(0, at)], max_wait_ms=500)
            for at in offsets
        ]
        return [frame(request, IDS_IN_FETCH) for request in requests]

    def _request(
        self,
        session_id: int,
        epoch: int,
        partitions: Sequence[FetchRequest.FetchPartition],
        max_wait_ms: int = 0,
    ) -> FetchRequest:
        topic = FetchRequest.FetchTopic(topic_id=self._topic_id, partitions=list(partitions))
        return FetchRequest(
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            max_bytes=50 * MIB,
            session_id=session_id,
            session_epoch=epoch,
            topics=[topic] if partitions else [],
        )


def _fetch_partition(index: int, offset: int = 0) -> FetchRequest.FetchPartition:
    return FetchRequest.FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=MIB)


def fetch_figures(directory: Path, seconds: float) -> Figures:
    """Consumers of many partitions of which all have been read, or all but one."""
    broker = BenchBroker(directory)
    topic_id = broker.create_topic(TOPIC, FETCHED_PARTITIONS)
    reader, rounds = SessionReader(broker, topic_id), max(5, round(seconds * 100))
    everything = _fetch_request(0, topic_id)
    everything.topics[0].partitions = [_fetch_partition(index) for index in range(FETCHED_PARTITIONS)]
    without_session = partial(broker.answer, frame(everything, 11))
    found = {
        "session, nothing new": timed_each(lambda: reader.frames(200), broker.answer, rounds),
        "session, a partition named again": timed_each(
            lambda: reader.frames(200, _fetch_partition(7)), broker.answer, rounds
        ),
        "no session, nothing new": timed(without_session, seconds),
    }
    broker.answer(frame(_produce_request(ONE.batch(), topic_id=topic_id), 10))
    found |= {
        "session, records in one partition": timed_each(lambda: reader.frames(200), broker.answer, rounds),
        "no session, records in one partition": timed(without_session, seconds),
        "session, waits for an append": _long_polls(reader, rounds),
    }
    broker.stop()
    return found


def _long_polls(reader: SessionReader, rounds: int) -> Figure:
    """A fetch that waits, the append that completes it, and the response to both."""
    batch, offsets = ONE.batch(), count(1)
    append, handle = reader.broker.inner.replica_manager.append_records, reader.broker.handle
    entry = (TOPIC, 0, ZERO_UUID, batch, None)

    def poll(request: bytes) -> None:
        answer = handle(request)
        assert isinstance(answer, Pending)
        append([entry], 1, 500)
        assert answer.done

    return timed_each(lambda: reader.polls([next(offsets) for _ in range(200)]), poll, rounds)


# ---- network


def network_figures(_: Path, seconds: float) -> Figures:
    """The measurement of bench/bench_connection.py."""
    from bench.bench_connection import handler_us

    found = {}
    for number in (1, 5, 50):
        times = sorted(handler_us(number) for _ in range(3))
        found[f"a request, {number} in a read"] = Figure(times[0], times[1])
    return found


CASES: Final[Mapping[str, Callable[[Path, float], Figures]]] = {
    "codec": codec_figures,
    "append": append_figures,
    "read": read_figures,
    "dispatch": dispatch_figures,
    "fetch": fetch_figures,
    "network": network_figures,
}
