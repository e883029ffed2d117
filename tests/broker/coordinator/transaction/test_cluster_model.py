"""Transactions over three nodes with a lossy network and failing leaders, compared with what clients were promised.

Every transaction gets the same end in all its partitions, the one that its producer was told; no node sends markers
after it has resigned, or of an older epoch (asserted where they are sent); and when all faults end, none hangs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from typing import Any, Final

import pytest

from barnabas.broker.coordinator.transaction.rules import ProducerAnswer, ProducerIdAndEpoch
from barnabas.broker.coordinator.transaction.state import IDLE
from barnabas.broker.coordinator.txn import TransactionalProducer
from barnabas.broker.metadata.internal_topics import TRANSACTION_STATE
from barnabas.broker.pending import Pending
from barnabas.protocol.errors import ErrorCode
from barnabas.storage.offsets import TopicPartition
from tests.broker.cluster_images import fencing
from tests.broker.coordinator.transaction.cluster_model import DATA, NODES, STATE_PARTITIONS, Cluster, Node
from tests.support.chance import explores, seeds

HISTORIES: Final = 60
STEPS: Final = 60
PATIENCE_S: Final = 20.0
TIMEOUT_MS: Final = 60_000
AGAIN: Final = frozenset(
    {
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NETWORK_EXCEPTION,
    }
)


class Client:
    """A producer of one transactional id; `ending` is the decision that it has asked for and awaits."""

    def __init__(self, name: str, version: int) -> None:
        self.name = name
        self.version = version
        self.coordinator_epoch = 0
        self.ids: tuple[int, int] | None = None
        self.transaction: int | None = None
        self.has_added = False
        self.ending: bool | None = None

    def begin(self, ids: tuple[int, int] | None) -> None:
        self.ids, self.transaction, self.has_added, self.ending = ids, None, False, None


class History:
    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.version = self.random.choice((1, 2))
        self.cluster = Cluster(self.random, self.version)
        self.clients = [Client(f"id-{number}", self.version) for number in range(4)]
        self.transactions: dict[int, set[TopicPartition]] = {}
        self.promised: dict[int, bool] = {}
        self.steps: list[tuple[Callable[[], None], int]] = [
            (self.produce, 14),
            (self.end, 8),
            (self.fence, 1),
            (self.move_coordinator, 3),
            (self.move_leader, 3),
            (self.learn, 6),
            (self.cut_off, 1),
            (self.pass_time, 4),
        ]

    def run(self) -> None:
        steps, weights = zip(*self.steps, strict=True)
        for step in self.random.choices(steps, weights, k=STEPS):
            step()
            self.check()
        self.finish()

    # ---- clients

    def _ask(self, pending: Pending[Any]) -> Any:
        """The answer, or None where it takes too long."""
        found: list[Any] = []
        pending.add_done_callback(found.append)
        waited = 0.0
        while not found and waited < PATIENCE_S:
            self.cluster.clock.advance(0.05)
            waited += 0.05
        return found[0] if found else None

    def _coordinator(self, client: Client) -> Node:
        """The coordinator as the client finds it, perhaps from a node that is behind: never one of before the last."""
        index = self.cluster.nodes[1].runtime.partition_of(client.name)
        assert index is not None
        views = [
            node.image.topics[TRANSACTION_STATE].partitions[index] for node in self.cluster.nodes.values()
        ]
        found = self.random.choice([view for view in views if view.leader_epoch >= client.coordinator_epoch])
        client.coordinator_epoch = found.leader_epoch
        return self.cluster.nodes[found.leader]

    def _init(self, client: Client) -> bool:
        answer: ProducerAnswer | None = self._ask(
            self._coordinator(client).coordinator.init_producer_id(client.name, TIMEOUT_MS)
        )
        if answer is None or answer.error is not ErrorCode.NONE:
            return False
        client.begin((answer.producer_id, answer.producer_epoch))
        return True

    def produce(self) -> None:
        client = self.random.choice(self.clients)
        if client.ending is not None or (client.ids is None and not self._init(client)):
            return
        assert client.ids is not None
        partition = self.random.choice(DATA)
        if client.version < 2:
            added = self._coordinator(client).coordinator.add_partitions(
                client.name, ProducerIdAndEpoch(*client.ids), [partition], 0
            )
            code = self._ask(added)
            if not self._is_fine(client, code):
                return
        client.has_added = True  # even where the answer is lost
        self._write(client, partition)

    def _write(self, client: Client, partition: TopicPartition) -> None:
        assert client.ids is not None
        leader = self.cluster.nodes[self.cluster.leader(*partition)]
        data, bumps = self.cluster.data[partition], client.version == 2
        guard = data.guard(*client.ids, bumps=bumps)
        if guard is not None:
            producer = TransactionalProducer(client.name, *client.ids, bumps)
            codes: Mapping[TopicPartition, ErrorCode] | None = self._ask(
                leader.verifier.verify(producer, [partition])
            )
            if codes is None or not self._is_fine(client, codes[partition]):
                return
            if self.cluster.leader(*partition) != leader.node_id:
                return
        if client.transaction is None:
            client.transaction = len(self.transactions)
            self.transactions[client.transaction] = set()
        if data.write(*client.ids, client.transaction, guard):
            self.transactions[client.transaction].add(partition)

    def _is_fine(self, client: Client, code: ErrorCode | None) -> bool:
        """Whether a request succeeded; a client that is fenced begins anew."""
        if code is not None and code is not ErrorCode.NONE and code not in AGAIN:
            client.begin(None)
        return code is ErrorCode.NONE

    def end(self) -> None:
        """Decides, and asks until there is an answer; one that is lost is asked for again by a later step."""
        client = self.random.choice(self.clients)
        if client.ids is None or not client.has_added:
            return
        if client.ending is None:
            client.ending = self.random.random() < 0.6
        answer: ProducerAnswer | None = self._ask(
            self._coordinator(client).coordinator.end_transaction(
                client.name,
                ProducerIdAndEpoch(*client.ids),
                commits=client.ending,
                client_version=2 if client.version == 2 else 0,
            )
        )
        if answer is None or answer.error in AGAIN or self.cluster.chance(0.1):
            return
        if answer.error is not ErrorCode.NONE:
            client.begin(None)
            return
        if client.transaction is not None:
            self.promised[client.transaction] = client.ending
        following = (answer.producer_id, answer.producer_epoch)
        client.begin(following if client.version == 2 else client.ids)

    def fence(self) -> None:
        """Another producer takes over an id, whose transaction is aborted."""
        client = self.random.choice(self.clients)
        if client.ending is None:
            client.begin(None)

    # ---- faults

    def move_coordinator(self) -> None:
        index = self.random.randrange(STATE_PARTITIONS)
        nodes = [node_id for node_id in NODES if node_id != self.cluster.cut_off]
        self.cluster.elect(TRANSACTION_STATE, index, self.random.choice(nodes))

    def move_leader(self) -> None:
        self.cluster.elect("t", self.random.randrange(len(DATA)), self.random.choice(NODES))

    def learn(self) -> None:
        node_id = self.random.choice(NODES)
        if node_id != self.cluster.cut_off:
            self.cluster.deliver(node_id)

    def cut_off(self) -> None:
        """One node is cut off from the others and the controller, which fences it and elects others; or comes back."""
        cluster = self.cluster
        if cluster.cut_off is not None:
            cluster.publish(fencing(cluster.cut_off, fenced=False))
            cluster.cut_off = None
            return
        gone = cluster.cut_off = self.random.choice(NODES)
        others = [node_id for node_id in NODES if node_id != gone]
        for topic, count in ((TRANSACTION_STATE, STATE_PARTITIONS), ("t", len(DATA))):
            for index in range(count):
                if cluster.leader(topic, index) == gone:
                    cluster.elect(topic, index, self.random.choice(others))
        cluster.publish(fencing(gone, fenced=True))

    def pass_time(self) -> None:
        self.cluster.clock.advance(self.random.choice((0.1, 1, 10, TIMEOUT_MS / 1000 + 11)))

    # ---- invariants

    def check(self) -> None:
        for transaction in self.transactions:
            ends = {data.ends[transaction] for data in self.cluster.data.values() if transaction in data.ends}
            assert len(ends) < 2, f"transaction {transaction} has both ends"
            if transaction in self.promised:
                assert ends <= {self.promised[transaction]}, transaction

    def finish(self) -> None:
        """All faults end, and the clients send nothing any more."""
        cluster = self.cluster
        cluster.calm = True
        if cluster.cut_off is not None:
            self.cut_off()
        for node_id in NODES:
            cluster.deliver(node_id)
        cluster.clock.advance(2 * TIMEOUT_MS / 1000 + 30)
        self.check()
        for node in cluster.nodes.values():
            assert node.markers.unknown_destinations == 0
            for shard in node.runtime.shards():
                states = {metadata.state for metadata in shard.transactions.values()}
                assert states <= IDLE, shard.transactions
        for partition, data in cluster.data.items():
            assert not data.open, f"transactions hang in {partition}: {data.open}"
        for transaction, partitions in self.transactions.items():
            for partition in partitions:
                assert transaction in cluster.data[partition].ends, (transaction, partition)


@explores
@pytest.mark.parametrize("block", range(6))
def test_every_transaction_ends_as_promised_over_many_brokers(block: int) -> None:
    for seed in seeds(HISTORIES)[block::6]:
        try:
            History(seed).run()
        except Exception as error:
            raise AssertionError(f"History({seed}).run() goes wrong") from error
