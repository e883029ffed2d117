"""The authorizer: who may do what. StandardAuthorizer follows the ACLs in the metadata, as Kafka's does.

The decision, by the first line that applies:

    condition                                                                  | result | rule in the audit line
    ---------------------------------------------------------------------------+--------+-----------------------
    the principal is one of super.users                                        | ALLOW  | SuperUser
    an entry that denies matches                                               | DENY   | MatchingAcl(acl=...)
    an entry that allows matches                                               | ALLOW  | MatchingAcl(acl=...)
    no entry of any principal has a pattern that matches the resource, and     |        |
      allow.everyone.if.no.acl.found                                           | ALLOW  | DefaultAllow
    otherwise                                                                  | DENY   | DefaultDeny

An entry matches where its pattern matches the resource's name (broker.security.acl_index), its principal is the
client's or `User:*`, its host is the client's address, as text, or `*`, and its operation is the one asked for or ALL.
An entry that allows also implies: READ, WRITE, DELETE and ALTER the operation DESCRIBE; ALTER_CONFIGS the operation
DESCRIBE_CONFIGS. One that denies implies nothing.
Source: org.apache.kafka.server.authorizer.Authorizer, org.apache.kafka.metadata.authorizer.StandardAuthorizerData.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, Protocol, runtime_checkable

from barnabas.broker.logging.setup import AUDIT_LOGGER, RateLimit, escaped
from barnabas.broker.metadata.image import MetadataDelta, MetadataImage
from barnabas.broker.request import KafkaPrincipal
from barnabas.broker.security.acl_index import WILDCARD, AclEntry, AclIndex
from barnabas.config.broker_config import BrokerConfig
from barnabas.config.catalogue.barnabas import BARNABAS_AUTHORIZER_AUDIT_INTERVAL_MS
from barnabas.config.catalogue.server import ALLOW_EVERYONE_IF_NO_ACL_FOUND, SUPER_USERS
from barnabas.protocol.messages.acls import AclOperation, AclResourceType, PermissionType
from barnabas.protocol.wire import Uuid

TRACE: Final = 5
"""The level of decisions that grant and refuse nothing, below DEBUG."""

_ALL: Final = int(AclOperation.ALL)
_ALLOW: Final = int(PermissionType.ALLOW)
_MAX_REMEMBERED_CHARACTERS: Final = 256
"""Of the names in lines that may repeat."""

_HARDCODE: Final = "hardcode"
"""The name by which Kafka asks whether a principal may use any resource of a type."""

_IMPLIED_BY: Final[Mapping[int, frozenset[int]]] = {
    AclOperation.DESCRIBE: frozenset(
        {AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE, AclOperation.ALTER}
    ),
    AclOperation.DESCRIBE_CONFIGS: frozenset({AclOperation.ALTER_CONFIGS}),
}

audit = logging.getLogger(AUDIT_LOGGER)


class AuthorizableRequestContext(NamedTuple):
    """Who asks, from where, and with which request (Kafka's name of the API).

    `host` is the client's address as Java writes it (broker.security.addresses).
    """

    principal: KafkaPrincipal
    host: str
    request: str
    listener_name: str = ""
    security_protocol: str = "PLAINTEXT"
    client_id: str | None = None


class Action(NamedTuple):
    """An operation on a resource, by the numbers of AclOperation and AclResourceType.

    `references` is how often the request names the resource. The last two say whether the answer grants or refuses
    something, rather than being shown or used to filter: only then it is logged at DEBUG and INFO.
    """

    operation: int
    resource_type: int
    name: str
    references: int = 1
    log_if_allowed: bool = True
    log_if_denied: bool = True


class Authorizer(Protocol):
    """What decides, in its own class or in one that authorizer.class.name=python:module:Class names.

    The broker calls it on its event loop, so it must not wait for anything.
    """

    @property
    def generation(self) -> int | None:
        """A number that changes when decisions may change: until then they are kept with each connection.

        None: they are not kept, and each request asks anew.
        """

    def configure(self, config: BrokerConfig) -> None:
        """Called once, before all else. Raises ConfigError where the broker must not start with this configuration."""

    def authorize(self, context: AuthorizableRequestContext, actions: Sequence[Action]) -> Sequence[bool]:
        """Whether each of the actions is allowed, in their order. Writes the audit log, where it has one."""

    def authorize_by_resource_type(
        self, context: AuthorizableRequestContext, operation: int, resource_type: int
    ) -> bool:
        """Whether the operation is allowed on at least one resource of the type, there or not."""


@runtime_checkable
class MetadataAuthorizer(Authorizer, Protocol):
    """An authorizer that follows the ACLs in the metadata. Only with such a one clients may list and alter them."""

    @property
    def acl_count(self) -> int: ...

    def apply(self, image: MetadataImage, delta: MetadataDelta) -> None:
        """Takes over new metadata; called before the response of the request that changed them."""


class Rule(NamedTuple):
    """A decision, and why."""

    allowed: bool
    why: AclEntry | str

    def __str__(self) -> str:
        """As Kafka's audit lines show it."""
        return self.why if isinstance(self.why, str) else f"MatchingAcl(acl={self.why})"


SUPER_USER: Final = Rule(True, "SuperUser")
DEFAULT_ALLOW: Final = Rule(True, "DefaultAllow")
DEFAULT_DENY: Final = Rule(False, "DefaultDeny")


class StandardAuthorizer:
    """The MetadataAuthorizer of the decision table above."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        """`now` is a clock in seconds."""
        self._now = now
        self.generation = 0
        self.super_users: frozenset[str] = frozenset()
        self.no_acl_rule = DEFAULT_DENY
        self._index = AclIndex()
        self._entries: dict[Uuid, AclEntry] = {}
        self._repeated: RateLimit | None = None

    def configure(self, config: BrokerConfig) -> None:
        """Raises ConfigError for a super user without a type."""
        self.super_users = frozenset(_super_users(config[SUPER_USERS]))
        if config[ALLOW_EVERYONE_IF_NO_ACL_FOUND]:
            self.no_acl_rule = DEFAULT_ALLOW
        interval_ms = config[BARNABAS_AUTHORIZER_AUDIT_INTERVAL_MS]
        self._repeated = RateLimit(interval_ms / 1000, self._now) if interval_ms else None
        self.generation += 1

    @property
    def acl_count(self) -> int:
        """How many entries there are."""
        return self._index.count

    # -- the metadata

    def apply(self, image: MetadataImage, delta: MetadataDelta) -> None:
        """Takes over the entries that have changed."""
        if not delta.acl_changes:
            return
        self.generation += 1
        for acl_id in delta.acl_changes:
            old = self._entries.pop(acl_id, None)
            if old is not None:
                self._index.remove(old)
            record = image.acls.get(acl_id)
            if record is not None:
                self._entries[acl_id] = new = AclEntry.of(record)
                self._index.add(new)

    # -- decisions

    def authorize(self, context: AuthorizableRequestContext, actions: Sequence[Action]) -> list[bool]:
        principal, host = str(context.principal), context.host
        results = []
        for action in actions:
            rule = self.rule(principal, host, action.operation, action.resource_type, action.name)
            self._log(context, action, rule)
            results.append(rule.allowed)
        return results

    def rule(self, principal: str, host: str, operation: int, resource_type: int, name: str) -> Rule:
        """The decision about an operation of a principal (User:alice) on a resource."""
        if principal in self.super_users:
            return SUPER_USER
        implied_by = _IMPLIED_BY.get(operation, ())
        allowing: AclEntry | None = None
        has_acls = False
        for pattern in self._index.matching(resource_type, name):
            has_acls = True
            for entry in pattern.of(principal, host):
                is_asked = entry.operation in (operation, _ALL)
                if entry.permission == _ALLOW:
                    if is_asked or entry.operation in implied_by:
                        allowing = entry  # Kafka names the last one
                elif is_asked:
                    return Rule(False, entry)
        if allowing is not None:
            return Rule(True, allowing)
        return DEFAULT_DENY if has_acls else self.no_acl_rule

    def authorize_by_resource_type(
        self, context: AuthorizableRequestContext, operation: int, resource_type: int
    ) -> bool:
        """True where any name is allowed, which only entries for names and prefixes can say.

        An entry for a name or prefix does not count where one for a prefix of it denies. Kafka first asks for one fixed
        name, so that super users are allowed whatever there is, and all are where that name is open to everyone.
        Source: Authorizer.authorizeByResourceType.
        """
        fixed = Action(operation, resource_type, _HARDCODE, 0, log_if_denied=False)
        if self.authorize(context, [fixed])[0]:
            return True
        allowed: set[tuple[str, bool]] = set()
        denied: set[tuple[str, bool]] = set()
        for pattern, entry in self._index.held(resource_type, str(context.principal), context.host):
            if entry.operation in (operation, _ALL):
                named = pattern.name, pattern.is_prefix
                (allowed if entry.permission == _ALLOW else denied).add(named)
        everything = WILDCARD, False
        if everything in denied or everything in allowed:
            return everything not in denied
        return any(
            not ((name, is_prefix) in denied or any((start, True) in denied for start in _starts(name)))
            for name, is_prefix in allowed
        )

    # -- the audit log

    def _log(self, context: AuthorizableRequestContext, action: Action, rule: Rule) -> None:
        """Writes what was granted at DEBUG, what was refused at INFO, and what only was asked at TRACE."""
        if rule.allowed:
            level = logging.DEBUG if action.log_if_allowed else TRACE
        else:
            level = logging.INFO if action.log_if_denied else TRACE
        if not audit.isEnabledFor(level):
            return
        left_out: int | None = 0
        if level == logging.INFO and self._repeated is not None:
            name = action.name[:_MAX_REMEMBERED_CHARACTERS]
            key = context.principal, context.host, action.operation, action.resource_type, name
            left_out = self._repeated.admit(key)
        if left_out is not None:
            more = f" (and {left_out} times more since the last such line)" if left_out else ""
            audit.log(level, "%s%s", audit_line(context, action, rule), more)


def _starts(name: str) -> Iterator[str]:
    """Every prefix of a name, itself included."""
    return (name[:length] for length in range(1, len(name) + 1))


def _super_users(text: str) -> Iterator[str]:
    """Raises ConfigError."""
    for part in text.split(";"):
        user = part.strip()
        if user and ":" not in user:
            raise SUPER_USERS.error(text, f"principals with their type, separated by semicolons: User:{user}")
        if user:
            yield user


def audit_line(context: AuthorizableRequestContext, action: Action, rule: Rule) -> str:
    """Kafka's line about a decision. Characters that could end the line or hide part of it are escaped."""
    resource = _TYPE_NAMES.get(action.resource_type, "Unknown")
    return escaped(
        f"Principal = {context.principal} is {'Allowed' if rule.allowed else 'Denied'} "
        f"operation = {AclOperation(action.operation).name} from host = {context.host} "
        f"on resource = {resource}:LITERAL:{action.name} for request = {context.request} "
        f"with resourceRefCount = {action.references} based on rule {rule}"
    )


_TYPE_NAMES: Final = {int(kind): kind.name.title().replace("_", "") for kind in AclResourceType}
"""TransactionalId and so on, as SecurityUtils.resourceTypeName has them."""
