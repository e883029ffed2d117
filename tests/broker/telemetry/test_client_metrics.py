"""Which metrics clients are asked for, when they may push, and what becomes of a push."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count

import pytest

from barnabas.broker.metadata.image import CLIENT_METRICS_RESOURCE, MetadataImage
from barnabas.broker.metadata.replay import replayed
from barnabas.broker.metrics.prometheus import Metrics
from barnabas.broker.request import ConnectionInfo, RequestContext
from barnabas.broker.telemetry import client_metrics
from barnabas.broker.telemetry.client_metrics import (
    ClientMetricsManager,
    Subscription,
    add_client_metrics,
    subscription_id,
)
from barnabas.broker.telemetry.client_metrics_store import ClientMetricsStore
from barnabas.broker.waiting.blocking import InlineRunner
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages.telemetry import PushTelemetryRequest
from barnabas.protocol.messages.topic_records import ConfigRecord
from barnabas.protocol.records.compression import CompressionType, compress
from barnabas.protocol.wire import ZERO_UUID, Uuid
from tests.broker.fakes import ManualTimer
from tests.broker.held_runner import HeldRunner
from tests.broker.metrics.snapshots import snapshot_at_once
from tests.broker.telemetry.otlp_payloads import gauge, payload, point

MINUTE_MS = 60_000
NOTHING = Subscription(subscription_id([], 300_000, b"x" * 16), (), 300_000)
RATE = "org.apache.kafka.producer.rate"


class ClientMetricsHarness:
    """A manager, the metadata that it follows, and a clock."""

    def __init__(
        self, *, max_bytes: int = 1000, runner: HeldRunner | None = None, shows: bool = True
    ) -> None:
        self.timer = ManualTimer()
        self.store = ClientMetricsStore(100, self.timer) if shows else None
        ids = count(1)
        self.manager = ClientMetricsManager(
            max_bytes=max_bytes,
            store=self.store,
            runner=runner or InlineRunner(),
            timer=self.timer,
            new_id=lambda: b"new client%06d" % next(ids),
        )
        self.image = MetadataImage.empty()

    def set(self, name: str, **settings: str | None) -> None:
        """Changes a subscription; None removes a setting."""
        records = [
            ConfigRecord(
                resource_type=CLIENT_METRICS_RESOURCE,
                resource_name=name,
                name=key.replace("_", "."),
                value=value,
            )
            for key, value in settings.items()
        ]
        self.image, delta = replayed(self.image, records)
        self.manager.apply(self.image, delta)

    def client(
        self, connection_id: int = 1, client_id: str | None = "app", host: str = "192.0.2.7"
    ) -> Client:
        return Client(self, connection_id, client_id, host)

    def shown(self) -> dict[str, dict[tuple[str | None, ...], float]]:
        assert self.store is not None
        return {family.name: dict(samples) for family, samples in self.store.families()}


class Client:
    """One connection."""

    def __init__(
        self, harness: ClientMetricsHarness, connection_id: int, client_id: str | None, host: str
    ) -> None:
        self.harness = harness
        self.connection = ConnectionInfo(
            connection_id=connection_id,
            listener_name="PLAINTEXT",
            client_host=host,
            client_port=50_000,
            local_host="192.0.2.1",
            local_port=9092,
        )
        self.connection.client_software_name = "librdkafka"
        self.connection.client_software_version = "2.8.0"
        self.context = RequestContext(
            self.connection, ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, 0, client_id=client_id
        )

    def get(self, instance_id: Uuid = ZERO_UUID) -> tuple[Uuid, Subscription]:
        return self.harness.manager.get_subscription(instance_id, self.context)

    def metrics(self) -> tuple[str, ...]:
        return self.get()[1].metrics

    def refused(self, instance_id: Uuid) -> ErrorCode:
        with pytest.raises(ApiError) as caught:
            self.get(instance_id)
        return caught.value.code

    def push(
        self,
        instance_id: Uuid,
        subscription: Subscription,
        metrics: bytes = b"",
        *,
        terminating: bool = False,
        codec: int = 0,
    ) -> ErrorCode | None:
        """The code of the answer; None while there is none."""
        push = pushing(instance_id, subscription, metrics, terminating=terminating, codec=codec)
        pending = self.harness.manager.push(push, self.context)
        codes: list[ErrorCode] = []
        pending.add_done_callback(codes.append)
        return codes[0] if codes else None


def pushing(
    instance_id: Uuid,
    subscription: Subscription,
    metrics: bytes,
    *,
    terminating: bool = False,
    codec: int = 0,
) -> PushTelemetryRequest:
    return PushTelemetryRequest(
        client_instance_id=instance_id,
        subscription_id=subscription.subscription_id,
        terminating=terminating,
        compression_type=codec,
        metrics=metrics,
    )


def test_without_subscriptions_nothing_is_asked_for() -> None:
    instance_id, subscription = ClientMetricsHarness().client().get()
    assert instance_id == b"new client000001"
    assert subscription.metrics == ()
    assert subscription.push_interval_ms == 300_000


def test_a_client_gets_all_that_fits_it_at_the_shortest_interval() -> None:
    harness = ClientMetricsHarness()
    harness.set("one", metrics="b.,a.", interval_ms="5000")
    harness.set("two", metrics="a.,c.", interval_ms="3000")
    harness.set("other", metrics="d.", interval_ms="100", match="client_id=other")
    assert harness.client().get()[1][1:] == (("a.", "b.", "c."), 3000)
    harness.set("three", metrics="*")
    assert harness.client().metrics() == ("*",)
    harness.set("three", metrics=None)
    harness.set("two", metrics=None, interval_ms=None)
    assert harness.client().get()[1][1:] == (("a.", "b."), 5000)


@pytest.mark.parametrize(
    ("match", "fits"),
    [
        ("client_id=app", True),
        ("client_id=ap", False),
        ("client_id=a.*", True),
        ("client_software_name=librdkafka,client_software_version=2[.]8.*", True),
        ("client_software_name=librdkafka,client_software_version=2[.]9.*", False),
        ("client_source_address=192[.]0[.]2[.].*,client_source_port=50000", True),
        ("client_source_port=1", False),
        ("client_instance_id=[A-Za-z0-9_-]{22}", True),
    ],
)
def test_whom_a_pattern_fits(match: str, fits: bool) -> None:
    harness = ClientMetricsHarness()
    harness.set("one", metrics="a.", match=match)
    assert harness.client().metrics() == (("a.",) if fits else ())


def test_no_pattern_fits_a_client_without_a_name() -> None:
    harness = ClientMetricsHarness()
    harness.set("one", metrics="a.", match="client_id=.*")
    assert harness.client(client_id=None).metrics() == ()
    assert harness.client(client_id="").metrics() == ("a.",)


def test_addresses_are_written_as_java_writes_them() -> None:
    harness = ClientMetricsHarness()
    harness.set("one", metrics="a.", match="client_source_address=2001:db8:0:0:0:0:0:7")
    assert harness.client(host="2001:db8::7").metrics() == ("a.",)
    assert harness.client(host="2001:db8::8").metrics() == ()
    assert harness.client(host="a host").metrics() == ()


def test_a_subscription_that_another_broker_left_and_nobody_can_read_is_left_out() -> None:
    harness = ClientMetricsHarness()
    harness.set("java", metrics="a.", match=r"client_id=\p{Alpha}+")
    harness.set("right", metrics="b.")
    assert harness.client().metrics() == ("b.",)


def test_the_id_of_a_subscription_tells_what_it_asks_for() -> None:
    one, other = b"a client with id", b"another with id."
    assert subscription_id(["a."], 100, one) == subscription_id(["a."], 100, one)
    ids = {
        subscription_id(["a."], 100, one),
        subscription_id(["a."], 101, one),
        subscription_id(["b."], 100, one),
        subscription_id(["a."], 100, other),
    }
    assert len(ids) == 4
    assert all(-(1 << 31) <= number < 1 << 31 for number in ids)


def test_a_client_comes_back_after_its_interval() -> None:
    harness = ClientMetricsHarness()
    harness.set("one", metrics="a.", interval_ms="60000")
    client = harness.client()
    instance_id, subscription = client.get()
    assert client.refused(instance_id) is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert client.push(instance_id, subscription) is ErrorCode.NONE
    assert client.push(instance_id, subscription) is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    harness.timer.advance(59.9)
    assert client.push(instance_id, subscription) is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert client.refused(instance_id) is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    harness.timer.advance(0.1)
    assert client.push(instance_id, subscription) is ErrorCode.NONE
    harness.timer.advance(60)
    assert client.get(instance_id) == (instance_id, subscription)
    assert client.push(instance_id, subscription) is ErrorCode.NONE


def test_a_changed_subscription_is_fetched_at_once_and_the_old_one_is_not_known() -> None:
    harness = ClientMetricsHarness()
    harness.set("one", metrics="a.", interval_ms="60000")
    client = harness.client()
    instance_id, old = client.get()
    client.push(instance_id, old)
    harness.set("one", metrics="b.", interval_ms="60000")
    assert client.push(instance_id, old) is ErrorCode.UNKNOWN_SUBSCRIPTION_ID
    _, new = client.get(instance_id)
    assert new.metrics == ("b.",)
    assert client.refused(instance_id) is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    harness.timer.advance(60)
    assert client.push(instance_id, new) is ErrorCode.NONE


def test_who_cannot_pack_right_may_ask_again_at_once() -> None:
    harness = ClientMetricsHarness()
    client = harness.client()
    instance_id, subscription = client.get()
    assert client.push(instance_id, subscription, b"x", codec=5) is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert client.get(instance_id) == (instance_id, subscription)


def test_after_its_last_push_a_client_is_not_heard_again() -> None:
    harness = ClientMetricsHarness()
    client = harness.client()
    instance_id, subscription = client.get()
    assert client.push(instance_id, subscription) is ErrorCode.NONE
    assert client.push(instance_id, subscription, terminating=True) is ErrorCode.NONE
    assert client.push(instance_id, subscription, terminating=True) is ErrorCode.INVALID_REQUEST
    assert client.push(instance_id, subscription) is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("instance_id", [ZERO_UUID, bytes(15) + b"\x01"])
def test_no_client_has_these_ids(instance_id: Uuid) -> None:
    assert ClientMetricsHarness().client().push(instance_id, NOTHING) is ErrorCode.INVALID_REQUEST


def test_too_large_packed_or_unpacked() -> None:
    harness = ClientMetricsHarness(max_bytes=100)
    client = harness.client()
    instance_id, subscription = client.get()
    assert client.push(instance_id, subscription, bytes(101)) is ErrorCode.TELEMETRY_TOO_LARGE
    harness.timer.advance(300)
    bomb = compress(CompressionType.ZSTD, bytes(1 << 20))
    assert len(bomb) < 100
    code = client.push(instance_id, subscription, bomb, codec=CompressionType.ZSTD)
    assert code is ErrorCode.INVALID_RECORD


def test_pushed_metrics_are_shown_when_the_push_is_answered() -> None:
    runner = HeldRunner()
    harness = ClientMetricsHarness(runner=runner)
    client = harness.client()
    instance_id, subscription = client.get()
    codes: list[ErrorCode] = []
    push = pushing(instance_id, subscription, payload(gauge(RATE, point(1.5))))
    harness.manager.push(push, client.context).add_done_callback(codes.append)
    assert (codes, harness.shown()) == ([], {})
    runner.release_all()
    assert codes == [ErrorCode.NONE]
    labels = ("app", "bmV3IGNsaWVudDAwMDAwMQ")
    assert harness.shown() == {"org_apache_kafka_producer_rate": {labels: 1.5}}


def test_what_is_no_metrics_is_refused() -> None:
    harness = ClientMetricsHarness()
    client = harness.client()
    instance_id, subscription = client.get()
    assert client.push(instance_id, subscription, b"\xff" * 9) is ErrorCode.INVALID_RECORD
    assert harness.shown() == {}


def test_where_nobody_looks_metrics_are_checked_and_forgotten() -> None:
    harness = ClientMetricsHarness(shows=False)
    assert not harness.manager.is_offered
    client = harness.client()
    instance_id, subscription = client.get()
    assert client.push(instance_id, subscription, b"whatever it is") is ErrorCode.NONE
    harness.timer.advance(300)
    assert client.push(instance_id, subscription, b"no gzip", codec=1) is ErrorCode.INVALID_RECORD


def test_metrics_outlive_their_client_for_a_while() -> None:
    harness = ClientMetricsHarness()
    client = harness.client()
    instance_id, subscription = client.get()
    client.push(instance_id, subscription, payload(gauge(RATE, point(1.5))), terminating=True)
    harness.manager.connection_closed(1)
    assert harness.manager.client_count() == 0
    harness.timer.advance(899)
    assert harness.shown() != {}
    harness.timer.advance(1)
    assert harness.shown() == {}


def test_over_a_new_connection_a_client_begins_anew() -> None:
    harness = ClientMetricsHarness()
    instance_id, _ = harness.client(connection_id=1).get()
    assert harness.client(connection_id=2).refused(instance_id) is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    harness.manager.connection_closed(2)
    assert harness.client(connection_id=3).refused(instance_id) is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    harness.manager.connection_closed(1)
    harness.client(connection_id=3).get(instance_id)
    harness.manager.connection_closed(1)
    harness.manager.connection_closed(99)
    assert harness.manager.client_count() == 1


@pytest.mark.parametrize(("interval_ms", "expiry_s"), [(1_000, 60), (300_000, 900)])
def test_who_is_silent_is_forgotten(interval_ms: int, expiry_s: int) -> None:
    harness = ClientMetricsHarness()
    harness.set("one", metrics="a.", interval_ms=str(interval_ms))
    client = harness.client()
    client.get()
    harness.timer.advance(expiry_s - 0.5)
    assert harness.manager.client_count() == 1
    harness.timer.advance(0.5)
    assert harness.manager.client_count() == 0


def test_only_so_many_clients_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_metrics, "MAX_CLIENTS", 3)
    harness = ClientMetricsHarness()
    ids = [harness.client(connection_id=number).get()[0] for number in range(4)]
    assert harness.manager.client_count() == 3
    harness.client(connection_id=9).get(ids[0])
    assert harness.client().refused(ids[0]) is ErrorCode.THROTTLING_QUOTA_EXCEEDED


def values(harness: ClientMetricsHarness) -> Mapping[str, dict[tuple[str, ...], float]]:
    metrics = Metrics()
    add_client_metrics(metrics, harness.manager)
    return {family.name: dict(samples) for family, samples in snapshot_at_once(metrics)}


def test_how_it_goes_is_shown_as_well() -> None:
    harness = ClientMetricsHarness()
    client = harness.client()
    instance_id, subscription = client.get()
    client.push(instance_id, subscription, payload(gauge(RATE, point(1.5)), gauge("kafka.x", point(1.0))))
    client.push(instance_id, subscription)
    shown = values(harness)
    assert shown["barnabas_client_metrics_clients"] == {(): 1}
    assert shown["barnabas_client_metrics_series"] == {(): 1}
    assert shown["barnabas_client_metrics_series_limit"] == {(): 100}
    assert shown["barnabas_client_metrics_dropped_points_total"] == {("not showable",): 1}
    assert shown["barnabas_client_metrics_pushes_total"] == {
        ("NONE",): 1,
        ("THROTTLING_QUOTA_EXCEEDED",): 1,
    }
    assert len(shown["org_apache_kafka_producer_rate"]) == 1
    assert values(ClientMetricsHarness(shows=False))["barnabas_client_metrics_series_limit"] == {(): 0}
