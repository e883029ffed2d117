"""OffsetCommit, OffsetFetch, OffsetDelete and TxnOffsetCommit, with encoded requests to a whole broker."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.acls import AclOperation, AclResourceType
from barnabas.protocol.messages.commits import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
)
from barnabas.protocol.messages.groups import FindCoordinatorRequest
from barnabas.protocol.messages.topics import DeleteTopicsRequest
from barnabas.protocol.messages.transactions import (
    EndTxnRequest,
    InitProducerIdRequest,
    TxnOffsetCommitRequest,
)
from barnabas.protocol.wire import ZERO_UUID, Uuid
from tests.broker.broker_fixture import InProcessBroker, Wait
from tests.broker.guarded_broker import GuardedBroker
from tests.support.difference import Like

SETTINGS = {"offsets.topic.num.partitions": "3", "transaction.state.log.num.partitions": "1"}
UNKNOWN_ID = b"unknown".ljust(16)
UNKNOWN, UNKNOWN_TOPIC_ID = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[InProcessBroker]:
    broker = InProcessBroker(tmp_path, SETTINGS)
    asked = FindCoordinatorRequest(coordinator_keys=["g"])
    broker.client(version=4).ask(asked)
    yield broker
    broker.kill()


def commit_of(
    *partitions: tuple[str, int, int], group_id: str = "g", topic_id: Uuid = ZERO_UUID, **fields: Any
) -> OffsetCommitRequest:
    """A commit of (topic, partition, offset)s, each in a topic of its own."""
    return OffsetCommitRequest(
        group_id=group_id,
        topics=[
            OffsetCommitRequest.OffsetCommitRequestTopic(
                name=name,
                topic_id=topic_id,
                partitions=[
                    OffsetCommitRequest.OffsetCommitRequestPartition(
                        partition_index=index, committed_offset=offset, committed_metadata="m"
                    )
                ],
            )
            for name, index, offset in partitions
        ],
        **fields,
    )


def committed(*codes: tuple[str, int, ErrorCode | int]) -> Like:
    return Like(
        topics=[
            Like(name=name, partitions=[Like(partition_index=index, error_code=code)])
            for name, index, code in codes
        ]
    )


def fetch_of(
    *partitions: tuple[str, int], group_id: str = "g", require_stable: bool = False
) -> OffsetFetchRequest:
    """For versions before 8."""
    return OffsetFetchRequest(
        group_id=group_id,
        topics=[
            OffsetFetchRequest.OffsetFetchRequestTopic(name=name, partition_indexes=[index])
            for name, index in partitions
        ],
        require_stable=require_stable,
    )


def fetch_of_groups(
    *groups: str, topics: list[OffsetFetchRequest.OffsetFetchRequestTopics] | None = None
) -> OffsetFetchRequest:
    return OffsetFetchRequest(
        groups=[
            OffsetFetchRequest.OffsetFetchRequestGroup(group_id=group_id, topics=topics)
            for group_id in groups
        ]
    )


def offset(broker: InProcessBroker, topic: str = "t", partition: int = 0, group_id: str = "g") -> int:
    answer = broker.client(version=7).ask(fetch_of((topic, partition), group_id=group_id))
    assert isinstance(answer, OffsetFetchResponse)
    return answer.topics[0].partitions[0].committed_offset


class TestOffsetCommit:
    def test_by_name(self, broker: InProcessBroker) -> None:
        broker.create_topic("t")
        for version in range(2, 10):
            assert broker.client(version) >> commit_of(("t", 0, version)) << committed(("t", 0, 0))
            assert offset(broker) == version

    def test_by_id(self, broker: InProcessBroker) -> None:
        topic_id = broker.create_topic("t")
        answer = Like(topics=[Like(topic_id=topic_id, partitions=[Like(partition_index=0, error_code=0)])])
        assert broker.client(version=10) >> commit_of(("", 0, 5), topic_id=topic_id) << answer
        assert offset(broker) == 5

    def test_an_unknown_topic_id(self, broker: InProcessBroker) -> None:
        answer = Like(
            topics=[
                Like(topic_id=UNKNOWN_ID, partitions=[Like(partition_index=0, error_code=UNKNOWN_TOPIC_ID)])
            ]
        )
        assert broker.client(version=10) >> commit_of(("", 0, 5), topic_id=UNKNOWN_ID) << answer

    def test_unknown_topics_come_first_in_the_response(self, broker: InProcessBroker) -> None:
        broker.create_topic("t")
        request = commit_of(("t", 0, 5), ("t", 3, 5), ("nowhere", 0, 5))
        answer = Like(
            topics=[
                Like(
                    name="t",
                    partitions=[
                        Like(partition_index=3, error_code=UNKNOWN),
                        Like(partition_index=0, error_code=0),
                    ],
                ),
                Like(name="nowhere", partitions=[Like(partition_index=0, error_code=UNKNOWN)]),
            ]
        )
        assert broker.client(version=9) >> request << answer

    def test_nothing_of_it_exists(self, broker: InProcessBroker) -> None:
        assert broker.client(9) >> commit_of(("t", 0, 5)) << committed(("t", 0, UNKNOWN))

    def test_a_commit_without_topics(self, broker: InProcessBroker) -> None:
        assert broker.client(9) >> commit_of() << OffsetCommitResponse()

    @pytest.mark.parametrize(
        ("version", "code"), [(8, ErrorCode.ILLEGAL_GENERATION), (9, ErrorCode.GROUP_ID_NOT_FOUND)]
    )
    def test_a_group_that_is_not_there(self, broker: InProcessBroker, version: int, code: ErrorCode) -> None:
        broker.create_topic("t")
        request = commit_of(("t", 0, 5), ("t", 1, 5), generation_id_or_member_epoch=3, member_id="m")
        answer = Like(
            topics=[
                Like(
                    name="t",
                    partitions=[
                        Like(partition_index=1, error_code=UNKNOWN),
                        Like(partition_index=0, error_code=code),
                    ],
                )
            ]
        )
        assert broker.client(version) >> request << answer

    def test_offsets_survive_a_restart(self, broker: InProcessBroker, tmp_path: Path) -> None:
        broker.create_topic("t")
        assert broker.client(9) >> commit_of(("t", 0, 5)) << committed(("t", 0, 0))
        broker.stop()
        again = InProcessBroker(tmp_path)
        again.timer.run_soon()
        assert offset(again) == 5
        again.kill()

    def test_offsets_are_deleted_with_their_topic(self, broker: InProcessBroker) -> None:
        broker.create_topic("t")
        assert broker.client(9) >> commit_of(("t", 0, 5)) << committed(("t", 0, 0))
        broker.client(5).ask(DeleteTopicsRequest(topic_names=["t"]))
        assert broker.client(9) >> Wait(0) >> fetch_of_groups("g") << Like(groups=[Like(topics=[])])


class TestOffsetFetch:
    def test_version_1_has_errors_only_for_partitions(self, broker: InProcessBroker) -> None:
        answer = Like(
            topics=[Like(name="t", partitions=[Like(partition_index=0, committed_offset=-1, metadata="")])]
        )
        assert broker.client(1) >> fetch_of(("t", 0)) << answer

    def test_one_group(self, broker: InProcessBroker) -> None:
        broker.create_topic("t")
        broker.client(9).ask(commit_of(("t", 0, 5)))
        answer = Like(
            topics=[Like(name="t", partitions=[Like(committed_offset=5, metadata="m", error_code=0)])]
        )
        for version in range(1, 8):
            assert broker.client(version) >> fetch_of(("t", 0)) << answer

    def test_all_topics(self, broker: InProcessBroker) -> None:
        broker.create_topic("t")
        broker.client(9).ask(commit_of(("t", 0, 5)))
        answer = Like(topics=[Like(name="t", partitions=[Like(committed_offset=5)])], error_code=0)
        assert broker.client(5) >> OffsetFetchRequest(group_id="g", topics=None) << answer

    def test_many_groups(self, broker: InProcessBroker) -> None:
        broker.create_topic("t")
        broker.client(9).ask(commit_of(("t", 0, 5)))
        broker.client(9).ask(commit_of(("t", 0, 6), group_id="h"))
        answer = Like(
            groups=[
                Like(group_id="h", topics=[Like(partitions=[Like(committed_offset=6)])]),
                Like(group_id="g", topics=[Like(partitions=[Like(committed_offset=5)])]),
                Like(group_id="nobody", topics=[], error_code=0),
            ]
        )
        assert broker.client(8) >> fetch_of_groups("h", "g", "nobody") << answer

    def test_no_group(self, broker: InProcessBroker) -> None:
        assert broker.client(8) >> OffsetFetchRequest() << OffsetFetchResponse()

    def test_by_id(self, broker: InProcessBroker) -> None:
        topic_id = broker.create_topic("t")
        broker.client(9).ask(commit_of(("t", 0, 5)))
        topics = [
            OffsetFetchRequest.OffsetFetchRequestTopics(topic_id=UNKNOWN_ID, partition_indexes=[0]),
            OffsetFetchRequest.OffsetFetchRequestTopics(topic_id=topic_id, partition_indexes=[0]),
        ]
        known = Like(topic_id=topic_id, partitions=[Like(committed_offset=5, error_code=0)])
        unknown = Like(
            topic_id=UNKNOWN_ID, partitions=[Like(committed_offset=-1, error_code=UNKNOWN_TOPIC_ID)]
        )
        answer = Like(groups=[Like(topics=[known, unknown])])
        assert broker.client(10) >> fetch_of_groups("g", topics=topics) << answer
        assert broker.client(10) >> fetch_of_groups("g") << Like(groups=[Like(topics=[known])])


class TestWithoutTheOffsetsTopic:
    @pytest.fixture
    def bare(self, tmp_path: Path) -> Iterator[InProcessBroker]:
        broker = InProcessBroker(tmp_path)
        broker.create_topic("t")
        yield broker
        broker.kill()

    def test_commits(self, bare: InProcessBroker) -> None:
        code = ErrorCode.NOT_COORDINATOR
        assert bare.client(9) >> commit_of(("t", 0, 5)) << committed(("t", 0, code))

    def test_fetches(self, bare: InProcessBroker) -> None:
        code = ErrorCode.NOT_COORDINATOR
        in_partitions = Like(topics=[Like(partitions=[Like(committed_offset=-1, error_code=code)])])
        assert bare.client(1) >> fetch_of(("t", 0)) << in_partitions
        assert bare.client(2) >> fetch_of(("t", 0)) << Like(topics=[], error_code=code)
        assert bare.client(8) >> fetch_of_groups("g") << Like(groups=[Like(topics=[], error_code=code)])

    def test_deletions(self, bare: InProcessBroker) -> None:
        answer = OffsetDeleteResponse(error_code=ErrorCode.NOT_COORDINATOR)
        assert bare.client(0) >> OffsetDeleteRequest(group_id="g") << answer


class TestOffsetDelete:
    def request(self, *partitions: tuple[str, int], group_id: str = "g") -> OffsetDeleteRequest:
        return OffsetDeleteRequest(
            group_id=group_id,
            topics=[
                OffsetDeleteRequest.OffsetDeleteRequestTopic(
                    name=name,
                    partitions=[OffsetDeleteRequest.OffsetDeleteRequestPartition(partition_index=index)],
                )
                for name, index in partitions
            ],
        )

    def test_deleted_offsets_are_gone(self, broker: InProcessBroker) -> None:
        broker.create_topic("t")
        broker.client(9).ask(commit_of(("t", 0, 5)))
        answer = Like(
            error_code=0,
            topics=[
                Like(name="u", partitions=[Like(partition_index=0, error_code=UNKNOWN)]),
                Like(name="t", partitions=[Like(partition_index=0, error_code=0)]),
            ],
        )
        assert broker.client(0) >> self.request(("t", 0), ("u", 0)) << answer
        assert offset(broker) == -1

    def test_a_group_that_is_not_there(self, broker: InProcessBroker) -> None:
        answer = OffsetDeleteResponse(error_code=ErrorCode.GROUP_ID_NOT_FOUND)
        assert broker.client(0) >> self.request(("u", 0)) << answer

    def test_no_group(self, broker: InProcessBroker) -> None:
        answer = OffsetDeleteResponse(error_code=ErrorCode.INVALID_GROUP_ID)
        assert broker.client(0) >> self.request(group_id="") << answer


class TestTxnOffsetCommit:
    def request(self, *partitions: tuple[str, int, int], **fields: Any) -> TxnOffsetCommitRequest:
        return TxnOffsetCommitRequest(
            **{"group_id": "g", "transactional_id": "x", "producer_id": 7, "producer_epoch": 0, **fields},
            topics=[
                TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic(
                    name=name,
                    partitions=[
                        TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition(
                            partition_index=index, committed_offset=at, committed_metadata=""
                        )
                    ],
                )
                for name, index, at in partitions
            ],
        )

    def test_no_group(self, broker: InProcessBroker) -> None:
        broker.create_topic("t")
        answer = committed(("t", 0, ErrorCode.INVALID_GROUP_ID))
        assert broker.client(5) >> self.request(("t", 0, 5), group_id="") << answer

    def test_nothing_of_it_exists(self, broker: InProcessBroker) -> None:
        assert broker.client(5) >> self.request(("t", 0, 5)) << committed(("t", 0, UNKNOWN))

    def test_offsets_take_effect_when_the_transaction_is_committed(self, broker: InProcessBroker) -> None:
        broker.create_topic("t")
        broker.client(9).ask(commit_of(("t", 0, 5)))
        broker.client(version=4).ask(FindCoordinatorRequest(coordinator_keys=["x"], key_type=1))
        given: Any = broker.client(5).ask(
            InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=60_000)
        )
        assert given.error_code == 0
        who = {"producer_id": given.producer_id, "producer_epoch": given.producer_epoch}
        assert broker.client(5) >> self.request(("t", 0, 50), **who) << committed(("t", 0, 0))
        stable = fetch_of(("t", 0), require_stable=True)
        code = ErrorCode.UNSTABLE_OFFSET_COMMIT
        unstable = Like(topics=[Like(partitions=[Like(committed_offset=-1, error_code=code)])])
        assert broker.client(7) >> stable << unstable
        assert offset(broker) == 5
        ended = EndTxnRequest(transactional_id="x", committed=True, **who)
        assert broker.client(5) >> ended << Like(error_code=0)
        broker.timer.advance(1)
        settled = Like(topics=[Like(partitions=[Like(committed_offset=50, error_code=0)])])
        assert broker.client(7) >> stable << settled


# ---- authorization


G, T, X = AclResourceType.GROUP, AclResourceType.TOPIC, AclResourceType.TRANSACTIONAL_ID
DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED


@pytest.fixture
def guarded_topics(guarded: GuardedBroker) -> GuardedBroker:
    """With a topic that may be read and described, and one that may not."""
    guarded.admin(version=4).ask(FindCoordinatorRequest(coordinator_keys=["g"]))
    for name in ("seen", "hidden"):
        guarded.create_topic(name)
    guarded.allow(AclOperation.READ, T, "seen")
    return guarded


COMMIT = commit_of(("hidden", 0, 1), ("seen", 0, 1), ("absent", 0, 1))


def test_commits_need_the_group_and_each_topic(guarded_topics: GuardedBroker) -> None:
    client, no_group = guarded_topics.client(version=8), ErrorCode.GROUP_AUTHORIZATION_FAILED
    assert (
        client >> COMMIT << committed(("hidden", 0, no_group), ("seen", 0, no_group), ("absent", 0, no_group))
    )
    guarded_topics.allow(AclOperation.READ, G, "g")
    assert client >> COMMIT << committed(("hidden", 0, DENIED), ("absent", 0, DENIED), ("seen", 0, 0))


def test_commits_by_id_are_denied_by_name_and_unknown_ids_come_first(guarded_topics: GuardedBroker) -> None:
    guarded_topics.allow(AclOperation.READ, G, "g")
    hidden = guarded_topics.broker.image.topics["hidden"].topic_id
    client = guarded_topics.client(version=10)
    denied = Like(topics=[Like(topic_id=hidden, partitions=[Like(error_code=DENIED)])])
    assert client >> commit_of(("", 0, 1), topic_id=hidden) << denied
    unknown = Like(topics=[Like(topic_id=UNKNOWN_ID, partitions=[Like(error_code=UNKNOWN_TOPIC_ID)])])
    assert client >> commit_of(("", 0, 1), topic_id=UNKNOWN_ID) << unknown


def fetching(version: int, *names: str) -> OffsetFetchRequest:
    if version < 8:
        topics = [
            OffsetFetchRequest.OffsetFetchRequestTopic(name=name, partition_indexes=[0]) for name in names
        ]
        return OffsetFetchRequest(group_id="g", topics=topics or None)
    wanted = [OffsetFetchRequest.OffsetFetchRequestTopics(name=name, partition_indexes=[0]) for name in names]
    group = OffsetFetchRequest.OffsetFetchRequestGroup(group_id="g", topics=wanted or None)
    return OffsetFetchRequest(groups=[group])


def test_offsets_are_shown_of_groups_and_topics_that_may_be_described(guarded_topics: GuardedBroker) -> None:
    done = committed(("seen", 0, 0), ("hidden", 0, 0))
    assert guarded_topics.admin(version=8) >> commit_of(("seen", 0, 1), ("hidden", 0, 1)) << done
    client, no_group = guarded_topics.client(version=8), ErrorCode.GROUP_AUTHORIZATION_FAILED
    assert client >> fetching(8, "seen") << Like(groups=[Like(error_code=no_group, topics=[])])
    of_old = Like(topics=[Like(partitions=[Like(error_code=no_group)])])
    assert guarded_topics.client(version=1) >> fetching(1, "seen") << of_old
    guarded_topics.allow(AclOperation.DESCRIBE, G, "g")
    seen = Like(name="seen", partitions=[Like(committed_offset=1)])
    hidden = Like(name="hidden", partitions=[Like(error_code=DENIED, committed_offset=-1)])
    assert client >> fetching(8, "hidden", "seen") << Like(groups=[Like(topics=[seen, hidden])])
    assert client >> fetching(8) << Like(groups=[Like(error_code=0, topics=[seen])])


def test_offsets_are_deleted_with_the_group_and_each_topic(guarded_topics: GuardedBroker) -> None:
    part = OffsetDeleteRequest.OffsetDeleteRequestPartition(partition_index=0)
    topics = [
        OffsetDeleteRequest.OffsetDeleteRequestTopic(name=name, partitions=[part])
        for name in ("hidden", "seen")
    ]
    asked, client = OffsetDeleteRequest(group_id="g", topics=topics), guarded_topics.client(version=0)
    assert client >> asked << Like(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED, topics=[])
    guarded_topics.admin(version=8).ask(commit_of(("seen", 0, 1)))
    guarded_topics.allow(AclOperation.DELETE, G, "g")
    results = [
        Like(name="hidden", partitions=[Like(error_code=DENIED)]),
        Like(name="seen", partitions=[Like(error_code=0)]),
    ]
    assert client >> asked << Like(error_code=0, topics=results)


def test_commits_in_transactions_need_the_id_the_group_and_each_topic(guarded_topics: GuardedBroker) -> None:
    part = TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=1)
    topic = TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic(name="hidden", partitions=[part])
    asked = TxnOffsetCommitRequest(transactional_id="x", group_id="g", topics=[topic])
    client = guarded_topics.client(version=3)

    def refused(code: ErrorCode) -> Like:
        return Like(topics=[Like(name="hidden", partitions=[Like(partition_index=0, error_code=code)])])

    assert client >> asked << refused(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    guarded_topics.allow(AclOperation.WRITE, X, "x")
    assert client >> asked << refused(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    guarded_topics.allow(AclOperation.READ, G, "g")
    assert client >> asked << refused(DENIED)
