"""Members by kafka-python: `python -m tests.interop.members.kafka_python BOOTSTRAP`."""

from __future__ import annotations

import sys
import threading
import warnings
from typing import Any

from tests.interop.members.lines import (
    Member,
    print_assigned,
    print_committed,
    print_line,
    print_received,
    run_program,
)

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
"""Longer than a rebalance: kafka-python 3.0.12 loses a JoinGroup response that arrives just when a poll times out.

It then regards itself as a member, but gets no assignment and sends no heartbeats.
"""


class OwnershipListener(ConsumerRebalanceListener):  # type: ignore[misc]  # kafka-python has no types
    """Reports the consumer's partitions after each change."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._now: set[int] = set()

    def on_partitions_assigned(self, assigned: Any) -> None:
        """Adds the new partitions."""
        self._now |= {one.partition for one in assigned}
        print_assigned(self._name, self._now)

    def on_partitions_revoked(self, revoked: Any) -> None:
        """Removes the revoked partitions."""
        self._now -= {one.partition for one in revoked}
        print_assigned(self._name, self._now)


def run_member(member: Member, leave: threading.Event) -> None:
    """Reads or copies records until `leave` is set."""
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
    consumer.subscribe([member.topic], listener=OwnershipListener(member.name))
    chain = Chain(member, consumer) if member.target else None
    try:
        while not leave.is_set():
            fetched = consumer.poll(timeout_ms=POLL_MS)
            offsets = {
                part: [record.offset for record in records] for part, records in fetched.items() if records
            }
            if offsets:
                print_received(member.name, {part.partition: handed for part, handed in offsets.items()})
                commit(consumer, member, chain, fetched)
    finally:
        consumer.close()
        if chain:
            chain.stop()


def commit(consumer: Any, member: Member, chain: Chain | None, fetched: dict[Any, list[Any]]) -> None:
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
        print_line("uncommitted", member.name, repr(error))
        for part in consumer.assignment() & set(ends):
            consumer.seek(part, fetched[part][0].offset)
    else:
        print_committed(member.name, {part.partition: end.offset for part, end in ends.items()})


class AbortedError(KafkaError):  # type: ignore[misc]  # kafka-python has no types
    """The transaction is aborted on purpose."""


class Chain:
    """Copies each batch of records by a transaction."""

    def __init__(self, member: Member, consumer: Any) -> None:
        self._member = member
        self._consumer = consumer
        self._count = 0
        self._producer = self._start()

    def copy(self, fetched: dict[Any, list[Any]], ends: dict[Any, Any]) -> None:
        """Commits, or raises the error of the transaction."""
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
            self._abort()
            raise

    def stop(self) -> None:
        """Closes the producer."""
        self._producer.close(timeout=30)

    def _abort(self) -> None:
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
    run_program(run_member)
