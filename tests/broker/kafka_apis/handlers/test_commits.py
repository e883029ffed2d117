"""OffsetCommit, OffsetFetch, OffsetDelete and TxnOffsetCommit, with encoded requests to a whole broker."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from barnabas.protocol.errors import ErrorCode
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
