"""Members by aiokafka, an event loop for each: `python -m tests.interop.members.aio BOOTSTRAP`."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import threading
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRebalanceListener, TopicPartition
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.errors import IllegalStateError, KafkaError

from tests.interop.members.lines import (
    Member,
    print_assigned,
    print_committed,
    print_line,
    print_received,
    run_program,
)

BOOTSTRAP = sys.argv[1] if len(sys.argv) > 1 else ""


class OwnershipListener(ConsumerRebalanceListener):  # type: ignore[misc]  # aiokafka has no types
    """Reports the consumer's partitions; aiokafka has only the eager protocol.

    No partition is revoked while records are processed, and processing waits for the next assignment: aiokafka sends
    the offsets of a transaction without member and generation, so that the group cannot reject a late commit.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self.processing = asyncio.Lock()
        self.is_assigned = False

    async def on_partitions_assigned(self, assigned: Any) -> None:
        """Called with all partitions."""
        print_assigned(self._name, {one.partition for one in assigned})
        self.is_assigned = True

    async def on_partitions_revoked(self, _: Any) -> None:
        """Called with all partitions."""
        self.is_assigned = False
        async with self.processing:
            print_assigned(self._name, ())


def run_member(member: Member, leave: threading.Event) -> None:
    """Reads or copies records until `leave` is set."""
    asyncio.run(_run_member(member, leave))


async def _run_member(member: Member, leave: threading.Event) -> None:
    consumer = AIOKafkaConsumer(
        bootstrap_servers=BOOTSTRAP,
        client_id=member.name,
        group_id=member.group,
        group_instance_id=member.instance,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        isolation_level="read_committed",
        partition_assignment_strategy=[RangePartitionAssignor],
        # A copying member must not be expired on a busy machine while its transaction may still be committed.
        session_timeout_ms=8000 if member.target else 1500,
        heartbeat_interval_ms=300,
    )
    owned = OwnershipListener(member.name)
    consumer.subscribe([member.topic], listener=owned)
    await consumer.start()
    chain = await Chain(member, consumer).start() if member.target else None
    try:
        while not leave.is_set():
            # Not under the lock: while the group rebalances this waits for the next assignment.
            fetched = await consumer.getmany(timeout_ms=100, max_records=500)
            async with owned.processing:
                if owned.is_assigned:
                    await _process(fetched, member, consumer, chain)
    finally:
        await consumer.stop()
        if chain:
            await chain.stop()


async def _process(fetched: Any, member: Member, consumer: Any, chain: Chain | None) -> None:
    offsets = {part: [record.offset for record in records] for part, records in fetched.items() if records}
    if not offsets:
        return
    print_received(member.name, {part.partition: handed for part, handed in offsets.items()})
    ends = {part: handed[-1] + 1 for part, handed in offsets.items()}
    try:
        if chain:
            await chain.copy(fetched, ends)
        else:
            await consumer.commit(ends)
    except (KafkaError, IllegalStateError) as error:
        print_line("uncommitted", member.name, repr(error))
        await _rewind(consumer, {part: handed[0] for part, handed in offsets.items()})
    else:
        print_committed(member.name, {part.partition: offset for part, offset in ends.items()})


async def _rewind(consumer: Any, offsets: dict[TopicPartition, int]) -> None:
    for part, offset in offsets.items():
        with contextlib.suppress(IllegalStateError):  # another member has the partition now
            consumer.seek(part, offset)


class AbortedError(KafkaError):  # type: ignore[misc]  # aiokafka has no types
    """The transaction is aborted on purpose."""


class Chain:
    """Copies each batch of records by a transaction."""

    def __init__(self, member: Member, consumer: Any) -> None:
        self._member = member
        self._consumer = consumer
        self._count = 0
        self._producer: Any = None

    async def start(self) -> Chain:
        """Starts a producer, also after one that was fenced."""
        await self.stop()
        self._producer = AIOKafkaProducer(
            bootstrap_servers=BOOTSTRAP, transactional_id=self._member.name, transaction_timeout_ms=5000
        )
        await self._producer.start()
        return self

    async def stop(self) -> None:
        """Closes the producer."""
        if self._producer is not None:
            await self._producer.stop()

    async def copy(self, fetched: Any, ends: dict[TopicPartition, int]) -> None:
        """Commits, or raises the error of the transaction."""
        self._count += 1
        fails = self._member.abort_every and self._count % self._member.abort_every == 0
        try:
            async with self._producer.transaction():
                for records in fetched.values():
                    for record in records:
                        await self._producer.send(self._member.target, record.value, record.key)
                await self._producer.send_offsets_to_transaction(ends, self._member.group)
                if fails:
                    raise AbortedError
        except AbortedError:
            raise
        except KafkaError:
            await self.start()
            raise


if __name__ == "__main__":
    run_program(run_member)
