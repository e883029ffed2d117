"""Produce and consume through each broker with the same client on the same machine, in turns.

Client and broker share the machine, so beside each rate stands the processor time that the broker used for it, which
depends less on the client than the rate does.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

from bench.brokers import Broker, Factory, cpu_s, fresh

COUNT = 100_000
SIZE = 1024
ROUNDS = 3
LIMIT_S = 120.0


class Sample(NamedTuple):
    """One run of one workload."""

    rate_mb_s: float
    broker_cpu_s: float


def timed(broker: Broker, work: Callable[[], None]) -> Sample:
    """Runs the work; what it took, and what it cost the broker."""
    cpu, started = cpu_s(broker), time.perf_counter()
    work()
    elapsed = time.perf_counter() - started
    return Sample(COUNT * SIZE / elapsed / 1e6, cpu_s(broker) - cpu)


def produce(broker: Broker, topic: str, codec: str) -> None:
    """acks=all, 5 ms of linger, values that compress to about a half."""
    producer = Producer(
        {"bootstrap.servers": broker.bootstrap, "acks": "all", "linger.ms": 5, "compression.type": codec}
    )
    values = [(b"%d " % number * SIZE)[: SIZE // 2] + _noise(number) for number in range(500)]
    for number in range(COUNT):
        while True:
            try:
                producer.produce(topic, values[number % len(values)], partition=0)
                break
            except BufferError:
                producer.poll(0.01)
    if producer.flush(LIMIT_S):
        raise TimeoutError("not everything was acknowledged")


def _noise(seed: int) -> bytes:
    state, out = seed + 1, bytearray()
    while len(out) < SIZE // 2:
        state = state * 6364136223846793005 + 1442695040888963407 & (1 << 64) - 1
        out += state.to_bytes(8, "big")
    return bytes(out)


def consume(consumer: Consumer, topic: str) -> None:
    """All of it from the beginning."""
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    got, deadline = 0, time.monotonic() + LIMIT_S
    while got < COUNT:
        if time.monotonic() > deadline:
            raise TimeoutError(f"{got} of {COUNT} records")
        # What is asked for but does not come is waited for, so the last call asks for just what is left.
        got += sum(message.error() is None for message in consumer.consume(min(10_000, COUNT - got), 0.5))


def one_round(broker: Broker, number: int) -> dict[str, Sample]:
    """Each workload once, on topics of its own."""
    samples = {}
    for codec in ("none", "lz4"):
        topic = f"{codec}-{number}"
        samples[f"produce {codec}"] = timed(broker, partial(produce, broker, topic, codec))
        consumer = Consumer(
            {"bootstrap.servers": broker.bootstrap, "group.id": "bench", "enable.auto.commit": False}
        )
        consumer.list_topics(topic, timeout=LIMIT_S)
        samples[f"consume {codec}"] = timed(broker, partial(consume, consumer, topic))
        consumer.close()
    return samples


def report(factories: dict[str, Factory], rounds: int = ROUNDS) -> None:
    """Prints rate and processor time for each workload and broker, the medians of some rounds."""
    print(f"{COUNT} records of {SIZE} bytes, one partition, acks=all")
    print(f"{'':<24}{'workload':<16}{'MB/s':>8}{'broker CPU s':>14}")
    for name, factory in factories.items():
        with fresh(factory) as broker:
            broker.start()
            samples = [one_round(broker, number) for number in range(rounds)]
        for workload in samples[0]:
            rate = statistics.median(sample[workload].rate_mb_s for sample in samples)
            cpu = statistics.median(sample[workload].broker_cpu_s for sample in samples)
            print(f"{name:<24}{workload:<16}{rate:>8.1f}{cpu:>14.2f}", flush=True)
