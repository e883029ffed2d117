"""BrokerChannels: which brokers a coordinator reaches."""

from __future__ import annotations

from barnabas.broker.coordinator.transaction.broker_channels import BrokerChannels, error_of
from barnabas.protocol.errors import ErrorCode
from tests.broker.cluster_images import INSIDE, OUTSIDE, image_of, registration
from tests.broker.fake_channels import FakeChannels


def test_a_broker_is_reached_while_it_is_alive_on_the_listener() -> None:
    image = image_of(registration(2), registration(3, fenced=True), registration(4, listeners=[OUTSIDE]))
    channels = FakeChannels()
    brokers = BrokerChannels(1, lambda: image, INSIDE, channels.to, lambda: 30_000)
    assert [brokers.alive(node_id) for node_id in (1, 2, 3, 4, 5)] == [1, 2, None, None, None]
    assert brokers.channel(2) is channels[2]
    assert [brokers.channel(node_id) for node_id in (3, 4, 5)] == [None] * 3
    channels.missing.add(2)
    assert brokers.channel(2) is None


def test_an_unknown_code_is_an_error() -> None:
    assert error_of(0) is ErrorCode.NONE
    assert error_of(32_000) is ErrorCode.UNKNOWN_SERVER_ERROR
