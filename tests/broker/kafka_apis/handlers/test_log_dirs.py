"""DescribeLogDirs and AlterReplicaLogDirs, and cordoned log directories."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.configs import IncrementalAlterConfigsRequest
from barnabas.protocol.messages.log_dirs import (
    AlterReplicaLogDirsRequest,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)
from barnabas.protocol.messages.topics import CreateTopicsRequest, DeleteTopicsRequest
from barnabas.storage.manager import log_dirs
from tests.broker.broker_fixture import InProcessBroker
from tests.support.difference import Like


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[InProcessBroker]:
    dirs = ",".join(str(tmp_path / name) for name in "abc")
    broker = InProcessBroker(tmp_path, {"log.dirs": dirs})
    yield broker
    broker.stop()


def described(broker: InProcessBroker, *topics: str, version: int = 5) -> DescribeLogDirsResponse:
    wanted = [
        DescribeLogDirsRequest.DescribableLogDirTopic(topic=topic, partitions=[0, 1, 2]) for topic in topics
    ]
    answer = broker.client(version).ask(DescribeLogDirsRequest(topics=wanted or None))
    assert isinstance(answer, DescribeLogDirsResponse)
    return answer


def places(broker: InProcessBroker, *topics: str) -> dict[str, list[tuple[str, int, bool]]]:
    """The partitions in each directory, by its last name."""
    return {
        one.log_dir[-1]: [
            (topic.name, it.partition_index, it.is_future_key)
            for topic in one.topics
            for it in topic.partitions
        ]
        for one in described(broker, *topics).results
    }


def move(path: str, topic: str, *partitions: int) -> AlterReplicaLogDirsRequest:
    request = AlterReplicaLogDirsRequest
    wanted = request.AlterReplicaLogDirTopic(name=topic, partitions=list(partitions))
    return request(dirs=[request.AlterReplicaLogDir(path=path, topics=[wanted])])


def coded(topic: str, **codes: ErrorCode) -> Like:
    results = [Like(partition_index=int(index[1:]), error_code=code) for index, code in codes.items()]
    return Like(results=[Like(topic_name=topic, partitions=results)])


def cordon(broker: InProcessBroker, value: str) -> None:
    request = IncrementalAlterConfigsRequest
    entry = request.AlterableConfig(name="cordoned.log.dirs", config_operation=0, value=value)
    resource = request.AlterConfigsResource(resource_type=4, resource_name="1", configs=[entry])
    assert broker.client(1) >> request(resources=[resource]) << Like(responses=[Like(error_code=0)])


def test_every_directory_is_described(broker: InProcessBroker) -> None:
    broker.create_topic("t", 3)
    answer = described(broker)
    assert [one.error_code for one in answer.results] == [0, 0, 0]
    assert all(0 < one.usable_bytes <= one.total_bytes for one in answer.results)
    assert not any(one.is_cordoned for one in answer.results)
    assert places(broker) == {"a": [("t", 0, False)], "b": [("t", 1, False)], "c": [("t", 2, False)]}
    assert places(broker, "u") == {"a": [], "b": [], "c": []}


def test_a_failed_directory(broker: InProcessBroker, tmp_path: Path) -> None:
    broker.create_topic("t", 3)
    broker.replica_manager.log_dir_failed(str(tmp_path / "b"))
    answer = described(broker)
    assert [one.error_code for one in answer.results] == [0, ErrorCode.KAFKA_STORAGE_ERROR, 0]
    assert answer.results[1].total_bytes == answer.results[1].usable_bytes == -1
    code = ErrorCode.KAFKA_STORAGE_ERROR
    client = broker.client(2)
    assert client >> move(str(tmp_path / "b"), "t", 0) << coded("t", _0=code)
    assert client >> move(str(tmp_path / "a"), "t", 1) << coded("t", _1=code)


def test_partitions_move(broker: InProcessBroker, tmp_path: Path) -> None:
    broker.create_topic("t", 3)
    client = broker.client(2)
    none = ErrorCode.NONE
    assert client >> move(str(tmp_path / "c"), "t", 0, 1, 2) << coded("t", _0=none, _1=none, _2=none)
    assert places(broker)["c"] == [("t", 0, False), ("t", 1, False), ("t", 2, False)]
    directory_id = next(one.directory_id for one in broker.log_manager.dirs if one.path.endswith("/c"))
    partitions = broker.broker.image.topics["t"].partitions
    assert {partitions[index].directory_of(1) for index in range(3)} == {directory_id}


def test_moves_that_are_rejected(broker: InProcessBroker, tmp_path: Path) -> None:
    broker.create_topic("t")
    client = broker.client(2)
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert client >> move("/nowhere", "t", 0) << coded("t", _0=ErrorCode.LOG_DIR_NOT_FOUND)
    assert client >> move(str(tmp_path / "a"), "u", 0) << coded("u", _0=unknown)
    assert (
        client
        >> move(str(tmp_path / "a"), "x" * 214, 0)
        << coded("x" * 214, _0=ErrorCode.INVALID_TOPIC_EXCEPTION)
    )
    assert client >> AlterReplicaLogDirsRequest(dirs=[]) << Like(results=[])


def test_a_directory_requested_before_the_topic_exists(broker: InProcessBroker, tmp_path: Path) -> None:
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert broker.client(2) >> move(str(tmp_path / "c"), "t", 0, 1) << coded("t", _0=unknown, _1=unknown)
    broker.create_topic("t", 2)
    assert places(broker)["c"] == [("t", 0, False), ("t", 1, False)]


def test_requests_for_future_topics_are_bounded(
    broker: InProcessBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_dirs, "MAX_PREFERRED", 3)
    client = broker.client(2)
    for name in ("first", "again", "no name!", "again", "other", "last"):
        client.ask(move(str(tmp_path / "b"), name, 0))
    wished = {
        name for name in ("first", "again", "other", "last") if broker.log_manager.dirs.preferred(name, 0)
    }
    assert wished == {"again", "other", "last"}


def test_a_topic_deleted_during_a_move(broker: InProcessBroker, tmp_path: Path) -> None:
    broker.create_topic("t")
    assert broker.client(2) >> move(str(tmp_path / "c"), "t", 0) << coded("t", _0=ErrorCode.NONE)
    request = DeleteTopicsRequest(topics=[DeleteTopicsRequest.DeleteTopicState(name="t")], timeout_ms=1000)
    assert broker.client(6) >> request << Like(responses=[Like(error_code=0)])
    assert places(broker) == {"a": [], "b": [], "c": []}
    assert broker.components.moves.moves == []
    broker.create_topic("t")
    assert sum(len(found) for found in places(broker).values()) == 1


def test_cordoned_directories_get_no_new_logs(broker: InProcessBroker, tmp_path: Path) -> None:
    cordon(broker, f"{tmp_path}/a,{tmp_path}/b")
    assert [one.is_cordoned for one in described(broker).results] == [True, True, False]
    broker.create_topic("t", 4)
    assert len(places(broker)["c"]) == 4
    refused = ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert broker.client(2) >> move(str(tmp_path / "a"), "t", 0) << coded("t", _0=refused)
    ids = {one.path[-1]: one.directory_id for one in broker.log_manager.dirs}
    assert set(broker.broker.image.brokers[1].cordoned_log_dirs or ()) == {ids["a"], ids["b"]}
    cordon(broker, "*")
    new = CreateTopicsRequest.CreatableTopic(name="u", num_partitions=1, replication_factor=1)
    answer = Like(topics=[Like(error_code=ErrorCode.INVALID_REPLICATION_FACTOR)])
    assert broker.client(7) >> CreateTopicsRequest(topics=[new]) << answer
    cordon(broker, "")
    assert broker.broker.image.brokers[1].cordoned_log_dirs == ()
    broker.create_topic("u")
    assert len(places(broker)["c"]) == 4
