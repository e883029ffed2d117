"""A power cut at each file operation of a node's first start, stop and start: the next start loses nothing."""

from __future__ import annotations

import os
from random import Random

import pytest

from barnabas.broker.startup.node_storage import NodeStorage
from barnabas.config.broker_config import BrokerConfig
from barnabas.protocol.messages.topic_records import PartitionRecord, TopicRecord
from barnabas.protocol.records.batch import build_batch
from barnabas.storage.env import read_fully
from tests.storage.fault_env import FaultEnv, PowerCut, power_cut

STRIDE = int(os.environ.get("BARNABAS_FAULT_STRIDE") or 41)  # 1: each operation in turn
TOPIC_ID = bytes(range(16))
PARTITIONS = 2
DIRS = ("/a", "/b")
SETTINGS = [
    f"log.dirs={','.join(DIRS)}",
    "listeners=PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
    "controller.listener.names=CONTROLLER",
    "barnabas.log.dir.min.free.bytes=0",
]
DYNAMIC = [*SETTINGS, "controller.quorum.bootstrap.servers=127.0.0.1:9093"]


class Life:
    """A node that starts, creates a topic, appends, stops, starts and stops again; records what was acknowledged."""

    def __init__(self, settings: list[str]) -> None:
        self.env = FaultEnv(seed=1)
        self.settings = settings
        self.cluster_id: str | None = None
        self.has_topic = False
        self.record_count = 0
        self.epochs: list[int] = []

    def start(self) -> NodeStorage:
        node = NodeStorage(BrokerConfig.of(None, overrides=self.settings), self.env)
        self.cluster_id = self.cluster_id or node.cluster_id
        self.epochs.append(node.broker_epoch)
        return node

    def live(self) -> None:
        node = self.start()
        self.create_topic(node)
        self.write(node)
        node.close()
        node = self.start()
        self.write(node)
        node.close()

    def create_topic(self, node: NodeStorage) -> None:
        ids = [one.directory_id or b"" for one in node.log_manager.dirs]
        partitions = [
            PartitionRecord(
                partition_id=index,
                topic_id=TOPIC_ID,
                replicas=[1],
                isr=[1],
                leader=1,
                leader_epoch=0,
                partition_epoch=0,
                directories=[ids[index]],
            )
            for index in range(PARTITIONS)
        ]
        node.commit([[TopicRecord(name="t", topic_id=TOPIC_ID), *partitions]])
        self.has_topic = True

    def write(self, node: NodeStorage) -> None:
        for index in range(PARTITIONS):
            log = node.log_manager.get_or_create_log("t", index, TOPIC_ID)
            log.append_as_leader(build_batch([(b"k", b"v", self.env.now_ms(), ())]), 0)
            log.flush()
        self.record_count += 1

    # -- checks after it --

    def check(self) -> None:
        node = self.start()
        assert self.cluster_id == node.cluster_id
        assert self.epochs == sorted(set(self.epochs))
        me = node.image.brokers[node.node_id]
        assert not me.fenced
        assert not me.in_controlled_shutdown
        assert me.epoch == node.broker_epoch
        assert set(me.log_dirs) == {one.directory_id for one in node.log_manager.dirs}
        assert node.image.features["metadata.version"] == 30
        assert node.quorum.kraft_version == (1 if self.settings is DYNAMIC else 0)
        assert node.node_id in node.image.controllers
        topics = node.image.topics
        assert self.has_topic <= ("t" in topics)
        if "t" in topics:
            partitions = topics["t"].partitions.values()
            assert [(one.leader, one.isr, one.elr) for one in partitions] == [(1, (1,), ())] * PARTITIONS
        for index in range(PARTITIONS if self.record_count else 0):
            log = node.log_manager.get_log("t", index)
            assert log is not None
            assert log.log_end_offset >= self.record_count
            assert read_fully(log.segments[0].file, log.segments[0].size, 0)
        node.close()


def operations_of(settings: list[str]) -> int:
    """The number of file operations of a whole life."""
    life = Life(settings)
    count = 0

    def counting(number: int, _kind: str, _path: str) -> None:
        nonlocal count
        count = number + 1

    life.env.inject(counting)
    life.live()
    life.env.inject(None)
    return count


def die_at(settings: list[str], operation: int) -> Life:
    life = Life(settings)
    life.env.inject(power_cut(operation))
    with pytest.raises(PowerCut):
        life.live()
    life.env.inject(None)
    return life


def test_the_start_after_a_power_cut_loses_nothing() -> None:
    for operation in range(0, operations_of(SETTINGS), STRIDE):
        life = die_at(SETTINGS, operation)
        life.env.crash(Random(operation))
        life.check()
        life.check()


def test_the_start_after_a_kill_loses_nothing() -> None:
    for operation in range(3, operations_of(SETTINGS), STRIDE):
        life = die_at(SETTINGS, operation)
        life.env.kill()
        life.check()


def test_a_quorum_in_the_log_is_kept_at_any_power_cut() -> None:
    for operation in range(0, operations_of(DYNAMIC) // 2, STRIDE):
        life = die_at(DYNAMIC, operation)
        life.env.crash(Random(operation))
        life.check()


def test_a_second_power_cut_in_the_next_start_does_no_harm() -> None:
    stride = max(STRIDE, 11)  # there are many pairs
    for operation in range(5, operations_of(SETTINGS), stride * 5):
        for second in range(0, 200, stride * 2):
            life = die_at(SETTINGS, operation)
            life.env.crash(Random(operation))
            life.env.inject(power_cut(second))
            try:
                life.check()
            except PowerCut:
                life.env.inject(None)
                life.env.crash(Random(second))
            life.env.inject(None)
            life.check()
