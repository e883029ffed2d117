"""The error codes of the wire, and the two exceptions of a request.

`ProtocolError` is about bytes and closes the connection; `ApiError` is about one request or one partition and
becomes a code in a response.
"""

from __future__ import annotations

from enum import IntEnum

RETRIABLE = True
FINAL = False


class ErrorCode(IntEnum):
    """Every error code of Kafka 4.3 (`org.apache.kafka.common.protocol.Errors`).

    `retriable` says whether a client may retry the request (its exception in Kafka is a `RetriableException`);
    `text` describes the error in one line.
    """

    retriable: bool
    text: str

    def __new__(cls, code: int, retriable: bool = FINAL, text: str = "") -> ErrorCode:
        member = int.__new__(cls, code)
        member._value_ = code
        member.retriable = retriable
        member.text = text
        return member

    UNKNOWN_SERVER_ERROR = -1, FINAL, "The broker met an error that it has no code for"
    NONE = 0, FINAL, "No error"
    OFFSET_OUT_OF_RANGE = 1, FINAL, "The offset lies before the start of the log or after its end"
    CORRUPT_MESSAGE = (
        2,
        RETRIABLE,
        "A batch is damaged, or a record lacks the key that its compacted topic needs",
    )
    UNKNOWN_TOPIC_OR_PARTITION = 3, RETRIABLE, "The broker has no such topic or partition"
    INVALID_FETCH_SIZE = 4, FINAL, "The fetch asks for an impossible number of bytes"
    LEADER_NOT_AVAILABLE = 5, RETRIABLE, "The partition has no leader at the moment"
    NOT_LEADER_OR_FOLLOWER = 6, RETRIABLE, "This broker does not lead the partition, or has no replica of it"
    REQUEST_TIMED_OUT = 7, RETRIABLE, "The time that the request allowed is over"
    BROKER_NOT_AVAILABLE = 8, FINAL, "The broker that is needed is not there"
    REPLICA_NOT_AVAILABLE = 9, RETRIABLE, "The replica that is needed is not there"
    MESSAGE_TOO_LARGE = 10, FINAL, "A record batch is larger than max.message.bytes of the topic"
    STALE_CONTROLLER_EPOCH = 11, FINAL, "A newer controller has taken over"
    OFFSET_METADATA_TOO_LARGE = 12, FINAL, "The metadata kept beside a committed offset is too long"
    NETWORK_EXCEPTION = 13, RETRIABLE, "The connection broke before the answer came"
    COORDINATOR_LOAD_IN_PROGRESS = 14, RETRIABLE, "The coordinator is still reading its state"
    COORDINATOR_NOT_AVAILABLE = 15, RETRIABLE, "No coordinator can be named at the moment"
    NOT_COORDINATOR = 16, RETRIABLE, "Another broker coordinates this group or transactional id"
    INVALID_TOPIC_EXCEPTION = 17, FINAL, "The topic name is not allowed, or clients may not write to it"
    RECORD_LIST_TOO_LARGE = 18, FINAL, "The batches are larger than a log segment may be"
    NOT_ENOUGH_REPLICAS = 19, RETRIABLE, "Too few replicas are in sync; nothing was written"
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = 20, RETRIABLE, "Written, but to too few replicas in sync"
    INVALID_REQUIRED_ACKS = 21, FINAL, "acks must be 0, 1 or -1"
    ILLEGAL_GENERATION = 22, FINAL, "The generation is not the group's current one"
    INCONSISTENT_GROUP_PROTOCOL = 23, FINAL, "The member shares no protocol with the group, or named none"
    INVALID_GROUP_ID = 24, FINAL, "The group id is not allowed"
    UNKNOWN_MEMBER_ID = 25, FINAL, "The group has no such member"
    INVALID_SESSION_TIMEOUT = 26, FINAL, "The session timeout lies outside the bounds that the broker allows"
    REBALANCE_IN_PROGRESS = 27, FINAL, "The group is rebalancing; the member has to join again"
    INVALID_COMMIT_OFFSET_SIZE = 28, FINAL, "The commit does not fit into a record of the offsets topic"
    TOPIC_AUTHORIZATION_FAILED = 29, FINAL, "The principal may not do this with the topic"
    GROUP_AUTHORIZATION_FAILED = 30, FINAL, "The principal may not do this with the group"
    CLUSTER_AUTHORIZATION_FAILED = 31, FINAL, "The principal may not do this with the cluster"
    INVALID_TIMESTAMP = 32, FINAL, "A record's timestamp lies outside the bounds that the topic allows"
    UNSUPPORTED_SASL_MECHANISM = 33, FINAL, "The SASL mechanism is not enabled here"
    ILLEGAL_SASL_STATE = 34, FINAL, "The request has no place at this point of the SASL exchange"
    UNSUPPORTED_VERSION = 35, FINAL, "The broker does not serve this version of the request"
    TOPIC_ALREADY_EXISTS = 36, FINAL, "There is a topic of this name already"
    INVALID_PARTITIONS = 37, FINAL, "The number of partitions is not one that can be"
    INVALID_REPLICATION_FACTOR = 38, FINAL, "The replication factor is below 1 or above the number of brokers"
    INVALID_REPLICA_ASSIGNMENT = 39, FINAL, "The replica assignment contradicts itself or the cluster"
    INVALID_CONFIG = 40, FINAL, "A configuration value is not allowed"
    NOT_CONTROLLER = 41, RETRIABLE, "This node is not the active controller"
    INVALID_REQUEST = 42, FINAL, "The request contradicts itself or its protocol"
    UNSUPPORTED_FOR_MESSAGE_FORMAT = 43, FINAL, "The log's record format cannot do what is asked"
    POLICY_VIOLATION = 44, FINAL, "A policy of this cluster forbids it"
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45, FINAL, "The producer's sequence number leaves a gap"
    DUPLICATE_SEQUENCE_NUMBER = 46, FINAL, "The producer's sequence number was used already"
    INVALID_PRODUCER_EPOCH = 47, FINAL, "The producer's epoch is older than the one in force"
    INVALID_TXN_STATE = 48, FINAL, "The transaction is not in a state that allows it"
    INVALID_PRODUCER_ID_MAPPING = 49, FINAL, "The producer id does not belong to this transactional id"
    INVALID_TRANSACTION_TIMEOUT = 50, FINAL, "The transaction timeout is above transaction.max.timeout.ms"
    CONCURRENT_TRANSACTIONS = 51, RETRIABLE, "Another operation on this transaction has not finished"
    TRANSACTION_COORDINATOR_FENCED = 52, FINAL, "The marker comes from a coordinator that was replaced"
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53, FINAL, "The principal may not use this transactional id"
    SECURITY_DISABLED = 54, FINAL, "Security is not enabled on this cluster"
    OPERATION_NOT_ATTEMPTED = 55, FINAL, "The broker did not try, because another part of the request failed"
    KAFKA_STORAGE_ERROR = 56, RETRIABLE, "The disk failed when the log was read or written"
    LOG_DIR_NOT_FOUND = 57, FINAL, "The broker has no such log directory"
    SASL_AUTHENTICATION_FAILED = 58, FINAL, "The credentials are wrong"
    UNKNOWN_PRODUCER_ID = 59, FINAL, "The log knows nothing of this producer id any more"
    REASSIGNMENT_IN_PROGRESS = 60, FINAL, "The partition is being reassigned"
    DELEGATION_TOKEN_AUTH_DISABLED = 61, FINAL, "Delegation tokens are not enabled"
    DELEGATION_TOKEN_NOT_FOUND = 62, FINAL, "There is no such delegation token"
    DELEGATION_TOKEN_OWNER_MISMATCH = 63, FINAL, "The principal neither owns the token nor may renew it"
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED = 64, FINAL, "Not possible over this kind of connection"
    DELEGATION_TOKEN_AUTHORIZATION_FAILED = 65, FINAL, "The principal may not do this with the token"
    DELEGATION_TOKEN_EXPIRED = 66, FINAL, "The delegation token has expired"
    INVALID_PRINCIPAL_TYPE = 67, FINAL, "The principal type is not supported"
    NON_EMPTY_GROUP = 68, FINAL, "The group still has members"
    GROUP_ID_NOT_FOUND = 69, FINAL, "There is no such group"
    FETCH_SESSION_ID_NOT_FOUND = 70, RETRIABLE, "There is no such fetch session"
    INVALID_FETCH_SESSION_EPOCH = 71, RETRIABLE, "The fetch session has another epoch"
    LISTENER_NOT_FOUND = 72, RETRIABLE, "The leader has no listener of the name that was asked for"
    TOPIC_DELETION_DISABLED = 73, FINAL, "delete.topic.enable is false"
    FENCED_LEADER_EPOCH = 74, RETRIABLE, "The leader epoch is older than the broker's"
    UNKNOWN_LEADER_EPOCH = 75, RETRIABLE, "The leader epoch is newer than the broker's"
    UNSUPPORTED_COMPRESSION_TYPE = 76, FINAL, "The client cannot read the compression of this partition"
    STALE_BROKER_EPOCH = 77, FINAL, "The broker has registered again since"
    OFFSET_NOT_AVAILABLE = 78, RETRIABLE, "The new leader's high watermark is not known yet"
    MEMBER_ID_REQUIRED = 79, FINAL, "The member has to join again with the id in the answer"
    PREFERRED_LEADER_NOT_AVAILABLE = 80, RETRIABLE, "The preferred leader is not there"
    GROUP_MAX_SIZE_REACHED = 81, FINAL, "The group has as many members as it may"
    FENCED_INSTANCE_ID = 82, FINAL, "Another member has taken this group.instance.id"
    ELIGIBLE_LEADERS_NOT_AVAILABLE = 83, RETRIABLE, "No replica that could lead is there"
    ELECTION_NOT_NEEDED = 84, RETRIABLE, "The partition has the leader that it should have"
    NO_REASSIGNMENT_IN_PROGRESS = 85, FINAL, "No partition is being reassigned"
    GROUP_SUBSCRIBED_TO_TOPIC = 86, FINAL, "The group subscribes to the topic, so its offsets stay"
    INVALID_RECORD = 87, FINAL, "A record breaks a rule of its topic or of the format"
    UNSTABLE_OFFSET_COMMIT = 88, RETRIABLE, "Offsets of an open transaction are pending"
    THROTTLING_QUOTA_EXCEEDED = 89, RETRIABLE, "The quota is used up for now"
    PRODUCER_FENCED = 90, FINAL, "A newer producer uses the same transactional id"
    RESOURCE_NOT_FOUND = 91, FINAL, "There is no such resource"
    DUPLICATE_RESOURCE = 92, FINAL, "The request names a resource twice"
    UNACCEPTABLE_CREDENTIAL = 93, FINAL, "The credential does not meet the rules"
    INCONSISTENT_VOTER_SET = 94, FINAL, "One of the two sides is not a voter of the quorum"
    INVALID_UPDATE_VERSION = 95, FINAL, "The feature version cannot be set"
    FEATURE_UPDATE_FAILED = 96, FINAL, "The feature could not be updated"
    PRINCIPAL_DESERIALIZATION_FAILURE = 97, FINAL, "The principal in a forwarded request cannot be read"
    SNAPSHOT_NOT_FOUND = 98, FINAL, "There is no such snapshot"
    POSITION_OUT_OF_RANGE = 99, FINAL, "The position lies outside the snapshot"
    UNKNOWN_TOPIC_ID = 100, RETRIABLE, "The broker has no topic with this id"
    DUPLICATE_BROKER_REGISTRATION = 101, FINAL, "Another broker runs under this id"
    BROKER_ID_NOT_REGISTERED = 102, FINAL, "No broker is registered under this id"
    INCONSISTENT_TOPIC_ID = 103, RETRIABLE, "The log belongs to another topic id"
    INCONSISTENT_CLUSTER_ID = 104, FINAL, "The request is meant for another cluster"
    TRANSACTIONAL_ID_NOT_FOUND = 105, FINAL, "There is no such transactional id"
    FETCH_SESSION_TOPIC_ID_ERROR = 106, RETRIABLE, "The fetch session mixes topic names with topic ids"
    INELIGIBLE_REPLICA = 107, FINAL, "The new ISR has a replica that may not be in it"
    NEW_LEADER_ELECTED = 108, FINAL, "The partition was altered, and has another leader now"
    OFFSET_MOVED_TO_TIERED_STORAGE = 109, FINAL, "The offset is only in tiered storage"
    FENCED_MEMBER_EPOCH = 110, FINAL, "The member is fenced; it gives up its partitions and joins again"
    UNRELEASED_INSTANCE_ID = 111, FINAL, "The former member with this instance id has not left"
    UNSUPPORTED_ASSIGNOR = 112, FINAL, "The group knows no such assignor, or not this version of it"
    STALE_MEMBER_EPOCH = 113, FINAL, "The member's epoch is old; the next heartbeat brings the new one"
    MISMATCHED_ENDPOINT_TYPE = 114, FINAL, "This is a controller and not a broker, or the reverse"
    UNSUPPORTED_ENDPOINT_TYPE = 115, FINAL, "The endpoint type is not supported"
    UNKNOWN_CONTROLLER_ID = 116, FINAL, "There is no controller of this id"
    UNKNOWN_SUBSCRIPTION_ID = 117, FINAL, "The telemetry subscription is not the current one"
    TELEMETRY_TOO_LARGE = 118, FINAL, "The telemetry is larger than the broker takes"
    INVALID_REGISTRATION = 119, FINAL, "The controller does not accept the registration"
    TRANSACTION_ABORTABLE = 120, FINAL, "The transaction failed; it can be aborted"
    INVALID_RECORD_STATE = 121, FINAL, "The record is not in a state in which it can be acknowledged"
    SHARE_SESSION_NOT_FOUND = 122, RETRIABLE, "There is no such share session"
    INVALID_SHARE_SESSION_EPOCH = 123, RETRIABLE, "The share session has another epoch"
    FENCED_STATE_EPOCH = 124, FINAL, "The state epoch of the share group is another"
    INVALID_VOTER_KEY = 125, FINAL, "The voter's id and directory do not fit this replica"
    DUPLICATE_VOTER = 126, FINAL, "The replica is a voter already"
    VOTER_NOT_FOUND = 127, FINAL, "The replica is not a voter"
    INVALID_REGULAR_EXPRESSION = 128, FINAL, "The regular expression cannot be compiled"
    REBOOTSTRAP_REQUIRED = 129, FINAL, "The client starts again from its bootstrap servers"
    STREAMS_INVALID_TOPOLOGY = 130, FINAL, "The streams topology is not valid"
    STREAMS_INVALID_TOPOLOGY_EPOCH = 131, FINAL, "The epoch of the streams topology is not valid"
    STREAMS_TOPOLOGY_FENCED = 132, FINAL, "A newer streams topology is in force"
    SHARE_SESSION_LIMIT_REACHED = 133, RETRIABLE, "There are as many share sessions as there may be"


class ProtocolError(Exception):
    """The bytes of a peer are invalid; the rest of its stream cannot be decoded."""


class ApiError(Exception):
    """One request, topic or partition fails with `code`; `message` is for the client."""

    def __init__(self, code: ErrorCode, message: str | None = None) -> None:
        super().__init__(code, message)
        self.code = code
        self.message = message

    def __str__(self) -> str:
        return f"{self.code.name}: {self.message or self.code.text}"
