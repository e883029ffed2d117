"""FetchSessionHandler: the follower's half of an incremental fetch session (KIP-227, KIP-516).

The first request names every partition and has session epoch 0; the leader answers with a session id, and later
requests name only what is new, what changed, and what is to be forgotten. After an error the next request is a full one
again, which also ends the session that the leader may still have. The other half is broker.fetch.session.
Source: org.apache.kafka.clients.FetchSessionHandler, org.apache.kafka.common.requests.FetchMetadata.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.fetch import FetchRequest, FetchResponse
from barnabas.protocol.wire import ZERO_UUID, Uuid
from barnabas.storage.offsets import TopicPartition

NO_SESSION: Final = 0
INITIAL_EPOCH: Final = 0
_MAX_EPOCH: Final = (1 << 31) - 1

FIRST_VERSION_WITH_TOPIC_IDS: Final = 13


class WantedPartition(NamedTuple):
    """What a request asks of one partition. `topic_id` is ZERO_UUID where it is not known."""

    topic_id: Uuid
    fetch_offset: int
    log_start_offset: int
    max_bytes: int
    current_leader_epoch: int
    last_fetched_epoch: int


class SessionRequest(NamedTuple):
    """The parts of a fetch request that depend on the session.

    `partitions` has every partition of the session, whether the request names it or not, until the next request is
    built.
    """

    session_id: int
    session_epoch: int
    topics: list[FetchRequest.FetchTopic]
    forgotten: list[FetchRequest.ForgottenTopic]
    partitions: dict[TopicPartition, WantedPartition]
    uses_topic_ids: bool


class FetchSessionHandler:
    """The session with one leader. `build` and the handling of its response alternate: one request is in flight."""

    def __init__(self) -> None:
        self.session_id = NO_SESSION
        self.epoch = INITIAL_EPOCH
        self.partitions: dict[TopicPartition, WantedPartition] = {}
        self._uses_topic_ids = False
        self._unheard: set[TopicPartition] = set()
        self._names: dict[Uuid, str] = {}
        """By topic id: those of the session's partitions, and perhaps of some that it had before."""

    @property
    def is_full(self) -> bool:
        """Whether the next request names every partition."""
        return self.epoch == INITIAL_EPOCH

    @property
    def needs_all(self) -> bool:
        """Whether the next request has to be built from every partition that is wanted."""
        return self.is_full or bool(self._unheard) or not self._uses_topic_ids

    def build(self, wanted: Mapping[TopicPartition, WantedPartition]) -> SessionRequest:
        """The next request for exactly the partitions of `wanted`, in its order."""
        if not self._unheard.isdisjoint(wanted):
            self.handle_error()
        self._unheard.clear()
        if self.is_full:
            self._names.clear()
            changed, forgotten = dict(wanted), []
        else:
            changed = {key: one for key, one in wanted.items() if self.partitions.get(key) != one}
            forgotten = [
                (key, before.topic_id)
                for key, before in self.partitions.items()
                if _is_forgotten(before, wanted.get(key))
            ]
        self._uses_topic_ids = all(one.topic_id != ZERO_UUID for one in wanted.values()) and all(
            topic_id != ZERO_UUID for _, topic_id in forgotten
        )
        self.partitions = dict(wanted)
        return self._request(changed, forgotten)

    def build_next(self, news: Mapping[TopicPartition, WantedPartition | None]) -> SessionRequest:
        """The next request, where only the partitions of `news` may differ from the last one: None for one that is not
        wanted any more. Not while `needs_all`.

        It costs what these cost, not what the session has.
        """
        assert not self.needs_all
        if any(one is not None and one.topic_id == ZERO_UUID for one in news.values()):
            wanted = {**self.partitions, **news}
            return self.build({key: one for key, one in wanted.items() if one is not None})
        changed: dict[TopicPartition, WantedPartition] = {}
        forgotten: list[tuple[TopicPartition, Uuid]] = []
        for key, now in news.items():
            before = self.partitions.get(key)
            if before is not None and _is_forgotten(before, now):
                forgotten.append((key, before.topic_id))
            if now is None:
                self.partitions.pop(key, None)
            elif now != before:
                changed[key] = self.partitions[key] = now
        return self._request(changed, forgotten)

    def _request(
        self, changed: Mapping[TopicPartition, WantedPartition], forgotten: list[tuple[TopicPartition, Uuid]]
    ) -> SessionRequest:
        self._names.update((one.topic_id, topic) for (topic, _), one in changed.items())
        return SessionRequest(
            self.session_id,
            self.epoch,
            _requested(changed),
            _forgotten(forgotten),
            self.partitions,
            self._uses_topic_ids,
        )

    def handle_response(self, response: FetchResponse) -> bool:
        """Applies the session part of a response; returns whether its data may be used.

        Not after an error of the whole response, nor where it names other partitions than the session has.
        """
        if response.error_code != ErrorCode.NONE:
            if response.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
                self._restart()
            else:
                self.handle_error()
            return False
        named = self._named(response)
        if self.is_full:
            if named is None or len(named) != len(self.partitions):
                self._restart()
                return False
        elif named is None:
            self.handle_error()
            return False
        if response.session_id == NO_SESSION:  # the leader keeps none, or has ended it
            self._restart()
        else:
            self.session_id = response.session_id
            self.epoch = self.epoch + 1 if self.epoch < _MAX_EPOCH else 1
        return True

    def handle_error(self) -> None:
        """The outcome of the request is unknown: the next one ends the session and begins another."""
        self.epoch = INITIAL_EPOCH

    def hear_again(self, key: TopicPartition) -> None:
        """What the last response has for a partition was not used: the next one is to have its offsets again.

        The leader compares them with those that it said last in this session, which begins again for that, unless the
        next request leaves the partition out.
        """
        self._unheard.add(key)

    def data(self, response: FetchResponse) -> Iterable[tuple[TopicPartition, FetchResponse.PartitionData]]:
        """What a usable response has for each partition that it names."""
        for topic in response.responses:
            name = self._names[topic.topic_id] if self._uses_topic_ids else topic.topic
            for data in topic.partitions:
                yield (name, data.partition_index), data

    def _restart(self) -> None:
        self.session_id, self.epoch = NO_SESSION, INITIAL_EPOCH

    def _named(self, response: FetchResponse) -> set[TopicPartition] | None:
        """The partitions that a response names; None where the session has not one of them."""
        named: set[TopicPartition] = set()
        for topic in response.responses:
            name = self._names.get(topic.topic_id) if self._uses_topic_ids else topic.topic
            for data in topic.partitions:
                key = name or "", data.partition_index
                known = self.partitions.get(key)
                if known is None or (self._uses_topic_ids and known.topic_id != topic.topic_id):
                    return None
                named.add(key)
        return named


def _is_forgotten(before: WantedPartition, now: WantedPartition | None) -> bool:
    """Whether the leader has to forget what was asked for, `now` being asked for.

    It finds partitions by topic id: of a topic that was created again the old one has to go.
    """
    return now is None or before.topic_id not in (now.topic_id, ZERO_UUID)


def _requested(changed: Mapping[TopicPartition, WantedPartition]) -> list[FetchRequest.FetchTopic]:
    """Partitions of one topic that follow each other share an entry."""
    topics: list[FetchRequest.FetchTopic] = []
    for (name, index), one in changed.items():
        if not topics or topics[-1].topic != name or topics[-1].topic_id != one.topic_id:
            topics.append(FetchRequest.FetchTopic(topic=name, topic_id=one.topic_id, partitions=[]))
        topics[-1].partitions.append(
            FetchRequest.FetchPartition(
                partition=index,
                current_leader_epoch=one.current_leader_epoch,
                fetch_offset=one.fetch_offset,
                last_fetched_epoch=one.last_fetched_epoch,
                log_start_offset=one.log_start_offset,
                partition_max_bytes=one.max_bytes,
            )
        )
    return topics


def _forgotten(keys: Iterable[tuple[TopicPartition, Uuid]]) -> list[FetchRequest.ForgottenTopic]:
    by_topic: dict[tuple[str, Uuid], list[int]] = {}
    for (name, index), topic_id in keys:
        by_topic.setdefault((name, topic_id), []).append(index)
    return [
        FetchRequest.ForgottenTopic(topic=name, topic_id=topic_id, partitions=indexes)
        for (name, topic_id), indexes in by_topic.items()
    ]
