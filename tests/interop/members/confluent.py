"""Members by confluent-kafka: `python -m tests.interop.members.confluent BOOTSTRAP`."""

from __future__ import annotations

import contextlib
import sys
import threading
from typing import Any

from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition

from tests.interop.members.lines import (
    Member,
    print_assigned,
    print_committed,
    print_line,
    print_received,
    run_program,
)

BOOTSTRAP = sys.argv[1] if len(sys.argv) > 1 else ""
STRATEGIES = {"eager": "range,roundrobin", "cooperative": "cooperative-sticky"}


def config(member: Member) -> dict[str, Any]:
    """The configuration of the consumer."""
    common: dict[str, Any] = {
        "bootstrap.servers": BOOTSTRAP,
        "group.id": member.group,
        "client.id": member.name,
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
        "isolation.level": "read_committed",
        "log_level": 0,
    }
    if member.instance:
        common["group.instance.id"] = member.instance
    if member.protocol == "consumer":
        return common | {"group.protocol": "consumer"}
    return common | {
        "partition.assignment.strategy": STRATEGIES[member.protocol],
        "session.timeout.ms": 1500,
        "heartbeat.interval.ms": 300,
    }


class OwnershipListener:
    """Reports the consumer's partitions, by its callbacks."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._now: set[int] = set()

    def assigned(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        """Adds the new partitions."""
        self._now |= {one.partition for one in partitions}
        print_assigned(self._name, self._now)

    def removed(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        """Removes revoked or lost partitions."""
        self._now -= {one.partition for one in partitions}
        print_assigned(self._name, self._now)


def run_member(member: Member, leave: threading.Event) -> None:
    """Reads or copies records until `leave` is set."""
    consumer, owned = Consumer(config(member)), OwnershipListener(member.name)
    consumer.subscribe(
        [member.topic], on_assign=owned.assigned, on_revoke=owned.removed, on_lost=owned.removed
    )
    chain = Chain(member, consumer) if member.target else None
    try:
        while not leave.is_set():
            messages = [one for one in consumer.consume(500, 0.1) if one.error() is None]
            offsets = by_partition(messages)
            if not offsets:
                continue
            print_received(member.name, offsets)
            if chain:
                chain.copy(messages, offsets)
            else:
                commit(consumer, member, offsets)
    finally:
        consumer.close()


def by_partition(messages: list[Message]) -> dict[int, list[int]]:
    """The offsets of the messages by partition."""
    offsets: dict[int, list[int]] = {}
    for message in messages:
        partition, offset = message.partition(), message.offset()
        assert partition is not None
        assert offset is not None
        offsets.setdefault(partition, []).append(offset)
    return offsets


def next_offsets(topic: str, offsets: dict[int, list[int]]) -> list[TopicPartition]:
    """The offset after the last received one of each partition."""
    return [TopicPartition(topic, partition, handed[-1] + 1) for partition, handed in offsets.items()]


def commit(consumer: Consumer, member: Member, offsets: dict[int, list[int]]) -> None:
    """Commits and reports the result; records of a rejected commit are read again if the member still owns them."""
    try:
        done = consumer.commit(offsets=next_offsets(member.topic, offsets), asynchronous=False) or []
    except KafkaException as error:
        print_line("uncommitted", member.name, error)
        seek_to_committed(consumer, member, offsets)
        return
    print_committed(member.name, {one.partition: one.offset for one in done if one.error is None})
    rejected = {one.partition: one.error for one in done if one.error is not None}
    if rejected:
        print_line("uncommitted", member.name, rejected)
        seek_to_committed(consumer, member, {partition: offsets[partition] for partition in rejected})


def seek_to_committed(consumer: Consumer, member: Member, offsets: dict[int, list[int]]) -> None:
    """Seeks to the committed offsets: a commit without a response may have happened.

    A cooperative member keeps its partitions, and its position in them, through a rebalance in which its commit was
    rejected. Without seeking, the last records before a silence would stay uncommitted.
    """
    ends = committed_offsets(consumer, next_offsets(member.topic, offsets))
    print_committed(member.name, ends)
    for partition, handed in offsets.items():
        start = max(ends.get(partition, 0), handed[0])
        with contextlib.suppress(KafkaException):  # another member has the partition now
            consumer.seek(TopicPartition(member.topic, partition, start))


def committed_offsets(consumer: Consumer, partitions: list[TopicPartition]) -> dict[int, int]:
    """The committed offsets; without partitions that have none, and empty without a response."""
    for _ in range(3):
        with contextlib.suppress(KafkaException):
            there = consumer.committed(partitions, 10)
            return {one.partition: one.offset for one in there if one.error is None and one.offset >= 0}
    return {}


class Chain:
    """Copies each batch of records by a transaction."""

    def __init__(self, member: Member, consumer: Consumer) -> None:
        self._member = member
        self._consumer = consumer
        self._count = 0
        self._producer = self._start()

    def copy(self, messages: list[Message], offsets: dict[int, list[int]]) -> None:
        """Commits, or aborts and reads the records again."""
        assert self._member.target is not None
        self._count += 1
        fails = self._member.abort_every and self._count % self._member.abort_every == 0
        try:
            self._producer.begin_transaction()
            for message in messages:
                self._producer.produce(self._member.target, message.value(), message.key())
            self._producer.send_offsets_to_transaction(
                next_offsets(self._member.topic, offsets), self._consumer.consumer_group_metadata(), 10
            )
            if fails:
                self._give_up("on purpose", offsets)
            else:
                self._commit()
                print_committed(
                    self._member.name, {number: handed[-1] + 1 for number, handed in offsets.items()}
                )
        except KafkaException as error:
            self._give_up(str(error), offsets)

    def _give_up(self, reason: str, offsets: dict[int, list[int]]) -> None:
        print_line("uncommitted", self._member.name, reason)
        try:
            self._producer.abort_transaction(10)
        except KafkaException:
            self._producer = self._start()
        seek_to_committed(self._consumer, self._member, offsets)

    def _commit(self) -> None:
        for attempt in range(5):
            try:
                self._producer.commit_transaction(10)
            except KafkaException as error:
                # Without the result of a commit a producer may only retry it.
                if not error.args[0].retriable() or attempt == 4:
                    raise
            else:
                return

    def _start(self) -> Producer:
        settings = {
            "bootstrap.servers": BOOTSTRAP,
            "transactional.id": self._member.name,
            "transaction.timeout.ms": 5000,
            "log_level": 0,
        }
        producer = Producer(settings)
        producer.init_transactions(30)
        return producer


if __name__ == "__main__":
    run_program(run_member)
