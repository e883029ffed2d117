"""ReplicaFetcherManager: the fetchers of this broker, and which of them fetches which partition.

A partition belongs to one of num.replica.fetchers fetchers of its leader, by its topic and its index, as in Kafka.
Source: kafka.server.AbstractFetcherManager, ReplicaFetcherManager.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from barnabas.broker.metadata.internal_topics import abs_of_java, java_hash
from barnabas.broker.node_client.address import NodeAddress
from barnabas.broker.node_client.channel import NodeChannel
from barnabas.broker.replica.fetcher.fetch_state import InitialFetchState
from barnabas.broker.replica.fetcher.fetcher import FetcherConfig, ReplicaFetcher
from barnabas.broker.replica.fetcher.ports import FollowedLog, FollowerEvents, FollowerQuota
from barnabas.broker.replica.fetcher.stats import FetcherFigures, LagFigure
from barnabas.broker.waiting.timer import Timer
from barnabas.storage.offsets import TopicPartition

FetcherKey = tuple[int, int]
"""The leader's id and the number of the fetcher."""


def fetcher_number(key: TopicPartition, count: int) -> int:
    """Which of `count` fetchers fetches the partition."""
    topic, partition = key
    number = (31 * java_hash(topic) + partition) & 0xFFFFFFFF
    return abs_of_java(number - (1 << 32) if number >= 1 << 31 else number) % count


class ReplicaFetcherManager:
    """All fetchers. `channel_to_broker` opens a connection; `count` is num.replica.fetchers."""

    def __init__(
        self,
        channel_to_broker: Callable[[NodeAddress], NodeChannel],
        timer: Timer,
        config: FetcherConfig,
        *,
        events: FollowerEvents,
        quota: FollowerQuota,
        count: int,
    ) -> None:
        self._connect = channel_to_broker
        self._timer = timer
        self._config = config
        self._events = events
        self._quota = quota
        self._count = count
        self._fetchers: dict[FetcherKey, ReplicaFetcher] = {}
        self._places: dict[TopicPartition, FetcherKey] = {}
        self._failed: set[TopicPartition] = set()

    # ---- the partitions

    def add(self, partition: FollowedLog, initial: InitialFetchState) -> None:
        """Fetches a partition from now on; a new leader or leader epoch replaces the one before."""
        key = partition.key
        self._failed.discard(key)
        place = initial.leader_id, fetcher_number(key, self._count)
        if self._places.get(key, place) != place:
            self.remove([key])
        self._places[key] = place
        self._fetcher(place, initial.address).add(partition, initial.leader_epoch, initial.offset)

    def remove(self, keys: Iterable[TopicPartition]) -> None:
        """Fetches these partitions no more. Nothing is appended to them, nor truncated, from the return on, but for
        a truncation that is under way (`is_truncating`)."""
        for key in keys:
            self._failed.discard(key)
            place = self._places.pop(key, None)
            if place is not None:
                self._fetchers[place].remove(key)

    def wake(self) -> None:
        """Has all fetchers look for something to do: a quota, say, has changed."""
        for fetcher in self._fetchers.values():
            fetcher.wake()

    def close_idle(self) -> None:
        """Closes the fetchers that have no partitions; called after each image."""
        for place, fetcher in list(self._fetchers.items()):
            if fetcher.is_empty and not any(at == place for at in self._places.values()):
                fetcher.close()
                del self._fetchers[place]

    def resize(self, count: int) -> None:
        """num.replica.fetchers has changed: the partitions move to other fetchers, with their states."""
        if count == self._count:
            return
        self._count = count
        before, self._fetchers = self._fetchers, {}
        for (leader_id, _), fetcher in before.items():
            for state in list(fetcher.states):
                fetcher.remove(state.key)
                place = leader_id, fetcher_number(state.key, count)
                self._places[state.key] = place
                self._fetcher(place, fetcher.address).put(state)
            fetcher.close()
        self._places = {key: place for key, place in self._places.items() if place in self._fetchers}

    def close(self) -> None:
        """Closes all fetchers, at the end of the broker."""
        for fetcher in self._fetchers.values():
            fetcher.close()
        self._fetchers.clear()
        self._places.clear()

    def _fetcher(self, place: FetcherKey, address: NodeAddress) -> ReplicaFetcher:
        known = self._fetchers.get(place)
        if known is not None and known.address == address:
            return known
        leader_id, number = place
        fetcher = self._fetchers[place] = ReplicaFetcher(
            f"ReplicaFetcherThread-{number}-{leader_id}",
            address,
            connect=self._connect,
            config=self._config,
            timer=self._timer,
            events=self._events,
            quota=self._quota,
            failed=self._failed,
        )
        if known is not None:  # the leader has moved: its partitions go with it
            for state in list(known.states):
                known.remove(state.key)
                fetcher.put(state)
            known.close()
        return fetcher

    # ---- metrics

    @property
    def max_lag(self) -> int:
        """MaxLag: the records by which the partition furthest behind lags; 0 where nothing is known."""
        return max((figure.lag for figure in self.lags()), default=0)

    @property
    def min_fetch_rate(self) -> float:
        """MinFetchRate: the requests a second of the slowest fetcher over the last minute; 0 without fetchers."""
        return min((fetcher.request_rate.value for fetcher in self._fetchers.values()), default=0.0)

    @property
    def failed_partitions_count(self) -> int:
        return len(self._failed)

    @property
    def failed_partitions(self) -> frozenset[TopicPartition]:
        return frozenset(self._failed)

    def lags(self) -> Iterator[LagFigure]:
        """ConsumerLag of FetcherLagMetrics, for each partition that has been answered for.

        May be iterated while partitions come and go.
        """
        for fetcher in list(self._fetchers.values()):
            for state in list(fetcher.states):
                if state.lag is not None:
                    yield LagFigure(fetcher.client_id, state.key, state.lag)

    def figures(self) -> Iterator[FetcherFigures]:
        """FetcherStats: RequestsPerSec and BytesPerSec, as counts. May be iterated while fetchers come and go."""
        for fetcher in list(self._fetchers.values()):
            yield FetcherFigures(
                fetcher.client_id, *fetcher.address, fetcher.request_count, fetcher.byte_count
            )
