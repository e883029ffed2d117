"""RequestMeter: what one request is charged with, and how long its client is throttled for it.

    request          | is charged with                            | when
    -----------------+--------------------------------------------+----------------------------------------------------
    Produce          | its size; its time, but for acks=0         | its response is made
    consumer's Fetch | the size of the response; its time         | its response is made; a throttled one goes out empty
                     |                                            | and its size is taken back
    CreateTopics,    | the partitions that change; its time       | the change is decided; its response is made
    DeleteTopics,    |                                            |
    CreatePartitions |                                            |
    follower's Fetch,| nothing: their time counts as exempt       |
    WriteTxnMarkers, |                                            |
    once authorized  |                                            |
    others           | their time                                 | their response is made

The time of a request is what it takes the event loop to parse and handle it, in percent of one thread; what sending
the response takes is charged behind it. The client is throttled for the longest of its throttle times.
Source: kafka.server.KafkaApis, RequestHandlerHelper, ClientRequestQuotaManager.
"""

from __future__ import annotations

from typing import Final, Protocol

from barnabas.broker.quotas.client_quotas import ClientCounter, ClientQuotaManager
from barnabas.broker.quotas.mutation_quotas import MutationQuota
from barnabas.broker.quotas.rate import Rate
from barnabas.broker.quotas.throttle_times import ThrottleTimes
from barnabas.broker.request import KafkaPrincipal, PartitionCharge
from barnabas.protocol.api_keys import ApiKey

MAX_BYTES: Final = 2**31 - 1
_PERCENT: Final = 100.0
"""Of one thread, in a second."""


class Managers(Protocol):
    """QuotaManagers, as meters use them."""

    @property
    def produce(self) -> ClientQuotaManager: ...
    @property
    def fetch(self) -> ClientQuotaManager: ...
    @property
    def request(self) -> ClientQuotaManager: ...
    @property
    def mutation(self) -> ClientQuotaManager: ...
    @property
    def exempt(self) -> Rate: ...
    def now_ms(self) -> int: ...
    def request_now(self) -> float: ...


class RequestMeter:
    """The meter of one request.

    `is_limited` says whether the client has any quota: its requests are handled one at a time then, because it could
    have a hundred in flight before the first is charged. `throttle_ms` is the throttle time, once it is settled.
    """

    __slots__ = (
        "_client_id",
        "_fetch",
        "_is_exempt",
        "_is_settled",
        "_managers",
        "_mutation",
        "_mutation_counter",
        "_mutation_throttles",
        "_muted_by",
        "_principal",
        "_produce",
        "_request",
        "_request_bytes",
        "_started",
        "handled_s",
        "is_limited",
        "throttle_ms",
    )

    def __init__(
        self,
        managers: Managers,
        principal: KafkaPrincipal,
        client_id: str,
        request_bytes: int,
        started: float,
    ) -> None:
        self._managers = managers
        self._principal = principal
        self._client_id = client_id
        self._request_bytes = request_bytes
        self._started = started
        self.handled_s: float | None = None
        self._is_exempt = False
        self._is_settled = False
        self._mutation: MutationQuota | None = None
        self._mutation_throttles = False
        self._muted_by: ClientQuotaManager | None = None
        self.throttle_ms = 0
        now_ms = managers.now_ms()
        self._produce = self._counter(managers.produce, now_ms)
        self._fetch = self._counter(managers.fetch, now_ms)
        self._request = self._counter(managers.request, now_ms)
        self._mutation_counter = self._counter(managers.mutation, now_ms)
        self.is_limited = any(
            counter is not None and counter.is_limited
            for counter in (self._produce, self._fetch, self._request, self._mutation_counter)
        )

    def _counter(self, manager: ClientQuotaManager, now_ms: int) -> ClientCounter | None:
        return manager.counter(self._principal, self._client_id, now_ms) if manager.is_enabled else None

    # ---- for handlers

    def fetch_limit_bytes(self) -> int:
        """The most that the response to a fetch may have: more would be throttled for certain, and never arrive."""
        if self._fetch is None:
            return MAX_BYTES
        return min(MAX_BYTES, int(self._managers.fetch.max_in_window(self._fetch)))

    def fetched(self, response_bytes: int) -> int:
        """Charges a fetch with a response of this size; returns the throttle time, for which it has to go out empty."""
        managers, now_ms = self._managers, self._managers.now_ms()
        request_ms = self._charge_time(now_ms)
        bytes_ms = 0
        if self._fetch is not None:
            bytes_ms = managers.fetch.record(self._fetch, response_bytes, now_ms)
            if max(bytes_ms, request_ms):
                self._fetch.rate.record(-response_bytes, now_ms)
        self._settle(bytes_ms, managers.fetch, self._fetch, request_ms, now_ms)
        return self.throttle_ms

    def exempt(self) -> None:
        """No quota is charged with the request."""
        self._is_exempt = True

    def mutation_charge(self, *, is_strict: bool, throttles: bool = True) -> PartitionCharge | None:
        """Charges partitions that the request changes, each time before it does; None without such a quota.

        See MutationQuota.charge. With `throttles` the client is throttled as well.
        """
        self._mutation_throttles = throttles
        if self._mutation_counter is None:
            return None
        if self._mutation is None:
            self._mutation = MutationQuota(self._mutation_counter, self._managers.now_ms, is_strict=is_strict)
        return self._mutation.charge

    # ---- for the dispatcher

    def settle(self, api_key: ApiKey, *, without_response: bool = False) -> int:
        """Charges the request, whose response is made, unless that is done; returns the throttle time.

        `without_response` is a produce request with acks=0.
        """
        if self._is_settled:
            return self.throttle_ms
        managers, now_ms = self._managers, self._managers.now_ms()
        if without_response:
            self._is_exempt = True
        own_ms, manager, counter = 0, managers.produce, self._produce
        if api_key is ApiKey.PRODUCE and counter is not None:
            own_ms = manager.record(counter, self._request_bytes, now_ms)
        elif self._mutation is not None and self._mutation_throttles:
            manager, counter = managers.mutation, self._mutation_counter
            own_ms = self._mutation.throttle_time_ms()
        self._settle(own_ms, manager, counter, self._charge_time(now_ms), now_ms)
        return self.throttle_ms

    def settle_forwarded(self, controller_throttle_ms: int) -> int:
        """Charges a request that the controller has answered, with this throttle time; returns the longer one."""
        now_ms = self._managers.now_ms()
        request_ms = max(self._charge_time(now_ms), controller_throttle_ms)
        self._settle(0, self._managers.request, None, request_ms, now_ms)
        return self.throttle_ms

    def _charge_time(self, now_ms: int) -> int:
        managers = self._managers
        seconds = self.handled_s
        if seconds is None:
            seconds = managers.request_now() - self._started
        if self._request is None:
            return 0
        if self._is_exempt:
            managers.exempt.record(seconds * _PERCENT, now_ms)
            return 0
        return managers.request.record(self._request, seconds * _PERCENT, now_ms)

    def _settle(
        self,
        own_ms: int,
        manager: ClientQuotaManager,
        counter: ClientCounter | None,
        request_ms: int,
        now_ms: int,
    ) -> None:
        """`own_ms` is the throttle time of the manager whose quota the API has beside that of requests."""
        self._is_settled = True
        if own_ms <= request_ms:
            own_ms, manager, counter = request_ms, self._managers.request, self._request
        self.throttle_ms = own_ms
        if not own_ms:
            return
        self._muted_by = manager
        manager.throttled_now += 1
        if counter is not None:
            if counter.throttled is None:
                counter.throttled = ThrottleTimes()
            counter.throttled.add(own_ms, now_ms)

    # ---- for the connection

    def now(self) -> float:
        """The clock that requests are timed with."""
        return self._managers.request_now()

    def used_network(self, seconds: float) -> None:
        """Charges the time in which the response was sent; the next request is throttled for it."""
        managers = self._managers
        if self._request is None:
            return
        rate = managers.exempt if self._is_exempt else self._request.rate
        rate.record(seconds * _PERCENT, managers.now_ms())

    def unmuted(self) -> None:
        """The throttle time is over, or the connection has ended."""
        if self._muted_by is not None:
            self._muted_by.throttled_now -= 1
            self._muted_by = None
