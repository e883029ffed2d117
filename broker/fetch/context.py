"""FetchContext: the partitions that one fetch request reads, and its response. Source: kafka.server.FetchContext."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from barnabas.broker.fetch.partition import FetchPartition, Follower
from barnabas.broker.fetch.response_size import response_size
from barnabas.broker.fetch.session import FetchedPartition, FetchSession, NamedTopic
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.fetch import FetchResponse
from barnabas.protocol.wire import Uuid
from barnabas.storage.offsets import FetchIsolation

NO_SESSION_EPOCH: Final = 0
"""The epoch of a request without a session, which no session has."""

_NONE: Final = ErrorCode.NONE
_SIZE_BYTES: Final = 4


class FetchParams:
    """The limits of a fetch: a wait of at most `max_wait_ms`, a response of `min_bytes` to `max_bytes` of records.

    `replica_epoch` is the broker epoch that a follower names (-1: none); `follower` is both, None of others. A reader
    that is not for the leader only may be a consumer whose `rack` and `listener` decide from which replica it should
    read (KIP-392).
    """

    __slots__ = (
        "follower",
        "isolation",
        "listener",
        "max_bytes",
        "max_wait_ms",
        "min_bytes",
        "only_leader",
        "rack",
        "replica_epoch",
        "replica_id",
    )

    def __init__(
        self,
        *,
        replica_id: int,
        max_wait_ms: int,
        min_bytes: int,
        max_bytes: int,
        isolation: FetchIsolation,
        replica_epoch: int = -1,
        only_leader: bool = True,
        rack: str = "",
        listener: str = "",
    ) -> None:
        self.replica_id = replica_id
        self.replica_epoch = replica_epoch
        self.follower: Follower | None = (replica_id, replica_epoch) if replica_id >= 0 else None
        self.only_leader = only_leader
        self.rack = rack
        self.listener = listener
        self.max_wait_ms = max_wait_ms
        self.min_bytes = min_bytes
        self.max_bytes = max_bytes
        self.isolation = isolation


class FetchContext:
    """The partitions that one fetch request reads, and its response.

    `partitions` are read in this order; of a session, those that do not rest. `named` are the partitions of the
    response where the session answers everything. `create` makes the session that a full fetch opens.
    """

    __slots__ = ("_create", "_epoch", "error", "named", "partitions", "session")

    def __init__(
        self,
        partitions: Iterable[FetchPartition] = (),
        *,
        error: ErrorCode = _NONE,
        session: FetchSession | None = None,
        create: Callable[[], FetchSession | None] | None = None,
        named: Sequence[NamedTopic] = (),
    ) -> None:
        self.partitions: Sequence[FetchPartition] = list(partitions)
        self.error = error
        self.session = session
        self.named = named
        self._create = create
        self._epoch = session.epoch if session is not None else NO_SESSION_EPOCH

    def refresh(self) -> None:
        """Updates `partitions` with those that have been woken since."""
        if self.session is not None:
            self.partitions = self.session.due()

    def authorize_as(self, scope: object) -> None:
        """Has all partitions of the session checked where the last check was of another client or of other rules.

        Equal decisions are those of the same `scope` object.
        """
        session = self.session
        if session is not None and session.authorized_as is not scope:
            session.authorized_as = scope
            session.wake_all()
            self.refresh()

    def response(self, data: Sequence[FetchResponse.PartitionData]) -> FetchResponse:
        """The response from one PartitionData for each of `partitions`, in their order."""
        if self.error is not _NONE:
            return FetchResponse.make(error_code=self.error)
        session = self.session
        if session is None:
            return self._full_response(list(zip(self.partitions, data, strict=True)))
        if session.answers_all:
            return FetchResponse.make(responses=session.everything(self.named, self.partitions, data))
        if session.epoch != self._epoch:
            # The session has answered a later request meanwhile: its reader has newer data than this response.
            return FetchResponse.make(
                session_id=session.session_id, error_code=ErrorCode.INVALID_FETCH_SESSION_EPOCH
            )
        news = session.news(zip(self.partitions, data, strict=True))
        return FetchResponse.make(session_id=session.session_id, responses=_by_topic(news))

    def response_bytes(self, data: Sequence[FetchResponse.PartitionData], version: int) -> int:
        """The size of what `response` would make of the data, with the size in front of it; nothing changes by that."""
        session = self.session
        topics: list[FetchResponse.FetchableTopicResponse] = []
        if session is None:
            topics = _by_topic(zip(self.partitions, data, strict=True))
        elif session.answers_all:
            topics = session.everything(self.named, self.partitions, data)
        elif session.epoch == self._epoch:
            fetched = zip(self.partitions, data, strict=True)
            topics = _by_topic(one for one in fetched if one[0].is_news(one[1]))
        return _SIZE_BYTES + response_size(version).of(topics)

    def throttled_response(self, throttle_ms: int) -> FetchResponse:
        """The empty response in place of one that a quota does not allow now: a session stays as it is, and a full
        fetch opens none.
        """
        session = self.session
        if session is None or session.answers_all:
            return FetchResponse.make(throttle_time_ms=throttle_ms)
        error = _NONE if session.epoch == self._epoch else ErrorCode.INVALID_FETCH_SESSION_EPOCH
        return FetchResponse.make(
            throttle_time_ms=throttle_ms, error_code=error, session_id=session.session_id
        )

    def _full_response(self, fetched: list[FetchedPartition]) -> FetchResponse:
        session = self._create() if self._create is not None else None
        if session is None:
            return FetchResponse.make(responses=_by_topic(fetched))
        session.answered(fetched)
        return FetchResponse.make(session_id=session.session_id, responses=_by_topic(fetched))


def _by_topic(fetched: Iterable[FetchedPartition]) -> list[FetchResponse.FetchableTopicResponse]:
    """Groups neighbours of one topic, keeping the order: consumers read from the front."""
    topics: list[FetchResponse.FetchableTopicResponse] = []
    last_name: str | None = None
    last_id: Uuid | None = None
    partitions: list[FetchResponse.PartitionData] = []
    for entry, data in fetched:
        name, topic_id = entry.topic or "", entry.topic_id
        if topic_id != last_id or name != last_name:
            last_name, last_id, partitions = name, topic_id, []
            topics.append(
                FetchResponse.FetchableTopicResponse.make(
                    topic=name, topic_id=topic_id, partitions=partitions
                )
            )
        partitions.append(data)
    return topics
