"""DecisionCache: what the authorizer has decided, kept for each client until the rules change.

A client is what decisions depend on: a principal at an address, on a listener. Its connections share what is kept, so
that the next one begins with it. All clients together have MAX_KEPT units and one of them has
MAX_KEPT_OF_A_CLIENT; a decision is one unit, and one more for each 64 characters of the name. Where a client has
more, its decisions are forgotten; where all have, those of the clients that have asked nothing for the longest time.
"""

from __future__ import annotations

import sys
from collections import OrderedDict
from typing import Final

from barnabas.broker.request import ConnectionInfo, KafkaPrincipal
from barnabas.broker.security.addresses import java_host_address
from barnabas.broker.security.authorizer import AuthorizableRequestContext
from barnabas.protocol.messages.acls import AclOperation, AclResourceType

MAX_KEPT: Final = 1 << 20
"""Units of all clients, of which one is 50 to 200 bytes."""

MAX_KEPT_OF_A_CLIENT: Final = 1 << 17

MAX_KEPT_CHARACTERS: Final = 256
"""Decisions about longer names, which no topic has, are not kept: names are the client's choice."""

_CHARACTERS_A_UNIT: Final = 64
_UNITS_OF_A_CLIENT: Final = 8
"""What a client costs of which nothing is kept."""


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


class Decisions:
    """The decisions about one client that hold in one generation. `units` is what they cost.

    `is_kept` is False once the cache has dropped them, and for those of an authorizer that allows nothing to be kept.
    `is_used` is set with each question. `context` is the client's, without a request.
    """

    __slots__ = ("_cache", "_operations", "by_check", "context", "generation", "is_kept", "is_used", "units")

    def __init__(
        self,
        cache: DecisionCache,
        generation: int | None,
        principal: KafkaPrincipal,
        connection: ConnectionInfo,
    ) -> None:
        self._cache = cache
        self.generation = generation
        self.context = AuthorizableRequestContext(
            principal,
            java_host_address(connection.client_host),
            "",
            connection.listener_name,
            connection.security_protocol,
        )
        self.is_kept = False
        self.is_used = True
        self.units = 0
        self.by_check: dict[Check, dict[str, bool]] = {}
        self._operations: dict[tuple[int, str], int] = {}

    def of(self, check: Check) -> dict[str, bool]:
        """The answers to a question that are known, by the names of resources."""
        known = self.by_check.get(check)
        if known is None:
            known = self.by_check[check] = {}
        return known

    def keep(self, check: Check, name: str, *, allowed: bool) -> None:
        if self._has_room_for(name):
            self.of(check)[sys.intern(name)] = allowed

    def operations(self, resource_type: AclResourceType, name: str) -> int | None:
        """The bits of what the client may do with a resource; None where they are not known."""
        return self._operations.get((resource_type, name))

    def keep_operations(self, resource_type: AclResourceType, name: str, bits: int) -> None:
        if self._has_room_for(name):
            self._operations[resource_type, sys.intern(name)] = bits

    def forget(self) -> None:
        """Everything is asked for again."""
        self.by_check = {}
        self._operations = {}
        self.units = 0

    def _has_room_for(self, name: str) -> bool:
        """Charges for a decision about the name, unless it is not to be kept."""
        if not self.is_kept or len(name) > MAX_KEPT_CHARACTERS:
            return False
        self._cache.charge(self, 1 + len(name) // _CHARACTERS_A_UNIT)
        return True


class DecisionCache:
    """The decisions of all clients. `units` is what they cost together."""

    def __init__(self) -> None:
        self.units = 0
        self._generation: int | None = None
        self._clients: OrderedDict[tuple[object, ...], Decisions] = OrderedDict()

    def __len__(self) -> int:
        return len(self._clients)

    def of(self, connection: ConnectionInfo, generation: int | None) -> Decisions:
        """What is known about the client of a connection; `generation` is the authorizer's.

        Raises AssertionError for a client that has not logged in.
        """
        principal = connection.principal
        last: tuple[KafkaPrincipal, Decisions] | None = connection.decisions
        if last is not None and last[0] is principal:
            decisions = last[1]
            if decisions.is_kept and decisions.generation == generation:
                decisions.is_used = True
                return decisions
        assert principal is not None, "a request before its client has logged in"
        decisions = self._of_client(connection, principal, generation)
        connection.decisions = principal, decisions
        return decisions

    def charge(self, decisions: Decisions, units: int) -> None:
        """A client has another decision; may forget its others, and those of other clients."""
        if decisions.units + units > MAX_KEPT_OF_A_CLIENT:
            self.units -= decisions.units
            decisions.forget()
        decisions.units += units
        self.units += units
        while self.units > MAX_KEPT and len(self._clients) > 1:
            self._drop_one(decisions)

    def _of_client(
        self, connection: ConnectionInfo, principal: KafkaPrincipal, generation: int | None
    ) -> Decisions:
        if generation is None:
            return Decisions(self, generation, principal, connection)
        if generation != self._generation:
            self._clear()
            self._generation = generation
        key = (
            principal,
            principal.token_authenticated,
            connection.client_host,
            connection.listener_name,
            connection.security_protocol,
        )
        known = self._clients.get(key)
        if known is None:
            known = self._clients[key] = Decisions(self, generation, principal, connection)
            known.is_kept = True
            self.charge(known, _UNITS_OF_A_CLIENT)
        known.is_used = True
        return known

    def _drop_one(self, but: Decisions) -> None:
        """Drops a client that has asked nothing since it was looked at last, in turn; not the one that asks."""
        key, oldest = next(iter(self._clients.items()))
        if oldest.is_used or oldest is but:
            oldest.is_used = False
            self._clients.move_to_end(key)
            return
        del self._clients[key]
        self._end(oldest)

    def _clear(self) -> None:
        for decisions in self._clients.values():
            self._end(decisions)
        self._clients.clear()

    def _end(self, decisions: Decisions) -> None:
        """Connections and fetch sessions may still refer to it."""
        self.units -= decisions.units
        decisions.forget()
        decisions.is_kept = False
