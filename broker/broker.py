"""Broker: the parts that handlers work with, put together once by startup.assembly; it has no rules of its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from barnabas.broker.controller.embedded import Controller
from barnabas.broker.controller.log_dir_admin import LogDirAdmin
from barnabas.broker.controller.producer_ids import ProducerIdManager
from barnabas.broker.controller.topic_admin import TopicDefaults
from barnabas.broker.coordinator.assembly import GroupCoordinator
from barnabas.broker.coordinator.transaction.appends import TransactionalAppends
from barnabas.broker.coordinator.transaction.coordinator import TransactionCoordinator
from barnabas.broker.coordinator.txn import MarkerWriter
from barnabas.broker.fetch.manager import FetchManager
from barnabas.broker.fetch.reader import ReplicaReader
from barnabas.broker.metadata.image import MetadataImage
from barnabas.broker.metadata.quorum import MetadataQuorum
from barnabas.broker.metadata.topic_answers import TopicAnswers
from barnabas.broker.probes import RequestProbe
from barnabas.broker.replica.replica_manager import ReplicaManager
from barnabas.broker.request import ConnectionInfo
from barnabas.broker.telemetry.client_metrics import ClientMetricsManager
from barnabas.broker.waiting.host_lookup import HostNames
from barnabas.config.broker_config import BrokerConfig
from barnabas.protocol.wire import Uuid

AUTHORIZED_OPERATIONS_OMITTED = -2147483648
"""What *_authorized_operations holds of a request that did not ask for them; Kafka's Integer.MIN_VALUE."""


class Endpoint(NamedTuple):
    """Where clients reach a broker."""

    host: str
    port: int


@dataclass(slots=True, kw_only=True, eq=False, repr=False)
class Broker:
    """This broker's identity and its parts."""

    config: BrokerConfig
    node_id: int
    cluster_id: str
    rack: str | None
    advertised: dict[str, Endpoint]
    controller: Controller
    replica_manager: ReplicaManager
    fetch_manager: FetchManager
    replica_reader: ReplicaReader
    producer_ids: ProducerIdManager
    quorum: MetadataQuorum
    topic_answers: TopicAnswers
    topic_defaults: TopicDefaults
    new_topic_id: Callable[[], Uuid]
    error_probe: RequestProbe
    host_names: HostNames
    client_metrics: ClientMetricsManager
    log_dirs: LogDirAdmin
    groups: GroupCoordinator
    transactions: TransactionCoordinator
    txn_appends: TransactionalAppends
    txn_markers: MarkerWriter

    @property
    def image(self) -> MetadataImage:
        """The newest metadata."""
        return self.controller.image

    def endpoint(self, connection: ConnectionInfo) -> Endpoint:
        """The address that this client is given: the advertised one of its listener, else the one that it dialled."""
        return self.advertised.get(connection.listener_name) or Endpoint(
            connection.local_host, connection.local_port
        )
