"""AuthHelper: asks the authorizer for handlers, and keeps its decisions (broker.security.decisions).

A decision is kept until the authorizer's generation or the connection's principal changes. One that has to be logged
is asked for again each time: a refusal (but for those that only filter), and a grant while DEBUG lines are on.
Source: kafka.server.AuthHelper.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Container, Iterable, Mapping
from typing import Final

from barnabas.broker.request import ConnectionInfo, RequestContext
from barnabas.broker.security.authorizer import (
    TRACE,
    Action,
    AuthorizableRequestContext,
    Authorizer,
    MetadataAuthorizer,
    audit,
)
from barnabas.broker.security.decisions import Check, DecisionCache, Decisions
from barnabas.protocol.messages.acls import CLUSTER_NAME, AclOperation, AclResourceType

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


class AuthHelper:
    """What handlers ask. `allowed` and `denied` count decisions, kept ones too."""

    def __init__(self, authorizer: Authorizer) -> None:
        self.authorizer = authorizer
        self._cache = DecisionCache()
        self.allowed = 0
        self.denied = 0

    @property
    def acls(self) -> MetadataAuthorizer | None:
        """The authorizer, where it follows the ACLs in the metadata."""
        return self.authorizer if isinstance(self.authorizer, MetadataAuthorizer) else None

    def scope(self, connection: ConnectionInfo) -> object:
        """Identifies what decisions about a connection depend on: while it is the same object, they are the same."""
        return self._decisions(connection)

    def authorize(
        self, context: RequestContext, check: Check, name: str = CLUSTER_NAME, references: int = 1
    ) -> bool:
        """Whether a client may do something with one resource, which its request names so many times."""
        decisions = self._decisions(context.connection)
        known = decisions.of(check).get(name)
        if known is None or _is_logged(known, check):
            known = self._ask(decisions, context, check, {name: references})[name]
        self._count(known)
        return known

    def filter(self, context: RequestContext, check: Check, names: Iterable[str]) -> Container[str]:
        """Those of the names (of any number of references each) that the client may do something with."""
        references = Counter(names)
        decisions = self._decisions(context.connection)
        known = decisions.of(check)
        is_logged = _is_logged(False, check), _is_logged(True, check)
        if not is_logged[True] and all(map(known.get, references)):
            self.allowed += len(references)
            return references
        answers = {name: known.get(name) for name in references}
        asked = [name for name, answer in answers.items() if answer is None or is_logged[answer]]
        if asked:
            answers.update(self._ask(decisions, context, check, {name: references[name] for name in asked}))
        allowed = {name for name, answer in answers.items() if answer}
        self.allowed += len(allowed)
        self.denied += len(answers) - len(allowed)
        return allowed

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
        bits = decisions.operations(resource_type, name)
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
            decisions.keep_operations(resource_type, name, bits)
        return bits

    def _ask(
        self, decisions: Decisions, context: RequestContext, check: Check, references: Mapping[str, int]
    ) -> dict[str, bool]:
        """The authorizer's answers about names, which are kept; with how often the request has each name."""
        operation, resource_type, is_logged = check.operation, check.resource_type, not check.quiet
        actions = [
            Action(operation, resource_type, name, count, log_if_denied=is_logged)
            for name, count in references.items()
        ]
        results = self.authorizer.authorize(_context_of(decisions, context), actions)
        answers = dict(zip(references, results, strict=True))
        for name, allowed in answers.items():
            decisions.keep(check, name, allowed=allowed)
        return answers

    def _decisions(self, connection: ConnectionInfo) -> Decisions:
        """What is known about a connection's client. Raises AssertionError for one that has not logged in."""
        return self._cache.of(connection, self.authorizer.generation)

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


def _context_of(decisions: Decisions, context: RequestContext) -> AuthorizableRequestContext:
    return decisions.context._replace(request=context.api_key.title, client_id=context.client_id)


class _Everything:
    """All names there are."""

    def __contains__(self, name: object) -> bool:
        return True


EVERYTHING: Final[Container[str]] = _Everything()
"""What a broker without an authorizer allows."""
