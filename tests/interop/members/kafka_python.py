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
    from kafka import ConsumerRebalanceListener, KafkaConsumer
    from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
    from kafka.coordinator.assignors.range import RangePartitionAssignor
    from kafka.errors import KafkaError
    from kafka.structs import OffsetAndMetadata

BOOTSTRAP = sys.argv[1] if len(sys.argv) > 1 else ""


class Owned(ConsumerRebalanceListener):  # type: ignore[misc]  # kafka-python has no types
    """Tells what the consumer owns after each change."""

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
    """Reads and commits until told to leave."""
    cooperative = member.protocol == "cooperative"
    consumer = KafkaConsumer(
        bootstrap_servers=BOOTSTRAP,
        client_id=member.name,
        group_id=member.group,
        group_instance_id=member.instance,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        partition_assignment_strategy=[CooperativeStickyAssignor if cooperative else RangePartitionAssignor],
        session_timeout_ms=1500,
        heartbeat_interval_ms=300,
    )
    consumer.subscribe([member.topic], listener=Owned(member.name))
    try:
        while not leave.is_set():
            fetched = consumer.poll(timeout_ms=100)
            offsets = {
                part: [record.offset for record in records] for part, records in fetched.items() if records
            }
            if offsets:
                say_got(member.name, {part.partition: handed for part, handed in offsets.items()})
                commit(consumer, member, offsets)
    finally:
        consumer.close()


def commit(consumer: Any, member: Member, offsets: dict[Any, list[int]]) -> None:
    """And says what became of it."""
    try:
        consumer.commit({part: OffsetAndMetadata(handed[-1] + 1, "", -1) for part, handed in offsets.items()})
    except KafkaError as error:
        say("uncommitted", member.name, repr(error))
        return
    say_committed(member.name, {part.partition: handed[-1] + 1 for part, handed in offsets.items()})


if __name__ == "__main__":
    run(play)
