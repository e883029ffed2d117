"""The sources of metrics: the probes, and the state of the broker's parts."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Final

from barnabas.broker.metadata.topics import NO_LEADER
from barnabas.broker.metrics.families import LISTENER_PREFIX, LOG_DIR_PREFIX, REQUEST_PREFIX, TOPIC_PREFIX
from barnabas.broker.metrics.prometheus import Distribution, Labels, Metrics, Sample
from barnabas.broker.probes import (
    FETCH_FOLLOWER,
    ApiTimes,
    BrokerTopicProbe,
    RequestProbe,
    SocketServerProbe,
    TopicCounters,
)

if TYPE_CHECKING:
    from barnabas.broker.fetch.cache import FetchSessionCache
    from barnabas.broker.fetch.delayed_fetch import FetchExpirations
    from barnabas.broker.metadata.image import MetadataImage
    from barnabas.broker.metadata.topics import PartitionImage, TopicImage
    from barnabas.broker.network.request_memory import RequestMemory
    from barnabas.broker.network.socket_server import SocketServer
    from barnabas.broker.replica.partition import Partition
    from barnabas.broker.security.auth_helper import AuthHelper
    from barnabas.broker.waiting.purgatory import DelayedOperationPurgatory
    from barnabas.storage.log.disk_space import DiskSpace

MAX_SOFTWARE_SERIES: Final = 1000
"""Names of client software are the clients' choice: those with the most connections are shown."""

_CONSUMER_FETCHES = "FetchConsumer"
_FOLLOWER_FETCHES = "FetchFollower"
"""Kafka shows fetches under one of these names too."""


# ---- traffic


def add_topics(metrics: Metrics, probe: BrokerTopicProbe) -> None:
    """Records and bytes by topic, and over all topics."""
    for metric, field in {
        "messagesin": "messages_in",
        "bytesin": "bytes_in",
        "bytesout": "bytes_out",
        "bytesrejected": "bytes_rejected",
        "totalproducerequests": "total_produce_requests",
        "totalfetchrequests": "total_fetch_requests",
        "failedproducerequests": "failed_produce_requests",
        "failedfetchrequests": "failed_fetch_requests",
        "invalidmessagecrcrecords": "invalid_message_crc_records",
        "invalidmagicnumberrecords": "invalid_magic_number_records",
        "invalidoffsetorsequencerecords": "invalid_offset_or_sequence_records",
        "nokeycompactedtopicrecords": "no_key_compacted_topic_records",
        "producemessageconversions": "produce_message_conversions",
    }.items():
        metrics.add(f"{TOPIC_PREFIX}_{metric}_total", _topic_source(probe, field))


def _topic_source(probe: BrokerTopicProbe, field: str) -> Callable[[], Iterator[Sample]]:
    def source() -> Iterator[Sample]:
        topics: list[tuple[str, TopicCounters]] = list(probe.topics.items())
        yield (), getattr(probe.all_topics(), field)
        for topic, counters in topics:
            yield (topic,), getattr(counters, field)

    return source


def add_requests(metrics: Metrics, probe: RequestProbe) -> None:
    """Requests by API: how many, and how long they took."""

    def requests() -> Iterator[Sample]:
        for name, times in _apis(probe):
            for version, count in list(times.versions.items()):
                yield (name, str(version)), count

    def errors() -> Iterator[Sample]:
        for name, times in _apis(probe):
            for error, count in list(times.errors.items()):
                yield (name, error), count

    metrics.add(f"{REQUEST_PREFIX}_requests_total", requests)
    metrics.add(f"{REQUEST_PREFIX}_errors_total", errors)
    metrics.add(f"{REQUEST_PREFIX}_totaltimems", _times(probe, _total_ms))
    metrics.add(f"{REQUEST_PREFIX}_localtimems", _times(probe, lambda local, _: _in_ms(local)))
    metrics.add(f"{REQUEST_PREFIX}_remotetimems", _times(probe, lambda _, remote: _in_ms(remote)))
    metrics.add(
        "barnabas_network_requests_refused_total",
        lambda: [((reason,), count) for reason, count in probe.refused.items()],
    )


class _AllFetches:
    """The fetches of consumers and those of followers, together."""

    def __init__(self, *times: ApiTimes) -> None:
        self._times = times

    @property
    def count(self) -> int:
        return sum(times.count for times in self._times)

    @property
    def versions(self) -> Counter[int]:
        return sum((Counter(times.versions) for times in self._times), Counter())

    @property
    def errors(self) -> Counter[str]:
        return sum((Counter(times.errors) for times in self._times), Counter())

    def windows(self) -> tuple[array[float], array[float]]:
        local, remote = array("d"), array("d")
        for times in self._times:
            its_local, its_remote = times.windows()
            local += its_local
            remote += its_remote
        return local, remote


def _apis(probe: RequestProbe) -> Iterator[tuple[str, ApiTimes | _AllFetches]]:
    """APIs by the names that Kafka gives their requests in metrics: LIST_OFFSETS is ListOffsets."""
    apis = dict(probe.apis)
    followers, consumers = apis.pop(FETCH_FOLLOWER, None), apis.get("FETCH")
    if followers is not None:
        yield _FOLLOWER_FETCHES, followers
        if consumers is None:
            yield "Fetch", followers
    for api, times in apis.items():
        name = "".join(word.capitalize() for word in api.split("_"))
        if times is consumers:
            yield _CONSUMER_FETCHES, times
            yield name, times if followers is None else _AllFetches(times, followers)
        else:
            yield name, times


def _times(
    probe: RequestProbe, values_ms: Callable[[array[float], array[float]], array[float]]
) -> Callable[[], Iterator[Distribution]]:
    def source() -> Iterator[Distribution]:
        for name, times in _apis(probe):
            if times.count:
                yield (name,), times.count, values_ms(*times.windows())

    return source


def _total_ms(local: array[float], remote: array[float]) -> array[float]:
    return array("d", [(one + other) * 1000 for one, other in zip(local, remote, strict=True)])


def _in_ms(seconds: array[float]) -> array[float]:
    return array("d", [value * 1000 for value in seconds])


def add_network(
    metrics: Metrics, probe: SocketServerProbe, server: SocketServer, memory: RequestMemory
) -> None:
    """Connections, their bytes, the event loop's idleness and its pauses, and the memory of requests."""
    rates = {
        "connection_creation_rate": "connections_created",
        "connection_close_rate": "connections_closed",
        "incoming_byte_rate": "bytes_in",
        "outgoing_byte_rate": "bytes_out",
    }
    for metric, total in rates.items():
        metrics.add(f"{LISTENER_PREFIX}_{metric}", _rate_source(probe, total))
    metrics.add(
        f"{LISTENER_PREFIX}_connection_count",
        lambda: [((name, "0"), listener.connection_count) for name, listener in probe.listeners.items()],
    )

    def software() -> Iterable[Sample]:
        counts = Counter(
            (info.client_software_name, info.client_software_version, info.listener_name)
            for info in server.connections()
        )
        return counts.most_common(MAX_SOFTWARE_SERIES)

    metrics.add(f"{LISTENER_PREFIX}_connections_software", software)
    metrics.add_value("kafka_network_socketserver_networkprocessoravgidlepercent", lambda: probe.idle_ratio)
    metrics.add_value(
        "kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent", lambda: probe.idle_ratio
    )
    metrics.add_value("barnabas_event_loop_longest_pause_seconds", lambda: probe.pause.seconds)
    metrics.add_value("kafka_network_requestchannel_requestqueuesize", lambda: server.request_queue_size)
    metrics.add_value("barnabas_network_request_memory_bytes", lambda: memory.used_bytes)
    metrics.add_value("barnabas_network_request_memory_limit_bytes", lambda: memory.limit_bytes)
    metrics.add_value("barnabas_network_request_memory_waiting_connections", lambda: memory.waiting)


def _rate_source(probe: SocketServerProbe, total: str) -> Callable[[], list[Sample]]:
    return lambda: [((name, "0"), listener.per_second(total)) for name, listener in probe.listeners.items()]


# ---- state


def add_purgatories(metrics: Metrics, *purgatories: DelayedOperationPurgatory) -> None:
    prefix = "kafka_server_delayedoperationpurgatory"
    metrics.add(f"{prefix}_purgatorysize", lambda: [((it.name,), it.watched) for it in purgatories])
    metrics.add(
        f"{prefix}_numdelayedoperations", lambda: [((it.name,), it.num_delayed) for it in purgatories]
    )


def add_fetch_expirations(metrics: Metrics, expirations: FetchExpirations) -> None:
    metrics.add(
        "kafka_server_delayedfetchmetrics_expires_total",
        lambda: [(("follower",), expirations.follower), (("consumer",), expirations.consumer)],
    )


def add_fetch_sessions(metrics: Metrics, cache: FetchSessionCache) -> None:
    prefix = "kafka_server_fetchsessioncache"
    metrics.add_value(f"{prefix}_numincrementalfetchsessions", lambda: len(cache))
    metrics.add_value(f"{prefix}_numincrementalfetchpartitionscached", cache.partition_count)


def add_authorizer(metrics: Metrics, auth: AuthHelper | None) -> None:
    """The decisions of the authorizer; all are 0 without one."""
    prefix = "kafka_server_plugins"
    acls = None if auth is None else auth.acls
    metrics.add_value(f"{prefix}_authorization_allowed_total", lambda: 0 if auth is None else auth.allowed)
    metrics.add_value(f"{prefix}_authorization_denied_total", lambda: 0 if auth is None else auth.denied)
    metrics.add_value(f"{prefix}_acls_total_count", lambda: 0 if acls is None else acls.acl_count)


def add_partitions(
    metrics: Metrics, partitions: Callable[[], Iterable[Partition]], without_log: Callable[[], int]
) -> None:
    """Replicas on this broker, and their logs. `partitions` returns all but those whose log could not be opened.

    `without_log` is the number of these. A replica that is offline counts only as that.
    """
    for metric, counts in {
        "leadercount": _leads,
        "underreplicatedpartitions": _is_under_replicated,
        "underminisrpartitioncount": _is_under_min_isr,
        "atminisrpartitioncount": _is_at_min_isr,
        "produceridcount": lambda it: 0 if it.offline else len(it.log.producer_state_manager.producers),
    }.items():
        metrics.add_value(f"kafka_server_replicamanager_{metric}", _sum_of(partitions, counts))
    known, offline = _sum_of(partitions, lambda it: 1), _sum_of(partitions, lambda it: it.offline)
    prefix = "kafka_server_replicamanager"
    metrics.add_value(f"{prefix}_partitioncount", lambda: known() + without_log())
    metrics.add_value(f"{prefix}_offlinereplicacount", lambda: offline() + without_log())
    for metric, read in {
        "underreplicated": _is_under_replicated,
        "underminisr": _is_under_min_isr,
        "atminisr": _is_at_min_isr,
        "replicascount": lambda it: len(it.replicas) if _leads(it) else 0,
        "insyncreplicascount": lambda it: len(it.isr) if _leads(it) else 0,
        "laststableoffsetlag": lambda it: it.log.high_watermark - it.log.last_stable_offset,
    }.items():
        metrics.add_each(f"kafka_cluster_partition_{metric}", partitions, partition_labels, read)
    for metric, read in {
        "size": lambda it: it.log.size,
        "logstartoffset": lambda it: it.log.log_start_offset,
        "logendoffset": lambda it: it.log.log_end_offset,
        "numlogsegments": lambda it: it.log.segment_count,
    }.items():
        metrics.add_each(f"kafka_log_log_{metric}", partitions, partition_labels, read)


def add_late_transactions(
    metrics: Metrics,
    partitions: Callable[[], Iterable[Partition]],
    now_ms: Callable[[], int],
    max_transaction_timeout_ms: int,
) -> None:
    """Partitions whose readers of committed records wait for a transaction past its timeout."""

    def is_late(partition: Partition) -> int:
        return partition.log.producer_state_manager.has_late_transaction(now_ms(), max_transaction_timeout_ms)

    name = "kafka_server_replicamanager_partitionswithlatetransactionscount"
    metrics.add_value(name, _sum_of(partitions, is_late))


def add_disk_space(metrics: Metrics, spaces: Callable[[], Iterable[DiskSpace]]) -> None:
    """The room in each log directory, and the guard that keeps some of it free."""
    for metric, read in {
        "free_bytes": lambda it: it.free_bytes,
        "min_free_bytes": lambda it: it.limit_bytes,
        "full": lambda it: int(it.is_full),
        "refused_batches_total": lambda it: it.rejections,
    }.items():
        metrics.add_each(f"{LOG_DIR_PREFIX}_{metric}", spaces, lambda it: (it.path,), read)


def add_controller(
    metrics: Metrics, image: Callable[[], MetadataImage], has_failed: Callable[[str, int], bool]
) -> None:
    """The cluster as the embedded controller sees it. `image` gives the newest metadata.

    A single node is the active controller, and the one active broker. Others may be registered, and are fenced. The
    metadata keep the leader of a partition whose log directory has failed; `has_failed` (by topic and index) tells that
    it has none, as in the response to Metadata and in Kafka's controller.
    """

    def leader(topic: TopicImage, partition: PartitionImage) -> int:
        return NO_LEADER if has_failed(topic.name, partition.partition) else partition.leader

    def count(counts: Callable[[PartitionImage, int], bool]) -> int:
        return sum(
            counts(partition, leader(topic, partition))
            for topic in image().topics.values()
            for partition in topic.partitions.values()
        )

    prefix = "kafka_controller_kafkacontroller"
    metrics.add_value(f"{prefix}_activecontrollercount", lambda: 1)
    metrics.add_value(f"{prefix}_activebrokercount", lambda: 1)
    metrics.add_value(
        f"{prefix}_fencedbrokercount", lambda: sum(broker.fenced for broker in image().brokers.values())
    )
    metrics.add_value(f"{prefix}_globaltopiccount", lambda: len(image().topics))
    metrics.add_value(f"{prefix}_globalpartitioncount", lambda: image().partition_count())
    metrics.add_value(f"{prefix}_offlinepartitionscount", lambda: count(lambda _, leader: leader < 0))
    metrics.add_value(
        f"{prefix}_preferredreplicaimbalancecount",
        lambda: count(lambda it, leader: bool(it.replicas) and leader != it.replicas[0]),
    )


def _leads(partition: Partition) -> bool:
    """Whether this broker leads it and is online: the metadata keep a leader whose disk has failed."""
    return partition.is_leader and not partition.offline


def _is_under_replicated(partition: Partition) -> int:
    return _leads(partition) and len(partition.isr) < len(partition.replicas)


def _is_under_min_isr(partition: Partition) -> int:
    return _leads(partition) and len(partition.isr) < partition.min_insync_replicas


def _is_at_min_isr(partition: Partition) -> int:
    return _leads(partition) and len(partition.isr) == partition.min_insync_replicas


def _sum_of(
    partitions: Callable[[], Iterable[Partition]], counts: Callable[[Partition], int]
) -> Callable[[], float]:
    return lambda: sum(map(counts, partitions()))


def partition_labels(partition: Partition) -> Labels:
    return partition.topic, str(partition.index)
