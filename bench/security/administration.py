"""Users, ACLs and quotas of a measured broker, set over its PLAINTEXT listener, whose clients are super users."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Final

from barnabas.protocol.messages.acls import (
    AclOperation,
    AclResourceType,
    CreateAclsRequest,
    CreateAclsResponse,
    PatternType,
    PermissionType,
)
from barnabas.protocol.messages.quotas import AlterClientQuotasRequest, AlterClientQuotasResponse
from barnabas.protocol.messages.security import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
)
from tests.conformance.broker_connection import BrokerConnection

_SHA_512: Final = 2
_ITERATIONS: Final = 4096
_SALT: Final = bytes(range(20))
_ACLS_AT_ONCE: Final = 1_000


def connection(bootstrap: str) -> BrokerConnection:
    """A connection to host:port."""
    host, _, port = bootstrap.rpartition(":")
    return BrokerConnection(host, int(port))


def add_users(broker: BrokerConnection, names: Sequence[str], password: str) -> None:
    """Users who log in by SCRAM-SHA-512."""
    salted = hashlib.pbkdf2_hmac("sha512", password.encode(), _SALT, _ITERATIONS)
    request = AlterUserScramCredentialsRequest(
        upsertions=[
            AlterUserScramCredentialsRequest.ScramCredentialUpsertion(
                name=name, mechanism=_SHA_512, iterations=_ITERATIONS, salt=_SALT, salted_password=salted
            )
            for name in names
        ]
    )
    answer = broker.request(request, 0)
    assert isinstance(answer, AlterUserScramCredentialsResponse)
    assert not any(result.error_code for result in answer.results), answer


def add_acls(broker: BrokerConnection, user: str, others: int) -> None:
    """`user` may read, write and describe all topics that begin with a letter; beside that there are ACLs of others."""
    own = [
        _acl(chr(letter), user, operation)
        for letter in range(ord("a"), ord("z") + 1)
        for operation in (AclOperation.READ, AclOperation.WRITE)
    ]
    rest = [_acl(f"topic-of-{number}", f"user-{number % 100}", AclOperation.READ) for number in range(others)]
    acls = own + rest
    for start in range(0, len(acls), _ACLS_AT_ONCE):
        answer = broker.request(CreateAclsRequest(creations=acls[start : start + _ACLS_AT_ONCE]), 3)
        assert isinstance(answer, CreateAclsResponse)
        assert not any(result.error_code for result in answer.results), answer


def _acl(prefix: str, user: str, operation: AclOperation) -> CreateAclsRequest.AclCreation:
    return CreateAclsRequest.AclCreation(
        resource_type=AclResourceType.TOPIC,
        resource_name=prefix,
        resource_pattern_type=PatternType.PREFIXED,
        principal=f"User:{user}",
        host="*",
        operation=operation,
        permission_type=PermissionType.ALLOW,
    )


def set_quota(broker: BrokerConnection, user: str, bytes_per_s: float | None) -> None:
    """Limits what a user produces; None ends that."""
    value = 0.0 if bytes_per_s is None else bytes_per_s
    operation = AlterClientQuotasRequest.OpData(
        key="producer_byte_rate", value=value, remove=bytes_per_s is None
    )
    entity = AlterClientQuotasRequest.EntityData(entity_type="user", entity_name=user)
    entry = AlterClientQuotasRequest.EntryData(entity=[entity], ops=[operation])
    answer = broker.request(AlterClientQuotasRequest(entries=[entry]), 1)
    assert isinstance(answer, AlterClientQuotasResponse)
    assert not answer.entries[0].error_code, answer
