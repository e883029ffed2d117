"""Partitions whose log could not be made: they get it while the broker runs, once what was in the way has passed."""

from __future__ import annotations

import errno
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from barnabas.broker.metrics import sources as metric_sources
from barnabas.broker.metrics.prometheus import Metrics
from barnabas.broker.startup.housekeeping import Housekeeping
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.fetch import FetchRequest
from barnabas.protocol.messages.metadata import MetadataRequest
from barnabas.protocol.messages.produce import ProduceRequest
from barnabas.protocol.messages.topics import CreateTopicsRequest, DeleteTopicsRequest
from barnabas.storage.errors import DiskFullError
from tests.broker.broker_fixture import InProcessBroker
from tests.broker.logs import batch
from tests.broker.metrics.test_sources import value
from tests.broker.turned_disk import TurnedDisk
from tests.storage.fault_env import Fault, FaultPlan
from tests.support.difference import Like

NEEDS_ROOM = frozenset({"open", "mkdir", "pwritev", "truncate", "rename"})
NEEDS_A_DESCRIPTOR = frozenset({"open", "map", "sync_dir", "listdir", "read_file"})
LITTLE = {errno.ENOSPC: NEEDS_ROOM, errno.EMFILE: NEEDS_A_DESCRIPTOR}
"""Which operations have an error of each kind."""


class NewLogsHarness:
    """A broker with its housekeeping, over one disk."""

    def __init__(self, disk: TurnedDisk | None = None, settings: Mapping[str, str] | None = None) -> None:
        self.disk = disk or TurnedDisk()
        self.broker = InProcessBroker(Path("/disk"), settings, env=self.disk)
        self.replicas = self.broker.replica_manager
        self.housekeeping = Housekeeping(
            self.broker.config, self.broker.log_manager, self.replicas, self.broker.runner, self.broker.timer
        )
        self.housekeeping.start()

    def pass_time(self) -> None:
        self.disk.ms += 1000
        self.broker.timer.advance(1.0)

    def create(self, name: str = "u", partitions: int = 1) -> None:
        topic = CreateTopicsRequest.CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
        answer = Like(topics=[Like(error_code=0)])
        assert self.broker.client(7) >> CreateTopicsRequest(topics=[topic], timeout_ms=1000) << answer

    def delete(self, name: str = "u") -> None:
        answer = Like(responses=[Like(error_code=0)])
        assert self.broker.client(5) >> DeleteTopicsRequest(topic_names=[name], timeout_ms=1000) << answer

    def metadata(self, name: str = "u") -> Any:
        topic = MetadataRequest.MetadataRequestTopic(name=name)
        (answer,) = self.broker.client(12).ask(MetadataRequest(topics=[topic])).topics  # type: ignore[attr-defined]
        (partition,) = answer.partitions
        return partition.error_code, partition.leader_id, partition.leader_epoch, partition.offline_replicas

    def produce(self, name: str = "u") -> ErrorCode:
        data = ProduceRequest.PartitionProduceData(index=0, records=batch("a"))
        topic = ProduceRequest.TopicProduceData(name=name, partition_data=[data])
        answer: Any = self.broker.client(9).ask(ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[topic]))
        return ErrorCode(answer.responses[0].partition_responses[0].error_code)

    def fetch(self, name: str = "u") -> tuple[ErrorCode, int]:
        """The error and the high watermark."""
        partition = FetchRequest.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)
        topic = FetchRequest.FetchTopic(topic=name, partitions=[partition])
        request = FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=1000, topics=[topic])
        answer: Any = self.broker.client(12).ask(request)
        found = answer.responses[0].partitions[0]
        return ErrorCode(found.error_code), found.high_watermark

    def offline_counts(self) -> tuple[float, float]:
        """The metrics of replicas that are offline, and of partitions without a leader."""
        metrics = Metrics()
        replicas = self.replicas
        metric_sources.add_partitions(metrics, replicas.partitions, lambda: replicas.without_log_count)
        metric_sources.add_controller(
            metrics,
            lambda: self.broker.broker.image,
            lambda topic, index: replicas.has_offline_partitions and replicas.is_offline(topic, index),
        )
        return (
            value(metrics, "kafka_server_replicamanager_offlinereplicacount"),
            value(metrics, "kafka_controller_kafkacontroller_offlinepartitionscount"),
        )

    def directories(self) -> list[str]:
        names = self.disk.listdir("/disk")
        return sorted(name for name in names if name[:2] == "u-" and self.disk.is_dir(f"/disk/{name}"))

    def restarted(self) -> NewLogsHarness:
        self.broker.kill()
        self.disk.kill()
        return NewLogsHarness(self.disk)


def lacking(code: int, after: int = 0, path: str = "/disk/u-") -> FaultPlan:
    """Fails, from the one after so many on, the operations under `path` that need what there is none of."""
    count = 0

    def plan(_: int, kind: str, where: str) -> Fault | None:
        nonlocal count
        if kind not in LITTLE[code] or not where.startswith(path):
            return None
        count += 1
        return Fault(code) if count > after else None

    return plan


@pytest.mark.parametrize("guard", ["0", "-1"])
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EMFILE])
def test_a_partition_gets_its_log_when_there_is_room_again(code: int, guard: str) -> None:
    harness = NewLogsHarness(settings={"barnabas.log.dir.min.free.bytes": guard})
    harness.disk.inject(lacking(code))
    harness.create()
    for _ in range(3):
        assert harness.metadata() == (ErrorCode.LEADER_NOT_AVAILABLE, -1, 0, [1])
        assert harness.produce() is ErrorCode.KAFKA_STORAGE_ERROR
        assert harness.fetch()[0] is ErrorCode.KAFKA_STORAGE_ERROR
        assert harness.offline_counts() == (1, 1)
        harness.pass_time()
    harness.disk.inject(None)
    harness.pass_time()
    assert harness.metadata() == (ErrorCode.NONE, 1, 0, [])
    assert harness.produce() is ErrorCode.NONE
    assert harness.fetch() == (ErrorCode.NONE, 1)
    assert harness.offline_counts() == (0, 0)
    assert not harness.replicas.has_offline_partitions


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EMFILE])
def test_whatever_of_it_was_made_already(code: int) -> None:
    def live(harness: NewLogsHarness) -> None:
        harness.disk.inject(None)
        harness.pass_time()
        assert harness.produce() is ErrorCode.NONE
        again = harness.restarted()
        assert again.fetch() == (ErrorCode.NONE, 1)
        assert again.broker.replica_manager.partition("u", 0).log.topic_id is not None
        assert again.directories() == ["u-0"]

    assert for_each_operation(code, live) > 3


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EMFILE])
def test_a_topic_that_is_deleted_before_leaves_nothing_to_the_next_of_its_name(code: int) -> None:
    def live(harness: NewLogsHarness) -> None:
        harness.disk.inject(None)
        harness.delete()
        assert [name for name in harness.directories() if not name.endswith("-delete")] == []
        harness.pass_time()
        assert harness.directories() == []
        harness.create()
        assert harness.produce() is ErrorCode.NONE
        assert harness.restarted().directories() == ["u-0"]

    assert for_each_operation(code, live) > 3


def for_each_operation(code: int, live: Callable[[NewLogsHarness], None]) -> int:
    """Has a topic made where all that is needed is lacking from one operation on, then the first, then the second,
    until none is hit; how many those are."""
    number = 0
    while True:
        harness = NewLogsHarness()
        harness.disk.inject(lacking(code, number))
        harness.create()
        if not harness.replicas.has_offline_partitions:
            return number
        live(harness)
        number += 1


def test_a_start_without_room_is_made_up_for(caplog: pytest.LogCaptureFixture) -> None:
    harness = NewLogsHarness()
    harness.disk.inject(lacking(errno.ENOSPC))
    harness.create()
    harness.broker.kill()
    harness.disk.kill()
    harness.disk.inject(lacking(errno.ENOSPC))
    again = NewLogsHarness(harness.disk)
    caplog.clear()
    for _ in range(5):
        again.pass_time()
    assert again.produce() is ErrorCode.KAFKA_STORAGE_ERROR
    assert caplog.messages == [], "it is said once"
    again.disk.inject(None)
    again.pass_time()
    assert caplog.messages == ["partition u-0 has a log now, and is online"]
    assert again.produce() is ErrorCode.NONE


def test_one_log_is_made_in_each_pass_of_the_loop() -> None:
    """Each waits for the disk, and clients wait meanwhile."""
    harness = NewLogsHarness()
    harness.disk.inject(lacking(errno.ENOSPC))
    harness.create(partitions=4)
    harness.disk.inject(None)
    harness.housekeeping.open_missing_logs()
    assert harness.replicas.without_log_count == 3
    harness.broker.timer.advance(0)
    assert harness.replicas.without_log_count == 0


def test_after_the_stop_none_is_made() -> None:
    harness = NewLogsHarness()
    harness.disk.inject(lacking(errno.ENOSPC))
    harness.create(partitions=4)
    harness.disk.inject(None)
    harness.housekeeping.open_missing_logs()
    harness.housekeeping.stop()
    harness.broker.timer.advance(1000)
    assert harness.replicas.without_log_count == 3


def test_a_partition_that_got_its_log_otherwise_is_not_touched() -> None:
    harness = NewLogsHarness()
    harness.create()
    log = harness.replicas.partition("u", 0).log
    harness.replicas.open_missing_log(("u", 0))
    assert harness.replicas.partition("u", 0).log is log


def test_it_waits_for_the_room_that_is_kept_free() -> None:
    """Which is for what cannot wait: a log makes files as it is made, and the broker's own writes need them more."""
    harness = NewLogsHarness(settings={"barnabas.log.dir.min.free.bytes": "100000"})
    harness.disk.inject(lacking(errno.ENOSPC))
    harness.create()
    harness.disk.inject(None)
    space = harness.broker.log_manager.dirs[0].space
    harness.disk.disk_bytes = harness.disk.used_bytes() + 10_000
    harness.pass_time()
    harness.pass_time()
    assert space.is_full
    assert harness.replicas.missing_logs_to_try() == []
    assert harness.metadata() == (ErrorCode.LEADER_NOT_AVAILABLE, -1, 0, [1])
    harness.disk.disk_bytes *= 1000
    harness.pass_time()
    assert harness.metadata() == (ErrorCode.NONE, 1, 0, [])


def test_each_waits_for_its_own_directory() -> None:
    harness = NewLogsHarness(settings={"log.dirs": "/disk,/other"})
    harness.disk.inject(
        lambda _, kind, path: Fault(errno.ENOSPC) if kind == "mkdir" and "/u-" in path else None
    )
    harness.create(partitions=2)
    harness.disk.inject(None)
    full, _ = harness.broker.log_manager.dirs
    full.space.is_full = True
    (key,) = harness.replicas.missing_logs_to_try()
    harness.replicas.open_missing_log(key)
    assert harness.disk.is_dir(f"/other/u-{key[1]}")
    assert harness.replicas.without_log_count == 1


def test_a_directory_that_is_not_cordoned_any_more_takes_it() -> None:
    """A request may place a partition where all directories are cordoned."""
    harness = NewLogsHarness()
    harness.broker.log_manager.dirs.cordoned = frozenset({"/disk"})
    harness.create()
    harness.pass_time()
    assert harness.produce() is ErrorCode.KAFKA_STORAGE_ERROR
    harness.broker.log_manager.dirs.cordoned = frozenset()
    harness.pass_time()
    assert harness.produce() is ErrorCode.NONE


def test_what_may_lie_on_a_disk_that_failed_waits_for_the_next_start() -> None:
    harness = NewLogsHarness()
    harness.disk.inject(lambda _, kind, path: Fault() if kind == "mkdir" and "/u-" in path else None)
    harness.create()
    assert harness.broker.failed_dirs == ["/disk"]
    harness.disk.inject(None)
    assert harness.replicas.lacks_log("u", 0)
    assert harness.replicas.missing_logs_to_try() == []


@pytest.mark.parametrize("topic", ["__consumer_offsets", "__transaction_state"])
def test_what_is_coordinated_from_it_is_loaded_then(topic: str) -> None:
    counts = {"offsets.topic.num.partitions": "1", "transaction.state.log.num.partitions": "1"}
    harness = NewLogsHarness(settings=counts)
    harness.disk.inject(lacking(errno.ENOSPC, path=f"/disk/{topic}-"))
    harness.create(topic)
    coordinators = harness.broker.coordinators
    runtime = {it.topic: it for it in (coordinators.group_runtime, coordinators.transaction_runtime)}[topic]
    assert [state.name for state in runtime.states()] == ["FAILED"]
    harness.disk.inject(None)
    harness.pass_time()
    assert [state.name for state in runtime.states()] == ["ACTIVE"]


def test_the_error_says_whether_it_may_pass() -> None:
    harness = NewLogsHarness()
    harness.disk.inject(lacking(errno.ENOSPC))
    harness.create()
    missing = harness.replicas._without_log.get(("u", 0))
    assert missing is not None
    assert isinstance(missing.error, DiskFullError)
    assert missing.is_retriable
