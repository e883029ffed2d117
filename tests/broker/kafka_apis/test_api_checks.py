"""API_CHECKS: every API has a row; gates deny whole requests in the form of their error responses."""

from __future__ import annotations

import re
from pathlib import Path

from barnabas.broker.kafka_apis import handlers
from barnabas.broker.kafka_apis.api_checks import API_CHECKS, ERRORS, MATCH_TOPIC, checks_of, guarded
from barnabas.broker.request import REGISTRY, ConnectionInfo, RequestContext
from barnabas.broker.security.auth_helper import AuthHelper
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.acls import AclOperation, AclResourceType
from barnabas.protocol.messages.groups import HeartbeatRequest, HeartbeatResponse
from tests.broker.security.acls import GROUP, AuthorizerWithAcls, acl

HANDLERS = Path(handlers.__file__).parent


def test_every_served_api_has_a_row() -> None:
    handlers.register_all()
    forwarded = {ApiKey.ADD_RAFT_VOTER, ApiKey.REMOVE_RAFT_VOTER}
    assert {ApiKey(key) for key in REGISTRY} | forwarded == set(API_CHECKS)


def test_handlers_take_all_checks_of_their_apis_from_the_table() -> None:
    """Each row with checks is unpacked by one handler, so that a check that is added there is missed here."""
    sources = "".join(path.read_text(encoding="utf-8") for path in HANDLERS.glob("*.py"))
    taken = set(re.findall(r"checks_of\(ApiKey\.(\w+)\)", sources))
    with_checks = {key.name for key, row in API_CHECKS.items() if row.checks}
    assert with_checks - taken == {"ALTER_CONFIGS"}  # whose handler uses those of INCREMENTAL_ALTER_CONFIGS
    assert taken <= with_checks


def test_both_ways_of_altering_settings_ask_alike() -> None:
    old, new = checks_of(ApiKey.ALTER_CONFIGS), checks_of(ApiKey.INCREMENTAL_ALTER_CONFIGS)
    assert [(one.operation, one.resource_type) for one in old] == [
        (one.operation, one.resource_type) for one in new
    ]


def test_each_denied_resource_has_an_error_and_each_row_says_what_it_is() -> None:
    for row in API_CHECKS.values():
        assert row.effect
        for check in [gate.check for gate in row.gates] + list(row.checks):
            assert check.resource_type in ERRORS
    assert MATCH_TOPIC.quiet
    assert MATCH_TOPIC.resource_type is AclResourceType.TOPIC


def context(host: str = "h") -> RequestContext:
    connection = ConnectionInfo(
        connection_id=1, listener_name="", client_host=host, client_port=1, local_host="", local_port=1
    )
    return RequestContext(connection, ApiKey.HEARTBEAT, 4)


def test_a_gate_asks_for_the_resource_that_the_request_names() -> None:
    answer = HeartbeatResponse()
    authorizer = AuthorizerWithAcls(acl("mine", AclOperation.READ, principal="User:ANONYMOUS", kind=GROUP))
    handle = guarded(lambda broker, context, request: answer, ApiKey.HEARTBEAT, AuthHelper(authorizer))
    assert handle(None, context(), HeartbeatRequest(group_id="mine")) is answer
    denied = handle(None, context(), HeartbeatRequest(group_id="yours"))
    assert denied.error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED


def test_an_api_without_gates_is_handled_directly() -> None:
    def handle(broker: object, context: object, request: object) -> None:
        """Does nothing."""

    assert guarded(handle, ApiKey.FETCH, AuthHelper(AuthorizerWithAcls())) is handle
