"""API_CHECKS: what each API asks the authorizer. Handlers take their checks from here, and docs/authorization.md too.

Gates come first, before the handler runs: where one is denied, the whole request is, in the form of its error response
(`error_responses`). The checks that handlers make themselves follow, in the order in which they ask. APIs that the
controller decides are asked for there, with the client's principal, where the controller is another node.
Source: kafka.server.KafkaApis, ControllerApis, AclApis, ConfigHelper.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from barnabas.broker.kafka_apis.error_responses import error_response
from barnabas.broker.request import Handler, RequestContext
from barnabas.broker.security.auth_helper import AuthHelper
from barnabas.broker.security.decisions import Check
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.acls import CLUSTER_NAME, AclOperation, AclResourceType

_OP = AclOperation
_TOPIC, _GROUP = AclResourceType.TOPIC, AclResourceType.GROUP
_CLUSTER, _TXN = AclResourceType.CLUSTER, AclResourceType.TRANSACTIONAL_ID
_TOKEN, _USER = AclResourceType.DELEGATION_TOKEN, AclResourceType.USER

ERRORS: Final[Mapping[AclResourceType, ErrorCode]] = {
    AclResourceType.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    AclResourceType.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    AclResourceType.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    AclResourceType.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    AclResourceType.DELEGATION_TOKEN: ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
    AclResourceType.USER: ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
}
"""The error of what is denied."""


class Gate(NamedTuple):
    """A check of the whole request: of the resource that one of its fields names, or of the cluster."""

    check: Check
    field: str = ""

    def resource_name(self, request: Any) -> str:
        name: str = getattr(request, self.field) if self.field else CLUSTER_NAME
        return name


class ApiChecks(NamedTuple):
    """The checks of one API. `effect` is what the client gets where it is denied, for the documentation."""

    gates: tuple[Gate, ...] = ()
    checks: tuple[Check, ...] = ()
    effect: str = ""


def _cluster(operation: AclOperation) -> tuple[Gate, ...]:
    return (Gate(Check(operation, _CLUSTER)),)


def _group(operation: AclOperation) -> tuple[Gate, ...]:
    return (Gate(Check(operation, _GROUP), "group_id"),)


_TRANSACTION: Final = Gate(Check(_OP.WRITE, _TXN), "transactional_id")
_NOTHING: Final = ApiChecks(effect="Every client may send it.")
_WHOLE: Final = "The whole request fails."

API_CHECKS: Final[Mapping[ApiKey, ApiChecks]] = {
    ApiKey.PRODUCE: ApiChecks(
        checks=(Check(_OP.WRITE, _TXN), Check(_OP.WRITE, _TOPIC)),
        effect="Transactional records: all partitions fail. Topics: each of their partitions fails, whether it exists "
        "or not. With acks=0 the connection is closed.",
    ),
    ApiKey.FETCH: ApiChecks(
        checks=(Check(_OP.READ, _TOPIC), Check(_OP.CLUSTER_ACTION, _CLUSTER)),
        effect="Consumers: partitions of the topic fail, others are read. Followers need the second, or all of their "
        "partitions fail with TOPIC_AUTHORIZATION_FAILED.",
    ),
    ApiKey.LIST_OFFSETS: ApiChecks(
        checks=(Check(_OP.DESCRIBE, _TOPIC),), effect="The topic's partitions fail."
    ),
    ApiKey.METADATA: ApiChecks(
        checks=(
            Check(_OP.DESCRIBE, _TOPIC),
            Check(_OP.DESCRIBE, _TOPIC, quiet=True),
            Check(_OP.CREATE, _CLUSTER, quiet=True),
            Check(_OP.CREATE, _TOPIC),
            Check(_OP.DESCRIBE, _CLUSTER),
        ),
        effect="Named topics fail, whether they exist or not; of all topics (quiet) they are left out. A topic is "
        "created on demand with either of the next two. Brokers are always shown, the operations on the cluster with "
        "the last.",
    ),
    ApiKey.OFFSET_COMMIT: ApiChecks(
        _group(_OP.READ), (Check(_OP.READ, _TOPIC),), "All partitions fail; the topic's partitions fail."
    ),
    ApiKey.OFFSET_FETCH: ApiChecks(
        checks=(Check(_OP.DESCRIBE, _GROUP), Check(_OP.DESCRIBE, _TOPIC)),
        effect="The group fails; partitions of named topics fail, and of all topics they are left out.",
    ),
    ApiKey.FIND_COORDINATOR: ApiChecks(
        checks=(
            Check(_OP.DESCRIBE, _GROUP),
            Check(_OP.DESCRIBE, _TXN),
            Check(_OP.CLUSTER_ACTION, _CLUSTER),
        ),
        effect="The key fails, by its type: of a group, of a transactional id. For a share group's state the request "
        "fails.",
    ),
    ApiKey.JOIN_GROUP: ApiChecks(_group(_OP.READ), effect=_WHOLE),
    ApiKey.HEARTBEAT: ApiChecks(_group(_OP.READ), effect=_WHOLE),
    ApiKey.LEAVE_GROUP: ApiChecks(_group(_OP.READ), effect=_WHOLE),
    ApiKey.SYNC_GROUP: ApiChecks(
        checks=(Check(_OP.READ, _GROUP),), effect="The whole request fails, once its fields are complete."
    ),
    ApiKey.DESCRIBE_GROUPS: ApiChecks(checks=(Check(_OP.DESCRIBE, _GROUP),), effect="The group fails."),
    ApiKey.LIST_GROUPS: ApiChecks(
        checks=(Check(_OP.DESCRIBE, _CLUSTER, quiet=True), Check(_OP.DESCRIBE, _GROUP, quiet=True)),
        effect="With the first all groups are listed, else those with the second.",
    ),
    ApiKey.SASL_HANDSHAKE: _NOTHING,
    ApiKey.API_VERSIONS: _NOTHING,
    ApiKey.CREATE_TOPICS: ApiChecks(
        checks=(
            Check(_OP.CREATE, _CLUSTER, quiet=True),
            Check(_OP.CREATE, _TOPIC),
            Check(_OP.DESCRIBE_CONFIGS, _TOPIC, quiet=True),
        ),
        effect="With the first all topics may be created, else those with the second; others fail. Without the last "
        "the response leaves out the new topic's settings.",
    ),
    ApiKey.DELETE_TOPICS: ApiChecks(
        checks=(
            Check(_OP.DELETE, _CLUSTER, quiet=True),
            Check(_OP.DESCRIBE, _TOPIC),
            Check(_OP.DELETE, _TOPIC),
        ),
        effect="With the first all topics may be deleted, else those with the others. Without DESCRIBE a topic fails "
        "alike whether it exists or not, and one by id is not named.",
    ),
    ApiKey.DELETE_RECORDS: ApiChecks(
        checks=(Check(_OP.DELETE, _TOPIC),), effect="The topic's partitions fail."
    ),
    ApiKey.INIT_PRODUCER_ID: ApiChecks(
        checks=(
            Check(_OP.WRITE, _TXN),
            Check(_OP.TWO_PHASE_COMMIT, _TXN),
            Check(_OP.IDEMPOTENT_WRITE, _CLUSTER, quiet=True),
            Check(_OP.WRITE, _TOPIC),
        ),
        effect="With a transactional id the first, and the second for two-phase commit; without one the third, or the "
        "last on any topic. The whole request fails.",
    ),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: ApiChecks(
        checks=(Check(_OP.CLUSTER_ACTION, _CLUSTER, quiet=True), Check(_OP.DESCRIBE, _TOPIC)),
        effect="With the first all are answered, else topics with the second; partitions of others fail.",
    ),
    ApiKey.ADD_PARTITIONS_TO_TXN: ApiChecks(
        checks=(
            Check(_OP.CLUSTER_ACTION, _CLUSTER),
            Check(_OP.WRITE, _TXN),
            Check(_OP.WRITE, _TOPIC),
        ),
        effect="From version 4 on, which brokers send, the first: the whole request fails. Before, the others: all "
        "partitions fail; those of a denied topic fail, and no other is added.",
    ),
    ApiKey.ADD_OFFSETS_TO_TXN: ApiChecks(
        (_TRANSACTION, Gate(Check(_OP.READ, _GROUP), "group_id")), effect=_WHOLE
    ),
    ApiKey.END_TXN: ApiChecks((_TRANSACTION,), effect=_WHOLE),
    ApiKey.WRITE_TXN_MARKERS: ApiChecks(
        checks=(Check(_OP.ALTER, _CLUSTER, quiet=True), Check(_OP.CLUSTER_ACTION, _CLUSTER)),
        effect="Either of them; else every partition fails.",
    ),
    ApiKey.TXN_OFFSET_COMMIT: ApiChecks(
        (_TRANSACTION, Gate(Check(_OP.READ, _GROUP), "group_id")),
        (Check(_OP.READ, _TOPIC),),
        "All partitions fail; the topic's partitions fail.",
    ),
    ApiKey.DESCRIBE_ACLS: ApiChecks(checks=(Check(_OP.DESCRIBE, _CLUSTER),), effect=_WHOLE),
    ApiKey.CREATE_ACLS: ApiChecks(checks=(Check(_OP.ALTER, _CLUSTER),), effect="Every entry fails."),
    ApiKey.DELETE_ACLS: ApiChecks(checks=(Check(_OP.ALTER, _CLUSTER),), effect="Every filter fails."),
    ApiKey.DESCRIBE_CONFIGS: ApiChecks(
        checks=(
            Check(_OP.DESCRIBE_CONFIGS, _TOPIC),
            Check(_OP.DESCRIBE_CONFIGS, _GROUP),
            Check(_OP.DESCRIBE_CONFIGS, _CLUSTER),
        ),
        effect="The resource fails: topics by the first, groups by the second, all others by the last.",
    ),
    ApiKey.ALTER_CONFIGS: ApiChecks(
        checks=(
            Check(_OP.ALTER_CONFIGS, _TOPIC),
            Check(_OP.ALTER_CONFIGS, _GROUP),
            Check(_OP.ALTER_CONFIGS, _CLUSTER),
        ),
        effect="The resource fails: topics by the first, groups by the second, all others by the last.",
    ),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: ApiChecks(
        checks=(
            Check(_OP.ALTER_CONFIGS, _TOPIC),
            Check(_OP.ALTER_CONFIGS, _GROUP),
            Check(_OP.ALTER_CONFIGS, _CLUSTER),
        ),
        effect="The resource fails: topics by the first, groups by the second, all others by the last.",
    ),
    ApiKey.ALTER_REPLICA_LOG_DIRS: ApiChecks(_cluster(_OP.ALTER), effect="All partitions fail."),
    ApiKey.DESCRIBE_LOG_DIRS: ApiChecks(
        _cluster(_OP.DESCRIBE), effect="The whole request fails; before version 3 without an error."
    ),
    ApiKey.SASL_AUTHENTICATE: _NOTHING,
    ApiKey.CREATE_PARTITIONS: ApiChecks(checks=(Check(_OP.ALTER, _TOPIC),), effect="The topic fails."),
    ApiKey.DELETE_GROUPS: ApiChecks(checks=(Check(_OP.DELETE, _GROUP),), effect="The group fails."),
    ApiKey.CREATE_DELEGATION_TOKEN: ApiChecks(
        checks=(Check(_OP.CREATE_TOKENS, _USER),),
        effect="For an owner other than the client: the whole request fails. The resource is the owner, `User:alice`. "
        "Before it is asked, a client that has logged in by a token, or not at all, fails with "
        "DELEGATION_TOKEN_REQUEST_NOT_ALLOWED; as in the next three.",
    ),
    ApiKey.RENEW_DELEGATION_TOKEN: ApiChecks(effect="The token's owner and its renewers may send it."),
    ApiKey.EXPIRE_DELEGATION_TOKEN: ApiChecks(effect="The token's owner and its renewers may send it."),
    ApiKey.DESCRIBE_DELEGATION_TOKEN: ApiChecks(
        checks=(Check(_OP.DESCRIBE, _TOKEN), Check(_OP.DESCRIBE_TOKENS, _USER)),
        effect="Owners and renewers see their tokens; others those with either of the two, of the token's id and of "
        "its owner. The rest is left out.",
    ),
    ApiKey.ELECT_LEADERS: ApiChecks(_cluster(_OP.ALTER), effect=_WHOLE),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: ApiChecks(_cluster(_OP.ALTER), effect=_WHOLE),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: ApiChecks(_cluster(_OP.DESCRIBE), effect=_WHOLE),
    ApiKey.OFFSET_DELETE: ApiChecks(
        _group(_OP.DELETE),
        (Check(_OP.READ, _TOPIC),),
        "The whole request fails; the topic's partitions fail.",
    ),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: ApiChecks(_cluster(_OP.DESCRIBE_CONFIGS), effect=_WHOLE),
    ApiKey.ALTER_CLIENT_QUOTAS: ApiChecks(_cluster(_OP.ALTER_CONFIGS), effect="Every entity fails."),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: ApiChecks(_cluster(_OP.DESCRIBE), effect=_WHOLE),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: ApiChecks(_cluster(_OP.ALTER), effect="Every user fails."),
    ApiKey.DESCRIBE_QUORUM: ApiChecks(_cluster(_OP.DESCRIBE), effect=_WHOLE),
    ApiKey.UPDATE_FEATURES: ApiChecks(_cluster(_OP.ALTER), effect=_WHOLE),
    ApiKey.DESCRIBE_CLUSTER: ApiChecks(
        checks=(Check(_OP.DESCRIBE, _CLUSTER),),
        effect="Nodes are always shown, the operations on the cluster only with it.",
    ),
    ApiKey.DESCRIBE_PRODUCERS: ApiChecks(
        checks=(Check(_OP.READ, _TOPIC),), effect="The topic's partitions fail."
    ),
    ApiKey.UNREGISTER_BROKER: ApiChecks(_cluster(_OP.ALTER), effect=_WHOLE),
    ApiKey.DESCRIBE_TRANSACTIONS: ApiChecks(
        checks=(Check(_OP.DESCRIBE, _TXN), Check(_OP.DESCRIBE, _TOPIC)),
        effect="The transactional id fails; topics without the second are left out.",
    ),
    ApiKey.LIST_TRANSACTIONS: ApiChecks(
        checks=(Check(_OP.DESCRIBE, _TXN),), effect="Transactional ids without it are left out."
    ),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: ApiChecks(
        checks=(
            Check(_OP.READ, _GROUP),
            Check(_OP.DESCRIBE, _TOPIC),
            Check(_OP.DESCRIBE, _TOPIC, quiet=True),
        ),
        effect="The whole request fails, for one topic too. A regular expression matches only topics with the last.",
    ),
    ApiKey.CONSUMER_GROUP_DESCRIBE: ApiChecks(
        checks=(Check(_OP.DESCRIBE, _GROUP), Check(_OP.DESCRIBE, _TOPIC)),
        effect="The group fails, for one topic in its members' assignments too.",
    ),
    ApiKey.GET_TELEMETRY_SUBSCRIPTIONS: _NOTHING,
    ApiKey.PUSH_TELEMETRY: _NOTHING,
    ApiKey.LIST_CONFIG_RESOURCES: ApiChecks(_cluster(_OP.DESCRIBE_CONFIGS), effect=_WHOLE),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: ApiChecks(
        checks=(Check(_OP.DESCRIBE, _TOPIC),),
        effect="Named topics fail, whether they exist or not; of all topics they are left out.",
    ),
    ApiKey.ADD_RAFT_VOTER: ApiChecks(_cluster(_OP.ALTER), effect=_WHOLE),
    ApiKey.REMOVE_RAFT_VOTER: ApiChecks(_cluster(_OP.ALTER), effect=_WHOLE),
}
"""By API. Those that are served and are not here fail the tests."""


MATCH_TOPIC: Final = API_CHECKS[ApiKey.CONSUMER_GROUP_HEARTBEAT].checks[-1]
"""By which the group coordinator resolves regular expressions."""


def checks_of(key: ApiKey) -> tuple[Check, ...]:
    """The checks that a handler makes itself."""
    return API_CHECKS[key].checks


def guarded(handle: Handler, key: ApiKey, auth: AuthHelper) -> Handler:
    """The handler behind the gates of its API."""
    gates = API_CHECKS[key].gates
    if not gates:
        return handle

    def handle_if_allowed(broker: Any, context: RequestContext, request: Any) -> Any:
        for gate in gates:
            if not auth.authorize(context, gate.check, gate.resource_name(request)):
                error = ERRORS[gate.check.resource_type]
                return error_response(request, context.api_version, error, error.text)
        return handle(broker, context, request)

    return handle_if_allowed
