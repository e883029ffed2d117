"""A controller that answers proposals when the test says so, the brokers that it has registered, and a clock."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from barnabas.broker.metadata.cluster import BrokerRegistration, ListenerEndpoint
from barnabas.broker.pending import Pending
from barnabas.broker.replica.isr import IsrChangeResult, IsrProposal, LeaderContext
from barnabas.broker.replica.partition import Partition
from barnabas.config.log_config import LogConfig
from barnabas.protocol.errors import ErrorCode
from barnabas.storage.offsets import TopicPartition
from tests.broker.cluster_images import registration as registration_record
from tests.broker.logs import batch, partition_image
from tests.broker.replica_node import ELSEWHERE, HERE, Node, T

OWN_EPOCH = 11
LAG_MAX_MS = 1000


class HeldChanges:
    """IsrChanges that keeps what was proposed."""

    def __init__(self) -> None:
        self.proposals: list[IsrProposal] = []
        self._answers: list[Pending[IsrChangeResult]] = []

    def submit(self, proposal: IsrProposal) -> Pending[IsrChangeResult]:
        self.proposals.append(proposal)
        self._answers.append(Pending())
        return self._answers[-1]

    @property
    def isrs(self) -> list[tuple[int, ...]]:
        """The proposed ISRs."""
        return [tuple(node for node, _ in proposal.isr) for proposal in self.proposals]

    @property
    def waiting(self) -> int:
        """The place of the first proposal without an answer; the count where all have one."""
        return next((at for at, one in enumerate(self._answers) if not one.done), len(self._answers))

    def place_of(self, proposal: IsrProposal) -> int:
        """Where the proposal is that has no answer yet."""
        return next(
            at
            for at, (one, answer) in enumerate(zip(self.proposals, self._answers, strict=True))
            if one == proposal and not answer.done
        )

    def answer(self, result: IsrChangeResult, at: int = -1) -> None:
        self._answers[at].complete(result)

    def commit(self, at: int = -1) -> None:
        """The controller takes the proposal."""
        proposal = self.proposals[at]
        isr = tuple(node for node, _ in proposal.isr)
        self.answer(
            IsrChangeResult(ErrorCode.NONE, proposal.leader_epoch, proposal.partition_epoch + 1, isr), at
        )

    def fail(self, error: ErrorCode, at: int = -1) -> None:
        self.answer(IsrChangeResult(error), at)


def registration(node_id: int, *, rack: str | None = None) -> BrokerRegistration:
    """An unfenced broker, whose epoch is ten times its id."""
    listeners = {"PLAINTEXT": ListenerEndpoint(f"n{node_id}", 9092, 0)}
    return BrokerRegistration(node_id, node_id * 10, bytes(16), listeners, {}, rack, False, False, (), None)


class Cluster:
    """A LeaderContext over held changes, registered brokers and a manual clock."""

    def __init__(self, nodes: Sequence[int] = (1, 2, 3)) -> None:
        self.changes = HeldChanges()
        self.ms = 0
        self.moved: list[tuple[str, int]] = []
        self.context = LeaderContext(
            self.changes,
            broker_epoch=lambda: OWN_EPOCH,
            now_ms=lambda: self.ms,
            lag_max_ms=LAG_MAX_MS,
        )
        self.brokers = {node: registration(node) for node in nodes}
        self.context.brokers = self.brokers

    def change(self, node_id: int, **changed: object) -> None:
        self.brokers[node_id] = self.brokers[node_id]._replace(**changed)  # type: ignore[arg-type]


class FakeFetchers:
    """Records which partitions are fetched, from whom, in which epoch and from where on."""

    def __init__(self) -> None:
        self.fetched: dict[TopicPartition, tuple[int, int, int]] = {}
        self.lines: list[str] = []

    def add(self, partition: Partition, leader: BrokerRegistration, offset: int) -> bool:
        if not leader.listeners:
            return False
        assert not partition.is_leader
        self.fetched[partition.key] = leader.broker_id, partition.leader_epoch, offset
        self.lines.append(f"add {partition} in {partition.leader_epoch}")
        return True

    def remove(self, keys: Iterable[TopicPartition]) -> None:
        for topic, index in keys:
            self.lines.append(f"remove {topic}-{index}")
            self.fetched.pop((topic, index), None)

    def close_idle(self) -> None:
        self.lines.append("close idle")


def truncating_follower(*directories: Path) -> Node:
    """It led, has two batches, and follows; a flush of each message is due."""
    made = Node(*directories, config=LogConfig(flush_messages=1), context=Cluster().context)
    assert made.manager.roles is not None
    made.manager.roles.fetchers = FakeFetchers()
    made.commit(registration_record(HERE), registration_record(ELSEWHERE))
    made.create("t", T, partition_image(replicas=(HERE, ELSEWHERE), leader_epoch=5))
    made.append(("t", 0, batch("a")), acks=1)
    made.append(("t", 0, batch("b")), acks=1)
    made.elect(T, ELSEWHERE)
    return made
