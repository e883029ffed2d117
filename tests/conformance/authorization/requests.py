"""The requests of the matrix, by API: each names what a client may use, what it may not, and what is absent."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages import (
    acls,
    cluster,
    commits,
    configs,
    consumer_groups,
    groups,
    log_dirs,
    metadata,
    offsets,
    producers,
    quorum,
    quotas,
    security,
    topics,
    transactions,
)
from barnabas.protocol.messages.fetch import FetchRequest
from barnabas.protocol.schema import Message
from barnabas.protocol.wire import ZERO_UUID, Uuid
from tests.conformance.dialogue_client import NO_ID, batch
from tests.conformance.dialogues import words

SEEN, HIDDEN, ABSENT = "t-seen", "t-hidden", "t-absent"
"""Topics: granted and there, there and never granted, granted and absent."""
NAMES: Final = (SEEN, HIDDEN, ABSENT, "t-never")
GROUP, OTHER_GROUP, TXN, OTHER_TXN = "g-1", "g-2", "x-1", "x-2"
MEMBERS: Final = {"g-3": SEEN, "g-4": HIDDEN}
"""Consumer groups, and what their members are assigned."""
DOOMED: Final = "del-"
"""How topics begin that are created to be deleted."""
PRODUCER: Final = 4_000_000_000


class World:
    """What a request may need: ids of topics, and two topics to delete, the second of which is never granted."""

    def __init__(self, ids: Mapping[str, Uuid], doomed: tuple[str, str]) -> None:
        self.ids = ids
        self.doomed = doomed


Make = Callable[[World, int], Message]


def _produce(records: bytes, transactional_id: str | None = None, acks: int = -1) -> Make:
    def make(world: World, version: int) -> Message:
        request = words.produce(SEEN, acks=acks, transactional_id=transactional_id)
        kind: Any = type(request)
        request.topic_data = [
            kind.TopicProduceData(
                name=name,
                topic_id=(world.ids.get(name, NO_ID) if version >= words.IDS_IN_PRODUCE else ZERO_UUID),
                partition_data=[kind.PartitionProduceData(index=0, records=records)],
            )
            for name in (NAMES if version < words.IDS_IN_PRODUCE else NAMES[:3])
        ]
        return request

    return make


def _fetch(world: World, version: int) -> Message:
    by_id = version >= words.IDS_IN_FETCH
    return words.fetch(
        *(
            words.fetch_topic(world.ids.get(name, NO_ID) if by_id else name, [words.partition(offset=0)])
            for name in (NAMES if not by_id else NAMES[:3])
        )
    )


def _follow(world: World, version: int) -> Message:
    request: Any = _fetch(world, version)
    if version >= 15:
        request.replica_state = FetchRequest.ReplicaState(replica_id=7, replica_epoch=1)
    else:
        request.replica_id = 7
    return request  # type: ignore[no-any-return]


def _metadata(names: tuple[str, ...] | None, *, creates: bool = False, operations: bool = False) -> Make:
    def make(world: World, version: int) -> Message:
        request = metadata.MetadataRequest(
            topics=None if names is None else words.named(*names),
            allow_auto_topic_creation=creates or version < 4,
        )
        if version == 0 and names is None:
            request.topics = []
        if operations and version >= 8:
            request.include_topic_authorized_operations = True
            request.include_cluster_authorized_operations = version <= 10
        return request

    return make


def _metadata_by_id(world: World, version: int) -> Message:
    asked = [words.named(None, topic_id=world.ids.get(name, NO_ID))[0] for name in (SEEN, HIDDEN, ABSENT)]
    return metadata.MetadataRequest(topics=asked, allow_auto_topic_creation=False)


def _commit(world: World, version: int) -> Message:
    kind = commits.OffsetCommitRequest
    return kind(
        group_id=GROUP,
        topics=[
            kind.OffsetCommitRequestTopic(
                name=name,
                topic_id=world.ids.get(name, NO_ID),
                partitions=[
                    kind.OffsetCommitRequestPartition(partition_index=0, committed_offset=1),
                    kind.OffsetCommitRequestPartition(partition_index=9, committed_offset=1),
                ],
            )
            for name in (NAMES if version < 10 else NAMES[:3])
        ],
    )


def _fetch_offsets(*, of_all: bool) -> Make:
    def make(world: World, version: int) -> Message:
        kind = commits.OffsetFetchRequest
        if version < 8:
            old = [kind.OffsetFetchRequestTopic(name=name, partition_indexes=[0]) for name in NAMES]
            return kind(group_id=GROUP, topics=None if of_all and version >= 2 else old)
        asked = [
            kind.OffsetFetchRequestTopics(
                name=name, topic_id=world.ids.get(name, NO_ID), partition_indexes=[0]
            )
            for name in (NAMES if version < 10 else NAMES[:3])
        ]
        return kind(
            groups=[
                kind.OffsetFetchRequestGroup(group_id=group, topics=None if of_all else asked)
                for group in (GROUP, OTHER_GROUP)
            ]
        )

    return make


def _find(key_type: int, *keys: str) -> Make:
    def make(world: World, version: int) -> Message:
        if version >= 4:
            return groups.FindCoordinatorRequest(key_type=key_type, coordinator_keys=list(keys))
        return groups.FindCoordinatorRequest(key_type=key_type if version else 0, key=keys[0])

    return make


def _join(world: World, version: int) -> Message:
    return groups.JoinGroupRequest(
        group_id=GROUP,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        member_id="nobody",
        protocol_type="consumer",
        protocols=[groups.JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=b"")],
    )


def _sync(*, complete: bool) -> Make:
    def make(world: World, version: int) -> Message:
        return groups.SyncGroupRequest(
            group_id=GROUP,
            generation_id=1,
            member_id="nobody",
            protocol_type="consumer" if complete and version >= 5 else None,
            protocol_name="range" if complete and version >= 5 else None,
        )

    return make


def _leave(world: World, version: int) -> Message:
    if version < 3:
        return groups.LeaveGroupRequest(group_id=GROUP, member_id="nobody")
    return groups.LeaveGroupRequest(
        group_id=GROUP, members=[groups.LeaveGroupRequest.MemberIdentity(member_id="nobody")]
    )


def _describe_groups(world: World, version: int) -> Message:
    request = groups.DescribeGroupsRequest(groups=[OTHER_GROUP, GROUP, GROUP])
    request.include_authorized_operations = version >= 3
    return request


def _create_topics(world: World, version: int) -> Message:
    kind = topics.CreateTopicsRequest
    names = ("t-seen-2", SEEN, "t-hidden-2", ABSENT, "t-twice", "t-twice", "__cluster_metadata")
    return kind(
        topics=[kind.CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in names],
        timeout_ms=10_000,
        validate_only=True,
    )


def _delete_topics(world: World, version: int) -> Message:
    names = [*world.doomed, ABSENT, "t-never"]
    if version < 6:
        return topics.DeleteTopicsRequest(topic_names=names, timeout_ms=10_000)
    kind = topics.DeleteTopicsRequest
    return kind(topics=[kind.DeleteTopicState(name=name) for name in names], timeout_ms=10_000)


def _delete_topics_by_id(world: World, version: int) -> Message:
    kind = topics.DeleteTopicsRequest
    ids = [*(world.ids[name] for name in world.doomed), NO_ID]
    return kind(topics=[kind.DeleteTopicState(name=None, topic_id=id_) for id_ in ids], timeout_ms=10_000)


def _delete_records(world: World, version: int) -> Message:
    kind = offsets.DeleteRecordsRequest
    wanted = [kind.DeleteRecordsPartition(partition_index=index, offset=0) for index in (0, 9)]
    return kind(
        topics=[kind.DeleteRecordsTopic(name=name, partitions=wanted) for name in NAMES], timeout_ms=10_000
    )


def _init(transactional_id: str | None) -> Make:
    return lambda world, version: transactions.InitProducerIdRequest(
        transactional_id=transactional_id, transaction_timeout_ms=10_000
    )


def _epochs(world: World, version: int) -> Message:
    kind = offsets.OffsetForLeaderEpochRequest
    wanted = [kind.OffsetForLeaderPartition(partition=0, leader_epoch=0)]
    return kind(topics=[kind.OffsetForLeaderTopic(topic=name, partitions=wanted) for name in NAMES])


def _add_partitions(*names: str) -> Make:
    def make(world: World, version: int) -> Message:
        kind = transactions.AddPartitionsToTxnRequest
        asked = [kind.AddPartitionsToTxnTopic(name=name, partitions=[0, 9]) for name in names]
        if version < 4:
            return kind(
                v3_and_below_transactional_id=TXN,
                v3_and_below_producer_id=PRODUCER,
                v3_and_below_topics=asked,
            )
        return kind(
            transactions=[
                kind.AddPartitionsToTxnTransaction(transactional_id=name, producer_id=PRODUCER, topics=asked)
                for name in (TXN, OTHER_TXN)
            ]
        )

    return make


def _txn_commit(world: World, version: int) -> Message:
    kind = transactions.TxnOffsetCommitRequest
    return kind(
        transactional_id=TXN,
        group_id=GROUP,
        producer_id=PRODUCER,
        topics=[
            kind.TxnOffsetCommitRequestTopic(
                name=name,
                partitions=[kind.TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=1)],
            )
            for name in (HIDDEN, ABSENT, "t-never")
        ],
    )


def _markers(world: World, version: int) -> Message:
    kind = transactions.WriteTxnMarkersRequest
    return kind(
        markers=[
            kind.WritableTxnMarker(
                producer_id=PRODUCER + n,
                topics=[kind.WritableTxnMarkerTopic(name=ABSENT, partition_indexes=[0, 1])],
            )
            for n in range(2)
        ]
    )


RESOURCES: Final = ((2, SEEN), (2, HIDDEN), (2, ABSENT), (2, "t-never"), (32, GROUP), (4, "1"), (16, "m"))
"""Types and names of the resources with settings: topics, a group, the broker, client metrics."""
_SETTINGS: Final = {
    2: ("retention.ms", "1000"),
    32: ("consumer.session.timeout.ms", "45000"),
    4: ("log.cleaner.threads", "1"),
    16: ("interval.ms", "1000"),
}


def _describe_configs(world: World, version: int) -> Message:
    kind = configs.DescribeConfigsRequest
    return kind(
        resources=[
            kind.DescribeConfigsResource(
                resource_type=type_, resource_name=name, configuration_keys=[_SETTINGS[type_][0]]
            )
            for type_, name in RESOURCES
        ]
    )


def _alter_configs(kind: Any) -> Make:
    """Kafka gives no response to AlterConfigs with a resource that is there twice: only the newer request has one."""

    def make(world: World, version: int) -> Message:
        asked = [(type_, name, *_SETTINGS[type_]) for type_, name in RESOURCES]
        if kind is configs.IncrementalAlterConfigsRequest:
            asked += [(2, "t-twice", *_SETTINGS[2])] * 2 + [(8, "1", "root", "INFO")]
        request: Message = kind(
            resources=[
                kind.AlterConfigsResource(
                    resource_type=type_,
                    resource_name=name,
                    configs=[kind.AlterableConfig(name=key, value=value)],
                )
                for type_, name, key, value in asked
            ],
            validate_only=True,
        )
        return request

    return make


def _create_partitions(world: World, version: int) -> Message:
    kind = topics.CreatePartitionsRequest
    names = (*NAMES, "t-twice", "t-twice")
    return kind(
        topics=[kind.CreatePartitionsTopic(name=name, count=3) for name in names],
        timeout_ms=10_000,
        validate_only=True,
    )


def _move_logs(world: World, version: int) -> Message:
    kind = log_dirs.AlterReplicaLogDirsRequest
    wanted = [kind.AlterReplicaLogDirTopic(name=name, partitions=[0]) for name in NAMES]
    return kind(dirs=[kind.AlterReplicaLogDir(path="/nowhere", topics=wanted)])


def _elect(world: World, version: int) -> Message:
    kind = topics.ElectLeadersRequest
    return kind(
        topic_partitions=[kind.TopicPartitions(topic=name, partitions=[0]) for name in NAMES],
        timeout_ms=10_000,
    )


def _reassign(world: World, version: int) -> Message:
    kind = topics.AlterPartitionReassignmentsRequest
    wanted = [kind.ReassignablePartition(partition_index=0, replicas=None)]
    return kind(topics=[kind.ReassignableTopic(name=name, partitions=wanted) for name in NAMES])


def _delete_offsets(world: World, version: int) -> Message:
    kind = commits.OffsetDeleteRequest
    wanted = [kind.OffsetDeleteRequestPartition(partition_index=7)]
    return kind(
        group_id=GROUP, topics=[kind.OffsetDeleteRequestTopic(name=name, partitions=wanted) for name in NAMES]
    )


def _alter_quotas(world: World, version: int) -> Message:
    kind = quotas.AlterClientQuotasRequest
    return kind(
        entries=[
            kind.EntryData(
                entity=[kind.EntityData(entity_type="user", entity_name=name)],
                ops=[kind.OpData(key="producer_byte_rate", value=1.0)],
            )
            for name in ("a", "b")
        ],
        validate_only=True,
    )


def _describe_scram(world: World, version: int) -> Message:
    kind = security.DescribeUserScramCredentialsRequest
    return kind(users=[kind.UserName(name="a"), kind.UserName(name="b")])


def _alter_scram(world: World, version: int) -> Message:
    kind = security.AlterUserScramCredentialsRequest
    return kind(deletions=[kind.ScramCredentialDeletion(name="nobody", mechanism=1)])


def _quorum(world: World, version: int) -> Message:
    kind = quorum.DescribeQuorumRequest
    part = kind.PartitionData(partition_index=0)
    return kind(topics=[kind.TopicData(topic_name="__cluster_metadata", partitions=[part])])


def _features(world: World, version: int) -> Message:
    kind = cluster.UpdateFeaturesRequest
    return kind(
        timeout_ms=10_000,
        feature_updates=[kind.FeatureUpdateKey(feature="nothing", max_version_level=1, upgrade_type=1)],
        validate_only=version >= 1,
    )


def _describe_producers(world: World, version: int) -> Message:
    kind = producers.DescribeProducersRequest
    return kind(
        topics=[kind.TopicRequest(name=name, partition_indexes=[0, 9]) for name in (*NAMES, "not a name")]
    )


def _consumer_heartbeat(*names: str) -> Make:
    return lambda world, version: consumer_groups.ConsumerGroupHeartbeatRequest(
        group_id=GROUP, member_id="nobody", member_epoch=5, subscribed_topic_names=list(names)
    )


def _topic_partitions(*names: str) -> Make:
    kind = metadata.DescribeTopicPartitionsRequest
    return lambda world, version: kind(topics=[kind.TopicRequest(name=name) for name in names])


def _acl_filter(kind: Any) -> Any:
    return kind(
        resource_type_filter=7,
        resource_name_filter="nobody",
        pattern_type_filter=3,
        principal_filter=None,
        host_filter=None,
        operation=1,
        permission_type=1,
    )


def _create_acls(world: World, version: int) -> Message:
    kind = acls.CreateAclsRequest
    return kind(
        creations=[
            kind.AclCreation(
                resource_type=2,
                resource_name="",
                resource_pattern_type=3,
                principal="User:nobody",
                host="*",
                operation=3,
                permission_type=3,
            )
        ]
    )


def _delete_acls(world: World, version: int) -> Message:
    return acls.DeleteAclsRequest(filters=[_acl_filter(acls.DeleteAclsRequest.DeleteAclsFilter)] * 2)


def _only(message: Message) -> Make:
    return lambda world, version: message


REQUESTS: Final[Mapping[ApiKey, tuple[tuple[Make, int, int], ...]]] = {
    ApiKey.PRODUCE: (
        (_produce(batch(b"x")), 3, 13),
        (_produce(batch(b"x"), acks=0), 3, 3),
        (
            _produce(
                batch(b"x", is_transactional=True, producer_id=PRODUCER, producer_epoch=0, base_sequence=0),
                TXN,
            ),
            3,
            12,
        ),
        (
            _produce(
                batch(b"x", is_transactional=True, producer_id=PRODUCER, producer_epoch=0, base_sequence=0)
            ),
            3,
            3,
        ),
    ),
    ApiKey.FETCH: ((_fetch, 4, 18), (_follow, 12, 17)),
    ApiKey.LIST_OFFSETS: (
        (
            lambda world, version: offsets.ListOffsetsRequest(
                topics=[words.list_offsets(name, 0, 9, timestamp=-2).topics[0] for name in NAMES],
                timeout_ms=10_000,
            ),
            1,
            11,
        ),
    ),
    ApiKey.METADATA: (
        (_metadata(NAMES), 4, 13),
        (_metadata(NAMES, operations=True), 8, 13),
        (_metadata(None, operations=True), 0, 13),
        (_metadata(("t-seen-?", "t-hidden-?"), creates=True), 0, 13),
        (_metadata_by_id, 12, 13),
    ),
    ApiKey.OFFSET_COMMIT: ((_commit, 2, 10),),
    ApiKey.OFFSET_FETCH: ((_fetch_offsets(of_all=False), 1, 10), (_fetch_offsets(of_all=True), 2, 10)),
    ApiKey.FIND_COORDINATOR: ((_find(0, GROUP, OTHER_GROUP), 0, 6), (_find(1, TXN, OTHER_TXN), 1, 6)),
    ApiKey.JOIN_GROUP: ((_join, 0, 9),),
    ApiKey.HEARTBEAT: (
        (_only(groups.HeartbeatRequest(group_id=GROUP, generation_id=1, member_id="nobody")), 0, 4),
    ),
    ApiKey.LEAVE_GROUP: ((_leave, 0, 5),),
    ApiKey.SYNC_GROUP: ((_sync(complete=True), 0, 5), (_sync(complete=False), 5, 5)),
    ApiKey.DESCRIBE_GROUPS: ((_describe_groups, 0, 6),),
    ApiKey.LIST_GROUPS: ((_only(groups.ListGroupsRequest()), 0, 5),),
    ApiKey.CREATE_TOPICS: ((_create_topics, 2, 7),),
    ApiKey.DELETE_TOPICS: ((_delete_topics, 1, 6), (_delete_topics_by_id, 6, 6)),
    ApiKey.DELETE_RECORDS: ((_delete_records, 0, 2),),
    ApiKey.INIT_PRODUCER_ID: ((_init(TXN), 0, 5), (_init(None), 0, 5)),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: ((_epochs, 2, 4),),
    ApiKey.ADD_PARTITIONS_TO_TXN: (
        (_add_partitions(*NAMES), 0, 3),
        (_add_partitions(SEEN, "__consumer_offsets"), 3, 3),
        (_add_partitions(*NAMES), 4, 5),
    ),
    ApiKey.ADD_OFFSETS_TO_TXN: (
        (
            _only(
                transactions.AddOffsetsToTxnRequest(
                    transactional_id=TXN, producer_id=PRODUCER, group_id=GROUP
                )
            ),
            0,
            4,
        ),
    ),
    ApiKey.END_TXN: ((_only(transactions.EndTxnRequest(transactional_id=TXN, producer_id=PRODUCER)), 0, 5),),
    ApiKey.WRITE_TXN_MARKERS: ((_markers, 1, 2),),
    ApiKey.TXN_OFFSET_COMMIT: ((_txn_commit, 0, 5),),
    ApiKey.DESCRIBE_ACLS: ((_only(_acl_filter(acls.DescribeAclsRequest)), 1, 3),),
    ApiKey.CREATE_ACLS: ((_create_acls, 1, 3),),
    ApiKey.DELETE_ACLS: ((_delete_acls, 1, 3),),
    ApiKey.DESCRIBE_CONFIGS: ((_describe_configs, 1, 4),),
    ApiKey.ALTER_CONFIGS: ((_alter_configs(configs.AlterConfigsRequest), 0, 2),),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: ((_alter_configs(configs.IncrementalAlterConfigsRequest), 0, 1),),
    ApiKey.ALTER_REPLICA_LOG_DIRS: ((_move_logs, 1, 2),),
    ApiKey.DESCRIBE_LOG_DIRS: ((_only(log_dirs.DescribeLogDirsRequest(topics=None)), 1, 5),),
    ApiKey.CREATE_PARTITIONS: ((_create_partitions, 0, 3),),
    ApiKey.DELETE_GROUPS: (
        (_only(groups.DeleteGroupsRequest(groups_names=["g-3", OTHER_GROUP, "g-3", "g-9"])), 0, 2),
    ),
    ApiKey.ELECT_LEADERS: ((_elect, 0, 2),),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: ((_reassign, 0, 1),),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: (
        (_only(topics.ListPartitionReassignmentsRequest(topics=None)), 0, 0),
    ),
    ApiKey.OFFSET_DELETE: ((_delete_offsets, 0, 0),),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: ((_only(quotas.DescribeClientQuotasRequest()), 0, 1),),
    ApiKey.ALTER_CLIENT_QUOTAS: ((_alter_quotas, 0, 1),),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: ((_describe_scram, 0, 0),),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: ((_alter_scram, 0, 0),),
    ApiKey.DESCRIBE_QUORUM: ((_quorum, 0, 2),),
    ApiKey.UPDATE_FEATURES: ((_features, 0, 2),),
    ApiKey.DESCRIBE_CLUSTER: (
        (_only(metadata.DescribeClusterRequest(include_cluster_authorized_operations=True)), 0, 2),
    ),
    ApiKey.DESCRIBE_PRODUCERS: ((_describe_producers, 0, 0),),
    ApiKey.UNREGISTER_BROKER: ((_only(cluster.UnregisterBrokerRequest(broker_id=99)), 0, 0),),
    ApiKey.DESCRIBE_TRANSACTIONS: (
        (_only(producers.DescribeTransactionsRequest(transactional_ids=[OTHER_TXN, TXN])), 0, 0),
    ),
    ApiKey.LIST_TRANSACTIONS: ((_only(producers.ListTransactionsRequest()), 0, 2),),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: (
        (_consumer_heartbeat(SEEN, ABSENT), 0, 1),
        (_consumer_heartbeat(SEEN, HIDDEN), 0, 1),
    ),
    ApiKey.CONSUMER_GROUP_DESCRIBE: (
        (
            _only(
                consumer_groups.ConsumerGroupDescribeRequest(
                    group_ids=[OTHER_GROUP, GROUP, *MEMBERS], include_authorized_operations=True
                )
            ),
            0,
            1,
        ),
    ),
    ApiKey.LIST_CONFIG_RESOURCES: ((_only(configs.ListConfigResourcesRequest()), 0, 1),),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: ((_topic_partitions(*NAMES), 0, 0), (_topic_partitions(), 0, 0)),
}
"""By API the requests and their first and last version. Versions of one row need not differ in what is authorized."""


def cases(key: ApiKey, *, every_version: bool) -> Iterator[tuple[int, Make, int]]:
    """Each request of an API with its number, in each of its versions or only in the last."""
    for number, (make, first, last) in enumerate(REQUESTS[key]):
        for version in range(first if every_version else last, last + 1):
            yield number, make, version
