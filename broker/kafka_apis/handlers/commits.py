"""OffsetCommit, OffsetFetch, OffsetDelete, TxnOffsetCommit: the offsets that groups commit.

Topics are looked up here, in the newest metadata; the coordinator decides on the groups.
Source: kafka.server.KafkaApis (handleOffsetCommitRequest, handleOffsetFetchRequest, ...).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from barnabas.broker.coordinator.group.offsets.commit import (
    Codes,
    CommitTopic,
    FetchedOffset,
    FetchedTopic,
    OffsetCommit,
    OffsetFetch,
)
from barnabas.broker.coordinator.txn import TransactionalProducer
from barnabas.broker.kafka_apis.api_checks import checks_of
from barnabas.broker.kafka_apis.authorization import allowed_names, denied, is_allowed
from barnabas.broker.metadata.image import MetadataImage
from barnabas.broker.metadata.topics import TopicImage
from barnabas.broker.pending import Pending, all_of, completed
from barnabas.broker.request import RequestContext, api
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.commits import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
)
from barnabas.protocol.messages.transactions import TxnOffsetCommitRequest, TxnOffsetCommitResponse
from barnabas.protocol.wire import ZERO_UUID, Uuid

if TYPE_CHECKING:
    from barnabas.broker.broker import Broker

(_COMMIT_TOPIC,) = checks_of(ApiKey.OFFSET_COMMIT)
(_TXN_COMMIT_TOPIC,) = checks_of(ApiKey.TXN_OFFSET_COMMIT)
(_DELETE_OF_TOPIC,) = checks_of(ApiKey.OFFSET_DELETE)
_FETCH_GROUP, _FETCH_TOPIC = checks_of(ApiKey.OFFSET_FETCH)

_TOPIC_IDS_SINCE: Final = 10
_MANY_GROUPS_SINCE: Final = 8
_GROUP_ERRORS_SINCE: Final = 2
_LOADING_SINCE: Final = 2
"""The version of TxnOffsetCommit from which clients know COORDINATOR_LOAD_IN_PROGRESS."""
_EPOCH_BUMP_SINCE: Final = 5
"""The version of TxnOffsetCommit that adds the partition to the transaction by itself (KIP-890)."""

CommitTopicResponse = OffsetCommitResponse.OffsetCommitResponseTopic
CommitPartitionResponse = OffsetCommitResponse.OffsetCommitResponsePartition
TxnTopicResponse = TxnOffsetCommitResponse.TxnOffsetCommitResponseTopic
TxnPartitionResponse = TxnOffsetCommitResponse.TxnOffsetCommitResponsePartition
DeleteTopicResponse = OffsetDeleteResponse.OffsetDeleteResponseTopic
DeletePartitionResponse = OffsetDeleteResponse.OffsetDeleteResponsePartition

Answer = tuple[str, Uuid, list[tuple[int, ErrorCode]]]
"""A topic's name and id, and the error codes of its partitions."""


class _Screened:
    """The parts of a request for partitions that exist, `known`, and the errors of the others, `rejected`.

    `rejected` has the topics that have such a partition, by name or id, in the order of the request: Kafka answers with
    them first.
    """

    def __init__(self) -> None:
        self.known: list[CommitTopic] = []
        self.rejected: dict[tuple[str, Uuid], list[tuple[int, ErrorCode]]] = {}

    def deny(self, name: str, topic: Any, topic_id: Uuid = ZERO_UUID) -> None:
        """All partitions of a topic of the request, which the client may not read."""
        indexes = [partition.partition_index for partition in topic.partitions]
        self.reject(name, topic_id, indexes, ErrorCode.TOPIC_AUTHORIZATION_FAILED)

    def reject(self, name: str, topic_id: Uuid, partitions: Sequence[int], code: ErrorCode) -> None:
        self.rejected.setdefault((name, topic_id), []).extend((index, code) for index in partitions)

    def answers(self, codes: Codes) -> Iterator[Answer]:
        """Each topic's partitions with their codes; `codes` are those of `known`, one after the other."""
        at = iter(codes)
        answered = [
            (name, topic_id, [(partition.partition_index, next(at)) for partition in partitions])
            for name, topic_id, partitions in self.known
        ]
        return self._merged(answered) if self.rejected else iter(answered)

    def _merged(self, answered: Sequence[Answer]) -> Iterator[Answer]:
        merged = dict(self.rejected)
        for name, topic_id, results in answered:
            merged[name, topic_id] = merged.get((name, topic_id), []) + results
        return ((name, topic_id, results) for (name, topic_id), results in merged.items())


def _screen(screened: _Screened, topic: Any, name: str, image: TopicImage | None) -> None:
    """`topic` is one of a request; its partitions have a `partition_index`."""
    partitions = topic.partitions
    if image is None:
        indexes = [partition.partition_index for partition in partitions]
        screened.reject(name, ZERO_UUID, indexes, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return
    exist = image.partitions
    for partition in partitions:
        if partition.partition_index not in exist:
            break
    else:
        if partitions:
            screened.known.append(CommitTopic(name, image.topic_id, partitions))
        return
    known = [partition for partition in partitions if partition.partition_index in exist]
    unknown = [p.partition_index for p in partitions if p.partition_index not in exist]
    screened.reject(name, image.topic_id, unknown, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if known:
        screened.known.append(CommitTopic(name, image.topic_id, known))


@api(ApiKey.OFFSET_COMMIT, versions=(2, 10))
def offset_commit(
    broker: Broker, context: RequestContext, request: OffsetCommitRequest
) -> OffsetCommitResponse | Pending[OffsetCommitResponse]:
    screened = _Screened()
    image = broker.image
    by_id = context.api_version >= _TOPIC_IDS_SINCE
    names = [image.topic_names.get(topic.topic_id, "") if by_id else topic.name for topic in request.topics]
    allowed = allowed_names(broker, context, _COMMIT_TOPIC, filter(None, names) if by_id else names)
    for name, topic in zip(names, request.topics, strict=True):
        if by_id and not name:
            indexes = [partition.partition_index for partition in topic.partitions]
            screened.reject("", topic.topic_id, indexes, ErrorCode.UNKNOWN_TOPIC_ID)
        elif name not in allowed:
            screened.deny(name, topic, topic.topic_id)
        else:
            _screen(screened, topic, name, image.topics.get(name))
    if not screened.known:
        return _commit_response(screened, ())
    commit = OffsetCommit(
        request.group_id,
        request.member_id,
        request.group_instance_id,
        request.generation_id_or_member_epoch,
        context.api_version,
        screened.known,
        request.retention_time_ms,
    )
    return broker.groups.offsets.commit(commit).then(lambda codes: _commit_response(screened, codes))


def _commit_response(screened: _Screened, codes: Codes) -> OffsetCommitResponse:
    return OffsetCommitResponse(
        topics=[
            CommitTopicResponse(
                name=name,
                topic_id=topic_id,
                partitions=[
                    CommitPartitionResponse(partition_index=index, error_code=code) for index, code in results
                ],
            )
            for name, topic_id, results in screened.answers(codes)
        ]
    )


@api(ApiKey.TXN_OFFSET_COMMIT, versions=(0, 5))
def txn_offset_commit(
    broker: Broker, context: RequestContext, request: TxnOffsetCommitRequest
) -> TxnOffsetCommitResponse | Pending[TxnOffsetCommitResponse]:
    screened = _Screened()
    version = context.api_version
    allowed = allowed_names(broker, context, _TXN_COMMIT_TOPIC, [topic.name for topic in request.topics])
    for topic in request.topics:
        if topic.name in allowed:
            _screen(screened, topic, topic.name, broker.image.topics.get(topic.name))
        else:
            screened.deny(topic.name, topic)
    if not screened.known:
        return _txn_response(screened, (), version)
    commit = OffsetCommit(
        request.group_id,
        request.member_id,
        request.group_instance_id,
        request.generation_id,
        version,
        screened.known,
    )
    producer = TransactionalProducer(
        request.transactional_id,
        request.producer_id,
        request.producer_epoch,
        supports_epoch_bump=version >= _EPOCH_BUMP_SINCE,
    )
    pending = broker.groups.offsets.commit_in_transaction(producer, commit)
    return pending.then(lambda codes: _txn_response(screened, codes, version))


def _txn_response(screened: _Screened, codes: Codes, version: int) -> TxnOffsetCommitResponse:
    if version < _LOADING_SINCE:
        codes = [_before_loading(code) for code in codes]
    return TxnOffsetCommitResponse(
        topics=[
            TxnTopicResponse(
                name=name,
                partitions=[
                    TxnPartitionResponse(partition_index=index, error_code=code) for index, code in results
                ],
            )
            for name, _, results in screened.answers(codes)
        ]
    )


def _before_loading(code: ErrorCode) -> ErrorCode:
    is_loading = code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    return ErrorCode.COORDINATOR_NOT_AVAILABLE if is_loading else code


@api(ApiKey.OFFSET_DELETE, versions=(0, 0))
def offset_delete(
    broker: Broker, context: RequestContext, request: OffsetDeleteRequest
) -> Pending[OffsetDeleteResponse]:
    screened = _Screened()
    allowed = allowed_names(broker, context, _DELETE_OF_TOPIC, [topic.name for topic in request.topics])
    for topic in request.topics:
        if topic.name in allowed:
            _screen(screened, topic, topic.name, broker.image.topics.get(topic.name))
        else:
            screened.deny(topic.name, topic)
    known = [(topic.name, [p.partition_index for p in topic.partitions]) for topic in screened.known]
    who = f"client {context.client_id} at {context.connection.client_host}"
    pending = broker.groups.offsets.delete(request.group_id, known, who)
    return pending.then(lambda result: _delete_response(screened, result))


def _delete_response(screened: _Screened, result: Codes | ErrorCode) -> OffsetDeleteResponse:
    if isinstance(result, ErrorCode):
        return OffsetDeleteResponse(error_code=result)
    return OffsetDeleteResponse(
        topics=[
            DeleteTopicResponse(
                name=name,
                partitions=[
                    DeletePartitionResponse(partition_index=index, error_code=code) for index, code in results
                ],
            )
            for name, _, results in screened.answers(result)
        ]
    )


@api(ApiKey.OFFSET_FETCH, versions=(1, 10))
def offset_fetch(
    broker: Broker, context: RequestContext, request: OffsetFetchRequest
) -> Pending[OffsetFetchResponse]:
    version = context.api_version
    fetches = [_Fetch(group, version, request.require_stable) for group in _groups(request, version)]
    return all_of([fetch.ask(broker, context) for fetch in fetches]).then(
        lambda groups: (
            OffsetFetchResponse(groups=groups)
            if version >= _MANY_GROUPS_SINCE
            else _response_of_one(groups[0])
        )
    )


GroupRequest = OffsetFetchRequest.OffsetFetchRequestGroup
GroupResponse = OffsetFetchResponse.OffsetFetchResponseGroup
TopicRequest = OffsetFetchRequest.OffsetFetchRequestTopics
TopicResponse = OffsetFetchResponse.OffsetFetchResponseTopics
PartitionResponse = OffsetFetchResponse.OffsetFetchResponsePartitions


def _groups(request: OffsetFetchRequest, version: int) -> Sequence[GroupRequest]:
    """The one group of an old request in the form of the new ones."""
    if version >= _MANY_GROUPS_SINCE:
        return request.groups
    topics = None
    if request.topics is not None:
        topics = [
            TopicRequest(name=topic.name, partition_indexes=topic.partition_indexes)
            for topic in request.topics
        ]
    return [GroupRequest(group_id=request.group_id, topics=topics)]


def _response_of_one(group: GroupResponse) -> OffsetFetchResponse:
    return OffsetFetchResponse(
        error_code=group.error_code,
        topics=[
            OffsetFetchResponse.OffsetFetchResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetFetchResponse.OffsetFetchResponsePartition(
                        partition_index=partition.partition_index,
                        committed_offset=partition.committed_offset,
                        committed_leader_epoch=partition.committed_leader_epoch,
                        metadata=partition.metadata,
                        error_code=partition.error_code,
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in group.topics
        ],
    )


class _Fetch:
    """One group of an OffsetFetch request."""

    def __init__(self, group: GroupRequest, version: int, require_stable: bool) -> None:
        self._group = group
        self._version = version
        self._require_stable = require_stable
        self._by_id = version >= _TOPIC_IDS_SINCE
        self._failed: list[TopicResponse] = []
        """Topics that the coordinator is not asked for: of unknown ids, and that the client may not describe."""

    def ask(self, broker: Broker, context: RequestContext) -> Pending[GroupResponse]:
        if not is_allowed(broker, context, _FETCH_GROUP, self._group.group_id):
            return completed(self._error(denied(_FETCH_GROUP).code))
        fetch = OffsetFetch(
            self._group.group_id,
            self._group.member_id,
            self._group.member_epoch,
            self._topics(broker, context),
            self._require_stable,
        )
        return broker.groups.offsets.fetch(fetch).then(lambda found: self._response(broker, context, found))

    def _topics(
        self, broker: Broker, context: RequestContext
    ) -> list[tuple[str, Uuid, Sequence[int]]] | None:
        """The topics to fetch from the coordinator, by name."""
        asked, image = self._group.topics, broker.image
        if asked is None:
            return None
        if broker.auth is None and not self._by_id:
            return [(topic.name, ZERO_UUID, topic.partition_indexes) for topic in asked]
        names = [image.topic_names.get(topic.topic_id) if self._by_id else topic.name for topic in asked]
        known = [name for name in names if name is not None]
        allowed = allowed_names(broker, context, _FETCH_TOPIC, known)
        topics: list[tuple[str, Uuid, Sequence[int]]] = []
        for name, topic in zip(names, asked, strict=True):
            if name is None:
                self._failed.append(_failed_topic(topic, ErrorCode.UNKNOWN_TOPIC_ID))
            elif name not in allowed:
                self._failed.append(_failed_topic(topic, denied(_FETCH_TOPIC).code))
            else:
                topics.append((name, topic.topic_id, topic.partition_indexes))
        return topics

    def _response(
        self, broker: Broker, context: RequestContext, found: Sequence[FetchedTopic] | ErrorCode
    ) -> GroupResponse:
        if isinstance(found, ErrorCode):
            return self._error(found)
        if self._group.topics is None and broker.auth is not None:
            allowed = allowed_names(broker, context, _FETCH_TOPIC, [topic.name for topic in found])
            found = [topic for topic in found if topic.name in allowed]
        topics = [_topic_response(topic) for topic in found]
        if self._by_id and self._group.topics is None:
            topics = _with_ids(broker.image, topics)
        return GroupResponse(group_id=self._group.group_id, topics=topics + self._failed)

    def _error(self, code: ErrorCode) -> GroupResponse:
        """Before version 2 the code is in the partitions, since a group has none."""
        if self._version >= _GROUP_ERRORS_SINCE:
            return GroupResponse(group_id=self._group.group_id, error_code=code)
        topics = [
            FetchedTopic(
                topic.name,
                ZERO_UUID,
                [FetchedOffset(index, error=code) for index in topic.partition_indexes],
            )
            for topic in self._group.topics or ()
        ]
        return GroupResponse(
            group_id=self._group.group_id, topics=[_topic_response(topic) for topic in topics]
        )


def _failed_topic(topic: TopicRequest, code: ErrorCode) -> TopicResponse:
    return TopicResponse(
        name=topic.name,
        topic_id=topic.topic_id,
        partitions=[
            PartitionResponse(partition_index=index, committed_offset=-1, error_code=code, metadata="")
            for index in topic.partition_indexes
        ],
    )


def _topic_response(topic: FetchedTopic) -> TopicResponse:
    return TopicResponse(
        name=topic.name,
        topic_id=topic.topic_id,
        partitions=[
            PartitionResponse(
                partition_index=partition.partition,
                committed_offset=partition.offset,
                committed_leader_epoch=partition.leader_epoch,
                metadata=partition.metadata,
                error_code=partition.error,
            )
            for partition in topic.partitions
        ],
    )


def _with_ids(image: MetadataImage, topics: Sequence[TopicResponse]) -> list[TopicResponse]:
    """All offsets of a group, for a client that knows topics by id only: those of deleted topics are left
    out."""
    found = []
    for topic in topics:
        there = image.topics.get(topic.name)
        if there is not None:
            topic.topic_id = there.topic_id
            found.append(topic)
    return found
