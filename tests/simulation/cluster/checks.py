"""The invariants of a replicated cluster, checked after every step and at the end.

1. A record that was acknowledged (acks=all) is in the log of every later leader, unless one was elected unclean.
2. Below both high watermarks two replicas have the same records, in the same epochs; what was once committed stays.
3. A leader epoch of a partition has one leader.
4. While a broker leads in an epoch its high watermark does not fall.
5. The ISR is a subset of the replicas, and contains the leader.
6. What a leader commits is in the log of every running member of the controller's ISR, while its epoch is current.
7. In the end all replicas are equal byte by byte, everything acknowledged is there, no value is there twice, and each
   producer's values are in order.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from barnabas.broker.metadata.topics import NO_LEADER, PartitionImage
from barnabas.protocol.records.batch import RecordBatch
from barnabas.protocol.records.entries import batches
from barnabas.storage.log.unified_log import UnifiedLog
from barnabas.storage.offsets import FetchIsolation, TopicPartition
from tests.simulation.cluster.broker import Run, SimulatedBroker

if TYPE_CHECKING:
    from tests.simulation.cluster.controller import ModelController

Record = tuple[int, bytes]
"""The leader epoch of a record, and its value."""


class ViolationError(AssertionError):
    """An invariant does not hold."""


def whole_batches(log: UnifiedLog, start: int, end: int) -> Iterable[RecordBatch]:
    """The batches that have an offset from `start` on and begin before `end`."""
    offset = start
    while offset < end:
        data = log.read(offset, 1 << 16, FetchIsolation.LOG_END, min_one_message=True).records.read()
        found = [batch for batch in batches(data) if isinstance(batch, RecordBatch)]
        if not found:
            return
        for batch in found:
            if batch.base_offset >= end:
                return
            yield batch
        offset = found[-1].next_offset


def records_of(log: UnifiedLog, start: int, end: int) -> dict[int, Record]:
    return {
        record.offset: (batch.partition_leader_epoch, record.value or b"")
        for batch in whole_batches(log, start, end)
        for record in batch.records()
        if start <= record.offset < end
    }


def log_bytes(log: UnifiedLog, start: int) -> bytes:
    """All batches with an offset from `start` on."""
    return b"".join(bytes(_bytes_of(batch)) for batch in whole_batches(log, start, log.log_end_offset))


def _bytes_of(batch: RecordBatch) -> memoryview:
    return memoryview(batch.buffer)[batch.position : batch.position + batch.size_in_bytes]


def _first_epoch_start(log: UnifiedLog) -> int:
    entries = log.leader_epoch_cache.entries
    return entries[0][1] if entries else 0


def epochs_with_records(log: UnifiedLog, start: int) -> list[tuple[int, int]]:
    """The leader epochs and their starts, from `start` on; without empty epochs, which only their leaders know."""
    entries = log.leader_epoch_cache.entries
    if not entries:
        return []
    ends = [*(start for _, start in entries[1:]), log.log_end_offset]
    return [
        (epoch, max(begin, start))
        for (epoch, begin), end in zip(entries, ends, strict=True)
        if begin < end > start
    ]


class PartitionLedger:
    """What is known to be committed of one partition."""

    def __init__(self) -> None:
        self.committed: dict[int, Record] = {}
        self.acked: dict[int, bytes] = {}
        self.start = 0
        self.leaders: dict[int, int] = {}
        self.is_unclean = False


class Checks:
    """Sees everything. `brokers` and `controller` are set by the scenario."""

    def __init__(self) -> None:
        self.brokers: dict[int, SimulatedBroker] = {}
        self.controller: ModelController | None = None
        self.ledgers: dict[TopicPartition, PartitionLedger] = {}

    def ledger(self, key: TopicPartition) -> PartitionLedger:
        return self.ledgers.setdefault(key, PartitionLedger())

    # ---- what happens

    def image_changed(
        self, key: TopicPartition, before: PartitionImage | None, after: PartitionImage
    ) -> None:
        """The controller has changed a partition: 3 and 5."""
        if after.leader != NO_LEADER and after.leader not in after.isr:
            raise ViolationError(f"{key}: the leader {after.leader} is not in the ISR {after.isr}")
        if not set(after.isr) <= set(after.replicas):
            raise ViolationError(f"{key}: ISR {after.isr}, replicas {after.replicas}")
        ledger = self.ledger(key)
        controller = self.controller
        if controller is not None and key in controller.unclean_elections:
            ledger.is_unclean = True
        if after.leader != NO_LEADER:
            known = ledger.leaders.setdefault(after.leader_epoch, after.leader)
            if known != after.leader:
                raise ViolationError(f"{key}: {known} and {after.leader} lead in epoch {after.leader_epoch}")

    def _began_to_lead(self, run: Run, key: TopicPartition, log: UnifiedLog, epoch: int) -> None:
        """1 and 3: the new leader has all that was acknowledged before, and is the one of its epoch."""
        ledger = self.ledger(key)
        if ledger.leaders.get(epoch) != run.node_id:
            raise ViolationError(f"{key}: {run.node_id} leads in epoch {epoch}")
        if ledger.is_unclean or epoch != self._current_epoch(key):
            return
        missing = self._missing(log, ledger)
        if missing:
            raise ViolationError(
                f"{key}: broker {run.node_id} leads in epoch {epoch}, its log "
                f"{log.log_start_offset}..{log.log_end_offset} lacks acknowledged {missing[:3]}"
            )

    def _current_epoch(self, key: TopicPartition) -> int:
        assert self.controller is not None
        return self.controller.partitions[key].leader_epoch

    def _missing(self, log: UnifiedLog, ledger: PartitionLedger) -> list[int]:
        start = max(log.log_start_offset, ledger.start)
        here = records_of(log, start, log.log_end_offset)
        return [
            offset
            for offset, value in ledger.acked.items()
            if offset >= start and here.get(offset, (0, None))[1] != value
        ]

    def acknowledged(self, key: TopicPartition, offset: int, values: Iterable[bytes]) -> None:
        """A producer got its answer to acks=all."""
        ledger = self.ledger(key)
        for at, value in enumerate(values, offset):
            known = ledger.acked.setdefault(at, value)
            if known != value and not ledger.is_unclean:
                raise ViolationError(f"{key}: {known!r} and {value!r} were both acknowledged at {at}")

    def deleted(self, key: TopicPartition, offset: int) -> None:
        """Records before `offset` were deleted, and nothing is promised of them: kills of all replicas may bring them
        back, and with them what was never committed, since nobody compares logs before their starts."""
        ledger = self.ledger(key)
        ledger.start = max(ledger.start, offset)

    def consumed(self, key: TopicPartition, found: dict[int, bytes]) -> None:
        """2: a consumer sees only what is committed."""
        ledger = self.ledger(key)
        if ledger.is_unclean:
            return
        for offset, value in found.items():
            known = ledger.committed.get(offset)
            if known is not None and known[1] != value and offset >= ledger.start:
                raise ViolationError(
                    f"{key}: a consumer read {value!r} at {offset}, where {known[1]!r} is committed"
                )

    # ---- after each step

    def step(self) -> None:
        for broker in self.brokers.values():
            run = broker.run
            if run is None:
                continue
            seen = run.seen
            for key, partition in run.partitions.items():
                leads_in = partition.leader_epoch if partition.leader_id == run.node_id else -1
                now = leads_in, partition.log.offsets.high_watermark
                before = seen.get(key)
                if now != before and not partition.is_truncating:
                    seen[key] = now
                    if leads_in >= 0 and (before is None or before[0] < 0):
                        self._began_to_lead(run, key, partition.log, leads_in)
                    self._look_at(run, partition, before, *now)

    def _look_at(
        self,
        run: Run,
        partition: Any,
        before: tuple[int, int] | None,
        leads_in: int,
        watermark: int,
    ) -> None:
        """`before`: (the leader epoch or -1, the high watermark) at the last look."""
        old = before[1] if before is not None else 0
        if before is not None and leads_in >= 0 and before[0] == leads_in and watermark < old:
            raise ViolationError(
                f"{partition.key}: the leader's high watermark fell from {old} to {watermark}"
            )
        ledger = self.ledger(partition.key)
        if ledger.is_unclean:
            return
        self._commit(run, partition, ledger, min(old, watermark), watermark)
        if leads_in >= 0 and watermark > old:
            self._check_isr(run, partition, watermark)

    def _commit(self, run: Run, partition: Any, ledger: PartitionLedger, start: int, end: int) -> None:
        log = partition.log
        start = max(start, log.log_start_offset, ledger.start)
        for offset, record in records_of(log, start, end).items():
            known = ledger.committed.setdefault(offset, record)
            if known != record:
                raise ViolationError(
                    f"{partition.key}: broker {run.node_id} commits {record} at {offset}, where {known} is committed"
                )

    def _check_isr(self, run: Run, partition: Any, watermark: int) -> None:
        assert self.controller is not None
        image = self.controller.partitions[partition.key]
        if image.leader_epoch != partition.leader_epoch or image.leader != run.node_id:
            return  # deposed, and about to hear of it
        for node in image.isr:
            other = self.brokers[node].run
            if other is None or node == run.node_id:
                continue
            replica = other.partitions.get(partition.key)
            registered = self.controller.brokers[node]
            if replica is None or replica.is_truncating or registered.epoch != other.epoch:
                continue
            if replica.log.log_end_offset < watermark:
                raise ViolationError(
                    f"{partition.key}: the leader {run.node_id} commits up to {watermark}, {node} of the ISR "
                    f"{image.isr} ends at {replica.log.log_end_offset}"
                )

    # ---- at the end

    def failures(self) -> None:
        for broker in self.brokers.values():
            if broker.run is not None and broker.run.failed:
                raise ViolationError(broker.run.failed[0])

    def is_quiet(self) -> str | None:
        """None when every replica is in the ISR and has everything; or what is still missing."""
        assert self.controller is not None
        for key, image in self.controller.partitions.items():
            if image.leader == NO_LEADER or set(image.isr) != set(image.replicas) or image.adding_replicas:
                adding = image.adding_replicas
                return f"{key}: leader {image.leader}, ISR {image.isr} of {image.replicas}, adding {adding}"
            ends = set()
            starts: dict[int, int] = {}
            for node in image.replicas:
                run = self.brokers[node].run
                if run is None or key not in run.partitions or run.partitions[key].is_truncating:
                    return f"{key}: {node} is not there"
                log = run.partitions[key].log
                ends.add((log.log_end_offset, log.high_watermark))
                starts[node] = log.log_start_offset
            if len(ends) != 1 or any(end != watermark for end, watermark in ends):
                return f"{key}: (end, high watermark) {ends}"
            # A leader that had not heard of a deletion before it was elected keeps the records.
            if any(start < starts[image.leader] for start in starts.values()):
                return f"{key}: starts {starts}, leader {image.leader}"
        return None

    def finish(self, sent: dict[TopicPartition, dict[str, list[bytes]]]) -> None:
        """7."""
        assert self.controller is not None
        for key, image in self.controller.partitions.items():
            logs = {node: self._log(node, key) for node in image.replicas}
            leader = logs[image.leader]
            ledger = self.ledger(key)
            start = max([ledger.start, *(log.log_start_offset for log in logs.values())])
            # A log start that a kill took back, to before the first epoch that is on the disk.
            known = max([start, *(_first_epoch_start(log) for log in logs.values())])
            for node, log in logs.items():
                if log_bytes(log, start) != log_bytes(leader, start):
                    raise ViolationError(f"{key}: the logs of {node} and {image.leader} differ")
                if epochs_with_records(log, known) != epochs_with_records(leader, known):
                    raise ViolationError(
                        f"{key}: epochs of {node} {log.leader_epoch_cache.entries}, "
                        f"of {image.leader} {leader.leader_epoch_cache.entries}"
                    )
            if not ledger.is_unclean and (missing := self._missing(leader, ledger)):
                raise ViolationError(f"{key}: acknowledged records are lost: {missing[:5]}")
            begin = max(leader.log_start_offset, ledger.start)
            values = [value for _, value in records_of(leader, begin, leader.log_end_offset).values()]
            self._check_producers(key, values, sent.get(key, {}), ledger)

    def _check_producers(
        self, key: TopicPartition, values: list[bytes], sent: dict[str, list[bytes]], ledger: PartitionLedger
    ) -> None:
        if len(set(values)) != len(values) and not ledger.is_unclean:
            raise ViolationError(f"{key}: a value is there twice")
        if ledger.is_unclean:
            return
        places = {value: at for at, value in enumerate(values)}
        for producer, ordered in sent.items():
            found = [places[value] for value in ordered if value in places]
            if found != sorted(found):
                raise ViolationError(f"{key}: the values of {producer} are out of order")

    def _log(self, node: int, key: TopicPartition) -> UnifiedLog:
        run = self.brokers[node].run
        assert run is not None
        log: UnifiedLog = run.partitions[key].log
        return log
