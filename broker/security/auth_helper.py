"""AuthHelper: asks the authorizer for handlers, and keeps its decisions with the connection that they are about.

A decision is kept until the authorizer's generation or the connection's principal changes. One that has to be logged
is asked for again each time: a refusal (but for those that only filter), and a grant while DEBUG lines are on.
Source: kafka.server.AuthHelper.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Container, Iterable
from typing import Final

from barnabas.broker.request import ConnectionInfo, KafkaPrincipal, RequestContext
from barnabas.broker.security.addresses import java_host_address
from barnabas.broker.security.authorizer import (
    TRACE,
    Action,
    AuthorizableRequestContext,
    Authorizer,
    MetadataAuthorizer,
    audit,
)
from barnabas.protocol.messages.acls import CLUSTER_NAME, AclOperation, AclResourceType

MAX_KEPT: Final = 4096
"""Decisions that are kept for a connection."""

MAX_KEPT_CHARACTERS: Final = 256
"""Decisions about longer names, which no topic has, are not kept: names are the client's choice."""

_BY_TYPE: Final = "\0any"
"""Stands in the place of a name for the question whether any resource of a type may be used."""

SUPPORTED_OPERATIONS: Final = {
    AclResourceType.TOPIC: (
        AclOperation.READ,
        AclOperation.WRITE,
        AclOperation.CREATE,
        AclOperation.DESCRIBE,
        AclOperation.DELETE,
        AclOperation.ALTER,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
    ),
    AclResourceType.GROUP: (
        AclOperation.READ,
        AclOperation.DESCRIBE,
        AclOperation.DELETE,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
    ),
    AclResourceType.CLUSTER: (
        AclOperation.CREATE,
        AclOperation.CLUSTER_ACTION,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
        AclOperation.IDEMPOTENT_WRITE,
        AclOperation.ALTER,
        AclOperation.DESCRIBE,
    ),
}
"""The operations of *_authorized_operations (AclEntry.supportedOperations)."""


class Check:
    """One question: an operation on resources of a type. A quiet one leaves no line in the audit log where denied.

    Compared by identity, so that it is a quick key.
    """

    __slots__ = ("operation", "quiet", "resource_type")

    def __init__(
        self, operation: AclOperation, resource_type: AclResourceType, *, quiet: bool = False
    ) -> None:
        self.operation = operation
        self.resource_type = resource_type
        self.quiet = quiet

    def __repr__(self) -> str:
        return f"<Check {self.operation.name} {self.resource_type.name}{' quiet' if self.quiet else ''}>"


class _Decisions:
    """The decisions about one connection that hold in one generation."""

    __slots__ = ("by_check", "context", "generation", "kept", "operations", "principal")

    def __init__(
        self, generation: int | None, principal: KafkaPrincipal, context: AuthorizableRequestContext
    ) -> None:
        self.generation = generation
        self.principal = principal
        self.context = context
        self.forget()

    def forget(self) -> None:
        self.by_check: dict[Check, dict[str, bool]] = {}
        self.operations: dict[tuple[int, str], int] = {}
        self.kept = 0

    def of(self, check: Check) -> dict[str, bool]:
        """The answers to a question that are known, by the names of resources."""
        known = self.by_check.get(check)
        if known is None:
            known = self.by_check[check] = {}
        return known

    def keep(self, check: Check, name: str, *, allowed: bool) -> None:
        if len(name) <= MAX_KEPT_CHARACTERS:
            self.make_room()
            self.of(check)[name] = allowed

    def make_room(self) -> None:
        """Forgets everything once there is much of it, so that a client cannot make the broker keep more."""
        if self.kept >= MAX_KEPT:
            self.forget()
        self.kept += 1


class AuthHelper:
    """What handlers ask. `allowed` and `denied` count decisions, kept ones too."""

    def __init__(self, authorizer: Authorizer) -> None:
        self.authorizer = authorizer
        self.allowed = 0
        self.denied = 0

    @property
    def acls(self) -> MetadataAuthorizer | None:
        """The authorizer, where it follows the ACLs in the metadata."""
        return self.authorizer if isinstance(self.authorizer, MetadataAuthorizer) else None

    def scope(self, connection: ConnectionInfo) -> object:
        """Identifies what decisions about a connection depend on: while it is the same object, they are the same.

        Decisions about other connections, of the same principal too, have another one.
        """
        return self._decisions(connection)

    def authorize(
        self, context: RequestContext, check: Check, name: str = CLUSTER_NAME, references: int = 1
    ) -> bool:
        """Whether a client may do something with one resource, which its request names so many times."""
        decisions = self._decisions(context.connection)
        known = decisions.of(check).get(name)
        if known is None or _is_logged(known, check):
            action = Action(
                check.operation, check.resource_type, name, references, log_if_denied=not check.quiet
            )
            known = self.authorizer.authorize(_context_of(decisions, context), [action])[0]
            decisions.keep(check, name, allowed=known)
        self._count(known)
        return known

    def filter(self, context: RequestContext, check: Check, names: Iterable[str]) -> Container[str]:
        """Those of the names (of any number of references each) that the client may do something with."""
        references = Counter(names)
        decisions = self._decisions(context.connection)
        known = decisions.of(check)
        if all(map(known.get, references)) and not audit.isEnabledFor(logging.DEBUG):
            self.allowed += len(references)
            return references
        return {name for name, count in references.items() if self.authorize(context, check, name, count)}

    def authorize_by_resource_type(self, context: RequestContext, check: Check) -> bool:
        """Whether a client may do something with any resource of the type."""
        decisions = self._decisions(context.connection)
        known = decisions.of(check).get(_BY_TYPE)
        if known is None or _is_logged(known, check):
            known = self.authorizer.authorize_by_resource_type(
                _context_of(decisions, context), check.operation, check.resource_type
            )
            decisions.keep(check, _BY_TYPE, allowed=known)
        self._count(known)
        return known

    def authorized_operations(
        self, context: RequestContext, resource_type: AclResourceType, name: str
    ) -> int:
        """The bits (1 << operation) of what the client may do with a resource, asked for without an audit line."""
        decisions = self._decisions(context.connection)
        bits = decisions.operations.get((resource_type, name))
        if bits is None or audit.isEnabledFor(TRACE):
            operations = SUPPORTED_OPERATIONS[resource_type]
            actions = [
                Action(operation, resource_type, name, log_if_allowed=False, log_if_denied=False)
                for operation in operations
            ]
            results = self.authorizer.authorize(_context_of(decisions, context), actions)
            bits = sum(
                1 << operation for operation, allowed in zip(operations, results, strict=True) if allowed
            )
            if len(name) <= MAX_KEPT_CHARACTERS:
                decisions.make_room()
                decisions.operations[resource_type, name] = bits
        return bits

    def _decisions(self, connection: ConnectionInfo) -> _Decisions:
        """What is known about a connection. Raises AssertionError for a client that has not logged in."""
        known: _Decisions | None = connection.decisions
        generation, principal = self.authorizer.generation, connection.principal
        if (
            known is not None
            and known.principal is principal
            and known.generation == generation
            and generation is not None
        ):
            return known
        assert principal is not None, "a request before its client has logged in"
        context = AuthorizableRequestContext(
            principal,
            java_host_address(connection.client_host),
            "",
            connection.listener_name,
            connection.security_protocol,
        )
        known = connection.decisions = _Decisions(generation, principal, context)
        return known

    def _count(self, allowed: bool) -> None:
        if allowed:
            self.allowed += 1
        else:
            self.denied += 1


def _is_logged(allowed: bool, check: Check) -> bool:
    """Whether a decision leaves a line each time, so that it has to be made by the authorizer."""
    if allowed:
        return audit.isEnabledFor(logging.DEBUG)
    return audit.isEnabledFor(TRACE if check.quiet else logging.INFO)


def _context_of(decisions: _Decisions, context: RequestContext) -> AuthorizableRequestContext:
    return decisions.context._replace(request=context.api_key.title, client_id=context.client_id)


class _Everything:
    """All names there are."""

    def __contains__(self, name: object) -> bool:
        return True


EVERYTHING: Final[Container[str]] = _Everything()
"""What a broker without an authorizer allows."""
