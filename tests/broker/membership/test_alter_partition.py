"""Changes of ISRs on their way to the controller."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.broker.membership.alter_partition import AlterPartitionManager
from barnabas.broker.membership.controller_channel import ChannelClosed, ChannelError
from barnabas.broker.node_client.channel import UnsupportedVersion
from barnabas.broker.replica.isr import IsrChangeResult, IsrProposal
from barnabas.protocol.codec import decode, encode
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.cluster import AlterPartitionRequest, AlterPartitionResponse
from barnabas.protocol.schema import Message
from barnabas.protocol.wire import Uuid
from tests.broker.fakes import ManualTimer
from tests.broker.membership.fake_submit import FakeSubmit

T, U = Uuid(bytes(15) + b"\7"), Uuid(bytes(15) + b"\x08")


def proposal(partition: int = 0, topic: Uuid = T, epoch: int = 4) -> IsrProposal:
    return IsrProposal(topic, partition, 2, epoch, ((1, 10), (2, -1)))


def response(*parts: tuple[Uuid, int, int]) -> AlterPartitionResponse:
    """Of partitions (topic, number, error code)."""
    return AlterPartitionResponse(
        topics=[
            AlterPartitionResponse.TopicData(
                topic_id=topic,
                partitions=[
                    AlterPartitionResponse.PartitionData(
                        partition_index=number,
                        error_code=code,
                        leader_id=1,
                        leader_epoch=2,
                        isr=[1, 2],
                        partition_epoch=5,
                    )
                ],
            )
            for topic, number, code in parts
        ]
    )


class Manager:
    def __init__(self) -> None:
        self.timer = ManualTimer()
        self.controller = FakeSubmit()
        self.epoch = 10
        self.manager = AlterPartitionManager(
            self.controller, self.timer, node_id=1, broker_epoch=lambda: self.epoch
        )

    def submit(self, change: IsrProposal) -> list[IsrChangeResult]:
        results: list[IsrChangeResult] = []
        self.manager.submit(change).add_done_callback(results.append)
        return results

    def turn(self) -> None:
        self.timer.advance(0)

    def asked(self) -> list[tuple[Uuid, int]]:
        """The partitions in the last request."""
        topics = self.controller.last(AlterPartitionRequest).topics
        return [(topic.topic_id, part.partition_index) for topic in topics for part in topic.partitions]


GRANTED = IsrChangeResult(ErrorCode.NONE, 2, 5, (1, 2))


def test_changes_that_are_found_together_go_together() -> None:
    m = Manager()
    results = [m.submit(proposal(0)), m.submit(proposal(1)), m.submit(proposal(0, U))]
    m.turn()
    request = m.controller.last(AlterPartitionRequest)
    assert (request.broker_id, request.broker_epoch) == (1, 10)
    assert m.asked() == [(T, 0), (T, 1), (U, 0)]
    assert m.controller.submitted[0].deadline_ms is None  # never dropped
    part = decode(AlterPartitionRequest, 3, encode(request, 3)).topics[0].partitions[0]
    assert (part.leader_epoch, part.partition_epoch, part.leader_recovery_state) == (2, 4, 0)
    assert [(state.broker_id, state.broker_epoch) for state in part.new_isr_with_epochs] == [(1, 10), (2, -1)]
    m.controller.respond(response((T, 0, 0), (T, 1, ErrorCode.INELIGIBLE_REPLICA), (U, 0, 0)))
    assert results[0] == results[2] == [GRANTED]
    assert results[1][0].error is ErrorCode.INELIGIBLE_REPLICA
    assert m.manager.unanswered == 0
    m.timer.advance(10)
    assert len(m.controller.submitted) == 1


def test_a_change_that_comes_while_a_request_is_under_way_goes_with_the_next() -> None:
    m = Manager()
    m.submit(proposal(0))
    m.turn()
    late = m.submit(proposal(1))
    m.timer.advance(60)
    assert len(m.controller.submitted) == 1
    m.controller.respond(response((T, 0, 0)))
    m.turn()
    assert m.asked() == [(T, 1)]
    m.controller.respond(response((T, 1, 0)))
    assert late == [GRANTED]


def test_one_change_of_a_partition_at_a_time() -> None:
    m = Manager()
    first = m.submit(proposal())
    second = m.submit(proposal(epoch=5))
    assert second == []  # never before submit returns
    m.turn()
    assert second == [IsrChangeResult(ErrorCode.OPERATION_NOT_ATTEMPTED)]
    m.controller.respond(response((T, 0, 0)))
    assert first == [GRANTED]
    m.submit(proposal(epoch=5))
    m.turn()
    assert m.controller.last(AlterPartitionRequest).topics[0].partitions[0].partition_epoch == 5


@pytest.mark.parametrize(
    "trouble",
    [
        AlterPartitionResponse(error_code=ErrorCode.STALE_BROKER_EPOCH),
        AlterPartitionResponse(error_code=9999),
        UnsupportedVersion("too old"),
    ],
)
def test_what_is_rejected_as_a_whole_is_sent_again_after_50_ms(trouble: Message | ChannelError) -> None:
    m = Manager()
    results = m.submit(proposal())
    m.turn()
    m.controller.respond(trouble)
    m.epoch = 11
    other = m.submit(proposal(1))
    m.timer.advance(0.049)
    assert len(m.controller.submitted) == 1
    m.timer.advance(0.002)
    assert m.controller.last(AlterPartitionRequest).broker_epoch == 11
    assert m.asked() == [(T, 0), (T, 1)]
    m.controller.respond(response((T, 0, 0), (T, 1, 0)))
    assert results == other == [GRANTED]


def test_a_partition_that_the_response_leaves_out_is_sent_again() -> None:
    m = Manager()
    results = m.submit(proposal(0)), m.submit(proposal(1))
    m.turn()
    m.controller.respond(response((T, 1, 0), (U, 5, 0)))
    assert results == ([], [GRANTED])
    m.turn()
    assert m.asked() == [(T, 0)]


def test_errors_of_a_later_kafka_are_unknown_errors() -> None:
    m = Manager()
    results = m.submit(proposal())
    m.turn()
    m.controller.respond(response((T, 0, 9999)))
    assert results[0].error is ErrorCode.UNKNOWN_SERVER_ERROR


def test_a_result_may_lead_to_the_next_change_at_once() -> None:
    m = Manager()
    again: list[IsrChangeResult] = []
    m.manager.submit(proposal()).add_done_callback(lambda _: again.extend(m.submit(proposal(epoch=5))))
    m.turn()
    m.controller.respond(response((T, 0, ErrorCode.UNKNOWN_SERVER_ERROR)))
    m.turn()
    assert len(m.controller.submitted) == 2
    assert m.asked() == [(T, 0)]


def test_a_channel_that_closes_ends_it() -> None:
    m = Manager()
    results = m.submit(proposal())
    m.turn()
    m.controller.respond(ChannelClosed("stopping"))
    m.submit(proposal(1))
    m.timer.advance(60)
    assert results == []
    assert len(m.controller.submitted) == 1


@given(steps=st.lists(st.sampled_from(["submit", "answer", "half", "reject", "wait"]), max_size=50))
def test_every_change_gets_one_result_and_one_request_is_under_way(steps: list[str]) -> None:
    m, results, number = Manager(), list[list[IsrChangeResult]](), 0

    def answer(count: int | None) -> None:
        if m.controller.under_way:
            m.controller.respond(response(*((topic, part, 0) for topic, part in m.asked()[:count])))

    for step in steps:
        if step == "submit":
            results.append(m.submit(proposal(number)))
            number += 1
        elif step == "answer":
            answer(None)
        elif step == "half":
            answer(1)
        elif step == "reject" and m.controller.under_way:
            m.controller.respond(AlterPartitionResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR))
        elif step == "wait":
            m.timer.advance(0.06)
        assert m.controller.under_way <= 1
        assert sum(map(len, results)) + m.manager.unanswered == number
    for _ in range(3):
        m.timer.advance(0.06)
        answer(None)
    assert results == [[GRANTED]] * number
