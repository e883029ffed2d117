"""Requests that clients send to a new broker: each round is for a new pair of brokers.

A round describes the state before it changes it. Where Apache Kafka creates something after its first response, the
first and the final response are noted, unless the first one depends on the timing.
"""

from __future__ import annotations

from typing import Any, Final

from barnabas.protocol.messages.acls import DescribeAclsRequest
from barnabas.protocol.messages.api_versions import ApiVersionsRequest
from barnabas.protocol.messages.commits import OffsetCommitRequest, OffsetDeleteRequest
from barnabas.protocol.messages.configs import ListConfigResourcesRequest
from barnabas.protocol.messages.consumer_groups import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupHeartbeatRequest,
)
from barnabas.protocol.messages.groups import (
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    ListGroupsRequest,
    SyncGroupRequest,
)
from barnabas.protocol.messages.log_dirs import DescribeLogDirsRequest
from barnabas.protocol.messages.metadata import (
    DescribeClusterRequest,
    DescribeTopicPartitionsRequest,
    MetadataRequest,
)
from barnabas.protocol.messages.offsets import (
    DeleteRecordsRequest,
    ListOffsetsRequest,
    OffsetForLeaderEpochRequest,
)
from barnabas.protocol.messages.producers import (
    DescribeProducersRequest,
    DescribeTransactionsRequest,
    ListTransactionsRequest,
)
from barnabas.protocol.messages.quorum import DescribeQuorumRequest
from barnabas.protocol.messages.quotas import DescribeClientQuotasRequest
from barnabas.protocol.messages.security import DescribeUserScramCredentialsRequest
from barnabas.protocol.messages.topics import (
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    ElectLeadersRequest,
    ListPartitionReassignmentsRequest,
)
from barnabas.protocol.messages.transactions import (
    AddOffsetsToTxnRequest,
    EndTxnRequest,
    InitProducerIdRequest,
)
from barnabas.protocol.wire import Uuid
from tests.conformance.dialogue_client import batch
from tests.conformance.dialogues.members import MEMBER_ID_REQUIRED
from tests.conformance.parity.requests import (
    MEMBER,
    NO_SUCH_ID,
    adding,
    committing,
    describing,
    fetch,
    fetching,
    finding,
    heartbeat,
    joining,
    produce,
    txn_committing,
)
from tests.conformance.parity.wire import Round, TranscriptClient, message, versions_of

GROUP, TRANSACTION, SHARE = 0, 1, 2
TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP_CONFIG = 2, 4, 8, 16, 32
NODE: Final = "1"
QUORUM_NUMBERS: Final = frozenset({"leader_epoch", "high_watermark", "log_end_offset"})
"""Fields of the metadata log that depend on how a broker writes it."""

SESSION: Final = frozenset({"session_id"})


def untouched(client: TranscriptClient) -> None:
    """An empty broker: the first requests of clients and tools, and requests for what does not exist yet."""
    everything(client, "untouched")
    about_settings(client, "untouched")
    without_a_topic(client)
    without_a_coordinator(client)
    everything(client, "still untouched")


def topics(client: TranscriptClient) -> None:
    """Topics created by a Metadata request and by CreateTopics, then every request about one of them."""
    for version in versions_of(MetadataRequest()):
        wanted = message(MetadataRequest, topics=[{"name": f"auto-{version}"}])
        client.request_first_and_settled("Metadata of a topic created automatically", wanted, version)
    for version in versions_of(CreateTopicsRequest()):
        about_creation(client, version)
    topic_id = id_of(client, "auto-0")
    about_a_topic(client, "auto-0", topic_id)
    everything(client, "with topics", "auto-0")
    growth_and_deletion(client)


def groups(client: TranscriptClient) -> None:
    """From the first FindCoordinator to groups of both protocols that have joined and committed."""
    topic_id = a_topic(client, "t")
    find = finding("g", GROUP)
    client.request_first_and_settled("FindCoordinator of a group", find, 3)
    client.request_every_version("FindCoordinator of a group", find)
    for version in versions_of(JoinGroupRequest()):
        classic_member(client, f"classic-{version}", version)
    for version in versions_of(ConsumerGroupHeartbeatRequest()):
        consumer_member(client, f"consumer-{version}", version, topic_id)
    for version in versions_of(OffsetCommitRequest()):
        group = f"simple-{version}"
        client.request_every_version(
            f"OffsetFetch of {group} before a commit", fetching(group, "t", topic_id)
        )
        client.request(f"OffsetCommit, v{version}", committing(group, "t", topic_id), version)
        client.request_every_version(f"OffsetFetch of {group}", fetching(group, "t", topic_id))
    names = ["classic-0", "classic-9", "consumer-0", "consumer-1", "simple-2", "nothing"]
    about_groups(client, "joined", names)
    everything(client, "with groups", "__consumer_offsets")


def producers(client: TranscriptClient) -> None:
    """The first producer ids, with and without a transactional id, and a first complete transaction."""
    topic_id = a_topic(client, "t")
    idempotent = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
    client.request_first_and_settled("InitProducerId without a transaction", idempotent, 4)
    client.request_first_and_settled("FindCoordinator of a transaction", finding("x", TRANSACTION), 3)
    client.request_every_version("FindCoordinator of a transaction", finding("x", TRANSACTION), since=1)
    client.wait_until_settled(finding("g", GROUP), 3)
    for version in versions_of(InitProducerIdRequest()):
        init = InitProducerIdRequest(transactional_id=f"x-{version}", transaction_timeout_ms=60_000)
        client.request_settled("InitProducerId of a transaction, first", init, version)
        transaction(client, f"x-{version}", version, topic_id)
    about_transactions(client, "ended")
    everything(client, "with transactions", "__transaction_state")


def without_discovery(client: TranscriptClient) -> None:
    """Clients that do not look first: requests to coordinators before their topics exist."""
    client.request("JoinGroup as the first request", joining("g"), 9)
    client.request("InitProducerId as the first request", InitProducerIdRequest(transactional_id="x"), 5)
    client.request_first_and_settled("FindCoordinator of many", finding("a", GROUP, "b", "c"), 6)
    client.request_first_and_settled(
        "FindCoordinator of many transactions", finding("a", TRANSACTION, "b", "c"), 6
    )
    client.request_settled("ConsumerGroupHeartbeat of an unknown topic", heartbeat("c", "none"), 1)
    names = ["several-1", "several-2", "no name"]
    several = message(MetadataRequest, topics=[{"name": name} for name in names])
    client.request_first_and_settled("Metadata of several created automatically", several, 13)
    own = message(MetadataRequest, topics=[{"name": "__share_group_state"}])
    client.request_first_and_settled("Metadata of an internal topic", own, 13)
    client.request_first_and_settled(
        "FindCoordinator of a share partition", finding("g:AAAAAAAAAAAAAAAAAAAAAQ:0", SHARE), 6
    )
    everything(client, "without discovery")


def secured(client: TranscriptClient) -> None:
    """A broker with an authorizer and without automatic creation of topics."""
    everything(client, "secured")
    about_settings(client, "secured")
    client.request_every_version(
        "secured: Metadata of an unknown topic", message(MetadataRequest, topics=[{"name": "none"}])
    )
    client.request_first_and_settled("secured: FindCoordinator of a group", finding("g", GROUP), 3)


ROUNDS: Final[dict[str, Round]] = {
    "untouched": untouched,
    "topics": topics,
    "groups": groups,
    "producers": producers,
    "without discovery": without_discovery,
    "secured": secured,
}

FRESH: Final = {
    "broker.rack": "r1",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "2",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.num.partitions": "2",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "2",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "barnabas.http.port": "0",
}
"""The configuration of both brokers: few partitions, one replica, and no delays."""

SECURED: Final = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    "auto.create.topics.enable": "false",
}
"""The additional configuration of the round `secured`."""


# ---- everything that can be described


def everything(client: TranscriptClient, when: str, *names: str) -> None:
    """Describes the cluster, the broker and everything that it lists; `names` are topics."""
    client.request_every_version(
        f"{when}: ApiVersions", ApiVersionsRequest(client_software_name="parity", client_software_version="1")
    )
    about_the_cluster(client, when)
    about_groups(client, when, ["none"])
    about_transactions(client, when)
    about_access(client, when)
    for name in names:
        client.request_every_version(
            f"{when}: Metadata of {name}", message(MetadataRequest, topics=[{"name": name}])
        )
        client.request_every_version(f"{when}: DescribeConfigs of {name}", describing(TOPIC, name))


def about_the_cluster(client: TranscriptClient, when: str) -> None:
    client.request_every_version(f"{when}: Metadata of all", MetadataRequest(topics=None))
    client.request_every_version(f"{when}: Metadata of none", MetadataRequest(topics=[]), since=1)
    allowed = MetadataRequest(
        topics=None, include_cluster_authorized_operations=True, include_topic_authorized_operations=True
    )
    client.request_every_version(f"{when}: Metadata with authorized operations", allowed, since=8)
    for kind in (1, 2):
        cluster = DescribeClusterRequest(
            include_cluster_authorized_operations=True, endpoint_type=kind, include_fenced_brokers=True
        )
        client.request_every_version(f"{when}: DescribeCluster {kind}", cluster)
    quorum = [{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}]
    client.request_every_version(
        f"{when}: DescribeQuorum", message(DescribeQuorumRequest, topics=quorum), sizes=QUORUM_NUMBERS
    )
    client.request_every_version(
        f"{when}: DescribeLogDirs", DescribeLogDirsRequest(topics=None), sizes=frozenset({"partition_size"})
    )
    client.request_every_version(
        f"{when}: ListPartitionReassignments", ListPartitionReassignmentsRequest(topics=None)
    )
    client.request_every_version(
        f"{when}: ElectLeaders", ElectLeadersRequest(topic_partitions=None, timeout_ms=10_000)
    )
    client.request_every_version(f"{when}: DescribeTopicPartitions", DescribeTopicPartitionsRequest())


def about_settings(client: TranscriptClient, when: str) -> None:
    """Describes the configs of the broker, and of a resource of each other type that sets none."""
    resources = {"broker": (BROKER, NODE), "all brokers": (BROKER, ""), "no topic": (TOPIC, "none")}
    resources |= {"no client metrics": (CLIENT_METRICS, "none"), "no group": (GROUP_CONFIG, "none")}
    for what, (kind, name) in resources.items():
        client.request_every_version(
            f"{when}: DescribeConfigs of {what}", describing(kind, name, documented=True)
        )
    client.request_every_version(
        f"{when}: DescribeConfigs of a logger", describing(BROKER_LOGGER, NODE, "root")
    )
    client.request_every_version(
        f"{when}: ListConfigResources", ListConfigResourcesRequest(resource_types=[])
    )


def about_groups(client: TranscriptClient, when: str, names: list[str]) -> None:
    client.request_every_version(f"{when}: ListGroups", ListGroupsRequest())
    client.request_every_version(
        f"{when}: DescribeGroups", DescribeGroupsRequest(groups=names, include_authorized_operations=True)
    )
    described = ConsumerGroupDescribeRequest(group_ids=names, include_authorized_operations=True)
    client.request_every_version(f"{when}: ConsumerGroupDescribe", described)


def about_transactions(client: TranscriptClient, when: str) -> None:
    client.request_every_version(f"{when}: ListTransactions", ListTransactionsRequest())
    client.request_every_version(
        f"{when}: DescribeTransactions", DescribeTransactionsRequest(transactional_ids=["x-0", "x-5", "none"])
    )
    partitions = [{"name": "t", "partition_indexes": [0]}, {"name": "none", "partition_indexes": [0]}]
    client.request_every_version(
        f"{when}: DescribeProducers", message(DescribeProducersRequest, topics=partitions)
    )


def about_access(client: TranscriptClient, when: str) -> None:
    any_acl = DescribeAclsRequest(
        resource_type_filter=1,
        resource_name_filter=None,
        pattern_type_filter=1,
        principal_filter=None,
        host_filter=None,
        operation=1,
        permission_type=1,
    )
    client.request_every_version(f"{when}: DescribeAcls", any_acl)
    client.request_every_version(f"{when}: DescribeClientQuotas", DescribeClientQuotasRequest())
    client.request_every_version(
        f"{when}: DescribeUserScramCredentials of all", DescribeUserScramCredentialsRequest(users=None)
    )
    one = message(DescribeUserScramCredentialsRequest, users=[{"name": "none"}])
    client.request_every_version(f"{when}: DescribeUserScramCredentials of one", one)


# ---- unknown topics and missing coordinators


def without_a_topic(client: TranscriptClient) -> None:
    """Requests about an unknown topic that must not be created automatically."""
    named = message(MetadataRequest, topics=[{"name": "none"}], allow_auto_topic_creation=False)
    client.request_every_version("no topic: Metadata", named, since=4)
    by_id = message(MetadataRequest, topics=[{"name": None, "topic_id": NO_SUCH_ID}])
    client.request_every_version("no topic: Metadata by id", by_id, since=12)
    about_a_topic(client, "none", NO_SUCH_ID)


def without_a_coordinator(client: TranscriptClient) -> None:
    """Requests about groups and transactions before their topics exist."""
    requests: dict[str, Any] = {
        "JoinGroup": joining("g"),
        "SyncGroup": SyncGroupRequest(
            group_id="g", generation_id=1, member_id="m", protocol_type="consumer", protocol_name="range"
        ),
        "Heartbeat": HeartbeatRequest(group_id="g", generation_id=1, member_id="m"),
        "LeaveGroup": message(LeaveGroupRequest, group_id="g", member_id="m", members=[{"member_id": "m"}]),
        "ConsumerGroupHeartbeat": heartbeat("g"),
        "OffsetCommit": committing("g", "none", NO_SUCH_ID),
        "OffsetFetch": fetching("g", "none", NO_SUCH_ID),
        "OffsetFetch of all": fetching("g"),
        "OffsetDelete": message(
            OffsetDeleteRequest,
            group_id="g",
            topics=[{"name": "none", "partitions": [{"partition_index": 0}]}],
        ),
        "DeleteGroups": DeleteGroupsRequest(groups_names=["g"]),
        "AddOffsetsToTxn": AddOffsetsToTxnRequest(
            transactional_id="x", producer_id=1, producer_epoch=0, group_id="g"
        ),
        "EndTxn": EndTxnRequest(transactional_id="x", producer_id=1, producer_epoch=0, committed=True),
        "TxnOffsetCommit": txn_committing("x", 1, 0, "none"),
    }
    for name, request in requests.items():
        client.request_every_version(f"no coordinator: {name}", request)
    for version in range(4):
        client.request(f"no coordinator: AddPartitionsToTxn, v{version}", adding("x", 1, 0, "none"), version)
    for version in versions_of(InitProducerIdRequest()):
        init = InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=60_000)
        client.request(f"no coordinator: InitProducerId, v{version}", init, version)


# ---- topics


def about_a_topic(client: TranscriptClient, name: str, topic_id: Uuid) -> None:
    """Every request about the first partition, written to once in each version."""
    client.request_every_version(
        f"{name}: DescribeTopicPartitions", message(DescribeTopicPartitionsRequest, topics=[{"name": name}])
    )
    for timestamp in (-1, -2, -3, -4, -5):
        wanted = [{"name": name, "partitions": [{"partition_index": 0, "timestamp": timestamp}]}]
        request = message(ListOffsetsRequest, replica_id=-1, topics=wanted, timeout_ms=10_000)
        client.request_every_version(
            f"{name}: ListOffsets {timestamp}", request, since={-1: 1, -2: 1, -3: 7, -4: 8, -5: 9}[timestamp]
        )
    epochs = [{"topic": name, "partitions": [{"partition": 0, "leader_epoch": 0}]}]
    client.request_every_version(
        f"{name}: OffsetForLeaderEpoch", message(OffsetForLeaderEpochRequest, topics=epochs, replica_id=-1)
    )
    client.request_every_version(f"{name}: Fetch", fetch(name, topic_id))
    client.request_every_version(f"{name}: Produce", produce(name, topic_id))
    client.request_every_version(f"{name}: Fetch of the records", fetch(name, topic_id))
    client.request_every_version(
        f"{name}: Fetch with a session", fetch(name, topic_id, session_epoch=0), sizes=SESSION
    )
    deleted = [{"name": name, "partitions": [{"partition_index": 0, "offset": 1}]}]
    client.request_every_version(
        f"{name}: DeleteRecords", message(DeleteRecordsRequest, topics=deleted, timeout_ms=10_000)
    )
    placed = [{"topic": name, "partitions": [0, 1]}]
    client.request_every_version(f"{name}: DescribeLogDirs", message(DescribeLogDirsRequest, topics=placed))


def about_creation(client: TranscriptClient, version: int) -> None:
    """A topic of each version: validated, created, created again."""
    wanted = {"name": f"made-{version}", "num_partitions": 2, "replication_factor": 1}
    tried = message(CreateTopicsRequest, topics=[wanted], timeout_ms=30_000, validate_only=True)
    client.request(f"CreateTopics with validate_only, v{version}", tried, version)
    made = message(CreateTopicsRequest, topics=[wanted], timeout_ms=30_000)
    client.request(f"CreateTopics, v{version}", made, version)
    client.request(f"CreateTopics once more, v{version}", made, version)


def growth_and_deletion(client: TranscriptClient) -> None:
    """Adds partitions, then deletes topics."""
    for version in versions_of(CreatePartitionsRequest()):
        more = [{"name": "auto-1", "count": version + 2, "assignments": None}]
        request = message(CreatePartitionsRequest, topics=more, timeout_ms=30_000)
        client.request(f"CreatePartitions, v{version}", request, version)
    for version in versions_of(DeleteTopicsRequest()):
        name = f"auto-{version}"
        request = message(DeleteTopicsRequest, topics=[{"name": name}], topic_names=[name], timeout_ms=30_000)
        client.request(f"DeleteTopics, v{version}", request, version)
        client.request(f"DeleteTopics once more, v{version}", request, version)


def a_topic(client: TranscriptClient, name: str) -> Uuid:
    """Creates a topic, waits until it is writable and returns its id; notes nothing."""
    wanted = [{"name": name, "num_partitions": 1, "replication_factor": 1}]
    made = message(CreateTopicsRequest, topics=wanted, timeout_ms=30_000)
    answer = client.wait_until_settled(made, 7)
    client.wait_until_settled(message(MetadataRequest, topics=[{"name": name}]), 12)
    topic_id: Uuid = answer.topics[0].topic_id
    return topic_id


def id_of(client: TranscriptClient, name: str) -> Uuid:
    answer = client.wait_until_settled(message(MetadataRequest, topics=[{"name": name}]), 12)
    topic_id: Uuid = answer.topics[0].topic_id
    return topic_id


# ---- groups


def classic_member(client: TranscriptClient, group: str, version: int) -> None:
    """The only member of a group: joins, gets an assignment and sends a heartbeat."""
    step = f"classic member {version}"
    joined = client.request_settled(f"{step}: JoinGroup", joining(group), version)
    if joined.error_code == MEMBER_ID_REQUIRED:
        joined = client.request(f"{step}: JoinGroup with its id", joining(group, joined.member_id), version)
    who = {"group_id": group, "generation_id": joined.generation_id, "member_id": joined.member_id}
    assigned = [{"member_id": joined.member_id, "assignment": b"all"}]
    sync = message(
        SyncGroupRequest, **who, protocol_type="consumer", protocol_name="range", assignments=assigned
    )
    client.request(f"{step}: SyncGroup", sync, min(version, 5))
    client.request(f"{step}: Heartbeat", HeartbeatRequest(**who), min(version, 4))
    about_groups(client, step, [group])


def consumer_member(client: TranscriptClient, group: str, version: int, topic_id: Uuid) -> None:
    """The only member of a group: joins, owns its assignment, commits and leaves."""
    step = f"consumer member {version}"
    joined = client.request_settled(f"{step}: ConsumerGroupHeartbeat", heartbeat(group), version)
    who = {"group_id": group, "member_id": MEMBER}
    owned = [{"topic_id": topic_id, "partitions": [0]}]
    owning = message(
        ConsumerGroupHeartbeatRequest, **who, member_epoch=joined.member_epoch, topic_partitions=owned
    )
    client.request(f"{step}: ConsumerGroupHeartbeat that owns", owning, version)
    about_groups(client, step, [group])
    commit = committing(group, "t", topic_id)
    commit.member_id, commit.generation_id_or_member_epoch = MEMBER, joined.member_epoch
    client.request(f"{step}: OffsetCommit", commit, 9 + version)
    leaving = message(ConsumerGroupHeartbeatRequest, **who, member_epoch=-1)
    client.request(f"{step}: ConsumerGroupHeartbeat that leaves", leaving, version)


# ---- transactions


def transaction(client: TranscriptClient, name: str, version: int, topic_id: Uuid) -> None:
    """The first transaction of an id, with requests of corresponding versions."""
    known = client.wait_until_settled(
        InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=60_000), 5
    )
    who = known.producer_id, known.producer_epoch
    step = f"first transaction {version}"
    client.request(f"{step}: AddPartitionsToTxn", adding(name, *who, "t"), min(version, 3))
    records = batch(
        b"value", producer_id=who[0], producer_epoch=who[1], base_sequence=0, is_transactional=True
    )
    client.request(f"{step}: Produce", produce("t", topic_id, transactional_id=name, records=records), 11)
    offsets = AddOffsetsToTxnRequest(
        transactional_id=name, producer_id=who[0], producer_epoch=who[1], group_id="g"
    )
    client.request_settled(f"{step}: AddOffsetsToTxn", offsets, min(version, 4))
    client.request_settled(f"{step}: TxnOffsetCommit", txn_committing(name, *who, "t"), min(version, 4))
    about_transactions(client, step)
    end = EndTxnRequest(transactional_id=name, producer_id=who[0], producer_epoch=who[1], committed=True)
    client.request(f"{step}: EndTxn", end, min(version, 4))
    client.request_settled(f"{step}: EndTxn once more", end, min(version, 4))
