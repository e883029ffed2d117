"""The metrics of a member of a cluster: its state, its replicas on other brokers, and what it fetches.

Source: the MBeans of kafka.server.BrokerServer, BrokerTopicMetrics, ReplicaManager, ReplicaFetcherManager,
FetcherLagMetrics, FetcherStats, LeaderReplication, FollowerReplication, ForwardingManager, AssignmentsManager.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

from barnabas.broker.metrics.families import (
    BROKER_METADATA_PREFIX,
    METADATA_LOADER_PREFIX,
    RAFT_PREFIX,
    TOPIC_PREFIX,
)

if TYPE_CHECKING:
    from barnabas.broker.fetch.leader_throttle import LeaderThrottle
    from barnabas.broker.membership.directory_assignment import DirectoryAssignments
    from barnabas.broker.membership.forwarding import ForwardingProbe
    from barnabas.broker.membership.lifecycle import BrokerLifecycleManager
    from barnabas.broker.metadata.observed_image import ObservedImage
    from barnabas.broker.metrics.prometheus import Distribution, Metrics, Sample
    from barnabas.broker.probes import RecentTimes
    from barnabas.broker.replica.fetcher.manager import ReplicaFetcherManager
    from barnabas.broker.replica.fetcher.throttle import FollowerThrottle
    from barnabas.broker.replica.isr import LeaderContext


class MemberParts(Protocol):
    """The parts of a member that are measured."""

    @property
    def leader_context(self) -> LeaderContext: ...

    @property
    def leader_throttle(self) -> LeaderThrottle: ...

    @property
    def follower_throttle(self) -> FollowerThrottle: ...

    @property
    def metadata_records_rate(self) -> float: ...

    @property
    def observed(self) -> ObservedImage: ...

    @property
    def reassigning_partitions(self) -> int: ...

    @property
    def fetchers(self) -> ReplicaFetcherManager: ...

    @property
    def directory_assignments(self) -> DirectoryAssignments: ...

    @property
    def forwarding_probe(self) -> ForwardingProbe: ...


def _lags(parts: MemberParts) -> Iterator[Sample]:
    for client_id, (topic, partition), lag in parts.fetchers.lags():
        yield (client_id, topic, str(partition)), lag


def _requests(parts: MemberParts) -> Iterator[Sample]:
    for fetcher in parts.fetchers.figures():
        yield (fetcher.client_id, fetcher.host, str(fetcher.port)), fetcher.requests


def _bytes(parts: MemberParts) -> Iterator[Sample]:
    for fetcher in parts.fetchers.figures():
        yield (fetcher.client_id, fetcher.host, str(fetcher.port)), fetcher.bytes


def _heartbeat_age(lifecycle: BrokerLifecycleManager) -> list[Sample]:
    age_s = lifecycle.heartbeat_age_s
    return [] if age_s is None else [((), age_s)]


_ACTIVE_CONTROLLERS: Final = "kafka_controller_kafkacontroller_activecontrollercount"
_APPLIED_LAG: Final = f"{BROKER_METADATA_PREFIX}_last_applied_record_lag_ms"
_HEARTBEAT_AGE: Final = "barnabas_cluster_heartbeat_age_seconds"
_VALUES: Final[Mapping[str, Callable[[BrokerLifecycleManager, MemberParts], float]]] = {
    "kafka_server_kafkaserver_brokerstate": lambda lifecycle, _: lifecycle.state,
    f"{RAFT_PREFIX}_fetch_records_rate": lambda _, parts: parts.metadata_records_rate,
    f"{BROKER_METADATA_PREFIX}_last_applied_record_timestamp": (
        lambda _, parts: parts.observed.published_timestamp_ms
    ),
    f"{BROKER_METADATA_PREFIX}_metadata_load_error_count": lambda _, parts: parts.observed.load_errors,
    f"{METADATA_LOADER_PREFIX}_handleloadsnapshotcount": lambda _, parts: parts.observed.loaded_snapshots,
    "kafka_server_replicamanager_isrshrinks_total": lambda _, parts: parts.leader_context.shrinks,
    "kafka_server_replicamanager_isrexpands_total": lambda _, parts: parts.leader_context.expands,
    "kafka_server_replicamanager_failedisrupdates_total": lambda _, parts: parts.leader_context.failed,
    "kafka_server_replicamanager_reassigningpartitions": lambda _, parts: parts.reassigning_partitions,
    f"{TOPIC_PREFIX}_replicationbytesin_total": lambda _, parts: parts.leader_context.traffic.bytes_in,
    f"{TOPIC_PREFIX}_replicationbytesout_total": lambda _, parts: parts.leader_context.traffic.bytes_out,
    f"{TOPIC_PREFIX}_reassignmentbytesin_total": (
        lambda _, parts: parts.leader_context.traffic.reassignment_bytes_in
    ),
    f"{TOPIC_PREFIX}_reassignmentbytesout_total": (
        lambda _, parts: parts.leader_context.traffic.reassignment_bytes_out
    ),
    "kafka_server_leaderreplication_byte_rate": lambda _, parts: parts.leader_throttle.byte_rate,
    "kafka_server_followerreplication_byte_rate": lambda _, parts: parts.follower_throttle.byte_rate,
    "kafka_server_replicafetchermanager_maxlag": lambda _, parts: parts.fetchers.max_lag,
    "kafka_server_replicafetchermanager_minfetchrate": lambda _, parts: parts.fetchers.min_fetch_rate,
    "kafka_server_replicafetchermanager_failedpartitionscount": (
        lambda _, parts: parts.fetchers.failed_partitions_count
    ),
    "kafka_server_replicafetchermanager_deadthreadcount": lambda _, parts: 0,
    "kafka_server_forwardingmanager_queuelength": lambda _, parts: parts.forwarding_probe.queue_length,
    "kafka_server_assignmentsmanager_queuedreplicatodirassignments": (
        lambda _, parts: parts.directory_assignments.unacknowledged
    ),
}
_SAMPLES: Final[Mapping[str, Callable[[MemberParts], Iterator[Sample]]]] = {
    "kafka_server_fetcherlagmetrics_consumerlag": _lags,
    "kafka_server_fetcherstats_requests_total": _requests,
    "kafka_server_fetcherstats_bytes_total": _bytes,
}
_TIMES: Final[Mapping[str, Callable[[MemberParts], RecentTimes]]] = {
    "kafka_server_forwardingmanager_queuetimems": lambda parts: parts.forwarding_probe.queue,
    "kafka_server_forwardingmanager_remotetimems": lambda parts: parts.forwarding_probe.remote,
}
MEMBER_FAMILIES: Final = frozenset((_APPLIED_LAG, _HEARTBEAT_AGE, *_VALUES, *_SAMPLES, *_TIMES))
"""The metrics that a node that is alone does not have."""


def add_member(
    metrics: Metrics, lifecycle: BrokerLifecycleManager, parts: MemberParts, now_ms: Callable[[], int]
) -> None:
    """Adds the sources; counts rise from the start of the broker on, those of a fetcher from its own.

    `now_ms` is the wall clock, by which the controller's records have their timestamps.
    """
    metrics.add_value(_APPLIED_LAG, lambda: now_ms() - parts.observed.published_timestamp_ms)
    metrics.add_value(_ACTIVE_CONTROLLERS, lambda: 0)
    metrics.add(_HEARTBEAT_AGE, partial(_heartbeat_age, lifecycle))
    for name, read in _VALUES.items():
        metrics.add_value(name, partial(read, lifecycle, parts))
    for name, source in _SAMPLES.items():
        metrics.add(name, partial(source, parts))
    for name, times_of in _TIMES.items():
        metrics.add(name, partial(_distribution, times_of, parts))


def _distribution(times_of: Callable[[MemberParts], RecentTimes], parts: MemberParts) -> list[Distribution]:
    times = times_of(parts)
    return [((), times.count, times.values())]
