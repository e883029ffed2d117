"""The APIs of Kafka, and the messages and headers of a key and a version."""

from __future__ import annotations

from enum import IntEnum
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING

from barnabas.protocol.schema import VersionRange

if TYPE_CHECKING:
    from barnabas.protocol.schema import Message


class ApiKey(IntEnum):
    """Every API of Kafka 4.3 (`org.apache.kafka.common.protocol.ApiKeys`).

    Keys 4 to 7 were the ZooKeeper controller's; Kafka 4 has removed them.
    `module` is the module of protocol.messages that declares the request and the response.
    """

    module: str

    def __new__(cls, key: int, module: str = "") -> ApiKey:
        member = int.__new__(cls, key)
        member._value_ = key
        member.module = module
        return member

    @property
    def title(self) -> str:
        """The name as Kafka's documentation writes it: ListOffsets."""
        return "".join(word.capitalize() for word in self.name.split("_"))

    PRODUCE = 0, "produce"
    FETCH = 1, "fetch"
    LIST_OFFSETS = 2, "offsets"
    METADATA = 3, "metadata"
    OFFSET_COMMIT = 8, "commits"
    OFFSET_FETCH = 9, "commits"
    FIND_COORDINATOR = 10, "groups"
    JOIN_GROUP = 11, "groups"
    HEARTBEAT = 12, "groups"
    LEAVE_GROUP = 13, "groups"
    SYNC_GROUP = 14, "groups"
    DESCRIBE_GROUPS = 15, "groups"
    LIST_GROUPS = 16, "groups"
    SASL_HANDSHAKE = 17, "security"
    API_VERSIONS = 18, "api_versions"
    CREATE_TOPICS = 19, "topics"
    DELETE_TOPICS = 20, "topics"
    DELETE_RECORDS = 21, "offsets"
    INIT_PRODUCER_ID = 22, "transactions"
    OFFSET_FOR_LEADER_EPOCH = 23, "offsets"
    ADD_PARTITIONS_TO_TXN = 24, "transactions"
    ADD_OFFSETS_TO_TXN = 25, "transactions"
    END_TXN = 26, "transactions"
    WRITE_TXN_MARKERS = 27, "transactions"
    TXN_OFFSET_COMMIT = 28, "transactions"
    DESCRIBE_ACLS = 29, "acls"
    CREATE_ACLS = 30, "acls"
    DELETE_ACLS = 31, "acls"
    DESCRIBE_CONFIGS = 32, "configs"
    ALTER_CONFIGS = 33, "configs"
    ALTER_REPLICA_LOG_DIRS = 34, "log_dirs"
    DESCRIBE_LOG_DIRS = 35, "log_dirs"
    SASL_AUTHENTICATE = 36, "security"
    CREATE_PARTITIONS = 37, "topics"
    CREATE_DELEGATION_TOKEN = 38, "tokens"
    RENEW_DELEGATION_TOKEN = 39, "tokens"
    EXPIRE_DELEGATION_TOKEN = 40, "tokens"
    DESCRIBE_DELEGATION_TOKEN = 41, "tokens"
    DELETE_GROUPS = 42, "groups"
    ELECT_LEADERS = 43, "topics"
    INCREMENTAL_ALTER_CONFIGS = 44, "configs"
    ALTER_PARTITION_REASSIGNMENTS = 45, "topics"
    LIST_PARTITION_REASSIGNMENTS = 46, "topics"
    OFFSET_DELETE = 47, "commits"
    DESCRIBE_CLIENT_QUOTAS = 48, "quotas"
    ALTER_CLIENT_QUOTAS = 49, "quotas"
    DESCRIBE_USER_SCRAM_CREDENTIALS = 50, "security"
    ALTER_USER_SCRAM_CREDENTIALS = 51, "security"
    VOTE = 52, "quorum"
    BEGIN_QUORUM_EPOCH = 53, "quorum"
    END_QUORUM_EPOCH = 54, "quorum"
    DESCRIBE_QUORUM = 55, "quorum"
    ALTER_PARTITION = 56, "cluster"
    UPDATE_FEATURES = 57, "cluster"
    ENVELOPE = 58, "cluster"
    FETCH_SNAPSHOT = 59, "quorum"
    DESCRIBE_CLUSTER = 60, "metadata"
    DESCRIBE_PRODUCERS = 61, "producers"
    BROKER_REGISTRATION = 62, "cluster"
    BROKER_HEARTBEAT = 63, "cluster"
    UNREGISTER_BROKER = 64, "cluster"
    DESCRIBE_TRANSACTIONS = 65, "producers"
    LIST_TRANSACTIONS = 66, "producers"
    ALLOCATE_PRODUCER_IDS = 67, "cluster"
    CONSUMER_GROUP_HEARTBEAT = 68, "consumer_groups"
    CONSUMER_GROUP_DESCRIBE = 69, "consumer_groups"
    CONTROLLER_REGISTRATION = 70, "cluster"
    GET_TELEMETRY_SUBSCRIPTIONS = 71, "telemetry"
    PUSH_TELEMETRY = 72, "telemetry"
    ASSIGN_REPLICAS_TO_DIRS = 73, "log_dirs"
    LIST_CONFIG_RESOURCES = 74, "configs"
    DESCRIBE_TOPIC_PARTITIONS = 75, "metadata"
    SHARE_GROUP_HEARTBEAT = 76, "share_groups"
    SHARE_GROUP_DESCRIBE = 77, "share_groups"
    SHARE_FETCH = 78, "share_groups"
    SHARE_ACKNOWLEDGE = 79, "share_groups"
    ADD_RAFT_VOTER = 80, "voters"
    REMOVE_RAFT_VOTER = 81, "voters"
    UPDATE_RAFT_VOTER = 82, "voters"
    INITIALIZE_SHARE_GROUP_STATE = 83, "share_state"
    READ_SHARE_GROUP_STATE = 84, "share_state"
    WRITE_SHARE_GROUP_STATE = 85, "share_state"
    DELETE_SHARE_GROUP_STATE = 86, "share_state"
    READ_SHARE_GROUP_STATE_SUMMARY = 87, "share_state"
    STREAMS_GROUP_HEARTBEAT = 88, "streams_groups"
    STREAMS_GROUP_DESCRIBE = 89, "streams_groups"
    DESCRIBE_SHARE_GROUP_OFFSETS = 90, "share_groups"
    ALTER_SHARE_GROUP_OFFSETS = 91, "share_groups"
    DELETE_SHARE_GROUP_OFFSETS = 92, "share_groups"


def request_type(key: int) -> type[Message]:
    """The request of this API. Raises ValueError for a key that Kafka 4.3 does not have."""
    return _message_type(ApiKey(key), "Request")


def response_type(key: int) -> type[Message]:
    """The response of this API. Raises ValueError for a key that Kafka 4.3 does not have."""
    return _message_type(ApiKey(key), "Response")


def known_versions(key: int) -> VersionRange:
    """The versions of this API in which a client of ours may ask: those that are declared and final.

    Raises ValueError for a key that Kafka 4.3 does not have.
    """
    request = request_type(key)
    return VersionRange(request.versions.low, request.versions.high - request.latest_unstable)


def request_header_version(key: int, version: int) -> int:
    """The version of the RequestHeader before this request: 2 where the request is flexible, otherwise 1.

    `version` may be one that does not exist; the header is then the one that the client must have used.
    """
    return 2 if request_type(key).flexible_versions.has(version) else 1


def response_header_version(key: int, version: int) -> int:
    """The version of the ResponseHeader before this response: 1 where it is flexible, otherwise 0.

    ApiVersions always has 0, because the client may not know the versions of the broker yet (KIP-511).
    """
    if key == ApiKey.API_VERSIONS:
        return 0
    return 1 if response_type(key).flexible_versions.has(version) else 0


@cache
def _message_type(key: ApiKey, kind: str) -> type[Message]:
    module = import_module(f"barnabas.protocol.messages.{key.module}")
    found: type[Message] = getattr(module, key.title + kind)
    return found
