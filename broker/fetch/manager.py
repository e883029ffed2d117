"""FetchManager: turns a fetch request into its FetchContext. Source: kafka.server.FetchManager."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Final

from barnabas.broker.fetch.cache import FetchSessionCache
from barnabas.broker.fetch.context import FetchContext
from barnabas.broker.fetch.partition import FetchPartition, PartitionKey
from barnabas.broker.fetch.session import FINAL_EPOCH, FOLLOWER, INITIAL_EPOCH, NO_SESSION, FetchSession
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.fetch import FetchRequest
from barnabas.protocol.wire import Uuid

MAX_UNNAMED_SESSIONS: Final = 1000
MAX_UNNAMED_PARTITIONS: Final = 100_000
"""Of readers that know no sessions, over all connections; some 300 bytes each."""


class FetchManager:
    """Turns a fetch request into its FetchContext."""

    def __init__(
        self,
        cache: FetchSessionCache,
        now_ms: Callable[[], int],
        *,
        max_unnamed_sessions: int = MAX_UNNAMED_SESSIONS,
        max_unnamed_partitions: int = MAX_UNNAMED_PARTITIONS,
    ) -> None:
        self.cache = cache
        self._now_ms = now_ms
        self._max_unnamed_sessions = max_unnamed_sessions
        self._max_unnamed_partitions = max_unnamed_partitions
        self._unnamed: OrderedDict[int, FetchSession] = (
            OrderedDict()
        )  # by connection, the longest unused first
        self._unnamed_partitions = 0

    def context(
        self,
        request: FetchRequest,
        api_version: int,
        name_of: Callable[[Uuid], str | None],
        *,
        is_follower: bool,
        connection_id: int | None = None,
    ) -> FetchContext:
        """The context of `request`: `name_of` resolves topic ids (None for an unknown one), used from version 13.

        With a `connection_id` the partitions of a request without a session are kept for the connection's next request.
        """
        uses_topic_ids = api_version >= 13
        epoch = request.session_epoch
        if epoch == FINAL_EPOCH and connection_id is not None and not is_follower:
            return self._without_session(request, uses_topic_ids, name_of, connection_id)
        if epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            return self._full(request, uses_topic_ids, name_of, is_follower=is_follower)
        session = self.cache.get(request.session_id)
        if session is None:
            return FetchContext(error=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if session.epoch != epoch:
            return FetchContext(error=ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        if session.uses_topic_ids != uses_topic_ids:
            return FetchContext(error=ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        return self._incremental(request, session, name_of, is_follower=is_follower)

    def _full(
        self,
        request: FetchRequest,
        uses_topic_ids: bool,
        name_of: Callable[[Uuid], str | None],
        *,
        is_follower: bool,
    ) -> FetchContext:
        if request.session_id != NO_SESSION:
            self.cache.remove(request.session_id)
        partitions = dict(_requested(request, uses_topic_ids, name_of))
        if request.session_epoch == FINAL_EPOCH:
            return FetchContext(partitions.values())

        def create() -> FetchSession | None:
            return self.cache.maybe_create(
                partitions, privileged=is_follower, uses_topic_ids=uses_topic_ids, now_ms=self._now_ms()
            )

        return FetchContext(partitions.values(), create=create)

    def _without_session(
        self,
        request: FetchRequest,
        uses_topic_ids: bool,
        name_of: Callable[[Uuid], str | None],
        connection_id: int,
    ) -> FetchContext:
        """As `_full` in the final epoch; partitions that rest since the connection's last such request stay at rest."""
        if request.session_id != NO_SESSION:
            self.cache.remove(request.session_id)
        session = self._unnamed.get(connection_id)
        if session is not None and session.waiting:  # a second fetch beside the one that waits
            return FetchContext(dict(_requested(request, uses_topic_ids, name_of)).values())
        now_ms = self._now_ms()
        if session is None or session.uses_topic_ids != uses_topic_ids:
            self._forget_unnamed(connection_id)
            session = self._unnamed[connection_id] = FetchSession(
                NO_SESSION, {}, privileged=False, uses_topic_ids=uses_topic_ids, now_ms=now_ms
            )
        else:
            self._unnamed.move_to_end(connection_id)
        session.last_used_ms = now_ms
        session.follow_isolation(request.isolation_level)
        self._unnamed_partitions -= len(session.partitions)
        named = session.name_all(request, name_of)
        self._unnamed_partitions += len(session.partitions)
        while (
            len(self._unnamed) > self._max_unnamed_sessions
            or self._unnamed_partitions > self._max_unnamed_partitions
        ) and len(self._unnamed) > 1:
            self._forget_unnamed(next(iter(self._unnamed)))
        return FetchContext(session.due(), session=session, named=named)

    def _forget_unnamed(self, connection_id: int) -> None:
        session = self._unnamed.pop(connection_id, None)
        if session is not None:
            self._unnamed_partitions -= len(session.partitions)
            session.close()

    def _incremental(
        self,
        request: FetchRequest,
        session: FetchSession,
        name_of: Callable[[Uuid], str | None],
        *,
        is_follower: bool,
    ) -> FetchContext:
        uses_topic_ids = session.uses_topic_ids
        before = len(session.partitions)
        for topic in request.topics:
            name_or_id = topic.topic_id if uses_topic_ids else topic.topic
            for wanted in topic.partitions:
                key = (name_or_id, wanted.partition)
                known = session.partitions.get(key)
                if known is None:
                    name = name_of(topic.topic_id) if uses_topic_ids else topic.topic
                    session.add(FetchPartition(key, name, topic.topic_id, wanted))
                else:
                    session.update(known, wanted)
        for forgotten in request.forgotten_topics_data:
            for index in forgotten.partitions:
                session.forget((forgotten.topic_id if uses_topic_ids else forgotten.topic, index))
        if len(session.partitions) > before and not self.cache.has_room_for(0):
            self.cache.remove(session.session_id)
            return FetchContext(error=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if not session.partitions:
            self.cache.remove(session.session_id)
            return FetchContext(dict(_requested(request, uses_topic_ids, name_of)).values())
        session.follow_isolation(FOLLOWER if is_follower else request.isolation_level)
        session.next_request()
        self.cache.touch(session, self._now_ms())
        due = session.due()
        session.name_unknown(due, name_of)
        return FetchContext(due, session=session)


def _requested(
    request: FetchRequest, uses_topic_ids: bool, name_of: Callable[[Uuid], str | None]
) -> Iterable[tuple[PartitionKey, FetchPartition]]:
    for topic in request.topics:
        name = name_of(topic.topic_id) if uses_topic_ids else topic.topic
        for wanted in topic.partitions:
            key = (topic.topic_id if uses_topic_ids else topic.topic, wanted.partition)
            yield key, FetchPartition(key, name, topic.topic_id, wanted)
