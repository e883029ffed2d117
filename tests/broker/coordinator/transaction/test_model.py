"""Producers, zombies, lost responses, timeouts, full disks and restarts: every transaction ends, and all of
its partitions get the same marker.

Each history follows from its seed, which a failure reports: `History(seed).run()` repeats it.
`BARNABAS_TRANSACTION_HISTORIES` is the number of histories.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from random import Random
from typing import Any, Final

import pytest

from barnabas.broker.coordinator.shard import CoordinatorResult
from barnabas.broker.coordinator.transaction.metadata import MAX_EPOCH, TransactionMetadata
from barnabas.broker.coordinator.transaction.records import TransactionRecord
from barnabas.broker.coordinator.transaction.rules import ProducerIdAndEpoch
from barnabas.broker.coordinator.transaction.state import ENDING, IDLE, ONGOING
from barnabas.broker.coordinator.txn import TransactionMarker
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.storage.offsets import TopicPartition
from tests.broker.coordinator.transaction.transaction_harness import (
    TIMEOUT_MS,
    Markers,
    TransactionHarness,
    ids,
)
from tests.support.chance import explores, seeds

HISTORIES: Final = int(os.environ.get("BARNABAS_TRANSACTION_HISTORIES", "300"))
STEPS: Final = 80
NAMES = ("a", "b")
PARTITIONS: tuple[TopicPartition, ...] = (("t", 0), ("t", 1), ("u", 0))
LOOK_MS = 10_000
UNAVAILABLE = ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
AGAIN = (ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.COORDINATOR_NOT_AVAILABLE)


class Partition:
    """The producer state of a partition: the newest epoch of each, and the writes of open transactions."""

    def __init__(self, ends: dict[int, set[bool]]) -> None:
        self.epochs: dict[int, int] = {}
        self.open: dict[int, list[int]] = {}
        self._ends = ends

    def write(self, producer_id: int, epoch: int, transaction: int) -> bool:
        if epoch < self.epochs.get(producer_id, -1):
            return False
        self.epochs[producer_id] = epoch
        self.open.setdefault(producer_id, []).append(transaction)
        return True

    def end(self, marker: TransactionMarker) -> None:
        assert marker.producer_epoch >= self.epochs.get(marker.producer_id, -1), "a marker of an older epoch"
        self.epochs[marker.producer_id] = marker.producer_epoch
        for transaction in self.open.pop(marker.producer_id, ()):
            self._ends[transaction].add(marker.committed)


class Client:
    """A producer: its known state, and the responses that it awaits. `added` are the partitions that it knows to be
    in its transaction, `transaction` is the number of the transaction once it has written something."""

    def __init__(self, name: str, version: int) -> None:
        self.name = name
        self.version = version
        self.ids: tuple[int, int] | None = None
        self.transaction: int | None = None
        self.added: set[TopicPartition] = set()
        self.unheard: Callable[[], None] | None = None
        self.is_gone = False

    @property
    def may_write(self) -> bool:
        return self.ids is not None and not self.is_gone and self.unheard is None

    def begin(self, ids: tuple[int, int]) -> None:
        """No request is pending, and it writes as `ids`."""
        self.ids, self.is_gone = ids, False
        self.transaction, self.added, self.unheard = None, set(), None


class History:
    """The actions of a few producers with the same ids, step by step."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.version = self.random.choice((0, 1, 2, 2))
        self.harness = TransactionHarness(
            self.version, {"transactional.id.expiration.ms": str(100 * TIMEOUT_MS)}
        )
        self.markers: Markers = self.harness.markers
        self.clients: list[Client] = []
        self.ends: dict[int, set[bool]] = {}
        self.promised: dict[int, bool] = {}
        self.partitions = {name: Partition(self.ends) for name in PARTITIONS}
        self.delivered = 0
        self.steps: list[tuple[Callable[[], None], int]] = [
            (self.arrive, 2),
            (self.init, 4),
            (self.write, 14),
            (self.end, 8),
            (self.ask_again, 6),
            (self.partitions_are_slow, 2),
            (self.a_partition_fails, 2),
            (self.the_log_fails, 2),
            (self.time_passes, 5),
            (self.restart, 2),
            (self.epochs_run_short, 1),
        ]

    def run(self) -> None:
        steps, weights = zip(*self.steps, strict=True)
        for _ in range(4):
            self.arrive()
        for step in self.random.choices(steps, weights, k=STEPS):
            step()
            self._deliver()
            self.check()
        self.finish()

    # ---- actions of clients

    def arrive(self) -> None:
        version = 2 if self.version == 2 and self.random.random() < 0.7 else 0
        self.clients.append(Client(self.random.choice(NAMES), version))

    def init(self) -> None:
        """A producer begins, or requests another epoch after an error; the response may get lost."""
        client = self.random.choice(self.clients)
        expected = client.ids if self.random.random() < 0.3 else None
        answer = self._ask(client, lambda: self.harness.init(expected, name=client.name))
        if answer is None or answer.error is not ErrorCode.NONE or self.random.random() < 0.2:
            return
        client.begin(ids(answer))

    def write(self) -> None:
        client = self.random.choice(self.clients)
        partition = self.random.choice(PARTITIONS)
        if not client.may_write:
            return
        if client.version < 2 and partition not in client.added:
            if self._ask(client, lambda: self._add(client, partition, 0)) is None:
                return
            client.added.add(partition)
        if client.version < 2:
            is_approved = self._ask(client, lambda: self._verify(client, partition))
        else:
            is_approved = self._ask(client, lambda: self._add(client, partition, 2))
        if is_approved:
            self._append(client, partition)

    def end(self) -> None:
        """A producer commits or aborts; without a response it repeats the request until there is one."""
        client = self.random.choice(self.clients)
        commits = self.random.random() < 0.6
        if not client.may_write or (commits and not client.added and client.transaction is None):
            return
        client.unheard = lambda: self._end(client, client.ids, commits)
        client.unheard()

    def _end(self, client: Client, asked: tuple[int, int] | None, commits: bool) -> None:
        assert asked is not None
        answer = self._ask(
            client, lambda: self.harness.end(asked, commits=commits, version=client.version, name=client.name)
        )
        if answer is None or self.random.random() < 0.2:
            return  # not decided, or decided without a response
        if client.transaction is not None:
            self.promised[client.transaction] = commits
        client.begin(ids(answer) if client.version == 2 else asked)

    def ask_again(self) -> None:
        client = self.random.choice(self.clients)
        if client.unheard is not None and not client.is_gone:
            client.unheard()

    # ---- events around them

    def partitions_are_slow(self) -> None:
        self.markers.is_held = not self.markers.is_held
        if not self.markers.is_held:
            self.markers.release()

    def a_partition_fails(self) -> None:
        partition = self.random.choice(PARTITIONS)
        if self.markers.errors.pop(partition, None) is None:
            self.markers.errors[partition] = ErrorCode.NOT_ENOUGH_REPLICAS

    def the_log_fails(self) -> None:
        self.harness.shard_harness.fails = UNAVAILABLE if self.harness.shard_harness.fails is None else None

    def time_passes(self) -> None:
        self.harness.shard_harness.advance(
            self.random.choice((0, 1, 20, 500, LOOK_MS, TIMEOUT_MS, TIMEOUT_MS + LOOK_MS))
        )

    def restart(self) -> None:
        fails, before = self.harness.shard_harness.fails, dict(self.harness.shard.transactions)
        self.harness = self.harness.reloaded()
        self.harness.shard_harness.fails = fails
        after = self.harness.shard.transactions
        assert {name: _kept(metadata) for name, metadata in after.items()} == {
            name: _kept(metadata) for name, metadata in before.items()
        }

    def epochs_run_short(self) -> None:
        """As if there had been thousands of producers before."""
        metadata = self.harness.shard.transactions.get(self.random.choice(NAMES))
        if metadata is None or metadata.state not in IDLE or self.harness.shard_harness.fails is not None:
            return
        epoch = max(metadata.producer_epoch, MAX_EPOCH - 1 - self.random.randint(0, 3))
        aged = TransactionRecord(metadata._replace(producer_epoch=epoch), self.version)
        self.harness.shard_harness.run(lambda _: CoordinatorResult(None, [aged]))

    # ---- invariants

    def check(self) -> None:
        """All partitions of a transaction get the same end, the one confirmed to its producer; what is decided
        is being carried out."""
        for transaction, ends in self.ends.items():
            assert len(ends) < 2, transaction
            if transaction in self.promised:
                assert ends <= {self.promised[transaction]}, transaction
        for name, metadata in self.harness.shard.transactions.items():
            if metadata.state in ENDING and self.harness.shard_harness.fails is None:
                is_due = self.harness.shard_harness.timers.is_scheduled(("complete", name))
                assert self.harness.shard.markers.left(name) or is_due, f"nothing ends {metadata}"

    def finish(self) -> None:
        """All failures end, and no client sends anything any more."""
        self.harness.shard_harness.fails = None
        self.markers.errors.clear()
        self.markers.is_held = False
        self.markers.release()
        self.harness.shard_harness.advance(TIMEOUT_MS + 2 * LOOK_MS)
        self._deliver()
        self.check()
        assert {metadata.state for metadata in self.harness.shard.transactions.values()} <= IDLE
        for name, partition in self.partitions.items():
            assert not partition.open, f"a transaction hangs in {name}: {partition.open}"
        for transaction, ends in self.ends.items():
            assert ends, f"transaction {transaction} has no end"

    # ---- helpers

    def _ask(self, client: Client, operation: Callable[[], Any]) -> Any:
        """None if the client has to retry, or is fenced."""
        try:
            return operation()
        except ApiError as error:
            client.is_gone = client.is_gone or error.code not in AGAIN
            return None
        finally:
            self._deliver()

    def _add(self, client: Client, partition: TopicPartition, version: int) -> bool:
        assert client.ids is not None
        self.harness.add(client.ids, partition, version=version, name=client.name)
        return True

    def _verify(self, client: Client, partition: TopicPartition) -> bool:
        assert client.ids is not None
        producer = ProducerIdAndEpoch(*client.ids)
        codes = self.harness.shard.verify_partitions(client.name, producer, [partition])
        if codes[partition] is not ErrorCode.NONE:
            raise ApiError(codes[partition])
        return True

    def _append(self, client: Client, partition: TopicPartition) -> None:
        assert client.ids is not None
        if client.transaction is None:
            client.transaction = len(self.ends)
            self.ends[client.transaction] = set()
        is_taken = self.partitions[partition].write(*client.ids, client.transaction)
        assert is_taken, "the coordinator let an old epoch write"
        assert self.harness.metadata(client.name).state is ONGOING

    def _deliver(self) -> None:
        """Writes the markers since the last call to the partitions."""
        for partition, marker in self.markers.written[self.delivered :]:
            self.partitions[partition].end(marker)
        self.delivered = len(self.markers.written)


def _kept(metadata: TransactionMetadata) -> TransactionMetadata:
    """The contents of a record of any version."""
    return metadata._replace(
        last_producer_epoch=-1,
        partitions=tuple(sorted(metadata.partitions)),
        table=0,
        previous_producer_id=0,
        client_version=0,
        next_producer_id=0,
    )


@explores
@pytest.mark.parametrize("block", range(10))
def test_every_transaction_ends_as_confirmed(block: int) -> None:
    for seed in seeds(HISTORIES)[block::10]:
        try:
            History(seed).run()
        except Exception as error:
            raise AssertionError(f"History({seed}).run() goes wrong") from error
