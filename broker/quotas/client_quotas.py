"""ClientQuotaManager: counts what clients use of one type of quota, and says how long they are throttled.

A counter belongs to a key (`limits`), and learns a new limit at its next use. Counters that were not used for an hour
are dropped, and the longest unused ones while there are too many: a client could name a new client id each time.
Source: org.apache.kafka.server.quota.ClientQuotaManager.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from typing import Final, Protocol

from barnabas.broker.quotas.limits import Entity, Key, QuotaLimits
from barnabas.broker.quotas.quota_types import QuotaType
from barnabas.broker.quotas.rate import LONGEST_THROTTLE_MS, Rate
from barnabas.broker.quotas.throttle_times import ThrottleTimes
from barnabas.broker.quotas.token_bucket import TokenBucket
from barnabas.broker.request import KafkaPrincipal

UNLIMITED: Final = float(2**63 - 1)
"""The limit of a counter without one."""

MAX_COUNTERS: Final = 100_000
"""Of one type; some 600 bytes each."""

KEPT_COUNTERS: Final = 1_000
"""Of one type, while there are no quotas of it."""

MAX_KEY_CHARACTERS: Final = 16 * 1024 * 1024
"""Of all counters' names together: a client id may have 32,767."""

EXPIRES_AFTER_MS: Final = 3_600_000
_AVERAGE_SAMPLES, _AVERAGE_WINDOW_MS = 2, 30_000
"""How Kafka's metrics measure where no quota says otherwise."""


class Limits(Protocol):
    """Which limit is in force for whom: QuotaLimits, or CallbackLimits."""

    def __bool__(self) -> bool: ...
    def update(self, entity: Entity, limit: float | None) -> None: ...
    def key(self, principal: KafkaPrincipal, client_id: str) -> Key: ...
    def limit(self, key: Key) -> float | None: ...
    def have_changed(self) -> bool: ...
    def labels(self, key: Key) -> tuple[str, str]: ...


class ClientCounter:
    """What one key has used: a rate, and for changes to topics the tokens that are left."""

    __slots__ = ("bucket", "generation", "last_used_ms", "limit", "rate", "throttled")

    def __init__(self, rate: Rate, bucket: TokenBucket | None) -> None:
        self.rate = rate
        self.bucket = bucket
        self.limit = UNLIMITED
        self.generation = -1  # of the limit
        self.last_used_ms = 0
        self.throttled: ThrottleTimes | None = None  # until it is, for the first time

    @property
    def is_limited(self) -> bool:
        return self.limit < UNLIMITED


class ClientQuotaManager:
    """The quotas of one type. `samples` windows of `window_ms` are measured; times are milliseconds of one clock.

    Throttle times are at most `max_throttle_ms`.
    """

    def __init__(
        self,
        quota_type: QuotaType,
        *,
        samples: int,
        window_ms: int,
        limits: Limits | None = None,
        max_throttle_ms: int = LONGEST_THROTTLE_MS,
        max_counters: int = MAX_COUNTERS,
    ) -> None:
        self.type = quota_type
        self.limits: Limits = limits if limits is not None else QuotaLimits()
        self.samples = samples
        self.window_ms = window_ms
        self.throttled_now = 0
        """Connections that are throttled because of a quota of this type."""
        self._max_throttle_ms = max_throttle_ms
        self._max_counters = max_counters
        self._counters: OrderedDict[Key, ClientCounter] = OrderedDict()  # the longest unused first
        self._key_characters = 0
        self._generation = 0

    @property
    def is_enabled(self) -> bool:
        """Whether there is any quota of this type: without one nothing is counted."""
        return bool(self.limits)

    def update(self, entity: Entity, limit: float | None) -> None:
        """Sets the quota of an entity, or removes it with None; at once for the counters that run."""
        self.limits.update(entity, limit)
        self.limits_changed()

    def limits_changed(self) -> None:
        """Each counter learns its limit anew at its next use. Without limits those used last stay: one that comes back
        finds what was recorded before, as in Kafka.
        """
        self._generation += 1
        if not self.limits:
            while len(self._counters) > KEPT_COUNTERS:
                self._drop_oldest()

    def counter(self, principal: KafkaPrincipal, client_id: str, now_ms: int) -> ClientCounter:
        """The counter of the principal's requests with this client id, with its limit of now."""
        key = self.limits.key(principal, client_id)
        counters = self._counters
        counter = counters.get(key)
        if counter is None:
            self._make_room(now_ms)
            self._key_characters += _characters(key)
            counter = counters[key] = self._new_counter()
        else:
            counters.move_to_end(key)
        counter.last_used_ms = now_ms
        if self.limits.have_changed():
            self.limits_changed()
        if counter.generation != self._generation:
            limit = self.limits.limit(key)
            counter.limit = UNLIMITED if limit is None else limit
            counter.generation = self._generation
        return counter

    def _new_counter(self) -> ClientCounter:
        if self.type is QuotaType.CONTROLLER_MUTATION:
            rate = Rate(_AVERAGE_SAMPLES, _AVERAGE_WINDOW_MS)
            return ClientCounter(rate, TokenBucket(self.samples, self.window_ms))
        return ClientCounter(Rate(self.samples, self.window_ms), None)

    def _make_room(self, now_ms: int) -> None:
        counters = self._counters
        while counters:
            oldest = next(iter(counters.values()))
            is_full = len(counters) >= self._max_counters or self._key_characters > MAX_KEY_CHARACTERS
            if now_ms - oldest.last_used_ms <= EXPIRES_AFTER_MS and not is_full:
                return
            self._drop_oldest()

    def _drop_oldest(self) -> None:
        key, _ = self._counters.popitem(last=False)
        self._key_characters -= _characters(key)

    # ---- rates

    def record(self, counter: ClientCounter, value: float, now_ms: int) -> int:
        """Counts, and returns how long the client is throttled for it, in milliseconds."""
        counter.rate.record(value, now_ms)
        return min(counter.rate.throttle_time_ms(counter.limit, now_ms), self._max_throttle_ms)

    def max_in_window(self, counter: ClientCounter) -> float:
        """The most that can be recorded at once without being throttled for certain."""
        if not counter.is_limited:
            return UNLIMITED
        return counter.limit * (self.samples - 1) * (self.window_ms / 1000)

    # ---- for metrics

    def __len__(self) -> int:
        return len(self._counters)

    def latest(self, count: int) -> Iterator[tuple[tuple[str, str], ClientCounter]]:
        """Up to `count` counters, the last used first, with their users (sanitized) and client ids. A copy."""
        keys = [key for key, _ in zip(reversed(self._counters), range(count), strict=False)]
        return iter([(self.limits.labels(key), self._counters[key]) for key in keys])


def _characters(key: Key) -> int:
    return sum(map(len, key))
