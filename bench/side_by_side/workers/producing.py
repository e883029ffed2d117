"""Producers of librdkafka: as many messages as they can, in batches or one to a request."""

from __future__ import annotations

import time
from collections.abc import Generator
from typing import Any, Final

from confluent_kafka import KafkaError, Producer

from bench.side_by_side.job import Job, Outcome, values

FLUSH_S: Final = 60.0
QUIET: Final[dict[str, Any]] = {"client.id": "bench", "log_level": 2}
_QUEUE_BYTES: Final = 50_000_000
_OUTSTANDING: Final = 40
_LINGER_MS: Final = 5


def connected(job: Job, **settings: Any) -> Producer:
    """A producer that knows the topic already."""
    producer = Producer(
        {
            "bootstrap.servers": job.bootstrap,
            "acks": job.acks,
            "delivery.report.only.error": True,
            **QUIET,
            **settings,
            **job.settings,
        }
    )
    producer.list_topics(job.topic, timeout=10)
    return producer


def produce(job: Job) -> Generator[None, None, Outcome]:
    """`count` messages, or as many as fit into `cap_s`, at `rate` if there is one; in transactions if they last."""
    producer = connected(
        job, **{"linger.ms": _LINGER_MS, "queue.buffering.max.messages": 1_000_000, **_transactional(job)}
    )
    if job.transaction_s:
        producer.init_transactions(FLUSH_S)
    messages: list[dict[str, Any]] = [{"value": value} for value in values(job.size)]
    if job.keyed:
        messages = [{**message, "key": b"key-%d" % n} for n, message in enumerate(messages)]
    if job.spread:
        # Left alone, librdkafka stays with one partition for as long as it lingers.
        rounds = max(job.partitions // 100, 1)
        messages = [
            {**message, "partition": n % job.partitions} for n, message in enumerate(messages * rounds)
        ]
    room = max(2 * len(messages), min(100_000, _QUEUE_BYTES // job.size)) - len(messages)
    beside = 0 if job.transaction_s else first_messages(producer, job, messages[0])
    yield
    began, sent, commits = time.monotonic(), 0, 0
    while sent < job.count and time.monotonic() - began < job.cap_s:
        if job.transaction_s:
            producer.begin_transaction()
        pause = time.monotonic() + job.transaction_s if job.transaction_s else began + job.cap_s
        while sent < job.count and time.monotonic() < pause:
            while len(producer) > room or (job.rate and sent > (time.monotonic() - began) * job.rate):
                producer.poll(0.001)
            sent += producer.produce_batch(job.topic, messages)
        if job.transaction_s:
            producer.commit_transaction(FLUSH_S)
            commits += 1
    left = producer.flush(FLUSH_S)
    seconds = time.monotonic() - began
    return Outcome(
        done=sent - left,
        missing=left,
        seconds=seconds,
        bytes=(sent - left) * job.size,
        beside=beside + commits * job.partitions,
    )


def first_messages(producer: Producer, job: Job, message: dict[str, Any]) -> int:
    """Sends the first message to one partition, or one to each where the job connects; returns how many there were."""
    partitions = range(job.partitions if job.connects else 1)
    return sum(first_message(producer, job.topic, {**message, "partition": number}) for number in partitions)


def first_message(producer: Producer, topic: str, message: dict[str, Any]) -> int:
    """Sends one message and waits; returns 1. Only then is there a connection to the leader, and a producer id.

    An idempotent producer that asks for its id before it is connected asks again half a second later, which is longer
    than what is measured takes.
    """
    errors: list[KafkaError] = []
    producer.produce(
        topic,
        **{"partition": 0, **message},
        on_delivery=lambda error, _: errors.append(error) if error else None,
    )
    assert producer.flush(FLUSH_S) == 0, topic
    assert not errors, errors
    return 1


def _transactional(job: Job) -> dict[str, Any]:
    return {"transactional.id": f"bench-{job.topic}"} if job.transaction_s else {}


def one_each(job: Job) -> Generator[None, None, Outcome]:
    """`clients` producers for `seconds`, each message in a request of its own, `in_flight` requests at a time."""
    producers = [
        connected(
            job,
            **{
                "linger.ms": 0,
                "batch.num.messages": 1,
                "max.in.flight.requests.per.connection": job.in_flight,
                "queue.buffering.max.messages": 1000,
            },
        )
        for _ in range(job.clients)
    ]
    (value,) = values(job.size, 1)
    beside = sum(first_messages(each, job, {"value": value}) for each in producers) if job.connects else 0
    yield
    began, sent = time.monotonic(), 0
    while time.monotonic() - began < job.seconds:
        idle = True
        for number, producer in enumerate(producers):
            room = _OUTSTANDING - len(producer)
            if room >= _OUTSTANDING // 2:
                idle = False
                for _ in range(room):
                    producer.produce(job.topic, value, partition=(sent + number) % job.partitions)
                    sent += 1
            producer.poll(0)
        if idle:
            time.sleep(0.0005)
    left = sum(producer.flush(FLUSH_S) for producer in producers)
    return Outcome(
        done=sent - left,
        missing=left,
        seconds=time.monotonic() - began,
        bytes=(sent - left) * job.size,
        beside=beside,
    )
