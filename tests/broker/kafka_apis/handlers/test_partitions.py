"""CreatePartitions, ElectLeaders and reassignments. The rules themselves are tested in test_partition_admin."""

from __future__ import annotations

from pathlib import Path

import pytest

from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.acls import AclOperation, AclResourceType
from barnabas.protocol.messages.topics import (
    AlterPartitionReassignmentsRequest,
    CreatePartitionsRequest,
    ElectLeadersRequest,
    ElectLeadersResponse,
    ListPartitionReassignmentsRequest,
)
from tests.broker.broker_fixture import NODE_ID, WAITS, InProcessBroker
from tests.broker.guarded_broker import GuardedBroker
from tests.broker.held_runner import HeldRunner
from tests.broker.logs import batch
from tests.broker.throttled import set_quotas, throttled
from tests.conformance.dialogues.words import produce
from tests.support.difference import Like


def growing(*topics: tuple[str, int], validate_only: bool = False) -> CreatePartitionsRequest:
    return CreatePartitionsRequest(
        topics=[
            CreatePartitionsRequest.CreatePartitionsTopic(name=name, count=count, assignments=None)
            for name, count in topics
        ],
        validate_only=validate_only,
    )


def indexes(broker: InProcessBroker, name: str) -> list[int]:
    return sorted(broker.broker.image.topics[name].partitions)


# ---- CreatePartitions


@pytest.mark.parametrize("version", range(4))
def test_every_version_adds_partitions_that_can_be_written_to(broker: InProcessBroker, version: int) -> None:
    broker.create_topic("t")
    done = Like(results=[Like(name="t", error_code=ErrorCode.NONE, error_message=None)])
    assert broker.client(version=version) >> growing(("t", 3)) << done
    assert indexes(broker, "t") == [0, 1, 2]
    appended = Like(responses=[Like(partition_responses=[Like(error_code=0, base_offset=0)])])
    assert broker.client(version=12) >> produce("t", batch("a"), first_partition=2) << appended


def test_a_failure_does_not_fail_other_topics(broker: InProcessBroker) -> None:
    for name in "abc":
        broker.create_topic(name)
    answer = Like(
        results=[
            Like(name="c", error_code=ErrorCode.INVALID_REQUEST),
            Like(name="a", error_code=ErrorCode.NONE),
            Like(name="b", error_code=ErrorCode.INVALID_PARTITIONS),
            Like(name="u", error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ]
    )
    request = growing(("a", 2), ("b", 1), ("c", 2), ("c", 3), ("u", 2))
    assert broker.client(version=3) >> request << answer
    assert [len(indexes(broker, name)) for name in "abc"] == [2, 1, 1]


def test_validation_adds_nothing(broker: InProcessBroker) -> None:
    broker.create_topic("t")
    done = Like(results=[Like(error_code=ErrorCode.NONE)])
    assert broker.client(version=3) >> growing(("t", 3), validate_only=True) << done
    assert indexes(broker, "t") == [0]


def test_new_partitions_of_one_request_are_limited(broker: InProcessBroker) -> None:
    broker.create_topic("t")
    refused = Like(results=[Like(error_code=ErrorCode.POLICY_VIOLATION)])
    assert broker.client(version=3) >> growing(("t", 2**31 - 1)) << refused
    by_hand = growing(("t", 2**31 - 1))
    by_hand.topics[0].assignments = [CreatePartitionsRequest.CreatePartitionsAssignment(broker_ids=[1])]
    wrong = Like(results=[Like(error_code=ErrorCode.INVALID_REPLICA_ASSIGNMENT)])
    assert broker.client(version=3) >> by_hand << wrong, "assignments are counted first"
    assert indexes(broker, "t") == [0]


def test_a_failed_write_adds_no_partitions(tmp_path: Path) -> None:
    runner = HeldRunner()
    broker = InProcessBroker(tmp_path, runner=runner)
    client = broker.client(version=3)
    unknown = Like(results=[Like(error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)])
    assert client >> growing(("t", 2)) << unknown
    creation = broker.client(version=7)
    from tests.broker.kafka_apis.handlers.test_topics import creating, topic

    assert creation >> creating(topic("t")) << WAITS
    runner.release_all()
    assert creation << Like(topics=[Like(error_code=0)])
    assert client >> growing(("t", 2)) << WAITS
    runner.fail(OSError("no space left"))
    assert client << Like(results=[Like(name="t", error_code=ErrorCode.KAFKA_STORAGE_ERROR)])
    assert indexes(broker, "t") == [0]
    broker.kill()


def test_added_partitions_are_charged(broker: InProcessBroker) -> None:
    for name in "ab":
        broker.create_topic(name, 2)
    set_quotas(broker, controller_mutation_rate=1)

    client, older = broker.client(3), broker.client(2)
    assert (
        client
        >> growing(("a", 14), ("b", 3))
        << throttled(1000, results=[Like(error_code=0), Like(error_code=ErrorCode.THROTTLING_QUOTA_EXCEEDED)])
    )
    assert older >> growing(("b", 3)) << throttled(2000, results=[Like(error_code=0)])


# ---- ElectLeaders


def electing(*partitions: int, election_type: int = 0, name: str = "t") -> ElectLeadersRequest:
    wanted = ElectLeadersRequest.TopicPartitions(topic=name, partitions=list(partitions))
    return ElectLeadersRequest(election_type=election_type, topic_partitions=[wanted])


@pytest.mark.parametrize("version", range(3))
def test_an_election_of_the_current_leader_is_not_needed(broker: InProcessBroker, version: int) -> None:
    broker.create_topic("t")
    results = Like(
        replica_election_results=[
            Like(
                topic="t",
                partition_result=[
                    Like(partition_id=0, error_code=ErrorCode.ELECTION_NOT_NEEDED),
                    Like(partition_id=1, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
                ],
            )
        ]
    )
    assert broker.client(version=version) >> electing(0, 1) << results
    assert broker.broker.image.topics["t"].partitions[0].leader_epoch == 0


def test_a_null_list_reports_only_partitions_that_needed_an_election(broker: InProcessBroker) -> None:
    broker.create_topic("t")
    nothing = Like(error_code=0, replica_election_results=[Like(topic="t", partition_result=[])])
    assert broker.client(version=2) >> ElectLeadersRequest(topic_partitions=None) << nothing


def test_elections_in_unknown_partitions(broker: InProcessBroker) -> None:
    broker.create_topic("t")
    refused = Like(
        error_code=ErrorCode.INVALID_REQUEST,
        replica_election_results=[Like(partition_result=[Like(error_code=ErrorCode.INVALID_REQUEST)])],
    )
    assert broker.client(version=2) >> electing(0, election_type=7) << refused
    nobody = ElectLeadersRequest(election_type=7, topic_partitions=[])
    assert broker.client(version=2) >> nobody << ElectLeadersResponse()


# ---- reassignments


def moving(*partitions: tuple[int, list[int] | None]) -> AlterPartitionReassignmentsRequest:
    return AlterPartitionReassignmentsRequest(
        topics=[
            AlterPartitionReassignmentsRequest.ReassignableTopic(
                name="t",
                partitions=[
                    AlterPartitionReassignmentsRequest.ReassignablePartition(
                        partition_index=index, replicas=replicas
                    )
                    for index, replicas in partitions
                ],
            )
        ]
    )


@pytest.mark.parametrize("version", range(2))
def test_moves_on_a_single_node(broker: InProcessBroker, version: int) -> None:
    broker.create_topic("t", partitions=3)
    results = [
        Like(partition_index=0, error_code=ErrorCode.NONE, error_message=None),
        Like(partition_index=1, error_code=ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        Like(partition_index=2, error_code=ErrorCode.NO_REASSIGNMENT_IN_PROGRESS),
        Like(partition_index=3, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]
    request = moving((0, [NODE_ID]), (1, [NODE_ID + 1]), (2, None), (3, [NODE_ID]))
    answer = Like(error_code=0, error_message=None, responses=[Like(name="t", partitions=results)])
    assert broker.client(version=version) >> request << answer
    assert broker.broker.image.topics["t"].partitions[0].partition_epoch == 0


def test_without_moves_the_list_is_empty(broker: InProcessBroker) -> None:
    broker.create_topic("t")
    nothing = Like(error_code=0, error_message=None, topics=[])
    assert broker.client(version=0) >> ListPartitionReassignmentsRequest(topics=None) << nothing


# ---- authorization


DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED


def test_partitions_are_added_to_topics_that_may_be_altered(guarded: GuardedBroker) -> None:
    guarded.create_topic("mine")
    guarded.create_topic("hidden")
    guarded.allow(AclOperation.ALTER, AclResourceType.TOPIC, "mine")
    codes = (("b", ErrorCode.INVALID_REQUEST), ("hidden", DENIED), ("never", DENIED), ("mine", 0))
    expected = Like(results=[Like(name=name, error_code=code) for name, code in codes])
    asked = growing(("hidden", 2), ("never", 2), ("mine", 2), ("b", 2), ("b", 2))
    assert guarded.client(version=3) >> asked << expected
    assert [len(indexes(guarded, name)) for name in ("mine", "hidden")] == [2, 1]


def test_partitions_that_may_not_be_added_are_not_charged(guarded: GuardedBroker) -> None:
    guarded.create_topic("mine")
    guarded.create_topic("hidden")
    guarded.allow(AclOperation.ALTER, AclResourceType.TOPIC, "mine")
    guarded.allow(AclOperation.ALTER_CONFIGS)
    set_quotas(guarded, controller_mutation_rate=1)
    asked, client = growing(("hidden", 100), ("mine", 12)), guarded.client(version=3)
    expected = [Like(name="hidden", error_code=DENIED), Like(name="mine", error_code=0)]
    assert client >> asked << throttled(0, results=expected)
    exceeded = Like(name="mine", error_code=ErrorCode.THROTTLING_QUOTA_EXCEEDED)
    assert client >> growing(("mine", 14)) << throttled(0, results=[Like(error_code=0)])
    assert client >> growing(("mine", 15)) << throttled(2000, results=[exceeded])


def test_leaders_and_replicas_are_for_who_may_alter_the_cluster(guarded: GuardedBroker) -> None:
    no_cluster, client = ErrorCode.CLUSTER_AUTHORIZATION_FAILED, guarded.client(version=0)
    part = ElectLeadersRequest.TopicPartitions(topic="t", partitions=[0])
    failed = Like(replica_election_results=[Like(partition_result=[Like(error_code=no_cluster)])])
    assert client >> ElectLeadersRequest(topic_partitions=[part]) << failed
    assert client >> AlterPartitionReassignmentsRequest() << Like(error_code=no_cluster)
    assert client >> ListPartitionReassignmentsRequest() << Like(error_code=no_cluster, topics=[])
    guarded.allow(AclOperation.DESCRIBE)
    assert client >> ListPartitionReassignmentsRequest() << Like(error_code=0)
