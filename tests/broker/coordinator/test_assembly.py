"""The coordinators in a whole broker: pending responses when disks fail, topics are deleted or the broker stops."""

from __future__ import annotations

import asyncio
import errno
from pathlib import Path
from typing import Any

import pytest

from barnabas.broker.coordinator.assembly import CoordinatorDependencies, Coordinators, InterBroker
from barnabas.broker.coordinator.records import CoordinatorRecord
from barnabas.broker.coordinator.shard import CoordinatorResult
from barnabas.broker.coordinator.transaction.rules import ProducerIdAndEpoch
from barnabas.broker.coordinator.txn import TransactionalProducer, TransactionMarker
from barnabas.broker.metadata.internal_topics import partition_for
from barnabas.broker.pending import Pending
from barnabas.protocol.api_keys import ApiKey, request_header_version
from barnabas.protocol.codec import decode, encode
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages.commits import OffsetCommitRequest, OffsetFetchRequest, OffsetFetchResponse
from barnabas.protocol.messages.group_state import OffsetCommitKey, OffsetCommitValue
from barnabas.protocol.messages.groups import FindCoordinatorRequest, JoinGroupRequest, JoinGroupResponse
from barnabas.protocol.messages.headers import RequestHeader
from barnabas.protocol.messages.topic_records import PartitionChangeRecord
from barnabas.protocol.messages.topics import CreatePartitionsRequest, DeleteTopicsRequest
from barnabas.protocol.messages.transactions import AddPartitionsToTxnRequest, WriteTxnMarkersRequest
from barnabas.protocol.records.entries import batches
from barnabas.protocol.schema import Message
from barnabas.storage.env import RealFile
from tests.broker.broker_fixture import NODE_ID, WAITS, Client, InProcessBroker, Wait
from tests.broker.cluster_images import election, topic_id, topic_records
from tests.broker.fake_channels import FakeChannels
from tests.broker.held_runner import HeldRunner
from tests.broker.member_broker import LISTENER, Cluster
from tests.broker.replica_node import BreakableEnv
from tests.broker.running_server import config_of, connected, new_server
from tests.support import raw
from tests.support.difference import Like

ONE = {"offsets.topic.num.partitions": "1", "transaction.state.log.num.partitions": "1"}
SYNCED = ONE | {"log.flush.interval.messages": "1"}


def begun(broker: InProcessBroker) -> InProcessBroker:
    """A broker with the coordinators' topics."""
    for key_type in (0, 1):
        client = broker.client(4) >> FindCoordinatorRequest(key_type=key_type, coordinator_keys=["g"])
        assert client << Like(coordinators=[Like(error_code=0)])
    return broker


def commit_request(offset: int, metadata: str = "") -> OffsetCommitRequest:
    partition = OffsetCommitRequest.OffsetCommitRequestPartition(
        partition_index=0, committed_offset=offset, committed_metadata=metadata
    )
    return OffsetCommitRequest(
        group_id="g",
        topics=[OffsetCommitRequest.OffsetCommitRequestTopic(name="t", partitions=[partition])],
    )


def answered(code: ErrorCode) -> Any:
    return Like(topics=[Like(partitions=[Like(error_code=code)])])


def committed(broker: InProcessBroker) -> int | ErrorCode:
    topic = OffsetFetchRequest.OffsetFetchRequestTopic(name="t", partition_indexes=[0])
    answer = broker.client(7).ask(OffsetFetchRequest(group_id="g", topics=[topic]))
    assert isinstance(answer, OffsetFetchResponse)
    if answer.error_code:
        return ErrorCode(answer.error_code)
    return answer.topics[0].partitions[0].committed_offset


def committed_later(broker: InProcessBroker) -> Client:
    """A client that has asked for the committed offset."""
    topic = OffsetFetchRequest.OffsetFetchRequestTopic(name="t", partition_indexes=[0])
    return broker.client(7) >> OffsetFetchRequest(group_id="g", topics=[topic])


JOIN = JoinGroupRequest(
    group_id="waiting",
    session_timeout_ms=10_000,
    rebalance_timeout_ms=10_000,
    protocol_type="consumer",
    protocols=[JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=b"")],
)


# ---- restarts


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_acknowledged_state_survives_a_restart(tmp_path: Path, how: str) -> None:
    broker = begun(InProcessBroker(tmp_path, ONE))
    broker.create_topic("t")
    assert broker.client(8) >> commit_request(7) << answered(ErrorCode.NONE)
    getattr(broker, how)()
    broker = InProcessBroker(tmp_path, ONE)
    assert committed(broker) == 7
    broker.stop()


def test_compressed_offsets_are_loaded(tmp_path: Path) -> None:
    settings = ONE | {"offsets.topic.compression.codec": "4"}
    broker = begun(InProcessBroker(tmp_path, settings))
    broker.create_topic("t")
    assert broker.client(8) >> commit_request(7) << answered(ErrorCode.NONE)
    log = broker.replica_manager.partition("__consumer_offsets", 0).log
    (segment,) = log.segments
    assert segment.file.pread(1, 22)[0] & 7 == 4
    broker.stop()
    assert committed(InProcessBroker(tmp_path, settings)) == 7


def test_record_batches_of_groups_have_offset_deltas_from_0_as_in_kafka(tmp_path: Path) -> None:
    broker = begun(InProcessBroker(tmp_path, ONE))
    broker.create_topic("t")
    for offset in (7, 8):
        assert broker.client(8) >> commit_request(offset) << answered(ErrorCode.NONE)
    (segment,) = broker.replica_manager.partition("__consumer_offsets", 0).log.segments
    written = list(batches(segment.file.pread(segment.size, 0)))
    assert [(batch.producer_id, batch.base_sequence) for batch in written] == [(-1, 0), (-1, 0)]


def test_requests_to_a_partition_that_loads_fail_with_a_retriable_error(tmp_path: Path) -> None:
    broker = begun(InProcessBroker(tmp_path, ONE))
    broker.create_topic("t")
    assert broker.client(8) >> commit_request(7) << answered(ErrorCode.NONE)
    broker.stop()
    runner = HeldRunner()
    broker = InProcessBroker(tmp_path, ONE, runner=runner)
    assert broker.client(8) >> commit_request(8) << answered(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    assert committed(broker) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    runner.release_all()
    assert committed(broker) == 7


# ---- disks


def test_a_response_waits_for_the_flush_if_configured(tmp_path: Path) -> None:
    broker = begun(InProcessBroker(tmp_path, SYNCED))
    broker.create_topic("t")
    broker.kill()
    runner = HeldRunner()
    broker = InProcessBroker(tmp_path, SYNCED, runner=runner)
    runner.release_all()
    first = broker.client(8) >> commit_request(7) << WAITS
    second = broker.client(8) >> commit_request(8) << WAITS
    assert runner.held == 1  # one fsync at a time, for all appends
    runner.release()
    assert first << answered(ErrorCode.NONE)
    assert second << WAITS
    runner.release()
    assert second << answered(ErrorCode.NONE)
    assert committed(broker) == 8


def test_a_flush_that_takes_too_long_times_out(tmp_path: Path) -> None:
    broker = begun(InProcessBroker(tmp_path, SYNCED))
    broker.create_topic("t")
    broker.kill()
    runner = HeldRunner()
    broker = InProcessBroker(tmp_path, SYNCED | {"offsets.commit.timeout.ms": "2000"}, runner=runner)
    runner.release_all()
    client = broker.client(8) >> commit_request(7) >> Wait(1.9) << WAITS
    assert client >> Wait(0.2) << answered(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    runner.release_all()
    assert committed(broker) == 7


def test_a_failed_flush_unloads_the_groups_of_the_directory(tmp_path: Path) -> None:
    env = BreakableEnv()
    broker = begun(InProcessBroker(tmp_path, SYNCED, env=env))
    broker.create_topic("t")
    assert broker.client(8) >> commit_request(7) << answered(ErrorCode.NONE)
    waiting = broker.client(3) >> JOIN << WAITS
    env.broken = {"sync"}
    assert broker.client(8) >> commit_request(8) << answered(ErrorCode.NOT_COORDINATOR)
    assert waiting << Like(error_code=ErrorCode.NOT_COORDINATOR)
    assert committed(broker) is ErrorCode.NOT_COORDINATOR
    assert broker.failed_dirs == [str(tmp_path)]
    found = broker.client(4) >> FindCoordinatorRequest(coordinator_keys=["g"])
    assert found << Like(coordinators=[Like(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)])


def test_a_failed_write_unloads_the_groups_of_the_directory(tmp_path: Path) -> None:
    env = BreakableEnv()
    broker = begun(InProcessBroker(tmp_path, ONE, env=env))
    broker.create_topic("t")
    waiting = broker.client(3) >> JOIN << WAITS
    env.broken = {"write"}
    assert broker.client(8) >> commit_request(8) << answered(ErrorCode.NOT_COORDINATOR)
    assert waiting << Like(error_code=ErrorCode.NOT_COORDINATOR)
    assert not broker.coordinators.group_runtime.shards()
    assert not broker.coordinators.transaction_runtime.shards()


def test_a_full_disk_rejects_commits_and_the_state_stays_that_of_the_log(tmp_path: Path) -> None:
    env = BreakableEnv()
    env.errno = errno.ENOSPC
    broker = begun(InProcessBroker(tmp_path, ONE, env=env))
    broker.create_topic("t")
    assert broker.client(8) >> commit_request(7) << answered(ErrorCode.NONE)
    env.broken = {"write"}
    assert broker.client(8) >> commit_request(8) << answered(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    assert committed(broker) == 7
    env.broken = set()
    env.ms += 60_000
    broker.log_manager.dirs[0].space.check()
    assert broker.client(8) >> commit_request(9) << answered(ErrorCode.NONE)
    assert committed(broker) == 9


def test_with_little_space_left_offsets_are_rejected_and_groups_continue(tmp_path: Path) -> None:
    env = BreakableEnv()
    settings = ONE | {"group.initial.rebalance.delay.ms": "0"}
    broker = begun(InProcessBroker(tmp_path, settings, env=env))
    broker.create_topic("t")
    broker.log_manager.dirs[0].space.is_full = True
    assert broker.client(8) >> commit_request(8) << answered(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    joined = broker.client(3) >> JOIN >> Wait(0.001)
    assert joined << Like(error_code=0, generation_id=1)


def test_a_disk_that_fails_during_a_load_goes_offline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = begun(InProcessBroker(tmp_path, ONE))
    broker.create_topic("t")
    assert broker.client(8) >> commit_request(7) << answered(ErrorCode.NONE)
    broker.stop()
    runner = HeldRunner()
    broker = InProcessBroker(tmp_path, ONE, runner=runner)

    def fails(self: RealFile, length: int, position: int) -> bytes:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(RealFile, "pread", fails)
    runner.release_all()
    assert broker.failed_dirs == [str(tmp_path)]
    assert committed(broker) is ErrorCode.NOT_COORDINATOR


# ---- topics


def test_pending_joins_fail_when_the_topic_is_deleted(tmp_path: Path) -> None:
    broker = begun(InProcessBroker(tmp_path, ONE))
    waiting = broker.client(3) >> JOIN << WAITS
    gone = broker.client(6) >> DeleteTopicsRequest(
        topics=[DeleteTopicsRequest.DeleteTopicState(name="__consumer_offsets")], timeout_ms=1000
    )
    assert gone << Like(responses=[Like(error_code=0)])
    assert waiting << Like(error_code=ErrorCode.NOT_COORDINATOR)
    assert committed(broker) is ErrorCode.NOT_COORDINATOR  # Kafka's error for this API
    begun(broker)  # which creates it again
    assert committed(broker) == -1


def test_added_partitions_are_coordinated_at_once(tmp_path: Path) -> None:
    broker = begun(InProcessBroker(tmp_path, ONE))
    topic = CreatePartitionsRequest.CreatePartitionsTopic(
        name="__consumer_offsets", count=3, assignments=None
    )
    more = broker.client(2) >> CreatePartitionsRequest(topics=[topic], timeout_ms=1000)
    assert more << Like(results=[Like(error_code=0)])
    assert len(broker.coordinators.group_runtime.shards()) == 3


# ---- transactions


def test_offsets_of_a_transaction_are_written_in_it_and_ended_by_the_marker(tmp_path: Path) -> None:
    broker = begun(InProcessBroker(tmp_path, ONE | {"transaction.partition.verification.enable": "false"}))
    broker.create_topic("t")
    runtime = broker.coordinators.group_runtime
    record = CoordinatorRecord(
        OffsetCommitKey(group="g", topic="t", partition=0),
        OffsetCommitValue(offset=5, metadata="", commit_timestamp=1),
        3,
    )

    def write(epoch: int) -> Any:
        return given(
            runtime.write_in_transaction(
                "g",
                TransactionalProducer("x", 7, epoch, False),
                lambda _: CoordinatorResult("ok", [record]),
                lambda error: error.code,
            )
        )

    def end(epoch: int) -> Any:
        error: ApiError | None = given(
            runtime.complete_transaction(0, TransactionMarker(7, epoch, 0, True, 1))
        )
        return error and error.code

    log = broker.replica_manager.partition("__consumer_offsets", 0).log
    assert write(3) == "ok"
    assert log.last_stable_offset < log.high_watermark
    assert committed(broker) == -1
    assert write(2) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert end(2) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert end(3) is None
    assert log.last_stable_offset == log.high_watermark
    assert committed(broker) == 5
    assert len(runtime.shards()) == 1
    broker.kill()
    assert committed(InProcessBroker(tmp_path, ONE)) == 5


def given(pending: Pending[Any]) -> Any:
    told: list[Any] = []
    pending.add_done_callback(told.append)
    return told[0] if told else WAITS


# ---- in a cluster


def test_a_member_of_a_cluster_sends_markers_and_verifications_to_other_brokers(tmp_path: Path) -> None:
    broker = InProcessBroker(tmp_path)
    cluster, channels = Cluster(broker), FakeChannels()
    coordinators = Coordinators(
        CoordinatorDependencies(
            config=broker.config,
            node_id=NODE_ID,
            replica_manager=broker.replica_manager,
            loop=broker.timer,
            loading=broker.runner,
            producer_ids=broker.components.control.producer_ids,
            now_ms=broker.env.now_ms,
            channels=InterBroker(LISTENER, channels.to),
        )
    )
    broker.components.publishers.add(coordinators.apply)
    cluster.commit(*topic_records("__transaction_state", [1, 2]), *topic_records("t", [1, 2, -1]))
    here, there = ({partition_for(name, 2): name for name in map(str, range(20))}[index] for index in (0, 1))
    transactions = coordinators.transactions
    begun_with = transactions.init_producer_id(here, 1000)
    broker.timer.run_soon()
    made = given(begun_with)
    producer = ProducerIdAndEpoch(made.producer_id, made.producer_epoch)
    added = transactions.add_partitions(here, producer, [("t", 0), ("t", 1), ("t", 2)], 0)
    broker.timer.run_soon()
    assert given(added) is ErrorCode.NONE
    transactions.end_transaction(here, producer, commits=True, client_version=0)
    broker.timer.run_soon()
    assert broker.replica_manager.partition("t", 0).log.log_end_offset == 1
    assert coordinators.unknown_destinations == 1
    (sent,) = channels[2].sent
    assert isinstance(sent.request, WriteTxnMarkersRequest)
    assert [topic.partition_indexes for topic in sent.request.markers[0].topics] == [[1]]
    cluster.commit(election("t", 2, 1))
    assert coordinators.unknown_destinations == 0

    asked = TransactionalProducer(there, 7, 0, False)
    assert coordinators.group_runtime.verifier is not None
    coordinators.group_runtime.verifier.verify(asked, [("t", 0)])
    assert isinstance(channels[2].sent[1].request, AddPartitionsToTxnRequest)
    broker.kill()


class Replicated:
    """A broker that coordinates groups in a partition with a follower, which never fetches: the high watermark moves
    when it leaves the ISR."""

    def __init__(self, log_dir: Path, settings: dict[str, str] | None = None) -> None:
        self.broker = InProcessBroker(log_dir, settings)
        self.cluster = Cluster(self.broker)
        self.cluster.commit(*topic_records("t", [1]), *topic_records("__consumer_offsets", [1], [1, 2]))

    def change(self, **changes: Any) -> None:
        topic = topic_id("__consumer_offsets")
        self.cluster.commit(PartitionChangeRecord(partition_id=0, topic_id=topic, **changes))


def test_operations_are_answered_when_the_high_watermark_passes_their_records(tmp_path: Path) -> None:
    replicated = Replicated(tmp_path)
    broker = replicated.broker
    first = broker.client(8) >> commit_request(7) << WAITS
    second = broker.client(8) >> commit_request(8) << WAITS
    assert broker.replica_manager.partition("__consumer_offsets", 0).log.high_watermark == 0
    replicated.change(isr=[1])
    assert first << answered(ErrorCode.NONE)
    assert second << answered(ErrorCode.NONE)
    assert committed(broker) == 8
    broker.kill()


def test_a_commit_that_takes_too_long_stays_in_the_state(tmp_path: Path) -> None:
    replicated = Replicated(tmp_path, {"offsets.commit.timeout.ms": "2000"})
    broker = replicated.broker
    waiting = broker.client(8) >> commit_request(7) << WAITS
    assert waiting >> Wait(2.1) << answered(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    replicated.change(isr=[1])
    assert committed(broker) == 7
    assert [state.name for state in broker.coordinators.group_runtime.states()] == ["ACTIVE"]
    broker.kill()


def test_a_coordinator_that_resigns_answers_all_that_waits(tmp_path: Path) -> None:
    replicated = Replicated(tmp_path)
    broker = replicated.broker
    waiting = broker.client(8) >> commit_request(7) << WAITS
    replicated.change(leader=2)
    assert waiting << answered(ErrorCode.NOT_COORDINATOR)
    assert broker.client(8) >> commit_request(8) << answered(ErrorCode.NOT_COORDINATOR)
    replicated.change(leader=1)  # elected again: what was not committed before is in the log, and may be yet
    assert committed_later(broker) << WAITS
    replicated.change(isr=[1])
    assert committed(broker) == 7
    broker.kill()


# ---- stopping


def test_pending_requests_fail_at_the_stop(tmp_path: Path) -> None:
    broker = begun(InProcessBroker(tmp_path, ONE))
    waiting = broker.client(3) >> JOIN << WAITS
    broker.coordinators.stop()
    assert waiting << Like(error_code=ErrorCode.NOT_COORDINATOR)
    assert committed(broker) is ErrorCode.NOT_COORDINATOR


async def test_a_stop_does_not_wait_for_pending_joins(tmp_path: Path) -> None:
    server = new_server(config_of(tmp_path, group_initial_rebalance_delay_ms="20000"))
    await server.start()
    async with connected(server.ports["PLAINTEXT"]) as client:
        await client.ask(_frame(FindCoordinatorRequest(coordinator_keys=["waiting"]), 4))
        client.send(_frame(JOIN, 3))
        runtime = server.components.coordinators.group_runtime
        while not any(map(len, (shard.groups for shard in runtime.shards()))):  # noqa: ASYNC110 (turns of the loop)
            await asyncio.sleep(0)
        stopped = asyncio.ensure_future(server.stop())
        answer = decode(JoinGroupResponse, 3, (await client.receive())[4:])
        assert answer.error_code == ErrorCode.NOT_COORDINATOR
        await stopped


def _frame(request: Message, version: int) -> bytes:
    assert request.api_key is not None
    key = ApiKey(request.api_key)
    header = RequestHeader(request_api_key=key, request_api_version=version, correlation_id=1, client_id="c")
    return raw.frame(encode(header, request_header_version(key, version)) + encode(request, version))
