"""Time to decode and encode a message: the codec's engine, compiled and as plain Python, beside its oracle in
construct.

The claim is that the compiled engine is ten times as fast as construct at least, for Produce, Fetch and Metadata in
their newest versions, both ways.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from barnabas.protocol import codec, codec_engine, codec_program, reference
from barnabas.protocol.messages.fetch import FetchRequest, FetchResponse
from barnabas.protocol.messages.headers import RequestHeader
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataResponse
from barnabas.protocol.messages.produce import ProduceRequest, ProduceResponse
from bench import results
from bench.section import Section, Table, number
from tests.support.loops import codec_in_form

if TYPE_CHECKING:
    from collections.abc import Sequence

    from barnabas.protocol.schema import Message

PARTITIONS = 12
BROKERS = 3
BATCH = bytes(range(256)) * 4
TOPIC_ID = bytes(range(16))
LEAST_FACTOR = 10.0
SECONDS_PER_FIGURE = 0.2

Call = Callable[[], Any]


def messages() -> list[tuple[str, Message]]:
    """A header; a produce request of one partition and its answer; then both of each kind for one topic of twelve."""
    names = [f"orders-{index}" for index in range(PARTITIONS)]
    return [
        ("", RequestHeader(request_api_version=13, correlation_id=7, client_id="producer-1")),
        (", one partition", _produce_request(1)),
        (", one partition", _produce_response(1)),
        ("", _produce_request(PARTITIONS)),
        ("", _produce_response(PARTITIONS)),
        ("", _fetch_request()),
        ("", _fetch_response()),
        ("", MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name=name) for name in names])),
        ("", _metadata_response()),
    ]


def _produce_request(count: int) -> ProduceRequest:
    partitions = [ProduceRequest.PartitionProduceData(index=index, records=BATCH) for index in range(count)]
    topic = ProduceRequest.TopicProduceData(topic_id=TOPIC_ID, partition_data=partitions)
    return ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[topic])


def _produce_response(count: int) -> ProduceResponse:
    partitions = [
        ProduceResponse.PartitionProduceResponse(index=index, base_offset=1_000 * index)
        for index in range(count)
    ]
    topic = ProduceResponse.TopicProduceResponse(topic_id=TOPIC_ID, partition_responses=partitions)
    return ProduceResponse(responses=[topic])


def _fetch_request() -> FetchRequest:
    partitions = [
        FetchRequest.FetchPartition(
            partition=index, fetch_offset=1_000, current_leader_epoch=4, partition_max_bytes=1_048_576
        )
        for index in range(PARTITIONS)
    ]
    topic = FetchRequest.FetchTopic(topic_id=TOPIC_ID, partitions=partitions)
    return FetchRequest(
        max_wait_ms=500, min_bytes=1, max_bytes=52_428_800, session_id=77, session_epoch=3, topics=[topic]
    )


def _fetch_response() -> FetchResponse:
    partitions = [
        FetchResponse.PartitionData(
            partition_index=index,
            high_watermark=2_000,
            last_stable_offset=2_000,
            log_start_offset=0,
            aborted_transactions=None,
            records=BATCH,
        )
        for index in range(PARTITIONS)
    ]
    topic = FetchResponse.FetchableTopicResponse(topic_id=TOPIC_ID, partitions=partitions)
    return FetchResponse(session_id=77, responses=[topic])


def _metadata_response() -> MetadataResponse:
    nodes = list(range(1, BROKERS + 1))
    return MetadataResponse(
        brokers=[
            MetadataResponse.MetadataResponseBroker(node_id=node, host=f"kafka-{node}.example.org", port=9092)
            for node in nodes
        ],
        cluster_id="vPeJZCfnS2uUUeCkQpoiQQ",
        controller_id=1,
        topics=[
            MetadataResponse.MetadataResponseTopic(
                name="orders",
                topic_id=TOPIC_ID,
                partitions=[
                    MetadataResponse.MetadataResponsePartition(
                        partition_index=index,
                        leader_id=nodes[index % BROKERS],
                        leader_epoch=7,
                        replica_nodes=nodes,
                        isr_nodes=nodes,
                    )
                    for index in range(PARTITIONS)
                ],
            )
        ],
    )


def microseconds(call: Call) -> float:
    """The best of several rounds, per call: the cost when no other process has the processor."""
    call()
    calls, best, deadline = 1, float("inf"), time.perf_counter() + SECONDS_PER_FIGURE
    while time.perf_counter() < deadline:
        began = time.perf_counter()
        for _ in range(calls):
            call()
        took = time.perf_counter() - began
        best = min(best, took / calls)
        if took < 0.005:
            calls *= 2
    return best * 1e6


def run() -> list[dict[str, Any]]:
    """A row per message and direction: the microseconds of each codec, and how many times as fast ours is."""
    rows = []
    for note, message in messages():
        rows.append(_row(message, note, "decode", _decoding))
        rows.append(_row(message, note, "encode", _encoding))
    return rows


def _decoding(engine: Any, message: Message, data: bytes) -> Call:
    kind, version = type(message), type(message).versions.high
    if engine is reference:
        return lambda: reference.parse(kind, version, data)
    decode = engine.make_decoder(kind, version)
    return lambda: decode(data, 0, len(data))


def _encoding(engine: Any, message: Message, _data: bytes) -> Call:
    kind, version = type(message), type(message).versions.high
    if engine is reference:
        return lambda: reference.build(message, version)
    encode = engine.make_encoder(kind, version)
    return lambda: encode(message, [])


def _row(
    message: Message, note: str, direction: str, calls: Callable[[Any, Message, bytes], Call]
) -> dict[str, Any]:
    version = type(message).versions.high
    data = codec.encode(message, version)
    plain = microseconds(calls(codec_in_form("plain"), message, data))
    compiled = microseconds(calls(codec_program, message, data)) if codec_engine.COMPILED else None
    slow = microseconds(calls(reference, message, data))
    return {
        "message": f"{type(message).__name__} v{version}{note}",
        "bytes": len(data),
        "direction": direction,
        "compiled_us": None if compiled is None else round(compiled, 2),
        "plain_us": round(plain, 2),
        "construct_us": round(slow, 1),
        "factor": round(slow / (compiled or plain), 1),
    }


def report(rows: list[dict[str, Any]]) -> Section:
    """The section of the document."""
    heads = ["", "bytes", "compiled us", "without a C compiler us", "construct us", "times as fast"]
    cells = [
        [
            f"{row['message']}, {row['direction']}",
            number(row["bytes"], 0),
            "-" if row["compiled_us"] is None else number(row["compiled_us"], 2),
            number(row["plain_us"], 2),
            number(row["construct_us"], 1),
            number(row["factor"], 1),
        ]
        for row in rows
    ]
    return Section(
        name="codec",
        title="A message, compiled and interpreted",
        prose=[
            "Each message is declared once. construct interprets what that comes to; the server runs it in a compiled "
            "engine, or, where there was no C compiler, in the same engine as plain Python. The claim is that the "
            f"compiled engine is {LEAST_FACTOR:.0f} times as fast as construct at least. Best of many short rounds, "
            f"newest versions, one topic of {PARTITIONS} partitions where no other number is given."
        ],
        tables=[Table(heads, cells)],
        figures={
            f"{row['message']} {row['direction']} us": row["compiled_us"] or row["plain_us"] for row in rows
        },
    )


def main(argv: Sequence[str] | None = None) -> None:
    """Publishes the table; exits with status 1 when a row is below the claim."""
    options = results.arguments(__doc__).parse_args(argv)
    rows = run()
    results.publish(report(rows), options)
    if codec_engine.COMPILED and any(row["factor"] < LEAST_FACTOR for row in rows):
        sys.exit(f"the compiled codec is less than {LEAST_FACTOR:.0f} times as fast as construct somewhere")


if __name__ == "__main__":
    main()
