"""The objects that `--json` prints, one a line, each with a type and always the same fields.

The classes are the only declaration: `json_object` makes an object of one, and docs/cli.md lists them. Fields are
written as Kafka's own tools write JSON, in camel case. A field is never omitted; null: unknown or absent.
"""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple, TypeAlias

Text: TypeAlias = str


class TopicRow(NamedTuple):
    """A topic (`topics --list`, `topics --describe`)."""

    topic: Annotated[str, "its name"]
    topic_id: Annotated[str | None, "its id, as Kafka prints ids"]
    is_internal: Annotated[bool | None, "whether it belongs to the broker itself"]
    partition_count: Annotated[int | None, "how many partitions there are"]
    replication_factor: Annotated[int | None, "replicas of each partition; null in a list"]
    configs: Annotated[dict[str, str | None] | None, "what is not a default, by key; null in a list"]
    partitions: Annotated[
        list[dict[str, Any]] | None,
        "partition, leader (null: none), replicas, isr, elr, lastKnownElr; null in a list",
    ]


class ConfigRow(NamedTuple):
    """One value of a configuration (`configs --describe`)."""

    entity_type: Annotated[str, "as --entity-type names it: topics, brokers ..."]
    entity_name: Annotated[str, "the resource; empty for the default of all brokers"]
    name: Annotated[str, "the key"]
    value: Annotated[str | None, "null: hidden by the broker"]
    source: Annotated[str, "Kafka's name of the source: DYNAMIC_TOPIC_CONFIG ..."]
    is_sensitive: Annotated[bool, "whether it is a secret"]
    is_read_only: Annotated[bool, "whether only a restart changes it"]
    synonyms: Annotated[
        list[dict[str, Any]], "name, value, source of all keys that could set it, the one in force first"
    ]


class QuotaRow(NamedTuple):
    """The quotas of an entity (`quotas --describe`, `configs --describe` of users, clients and ips)."""

    entity: Annotated[dict[str, str | None], "name by type (user, client-id, ip); null: the default"]
    quotas: Annotated[dict[str, float], "by Kafka's names, producer_byte_rate ..."]


class UserRow(NamedTuple):
    """A user with SCRAM credentials (`users --list`, `users --describe`, `configs --describe` of users)."""

    user: Annotated[str, "the name"]
    credentials: Annotated[list[dict[str, Any]], "mechanism and iterations of each"]


class GroupRow(NamedTuple):
    """A group (`groups --list`, `groups --describe --state`)."""

    group: Annotated[str, "its id"]
    group_type: Annotated[str, "Classic, Consumer, Share or Streams"]
    protocol: Annotated[str | None, "the protocol type; null in a description"]
    state: Annotated[str, "as Kafka names it: Stable, Empty ..."]
    coordinator: Annotated[str | None, "host:port of the broker; null in a list"]
    coordinator_id: Annotated[int | None, "the id of that broker; null in a list"]
    assignor: Annotated[str | None, "the assignment strategy; null in a list, or without members"]
    members: Annotated[int | None, "how many there are; null in a list"]
    group_epoch: Annotated[int | None, "of the consumer protocol; null for classic groups"]
    target_assignment_epoch: Annotated[int | None, "of the consumer protocol; null for classic groups"]


class GroupOffsetRow(NamedTuple):
    """A partition with a committed offset or a member that reads it (`groups --describe`)."""

    group: Annotated[str, "the group's id"]
    topic: Annotated[str, "the topic"]
    partition: Annotated[int, "the partition"]
    current_offset: Annotated[int | None, "the committed offset; null: none"]
    leader_epoch: Annotated[int | None, "the one committed with it; null: none"]
    log_end_offset: Annotated[int | None, "the log end offset; null: unknown"]
    lag: Annotated[int | None, "log end offset minus committed offset; null without a committed offset"]
    consumer_id: Annotated[str | None, "the member that reads it; null: no member"]
    host: Annotated[str | None, "where the member is"]
    client_id: Annotated[str | None, "the client id of the member"]


class GroupMemberRow(NamedTuple):
    """A member of a group (`groups --describe --members`)."""

    group: Annotated[str, "the group's id"]
    consumer_id: Annotated[str, "the member's id"]
    group_instance_id: Annotated[str | None, "of a static member"]
    host: Annotated[str, "where it is"]
    client_id: Annotated[str, "its client.id"]
    assignment: Annotated[dict[str, list[int]], "partitions by topic"]
    current_epoch: Annotated[int | None, "of the consumer protocol; null for classic groups"]
    target_epoch: Annotated[int | None, "of the consumer protocol; null for classic groups"]
    target_assignment: Annotated[dict[str, list[int]] | None, "partitions by topic; null for classic groups"]
    is_upgraded: Annotated[
        bool | None, "speaks the consumer protocol in a group of that kind; null: not known"
    ]


class ResetRow(NamedTuple):
    """A new offset of a group (`groups --reset-offsets`)."""

    group: Annotated[str, "the group's id"]
    topic: Annotated[str, "the topic"]
    partition: Annotated[int, "the partition"]
    new_offset: Annotated[int, "where the group resumes"]
    is_executed: Annotated[bool, "false: only shown, without --execute"]


class LogDirRow(NamedTuple):
    """A log directory (`log-dirs --describe`)."""

    broker: Annotated[int, "the broker's id"]
    log_dir: Annotated[str, "the path"]
    error: Annotated[str | None, "why it is offline; null: it is online"]
    total_bytes: Annotated[int | None, "of the file system; null: unknown"]
    usable_bytes: Annotated[int | None, "left for the broker; null: unknown"]
    is_cordoned: Annotated[bool, "whether new replicas are not placed there"]
    partitions: Annotated[
        list[dict[str, Any]], "partition, size in bytes, offsetLag, isFuture of each replica"
    ]


class AclRow(NamedTuple):
    """An access control entry (`acls --list`, --add, --remove)."""

    resource_type: Annotated[str, "TOPIC, GROUP ..."]
    name: Annotated[str, "the resource, or the beginning of its name"]
    pattern_type: Annotated[str, "LITERAL or PREFIXED"]
    principal: Annotated[str, "Type:name"]
    host: Annotated[str, "an address, or * for all"]
    operation: Annotated[str, "READ, WRITE ..."]
    permission_type: Annotated[str, "ALLOW or DENY"]


class TokenRow(NamedTuple):
    """A delegation token (`tokens --list`, --describe, --create)."""

    token_id: Annotated[str, "its id"]
    hmac: Annotated[str | None, "its secret, in base 64; null in a list"]
    owner: Annotated[str, "Type:name of who logs in by it"]
    requester: Annotated[str | None, "who created it; null: not known (a broker before Kafka 3.3)"]
    renewers: Annotated[list[str], "who else may renew and expire it"]
    issue_timestamp: Annotated[int, "when it was created, in milliseconds since 1970"]
    expiry_timestamp: Annotated[int, "when it expires unless it is renewed"]
    max_timestamp: Annotated[int, "when it cannot be renewed any more"]


class NodeRow(NamedTuple):
    """A broker or controller (`cluster list-endpoints`)."""

    id: Annotated[int, "its node.id"]
    host: Annotated[str, "where it listens"]
    port: Annotated[int, "where it listens"]
    rack: Annotated[str | None, "broker.rack"]
    state: Annotated[str | None, "fenced or unfenced; null for controllers"]
    endpoint_type: Annotated[str, "broker or controller"]


class ClusterRow(NamedTuple):
    """The cluster (`cluster cluster-id`)."""

    cluster_id: Annotated[str, "its id"]


class ClusterSummaryRow(NamedTuple):
    """The cluster as a whole (`cluster describe`)."""

    cluster_id: Annotated[str, "its id"]
    brokers: Annotated[int, "how many are registered"]
    fenced_brokers: Annotated[
        int | None, "how many of them are fenced; null: not known (a broker before Kafka 4.0)"
    ]
    partitions: Annotated[int, "partitions of all topics that the client may describe"]
    under_replicated_partitions: Annotated[int, "those with replicas that are not in sync"]
    leaderless_partitions: Annotated[int, "those without a leader"]


class BrokerRow(NamedTuple):
    """A broker and its part of the cluster (`cluster describe`)."""

    id: Annotated[int, "its node.id"]
    host: Annotated[str | None, "where it listens; null: it is not registered"]
    port: Annotated[int | None, "where it listens; null: it is not registered"]
    rack: Annotated[str | None, "broker.rack"]
    state: Annotated[str, "unfenced, fenced, or absent: it has replicas and the cluster names no such broker"]
    leaders: Annotated[int, "partitions that it leads"]
    preferred_leaders: Annotated[int, "partitions whose first replica it has"]
    replicas: Annotated[int, "partitions of which it has a replica"]
    out_of_sync_replicas: Annotated[int, "those of them that are not in sync"]


class UnderReplicatedRow(NamedTuple):
    """A partition without a leader, or with replicas that are not in sync (`cluster describe`)."""

    topic: Annotated[str, "the topic"]
    partition: Annotated[int, "the partition"]
    leader: Annotated[int | None, "the leader; null: none"]
    replicas: Annotated[list[int], "the brokers of its replicas"]
    isr: Annotated[list[int], "those in sync"]
    out_of_sync: Annotated[list[int], "the others"]


class FeatureRow(NamedTuple):
    """A feature (`features describe`)."""

    feature: Annotated[str, "its name"]
    supported_min_version: Annotated[int, "the lowest level that the broker supports"]
    supported_max_version: Annotated[int, "the highest"]
    finalized_version_level: Annotated[int, "the level in force; 0: none"]
    epoch: Annotated[int | None, "of the finalized features"]


class QuorumRow(NamedTuple):
    """The metadata quorum (`metadata-quorum describe --status`)."""

    cluster_id: Annotated[str, "the cluster's id"]
    leader_id: Annotated[int, "the active controller"]
    leader_epoch: Annotated[int, "its epoch"]
    high_watermark: Annotated[int, "the high watermark, exclusive"]
    max_follower_lag: Annotated[int, "records that the last of the voters is behind"]
    max_follower_lag_time_ms: Annotated[int, "and milliseconds; -1: not known"]
    current_voters: Annotated[list[dict[str, Any]], "id, directoryId, endpoints of each"]
    current_observers: Annotated[list[dict[str, Any]], "id, directoryId, endpoints of each"]


class QuorumReplicaRow(NamedTuple):
    """A replica of the metadata log (`metadata-quorum describe --replication`)."""

    node_id: Annotated[int, "the node"]
    directory_id: Annotated[str, "the id of its metadata directory"]
    log_end_offset: Annotated[int, "the end of its log, exclusive"]
    lag: Annotated[int, "records behind the leader"]
    last_fetch_timestamp: Annotated[int, "milliseconds since 1970; -1: not known"]
    last_caught_up_timestamp: Annotated[int, "milliseconds since 1970; -1: not known"]
    status: Annotated[str, "Leader, Follower or Observer"]


class OffsetRow(NamedTuple):
    """An offset (`get-offsets`)."""

    topic: Annotated[str, "the topic"]
    partition: Annotated[int, "the partition"]
    offset: Annotated[int, "the offset"]


class ReassignmentRow(NamedTuple):
    """A reassignment, in progress or not (`reassign-partitions --list`, --verify, --generate)."""

    topic: Annotated[str, "the topic"]
    partition: Annotated[int, "the partition"]
    replicas: Annotated[list[int], "the current replicas"]
    adding_replicas: Annotated[list[int], "those that are added"]
    removing_replicas: Annotated[list[int], "those that are removed"]
    target_replicas: Annotated[list[int] | None, "the target replicas; null in a list"]
    is_done: Annotated[bool, "whether the reassignment is complete"]


class TransactionRow(NamedTuple):
    """A transactional id (`transactions list`, `transactions describe`)."""

    transactional_id: Annotated[str, "the id"]
    coordinator_id: Annotated[int, "the broker that coordinates it"]
    producer_id: Annotated[int, "of its latest producer"]
    producer_epoch: Annotated[int | None, "of that producer; null in a list"]
    state: Annotated[str, "as Kafka names it: Empty, Ongoing, PrepareCommit, CompleteAbort ..."]
    timeout_ms: Annotated[int | None, "of its transactions; null in a list"]
    start_time_ms: Annotated[
        int | None, "when the open transaction began; null: no open transaction, or in a list"
    ]
    duration_ms: Annotated[int | None, "time since then"]
    partitions: Annotated[list[str] | None, "the partitions of the open transaction; null in a list"]


class ProducerRow(NamedTuple):
    """The state of a producer in a partition (`transactions describe-producers`, `transactions find-hanging`)."""

    topic: Annotated[str, "the topic"]
    partition: Annotated[int, "the partition"]
    producer_id: Annotated[int, "the producer"]
    producer_epoch: Annotated[int, "its epoch"]
    coordinator_epoch: Annotated[
        int, "of the coordinator that ended its last transaction there; -1: none has ended"
    ]
    last_sequence: Annotated[int, "of its last batch; -1: none in this epoch"]
    last_timestamp: Annotated[int, "of its last batch or marker, in ms"]
    start_offset: Annotated[int | None, "where its open transaction begins; null: no open transaction"]


class ResultRow(NamedTuple):
    """The result of a change."""

    what: Annotated[str, "the kind of thing: topic, group, partition ..."]
    name: Annotated[str, "which one"]
    action: Annotated[str, "create, alter, delete ..."]
    error: Annotated[str | None, "Kafka's name of the error; null: done"]
    message: Annotated[str | None, "a description of the result"]


Row: TypeAlias = NamedTuple
ROWS: tuple[type[Any], ...] = (
    TopicRow,
    ConfigRow,
    QuotaRow,
    UserRow,
    GroupRow,
    GroupOffsetRow,
    GroupMemberRow,
    ResetRow,
    LogDirRow,
    AclRow,
    TokenRow,
    ClusterRow,
    NodeRow,
    ClusterSummaryRow,
    BrokerRow,
    UnderReplicatedRow,
    FeatureRow,
    QuorumRow,
    QuorumReplicaRow,
    OffsetRow,
    ReassignmentRow,
    TransactionRow,
    ProducerRow,
    ResultRow,
)
"""All of them, in the order of the documentation."""


def type_name(row: type[Any]) -> str:
    """The value of "type": topic for TopicRow."""
    name = row.__name__.removesuffix("Row")
    return name[0].lower() + name[1:]


def camel_case(name: str) -> str:
    """`topic_id` as JSON has it: topicId."""
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def json_object(row: Any) -> dict[str, Any]:
    """The object of a row."""
    return {"type": type_name(type(row))} | {
        camel_case(name): value for name, value in zip(row._fields, row, strict=True)
    }
