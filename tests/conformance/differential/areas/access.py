"""ACLs, quotas and credentials of users that never connect."""

from __future__ import annotations

from typing import Final

from barnabas.protocol.messages.acls import CreateAclsRequest, DeleteAclsRequest, DescribeAclsRequest
from barnabas.protocol.messages.quotas import AlterClientQuotasRequest, DescribeClientQuotasRequest
from barnabas.protocol.messages.security import (
    AlterUserScramCredentialsRequest,
    DescribeUserScramCredentialsRequest,
)
from barnabas.protocol.schema import Message
from tests.conformance.differential.steps import PREFIX
from tests.conformance.differential.world import World

UNKNOWN, ANY, TOPIC, GROUP, CLUSTER, TRANSACTIONAL_ID, TOKEN, USER = range(8)
MATCH, LITERAL, PREFIXED = 2, 3, 4
DENY, ALLOW = 2, 3


# ---- quotas and credentials


def _user(world: World) -> str:
    return f"{PREFIX}-u{world.dice.randrange(3)}"


def alter_client_quotas(world: World) -> Message:
    """Quotas of users and clients that never connect."""
    entries = []
    for _ in range(world.mostly(1, [0, 2], 0.15)):
        entity = [_entity(world, "user", _user(world))]
        if world.chance(0.3):
            entity.append(
                _entity(world, world.mostly("client-id", ["user", "ip", "group"], 0.2), _user(world))
            )
        ops = [
            AlterClientQuotasRequest.OpData(
                key=world.mostly(
                    world.one(["producer_byte_rate", "consumer_byte_rate", "request_percentage"]),
                    ["nonsense", "", "controller_mutation_rate", "connection_creation_rate"],
                ),
                value=world.one([1.0, 1000.0, 0.0, -1.0, 1.5]),
                remove=world.chance(0.2),
            )
            for _ in range(world.mostly(1, [0, 2], 0.15))
        ]
        entries.append(AlterClientQuotasRequest.EntryData(entity=entity, ops=ops))
    return AlterClientQuotasRequest(entries=entries, validate_only=world.chance(0.15))


def _entity(world: World, kind: str, name: str) -> AlterClientQuotasRequest.EntityData:
    return AlterClientQuotasRequest.EntityData(
        entity_type=world.mostly(kind, ["nonsense", ""], 0.05), entity_name=name
    )


def describe_client_quotas(world: World) -> Message:
    """Descriptions of those quotas."""
    components = [
        DescribeClientQuotasRequest.ComponentData(
            entity_type=world.mostly(kind, ["nonsense", "user"], 0.08),
            match_type=world.mostly(0, [1, 2, 3, -1]),
            match=world.mostly(_user(world), [None], 0.1),
        )
        for kind in world.one([["user"], ["user", "client-id"], ["client-id"], []])
    ]
    return DescribeClientQuotasRequest(components=components, strict=world.chance(0.5))


def alter_scram(world: World) -> Message:
    """Sets and deletes credentials."""
    upsertions = [
        AlterUserScramCredentialsRequest.ScramCredentialUpsertion(
            name=world.mostly(_user(world), [""], 0.05),
            mechanism=world.mostly(world.one([1, 2]), [0, 3]),
            iterations=world.mostly(4096, [1, 4095, 16384, 16385], 0.2),
            salt=world.mostly(b"salt", [b""], 0.05),
            salted_password=b"password",
        )
        for _ in range(world.one([0, 1, 1, 2]))
    ]
    deletions = [
        AlterUserScramCredentialsRequest.ScramCredentialDeletion(
            name=world.mostly(_user(world), [""], 0.05), mechanism=world.mostly(world.one([1, 2]), [0, 3])
        )
        for _ in range(world.one([0, 0, 1]))
    ]
    return AlterUserScramCredentialsRequest(deletions=deletions, upsertions=upsertions)


def describe_scram(world: World) -> Message:
    """Descriptions of credentials."""
    names = None if world.chance(0.1) else [_user(world) for _ in range(world.mostly(1, [2, 0]))]
    users = None
    if names is not None:
        users = [DescribeUserScramCredentialsRequest.UserName(name=name) for name in names]
    return DescribeUserScramCredentialsRequest(users=users)


# ---- ACLs


def create_acls(world: World) -> Message:
    """Bindings of this sequence's names; some of them are invalid."""
    return CreateAclsRequest(
        creations=[
            CreateAclsRequest.AclCreation(
                resource_type=world.mostly(
                    world.one([TOPIC, GROUP, TRANSACTIONAL_ID]), [UNKNOWN, ANY, USER, 99], 0.06
                ),
                resource_name=world.mostly(_resource(world), [""], 0.04),
                resource_pattern_type=world.mostly(world.one([LITERAL, PREFIXED]), [0, 1, MATCH, 9], 0.06),
                principal=_principal(world),
                host=world.mostly("*", ["127.0.0.1", "h", ""], 0.15),
                operation=world.mostly(world.one([2, 3, 4, 5, 6, 8]), [0, 1, 7, 12, 99], 0.1),
                permission_type=world.mostly(world.one([DENY, ALLOW]), [0, 1, 9], 0.05),
            )
            for _ in range(world.mostly(1, [0, 2], 0.2))
        ]
    )


def _resource(world: World) -> str:
    return f"{PREFIX}-t{world.dice.randrange(3)}"


def _principal(world: World) -> str:
    user = f"User:{_user(world)}"
    return world.mostly(user, [f"Group:{_user(world)}", f"{PREFIX}-nobody", ""], 0.06)


def describe_acls(world: World) -> Message:
    """Bindings by a filter, which may match all."""
    name, principal = world.mostly(_resource(world), [None]), world.mostly(_principal(world), [None], 0.5)
    return DescribeAclsRequest(
        resource_type_filter=world.mostly(world.one([ANY, TOPIC, GROUP]), [UNKNOWN, 99], 0.05),
        resource_name_filter=name,
        pattern_type_filter=world.mostly(world.one([1, MATCH, LITERAL, PREFIXED]), [0, 9], 0.05),
        principal_filter=principal,
        host_filter=world.mostly(None, ["*", "127.0.0.1"]),
        operation=world.mostly(1, [0, 3, 4, 99]),
        permission_type=world.mostly(1, [0, DENY, ALLOW, 9]),
    )


def delete_acls(world: World) -> Message:
    """Deletes by a filter that matches only bindings of this sequence."""
    return DeleteAclsRequest(
        filters=[
            DeleteAclsRequest.DeleteAclsFilter(
                resource_type_filter=world.mostly(world.one([ANY, TOPIC, GROUP]), [UNKNOWN, 99], 0.05),
                resource_name_filter=world.mostly(_resource(world), [None], 0.3),
                pattern_type_filter=world.mostly(world.one([1, MATCH, LITERAL, PREFIXED]), [0, 9], 0.05),
                principal_filter=f"User:{_user(world)}",
                host_filter=None,
                operation=world.mostly(1, [0, 3, 4]),
                permission_type=world.mostly(1, [DENY, ALLOW]),
            )
            for _ in range(world.mostly(1, [0, 2], 0.15))
        ]
    )


DRAWS: Final = (
    (3, alter_client_quotas),
    (3, describe_client_quotas),
    (2, alter_scram),
    (2, describe_scram),
    (3, create_acls),
    (3, describe_acls),
    (1, delete_acls),
)
