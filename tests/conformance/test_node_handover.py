"""Apache Kafka starts in the directory of a Barnabas node that was stopped or killed, and the other way round.

Every partition has a leader afterwards, with a static and a dynamic quorum and with each metadata.version.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from click.testing import CliRunner

from barnabas.broker.metadata.versions import FEATURES, METADATA_VERSIONS
from barnabas.cli.main import main
from barnabas.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from barnabas.protocol.messages.metadata import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
)
from barnabas.protocol.messages.quorum import DescribeQuorumRequest, DescribeQuorumResponse
from tests.conformance.handover.kafka_side import create, request_once
from tests.conformance.handover.sides import KAFKA, OURS, Broker, Directory
from tests.conformance.kafka_jars import KAFKA_39, KAFKA_41, require_compiled
from tests.support.apache_kafka import ApacheKafka

pytestmark = [pytest.mark.conformance, pytest.mark.slow, pytest.mark.timeout(300)]

CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qg"
LONG = bool(os.environ.get("BARNABAS_HANDOVER_SEEDS"))
RELEASES = ["3.3-IV3", "3.6-IV2", "3.9-IV0", "4.0-IV1"][
    : 4 if os.environ.get("BARNABAS_HANDOVER_SEEDS") else 1
]
SOURCE = Path(__file__).parent / "java" / "JavaVersions.java"


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Directory]:
    place = Directory(tmp_path)
    yield place
    place.end()


def leaders(bootstrap: str) -> dict[str, tuple[int, list[int], list[int]]]:
    """Each topic's first partition: leader, in-sync replicas, eligible leader replicas."""
    answer = request_once(bootstrap, DescribeTopicPartitionsRequest(), 0)
    assert isinstance(answer, DescribeTopicPartitionsResponse)
    return {
        topic.name or "": (one.leader_id, one.isr_nodes, one.eligible_leader_replicas or [])
        for topic in answer.topics
        for one in topic.partitions[:1]
    }


def features(bootstrap: str) -> dict[str, int]:
    """The finalized feature levels."""
    request = ApiVersionsRequest(client_software_name="handover", client_software_version="1")
    answer = request_once(bootstrap, request, 4)
    assert isinstance(answer, ApiVersionsResponse)
    return {one.name: one.max_version_level for one in answer.finalized_features}


def voters(bootstrap: str) -> list[tuple[int, bytes]]:
    """The voters of the quorum, with their directory ids."""
    topic = DescribeQuorumRequest.TopicData(topic_name="__cluster_metadata")
    topic.partitions = [DescribeQuorumRequest.PartitionData(partition_index=0)]
    answer = request_once(bootstrap, DescribeQuorumRequest(topics=[topic]), 2)
    assert isinstance(answer, DescribeQuorumResponse)
    (partition,) = answer.topics[0].partitions
    assert partition.error_code == 0
    return [(one.replica_id, one.replica_directory_id) for one in partition.current_voters]


def led(*topics: str) -> dict[str, tuple[int, list[int], list[int]]]:
    return dict.fromkeys(topics, (1, [1], []))


def started(directory: Directory, side: str, overrides: Mapping[str, str] = {}) -> Broker:
    broker = directory.broker(side)
    broker.overrides |= overrides
    return broker.start()


def stopped(broker: Broker) -> None:
    assert broker.stop() == broker.clean_status


def server_log_of(directory: Directory) -> str:
    kafka = directory.broker(KAFKA)
    assert isinstance(kafka, ApacheKafka)
    return (kafka.directory / "server.log").read_text()


def test_dynamic_quorum_survives_kafka_and_back(directory: Directory) -> None:
    """After clean shutdowns no start waits for a broker session to expire, and no leader is elected uncleanly."""
    quorum = {
        "controller.quorum.voters": "",
        "controller.quorum.bootstrap.servers": f"127.0.0.1:{directory.ports[1]}",
    }
    ours = started(directory, OURS, quorum)
    create(ours.bootstrap, {"first": {}})
    known = voters(ours.bootstrap)
    assert known[0][1] != bytes(16)
    levels = features(ours.bootstrap)
    stopped(ours)
    kafka = started(directory, KAFKA, quorum)
    assert leaders(kafka.bootstrap) == led("first")
    assert (voters(kafka.bootstrap), features(kafka.bootstrap)) == (known, levels)
    create(kafka.bootstrap, {"second": {}})
    stopped(kafka)
    ours.start()
    assert leaders(ours.bootstrap) == led("first", "second")
    assert (voters(ours.bootstrap), features(ours.bootstrap)) == (known, levels)
    stopped(ours)
    log_lines = server_log_of(directory)
    assert "DUPLICATE_BROKER_REGISTRATION" not in log_lines
    assert "unclean election" not in log_lines


@pytest.mark.parametrize("release", RELEASES)
def test_kafka_finds_leaders_after_a_kill_under_an_older_metadata_version(
    directory: Directory, release: str
) -> None:
    kafka_broker = directory.broker(KAFKA)
    assert isinstance(kafka_broker, ApacheKafka)
    kafka_broker._write_configuration()
    words = ["format", "-t", CLUSTER_ID, "-r", release, "-c", str(kafka_broker._properties)]
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 0, done.output
    ours = started(directory, OURS)
    create(ours.bootstrap, {"first": {}})
    ours.kill()
    kafka = kafka_broker.start()
    assert leaders(kafka.bootstrap) == led("first")
    level = next(one.level for one in METADATA_VERSIONS if one.name == release)
    assert features(kafka.bootstrap) == features_of(level)
    create(kafka.bootstrap, {"second": {}})
    kafka.kill()
    ours.start()
    assert leaders(ours.bootstrap) == led("first", "second")
    assert features(ours.bootstrap) == features_of(level)
    create(ours.bootstrap, {"third": {}})
    stopped(ours)


@pytest.mark.skipif(not LONG, reason="four more starts of Kafka: with BARNABAS_HANDOVER_SEEDS only")
@pytest.mark.parametrize("version", [KAFKA_39, KAFKA_41])
def test_older_kafka_versions_hand_over_and_take_back(directory: Directory, version: str) -> None:
    ours, old = directory.broker(OURS), directory.broker(version)
    old.start()
    create(old.bootstrap, {"first": {}})
    levels = features(old.bootstrap)
    stopped(old)
    ours.start()
    assert (leaders(ours.bootstrap), features(ours.bootstrap)) == (led("first"), levels)
    create(ours.bootstrap, {"second": {}})
    stopped(ours)
    old.start()
    create(old.bootstrap, {"third": {}})
    old.kill()
    ours.start()
    assert (leaders(ours.bootstrap), features(ours.bootstrap)) == (led("first", "second", "third"), levels)
    ours.kill()
    old.start()
    create(old.bootstrap, {"fourth": {}})
    stopped(old)
    ours.start()
    assert leaders(ours.bootstrap) == led("first", "second", "third", "fourth")


def features_of(level: int) -> dict[str, int]:
    found = {one.name: one.default_level(level) for one in FEATURES if one.name != "kraft.version"}
    return {"metadata.version": level, **{name: at for name, at in found.items() if at}}


def test_versions_and_features_are_kafkas() -> None:
    """Level, name and dependencies of everything in Kafka's own tables."""
    import subprocess

    from barnabas.broker.metadata.versions import record_version
    from barnabas.protocol.messages.cluster_records import RegisterBrokerRecord
    from barnabas.protocol.messages.topic_records import PartitionChangeRecord, PartitionRecord

    command = ["java", "-XX:TieredStopAtLevel=1", "-cp", require_compiled(SOURCE), SOURCE.stem]
    theirs = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    records = (RegisterBrokerRecord(), PartitionRecord(), PartitionChangeRecord())
    mine = [
        " ".join(
            [
                f"metadata.version {one.level} {one.name} {one.level <= 30} {one.changes_metadata}".lower(),
                *(str(record_version(record, one.level)) for record in records),
            ]
        )
        for one in METADATA_VERSIONS
    ]
    for feature in FEATURES:
        for at in feature.levels:
            needs = " ".join(f"{name}={level}" for name, level in at.dependencies.items())
            mine.append(f"{feature.name} {at.level} {at.since} {needs}".rstrip().lower())
    assert [line.lower() for line in theirs] == [line.lower() for line in mine]
