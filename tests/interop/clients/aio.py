"""aiokafka."""

from __future__ import annotations

import asyncio

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from tests.interop.clients.base import SilenceTimer, StockClient
from tests.interop.workload import Digests, Workload


class Aiokafka(StockClient):
    """The asyncio client; by default neither idempotent nor acks=all."""

    name = "aiokafka"
    # AIOKafkaProducer.send() requires a value in every header, and a key or a value in every record.
    null_headers = False
    bare = False

    def produce(self, bootstrap: str, topic: str, workload: Workload, codec: str) -> Digests:
        """Sends without waiting for each; the producer's own limits slow it down."""
        return asyncio.run(_produce(bootstrap, topic, workload, codec))

    def consume(self, bootstrap: str, topic: str, partitions: int, count: int) -> Digests:
        """Assigns the partitions and reads from the beginning."""
        return asyncio.run(_consume(bootstrap, topic, partitions, count))


async def _produce(bootstrap: str, topic: str, workload: Workload, codec: str) -> Digests:
    digests = Digests(workload.partitions)
    # acks=all keeps the order within a partition even when a request has to be sent again.
    producer = AIOKafkaProducer(
        bootstrap_servers=bootstrap,
        compression_type=None if codec == "none" else codec,
        enable_idempotence=True,
    )
    await producer.start()
    try:
        waiting: list[asyncio.Future[object]] = []
        for record in workload.records():
            waiting.append(
                await producer.send(
                    topic,
                    record.value,
                    record.key,
                    record.partition,
                    record.timestamp_ms,
                    headers=list(record.headers),
                )
            )
            digests.add(record)
            if len(waiting) == 10_000:
                await asyncio.gather(*waiting)
                waiting.clear()
        await asyncio.gather(*waiting)
    finally:
        await producer.stop()
    return digests


async def _consume(bootstrap: str, topic: str, partitions: int, count: int) -> Digests:
    digests, silence = Digests(partitions), SilenceTimer()
    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap)
    await consumer.start()
    try:
        assigned = [TopicPartition(topic, number) for number in range(partitions)]
        consumer.assign(assigned)
        await consumer.seek_to_beginning(*assigned)
        while digests.count < count:
            fetched = await consumer.getmany(timeout_ms=1000)
            for partition, records in fetched.items():
                digest = digests.of[partition.partition]
                for record in records:
                    assert record.offset == digest.count
                    digest.add(record.key, record.value, record.headers, record.timestamp)
            if fetched:
                silence.received()
            silence.check(digests, count)
    finally:
        await consumer.stop()
    return digests
