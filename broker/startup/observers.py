"""Observers: the probes that the components of a broker get, the metrics over them, and the HTTP port."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final, Protocol

from barnabas.broker.compaction.status import Compaction
from barnabas.broker.http.server import HttpSecurity, HttpServer
from barnabas.broker.metrics import sources as metric_sources
from barnabas.broker.metrics.authentication_metrics import add_authentications
from barnabas.broker.metrics.cleaner_metrics import add_cleaner
from barnabas.broker.metrics.coordinator_metrics import add_coordinators
from barnabas.broker.metrics.http_metrics import add_http_logins
from barnabas.broker.metrics.lag_metrics import add_lag
from barnabas.broker.metrics.log_dir_metrics import add_log_dirs
from barnabas.broker.metrics.metadata_metrics import add_metadata_log
from barnabas.broker.metrics.oauthbearer_metrics import add_oauthbearer
from barnabas.broker.metrics.prometheus import Metrics
from barnabas.broker.metrics.quota_metrics import add_connection_rates, add_quotas
from barnabas.broker.metrics.tls_metrics import add_tls
from barnabas.broker.network.listeners import ListenError
from barnabas.broker.network.request_memory import RequestMemory
from barnabas.broker.network.socket_server import SocketServer
from barnabas.broker.probes import BrokerTopicProbe, RequestProbe, SocketServerProbe
from barnabas.broker.startup.assembly import BrokerComponents
from barnabas.broker.telemetry.client_metrics import add_client_metrics
from barnabas.config.catalogue.barnabas import BARNABAS_HTTP_HOST, BARNABAS_HTTP_PORT
from barnabas.config.catalogue.transactions import TRANSACTION_MAX_TIMEOUT_MS

if TYPE_CHECKING:
    from barnabas.broker.startup.listener_securities import ListenerSecurities
    from barnabas.broker.startup.member_start import Membership

logger = logging.getLogger("barnabas.http")

_OFF: Final = -1


class Observed(Protocol):
    """The server that is observed, after its start."""

    components: BrokerComponents
    http_security: HttpSecurity
    memory: RequestMemory
    securities: ListenerSecurities
    socket_server: SocketServer
    is_stopping: bool

    @property
    def membership(self) -> Membership | None:
        """The place in a cluster, of a member."""


class Observers:
    """The probes of one broker, and the metrics over them."""

    def __init__(self) -> None:
        self.topics = BrokerTopicProbe()
        self.requests = RequestProbe()
        self.sockets = SocketServerProbe()

    def metrics(self, server: Observed) -> Metrics:
        """Every metric, from the probes and from the components of `server`, which has started."""
        metrics = Metrics()
        components, env = server.components, server.components.env
        replicas = components.replica_manager
        metric_sources.add_topics(metrics, self.topics)
        metric_sources.add_requests(metrics, self.requests)
        metric_sources.add_network(metrics, self.sockets, server.socket_server, server.memory)
        http_tls, http_login = server.http_security
        of_http = () if http_tls is None else (http_tls.stores,)
        add_tls(metrics, self.sockets, server.securities.by_name.values, of_http)
        add_oauthbearer(metrics, server.securities.by_name.items)
        add_http_logins(metrics, lambda: 0 if http_login is None else http_login.failures)
        add_authentications(metrics, self.sockets, lambda: server.socket_server.authentications)
        add_quotas(metrics, components.quotas)
        add_connection_rates(metrics, server.socket_server.quotas)
        metric_sources.add_purgatories(
            metrics, replicas.produce_purgatory, replicas.fetch_purgatory, replicas.delete_records_purgatory
        )
        metric_sources.add_fetch_expirations(metrics, components.replica_reader.expirations)
        metric_sources.add_fetch_sessions(metrics, components.fetch_manager.cache)
        metric_sources.add_authorizer(metrics, components.auth)
        metric_sources.add_partitions(metrics, replicas.partitions, lambda: replicas.without_log_count)
        add_log_dirs(metrics, replicas.log_manager.dirs, lambda: components.moves.moves)
        timeout_ms = components.config[TRANSACTION_MAX_TIMEOUT_MS]
        metric_sources.add_late_transactions(metrics, replicas.partitions, env.now_ms, timeout_ms)
        metric_sources.add_disk_space(metrics, lambda: [it.space for it in replicas.log_manager.dirs])
        add_cleaner(metrics, components.log_cleaner, replicas.log_manager, env.now_ms)
        if server.membership is None:
            metric_sources.add_controller(
                metrics,
                lambda: components.image,
                lambda topic, index: replicas.has_offline_partitions and replicas.is_offline(topic, index),
            )
        else:
            from barnabas.broker.metrics.member_metrics import add_member

            add_member(metrics, server.membership.lifecycle, server.membership.control, env.now_ms)
        add_coordinators(metrics, components.coordinators)
        add_lag(metrics, components.coordinators.group_runtime, replicas, lambda: components.image)
        add_client_metrics(metrics, components.client_metrics)
        add_metadata_log(
            metrics,
            components.storage.raft,
            node_id=components.storage.node_id,
            leader=lambda: components.control.leader,
            image=lambda: components.image,
            now_ms=env.now_ms,
            publishers=components.publishers,
        )
        return metrics

    def serve_http(self, server: Observed) -> HttpServer | None:
        """Opens the HTTP port of a server that has started; None if it is turned off or its port is taken.

        A broker without metrics still serves its clients, so a taken port is only a warning.
        """
        config = server.components.config
        port = config[BARNABAS_HTTP_PORT]
        if port == _OFF:
            return None
        compaction = Compaction(
            server.components.log_cleaner,
            server.components.replica_manager.log_manager,
            lambda: server.components.image,
        )
        http = HttpServer(
            asyncio.get_running_loop(),
            config,
            self.metrics(server),
            lambda: _not_ready(server),
            compaction,
            security=server.http_security,
        )
        try:
            http.bind(config[BARNABAS_HTTP_HOST], port)
        except ListenError as error:
            logger.warning("no metrics and health checks over HTTP: %s (%s)", error, BARNABAS_HTTP_PORT.name)
            return None
        http.start()
        return http


def _not_ready(server: Observed) -> str | None:
    """Why clients should not be sent here; None when the broker is ready."""
    if server.is_stopping:
        return "the broker is stopping"
    offline = server.components.replica_manager.log_manager.dirs.offline
    if offline:
        return f"failed log directories: {', '.join(sorted(offline))}"
    return None if server.membership is None else server.membership.not_ready
