"""FetchContext: what one fetch request reads, and how its answer is put together. Source: kafka.server.FetchContext."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final

from broker.fetch.partition import FetchPartition, size_of
from protocol.errors import ErrorCode
from protocol.messages.fetch import FetchResponse
from protocol.wire import Uuid
from storage.offsets import FetchIsolation

if TYPE_CHECKING:
    from broker.fetch.session import FetchSession

NO_EPOCH: Final = 0

_NONE: Final = ErrorCode.NONE

Answer = tuple[FetchPartition, FetchResponse.PartitionData]


class FetchParams:
    """How a reader wants to be answered: `max_wait_ms` long at most, with `min_bytes` to `max_bytes` of records."""

    __slots__ = ("isolation", "max_bytes", "max_wait_ms", "min_bytes", "replica_id")

    def __init__(
        self, *, replica_id: int, max_wait_ms: int, min_bytes: int, max_bytes: int, isolation: FetchIsolation
    ) -> None:
        self.replica_id = replica_id
        self.max_wait_ms = max_wait_ms
        self.min_bytes = min_bytes
        self.max_bytes = max_bytes
        self.isolation = isolation


class NamedTopic:
    """A topic and the partitions of it that a request names, in its order; the name is empty while nobody knows it."""

    __slots__ = ("name", "partitions", "topic_id")

    def __init__(self, name: str, topic_id: Uuid, partitions: list[FetchPartition]) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partitions = partitions


class FetchContext:
    """What one fetch request reads, and how its answer is put together.

    `partitions` is what there is to read, in its order: of a session, what does not rest. `named` is what the answer is
    to tell of where the session answers everything.
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
        self._epoch = session.epoch if session is not None else NO_EPOCH

    def look_again(self) -> None:
        """Brings `partitions` up to date: what has been woken since is there as well."""
        if self.session is not None:
            self.partitions = self.session.due()

    def response(self, data: Sequence[FetchResponse.PartitionData]) -> FetchResponse:
        """The answer from one PartitionData for each of `partitions`, in their order."""
        if self.error is not _NONE:
            return FetchResponse.make(error_code=self.error)
        session = self.session
        answers = zip(self.partitions, data, strict=True)
        if session is None:
            return self._full_response(list(answers))
        if session.answers_all:
            return FetchResponse.make(responses=self._everything(session, answers))
        if session.epoch != self._epoch:
            # The session has gone on while this request waited: its reader knows more than this answer would say.
            return FetchResponse.make(
                session_id=session.session_id, error_code=ErrorCode.INVALID_FETCH_SESSION_EPOCH
            )
        return FetchResponse.make(
            session_id=session.session_id, responses=_by_topic(self._news(session, answers))
        )

    def _full_response(self, answers: list[Answer]) -> FetchResponse:
        session = self._create() if self._create is not None else None
        if session is None:
            return FetchResponse.make(responses=_by_topic(answers))
        for partition, data in answers:
            partition.answered(data)
        return FetchResponse.make(session_id=session.session_id, responses=_by_topic(answers))

    def _everything(
        self, session: FetchSession, answers: Iterable[Answer]
    ) -> list[FetchResponse.FetchableTopicResponse]:
        """What was read now, and what is known of the partitions that rest.

        One that was woken by the very reading (of a disk that fails) was not read, and is told of as it was.
        """
        for partition, data in answers:
            partition.data = data
        topics = [
            FetchResponse.FetchableTopicResponse.make(
                topic=topic.name,
                topic_id=topic.topic_id,
                partitions=[partition.data for partition in topic.partitions],  # type: ignore[misc]
            )
            for topic in self.named
        ]
        for partition in self.partitions:
            if partition in session.active:
                partition.data = None  # records and their files are not held
        return topics

    @staticmethod
    def _news(session: FetchSession, answers: Iterable[Answer]) -> list[Answer]:
        """Only what is new; partitions that gave records go to the end, so that each has its turn at the front."""
        news = []
        for answer in answers:
            partition, data = answer
            if partition.is_news(data):
                partition.answered(data)
                news.append(answer)
                if size_of(data):
                    session.give_last_turn(partition)
        return news


def _by_topic(answers: Iterable[Answer]) -> list[FetchResponse.FetchableTopicResponse]:
    """Groups neighbours of one topic, keeping the order: consumers read from the front."""
    topics: list[FetchResponse.FetchableTopicResponse] = []
    last_name: str | None = None
    last_id: Uuid | None = None
    partitions: list[FetchResponse.PartitionData] = []
    for partition, data in answers:
        name, topic_id = partition.topic or "", partition.topic_id
        if topic_id != last_id or name != last_name:
            last_name, last_id, partitions = name, topic_id, []
            topics.append(
                FetchResponse.FetchableTopicResponse.make(
                    topic=name, topic_id=topic_id, partitions=partitions
                )
            )
        partitions.append(data)
    return topics
