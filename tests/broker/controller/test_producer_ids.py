"""ProducerIdManager: no producer id is assigned twice."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from barnabas.broker.controller.embedded import Controller
from barnabas.broker.controller.producer_ids import BLOCK_SIZE, ProducerIdManager
from barnabas.broker.metadata.image import MetadataDelta, MetadataImage
from barnabas.broker.metadata.loader import MetadataLoader
from barnabas.broker.metadata.replay import replayed
from barnabas.protocol.messages.topic_records import ProducerIdsRecord
from barnabas.protocol.schema import Message
from tests.broker.held_runner import HeldRunner


class MetadataLog:
    """Keeps the records in a list that survives restarts, as a disk would."""

    def __init__(self) -> None:
        self.records: list[Message] = []

    leader_epoch = 0

    def append(self, batches: Sequence[Sequence[Message]]) -> int:
        self.records.extend(record for records in batches for record in records)
        return len(self.records)


class Node:
    """The producer ids of a broker, over a log that survives it."""

    def __init__(self, log: MetadataLog) -> None:
        self.disk = HeldRunner()
        image, _ = replayed(MetadataImage.empty(), log.records)
        self.manager = ProducerIdManager(
            Controller(log, MetadataLoader(image, self.disk, self.publish), self.disk), node_id=1
        )
        self.given: list[int | None] = []

    @staticmethod
    def publish(image: MetadataImage, delta: MetadataDelta) -> Iterator[None]:
        """Nobody else listens here."""
        return iter(())

    def ask(self, times: int = 1) -> None:
        for _ in range(times):
            self.manager.generate().add_done_callback(self.given.append)


@pytest.fixture
def log() -> MetadataLog:
    return MetadataLog()


@pytest.fixture
def node(log: MetadataLog) -> Node:
    return Node(log)


def test_the_first_id_waits_for_its_block_to_be_durable(node: Node, log: MetadataLog) -> None:
    node.ask()
    assert (node.given, log.records) == ([], [])
    node.disk.release()
    assert node.given == [0]
    assert log.records == [ProducerIdsRecord(broker_id=1, broker_epoch=-1, next_producer_id=BLOCK_SIZE)]


def test_ids_of_a_durable_block_need_no_wait(node: Node, log: MetadataLog) -> None:
    node.ask()
    node.disk.release()
    node.ask(BLOCK_SIZE - 1)
    assert node.given == [*range(BLOCK_SIZE)]
    node.ask()
    assert (len(node.given), node.disk.held) == (BLOCK_SIZE, 1)
    node.disk.release()
    assert node.given[-1] == BLOCK_SIZE
    assert len(log.records) == 2


def test_all_waiting_requests_get_ids_from_as_many_blocks_as_needed(node: Node) -> None:
    node.ask(2 * BLOCK_SIZE + 1)
    assert node.disk.held == 1
    node.disk.release_all()
    assert node.given == [*range(2 * BLOCK_SIZE + 1)]


def test_a_failed_write_assigns_no_id_and_the_next_try_may_succeed(node: Node) -> None:
    node.ask(2)
    node.disk.fail(OSError("no space"))
    assert node.given == [None, None]
    node.ask()
    node.disk.release()
    assert node.given == [None, None, 0]


def test_a_restart_skips_the_rest_of_the_block(node: Node, log: MetadataLog) -> None:
    node.ask()
    node.disk.release()
    after = Node(log)
    after.ask(2)
    after.disk.release()
    assert after.given == [BLOCK_SIZE, BLOCK_SIZE + 1]
