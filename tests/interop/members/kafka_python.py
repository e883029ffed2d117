"""Members by kafka-python: `python -m tests.interop.members.kafka_python BOOTSTRAP`."""

from __future__ import annotations

import sys
import threading
import warnings
from typing import Any

from tests.interop.members.lines import Member, run, say, say_assigned, say_committed, say_got

with warnings.catch_warnings():
    # It loads its message definitions with a deprecated function of the standard library.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import ConsumerRebalanceListener, KafkaConsumer, KafkaProducer
    from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
    from kafka.coordinator.assignors.range import RangePartitionAssignor
    from kafka.errors import KafkaError
    from kafka.structs import OffsetAndMetadata

BOOTSTRAP = sys.argv[1] if len(sys.argv) > 1 else ""

POLL_MS = 2000
"""Longer than a rebalance: a join that is answered just when a poll's time is over is lost (kafka-python 3.0.12).

It takes itself for a member then and never hears what it was assigned, nor does it send heartbeats.
"""


class Owned(ConsumerRebalanceListener):  # type: ignore[misc]  # kafka-python has no types
    """Reports the consumer's partitions after each change."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._now: set[int] = set()

    def on_partitions_assigned(self, assigned: Any) -> None:
        """Those that are new."""
        self._now |= {one.partition for one in assigned}
        say_assigned(self._name, self._now)

    def on_partitions_revoked(self, revoked: Any) -> None:
        """Those that are gone."""
        self._now -= {one.partition for one in revoked}
        say_assigned(self._name, self._now)


def play(member: Member, leave: threading.Event) -> None:
    """Reads, or copies, until told to leave."""
    cooperative = member.protocol == "cooperative"
    consumer = KafkaConsumer(
        bootstrap_servers=BOOTSTRAP,
        client_id=member.name,
        group_id=member.group,
        group_instance_id=member.instance,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        isolation_level="read_committed",
        partition_assignment_strategy=[CooperativeStickyAssignor if cooperative else RangePartitionAssignor],
        session_timeout_ms=1500,
        heartbeat_interval_ms=300,
    )
    consumer.subscribe([member.topic], listener=Owned(member.name))
    chain = Chain(member, consumer) if member.target else None
    try:
        while not leave.is_set():
            fetched = consumer.poll(timeout_ms=POLL_MS)
            offsets = {
                part: [record.offset for record in records] for part, records in fetched.items() if records
            }
            if offsets:
                say_got(member.name, {part.partition: handed for part, handed in offsets.items()})
                finish(consumer, member, chain, fetched)
    finally:
        consumer.close()
        if chain:
            chain.stop()


def finish(consumer: Any, member: Member, chain: Chain | None, fetched: dict[Any, list[Any]]) -> None:
    """Commits and reports the result; records of a failed commit are read again if the member still owns them."""
    ends = {
        part: OffsetAndMetadata(records[-1].offset + 1, "", -1)
        for part, records in fetched.items()
        if records
    }
    try:
        if chain:
            chain.copy(fetched, ends)
        else:
            consumer.commit(ends)
    except KafkaError as error:
        say("uncommitted", member.name, repr(error))
        for part in consumer.assignment() & set(ends):
            consumer.seek(part, fetched[part][0].offset)
    else:
        say_committed(member.name, {part.partition: end.offset for part, end in ends.items()})


class AbortedError(KafkaError):  # type: ignore[misc]  # kafka-python has no types
    """The transaction was to be aborted."""


class Chain:
    """Copies each batch of records by a transaction."""

    def __init__(self, member: Member, consumer: Any) -> None:
        self._member = member
        self._consumer = consumer
        self._count = 0
        self._producer = self._start()

    def copy(self, fetched: dict[Any, list[Any]], ends: dict[Any, Any]) -> None:
        """Commits, or raises what it failed with."""
        self._count += 1
        try:
            self._producer.begin_transaction()
            for records in fetched.values():
                for record in records:
                    self._producer.send(self._member.target, record.value, record.key)
            self._producer.send_offsets_to_transaction(ends, self._consumer.group_metadata())
            if self._member.abort_every and self._count % self._member.abort_every == 0:
                raise AbortedError
            self._producer.commit_transaction()
        except KafkaError:
            self._give_up()
            raise

    def stop(self) -> None:
        """Closes the producer."""
        self._producer.close(timeout=30)

    def _give_up(self) -> None:
        try:
            self._producer.abort_transaction()
        except KafkaError:
            self._producer.close(timeout=0)
            self._producer = self._start()

    def _start(self) -> Any:
        producer = KafkaProducer(
            bootstrap_servers=BOOTSTRAP, transactional_id=self._member.name, transaction_timeout_ms=5000
        )
        producer.init_transactions()
        return producer


if __name__ == "__main__":
    run(play)
