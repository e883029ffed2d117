"""FetchSessionCache: the fetch sessions that have an id, bounded in their number and in that of their partitions.

The number is max.incremental.fetch.session.cache.slots. When the cache is full a new session takes the place of one
that was not used for two minutes, or of a smaller one that has existed for as long; else the client goes on
with full fetches. Kafka does not bound the partitions; here they are: a client may name ones that do not exist.
Source: kafka.server.FetchSessionCache.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from barnabas.broker.fetch.partition import FetchPartition, PartitionKey
from barnabas.broker.fetch.session import NO_SESSION, FetchSession

EVICTION_MS: Final = 120_000

MAX_NAMED_PARTITIONS: Final = 1_000_000
"""Of all sessions; beyond that no session is created."""


class FetchSessionCache:
    """Sessions by id, bounded in their number and in that of their partitions; `new_id` draws the random 31-bit ids."""

    def __init__(
        self, slots: int, new_id: Callable[[], int], max_partitions: int = MAX_NAMED_PARTITIONS
    ) -> None:
        self._slots = slots
        self._new_id = new_id
        self._max_partitions = max_partitions
        self._sessions: OrderedDict[int, FetchSession] = OrderedDict()
        self.eviction_count = 0

    def __len__(self) -> int:
        return len(self._sessions)

    def partition_count(self) -> int:
        return sum(len(session.partitions) for session in self._sessions.values())

    def has_room_for(self, count: int) -> bool:
        """Whether `count` partitions more are allowed."""
        return self.partition_count() + count <= self._max_partitions

    def get(self, session_id: int) -> FetchSession | None:
        return self._sessions.get(session_id)

    def touch(self, session: FetchSession, now_ms: int) -> None:
        session.last_used_ms = now_ms
        self._sessions.move_to_end(session.session_id)

    def remove(self, session_id: int) -> None:
        session = self._sessions.pop(session_id, None)
        if session is not None:
            session.close()

    def maybe_create(
        self,
        partitions: dict[PartitionKey, FetchPartition],
        *,
        privileged: bool,
        uses_topic_ids: bool,
        now_ms: int,
    ) -> FetchSession | None:
        """A new session over `partitions`, or None when no slot, or no room, can be freed."""
        size = len(partitions)
        while len(self._sessions) >= self._slots or not self.has_room_for(size):
            if size > self._max_partitions or not self._evict(privileged, size, now_ms):
                return None
        session_id = self._new_id()
        while session_id == NO_SESSION or session_id in self._sessions:
            session_id = self._new_id()
        session = FetchSession(
            session_id, partitions, privileged=privileged, uses_topic_ids=uses_topic_ids, now_ms=now_ms
        )
        self._sessions[session_id] = session
        return session

    def _evict(self, privileged: bool, size: int, now_ms: int) -> bool:
        """Frees one slot: of the longest unused session if it is stale, else of the lowest ranking established
        one, provided that the newcomer ranks above it (followers above consumers, more above fewer)."""
        if not self._sessions:
            return False
        oldest = next(iter(self._sessions.values()))
        if now_ms - oldest.last_used_ms > EVICTION_MS:
            victim = oldest
        else:
            candidates = [
                session
                for session in self._sessions.values()
                if _is_established(session) or (privileged and not session.privileged)
            ]
            if not candidates:
                return False
            victim = min(candidates, key=lambda s: (s.privileged, len(s.partitions), s.session_id))
            if (victim.privileged, len(victim.partitions)) >= (privileged, size):
                return False
        self.remove(victim.session_id)
        self.eviction_count += 1
        return True


def _is_established(session: FetchSession) -> bool:
    """Whether it was still in use long after it began, so that a session that ranks above may replace it."""
    return session.last_used_ms - session.created_ms > EVICTION_MS
