"""BrokerFetchers: has the partitions that this broker follows fetched from the endpoints that the metadata name."""

from __future__ import annotations

from collections.abc import Iterable

from barnabas.broker.metadata.cluster import BrokerRegistration
from barnabas.broker.node_client.address import NodeAddress
from barnabas.broker.replica.fetcher.fetch_state import InitialFetchState
from barnabas.broker.replica.fetcher.manager import ReplicaFetcherManager
from barnabas.broker.replica.partition import Partition
from barnabas.storage.offsets import TopicPartition


class BrokerFetchers:
    """`Fetchers` of ReplicaRoles over the ReplicaFetcherManager; `listener` is inter.broker.listener.name."""

    def __init__(self, fetchers: ReplicaFetcherManager, listener: str) -> None:
        self._fetchers = fetchers
        self._listener = listener

    def add(self, partition: Partition, leader: BrokerRegistration, offset: int) -> bool:
        at = leader.listeners.get(self._listener)
        if at is None:
            return False
        address = NodeAddress(at.host, at.port)
        initial = InitialFetchState(leader.broker_id, address, partition.leader_epoch, offset)
        self._fetchers.add(partition, initial)
        return True

    def remove(self, keys: Iterable[TopicPartition]) -> None:
        self._fetchers.remove(keys)

    def close_idle(self) -> None:
        self._fetchers.close_idle()
