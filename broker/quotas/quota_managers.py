"""QuotaManagers: all quotas of clients, kept in line with the metadata.

While there are none, requests have no meters and nothing is counted (`is_active`). Source: QuotaFactory,
kafka.server.metadata.ClientQuotaMetadataManager, DynamicClientQuotaPublisher.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from typing import Final, Protocol

from barnabas.broker.metadata.image import MetadataDelta, MetadataImage, QuotaEntity
from barnabas.broker.probes import RecentTimes
from barnabas.broker.quotas.client_quotas import ClientQuotaManager, Limits
from barnabas.broker.quotas.limits import Entity, Part
from barnabas.broker.quotas.quota_callback import CallbackLimits, ClientQuotaCallback
from barnabas.broker.quotas.quota_types import TYPE_OF_KEY, QuotaType
from barnabas.broker.quotas.rate import Rate
from barnabas.broker.quotas.request_meter import RequestMeter
from barnabas.broker.request import RequestContext
from barnabas.config.broker_config import BrokerConfig
from barnabas.config.catalogue import metrics

logger = logging.getLogger("barnabas.quotas")

USER: Final = "user"
CLIENT_ID: Final = "client-id"


class Clock(Protocol):
    """A monotonic clock in seconds."""

    def __call__(self) -> float: ...


class QuotaManagers:
    """The managers of the four types. `clock` is the one that quotas are measured with, `request_clock` the one that
    requests are timed with; both are monotonic, in seconds.
    """

    def __init__(
        self,
        config: BrokerConfig,
        clock: Clock,
        request_clock: Clock,
        callback: ClientQuotaCallback | None = None,
    ) -> None:
        self._clock = clock
        self._request_clock = request_clock
        self._callback = callback
        samples = config[metrics.QUOTA_WINDOW_NUM]
        window_ms = config[metrics.QUOTA_WINDOW_SIZE_SECONDS] * 1000
        self.produce = ClientQuotaManager(
            QuotaType.PRODUCE, samples=samples, window_ms=window_ms, limits=self._limits(QuotaType.PRODUCE)
        )
        self.fetch = ClientQuotaManager(
            QuotaType.FETCH, samples=samples, window_ms=window_ms, limits=self._limits(QuotaType.FETCH)
        )
        self.request = ClientQuotaManager(
            QuotaType.REQUEST,
            samples=samples,
            window_ms=window_ms,
            limits=self._limits(QuotaType.REQUEST),
            max_throttle_ms=window_ms,
        )
        self.mutation = ClientQuotaManager(
            QuotaType.CONTROLLER_MUTATION,
            samples=config[metrics.CONTROLLER_QUOTA_WINDOW_NUM],
            window_ms=config[metrics.CONTROLLER_QUOTA_WINDOW_SIZE_SECONDS] * 1000,
            limits=self._limits(QuotaType.CONTROLLER_MUTATION),
        )
        self.all = (self.produce, self.fetch, self.request, self.mutation)
        self.exempt = Rate(samples, window_ms)
        """The time of requests that no quota is charged with, in percent of one thread."""
        self.throttle_times: dict[str, RecentTimes] = {}
        """By the name of the API, of the requests that were throttled."""
        self.is_active = callback is not None
        self.on_change: list[Callable[[], None]] = []
        """Called when `is_active` has changed."""

    def _limits(self, quota_type: QuotaType) -> Limits | None:
        return None if self._callback is None else CallbackLimits(self._callback, quota_type)

    def now_ms(self) -> int:
        return int(self._clock() * 1000)

    def request_now(self) -> float:
        return self._request_clock()

    # ---- as a publisher of metadata

    def apply(self, image: MetadataImage, delta: MetadataDelta) -> None:
        """Follows the quotas that have changed."""
        for entity in delta.quota_changes:
            self._apply(entity, image.quotas.get(entity, {}))
        if self._callback is not None and self._callback.update_cluster_metadata(image):
            for manager in self.all:
                manager.limits_changed()
        is_active = any(manager.is_enabled for manager in self.all)
        if is_active is not self.is_active:
            self.is_active = is_active
            for changed in self.on_change:
                changed()

    def _apply(self, named: QuotaEntity, values: Mapping[str, float]) -> None:
        entity = entity_of(named)
        if entity is None:
            return  # quotas of addresses are the network's
        by_type = {TYPE_OF_KEY[key]: value for key, value in values.items() if key in TYPE_OF_KEY}
        for manager in self.all:
            manager.update(entity, by_type.get(manager.type))

    def close(self) -> None:
        """The broker stops."""
        if self._callback is not None:
            self._callback.close()

    # ---- requests

    def meter(self, context: RequestContext, request_bytes: int, started: float) -> RequestMeter:
        """The meter of a request that began at `started` of the request clock; its size is without the size prefix."""
        principal = context.connection.principal
        assert principal is not None, "a request before its client has logged in"
        return RequestMeter(self, principal, context.client_id or "", request_bytes, started)

    def throttled(self, api: str, throttle_ms: int) -> None:
        """Counts a request that was throttled."""
        times = self.throttle_times.get(api)
        if times is None:
            times = self.throttle_times[api] = RecentTimes()
        times.add(throttle_ms / 1000)

    def exempt_percent(self) -> float:
        return self.exempt.measure(self.now_ms())

    def each(self) -> Iterator[ClientQuotaManager]:
        return iter(self.all)


def entity_of(named: QuotaEntity) -> Entity | None:
    """The entity of a quota of users and client ids; None for one of addresses."""
    parts = dict(named)
    user: Part = (parts[USER],) if USER in parts else None
    client: Part = (parts[CLIENT_ID],) if CLIENT_ID in parts else None
    return None if user is client is None else (user, client)
