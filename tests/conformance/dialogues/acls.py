"""DescribeAcls, CreateAcls and DeleteAcls, with an authorizer and without one."""

from __future__ import annotations

from itertools import product
from typing import Any

from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.acls import (
    CreateAclsRequest,
    CreateAclsResponse,
    DeleteAclsRequest,
    DeleteAclsResponse,
    DescribeAclsRequest,
    DescribeAclsResponse,
)
from tests.conformance.dialogue_client import DialogueClient
from tests.conformance.dialogues import SECURED, dialogue

FIRST, LAST = 1, 3
UNKNOWN, ANY = 0, 1
TOPIC, GROUP, CLUSTER, TRANSACTIONAL_ID, TOKEN, USER = 2, 3, 4, 5, 6, 7
MATCH, LITERAL, PREFIXED = 2, 3, 4
ALL, READ, WRITE, DESCRIBE = 2, 3, 4, 8
DENY, ALLOW = 2, 3

Entry = tuple[int, str, int, str, str, int, int]


def create(*entries: Entry) -> CreateAclsRequest:
    return CreateAclsRequest(
        creations=[
            CreateAclsRequest.AclCreation(
                resource_type=kind,
                resource_name=name,
                resource_pattern_type=pattern,
                principal=principal,
                host=host,
                operation=operation,
                permission_type=permission,
            )
            for kind, name, pattern, principal, host, operation, permission in entries
        ]
    )


Wanted = tuple[int, str | None, int, str | None, str | None, int, int]


def fields(wanted: Wanted) -> dict[str, Any]:
    kind, name, pattern, principal, host, operation, permission = wanted
    return {
        "resource_type_filter": kind,
        "resource_name_filter": name,
        "pattern_type_filter": pattern,
        "principal_filter": principal,
        "host_filter": host,
        "operation": operation,
        "permission_type": permission,
    }


def describe(*wanted: Any) -> DescribeAclsRequest:
    return DescribeAclsRequest(**fields(wanted))


def delete(*filters: Wanted) -> DeleteAclsRequest:
    return DeleteAclsRequest(filters=[DeleteAclsRequest.DeleteAclsFilter(**fields(each)) for each in filters])


def described(answer: DescribeAclsResponse) -> object:
    """The response with resources and entries sorted: Kafka returns them in hash order."""
    return (
        answer.error_code,
        answer.error_code or answer.error_message,
        sorted(
            (
                (resource.resource_type, resource.resource_name, resource.pattern_type),
                sorted(
                    (acl.principal, acl.host, acl.operation, acl.permission_type) for acl in resource.acls
                ),
            )
            for resource in answer.resources
        ),
    )


def created(answer: CreateAclsResponse) -> object:
    return [(result.error_code, result.error_code or result.error_message) for result in answer.results]


def deleted(answer: DeleteAclsResponse) -> object:
    return [
        (
            result.error_code,
            sorted(
                (
                    *(acl.error_code, acl.error_message is None),
                    *(acl.resource_type, acl.resource_name, acl.pattern_type),
                    *(acl.principal, acl.host, acl.operation, acl.permission_type),
                )
                for acl in result.matching_acls
            ),
        )
        for result in answer.filter_results
    ]


def request_settled(client: DialogueClient, request: CreateAclsRequest | DeleteAclsRequest) -> None:
    """Sends a request and waits until later ones see its effect: Kafka's broker applies records after the response."""
    client.request(request, noting=deleted if isinstance(request, DeleteAclsRequest) else created)
    principal = f"User:{client.topic('last')}"
    mine = (ANY, None, ANY, principal, None, ANY, ANY)
    client.connection.request(create((TOPIC, "t", LITERAL, principal, "*", READ, ALLOW)), LAST)
    client.request_until(describe(*mine), lambda it: bool(it.resources), LAST)
    client.connection.request(delete(mine), LAST)
    client.request_until(describe(*mine), lambda it: not it.resources, LAST)


@dialogue(ApiKey.DESCRIBE_ACLS, FIRST, LAST)
def described_without_an_authorizer(client: DialogueClient) -> None:
    client.request(describe(ANY, None, ANY, None, None, ANY, ANY))
    client.request(describe(99, None, 99, None, None, 99, 99))
    client.request(describe(UNKNOWN, None, ANY, None, None, ANY, ANY))


@dialogue(ApiKey.CREATE_ACLS, FIRST, LAST)
def created_without_an_authorizer(client: DialogueClient) -> None:
    entry = (TOPIC, "t", LITERAL, "User:alice", "*", READ, ALLOW)
    client.request(create(entry, entry))
    client.request(create())
    client.request(create((UNKNOWN, "t", LITERAL, "User:alice", "*", READ, ALLOW)))


@dialogue(ApiKey.DELETE_ACLS, FIRST, LAST)
def deleted_without_an_authorizer(client: DialogueClient) -> None:
    everything = (ANY, None, ANY, None, None, ANY, ANY)
    client.request(delete(everything, everything))
    client.request(delete())
    client.request(delete((ANY, None, ANY, None, None, UNKNOWN, ANY)))


@dialogue(ApiKey.CREATE_ACLS, FIRST, LAST, brokers=SECURED)
def entries_created_repeatedly(client: DialogueClient) -> None:
    alice = f"User:{client.topic('alice')}"
    read = (TOPIC, client.topic("t"), LITERAL, alice, "*", READ, ALLOW)
    group = (GROUP, "*", LITERAL, alice, "10.0.0.1", READ, DENY)
    cluster = (CLUSTER, "kafka-cluster", LITERAL, alice, "*", ALL, ALLOW)
    mine = describe(ANY, None, ANY, alice, None, ANY, ANY)
    for request in (create(read), create(read), create(read, group, group, cluster), create()):
        request_settled(client, request)
        client.request(mine, noting=described)


@dialogue(ApiKey.CREATE_ACLS, FIRST, LAST, brokers=SECURED)
def every_resource_operation_and_permission(client: DialogueClient) -> None:
    alice = f"User:{client.topic('alice')}"
    kinds = [
        (kind, client.topic("r") if kind != CLUSTER else "kafka-cluster", pattern, alice, "*", operation, permission)
        for kind, pattern, operation, permission in product(
            range(2, 8), (LITERAL, PREFIXED), range(2, 16), (DENY, ALLOW)
        )
    ]  # fmt: skip
    request_settled(client, create(*kinds))
    client.request(describe(ANY, None, ANY, alice, None, ANY, ANY), noting=described)
    client.request(delete((ANY, None, ANY, alice, None, ANY, ANY)), noting=deleted)


@dialogue(ApiKey.CREATE_ACLS, FIRST, LAST, brokers=SECURED)
def invalid_entries(client: DialogueClient) -> None:
    alice, name = f"User:{client.topic('alice')}", client.topic("t")
    right = (TOPIC, name, LITERAL, alice, "*", READ, ALLOW)
    wrong: list[Entry] = [
        (ANY, name, LITERAL, alice, "*", READ, ALLOW),
        (8, name, LITERAL, alice, "*", READ, ALLOW),
        (-1, name, LITERAL, alice, "*", READ, ALLOW),
        (TOPIC, "", LITERAL, alice, "*", READ, ALLOW),
        (CLUSTER, name, LITERAL, alice, "*", READ, ALLOW),
        (CLUSTER, "", LITERAL, alice, "*", READ, ALLOW),
        (TOPIC, name, ANY, alice, "*", READ, ALLOW),
        (TOPIC, name, MATCH, alice, "*", READ, ALLOW),
        (TOPIC, name, 5, alice, "*", READ, ALLOW),
        (TOPIC, name, LITERAL, "alice", "*", READ, ALLOW),
        (TOPIC, name, LITERAL, "", "*", READ, ALLOW),
        (TOPIC, name, LITERAL, alice, "*", ANY, ALLOW),
        (TOPIC, name, LITERAL, alice, "*", 16, ALLOW),
        (TOPIC, name, LITERAL, alice, "*", READ, ANY),
        (TOPIC, name, LITERAL, alice, "*", READ, 4),
    ]
    for entry in wrong:
        client.request(create(entry))
    request_settled(client, create(wrong[0], right, wrong[3]))
    client.request(describe(ANY, None, ANY, alice, None, ANY, ANY), noting=described)


@dialogue(ApiKey.CREATE_ACLS, FIRST, LAST, brokers=SECURED)
def unusual_valid_entries(client: DialogueClient) -> None:
    principal = f"User:{client.topic('alice')}"
    for entry in (
        (TOPIC, "a b/ü", LITERAL, principal, "*", READ, ALLOW),
        (TOPIC, client.topic("t"), LITERAL, principal, "", READ, ALLOW),
        (TOPIC, client.topic("t"), LITERAL, principal, "no host at all", READ, ALLOW),
        (TOPIC, "*", PREFIXED, principal, "*", READ, ALLOW),
        (USER, "User:bob", LITERAL, principal, "*", 13, ALLOW),
        (TOPIC, client.topic("t"), LITERAL, f"{client.topic('')}:", "*", READ, ALLOW),
        (TOPIC, client.topic("t"), LITERAL, f"Group:{client.topic('a:b')}", "*", READ, ALLOW),
    ):
        request_settled(client, create(entry))
        client.request(describe(ANY, entry[1], entry[2], entry[3], None, ANY, ANY), noting=described)


@dialogue(ApiKey.CREATE_ACLS, FIRST, LAST, brokers=SECURED)
def entries_with_unknown_codes(client: DialogueClient) -> None:
    right = (TOPIC, "t", LITERAL, "User:alice", "*", READ, ALLOW)
    for at in (0, 2, 5, 6):
        wrong: Any = (*right[:at], UNKNOWN, *right[at + 1 :])
        client.request(create(wrong))


@dialogue(ApiKey.DESCRIBE_ACLS, FIRST, LAST, brokers=SECURED)
def filters(client: DialogueClient) -> None:
    alice, bob = f"User:{client.topic('alice')}", f"User:{client.topic('bob')}"
    name, prefix = client.topic("topic"), client.topic("top")
    request_settled(
        client,
        create(
            (TOPIC, name, LITERAL, alice, "*", READ, ALLOW),
            (TOPIC, name, LITERAL, alice, "10.0.0.1", WRITE, DENY),
            (TOPIC, prefix, LITERAL, alice, "*", READ, ALLOW),
            (TOPIC, prefix, PREFIXED, alice, "*", READ, ALLOW),
            (TOPIC, "*", LITERAL, alice, "*", DESCRIBE, ALLOW),
            (GROUP, name, LITERAL, alice, "*", READ, ALLOW),
            (GROUP, name, PREFIXED, bob, "*", READ, ALLOW),
        ),
    )
    for kind, wanted, pattern in product(
        (ANY, TOPIC, GROUP, CLUSTER),
        (None, name, prefix, client.topic("topical"), "*", ""),
        (ANY, MATCH, LITERAL, PREFIXED),
    ):
        client.request(describe(kind, wanted, pattern, alice, None, ANY, ANY), noting=described)
    for principal, host, operation, permission in product(
        (bob, alice), (None, "*", "10.0.0.1"), (ANY, READ, WRITE, ALL), (ANY, DENY, ALLOW)
    ):
        client.request(describe(ANY, None, ANY, principal, host, operation, permission), noting=described)


@dialogue(ApiKey.DESCRIBE_ACLS, FIRST, LAST, brokers=SECURED)
def filters_with_undefined_codes(client: DialogueClient) -> None:
    everything = (ANY, None, ANY, f"User:{client.topic('alice')}", None, ANY, ANY)
    request_settled(client, create((TOPIC, "t", LITERAL, f"User:{client.topic('alice')}", "*", READ, ALLOW)))
    for at, number in product((0, 2, 5, 6), (UNKNOWN, 99, -1)):
        client.request(describe(*everything[:at], number, *everything[at + 1 :]), noting=described)


@dialogue(ApiKey.DELETE_ACLS, FIRST, LAST, brokers=SECURED)
def deleted_by_filters(client: DialogueClient) -> None:
    alice = f"User:{client.topic('alice')}"
    mine = (ANY, None, ANY, alice, None, ANY, ANY)
    first, second = client.topic("first"), client.topic("second")
    entries: list[Entry] = [
        (TOPIC, first, LITERAL, alice, "*", READ, ALLOW),
        (TOPIC, first, LITERAL, alice, "*", WRITE, ALLOW),
        (TOPIC, second, LITERAL, alice, "*", READ, ALLOW),
        (TOPIC, second, PREFIXED, alice, "*", READ, ALLOW),
    ]
    request_settled(client, create(*entries))
    for request in (
        delete((TOPIC, first, LITERAL, alice, "*", READ, ALLOW)),
        delete((TOPIC, first, LITERAL, alice, "*", READ, ALLOW)),
        delete((TOPIC, first, ANY, alice, None, ANY, ANY), (TOPIC, None, LITERAL, alice, None, ANY, ANY)),
        delete((99, None, ANY, alice, None, ANY, ANY), (TOPIC, second, MATCH, alice, None, ANY, 99)),
        delete(),
        delete(mine, mine),
    ):
        request_settled(client, request)
        client.request(describe(*mine), noting=described)


@dialogue(ApiKey.DELETE_ACLS, FIRST, LAST, brokers=SECURED)
def filters_with_unknown_codes(client: DialogueClient) -> None:
    everything = (ANY, None, ANY, f"User:{client.topic('alice')}", None, ANY, ANY)
    for at in (0, 2, 5, 6):
        wrong: Any = (*everything[:at], UNKNOWN, *everything[at + 1 :])
        client.request(delete(wrong))
