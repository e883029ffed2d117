"""QuotaLimits: which quota of one type is in force for a user and a client id, and with whom it is shared.

A quota belongs to an entity: a user, a client id, or both, each by name or as the default of those without a quota of
their own. The levels in use decide the key under which is counted, its parts being empty where they do not matter:

    levels in use  | key
    ---------------+---------------------------------------------------------------------------------------------
    none, client   | ("", client id)
    user           | (user, "")
    pair           | (user, client id)
    several        | that of the first of these that exists, else that of the last:
                   |   1 user and client id         (user, client id)    2 user and default client    (user, client id)
                   |   3 user                       (user, "")           4 default user and client id (user, client id)
                   |   5 default user and client    (user, client id)    6 default user               (user, "")
                   |   7, 8 client id, default      ("", client id)

The limit is then sought for the key, in this order. So the connections of one user share what they may, a default is
an allowance for each and not for all together, and an empty client id is reached by no quota of pairs or client ids.
Source: ClientQuotaManager.DefaultQuotaCallback.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from barnabas.broker.quotas.sanitizer import sanitize
from barnabas.broker.request import KafkaPrincipal

DEFAULT: Final = None
"""The name of a default."""

Part: TypeAlias = tuple[str | None] | None
"""A part of an entity: a name or DEFAULT in a tuple, or None where the entity has no such part."""

Entity: TypeAlias = tuple[Part, Part]
"""The user and the client id of an entity."""

Key: TypeAlias = tuple[str, ...]
"""Under which is counted: user and client id, each maybe empty; or the tags of a ClientQuotaCallback."""

ANY: Final[Part] = (DEFAULT,)


class QuotaLimits:
    """The limits of one type of quota by entity."""

    def __init__(self) -> None:
        self._limits: dict[Entity, float] = {}
        self._users = self._clients = self._pairs = 0

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self._limits)

    def update(self, entity: Entity, limit: float | None) -> None:
        """Sets a limit, or removes it with None."""
        change = (limit is not None) - (entity in self._limits)
        if limit is not None:
            self._limits[entity] = limit
        else:
            self._limits.pop(entity, None)
        user, client = entity
        if user is None:
            self._clients += change
        elif client is None:
            self._users += change
        else:
            self._pairs += change

    def key(self, principal: KafkaPrincipal, client_id: str) -> Key:
        """Under which the requests of a principal with this client id are counted."""
        user = principal.name
        if not self._users:
            return ("", client_id) if not self._pairs else self._pair_key(user, client_id)
        if not (self._clients or self._pairs):
            return user, ""
        return self._first_key(user, client_id)

    def _pair_key(self, user: str, client_id: str) -> Key:
        """The key without quotas of users."""
        return self._first_key(user, client_id) if self._clients else (user, client_id)

    def _first_key(self, user: str, client_id: str) -> Key:
        limits, both = self._limits, (user, client_id)
        if ((user,), (client_id,)) in limits or ((user,), ANY) in limits:
            return both
        if ((user,), None) in limits:
            return user, ""
        if (ANY, (client_id,)) in limits or (ANY, ANY) in limits:
            return both
        return (user, "") if (ANY, None) in limits else ("", client_id)

    def limit(self, key: Key) -> float | None:
        """The limit for a key; None without one."""
        user, client_id = key
        if user and client_id:
            return self._first(((user,), (client_id,)), ((user,), ANY), (ANY, (client_id,)), (ANY, ANY))
        if user:
            return self._first(((user,), None), (ANY, None))
        return self._first((None, (client_id,)), (None, ANY)) if client_id else None

    def _first(self, *entities: Entity) -> float | None:
        for entity in entities:
            limit = self._limits.get(entity)
            if limit is not None:
                return limit
        return None

    def have_changed(self) -> bool:
        """Never, but by `update`."""
        return False

    def labels(self, key: Key) -> tuple[str, str]:
        """The user and the client id of a counter, for metrics."""
        user, client_id = key
        return sanitize(user), client_id
