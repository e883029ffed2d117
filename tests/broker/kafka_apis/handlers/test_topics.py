"""CreateTopics and DeleteTopics. The rules of topics themselves are tested in test_topic_admin."""

from __future__ import annotations

from pathlib import Path

import pytest

from barnabas.config.config_source import ConfigSource
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.acls import AclOperation, AclResourceType
from barnabas.protocol.messages.topics import (
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)
from barnabas.protocol.wire import ZERO_UUID, Uuid
from tests.broker.broker_fixture import NODE_ID, WAITS, InProcessBroker, Wait
from tests.broker.guarded_broker import GuardedBroker
from tests.broker.held_runner import HeldRunner
from tests.broker.logs import batch
from tests.broker.throttled import set_quotas, throttled
from tests.conformance.dialogues.words import produce
from tests.support.difference import Like

CREATE_VERSIONS, CREATE = range(2, 8), 7
DELETE_VERSIONS, DELETE = range(1, 7), 6
STRANGER = b"?" * 16


def topic(
    name: str, partitions: int = 1, replicas: int = -1, **configs: str | None
) -> CreateTopicsRequest.CreatableTopic:
    return CreateTopicsRequest.CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replicas,
        configs=[
            CreateTopicsRequest.CreatableTopicConfig(name=key.replace("_", "."), value=value)
            for key, value in configs.items()
        ],
    )


def creating(*topics: CreateTopicsRequest.CreatableTopic, validate_only: bool = False) -> CreateTopicsRequest:
    return CreateTopicsRequest(topics=list(topics), validate_only=validate_only)


def topics_of(broker: InProcessBroker) -> list[str]:
    return sorted(broker.broker.image.topics)


# ---- CreateTopics


@pytest.mark.parametrize("version", CREATE_VERSIONS)
def test_every_version_creates(broker: InProcessBroker, version: int) -> None:
    counted = version >= 5
    made = Like(
        name="t",
        error_code=ErrorCode.NONE,
        error_message=None,
        num_partitions=2 if counted else -1,
        replication_factor=1 if counted else -1,
        topic_id=(1).to_bytes(16, "big") if version >= 7 else ZERO_UUID,
    )
    assert broker.client(version=version) >> creating(topic("t", 2)) << Like(topics=[made])
    assert len(list(broker.replica_manager.partitions())) == 2
    again = Like(topics=[Like(name="t", error_code=ErrorCode.TOPIC_ALREADY_EXISTS)])
    assert broker.client(version=version) >> creating(topic("t", 2)) << again


def test_a_new_topic_is_writable_at_once(broker: InProcessBroker) -> None:
    assert broker.client(version=CREATE) >> creating(topic("t")) << Like(topics=[Like(error_code=0)])
    appended = Like(responses=[Like(partition_responses=[Like(error_code=0, base_offset=0)])])
    assert broker.client(version=12) >> produce("t", batch("a")) << appended


def test_replicas_may_be_assigned_manually(broker: InProcessBroker) -> None:
    by_hand = topic("t", -1)
    by_hand.assignments = [
        CreateTopicsRequest.CreatableReplicaAssignment(partition_index=index, broker_ids=[NODE_ID])
        for index in (1, 0)
    ]
    assert (
        broker.client(version=CREATE)
        >> creating(by_hand)
        << Like(topics=[Like(error_code=0, num_partitions=2, replication_factor=1)])
    )


def test_settings_of_a_new_topic_are_returned_with_their_source(tmp_path: Path) -> None:
    broker = InProcessBroker(tmp_path, {"log.segment.bytes": "1048576", "log.retention.hours": "1"})
    answer = broker.client(version=CREATE).ask(creating(topic("t", retention_bytes="77")))
    assert isinstance(answer, CreateTopicsResponse)
    entries = {entry.name: entry for entry in answer.topics[0].configs or ()}
    told = {name: (entry.value, entry.config_source) for name, entry in entries.items()}
    assert told["retention.bytes"] == ("77", ConfigSource.DYNAMIC_TOPIC_CONFIG)
    assert told["segment.bytes"] == ("1048576", ConfigSource.STATIC_BROKER_CONFIG)
    assert told["retention.ms"] == ("3600000", ConfigSource.STATIC_BROKER_CONFIG)
    assert told["cleanup.policy"] == ("delete", ConfigSource.DEFAULT_CONFIG)
    assert not any(entry.read_only or entry.is_sensitive for entry in entries.values())
    broker.kill()


def test_a_failure_does_not_fail_the_other_topics(broker: InProcessBroker) -> None:
    answer = broker.client(version=CREATE).ask(
        creating(
            topic("a b"),
            topic("t"),
            topic("few", 0),
            topic("many", replicas=2),
            topic("c", retention_ms="soon"),
        )
    )
    assert isinstance(answer, CreateTopicsResponse)
    codes = {result.name: result.error_code for result in answer.topics}
    assert codes == {
        "a b": ErrorCode.INVALID_TOPIC_EXCEPTION,
        "t": ErrorCode.NONE,
        "few": ErrorCode.INVALID_PARTITIONS,
        "many": ErrorCode.INVALID_REPLICATION_FACTOR,
        "c": ErrorCode.INVALID_CONFIG,
    }
    assert all(bool(result.error_message) == bool(result.error_code) for result in answer.topics)
    assert topics_of(broker) == ["t"]


def test_a_topic_named_twice_is_not_created(broker: InProcessBroker) -> None:
    answer = broker.client(version=CREATE).ask(creating(topic("t"), topic("u"), topic("t", 5)))
    assert isinstance(answer, CreateTopicsResponse)
    codes = {result.name: result.error_code for result in answer.topics}
    assert codes == {"t": ErrorCode.INVALID_REQUEST, "u": ErrorCode.NONE}
    assert topics_of(broker) == ["u"]


def test_validate_only_creates_nothing(broker: InProcessBroker) -> None:
    request = creating(topic("t", 3), topic(""), validate_only=True)
    answer = broker.client(version=CREATE).ask(request)
    assert isinstance(answer, CreateTopicsResponse)
    assert {(result.name, result.error_code) for result in answer.topics} == {
        ("t", ErrorCode.NONE),
        ("", ErrorCode.INVALID_TOPIC_EXCEPTION),
    }
    assert topics_of(broker) == []
    assert broker.deltas == []


def test_the_response_waits_until_the_topic_is_durable_and_open(tmp_path: Path) -> None:
    runner = HeldRunner()
    broker = InProcessBroker(tmp_path, runner=runner)
    client = broker.client(version=CREATE) >> creating(topic("t")) << WAITS
    runner.release()  # the record
    assert client << WAITS
    runner.release()  # the directories
    assert client << Like(topics=[Like(name="t", error_code=ErrorCode.NONE)])
    broker.kill()


def test_a_failed_write_creates_no_topic(tmp_path: Path) -> None:
    runner = HeldRunner()
    broker = InProcessBroker(tmp_path, runner=runner)
    client = broker.client(version=CREATE) >> creating(topic("t"), topic("u")) << WAITS
    runner.fail(OSError("no space left"))
    refused = {"error_code": ErrorCode.KAFKA_STORAGE_ERROR, "topic_id": ZERO_UUID}
    assert client << Like(topics=[Like(name="t", **refused), Like(name="u", **refused)])
    assert topics_of(broker) == []
    broker.kill()


# ---- DeleteTopics


def deleting(*doomed: str | Uuid, version: int = DELETE) -> DeleteTopicsRequest:
    """Topics by name or id, in the fields of `version`."""
    if version < 6:
        return DeleteTopicsRequest(topic_names=[name for name in doomed if isinstance(name, str)])
    return DeleteTopicsRequest(
        topics=[
            DeleteTopicsRequest.DeleteTopicState(name=it)
            if isinstance(it, str)
            else DeleteTopicsRequest.DeleteTopicState(topic_id=it)
            for it in doomed
        ]
    )


@pytest.mark.parametrize("version", DELETE_VERSIONS)
def test_every_version_deletes(broker: InProcessBroker, version: int) -> None:
    topic_id = broker.create_topic("t", partitions=2)
    broker.create_topic("u")
    client = broker.client(version=version)
    gone = Like(name="t", error_code=ErrorCode.NONE, topic_id=topic_id if version >= 6 else ZERO_UUID)
    assert client >> deleting("t", version=version) << Like(responses=[gone])
    assert topics_of(broker) == ["u"]
    assert [partition.topic for partition in broker.replica_manager.partitions()] == ["u"]
    unknown = Like(responses=[Like(name="t", error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)])
    assert client >> deleting("t", version=version) << unknown


def test_a_topic_may_be_deleted_by_its_id(broker: InProcessBroker) -> None:
    topic_id = broker.create_topic("t")
    client = broker.client(version=DELETE)
    gone = DeleteTopicsResponse.DeletableTopicResult(name="t", topic_id=topic_id)
    assert client >> deleting(topic_id) << DeleteTopicsResponse(responses=[gone])
    strange = Like(name=None, topic_id=STRANGER, error_code=ErrorCode.UNKNOWN_TOPIC_ID)
    assert client >> deleting(STRANGER) << Like(responses=[strange])


def test_a_reused_name_is_another_topic(broker: InProcessBroker) -> None:
    first = broker.create_topic("t")
    assert broker.client(version=DELETE) >> deleting("t") << Like(responses=[Like(error_code=0)])
    assert broker.create_topic("t") != first


def test_a_topic_named_twice_is_not_deleted(broker: InProcessBroker) -> None:
    topic_id = broker.create_topic("t")
    broker.create_topic("u")
    client = broker.client(version=DELETE)
    refused = {"error_code": ErrorCode.INVALID_REQUEST}
    for doomed in (["t", "t"], [topic_id, topic_id]):
        assert client >> deleting(*doomed) << Like(responses=[Like(**refused)])
    both = Like(responses=[Like(name="t", topic_id=topic_id, **refused)])
    assert client >> deleting("t", topic_id) << both
    assert (
        client
        >> deleting("t", "u", "t")
        << Like(responses=[Like(name="t", **refused), Like(name="u", error_code=0)])
    )
    assert topics_of(broker) == ["t"]


def test_a_topic_is_given_by_name_or_by_id(broker: InProcessBroker) -> None:
    topic_id = broker.create_topic("t")
    neither = DeleteTopicsRequest.DeleteTopicState()
    both = DeleteTopicsRequest.DeleteTopicState(name="t", topic_id=topic_id)
    assert (
        broker.client(version=DELETE)
        >> DeleteTopicsRequest(topics=[both, neither, both])
        << Like(
            responses=[
                Like(name="t", topic_id=topic_id, error_code=ErrorCode.INVALID_REQUEST),
                Like(name=None, topic_id=ZERO_UUID, error_code=ErrorCode.INVALID_REQUEST),
                Like(name="t", topic_id=topic_id, error_code=ErrorCode.INVALID_REQUEST),
            ]
        )
    )
    assert topics_of(broker) == ["t"]


@pytest.mark.parametrize(
    ("version", "code"),
    [
        (2, ErrorCode.INVALID_REQUEST),
        (3, ErrorCode.TOPIC_DELETION_DISABLED),
        (6, ErrorCode.TOPIC_DELETION_DISABLED),
    ],
)
def test_deletion_can_be_disabled(tmp_path: Path, version: int, code: ErrorCode) -> None:
    broker = InProcessBroker(tmp_path, {"delete.topic.enable": "false"})
    broker.create_topic("t")
    refused = Like(responses=[Like(name="t", error_code=code)])
    assert broker.client(version=version) >> deleting("t", version=version) << refused
    assert topics_of(broker) == ["t"]
    broker.kill()


def test_a_failed_write_keeps_the_topic(tmp_path: Path) -> None:
    runner = HeldRunner()
    broker = InProcessBroker(tmp_path, runner=runner)
    client = broker.client(version=CREATE) >> creating(topic("t"))
    runner.release_all()
    assert client << Like(topics=[Like(error_code=0)])
    client = broker.client(version=DELETE) >> deleting("t") << WAITS
    runner.fail(OSError("no space left"))
    assert client << Like(responses=[Like(name="t", error_code=ErrorCode.KAFKA_STORAGE_ERROR)])
    assert topics_of(broker) == ["t"]
    broker.kill()


# ---- clients with quotas


def counted(*partitions: int, first: int = 0, validate_only: bool = False) -> CreateTopicsRequest:
    """Topics t0, t1 ... with so many partitions."""
    return CreateTopicsRequest(
        topics=[
            CreateTopicsRequest.CreatableTopic(
                name=f"t{first + at}", num_partitions=count, replication_factor=-1
            )
            for at, count in enumerate(partitions)
        ],
        validate_only=validate_only,
    )


def results(*errors: ErrorCode) -> list[Like]:
    return [Like(error_code=error) for error in errors]


OK, EXCEEDED = ErrorCode.NONE, ErrorCode.THROTTLING_QUOTA_EXCEEDED


def test_creations_are_charged_topic_by_topic(broker: InProcessBroker) -> None:
    set_quotas(broker, controller_mutation_rate=1)
    client = broker.client(CREATE)
    assert client >> counted(8, 5, 1, 1) << throttled(2000, topics=results(OK, OK, EXCEEDED, EXCEEDED))
    assert client.muted_ms == 2000
    client >> Wait(1)
    assert client >> counted(1, first=4) << throttled(1000, topics=results(EXCEEDED))
    client >> Wait(1)
    assert client >> counted(1, first=4) << throttled(0, topics=results(OK))
    assert sorted(broker.broker.image.topics) == ["t0", "t1", "t4"]


def test_what_is_only_validated_is_charged_and_what_is_rejected_is_not(broker: InProcessBroker) -> None:
    set_quotas(broker, controller_mutation_rate=1)
    client = broker.client(CREATE)
    assert client >> counted(12, validate_only=True) << throttled(0, topics=results(OK))
    assert client >> counted(0) << throttled(0, topics=results(ErrorCode.INVALID_PARTITIONS))
    assert client >> counted(1) << throttled(1000, topics=results(EXCEEDED))


def test_older_clients_are_throttled_and_not_rejected(broker: InProcessBroker) -> None:
    set_quotas(broker, controller_mutation_rate=1)
    client = broker.client(5)
    assert client >> counted(11, 2) << throttled(2000, topics=results(OK, OK))
    assert client.muted_ms == 2000


def test_deleted_partitions_are_charged(broker: InProcessBroker) -> None:
    for name in "abc":
        broker.create_topic(name, 12)
    set_quotas(broker, controller_mutation_rate=1)
    client, older = broker.client(DELETE), broker.client(4)
    doomed = [DeleteTopicsRequest.DeleteTopicState(name=name) for name in "ab"]
    answer = client.ask(DeleteTopicsRequest(topics=doomed))
    assert isinstance(answer, DeleteTopicsResponse)
    assert [(each.name, each.error_code) for each in answer.responses] == [("a", OK), ("b", EXCEEDED)]
    assert answer.throttle_time_ms == 1000
    assert older >> DeleteTopicsRequest(topic_names=["c"]) << throttled(13_000, responses=results(OK))
    assert sorted(broker.broker.image.topics) == ["b"]


# ---- authorization


T, DENIED = AclResourceType.TOPIC, ErrorCode.TOPIC_AUTHORIZATION_FAILED


def test_topics_are_created_that_may_be(guarded: GuardedBroker) -> None:
    client = guarded.client(version=CREATE)
    guarded.allow(AclOperation.CREATE, T, "mine")
    bare = Like(
        name="mine",
        error_code=0,
        topic_config_error_code=DENIED,
        num_partitions=-1,
        replication_factor=-1,
        configs=[],
    )
    denied = Like(name="yours", error_code=DENIED)
    twice = Like(name="b", error_code=ErrorCode.INVALID_REQUEST)
    asked = creating(topic("yours"), topic("mine"), topic("b"), topic("b"))
    assert client >> asked << Like(topics=[bare, twice, denied])
    assert topics_of(guarded) == ["mine"]
    guarded.allow(AclOperation.CREATE)
    guarded.allow(AclOperation.DESCRIBE_CONFIGS, T, "yours")
    made = Like(name="yours", error_code=0, topic_config_error_code=0, num_partitions=1)
    assert client >> creating(topic("yours")) << Like(topics=[made])


def test_a_hidden_topic_cannot_be_deleted_and_is_as_one_that_does_not_exist(guarded: GuardedBroker) -> None:
    hidden, shown = guarded.create_topic("hidden"), guarded.create_topic("shown")
    guarded.create_topic("mine")
    guarded.allow(AclOperation.DESCRIBE, T, "shown", "absent")
    guarded.allow(AclOperation.DELETE, T, "mine")
    state, client = DeleteTopicsRequest.DeleteTopicState, guarded.client(version=DELETE)

    def deleted(*states: DeleteTopicsRequest.DeleteTopicState) -> dict[object, tuple[object, int]]:
        answer = client.ask(DeleteTopicsRequest(topics=list(states)))
        assert isinstance(answer, DeleteTopicsResponse)
        return {one.name or one.topic_id: (one.topic_id, one.error_code) for one in answer.responses}

    names = ("hidden", "never", "shown", "absent", "mine")
    results = deleted(*(state(name=name) for name in names))
    assert [results[name][1] for name in names] == [
        DENIED,
        DENIED,
        DENIED,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NONE,
    ]
    assert results["shown"][0] == ZERO_UUID
    by_id = deleted(*(state(name=None, topic_id=topic_id) for topic_id in (hidden, shown, STRANGER)))
    assert by_id == {
        hidden: (hidden, DENIED),
        "shown": (shown, DENIED),
        STRANGER: (STRANGER, ErrorCode.UNKNOWN_TOPIC_ID),
    }
    assert topics_of(guarded) == ["hidden", "shown"]
    guarded.allow(AclOperation.DELETE)
    assert deleted(state(name="hidden"))["hidden"] == (hidden, ErrorCode.NONE)


def test_what_may_not_be_created_or_deleted_is_not_charged(guarded: GuardedBroker) -> None:
    guarded.create_topic("mine", 11)
    guarded.create_topic("hidden", 50)
    for operation in (AclOperation.CREATE, AclOperation.DESCRIBE, AclOperation.DELETE):
        guarded.allow(operation, T, "mine", "new")
    guarded.allow(AclOperation.ALTER_CONFIGS)
    set_quotas(guarded, controller_mutation_rate=1)
    state = DeleteTopicsRequest.DeleteTopicState
    doomed = DeleteTopicsRequest(topics=[state(name=name) for name in ("hidden", "never", "mine")])
    codes = [
        Like(name="hidden", error_code=DENIED),
        Like(name="never", error_code=DENIED),
        Like(error_code=0),
    ]
    asked = CreateTopicsRequest(topics=[topic("yours", 50), topic("new", 10)])
    made = [Like(name="new", error_code=0), Like(name="yours", error_code=DENIED)]
    assert guarded.client(CREATE, client_id="other") >> asked << Like(topics=made)
    client = guarded.client(CREATE)
    assert (
        client
        >> CreateTopicsRequest(topics=[topic("yours", 50)])
        << throttled(0, topics=[Like(error_code=DENIED)])
    )
    assert guarded.client(DELETE) >> doomed << throttled(0, responses=codes)
    once_more = CreateTopicsRequest(topics=[topic("yours"), topic("mine", 2)])
    assert client >> once_more << throttled(0, topics=[Like(error_code=0), Like(error_code=DENIED)])
    assert (
        client
        >> CreateTopicsRequest(topics=[topic("yours"), topic("b")])
        << throttled(0, topics=results(DENIED, DENIED))
    )
    guarded.allow(AclOperation.CREATE)
    assert client >> CreateTopicsRequest(topics=[topic("b")]) << throttled(2000, topics=results(EXCEEDED))
