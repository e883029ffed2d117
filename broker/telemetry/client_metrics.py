"""ClientMetricsManager: the metrics that each client is to push, and the checks of its pushes (KIP-714).

A subscription is a client-metrics resource of the metadata. A client gets the union of all whose patterns match it, at
the shortest of their intervals, under an id that shows whether a push follows an older subscription.
Source: org.apache.kafka.server.ClientMetricsManager, ClientMetricsInstance.
"""

from __future__ import annotations

import logging
import math
import struct
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from barnabas.broker.metadata.image import CLIENT_METRICS_RESOURCE, MetadataDelta, MetadataImage
from barnabas.broker.metrics.families import CLIENT_METRICS_PREFIX
from barnabas.broker.metrics.prometheus import Metrics, Sample
from barnabas.broker.pending import Pending
from barnabas.broker.request import RequestContext
from barnabas.broker.telemetry import otlp
from barnabas.broker.telemetry.client_metrics_store import ClientMetricsStore, PushingClient
from barnabas.broker.waiting.blocking import BlockingRunner
from barnabas.broker.waiting.host_lookup import java_address
from barnabas.broker.waiting.timer import Timer, TimerHandle
from barnabas.config.catalogue.resources import CLIENT_METRICS_INTERVAL_MS
from barnabas.config.client_metrics import ALL_METRICS, ClientMetricsConfig
from barnabas.config.keys import ConfigError
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages.telemetry import PushTelemetryRequest
from barnabas.protocol.records.checksum import crc32c
from barnabas.protocol.records.compression import CompressionType
from barnabas.protocol.wire import ZERO_UUID, Uuid, uuid_to_string

logger = logging.getLogger("barnabas.telemetry")

MAX_CLIENTS: Final = 16_384
"""How many clients are known at a time, as in Kafka; the longest silent one is removed first."""

SHORTEST_EXPIRY_MS: Final = 60_000
INTERVALS_UNTIL_EXPIRY: Final = 3

ACCEPTED_COMPRESSION_TYPES: Final = (
    CompressionType.ZSTD,
    CompressionType.LZ4,
    CompressionType.GZIP,
    CompressionType.SNAPPY,
)
"""In the order of preference sent to clients. Uncompressed metrics are accepted as well."""

MAX_LABEL_LENGTH: Final = 256
"""Of a client's id where it is shown."""

_CODECS: Final = frozenset(map(int, CompressionType))
_NO_IDS: Final = frozenset({ZERO_UUID, bytes(15) + b"\x01"})
_CURED_BY_A_NEW_SUBSCRIPTION: Final = frozenset(
    {ErrorCode.UNKNOWN_SUBSCRIPTION_ID, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE}
)
_UUID: Final = struct.Struct(">qq")
_NEVER: Final = -math.inf


class Subscription(NamedTuple):
    """The metrics that a client is to push (prefixes, `*` alone for all), and how often."""

    subscription_id: int
    metrics: tuple[str, ...]
    push_interval_ms: int


class _Instance:
    """A client that asked or pushed, and when it last did, in ms; its subscription is of `version` of all of them."""

    __slots__ = (
        "client",
        "connection_id",
        "expiry",
        "last_error",
        "last_get_ms",
        "last_push_ms",
        "subscription",
        "terminating",
        "version",
    )

    def __init__(
        self, client: Mapping[str, str], connection_id: int, subscription: Subscription, version: int
    ) -> None:
        self.client = client
        self.connection_id = connection_id
        self.subscription = subscription
        self.version = version
        self.last_get_ms = _NEVER
        self.last_push_ms = _NEVER
        self.last_error = ErrorCode.NONE
        self.terminating = False
        self.expiry: TimerHandle | None = None

    def may_get(self, now_ms: float) -> bool:
        """Whether the client may get a subscription now: after the interval (then it is noted), or to cure an error."""
        if now_ms - max(self.last_get_ms, self.last_push_ms) < self.subscription.push_interval_ms:
            return self.last_error in _CURED_BY_A_NEW_SUBSCRIPTION
        self.last_get_ms = now_ms
        return True

    def may_push(self, now_ms: float) -> bool:
        """Whether metrics may be pushed now; if so it is noted. The first push after a subscription may come at once:
        clients spread theirs over the interval."""
        first = self.last_get_ms > self.last_push_ms
        if not first and now_ms - self.last_push_ms < self.subscription.push_interval_ms:
            return False
        self.last_push_ms = now_ms
        return True

    def answered(self, code: ErrorCode) -> None:
        self.last_error = code

    @property
    def expires_after_ms(self) -> int:
        return max(SHORTEST_EXPIRY_MS, INTERVALS_UNTIL_EXPIRY * self.subscription.push_interval_ms)


class ClientMetricsManager:
    """Subscriptions, clients and pushes. Runs on the event loop; only decompression leaves it.

    `store` is None where the metrics are not shown; then pushes are checked and dropped, as in a Kafka without a
    plugin for them, and ApiVersions does not offer them.
    """

    def __init__(
        self,
        *,
        max_bytes: int,
        store: ClientMetricsStore | None,
        runner: BlockingRunner,
        timer: Timer,
        new_id: Callable[[], Uuid],
    ) -> None:
        self.max_bytes = max_bytes
        self.store = store
        self.pushes: Counter[str] = Counter()
        """Pushes by the name of the error code in the response."""
        self._runner = runner
        self._timer = timer
        self._new_id = new_id
        self._subscriptions: dict[str, ClientMetricsConfig] = {}
        self._version = 0
        self._instances: OrderedDict[Uuid, _Instance] = OrderedDict()
        self._by_connection: dict[int, Uuid] = {}

    @property
    def is_offered(self) -> bool:
        """Whether ApiVersions advertises pushes to clients."""
        return self.store is not None

    def client_count(self) -> int:
        return len(self._instances)

    # ---- following the metadata and the connections

    def apply(self, image: MetadataImage, delta: MetadataDelta) -> None:
        """Applies changes of subscriptions; each client gets its new one with its next request."""
        changed = [name for kind, name in delta.config_changes if kind == CLIENT_METRICS_RESOURCE]
        for name in changed:
            settings = image.configs.get((CLIENT_METRICS_RESOURCE, name))
            self._subscriptions.pop(name, None)
            if settings:
                self._subscribe(name, settings)
        if changed:
            self._version += 1

    def _subscribe(self, name: str, settings: Mapping[str, str]) -> None:
        try:
            self._subscriptions[name] = ClientMetricsConfig.of(settings)
        except (
            ConfigError
        ) as error:  # only in metadata that another broker wrote: Java's patterns are not all ours
            logger.warning("subscription %s of client metrics is ignored: %s", name, error)

    def connection_closed(self, connection_id: int) -> None:
        """Forgets the client of this connection; if it reconnects, it starts again."""
        instance_id = self._by_connection.pop(connection_id, None)
        if instance_id is not None:
            self._forget(instance_id)

    # ---- requests

    def get_subscription(self, wanted_id: Uuid, context: RequestContext) -> tuple[Uuid, Subscription]:
        """The client's id, a new one if it had none, and its subscription. Raises ApiError."""
        instance_id = wanted_id if wanted_id != ZERO_UUID else self._unused_id()
        instance = self._instance(instance_id, context)
        if not instance.may_get(self._now_ms()):
            raise ApiError(
                ErrorCode.THROTTLING_QUOTA_EXCEEDED, "The client comes back before its interval is over."
            )
        instance.last_error = ErrorCode.NONE
        return instance_id, instance.subscription

    def push(self, push: PushTelemetryRequest, context: RequestContext) -> Pending[ErrorCode]:
        """Applies one push; completes with the error code when its metrics are visible."""
        answer: Pending[ErrorCode] = Pending()
        answer.add_done_callback(lambda code: self.pushes.update([code.name]))
        if push.client_instance_id in _NO_IDS:
            answer.complete(ErrorCode.INVALID_REQUEST)
            return answer
        instance = self._instance(push.client_instance_id, context)
        answer.add_done_callback(instance.answered)
        code = self._check(push, instance)
        instance.terminating = push.terminating
        if code is not ErrorCode.NONE or not push.metrics:
            answer.complete(code)
        else:
            self._unpack(push, instance, answer)
        return answer

    def _check(self, push: PushTelemetryRequest, instance: _Instance) -> ErrorCode:
        """Checks a push, and notes its time unless it comes too early."""
        if instance.terminating:
            return ErrorCode.INVALID_REQUEST
        if not instance.may_push(self._now_ms()) and not push.terminating:
            return ErrorCode.THROTTLING_QUOTA_EXCEEDED
        if push.subscription_id != instance.subscription.subscription_id:
            return ErrorCode.UNKNOWN_SUBSCRIPTION_ID
        if push.compression_type not in _CODECS:
            return ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
        return ErrorCode.TELEMETRY_TOO_LARGE if len(push.metrics) > self.max_bytes else ErrorCode.NONE

    def _unpack(self, push: PushTelemetryRequest, instance: _Instance, answer: Pending[ErrorCode]) -> None:
        """Parses the metrics off the event loop, and stores them on it."""
        codec, metrics, store = push.compression_type, bytes(push.metrics), self.store
        payload: otlp.Payload | None = None
        malformed: otlp.MalformedTelemetryError | None = None

        def read() -> None:
            nonlocal payload, malformed
            try:
                if store is not None:
                    payload = otlp.parse(codec, metrics, self.max_bytes)
                else:
                    otlp.unpack(codec, metrics, self.max_bytes)
            except otlp.MalformedTelemetryError as error:
                malformed = error

        def done(failure: BaseException | None) -> None:
            if failure is not None:
                raise failure
            if malformed is not None:
                logger.debug("metrics of %s cannot be read: %s", instance.client, malformed)
                answer.complete(ErrorCode.INVALID_RECORD)
                return
            if store is not None and payload is not None:
                client = _pushing(push.client_instance_id, instance)
                store.receive(client, payload, instance.expires_after_ms)
            answer.complete(ErrorCode.NONE)

        self._runner.submit(read, done)

    # ---- clients

    def _instance(self, instance_id: Uuid, context: RequestContext) -> _Instance:
        """The client, as new where it is not known or where subscriptions have changed since."""
        instance = self._instances.get(instance_id)
        if instance is None:
            instance = self._add(instance_id, attributes(instance_id, context), context)
        elif instance.version < self._version:
            self._forget(instance_id)
            instance = self._add(instance_id, instance.client, context)
        self._instances.move_to_end(instance_id)
        if instance.expiry is not None:
            instance.expiry.cancel()
        expires = self._timer.time() + instance.expires_after_ms / 1000
        instance.expiry = self._timer.call_at(expires, lambda: self._forget(instance_id))
        return instance

    def _add(self, instance_id: Uuid, client: Mapping[str, str], context: RequestContext) -> _Instance:
        connection_id = context.connection.connection_id
        subscription = subscription_of(instance_id, client, self._subscriptions)
        instance = _Instance(client, connection_id, subscription, self._version)
        self._instances[instance_id] = instance
        self._by_connection[connection_id] = instance_id
        if len(self._instances) > MAX_CLIENTS:
            self._forget(next(iter(self._instances)))
        return instance

    def _forget(self, instance_id: Uuid) -> None:
        instance = self._instances.pop(instance_id, None)
        if instance is None:
            return
        if instance.expiry is not None:
            instance.expiry.cancel()
        if self._by_connection.get(instance.connection_id) == instance_id:
            del self._by_connection[instance.connection_id]

    def _unused_id(self) -> Uuid:
        instance_id = self._new_id()
        while instance_id in self._instances:
            instance_id = self._new_id()
        return instance_id

    def _now_ms(self) -> float:
        return self._timer.time() * 1000


def attributes(instance_id: Uuid, context: RequestContext) -> dict[str, str]:
    """The attributes of a client, by the names that patterns of subscriptions use."""
    connection = context.connection
    known = {
        "client_instance_id": uuid_to_string(instance_id),
        "client_software_name": connection.client_software_name,
        "client_software_version": connection.client_software_version,
        "client_source_address": java_address(connection.client_host),
        "client_source_port": str(connection.client_port),
    }
    if context.client_id is not None:
        known["client_id"] = context.client_id
    return known


def subscription_of(
    instance_id: Uuid, client: Mapping[str, str], subscriptions: Mapping[str, ClientMetricsConfig]
) -> Subscription:
    """The union of the subscriptions that match a client; without any it pushes nothing, and asks again later."""
    fitting = [config for config in subscriptions.values() if config.matches(client)]
    metrics = sorted({name for config in fitting for name in config.metrics})
    if ALL_METRICS in metrics:
        metrics = [ALL_METRICS]
    interval_ms = min([CLIENT_METRICS_INTERVAL_MS.default, *(config.interval_ms for config in fitting)])
    return Subscription(subscription_id(metrics, interval_ms, instance_id), tuple(metrics), interval_ms)


def subscription_id(metrics: list[str], interval_ms: int, instance_id: Uuid) -> int:
    """A number that changes with the subscription: CRC-32C of its text, mixed with Java's hash of the client's id."""
    checksum = crc32c(f"[{', '.join(metrics)}]{interval_ms}".encode())
    high, low = _UUID.unpack(instance_id)
    mixed = high ^ low
    hashed: int = ((mixed >> 32) ^ mixed ^ checksum) & 0xFFFFFFFF
    return hashed - (1 << 32) if hashed >= 1 << 31 else hashed


def _pushing(instance_id: Uuid, instance: _Instance) -> PushingClient:
    client_id = instance.client.get("client_id", "")[:MAX_LABEL_LENGTH]
    return PushingClient(instance_id, uuid_to_string(instance_id), client_id)


def add_client_metrics(metrics: Metrics, manager: ClientMetricsManager) -> None:
    """Adds the metrics of clients and their pushes; with a store, also the series that they pushed."""
    store, prefix = manager.store, CLIENT_METRICS_PREFIX

    def dropped() -> list[Sample]:
        return [] if store is None else [((reason,), count) for reason, count in store.dropped.items()]

    metrics.add_value(f"{prefix}_clients", manager.client_count)
    metrics.add(f"{prefix}_pushes_total", lambda: [((code,), n) for code, n in manager.pushes.items()])
    metrics.add_value(f"{prefix}_series", lambda: 0 if store is None else store.series_count)
    metrics.add_value(f"{prefix}_series_limit", lambda: 0 if store is None else store.max_series)
    metrics.add(f"{prefix}_dropped_points_total", dropped)
    if store is not None:
        metrics.add_families(store.families)
