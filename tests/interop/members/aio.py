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

from tests.interop.members.lines import Member, run, say, say_assigned, say_committed, say_got

BOOTSTRAP = sys.argv[1] if len(sys.argv) > 1 else ""


class Owned(ConsumerRebalanceListener):  # type: ignore[misc]  # aiokafka has no types
    """Tells what the consumer owns: it knows only the eager protocol.

    No partition is revoked in the middle of a turn, and no turn begins before the next assignment: aiokafka sends the
    offsets of a transaction without member and generation, so that the group cannot keep it from committing late.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self.turn = asyncio.Lock()
        self.settled = False

    async def on_partitions_assigned(self, assigned: Any) -> None:
        """All of them."""
        say_assigned(self._name, {one.partition for one in assigned})
        self.settled = True

    async def on_partitions_revoked(self, _: Any) -> None:
        """All of them."""
        self.settled = False
        async with self.turn:
            say_assigned(self._name, ())


def play(member: Member, leave: threading.Event) -> None:
    """Reads, or copies, until told to leave."""
    asyncio.run(_play(member, leave))


async def _play(member: Member, leave: threading.Event) -> None:
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
    owned = Owned(member.name)
    consumer.subscribe([member.topic], listener=owned)
    await consumer.start()
    chain = await Chain(member, consumer).start() if member.target else None
    try:
        while not leave.is_set():
            # Not within the turn: while the group rebalances this waits for the next assignment.
            fetched = await consumer.getmany(timeout_ms=100, max_records=500)
            async with owned.turn:
                if owned.settled:
                    await _take(fetched, member, consumer, chain)
    finally:
        await consumer.stop()
        if chain:
            await chain.stop()


async def _take(fetched: Any, member: Member, consumer: Any, chain: Chain | None) -> None:
    offsets = {part: [record.offset for record in records] for part, records in fetched.items() if records}
    if not offsets:
        return
    say_got(member.name, {part.partition: handed for part, handed in offsets.items()})
    ends = {part: handed[-1] + 1 for part, handed in offsets.items()}
    try:
        if chain:
            await chain.copy(fetched, ends)
        else:
            await consumer.commit(ends)
    except (KafkaError, IllegalStateError) as error:
        say("uncommitted", member.name, repr(error))
        await _rewind(consumer, {part: handed[0] for part, handed in offsets.items()})
    else:
        say_committed(member.name, {part.partition: offset for part, offset in ends.items()})


async def _rewind(consumer: Any, offsets: dict[TopicPartition, int]) -> None:
    for part, offset in offsets.items():
        with contextlib.suppress(IllegalStateError):  # another member has the partition now
            consumer.seek(part, offset)


class AbortedError(KafkaError):  # type: ignore[misc]  # aiokafka has no types
    """The transaction was to be aborted."""


class Chain:
    """Copies each batch of records by a transaction."""

    def __init__(self, member: Member, consumer: Any) -> None:
        self._member = member
        self._consumer = consumer
        self._count = 0
        self._producer: Any = None

    async def start(self) -> Chain:
        """A producer, also after one that was fenced."""
        await self.stop()
        self._producer = AIOKafkaProducer(
            bootstrap_servers=BOOTSTRAP, transactional_id=self._member.name, transaction_timeout_ms=5000
        )
        await self._producer.start()
        return self

    async def stop(self) -> None:
        """Closes it."""
        if self._producer is not None:
            await self._producer.stop()

    async def copy(self, fetched: Any, ends: dict[TopicPartition, int]) -> None:
        """Commits, or raises what it failed with."""
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
    run(play)
