"""Producer ids of a member of a cluster: blocks, prefetching, retries."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.broker.membership.controller_channel import ChannelClosed, ChannelError, DeadlineExpired
from barnabas.broker.membership.producer_ids import RpcProducerIdManager
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.cluster import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from barnabas.protocol.schema import Message
from tests.broker.fakes import ManualTimer
from tests.broker.membership.fake_submit import FakeSubmit


class Ids:
    def __init__(self) -> None:
        self.timer = ManualTimer()
        self.controller = FakeSubmit()
        self.epoch = 5
        self.manager = RpcProducerIdManager(
            self.controller, self.timer, node_id=3, broker_epoch=lambda: self.epoch
        )

    def generate(self, count: int = 1) -> list[int | None]:
        given: list[int | None] = []
        for _ in range(count):
            self.manager.generate().add_done_callback(given.append)
        return given


def block(first: int, count: int = 1000) -> AllocateProducerIdsResponse:
    return AllocateProducerIdsResponse(producer_id_start=first, producer_id_len=count)


def test_without_a_block_clients_have_to_ask_again() -> None:
    ids = Ids()
    assert ids.generate(3) == [None] * 3
    assert ids.controller.under_way == len(ids.controller.submitted) == 1
    assert ids.controller.last(AllocateProducerIdsRequest) == AllocateProducerIdsRequest(
        broker_id=3, broker_epoch=5
    )
    ids.controller.respond(block(2000))
    assert ids.generate(3) == [2000, 2001, 2002]


def test_the_next_block_is_asked_for_when_90_percent_are_used() -> None:
    ids = Ids()
    ids.generate()
    ids.controller.respond(block(0))
    ids.generate(899)
    assert ids.controller.under_way == 0
    ids.generate()
    assert ids.controller.under_way == 1
    assert ids.generate(101) == [*range(900, 1000), None]  # the controller is slow
    ids.controller.respond(block(7000))
    assert ids.generate() == [7000]


@pytest.mark.parametrize(
    "trouble",
    [
        AllocateProducerIdsResponse(error_code=ErrorCode.STALE_BROKER_EPOCH),
        DeadlineExpired("too late"),
        ChannelClosed("stopping"),
        block(-1),
        block(5, 0),
    ],
)
def test_after_a_failure_the_next_request_waits_50_ms_and_has_the_new_epoch(
    trouble: Message | ChannelError,
) -> None:
    ids = Ids()
    ids.generate()
    ids.controller.respond(trouble)
    ids.epoch = 6
    assert ids.generate(2) == [None, None]
    assert len(ids.controller.submitted) == 1
    ids.timer.advance(0.051)
    ids.generate()
    assert ids.controller.last(AllocateProducerIdsRequest).broker_epoch == 6
    ids.controller.respond(block(10))
    assert ids.generate() == [10]


@given(steps=st.lists(st.integers(-1, 30), max_size=60))
def test_no_id_is_given_twice(steps: list[int]) -> None:
    ids, first, given_ids = Ids(), 0, list[int]()
    for step in steps:
        if step >= 0:
            given_ids += [each for each in ids.generate(step) if each is not None]
        elif ids.controller.under_way:
            ids.controller.respond(block(first, 20))
            first += 100
    assert len(set(given_ids)) == len(given_ids)
    assert given_ids == sorted(given_ids)
    assert all(each % 100 < 20 for each in given_ids)
