"""Broker: what handlers work with, put together once by server.py. It holds parts and knows no rules of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from barnabas.broker.controller.embedded import Controller
from barnabas.broker.controller.log_dir_admin import LogDirAdmin
from barnabas.broker.controller.producer_ids import ProducerIdManager
from barnabas.broker.controller.topic_admin import TopicDefaults
from barnabas.broker.coordinator.assembly import Coordinators
from barnabas.broker.fetch.manager import FetchManager
from barnabas.broker.fetch.reader import ReplicaReader
from barnabas.broker.metadata.image import MetadataImage
from barnabas.broker.metadata.quorum import MetadataQuorum
from barnabas.broker.metadata.topic_answers import TopicAnswers
from barnabas.broker.replica.replica_manager import ReplicaManager
from barnabas.broker.request import ConnectionInfo
from barnabas.broker.telemetry.client_metrics import ClientMetricsManager
from barnabas.broker.waiting.host_lookup import HostNames
from barnabas.config.broker_config import BrokerConfig
from barnabas.protocol.wire import Uuid

AUTHORIZED_OPERATIONS_OMITTED = -2147483648
"""What *_authorized_operations holds when nobody asked; Kafka's Integer.MIN_VALUE."""


class ErrorProbe(Protocol):
    """Counts the error codes in answers, by the API's and the code's name."""

    def request_failed(self, api: str, error: str, count: int = 1) -> None: ...


class Endpoint:
    """Where clients reach a broker."""

    __slots__ = ("host", "port")

    def __init__(self, host: str, port: int) -> None:
        self.host = host
        self.port = port


class Broker:
    """This broker's identity and its parts."""

    __slots__ = (
        "advertised",
        "client_metrics",
        "cluster_id",
        "config",
        "controller",
        "coordinators",
        "error_probe",
        "fetch_manager",
        "groups",
        "host_names",
        "log_dirs",
        "new_topic_id",
        "node_id",
        "producer_ids",
        "quorum",
        "rack",
        "replica_manager",
        "replica_reader",
        "topic_answers",
        "topic_defaults",
        "transactions",
        "txn_appends",
        "txn_markers",
    )

    def __init__(
        self,
        *,
        config: BrokerConfig,
        node_id: int,
        cluster_id: str,
        rack: str | None,
        advertised: dict[str, Endpoint],
        controller: Controller,
        replica_manager: ReplicaManager,
        fetch_manager: FetchManager,
        replica_reader: ReplicaReader,
        producer_ids: ProducerIdManager,
        quorum: MetadataQuorum,
        topic_defaults: TopicDefaults,
        new_topic_id: Callable[[], Uuid],
        error_probe: ErrorProbe,
        host_names: HostNames,
        client_metrics: ClientMetricsManager,
        log_dirs: LogDirAdmin,
        coordinators: Coordinators,
    ) -> None:
        self.config = config
        self.node_id = node_id
        self.cluster_id = cluster_id
        self.rack = rack
        self.advertised = advertised
        self.controller = controller
        self.replica_manager = replica_manager
        self.fetch_manager = fetch_manager
        self.replica_reader = replica_reader
        self.producer_ids = producer_ids
        self.quorum = quorum
        self.topic_answers = TopicAnswers()
        self.topic_defaults = topic_defaults
        self.new_topic_id = new_topic_id
        self.error_probe = error_probe
        self.host_names = host_names
        self.client_metrics = client_metrics
        self.log_dirs = log_dirs
        self.coordinators = coordinators
        self.groups = coordinators.groups
        self.transactions = coordinators.transactions
        self.txn_appends = coordinators.txn_appends
        self.txn_markers = coordinators.txn_markers

    @property
    def image(self) -> MetadataImage:
        """The newest metadata."""
        return self.controller.image

    def endpoint(self, connection: ConnectionInfo) -> Endpoint:
        """The address to name to this client: the configured one of its listener, else the one that it dialled."""
        return self.advertised.get(connection.listener_name) or Endpoint(
            connection.local_host, connection.local_port
        )
