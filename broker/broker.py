"""Broker: the parts that handlers work with, put together once by startup.assembly; it has no rules of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from barnabas.broker.controller.embedded import Decide, Failed
from barnabas.broker.controller.log_dir_admin import LogDirAdmin
from barnabas.broker.controller.topic_admin import TopicDefaults
from barnabas.broker.coordinator.assembly import GroupCoordinator
from barnabas.broker.coordinator.transaction.appends import TransactionalAppends
from barnabas.broker.coordinator.transaction.coordinator import TransactionCoordinator
from barnabas.broker.coordinator.txn import MarkerWriter, ProducerIds
from barnabas.broker.fetch.manager import FetchManager
from barnabas.broker.fetch.reader import ReplicaReader
from barnabas.broker.metadata.cluster_answers import BrokerNode, ClusterAnswers
from barnabas.broker.metadata.image import MetadataImage
from barnabas.broker.metadata.quorum import KRaftLevel, MetadataQuorum
from barnabas.broker.metadata.topic_answers import TopicAnswers
from barnabas.broker.pending import Pending
from barnabas.broker.probes import RequestProbe
from barnabas.broker.quotas.quota_managers import QuotaManagers
from barnabas.broker.replica.replica_manager import ReplicaManager
from barnabas.broker.request import ApiHandler, ConnectionInfo, NoResponse, RequestContext
from barnabas.broker.security.auth_helper import AuthHelper
from barnabas.broker.security.tokens import DelegationTokens
from barnabas.broker.telemetry.client_metrics import ClientMetricsManager
from barnabas.broker.waiting.host_lookup import HostNames
from barnabas.config.broker_config import BrokerConfig
from barnabas.protocol.errors import ApiError
from barnabas.protocol.schema import Message, VersionRange
from barnabas.protocol.wire import Uuid

if TYPE_CHECKING:
    from barnabas.broker.controller.auto_topic_creation import AutoTopicCreationManager

R = TypeVar("R")

AUTHORIZED_OPERATIONS_OMITTED = -2147483648
"""What *_authorized_operations holds of a request that did not ask for them; Kafka's Integer.MIN_VALUE."""


class MetadataChanges(Protocol):
    """The newest metadata, and changes to them: the embedded Controller.

    In a cluster only the image is there: requests that change it go to the cluster's controller (`Forwarder`).
    """

    @property
    def image(self) -> MetadataImage: ...

    def submit(self, decide: Decide[R], failed: Failed[R]) -> Pending[R]: ...

    def change(self, what: str, decide: Decide[R], rejected: Callable[[ApiError], R]) -> Pending[R]: ...


class Forwarded(NamedTuple):
    """The controller's response to a forwarded request: its bytes (header and body), and what they say."""

    data: bytes
    response: Message


class Forwarder(Protocol):
    """Has the cluster's controller answer requests for it, in the name of clients.

    `handlers` are those of APIs that only the controller knows, by key: a node that is alone does not serve them.
    """

    handlers: Mapping[int, ApiHandler]

    def forward(
        self, broker: Broker, context: RequestContext, request: Message, frame: bytes
    ) -> Pending[Forwarded | Message | NoResponse]:
        """Forwards a request, given as a message and as its frame without the size.

        Completes with the controller's response, or with one that is made here where there is none.
        """

    def controller_versions(self, key: int) -> VersionRange | None:
        """The versions of an API that the controller serves; all that exist while that is not known, None if none."""


@dataclass(slots=True, kw_only=True, eq=False, repr=False)
class Broker:
    """This broker's identity and its parts."""

    config: BrokerConfig
    node_id: int
    cluster_id: str
    cluster: ClusterAnswers
    controller: MetadataChanges
    replica_manager: ReplicaManager
    fetch_manager: FetchManager
    replica_reader: ReplicaReader
    producer_ids: ProducerIds
    quorum: KRaftLevel
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
    quotas: QuotaManagers
    tokens: DelegationTokens
    auth: AuthHelper | None = None
    """Asks the authorizer; None without one: every client may do everything."""
    topic_creation: AutoTopicCreationManager | None = None
    """In a cluster: has the controller create topics on demand."""
    forwarder: Forwarder | None = None
    """In a cluster: has the controller answer the requests for it. Set before the first request."""
    version_arrays: dict[int, Any] = field(default_factory=dict)
    """Belongs to the handler of ApiVersions: what it has encoded, by version."""

    @property
    def image(self) -> MetadataImage:
        """The newest metadata."""
        return self.controller.image

    @property
    def own_quorum(self) -> MetadataQuorum:
        """The quorum of a node that is alone; a cluster's controllers answer for theirs, to which requests go."""
        assert isinstance(self.quorum, MetadataQuorum)
        return self.quorum

    def node(self, node_id: int, connection: ConnectionInfo) -> BrokerNode | None:
        """A broker with the endpoint that this client can reach; None where there is none, or the broker is fenced."""
        return self.cluster.node(self.image, node_id, connection)
