"""BrokerFetchers: partitions are fetched from the endpoint of their leader on the listener between brokers."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from barnabas.broker.metadata.cluster import ListenerEndpoint
from barnabas.broker.node_client.address import NodeAddress
from barnabas.broker.replica.fetcher.fetch_state import InitialFetchState
from barnabas.broker.replica.following import BrokerFetchers
from barnabas.storage.offsets import TopicPartition

PARTITION: Any = SimpleNamespace(leader_epoch=7)


class Fetchers:
    """The methods of a ReplicaFetcherManager, which note what they are called with."""

    def __init__(self) -> None:
        self.calls: list[object] = []

    def add(self, partition: object, initial: InitialFetchState) -> None:
        self.calls.append((partition, initial))

    def remove(self, keys: list[TopicPartition]) -> None:
        self.calls.append(keys)

    def close_idle(self) -> None:
        self.calls.append("close idle")


def leader(**listeners: ListenerEndpoint) -> Any:
    return SimpleNamespace(broker_id=2, listeners=listeners)


def test_a_partition_is_fetched_at_the_endpoint_of_its_leader_between_brokers() -> None:
    fetchers = Fetchers()
    following = BrokerFetchers(cast("Any", fetchers), "INTERNAL")
    at = {
        "INTERNAL": ListenerEndpoint("n2.test", 9093, 0),
        "CLIENTS": ListenerEndpoint("public.test", 9092, 0),
    }
    assert following.add(PARTITION, leader(**at), 41)
    assert fetchers.calls == [(PARTITION, InitialFetchState(2, NodeAddress("n2.test", 9093), 7, 41))]


def test_a_leader_without_that_listener_is_not_fetched_from() -> None:
    fetchers = Fetchers()
    following = BrokerFetchers(cast("Any", fetchers), "INTERNAL")
    assert not following.add(PARTITION, leader(CLIENTS=ListenerEndpoint("public.test", 9092, 0)), 41)
    assert fetchers.calls == []


def test_partitions_and_idle_fetchers_are_released() -> None:
    fetchers = Fetchers()
    following = BrokerFetchers(cast("Any", fetchers), "INTERNAL")
    following.remove([("t", 0)])
    following.close_idle()
    assert fetchers.calls == [[("t", 0)], "close idle"]
